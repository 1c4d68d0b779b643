package life

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sluice.dev/api/v1alpha1"
)

// laidOut is a project as kubebuilder lays it out, and bare is a module with a program only.
const (
	laidOut = `-- PROJECT --
domain: example.dev
layout: [go.kubebuilder.io/v4]
projectName: guestbook
-- api/v1/groupversion_info.go --
// Package v1 is the API.
// +kubebuilder:object:generate=true
// +groupName=book.example.dev
package v1
-- api/v1/guestbook_types.go --
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GuestbookSpec is what is wanted.
type GuestbookSpec struct {
	// Title stands above.
	// +optional
	Title string ` + "`json:\"title,omitempty\"`" + `
	// Entries are lines.
	Entries []Entry ` + "`json:\"entries,omitempty\"`" + `
	Small Small ` + "`json:\"small,omitempty\"`" + `
}

// Small has one field.
type Small struct{ X string ` + "`json:\"x,omitempty\"`" + ` }

// Entry is a line.
type Entry struct {
	Text string ` + "`json:\"text\"`" + `
	// Style is how it looks.
	// +kubebuilder:validation:Enum=Bold;Thin
	Style string ` + "`json:\"style,omitempty\"`" + `
	// Odd has a name that is no identifier.
	Odd string ` + "`json:\"odd.name,omitempty\"`" + `
}

// +kubebuilder:object:root=true

// Guestbook is a book.
type Guestbook struct {
	metav1.TypeMeta   ` + "`json:\",inline\"`" + `
	metav1.ObjectMeta ` + "`json:\"metadata,omitempty\"`" + `

	Spec GuestbookSpec ` + "`json:\"spec,omitempty\"`" + `
}
`
	bare = "-- main.go --\npackage main\n\nfunc main() {}\n"
)

