package life

// How does a feature begin? With its entry in features.yaml at stage alpha, its marker in the Go types, the
// generated files and a test that runs with the feature on and off. If there is no features.yaml yet, one is
// made that fits the layout of the project.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/build"
	"go/format"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/feature"
	"sluice.dev/internal/input"
)

// NewFeature is a feature to add to a project.
type NewFeature struct {
	Gate        string
	Description string
	// Release is the first release with the feature; empty for the one that features.yaml prepares.
	Release string
	// Field is the field that the feature gates, as TYPE.FIELD or PACKAGE.TYPE.FIELD in Go; empty for behaviour.
	Field string
	// Version is the API version that the feature gates, as VERSION or GROUP/VERSION; empty for none. If the Go packages do not have it, it begins
	// as a copy of the stored one.
	Version string
}

// CRDsBesideBases is the folder of CRDs in a project of kubebuilder, whose controller-gen writes over config/crd/bases.
const CRDsBesideBases = "config/crd/features/"

// nextRelease is the minor release after the newest tag of the repository, or else the first one.
func nextRelease(ctx context.Context) string {
	newest := semver.New(0, 0, 0, "", "")
	tags, err := input.Tags(ctx, "v*")
	if err != nil {
		tags = nil // without git or a repository
	}
	for _, tag := range tags {
		if v, err := semver.NewVersion(tag); err == nil && v.Prerelease() == "" && v.GreaterThan(newest) {
			newest = v
		}
	}
	next := newest.IncMinor()
	return "v" + next.String()
}

// Scaffold adds a feature at stage alpha to the project of features.yaml at name: its entry there, its marker in the Go types, the
// generated files, and a test for on and off. If features.yaml does not exist, it creates it. It writes nothing, but returns the files.
// The error lists the mistakes of the resulting project.
func Scaffold(ctx context.Context, name string, f NewFeature, day time.Time) (Outputs, error) {
	data, err := os.ReadFile(name) //nolint:gosec // the file that the user names
	if errors.Is(err, os.ErrNotExist) {
		data, err = newFeaturesFile(ctx, filepath.Dir(name), &f)
	}
	if err != nil {
		return nil, err
	}
	plain, restore := unixLines(data)
	text, err := withEntry(ctx, name, []byte(plain), &f)
	if err != nil {
		return nil, err
	}
	text = restore(string(text))
	file, err := parseFile(ctx, name, text)
	if err != nil {
		return nil, err
	}
	if file.Output.Go == "" {
		return nil, file.problemAt("output", "output.go is missing: the file of the Go constants, such as internal/features/zz_generated.features.go")
	}
	p, types, err := loadMarked(ctx, file, &f, day)
	if err != nil {
		return nil, err
	}
	out, err := p.Outputs(ctx, Channel{})
	if err != nil {
		return nil, err
	}
	out = append(out, outFile{name, text})
	test := outFile{file.TestOf(f.Gate), nil}
	if _, err := os.Stat(test.path); err == nil {
		return nil, fmt.Errorf("%s exists: remove it, or write the test of %s there", test.path, f.Gate)
	}
	if test.data, err = p.testOf(f.Gate); err != nil {
		return nil, err
	}
	return append(append(out, types...), test), nil
}

// TestOf is the file of the test that [Scaffold] writes for a gate, relative to the working directory.
func (f *File) TestOf(gate string) string {
	return filepath.Join(filepath.Dir(f.resolvePath(f.Output.Go)), fileName(gate)+"_test.go")
}

// loadMarked reads the project with the marker of a new feature, and returns the Go files that change. If the feature gates a version that no package
// has, there is one while the project is read.
func loadMarked(ctx context.Context, file *File, f *NewFeature, day time.Time) (*Project, Outputs, error) {
	if f.Field == "" && f.Version == "" {
		p, err := loadWith(ctx, file, day, nil)
		return p, nil, err
	}
	added := &addedMark{field: f.Field, version: f.Version, gate: f.Gate}
	p, err := loadWith(ctx, file, day, added)
	var copied Outputs
	if missing := (*noVersionError)(nil); errors.As(err, &missing) {
		c, err := file.copyFor(ctx, missing, path.Base(f.Version))
		if err != nil {
			return nil, nil, err
		}
		copied = c.allFiles()
		undo, err := copied.stage()
		if err != nil {
			return nil, nil, err
		}
		defer undo()
		added = &addedMark{version: f.Version, gate: f.Gate}
		p, err = loadWith(ctx, file, day, added)
		if errors.As(err, &missing) {
			return nil, nil, file.problemAt("source.packages", "%s is not among these packages, where the new version will be: name a pattern such as ./api/... that has both versions", filepath.ToSlash(c.dir))
		}
		if err != nil {
			return nil, nil, err
		}
	} else if err != nil {
		return nil, nil, err
	}
	marked, err := withLinesAdded(added.lines)
	if err != nil {
		return nil, nil, err
	}
	// Of a file that is copied and gets the marker, the one with the marker counts.
	copied = slices.DeleteFunc(copied, func(c outFile) bool {
		return slices.ContainsFunc(marked, func(m outFile) bool { return m.path == c.path })
	})
	return p, append(copied, marked...), nil
}

