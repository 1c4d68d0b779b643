package cluster

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

var objectTexts = []string{
	`{}`, ` { } `, `{"a": {}, "b": [], "c": [[], {}]}`, `{"a":1}`, `{"a":-1,"b":0,"c":123456789012345678}`, `{"a":1234567890123456789}`,
	`{"a":9223372036854775807,"b":9223372036854775808}`, `{"a":1.5,"b":1e3,"c":-0,"d":-0.0,"e":1E2}`, `{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":+1}`,
	`{"a":true,"b":false,"c":null}`, `{"a":truex}`, `{"a":tru}`, `{"a":nul`, `{"a":"b"}`, `{"a":"\"\\\/\b\f\n\r\t"}`, `{"\u0061":"\u003c\u00e9\u4e2d"}`,
	`{"a":"\ud83d\ude00"}`, `{"a":"\ud83d"}`, `{"a":"\ude00x"}`, `{"a":"\u12"}`, `{"a":"\uzzzz"}`, `{"a":"\x"}`, `{"a":"é中😀"}`, "{\"a\":\"\xff\"}", "{\"\xff\":1}",
	"{\"a\":\"\\n\xff\"}", "{\"a\":\"b\nc\"}", "{\"a\":\"\\t\nc\"}", "{\"a\":\"\x00\"}", `{"a":1,"a":2}`, `{"a":{"b":1},"a":{"c":2}}`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1}x`,
	`{"a":1} {"b":2}`, `{"a":[1,]}`, `{"a":[,1]}`, `{"a":[1 2]}`, `{"a":[1}`, `{"a":"`, `{"a":"\`, `{"a":"\u`, `{`, ``, ` `, `null`, `[]`, `"a"`, `1`, "\ufeff{}", `{"":1}`,
	`{"metadata":{"name":"x","managedFields":[{"manager":"m","fieldsV1":{"k:{\"name\":\"a\"}":{}}}],"labels":{"a":"b"}}}`,
	`{"metadata":{"managedFields":[{]}}`, `{"metadata":{"managedFields":01}}`, `{"metadata":{"managedFields":"\uD800"}}`, `{"metadata":[{"managedFields":1}]}`,
	`{"metadata":{"inner":{"managedFields":[1,2]}},"managedFields":[1,2],"spec":{"metadata":{"managedFields":[1,2]}}}`, `{"metadata":"managedFields"}`, `{"metadata":null}`,
	`{"metadata":{"name":"managedFields","managedFields":7,"b":1}}`, `{"metadata":{"a":{"managedFields":[1,2]},"b":["managedFields","metadata"],"managedFields" : [1,2] , "c":2},"d":3}`,
	`{"a":"metadata","b":{"managedFields":[1,2]},"metadata":{"managedFields":{"b\\\"":"]}\\"},"z":"\"managedFields\":"}}`, `{"metadata":{"managed\u0046ields":[1],"a":2}}`,
	`{"metadata":{"managedFields":[1]},"metadata":{"managedFields":[22],"a":1}}`, `{"metadata":{"managedFields":[11],"managedFields":[22]}}`, `[{"metadata":{"managedFields":[1]}}]`,
	`{"a":` + strings.Repeat(`[`, 200) + strings.Repeat(`]`, 200) + `}`,
}

func compareDecoders(t *testing.T, text string) {
	t.Helper()
	var want map[string]any
	wantErr := utiljson.Unmarshal([]byte(text), &want)
	if meta, ok := want["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
	}
	got, err := decodeObject([]byte(text))
	if !json.Valid([]byte(text)) {
		return // readList refuses it, so that anything goes but a panic
	}
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("%q: error %v, want %v", text, err, wantErr)
	}
	if err == nil && !reflect.DeepEqual(want, got) { // cmp takes for ever with deep lists
		t.Errorf("%q: %v, the library says %v", text, got, want)
	}
}

func TestObjectsAreDecodedAsTheLibraryDoes(t *testing.T) {
	for _, text := range objectTexts {
		compareDecoders(t, text)
	}
}

func FuzzDecodeObject(f *testing.F) {
	for _, text := range objectTexts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { compareDecoders(t, text) })
}

