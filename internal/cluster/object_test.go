package cluster

import (
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
	`{"metadata":{"inner":{"managedFields":1}},"managedFields":[1],"spec":{"metadata":{"managedFields":[1]}}}`, `{"metadata":"managedFields"}`, `{"metadata":null}`,
	`{"a":` + strings.Repeat(`[`, 200) + strings.Repeat(`]`, 200) + `}`,
}

func compareDecoders(t *testing.T, text string, keys *names) {
	t.Helper()
	var want map[string]any
	wantErr := utiljson.Unmarshal([]byte(text), &want)
	if meta, ok := want["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
	}
	got, err := decodeObject([]byte(text), keys)
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("%q: error %v, want %v", text, err, wantErr)
	}
	if err == nil && !reflect.DeepEqual(want, got) { // cmp takes for ever with deep lists
		t.Errorf("%q: %v, the library says %v", text, got, want)
	}
}

func TestObjectsAreDecodedAsTheLibraryDoes(t *testing.T) {
	var keys names
	for range 2 { // names are remembered the second time
		for _, text := range objectTexts {
			compareDecoders(t, text, &keys)
		}
	}
}

func FuzzDecodeObject(f *testing.F) {
	for _, text := range objectTexts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { compareDecoders(t, text, &names{}) })
}

func TestDecodedObjectsShareNothingWithTheirBytes(t *testing.T) {
	raw := []byte(`{"name": "value", "list": ["a\tb"]}`)
	got, err := decodeObject(raw, &names{})
	if err != nil {
		t.Fatal(err)
	}
	clear(raw)
	if diff := cmp.Diff(map[string]any{"name": "value", "list": []any{"a\tb"}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestRememberedNamesAreBounded(t *testing.T) {
	var keys names
	for i := range 3 * maxNames {
		name := strings.Repeat("x", i%200) + string(rune('a'+i%26)) + strings.Repeat("y", i/200)
		if got := keys.get([]byte(name)); got != name {
			t.Fatalf("%q, want %q", got, name)
		}
	}
	if len(keys.seen) > maxNames {
		t.Errorf("%d names are remembered", len(keys.seen))
	}
	for name := range keys.seen {
		if len(name) > maxNameLen {
			t.Errorf("a name of %d bytes is remembered", len(name))
		}
	}
}
