package input

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kjson "sigs.k8s.io/json"
	kyaml "sigs.k8s.io/yaml"
)

// agree checks that every parser that takes a chunk of data gives what the library gives, and that a definition decodes
// to what the API server's decoder makes of it. It returns how many chunks the fast parser took, and how many there are.
func agree(t *testing.T, data []byte) (fast, all int) {
	t.Helper()
	text, plain, err := checkText(data)
	if err != nil {
		return 0, 0
	}
	for _, c := range split(text, plain) {
		if c.content() < 0 {
			continue
		}
		all++
		library, err := parseLibrary(t.Context(), c.text, c.line)
		agreeLibrary(t, c.text, library, err)
		if err == nil {
			agreeCRD(t, library)
		}
		if c.plain {
			if got := parseFast(c.text, c.line); got != nil {
				fast++
				if err != nil {
					t.Fatalf("the fast parser takes what the library refuses: %v\n%s\n%q", err, c.text, c.text)
				}
				if want, got := string(rendered(library)), string(rendered(got)); want != got {
					diff := cmp.Diff(want, got)
					t.Fatalf("the fast parser differs from the library (-library +fast):\n%s\n%s\n%q", diff, c.text, c.text)
				}
				agreeCRD(t, got)
			}
		}
		agreeJSON(t, c.text)
	}
	return fast, all
}

func rendered(t *tree) []byte {
	r := renderer{t: t}
	r.value(0)
	return r.out
}

// agreeLibrary checks the use of the library against sigs.k8s.io/yaml.
func agreeLibrary(t *testing.T, text string, got *tree, err error) {
	t.Helper()
	want, wantErr := kyaml.YAMLToJSONStrict([]byte(text))
	if got != nil && got.remark != nil {
		if wantErr == nil || !strings.Contains(wantErr.Error(), "already set in map") {
			t.Fatalf("remark %q, but sigs.k8s.io/yaml has error %v:\n%q", got.remark, wantErr, text)
		}
		want, wantErr = kyaml.YAMLToJSON([]byte(text))
	}
	if err != nil {
		// The bounds, a second document and keys that become equal are errors of our own.
		for _, ours := range []string{"nested deeper", "expands to too much", "second document", "after the end of the document", "twice in one object", "more than"} {
			if strings.Contains(err.Error(), ours) {
				return
			}
		}
		if wantErr == nil {
			t.Fatalf("error %q, but sigs.k8s.io/yaml takes it:\n%s\n%q", err, text, text)
		}
		return
	}
	if wantErr != nil {
		t.Fatalf("sigs.k8s.io/yaml refuses it: %v\n%s\n%q", wantErr, text, text)
	}
	if want, got := string(want), string(rendered(got)); want != got {
		diff := cmp.Diff(want, got)
		t.Fatalf("differs from sigs.k8s.io/yaml (-want +got):\n%s\n%s", diff, text)
	}
}

// agreeJSON checks the parser of JSON against encoding/json.
func agreeJSON(t *testing.T, text string) {
	t.Helper()
	trees, ok := parseJSON(text, 1)
	if !ok {
		return
	}
	dec := json.NewDecoder(strings.NewReader(strings.TrimPrefix(text, "---")))
	dec.UseNumber()
	for _, tree := range trees {
		var v any
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("encoding/json refuses it: %v\n%q", err, text)
		}
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if want, got := string(want), string(rendered(tree)); want != got {
			diff := cmp.Diff(want, got)
			t.Fatalf("differs from encoding/json (-want +got):\n%s\n%q", diff, text)
		}
		agreeCRD(t, tree)
	}
	if dec.More() {
		t.Fatalf("encoding/json finds more values:\n%q", text)
	}
}

// agreeCRD checks the decoding of a definition against that of the API server.
func agreeCRD(t *testing.T, tree *tree) {
	t.Helper()
	if tree.text(tree.child(0, "apiVersion")) != crdVersion || tree.text(tree.child(0, "kind")) != crdKind {
		return
	}
	got, err := decodeCRD(tree, 0)
	var want apiextensionsv1.CustomResourceDefinition
	unknown, wantErr := kjson.UnmarshalStrict(rendered(tree), &want)
	if wantErr == nil && want.Name == "" {
		if err == nil {
			t.Fatal("a definition without a name is taken")
		}
		return
	}
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("error %v, want %v\n%s", err, wantErr, rendered(tree))
	}
	if err != nil {
		return
	}
	if !reflect.DeepEqual(&want, got.crd) {
		t.Fatalf("differs from sigs.k8s.io/json (-want +got):\n%s\n%s", cmp.Diff(&want, got.crd), rendered(tree))
	}
	// The API server does not look for unknown fields below items and additionalProperties; we do.
	if len(got.warnings) < len(unknown) {
		t.Fatalf("%d warnings, but sigs.k8s.io/json gives %d:\n%v\n%v", len(got.warnings), len(unknown), got.warnings, unknown)
	}
}

func TestFastParserTakesFlow(t *testing.T) {
	for _, text := range []string{
		"names: {kind: Engine, listKind: EngineList, plural: engines, singular: engine}\n",
		"a: { 'b': \"c\", d: [e, {f: 1}], g: {} }  # h\n",
		"- {type: string}\n- [x-y, v1/v2]\n",
	} {
		if fast, all := agree(t, []byte(text)); fast != 1 || all != 1 {
			t.Errorf("the fast parser takes %d of %d: %q", fast, all, text)
		}
	}
	for _, text := range []string{"a: {b: c, b: d}\n", "a: {<<: {b: c}}\n", "a: {yes: c}\n", "a: {b:c}\n", "a: {b c: d}\n", "a: [b: c]\n", "a: {b: c\n  , d: e}\n"} {
		if fast, all := agree(t, []byte(text)); fast != 0 || all != 1 {
			t.Errorf("the fast parser takes %d of %d: %q", fast, all, text)
		}
	}
}

func TestCorpusAgrees(t *testing.T) {
	dir := os.Getenv("SLUICE_CORPUS")
	if dir == "" {
		t.Skip("SLUICE_CORPUS names no folder with real definitions")
	}
	files, err := filepath.Glob(filepath.Join(dir, "crds", "*", "*", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	fast, all := 0, 0
	for i, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			data = bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))
		}
		f, a := agree(t, data)
		fast += f
		all += a
	}
	t.Logf("%d files, %d documents, %d of them read by the fast parser", len(files), all, fast)
}