// copyFor is the package of a version that no package has, as a copy that compiles.
func (f *File) copyFor(ctx context.Context, missing *noVersionError, version string) (*packageCopy, error) {
	from, err := missing.copySource()
	if err != nil {
		return nil, err
	}
	c, err := copyVersion(&from, version, missing.others)
	if err != nil {
		return nil, err
	}
	return c, c.checkCompiles(ctx, f.dir)
}

// newFeaturesFile is a new features.yaml for the module at dir, laid out by kubebuilder or not.
func newFeaturesFile(ctx context.Context, dir string, f *NewFeature) ([]byte, error) {
	module, err := os.ReadFile(filepath.Join(dir, "go.mod")) //nolint:gosec // beside the file that the user names
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no %s: begin a Go module first (go mod init), since a new features.yaml belongs into its folder", filepath.ToSlash(filepath.Join(dir, "go.mod")))
	}
	if err != nil {
		return nil, err
	}
	name, goFile := "component", "features/zz_generated.features.go"
	if m := moduleLine.FindSubmatch(module); m != nil {
		name = path.Base(string(m[1]))
	}
	// The folder api is where kubebuilder and most operators have their types.
	packages, crds := "", ""
	if entries, err := os.ReadDir(filepath.Join(dir, "api")); err == nil && len(entries) > 0 {
		packages, crds = "./api/...", "config/crd/"
	} else if f.Field != "" || f.Version != "" {
		packages = "./..."
	}
	if data, err := os.ReadFile(filepath.Join(dir, "PROJECT")); err == nil { //nolint:gosec // kubebuilder's file in the project
		var project struct {
			ProjectName string `json:"projectName"`
		}
		if err := yaml.Unmarshal(data, &project); err != nil {
			return nil, fmt.Errorf("PROJECT: %w", err)
		}
		name, goFile = cmp.Or(project.ProjectName, name), "internal/features/zz_generated.features.go"
		if crds != "" {
			crds = CRDsBesideBases
		}
	}
	name = cmp.Or(strings.Trim(notInNames.ReplaceAllString(strings.ToLower(name), "-"), "-0123456789"), "component")
	quoted, err := yaml.Marshal(name) // true, for example, has to be a string
	if err != nil {
		return nil, err
	}
	return fillBuiltIn("features.yaml.tmpl", map[string]string{
		"Name": name, "Component": strings.TrimSpace(string(quoted)), "Release": cmp.Or(f.Release, nextRelease(ctx)), "Packages": packages, "Go": goFile, "CRDs": crds,
	})
}

// moduleLine is where go.mod names the module.
var moduleLine = regexp.MustCompile(`(?m)^module\s+"?([^\s"]+)`)

// notInNames are characters that the name of a component cannot have.
var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// withEntry is features.yaml with the feature at the end of its list.
func withEntry(ctx context.Context, name string, data []byte, f *NewFeature) ([]byte, error) {
	file, err := parseFile(ctx, name, data)
	if err != nil {
		return nil, err
	}
	if e, _ := file.entryOf(f.Gate); e != nil {
		i := slices.IndexFunc(file.Features, func(e Entry) bool { return e.Gate == f.Gate })
		return nil, file.problemAt(fmt.Sprintf("features[%d].gate", i), "there is a feature %s", f.Gate)
	}
	if err := file.checkScaffolded(f); err != nil {
		return nil, err
	}
	f.Release = cmp.Or(f.Release, file.Spec.Release)
	if f.Release == "" {
		return nil, errors.New("which release is the first with the feature? Give --release, or say spec.release in " + name)
	}
	lines, end, indent, err := file.endOfFeatures(strings.SplitAfter(strings.TrimRight(string(data), "\n")+"\n", "\n"))
	if err != nil {
		return nil, fmt.Errorf("%s%w", name, err)
	}
	entry := []string{"- gate: " + f.Gate + "\n"}
	if f.Description != "" {
		text, err := yaml.Marshal(map[string]string{"description": f.Description})
		if err != nil {
			return nil, err
		}
		for l := range strings.Lines(string(text)) {
			entry = append(entry, "  "+l)
		}
	}
	if f.Field == "" && f.Version == "" {
		entry = append(entry, "  behaviourOnly: true\n")
	}
	entry = append(entry, fmt.Sprintf("  tests: {enabled: [%[1]s/on], disabled: [%[1]s/off]}\n", testName(f.Gate)), "  stages:\n", "  - {stage: Alpha, release: "+f.Release+"}\n")
	for i := range entry {
		entry[i] = indent + entry[i]
	}
	return []byte(strings.Join(slices.Insert(lines, end, entry...), "")), nil
}

// versionName matches the name of a version, with its group or without.
var versionName = regexp.MustCompile(`^([a-z0-9.-]+/)?v[0-9]+((alpha|beta)[0-9]+)?$`)

