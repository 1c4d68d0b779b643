package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAManifestIsLaidOverWhatIsStored(t *testing.T) {
	for name, test := range map[string]struct{ stored, manifest, want string }{
		"fields of others stay":    {`{"a":{"b":1,"c":2}}`, `{"a":{"b":3}}`, `{"a":{"b":3,"c":2}}`},
		"a scalar replaces a map":  {`{"a":{"b":1}}`, `{"a":"x"}`, `{"a":"x"}`},
		"a map replaces a list":    {`{"a":[1]}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`},
		"an item with defaults":    {`{"a":[{"n":"p","d":1}]}`, `{"a":[{"n":"p"}]}`, `{"a":[{"n":"p","d":1}]}`},
		"an item that has moved":   {`{"a":[{"n":"p","d":1},{"n":"q"}]}`, `{"a":[{"n":"new"},{"n":"p"}]}`, `{"a":[{"n":"new"},{"n":"p","d":1}]}`},
		"an item that has changed": {`{"a":[{"n":"p","v":1,"d":1}]}`, `{"a":[{"n":"p","v":2}]}`, `{"a":[{"n":"p","v":2}]}`},
		"items that are gone":      {`{"a":[1,2,3]}`, `{"a":[3]}`, `{"a":[3]}`},
		"numbers by their worth":   {`{"a":[{"v":1.0,"d":2}]}`, `{"a":[{"v":1}]}`, `{"a":[{"v":1.0,"d":2}]}`},
		"lists in items":           {`{"a":[{"l":[1,{"x":1,"d":2}]}]}`, `{"a":[{"l":[1,{"x":1}]}]}`, `{"a":[{"l":[1,{"x":1,"d":2}]}]}`},
	} {
		of := func(text string) map[string]any {
			v, err := decodeObject([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		if diff := cmp.Diff(any(of(test.want)), overlayOnStored(of(test.stored), of(test.manifest))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestAManifestIsLaidOverWhatHasBeenDeletedMeanwhile(t *testing.T) {
	var stored map[string]any
	if got := overlayOnStored(stored, map[string]any{"a": "b"}); !equalJSON(got, map[string]any{"a": "b"}) {
		t.Errorf("%v", got)
	}
}