func TestDecodedObjectsShareNothingWithTheirBytes(t *testing.T) {
	raw := []byte(`{"name": "value", "list": ["a\tb"]}`)
	got, err := decodeObject(raw)
	if err != nil {
		t.Fatal(err)
	}
	clear(raw)
	if diff := cmp.Diff(map[string]any{"name": "value", "list": []any{"a\tb"}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestManagedFieldsAreCutBeforeDecoding(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":[1,{}],"metadata":{"labels":{"a":"b"},"managedFields":[{"a":{"b":{},"c":[]},"d":1},{}],"name":"x"},"spec":{}}`: `{"a":[1,{}],"metadata":{"labels":{"a":"b"},"managedFields":null,"name":"x"},"spec":{}}`,
		`{"metadata":{"name":"x","managedFields":[{"v:\\":{}},{"k:{\"a\":\"]}\"}":{}},{}]}}`:                                 `{"metadata":{"name":"x","managedFields":null}}`,
		`{"metadata":{"managedFields":"\"a\",","z":"\\"}}`:                                                                   `{"metadata":{"managedFields":null,"z":"\\"}}`,
		`{"metadata":{"z":["managedFields","metadata"],"a":{"managedFields":[1,2]}},"managedFields":[1,2]}`:                  `{"metadata":{"z":["managedFields","metadata"],"a":{"managedFields":[1,2]}},"managedFields":[1,2]}`,
		`{"spec":{"metadata":{"managedFields":[1,2]}},"metadata":{}}`:                                                        `{"spec":{"metadata":{"managedFields":[1,2]}},"metadata":{}}`,
	} {
		if got := string(cutManagedFields([]byte(text))); got != want {
			t.Errorf("%s:\n%s, want\n%s", text, got, want)
		}
	}
}

func TestOwnersInRemovedVersions(t *testing.T) {
	gone := []string{"example.com/v1alpha1", "example.com/v1beta1"}
	entry := func(manager, version, fields string) string {
		return `{"manager":"` + manager + `","operation":"Apply","apiVersion":"` + version + `","fieldsType":"FieldsV1","fieldsV1":` + fields + `}`
	}
	const some = `{"f:spec":{"f:a":{}}}`
	for name, tt := range map[string]struct{ entries, version, manager string }{
		"none":                       {"", "", ""},
		"another version":            {entry("kubectl", "example.com/v1", some), "", ""},
		"a removed one":              {entry("kubectl", "example.com/v1", some) + "," + entry("argo", "example.com/v1beta1", some), "example.com/v1beta1", "argo"},
		"the first of two":           {entry("old", "example.com/v1alpha1", some) + "," + entry("argo", "example.com/v1beta1", some), "example.com/v1alpha1", "old"},
		"another group":              {entry("kubectl", "other.com/v1alpha1", some), "", ""},
		"a longer name":              {entry("kubectl", "example.com/v1alpha11", some), "", ""},
		"no fields":                  {entry("kubectl", "example.com/v1alpha1", "{}"), "", ""},
		"a field with such a name":   {entry("kubectl", "example.com/v1", `{"f:example.com/v1alpha1":{},"example.com/v1alpha1":{}}`), "", ""},
		"a manager with such a name": {entry("example.com/v1alpha1", "example.com/v1", some), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			raw := `{"apiVersion":"example.com/v1","metadata":{"name":"x","managedFields":[` + tt.entries + `],"labels":{}},"spec":{"v":"example.com/v1alpha1"}}`
			if version, manager := ownersIn([]byte(raw), gone); version != tt.version || manager != tt.manager {
				t.Errorf("%q by %q, want %q by %q", version, manager, tt.version, tt.manager)
			}
		})
	}
	if version, _ := ownersIn([]byte(`{"metadata":{"name":"x"}}`), gone); version != "" {
		t.Error(version)
	}
}
