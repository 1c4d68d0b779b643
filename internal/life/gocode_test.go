package life

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/gate"
)

// hardText has what comments and strings of Go could take for something else.
const hardText = "&on, &off, \"x\" `y` %s \\n */ // new(\n+build x\r\nand\ufeff more\x00\u2028"

// everyKey gives a value to every key in v. It fails for a type that it does not know, so that no key is left out in silence.
func everyKey(t *testing.T, v reflect.Value, text string, number int64) {
	t.Helper()
	switch v.Kind() { //nolint:exhaustive // any other kind fails
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(text != "")
	case reflect.Int32, reflect.Int64:
		v.SetInt(number)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		everyKey(t, v.Elem(), text, number)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			everyKey(t, v.Index(i), text, number)
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			everyKey(t, f, text, number)
		}
	default:
		t.Fatalf("this test knows no values of the type %s", v.Type())
	}
}

// hardDeclarations have every key of a Component and of a Feature: with hard texts, and with pointers to zero. Others have one of both only.
func hardDeclarations(t *testing.T) (out []gate.Declaration) {
	t.Helper()
	for _, text := range []string{"", hardText} {
		d := gate.Declaration{Name: "demo"}
		everyKey(t, reflect.ValueOf(&d.Spec).Elem(), text, -int64(len(text)))
		everyKey(t, reflect.ValueOf(&d.Features).Elem(), text, int64(len(text)))
		for i := range d.Features {
			d.Features[i].Gate = fmt.Sprintf("Gate%d", i)
		}
		out = append(out, d, gate.Declaration{Name: "demo", Spec: d.Spec}, gate.Declaration{Name: "demo", Features: d.Features})
	}
	// Only the JSON of a declaration goes to the program that compares it with the code.
	for _, d := range out {
		var again gate.Declaration
		if text, err := json.Marshal(d); err != nil || json.Unmarshal(text, &again) != nil || !cmp.Equal(d, again) {
			t.Fatalf("the JSON does not hold all of the declaration: %v\n%s", err, cmp.Diff(d, again))
		}
	}
	return append(out, gate.Declaration{Name: "demo"}, gate.Declaration{Name: "demo", Features: []v1alpha1.FeatureSpec{{Gate: "A"}}})
}

// TestGeneratedGoCodeSaysTheSame compiles the code of each declaration, runs it, and compares the result with the declaration.
func TestGeneratedGoCodeSaysTheSame(t *testing.T) {
	withSluice(t, "-- features.yaml --\napiVersion: sluice.dev/v1alpha1\nkind: FeatureFile\ncomponent: demo\n")
	imports, wants := "", ""
	for i, d := range hardDeclarations(t) {
		f, err := Read(t.Context(), "features.yaml")
		if err != nil {
			t.Fatal(err)
		}
		f.Spec = d.Spec
		f.Output.Go = fmt.Sprintf("p%d/code.go", i)
		p := &Project{File: f, Declaration: d, Model: &feature.Model{}}
		code, err := p.goCode()
		if err != nil {
			t.Fatal(err)
		}
		write(t, f.Output.Go, string(code))
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		imports += fmt.Sprintf("\t\"example.com/shop/p%d\"\n", i)
		wants += fmt.Sprintf("\tcompare(%d, p%d.Declaration(), %q)\n", i, i, text)
	}
	write(t, "main.go", `package main

import (
	"encoding/json"
	"fmt"
	"reflect"

	"sluice.dev/feature/gate"
`+imports+`)

func main() {
`+wants+`}

func compare(i int, got gate.Declaration, text string) {
	var want gate.Declaration
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		fmt.Println(i, err)
	}
	if !reflect.DeepEqual(got, want) {
		fmt.Printf("declaration %d is %+v, want %+v\n", i, got, want)
	}
}
`)
	cmd := exec.CommandContext(t.Context(), "go", "run", "-mod=mod", ".")
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestThePackageIsNamedAsItsFolder, or the error says that the folder gives no name.
func TestThePackageIsNamedAsItsFolder(t *testing.T) {
	for folder, want := range map[string]string{
		"features": "features", "My-Features": "myfeatures", "a_b": "a_b", "go": "", "Type": "", "2features": "", "_": "", "---": "", "日本": "日本", "Größe": "größe",
	} {
		p := &Project{File: &File{Output: Output{Go: folder + "/x.go"}}}
		got, err := p.goPackage()
		if got != want || (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), "choose a folder such as internal/features") {
			t.Errorf("%s: %q, want %q: %v", folder, got, want, err)
		}
	}
}

// TestTheOtherFilesOfTheFolderNameThePackage, those that the go command builds: the generated code has their package, and declares no name
// of theirs.
func TestTheOtherFilesOfTheFolderNameThePackage(t *testing.T) {
	t.Chdir(t.TempDir())
	p := &Project{File: &File{Component: "demo", Output: Output{Go: "features/x.go"}}, Model: &feature.Model{}}
	p.Declaration = gate.Declaration{Name: "demo", Features: []v1alpha1.FeatureSpec{{Gate: "Timeout"}}}
	for _, step := range []struct{ file, text, want string }{
		{"x.go", "package stale\n", "features"},
		{"x_test.go", "package features_test\n", "features"},
		{"gen.go", "//go:build ignore\n\npackage main\n", "features"},
		{"b.go", "package shop\n\nfunc (t T) Timeout() {}\n\ntype T int\n", "shop"},
		{"broken.go", "package other\n\nfunc {\n", "shop"},
	} {
		write(t, "features/"+step.file, step.text)
		if got, err := p.goPackage(); got != step.want || err != nil {
			t.Errorf("with %s: %q, want %q: %v", step.file, got, step.want, err)
		}
		if code, err := p.goCode(); err != nil || !strings.Contains(string(code), "\npackage "+step.want+"\n") {
			t.Errorf("with %s: %v\n%s", step.file, err, code)
		}
	}
	for _, text := range []string{"const Release = 1", "func Declaration() {}", "type Timeout int", "var a, Timeout = 1, 2"} {
		write(t, "features/b.go", "package shop\n\n"+text+"\n")
		if _, err := p.goCode(); err == nil || !strings.Contains(err.Error(), "already") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