// withSluice has the project of a test take package sluice.dev from here.
func withSluice(t *testing.T, archive string) {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	root, err := filepath.Abs(filepath.Join(filepath.Dir(file), "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	project(t, archive)
	write(t, "go.mod", read(t, "go.mod")+"\nrequire sluice.dev v0.0.0\n\nreplace sluice.dev => "+root+"\n")
}

func scaffold(t *testing.T, f NewFeature) {
	t.Helper()
	out, err := Scaffold(t.Context(), "features.yaml", f, verifyDay)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write(); err != nil {
		t.Fatal(err)
	}
	// The files are those that the next run generates.
	p, err := load(t)
	if err != nil {
		t.Fatal(err)
	}
	if out, err = p.Outputs(t.Context(), Channel{}); err != nil {
		t.Fatal(err)
	}
	if err := out.Each(func(path string, _, _ []byte) { t.Errorf("%s is not up to date", path) }); err != nil {
		t.Fatal(err)
	}
}

// goTest runs the tests of the project.
func goTest(t *testing.T, folder string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-mod=mod", "-v", folder)
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestAScaffoldedFeatureOfAKubebuilderProject(t *testing.T) {
	withSluice(t, laidOut)
	scaffold(t, NewFeature{Gate: "BookTitle", Description: "A book can have a title: one line.", Field: "GuestbookSpec.Title"})
	scaffold(t, NewFeature{Gate: "Styles", Field: "v1.Entry.Style", Release: "v0.1.0"})
	scaffold(t, NewFeature{Gate: "FastPath"})
	scaffold(t, NewFeature{Gate: "OddName", Field: "Entry.Odd"})

	types := read(t, "api/v1/guestbook_types.go")
	for _, want := range []string{"\t// +optional\n\t// +sluice:feature=BookTitle\n\tTitle string", "Enum=Bold;Thin\n\t// +sluice:feature=Styles\n\tStyle string"} {
		if !strings.Contains(types, want) {
			t.Errorf("there is no %q in\n%s", want, types)
		}
	}
	if text := read(t, "features.yaml"); !strings.Contains(text, "component: guestbook\n") || !strings.Contains(text, "description: 'A book can have a title: one line.'\n") {
		t.Errorf("features.yaml is\n%s", text)
	}
	if crd := read(t, "config/crd/features/book.example.dev_guestbooks.yaml"); !strings.Contains(strings.Join(strings.Fields(crd), " "), "feature Styles of component guestbook") {
		t.Errorf("the CRD is\n%s", crd)
	}
	out, err := goTest(t, "./internal/features")
	for _, want := range []string{"TestBookTitle/on", "TestBookTitle/off", "TestStyles/on", "TestStyles/off", "TestFastPath/on", "TestFastPath/off", "TestOddName/on", "TestOddName/off"} {
		if err != nil || !strings.Contains(out, "--- PASS: "+want) {
			t.Fatalf("%s did not pass: %v\n%s", want, err, out)
		}
	}

	// The tests fail when the parts are gone.
	const code = "internal/features/zz_generated.features.go"
	if !strings.Contains(read(t, code), `Field: "spec.entries[*].style"`) {
		t.Fatalf("the code is\n%s", read(t, code))
	}
	write(t, code, strings.ReplaceAll(read(t, code), "spec.entries[*].style", "spec.entries[*].other"))
	if out, err := goTest(t, "./internal/features"); err == nil || !strings.Contains(out, "--- FAIL: TestStyles/off") || strings.Contains(out, "--- FAIL: TestBookTitle") {
		t.Errorf("the tests of another part: %v\n%s", err, out)
	}
}

// TestAnAuthorsDay goes from a project without features to the removal of a gate, with the steps of the commands. After each the generated files are
// up to date, and all packages compile and pass.
func TestAnAuthorsDay(t *testing.T) {
	withSluice(t, laidOut)
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false", "commit", "-q", "-m", "one"}, {"tag", "v0.3.1"}, {"tag", "v0.4.0"}, {"tag", "v1.0.0-rc.1"}} {
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	scaffold(t, NewFeature{Gate: "BookTitle", Field: "GuestbookSpec.Title"})
	if text := read(t, "features.yaml"); !strings.Contains(text, "release: v0.5.0\n  configMap: {namespace: guestbook-system, name: feature-flags}\n") {
		t.Errorf("features.yaml is\n%s", text)
	}
	write(t, "features.yaml", strings.Replace(read(t, "features.yaml"), "- gate: BookTitle\n", "- gate: BookTitle\n  documentation: docs/title.md\n", 1)+
		"releases:\n- {release: v0.5.0, date: 2025-01-01}\n- {release: v0.6.0, date: 2025-02-01}\n- {release: v0.7.0, date: 2025-03-01}\n- {release: v0.8.0, date: 2025-04-01}\n- {release: v0.9.0, date: 2025-05-01}\n")
	write(t, "docs/title.md", "# Titles\n")
	const code, crd = "internal/features/zz_generated.features.go", "config/crd/features/book.example.dev_guestbooks.yaml"
	steps := []struct {
		entry     v1alpha1.FeatureStage
		crd, code string
	}{
		{v1alpha1.FeatureStage{Stage: v1alpha1.Alpha, Release: "v0.5.0"}, "Alpha since v0.5.0, off by default", "BookTitle"},
		{v1alpha1.FeatureStage{Stage: v1alpha1.Beta, Release: "v0.6.0"}, "Beta since v0.6.0, off by default", "BookTitle"},
		{v1alpha1.FeatureStage{Stage: v1alpha1.Stable, Release: "v0.7.0"}, "Stable since v0.7.0, on by default", "BookTitle"},
		{v1alpha1.FeatureStage{Release: "v0.8.0", LockToDefault: true}, "Stable since v0.7.0, always on", "BookTitle"},
		{v1alpha1.FeatureStage{Stage: v1alpha1.Removed, Release: "v0.10.0"}, "Title stands above.", "Declaration"},
	}
	for i, step := range steps {
		if i > 0 {
			p, err := load(t)
			if err != nil {
				t.Fatal(err)
			}
			out, why, err := p.Promote(t.Context(), "BookTitle", step.entry, promoteDay)
			if err != nil || out == nil {
				t.Fatalf("%+v: %v %v", step.entry, err, why)
			}
			if _, err := out.Write(); err != nil {
				t.Fatal(err)
			}
			write(t, "features.yaml", strings.Replace(read(t, "features.yaml"), "release: "+steps[i-1].entry.Release+"\n  configMap", "release: "+step.entry.Release+"\n  configMap", 1))
		}
		if step.entry.LockToDefault { // off is no choice any more
			if err := os.Remove("internal/features/book_title_test.go"); err != nil {
				t.Fatal(err)
			}
		}
		p, err := load(t)
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.Outputs(t.Context(), Channel{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(strings.Fields(read(t, crd)), " "); !strings.Contains(text, step.crd) || i == 4 && strings.Contains(text, "feature BookTitle") {
			t.Errorf("%+v: the CRD is\n%s", step.entry, text)
		}
		if !strings.Contains(read(t, code), step.code) {
			t.Errorf("%+v: the code is\n%s", step.entry, read(t, code))
		}
		if out, err := goTest(t, "./..."); err != nil {
			t.Fatalf("%+v: %v\n%s", step.entry, err, out)
		}
	}
	if strings.Contains(read(t, "api/v1/guestbook_types.go"), "sluice:feature") {
		t.Error("the marker is left")
	}
}

func TestAScaffoldedFeatureOfABareProject(t *testing.T) {
	withSluice(t, bare)
	scaffold(t, NewFeature{Gate: "FastPath", Release: "v0.3.0"})
	scaffold(t, NewFeature{Gate: "HTTP2Push"})
	scaffold(t, NewFeature{Gate: "Main"})
	if text := read(t, "features.yaml"); !strings.Contains(text, "release: v0.3.0\n") || strings.Contains(text, "source:") {
		t.Errorf("features.yaml is\n%s", text)
	}
	out, err := goTest(t, "./features")
	for _, want := range []string{"TestFastPath/on", "TestFastPath/off", "TestHTTP2Push/on", "TestMainGate/off"} {
		if err != nil || !strings.Contains(out, "--- PASS: "+want) {
			t.Fatalf("%s did not pass: %v\n%s", want, err, out)
		}
	}
}

func TestWhereAnEntryIsWritten(t *testing.T) {
	const head = "apiVersion: sluice.dev/v1alpha1\nkind: FeatureFile\ncomponent: a\n"
	entry := "- gate: B\n  behaviourOnly: true\n  tests: {enabled: [TestB/on], disabled: [TestB/off]}\n  stages:\n  - {stage: Alpha, release: v1.0.0}\n"
	old := "- gate: A # one\n  behaviourOnly: true\n  stages:\n  - stage: Alpha\n    release: v1.0.0\n"
	indented := func(s string) string {
		return "  " + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n  ") + "\n"
	}
	for _, tt := range []struct{ name, text, want string }{
		{"no list", head, head + "features:\n" + entry},
		{"an empty list", head + "features: []\noutput: {go: x.go}\n", head + "features:\n" + entry + "output: {go: x.go}\n"},
		{"the end of the file", head + "features:\n" + old, head + "features:\n" + old + entry},
		{"no line feed", head + "features:\n" + strings.TrimSuffix(old, "\n"), head + "features:\n" + old + entry},
		{"before another key", head + "features:\n" + old + "\n# the files\noutput: {go: x.go}\n", head + "features:\n" + old + entry + "\n# the files\noutput: {go: x.go}\n"},
		{"an indented list", head + "features:\n" + indented(old) + "output: {go: x.go}\n", head + "features:\n" + indented(old) + indented(entry) + "output: {go: x.go}\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := withEntry(t.Context(), "features.yaml", []byte(tt.text), &NewFeature{Gate: "B", Release: "v1.0.0"})
			if err != nil || string(got) != tt.want {
				t.Errorf("%v\n%s", err, got)
			}
		})
	}
	flow := head + "features: [{gate: A, behaviourOnly: true, stages: [{stage: Alpha, release: v1.0.0}]}]\n"
	if _, err := withEntry(t.Context(), "features.yaml", []byte(flow), &NewFeature{Gate: "B", Release: "v1.0.0"}); err == nil || !strings.Contains(err.Error(), "features.yaml:4: the features are to be a list of lines") {
		t.Error(err)
	}
}

func TestWhatCannotBeScaffoldedChangesNothing(t *testing.T) {
	for _, tt := range []struct {
		name, archive, want string
		f                   NewFeature
	}{
		{"a field that is not there", laidOut, `there is no field "GuestbookSpec.Tittle" (did you mean "GuestbookSpec.Title"?) in the packages of source`, NewFeature{Gate: "A", Field: "GuestbookSpec.Tittle"}},
		{"a required field", laidOut, "api/v1/guestbook_types.go:20: A: version v1: spec.entries[*].text is required", NewFeature{Gate: "A", Field: "Entry.Text"}},
		{"a field that shares its line", laidOut, "has no line of its own", NewFeature{Gate: "A", Field: "Small.X"}},
		{"a name that is none", laidOut, `"bookTitle" is no name of a gate`, NewFeature{Gate: "bookTitle"}},
		{"a field of no API", bare, `there is no field "Spec.X"`, NewFeature{Gate: "A", Field: "Spec.X"}},
		{"a test that exists", laidOut + "-- internal/features/a_test.go --\npackage features\n", "internal/features/a_test.go exists", NewFeature{Gate: "A"}},
		{"an import that is nowhere", laidOut + "-- api/v1/more.go --\npackage v1\n\nimport _ \"nowhere.example.com/x\"\n", "api/v1/more.go:3: ", NewFeature{Gate: "A", Field: "Entry.Style"}},
		{"a package that does not compile", laidOut + "-- api/v1/more.go --\npackage v1\n\nfunc {\n", "api/v1/more.go:3: ", NewFeature{Gate: "A"}},
		{"a release that is none", laidOut, "one", NewFeature{Gate: "A", Release: "one"}},
		{"no output for Go", laidOut + "-- features.yaml --\napiVersion: sluice.dev/v1alpha1\nkind: FeatureFile\ncomponent: a\nspec: {release: v1.0.0}\nsource: {packages: [./api/...]}\noutput: {docs: d.md}\n", "features.yaml:6: output.go is missing", NewFeature{Gate: "A"}},
		{"a version that is none", laidOut, `"two" is no version`, NewFeature{Gate: "A", Version: "two"}},
		{"the version in which objects are stored", laidOut, "api/v1/groupversion_info.go:4: v1 is stable, and objects are stored in it", NewFeature{Gate: "A", Version: "v1"}},
		{"a version and a field", laidOut, "give --field or --version", NewFeature{Gate: "A", Version: "v2", Field: "Entry.Style"}},
		{"a version of another group", laidOut, "no package of source has the version x.dev/v2; they have book.example.dev/v1", NewFeature{Gate: "A", Version: "x.dev/v2"}},
		{"a version of several groups", laidOut + "-- api/b/v1/b.go --\n// +groupName=b.dev\npackage v1\n\nimport metav1 \"k8s.io/apimachinery/pkg/apis/meta/v1\"\n\n// +kubebuilder:object:root=true\n\n// B is one.\ntype B struct {\n\tmetav1.TypeMeta `json:\",inline\"`\n\tmetav1.ObjectMeta `json:\"metadata,omitempty\"`\n}\n", "name the group too, as in b.dev/v2", NewFeature{Gate: "A", Version: "v2"}},
		{"a version whose folder has no kind", laidOut + "-- api/v2/x.go --\npackage v2\n", "api/v2 exists, but has no kind of the group book.example.dev in version v2", NewFeature{Gate: "A", Version: "v2"}},
		{"a version that the packages would not have", laidOut + "-- features.yaml --\napiVersion: sluice.dev/v1alpha1\nkind: FeatureFile\ncomponent: a\nspec: {release: v1.0.0}\nsource:\n  packages: [./api/v1]\noutput: {go: f/d.go}\n", "features.yaml:6: api/v2 is not among these packages", NewFeature{Gate: "A", Version: "v2"}},
		{"a version that makes the project wrong", laidOut, `"a" is no name of a gate`, NewFeature{Gate: "a", Version: "v2"}},
		{"no packages", laidOut + "-- features.yaml --\napiVersion: sluice.dev/v1alpha1\nkind: FeatureFile\ncomponent: a\nspec: {release: v1.0.0}\nsource: {crds: [c.yaml]}\noutput: {go: f/d.go}\n", "features.yaml:5: source.packages is missing", NewFeature{Gate: "A", Field: "Entry.Style"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withSluice(t, tt.archive)
			before := tree(t)
			out, err := Scaffold(t.Context(), "features.yaml", tt.f, verifyDay)
			if err == nil || !strings.Contains(err.Error(), tt.want) || out != nil {
				t.Errorf("the error is %v", err)
			}
			if after := tree(t); !slices.Equal(before, after) {
				t.Errorf("the files are %v, they were %v", after, before)
			}
		})
	}
}

// tree are the files of the current folder.
func tree(t *testing.T) (out []string) {
	t.Helper()
	if err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path+"\n"+read(t, path))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestATestIsBuiltEverywhere: the go command leaves out a file with the name of another system at its end.
func TestATestIsBuiltEverywhere(t *testing.T) {
	for gate, want := range map[string]string{
		"FastPath": "fast_path", "RunOnWindows": "run_on_windows_feature", "UseArm64": "use_arm64_feature", "UnixSocketLinux": "unix_socket_linux_feature", "Windows": "windows",
	} {
		if got := fileName(gate); got != want {
			t.Errorf("%s: %s, want %s", gate, got, want)
		}
	}
}

// withAGroupVersion adds what kubebuilder writes into the package of a version.
const withAGroupVersion = `-- api/v1/zz_generated.deepcopy.go --
//go:build !ignore_autogenerated

package v1

// DeepCopy copies.
func (in *Entry) DeepCopy() *Entry { out := *in; return &out }
-- api/v1/register.go --
package v1

import "k8s.io/apimachinery/pkg/runtime/schema"

// GroupVersion is v1.
var GroupVersion = schema.GroupVersion{Group: "book.example.dev", Version: "v1"}

// Full is the name of the version, and Core that of another.
const Full, Core = "book.example.dev/v1", "apps/v1"

// Secret is a kind of another version of the same name.
var Secret = struct{ APIVersion, Kind string }{APIVersion: "v1", Kind: "Secret"}
-- api/v1/conversion.go --
package v1

// Hub is the version to which others are converted.
func (*Guestbook) Hub() {}
`

func TestAScaffoldedVersion(t *testing.T) {
	withSluice(t, laidOut+withAGroupVersion)
	scaffold(t, NewFeature{Gate: "BookTitle", Field: "GuestbookSpec.Title"})
	scaffold(t, NewFeature{Gate: "BookV2", Version: "v2alpha1"})
	for file, want := range map[string]string{
		"features.yaml":                         "- gate: BookV2\n  tests: {enabled: [TestBookV2/on], disabled: [TestBookV2/off]}\n  stages:\n",
		"api/v1/guestbook_types.go":             "// Guestbook is a book.\n// +kubebuilder:storageversion\ntype Guestbook struct",
		"api/v2alpha1/groupversion_info.go":     "// Package v2alpha1 is the API.\n// +kubebuilder:object:generate=true\n// +groupName=book.example.dev\n// +sluice:feature=BookV2\npackage v2alpha1\n",
		"api/v2alpha1/guestbook_types.go":       "// Guestbook is a book.\ntype Guestbook struct",
		"api/v2alpha1/zz_generated.deepcopy.go": "//go:build !ignore_autogenerated\n\npackage v2alpha1\n",
		"api/v2alpha1/register.go":              "// GroupVersion is v1.\nvar GroupVersion = schema.GroupVersion{Group: \"book.example.dev\", Version: \"v2alpha1\"}\n\n// Full is the name of the version, and Core that of another.\nconst Full, Core = \"book.example.dev/v2alpha1\", \"apps/v1\"\n\n// Secret is a kind of another version of the same name.\nvar Secret = struct{ APIVersion, Kind string }{APIVersion: \"v1\", Kind: \"Secret\"}\n",
		"config/features/features.yaml":         "field: spec.title\n    group: book.example.dev\n    resource: guestbooks\n    versions:\n    - v1\n    - v2alpha1\n",
		"internal/features/book_v2_test.go":     `Group: "book.example.dev", Version: "v2alpha1", Resource: "guestbooks"`,
		"internal/features/book_title_test.go":  `Group: "book.example.dev", Version: "v1", Resource: "guestbooks"`,
	} {
		if text := read(t, file); !strings.Contains(text, want) {
			t.Errorf("%s has no %q:\n%s", file, want, text)
		}
	}
	if _, err := os.Stat("api/v2alpha1/conversion.go"); err == nil {
		t.Error("the conversion of v1 was copied")
	}
	out, err := goTest(t, "./...")
	for _, want := range []string{"TestBookV2/on", "TestBookV2/off", "TestBookTitle/off"} {
		if err != nil || !strings.Contains(out, "--- PASS: "+want) {
			t.Fatalf("%s did not pass: %v\n%s", want, err, out)
		}
	}
	// The version that is gated as a whole can be copied, without its gate.
	copied, err := copyVersion(&goVersion{group: "book.example.dev", version: "v2alpha1", dir: "api/v2alpha1", stored: true}, "v2alpha2", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range copied.allFiles() {
		if strings.Contains(string(f.data), "sluice:feature=BookV2") {
			t.Errorf("%s has the gate of the package:\n%s", f.path, f.data)
		}
	}
	write(t, "api/v9", "")
	if _, err := copyVersion(&goVersion{group: "book.example.dev", version: "v1", dir: "api/v1"}, "v9", nil); err == nil || !strings.Contains(err.Error(), "api/v9 is a file") {
		t.Errorf("the error is %v", err)
	}
	// A channel is without the version, and a second feature finds the package.
	write(t, "features.yaml", strings.Replace(read(t, "features.yaml"), "  crds:\n", "  crds:\n  - {path: config/crd/stable/, channel: stable}\n", 1))
	scaffold(t, NewFeature{Gate: "BookV3", Version: "book.example.dev/v3alpha1"})
	if crd := read(t, "config/crd/stable/book.example.dev_guestbooks.yaml"); strings.Contains(crd, "v2alpha1") || !strings.Contains(crd, "name: v1\n") {
		t.Errorf("the CRD of the channel is\n%s", crd)
	}
	before := tree(t)
	if _, err := Scaffold(t.Context(), "features.yaml", NewFeature{Gate: "Again", Version: "v3alpha1"}, verifyDay); err == nil || !strings.Contains(err.Error(), "the version of guestbooks v3alpha1 is marked twice") {
		t.Errorf("the error is %v", err)
	}
	if after := tree(t); !slices.Equal(before, after) {
		t.Error("files have changed")
	}
}

// TestModulesSuffice: with all modules, without one that only an import imports, with a replacement alone, and with nothing.
func TestModulesSuffice(t *testing.T) {
	withSluice(t, laidOut)
	scaffold(t, NewFeature{Gate: "FastPath"})
	out := Outputs{{path: "features.yaml"}, {path: "internal/features/fast_path_test.go"}}
	whole := read(t, "go.mod")
	without := func(text string) string {
		if !strings.Contains(whole, text) {
			t.Fatalf("go.mod has no %q", text)
		}
		return strings.Replace(whole, text, "", 1)
	}
	indirect := regexp.MustCompile(`(?m)^\tgithub.com/modern-go/reflect2 .*\n`).FindString(whole)
	t.Setenv("GOFLAGS", "-mod=mod") // it would change go.mod
	for name, tt := range map[string]struct {
		text string
		want bool
	}{
		"all": {whole, true}, "an indirect one is missing": {without(indirect), false}, "a replacement only": {without("require sluice.dev v0.0.0\n"), false},
		"nothing": {"module example.com/shop\n\ngo 1.26.0\n", false},
	} {
		write(t, "go.mod", tt.text)
		if got := out.ModulesSuffice(t.Context(), "."); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
		if read(t, "go.mod") != tt.text {
			t.Errorf("%s: go.mod has changed", name)
		}
	}
}

func TestKindsThatNobodyStoresAreMarked(t *testing.T) {
	kind := func(name string, stored bool) goKind { return goKind{name, addedLine{file: name}, stored} }
	v1 := goVersion{group: "a", version: "v1", kinds: []goKind{kind("Here", true), kind("There", false), kind("Nowhere", false)}}
	v2 := goVersion{group: "a", version: "v2", kinds: []goKind{kind("There", true)}}
	other := goVersion{group: "b", version: "v1", kinds: []goKind{kind("Nowhere", true)}}
	if got := unstoredKinds(&v1, []goVersion{v1, v2, other}); len(got) != 1 || got[0].file != "Nowhere" {
		t.Errorf("marked: %v", got)
	}
}

func TestAFailedCopyLeavesNoFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Symlink("/proc/none/types.go", "types.go"); err != nil { // nobody can make that folder
		t.Fatal(err)
	}
	out := Outputs{{"new/v2/types.go", []byte("package v2\n")}, {"types.go", []byte("package v1\n")}}
	if _, err := out.stage(); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat("new"); err == nil {
		t.Error("the new folder is left")
	}
}

// TestFilesAreNamedAsFeaturesYAMLIs has files below the folder of features.yaml, beside it and elsewhere.
func TestFilesAreNamedAsFeaturesYAMLIs(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(root, "a"))
	for _, tt := range []struct{ dir, file, want string }{
		{".", filepath.Join(root, "a", "x.go"), "x.go"},
		{"b", filepath.Join(root, "a", "b", "x.go"), "b/x.go"},
		{"b", filepath.Join(root, "a", "x.go"), "x.go"},
		{"..", filepath.Join(root, "b", "x.go"), "../b/x.go"},
		{root, filepath.Join(root, "a", "x.go"), filepath.Join(root, "a", "x.go")},
		{".", filepath.Join(root, "x.go"), filepath.Join(root, "x.go")},
		{".", "x.go", "x.go"},
	} {
		if got := (&goReader{dir: tt.dir}).relativePath(tt.file); got != tt.want {
			t.Errorf("%s from %s: %s, want %s", tt.file, tt.dir, got, tt.want)
		}
	}
}

func TestAProjectWithoutAModuleSaysSo(t *testing.T) {
	withSluice(t, laidOut)
	scaffold(t, NewFeature{Gate: "BookTitle", Field: "GuestbookSpec.Title"})
	if err := os.Remove("go.mod"); err != nil {
		t.Fatal(err)
	}
	const want = "there is no go.mod, and none in a folder above: source.packages names ./api/..., and Go packages belong to a module. Begin one (go mod init)"
	if _, err := Scaffold(t.Context(), "features.yaml", NewFeature{Gate: "Other"}, verifyDay); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Error(err)
	}
}
