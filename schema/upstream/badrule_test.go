package upstream

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func TestBadRules(t *testing.T) {
	var p apiextensionsv1.JSONSchemaProps
	err := yaml.Unmarshal([]byte(`
type: object
x-kubernetes-validations: [{rule: "has(self.spec)"}, {rule: "self.nothing == 1"}]
properties:
  spec:
    type: object
    properties:
      a/b~c:
        type: array
        items: {type: integer, x-kubernetes-validations: [{rule: "self == 'a'"}, {rule: "self > 1"}]}
      m:
        type: object
        additionalProperties: {type: string, x-kubernetes-validations: [{rule: "self +"}]}
`), &p)
	if err != nil {
		t.Fatal(err)
	}
	v, err := New(&p, Options{Group: "x.io", Version: "v1", Kind: "A"})
	if err != nil {
		t.Fatal(err)
	}
	bad, err := v.BadRules()
	if err != nil {
		t.Fatal(err)
	}
	var got [][2]string
	for _, b := range bad {
		if b.Err == nil {
			t.Errorf("%s: no error", b.Path)
		}
		got = append(got, [2]string{b.Path, b.Rule})
	}
	want := [][2]string{
		{"", "self.nothing == 1"},
		{"/properties/spec/properties/a~1b~0c/items", "self == 'a'"},
		{"/properties/spec/properties/m/additionalProperties", "self +"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
