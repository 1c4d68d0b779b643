package v1beta1_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/resolution/v1beta1"
)

func TestValuesAreBareOnTheWire(t *testing.T) {
	for name, test := range map[string]struct {
		json string
		want v1beta1.ParamValue
		back string // empty: the same text
	}{
		"string":                    {`"a"`, v1beta1.StringValue("a"), ""},
		"string with HTML":          {`"a\u003cb"`, v1beta1.StringValue("a<b"), ""},
		"array":                     {`["a","b"]`, v1beta1.ArrayValue("a", "b"), ""},
		"empty array":               {`[]`, v1beta1.ParamValue{Type: v1beta1.ParamTypeArray, ArrayVal: []string{}}, ""},
		"object":                    {`{"a":"b"}`, v1beta1.ObjectValue(map[string]string{"a": "b"}), ""},
		"empty object":              {`{}`, v1beta1.ObjectValue(map[string]string{}), ""},
		"null":                      {`null`, v1beta1.StringValue(""), `""`},
		"number":                    {`17`, v1beta1.StringValue("17"), `"17"`},
		"array with a number":       {`["a",1]`, v1beta1.StringValue(`["a",1]`), `"[\"a\",1]"`},
		"array with a null":         {`[null]`, v1beta1.StringValue(`[null]`), `"[null]"`},
		"object with inner objects": {`{"a":{}}`, v1beta1.StringValue(`{"a":{}}`), `"{\"a\":{}}"`},
	} {
		t.Run(name, func(t *testing.T) {
			var got v1beta1.ParamValue
			if err := json.Unmarshal([]byte(test.json), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			back, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if test.back == "" {
				test.back = test.json
			}
			if string(back) != test.back {
				t.Errorf("back: %s, want %s", back, test.back)
			}
		})
	}
}

func TestAnUnknownTypeOfValueIsAnError(t *testing.T) {
	if _, err := json.Marshal(v1beta1.ParamValue{Type: "number"}); err == nil {
		t.Error("no error")
	}
}

// What Tekton's controllers send and read.
func TestTheWireFormIsTektons(t *testing.T) {
	r := &v1beta1.ResolutionRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: "resolution.tekton.dev/v1beta1", Kind: "ResolutionRequest"},
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Spec:       v1beta1.ResolutionRequestSpec{Params: []v1beta1.Param{{Name: "p", Value: v1beta1.StringValue("v")}}},
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"kind":"ResolutionRequest","apiVersion":"resolution.tekton.dev/v1beta1","metadata":{"name":"n"},` +
		`"spec":{"params":[{"name":"p","value":"v"}]},"status":{"data":"","source":null,"refSource":null}}`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Error(diff)
	}

	finished := `{"status":{"observedGeneration":1,"conditions":[{"type":"Succeeded","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z"}],` +
		`"annotations":{"a":"b"},"data":"eA==","source":{"uri":"u"},"refSource":{"uri":"u","digest":{"sha1":"00"},"entryPoint":"e"}}}`
	var got v1beta1.ResolutionRequest
	if err := json.Unmarshal([]byte(finished), &got); err != nil {
		t.Fatal(err)
	}
	if !got.Status.Finished() || got.Status.Data != "eA==" || got.Status.Origin().Digest["sha1"] != "00" || got.Status.Origin().EntryPoint != "e" {
		t.Errorf("read as %+v", got.Status)
	}
}

func FuzzParamValue(f *testing.F) {
	f.Add([]byte(`["a",null]`))
	f.Add([]byte(`{"a":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var first, second v1beta1.ParamValue
		if json.Unmarshal(data, &first) != nil {
			return
		}
		out, err := json.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out, &second); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Error(diff)
		}
	})
}
