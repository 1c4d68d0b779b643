package input

import (
	"bytes"
	"encoding/json"
	"errors"
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

// agree checks that each document of data is read as sigs.k8s.io/yaml or encoding/json reads it, and that a definition
// decodes to what the API server's decoder makes of it. It returns how many documents were read.
func agree(t *testing.T, data []byte) (read int) {
	t.Helper()
	text, err := checkText(data)
	if err != nil {
		return 0
	}
	for _, c := range splitStream(text) {
		if contentOffset(c.text) < 0 {
			continue
		}
		v, err := parseYAML(t.Context(), c.text, c.line)
		agreeYAML(t, c.text, v, err)
		if err == nil {
			agreeCRD(t, v.v)
			read++
		}
		agreeJSON(t, c.text)
	}
	return read
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// asStored is the JSON text as kubectl sends it and as the API server then reads it back from storage.
func asStored(t *testing.T, text string) string {
	t.Helper()
	for range 2 {
		var v any
		if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &v); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		text = asJSON(t, v)
	}
	return text
}

func agreeYAML(t *testing.T, text string, got value, err error) {
	t.Helper()
	want, wantErr := kyaml.YAMLToJSONStrict([]byte(text))
	if got.twice != nil {
		if wantErr == nil || !strings.Contains(wantErr.Error(), "already set in map") {
			t.Fatalf("remark %q, but sigs.k8s.io/yaml has error %v:\n%q", got.twice, wantErr, text)
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
	if want, got := asStored(t, string(want)), asJSON(t, got.v); want != got {
		t.Fatalf("differs from sigs.k8s.io/yaml (-want +got):\n%s\n%s", cmp.Diff(want, got), text)
	}
}

// agreeJSON checks that a run of JSON values is cut where it should be, and that the text of each still reads as it.
func agreeJSON(t *testing.T, text string) {
	t.Helper()
	values, offsets, err := parseJSON(text, 1)
	if err != nil {
		return
	}
	dec := json.NewDecoder(strings.NewReader(strings.TrimPrefix(text, "---")))
	dec.UseNumber()
	for i, got := range values {
		var v, alone any
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("encoding/json refuses it: %v\n%q", err, text)
		}
		if want, got := asStored(t, asJSON(t, v)), asJSON(t, got.v); want != got {
			t.Fatalf("differs from encoding/json (-want +got):\n%s\n%q", cmp.Diff(want, got), text)
		}
		end := len(text)
		if i+1 < len(offsets) {
			end = offsets[i+1]
		}
		cut := json.NewDecoder(strings.NewReader(text[offsets[i]:end]))
		cut.UseNumber()
		if err := cut.Decode(&alone); err != nil || !reflect.DeepEqual(alone, v) || cut.More() {
			t.Fatalf("value %d of %q is cut to %q: %v", i, text, text[offsets[i]:end], err)
		}
		agreeCRD(t, got.v)
	}
	if len(values) > 0 && dec.More() {
		t.Fatalf("encoding/json finds more values:\n%q", text)
	}
}

// agreeCRD checks the decoding of a definition against that of the API server.
func agreeCRD(t *testing.T, v any) {
	t.Helper()
	object, _ := v.(map[string]any)
	if object["apiVersion"] != crdVersion || object["kind"] != crdKind {
		return
	}
	got, unknown, err := decodeCRD(object)
	var want apiextensionsv1.CustomResourceDefinition
	wantUnknown, wantErr := kjson.UnmarshalStrict([]byte(asJSON(t, v)), &want)
	if wantErr == nil && want.Name == "" {
		if err == nil {
			t.Fatal("a definition without a name is taken")
		}
		return
	}
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("error %v, want %v\n%s", err, wantErr, asJSON(t, v))
	}
	if err != nil {
		if e, ok := errors.AsType[*valueError](err); !ok || len(e.path) == 0 {
			t.Fatalf("error %v names no place\n%s", err, asJSON(t, v))
		}
		return
	}
	if !reflect.DeepEqual(&want, got) {
		t.Fatalf("differs from sigs.k8s.io/json (-want +got):\n%s\n%s", cmp.Diff(&want, got), asJSON(t, v))
	}
	// The API server does not look for unknown fields below items and additionalProperties; we do.
	if len(unknown) < len(wantUnknown) {
		t.Fatalf("unknown fields %v, but sigs.k8s.io/json finds %v", unknown, wantUnknown)
	}
}

// TestWrongTypesAreRefusedAsUpstream gives every field every kind of value and compares with the API server's decoder.
func TestWrongTypesAreRefusedAsUpstream(t *testing.T) {
	typ := reflect.TypeFor[apiextensionsv1.JSONSchemaProps]()
	values := []string{
		`null`, `true`, `false`, `0`, `5`, `-1.5`, `1.0`, `1e2`, `1e400`, `9223372036854775808`, `""`, `"x"`, `{}`, `[]`, `[null]`, `["x"]`, `[1]`, `[{}]`, `[[]]`,
		`{"a":null}`, `{"a":{}}`, `{"a":["x"]}`, `{"a":1}`, `{"type":"x"}`, `{"type":1}`, `[{"rule":1}]`, `[{"rule":"x","reason":null,"optionalOldSelf":false}]`,
	}
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		for _, v := range values {
			for _, text := range []string{`{"` + name + `":` + v + `}`, `{"items":{"` + name + `":` + v + `}}`, `{"properties":{"p":{"` + name + `":` + v + `}}}`} {
				agree(t, []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"n"},"spec":{"versions":[{"schema":{"openAPIV3Schema":`+text+`}}]}}`))
			}
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
	for i, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			data = bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))
		}
		if agree(t, data) == 0 {
			t.Errorf("%s has no document", f)
		}
	}
}