// checkScaffolded reports what a new feature cannot gate in the project.
func (f *File) checkScaffolded(n *NewFeature) error {
	switch {
	case n.Field != "" && n.Version != "":
		return errors.New("a feature gates a field or a version: give --field or --version")
	case n.Version != "" && !versionName.MatchString(n.Version):
		return fmt.Errorf("%q is no version: name one such as v2alpha1, or with its group, book.example.dev/v2alpha1", n.Version)
	case n.Field != "" && len(f.Source.Packages) == 0:
		return f.problemAt("source", "source.packages is missing: the Go packages with the field %s", n.Field)
	case n.Version != "" && len(f.Source.Packages) == 0:
		return f.problemAt("source", "source.packages is missing: the Go packages with the other versions. For CRDs without Go types, add the version there, and write parts: [{group: GROUP, resource: PLURAL, versions: [%s], wholeVersion: true}]", path.Base(n.Version))
	}
	return nil
}

// endOfFeatures returns the lines with a list of features, where the list ends, and how far its lines are indented.
func (f *File) endOfFeatures(lines []string) (out []string, end int, indent string, err error) {
	n := len(f.Features)
	if n == 0 {
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "features:") })
		if i < 0 {
			i = len(lines) - 1
			lines = slices.Insert(lines, i, "")
		}
		lines[i] = "features:\n"
		return lines, i + 1, "", nil
	}
	at, _ := f.at.Find(input.Steps(fmt.Sprintf("features[%d]", n-1))...)
	last := lines[at.Line-1]
	indent = last[:len(last)-len(strings.TrimLeft(last, " "))]
	if !strings.HasPrefix(last[len(indent):], "- ") {
		return nil, 0, "", fmt.Errorf(":%d: the features are to be a list of lines that begin with -", at.Line)
	}
	end = at.Line
	for i, text := range lines[at.Line:] {
		below := strings.HasPrefix(text, indent+" ")
		if !below && text != "\n" && !strings.HasPrefix(text, "#") {
			break
		}
		if below {
			end = at.Line + i + 1
		}
	}
	return lines, end, indent, nil
}

// fileName is a gate as the name of a Go file: words in small letters with _ between them.
func fileName(gate string) string {
	name := strings.ToLower(wordStart.ReplaceAllString(gate, "${1}_${2}"))
	// A name with a system at its end, such as run_on_windows, is built for that system only.
	elsewhere := build.Context{GOOS: "none", GOARCH: "none", Compiler: "gc", OpenFile: func(string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("package p\n")), nil
	}}
	if built, err := elsewhere.MatchFile("", name+"_test.go"); err != nil || !built {
		name += "_feature"
	}
	return name
}

var wordStart = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// testName is the name of the test of a feature. TestMain would mean something else to the go command.
func testName(gate string) string {
	if gate == "Main" {
		return "TestMainGate"
	}
	return "Test" + gate
}

// testOf is a test of a feature, on and off: with an object that uses it, or of the gate alone.
func (p *Project) testOf(gate string) ([]byte, error) {
	pkg, err := p.goPackage()
	if err != nil {
		return nil, err
	}
	data := map[string]any{"Package": pkg, "Test": testName(gate), "Gate": gate}
	if f := p.Model.Feature(gate); f != nil && len(f.Targets) > 0 {
		t := &f.Targets[0]
		data["Target"], data["What"] = t, t.Path.String()
		if t.WholeVersion {
			data["What"] = "version " + t.Version
		}
		data["Object"] = strings.ReplaceAll(fmt.Sprintf("%#v", objectWith(t.Path, schemaAt(p.State(), t))), "interface {}", "any")
	}
	code, err := fillBuiltIn("test.go.tmpl", data)
	if err != nil {
		return nil, err
	}
	return format.Source(code)
}

// objectWith is an object with little more than the field at a path.
func objectWith(path feature.Path, s *apiextensionsv1.JSONSchemaProps) any {
	if len(path) == 0 {
		return exampleValue(s)
	}
	below := objectWith(path[1:], s)
	switch path[0].Kind {
	case feature.Field:
		return map[string]any{path[0].Name: below}
	case feature.Items:
		return []any{below}
	case feature.Entries, feature.Each:
	}
	return map[string]any{"x": below}
}

// exampleValue is a value of a type.
func exampleValue(s *apiextensionsv1.JSONSchemaProps) any {
	if s == nil {
		return "x"
	}
	switch {
	case len(s.Enum) > 0:
		return plainScalar(string(s.Enum[0].Raw))
	case s.Type == "array" && s.Items != nil:
		return []any{exampleValue(s.Items.Schema)}
	case s.Type == "object":
		out := map[string]any{}
		for _, name := range s.Required {
			p := s.Properties[name]
			out[name] = exampleValue(&p)
		}
		return out
	case s.Type == "boolean":
		return true
	case s.Type == "integer", s.Type == "number":
		return int64(1)
	}
	return "x"
}
