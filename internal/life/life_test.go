package life

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"sluice.dev/api/v1alpha1"
)

// project writes a project of the versions that this module has, and makes its folder the current one.
func project(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	_, file, _, _ := runtime.Caller(0)
	root, err := filepath.Abs(filepath.Join(filepath.Dir(file), "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(data), "module sluice.dev\n", "module example.com/shop\n", 1)
		write(t, filepath.Join(dir, name), text)
	}
	a := txtar.Parse([]byte(archive))
	for _, f := range a.Files {
		write(t, filepath.Join(dir, f.Name), string(f.Data))
	}
	t.Chdir(dir)
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func load(t *testing.T) (*Project, error) {
	t.Helper()
	f, err := Read(t.Context(), "features.yaml")
	if err != nil {
		return nil, err
	}
	return Load(t.Context(), f, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
}

//go:embed testdata/shop.txtar
var shopText string

func TestMarkersBecomePartsInEveryVersion(t *testing.T) {
	project(t, shopText)
	p, err := load(t)
	if err != nil {
		t.Fatal(err)
	}
	part := func(p v1alpha1.Part) v1alpha1.Part {
		p.Group, p.Resource = "shop.example.dev", "shops"
		return p
	}
	v1 := []string{"v1"}
	want := map[string][]v1alpha1.Part{
		"Banner":     {part(v1alpha1.Part{Versions: []string{"v1", "v2"}, Field: "spec.banner"})},
		"Express":    {part(v1alpha1.Part{Versions: v1, Field: "spec.delivery", Values: []string{"Express"}})},
		"Pickup":     {part(v1alpha1.Part{Versions: v1, Field: "spec.delivery", Values: []string{"Pickup"}})},
		"Labels":     {part(v1alpha1.Part{Versions: v1, Field: "spec.labels"})},
		"NewVersion": {part(v1alpha1.Part{Versions: []string{"v2"}, WholeVersion: true})},
		"Sheets":     {part(v1alpha1.Part{Versions: []string{"v1", "v2"}, Field: "spec.sheets", Beyond: &v1alpha1.Bounds{Minimum: new(int64(0)), Maximum: new(int64(10))}})},
		"Scripts":    {part(v1alpha1.Part{Versions: v1, Field: "spec.script", Pattern: "^#!win"})},
		"Gifts": {
			part(v1alpha1.Part{Versions: v1, Field: "spec.byTown[*].gift"}),
			part(v1alpha1.Part{Versions: v1, Field: "spec.counters[*].gift"}),
		},
		"Digest": nil,
	}
	got := map[string][]v1alpha1.Part{}
	for _, f := range p.Declaration.Features {
		got[f.Gate] = f.Parts
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestASecondRunChangesNothing(t *testing.T) {
	project(t, shopText)
	run := func() []string {
		p, err := load(t)
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.Outputs(t.Context(), Channel{})
		if err != nil {
			t.Fatal(err)
		}
		changed, err := out.Write()
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	if changed := run(); len(changed) != 4 {
		t.Errorf("the first run wrote %v", changed)
	}
	if changed := run(); changed != nil {
		t.Errorf("the second run wrote %v", changed)
	}
	if code := read(t, "features/zz_generated.features.go"); !strings.Contains(code, "package features\n") || !strings.Contains(code, `Banner featuregate.Feature = "Banner"`) {
		t.Errorf("the code is\n%s", code)
	}
	crd := read(t, "config/crd/shop.example.dev_shops.yaml")
	for _, want := range []string{
		"Alpha since v1.0.0, off by default: feature Banner of component shop.",
		"The value Express is beta since v1.1.0, on by default: feature Express of",
		"The value Pickup is planned as alpha for v1.3.0: feature Pickup of component",
		"The version is alpha since v1.0.0, off by default: feature NewVersion of",
	} {
		if !strings.Contains(strings.Join(strings.Fields(crd), " "), want) {
			t.Errorf("no description tells %q", want)
		}
	}
	if strings.Contains(crd, tagPrefix) || strings.Contains(crd, " id:") {
		t.Error("a tag was left in the CRD")
	}
	t.Run("nor does one from the CRDs alone", func(t *testing.T) {
		yaml := strings.Replace(read(t, "features.yaml"), "packages: [./api/...]", "crds: [config/crd]", 1)
		for gate, part := range map[string]string{
			"Banner": "spec.banner", "Express": "spec.delivery, values: [Express]", "Pickup": "spec.delivery, values: [Pickup]", "Labels": "spec.labels",
			"Scripts": `spec.script, pattern: "^#!win"`, "Sheets": "spec.sheets, beyond: {minimum: 0, maximum: 10}", "Gifts": "spec.byTown[*].gift", "NewVersion": "",
		} {
			text := fmt.Sprintf("- gate: %s\n  parts: [{group: shop.example.dev, resource: shops, field: %s}]", gate, part)
			if strings.Contains(part, "[*]") {
				text = strings.Replace(text, "field: "+part, `field: "`+part+`"`, 1)
			}
			if part == "" {
				text = "- gate: NewVersion\n  parts: [{group: shop.example.dev, resource: shops, versions: [v2], wholeVersion: true}]"
			}
			yaml = strings.Replace(yaml, "- gate: "+gate, text, 1)
		}
		write(t, "features.yaml", yaml)
		run()
		if changed := run(); changed != nil {
			t.Errorf("the second run wrote %v", changed)
		}
	})
}

func TestAllThatIsWrongIsToldAtOnce(t *testing.T) {
	shop := shopText
	change := func(pairs ...string) string {
		text := shop
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(text, pairs[i]) {
				t.Fatalf("there is no %q", pairs[i])
			}
			text = strings.Replace(text, pairs[i], pairs[i+1], 1)
		}
		return text
	}
	for _, tt := range []struct {
		name, archive string
		want          []string // each a part of one line
	}{
		{"a marker without a feature", change("// +sluice:feature=Labels", "// +sluice:feature=Labls"), []string{
			`api/v1/types.go:36: features.yaml has no feature "Labls" (did you mean "Labels"?)`,
			"features.yaml:23: no marker names Labels",
		}},
		{"a feature without a marker, and two more errors", change("\t// +sluice:feature=Banner\n", "", "// +sluice:feature=Gifts", "// +sluice:featur=Gifts", "Script string `json:\"script,omitempty\"`", "Script string `json:\"script\"`\n\t// +sluice:feature=Labels\n\tMust string `json:\"must\"`"), []string{
			"features.yaml:16: no marker names Banner",
			"features.yaml:29: no marker names Gifts",
			`api/v1/types.go:75: there is no marker +sluice:featur here (did you mean "sluice:feature"?)`,
			"api/v1/types.go:41: Labels: version v1: spec.must is required",
		}},
		{"a name that only begins as one", change("// +sluice:feature=Labels", "// +sluice:feature:item=Labels"), []string{`api/v1/types.go:36: there is no marker +sluice:feature:item here (did you mean "sluice:feature:items"?)`}},
		{"what is not written as a marker", change("// +sluice:feature=Labels", "// + sluice:feature=Labels", "// +sluice:feature=Gifts", "/* +Sluice:feature=Gifts */"), []string{
			`api/v1/types.go:36: "+ sluice:feature=Labels" is no marker: begin it with // +sluice:`, `"/* +Sluice:feature=Gifts */" is no marker`, "no marker names Labels", "no marker names Gifts",
		}},
		{"a part marked twice", change("\tPost Delivery = \"Post\"\n", "\tPost Delivery = \"Post\"\n\t// +sluice:feature=Labels\n\tFast Delivery = \"Express\"\n"), []string{
			"api/v1/types.go:60: spec.delivery of shops v1 is marked twice: here for Express, at api/v1/types.go:57 for Labels",
		}},
		{"a field and its type", change("\t// Gift wraps.\n", "\t// Gift wraps.\n\t// +sluice:feature=Gifts\n"), []string{"spec.byTown[*].gift of shops v1 is marked twice", "spec.counters[*].gift of shops v1 is marked twice"}},
		{"a marker that marks nothing", change("// Counter is where", "// +sluice:feature=Labels\nvar x = 1\n\n// Counter is where"), []string{"api/v1/types.go:64: +sluice:feature=Labels stands where it marks nothing"}},
		{"a type that no kind has", shop + "-- api/v1/more.go --\npackage v1\n\n// Alone is used nowhere.\n// +sluice:feature=Labels\ntype Alone struct{}\n", []string{"api/v1/more.go:4: the marker of Labels reaches no field of a CRD"}},
		{"an argument that is misspelt", change("pattern:name=Scripts,pattern", "pattern:name=Scripts,patern"), []string{`unknown argument "patern"`, `missing argument "pattern"`, "extra arguments"}},
		{"an inlined struct", change("\tcommon.Look `json:\",inline\"`\n\n", "\t// +sluice:feature=Labels\n\tcommon.Look `json:\",inline\"`\n\n"), []string{"api/v1/types.go:24: the field is inlined: mark its fields"}},
		{"a value that the enum does not have", change("Enum=Post;Express;Pickup", "Enum=Post;Express"), []string{`api/v1/types.go:60: Pickup: the field has no value "Pickup"`}},
		{"a package that does not compile", change("type Counter struct {", "type Counter struct {{"), []string{"api/v1/types.go:65: expected '}'", "api/v1/types.go:66: expected ';'"}},
		{"a type that is not there", change("Gift *Gift", "Gift *Gft"), []string{"api/v1/types.go:68: unknown type Gft"}},
		{"a type twice", change("// Counter is where", "type Gift struct{}\n\n// Counter is where"), []string{"types.go:76: Gift redeclared in this block"}},
		{"a keyword that is not taken out", change("\t// Gift wraps.\n", "\t// Gift wraps.\n\t// +sluice:loosen=patern\n"), []string{`types.go:68: +sluice:loosen does not take out "patern" (did you mean "pattern"?)`}},
		{"values that are null or empty", change("\t// Script is run.\n", `	// +sluice:feature:values:name=Labels,values=null
	A string `+"`json:\"a,omitempty\"`"+`
	// +sluice:feature:values:name=Labels,values={x,null}
	B string `+"`json:\"b,omitempty\"`"+`
	// +sluice:feature:beyond:name=Labels,values=x;;y
	C string `+"`json:\"c,omitempty\"`"+`
	// +sluice:feature:values:name=Labels,values=
	D string `+"`json:\"d,omitempty\"`"+`
	// +sluice:feature:beyond:name=Labels,maxLength=1,values={}
	E string `+"`json:\"e,omitempty\"`"+`
	// +sluice:feature:values:name=Labels,values= x ; y
	F string `+"`json:\"f,omitempty\"`"+`
	// +sluice:feature:values:name=Labels,values={"null","",";"}
	G string `+"`json:\"g,omitempty\"`"+`
	// Script is run.
`), []string{
			`types.go:38: +sluice:feature:values:name=Labels,values=null: null is no value of a field; if it is a text, write "null", in quotes`,
			"types.go:40: +sluice:feature:values:name=Labels,values={x,null}: null is no value", "types.go:42: +sluice:feature:beyond:name=Labels,values=x;;y: a value is empty",
			"types.go:44: +sluice:feature:values:name=Labels,values=: values is empty: name the values", "types.go:46: +sluice:feature:beyond:name=Labels,maxLength=1,values={}: values is empty",
			"types.go:48: +sluice:feature:values:name=Labels,values= x ; y: a value is empty, or has a space before it",
		}},
		{"values of features.yaml that are null", change("- gate: Labels\n", "- gate: Labels\n  parts:\n  - {group: shop.example.dev, resource: shops, field: spec.x,\n     values: [null]}\n"), []string{
			"features.yaml:26: features[3].parts[0].values[0] must be a string, not null: put it in quotes",
		}},
		{"an announcement that is null", change("- gate: Digest\n", "- gate: Digest\n  announced: {Removed: }\n"), []string{"features[7].announced.Removed must be a string, not null"}},
		{"no such package", change("packages: [./api/...]", "packages: [./aip]"), []string{"aip"}},
		{"keys of features.yaml", change("behaviourOnly: true", "behaviorOnly: true", "release: v1.2.0", "releas: v1.2.0"), []string{
			`features.yaml:5: there is no field "spec.releas" (did you mean "release"?)`,
			`features.yaml:32: there is no field "features[7].behaviorOnly" (did you mean "behaviourOnly"?)`,
		}},
		{"an announcement of nothing", change("- gate: Digest\n", "- gate: Digest\n  announced: {Remvoed: v1.2.0}\n"), []string{`"Remvoed" is no change that can be announced (did you mean "Removed"?); the changes are Default, Removed`}},
		{"a gate twice, and another error", change("- gate: Digest", "- gate: Banner", "=Gifts", "=Gfts"), []string{"features.yaml:16: Banner: there are two features with this gate", `has no feature "Gfts"`, "no marker names Gifts"}},
		{"behaviourOnly of what is marked", change("- gate: Labels\n", "- gate: Labels\n  behaviourOnly: true\n"), []string{"api/v1/types.go:36: Labels gates a part of the API, but features.yaml says behaviourOnly"}},
		{"a marker of what was removed", change("- gate: Labels\n  stages: [{stage: Alpha, release: v1.0.0}", "- gate: Labels\n  stages: [{stage: Alpha, release: v1.0.0}, {stage: Removed, release: v1.1.0}"), []string{"api/v1/types.go:36: Labels was removed: take the marker away"}},
		{"a kind that is not there", change("{path: config/crd/}", "{path: config/crd/, kinds: [Shp]}"), []string{`features.yaml:14: there is no kind "Shp" in source`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := project(t, tt.archive)
			p, err := load(t)
			if err == nil {
				_, err = p.Outputs(t.Context(), Channel{})
			}
			if err == nil {
				t.Fatal("there is no error")
			}
			lines := strings.Split(err.Error(), "\n")
			for _, want := range tt.want {
				found := 0
				for _, l := range lines {
					if strings.Contains(l, want) {
						found++
					}
				}
				if found != 1 {
					t.Errorf("%q stands in %d lines of\n%s", want, found, err)
				}
			}
			if strings.Contains(err.Error(), dir) {
				t.Errorf("the error has the path of the folder:\n%s", err)
			}
			if len(lines) != len(tt.want) {
				t.Errorf("there are %d errors:\n%s", len(lines), err)
			}
		})
	}
}

func TestFilesAreAllWrittenOrNone(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "a", "old a")
	write(t, "b/c", "in the way")
	if _, err := (Outputs{{"a", []byte("new a")}, {"new/d", []byte("d")}, {"b", []byte("b")}}).Write(); err == nil {
		t.Fatal("a folder was replaced by a file")
	}
	if got := read(t, "a"); got != "old a" {
		t.Errorf("a is %q", got)
	}
	if left, _ := filepath.Glob("*/.sluice-*"); left != nil {
		t.Errorf("%v were left", left)
	}
	if _, err := os.Stat("new/d"); err == nil {
		t.Error("new/d was written")
	}
	changed, err := (Outputs{{"a", []byte("new a")}, {"new/d", []byte("d")}}).Write()
	if diff := cmp.Diff([]string{"a", "new/d"}, changed); err != nil || diff != "" || read(t, "a") != "new a" {
		t.Error(err, diff)
	}
}

// TestALinkStays: what a link names is replaced, not the link.
func TestALinkStays(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "real/a", "old")
	for link, to := range map[string]string{"a": "real/a", "b": "a", "c": "real/none", "round": "round"} {
		if err := os.Symlink(to, link); err != nil {
			t.Skip(err)
		}
	}
	if _, err := (Outputs{{"b", []byte("new")}, {"c", []byte("c")}}).Write(); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink("b"); err != nil || to != "a" || read(t, "real/a") != "new" || read(t, "real/none") != "c" {
		t.Error(to, err)
	}
	if _, err := (Outputs{{"b", []byte("newer")}, {"round", nil}}).Write(); err == nil || read(t, "real/a") != "new" {
		t.Error(err)
	}
}

// TestWhatPeopleWriteIsNotReplaced: an output that names features.yaml, Go code or the template, and a channel that names its source.
func TestWhatPeopleWriteIsNotReplaced(t *testing.T) {
	const docs, crds = "docs: docs/features.md", "  - {path: config/crd/}"
	for _, x := range []struct{ old, next, want string }{
		{docs, "docs: ./config/../features.yaml", "features.yaml, which is the file with the features"},
		{docs, "docs: api/v1/types.go", "api/v1/types.go, which is Go code that was not generated"},
		{docs, "docs: my.tmpl\n  template: my.tmpl", "my.tmpl, which is the template"},
		{crds, "  - {path: crds/, channel: alpha}", "features.yaml:14: the channel alpha goes to crds/shop.example.dev_shops.yaml, which is in source"},
		{crds, "  - {path: crds/}", ""},
	} {
		text := strings.Replace(shopText, x.old, x.next, 1)
		project(t, text+"-- my.tmpl --\nx\n")
		p, err := load(t)
		if err != nil {
			t.Fatal(err)
		}
		p.File.Source.CRDs = []string{"crds"}
		if _, err := p.Outputs(t.Context(), Channel{}); (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %s", x.next, err, x.want)
		}
	}
}

func TestWhatWasReplacedIsPutBack(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "a", "new a")
	write(t, "b", "b")
	if err := putBack(Outputs{{"a", []byte("new a")}, {"b", []byte("b")}}, [][]byte{[]byte("old a"), nil}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("b"); read(t, "a") != "old a" || err == nil {
		t.Error("the files are not as they were")
	}
}

// TestOurOwnFilesAreUpToDate holds the CRDs of Sluice and of its examples against their Go types.
func TestOurOwnFilesAreUpToDate(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	for _, file := range []string{"features.yaml", "examples/operator/features.yaml", "examples/kubebuilder/features.yaml", "examples/tekton/features.yaml", "examples/kubernetes/features.yaml"} {
		f, err := Read(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Load(t.Context(), f, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.Outputs(t.Context(), Channel{})
		if err != nil {
			t.Fatal(err)
		}
		if err := out.Each(func(path string, old, want []byte) {
			t.Errorf("%s is not up to date (make generate-features):\n%s", path, cmp.Diff(string(old), string(want)))
		}); err != nil {
			t.Error(err)
		}
	}
}
