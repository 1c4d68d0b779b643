package cluster

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"
)

// A set of objects makes an object unappliable that has an item in it. What the live schema does already is no news.
func TestSetsOfObjectsMakeObjectsUnappliable(t *testing.T) {
	t.Parallel()
	crd := func(a, b string) *apiextensionsv1.CustomResourceDefinition {
		list := func(kind, items string) string {
			return "{type: array, x-kubernetes-list-type: " + kind + ", items: " + items + "}"
		}
		objects, anything := "{type: object, x-kubernetes-map-type: atomic, properties: {x: {type: string}}}", "{x-kubernetes-preserve-unknown-fields: true}"
		out := &apiextensionsv1.CustomResourceDefinition{}
		err := yaml.Unmarshal([]byte("{spec: {group: example.com, scope: Namespaced, names: {kind: Widget}, versions: [{name: v1, served: true, storage: true, "+
			"schema: {openAPIV3Schema: {type: object, properties: {a: "+list(a, objects)+", b: "+list(b, anything)+"}}}}]}}"), out)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, test := range []struct {
		live, next *apiextensionsv1.CustomResourceDefinition
		fields     string
		want       bool
	}{
		{crd("atomic", "atomic"), crd("set", "atomic"), `"a": [{"x": "1"}]`, true},
		{crd("atomic", "atomic"), crd("set", "atomic"), `"a": [], "b": [{"x": "1"}]`, false},
		{crd("set", "atomic"), crd("set", "atomic"), `"a": [{"x": "1"}]`, false},
		{crd("set", "atomic"), crd("set", "set"), `"a": [{"x": "1"}]`, false},
		{crd("set", "atomic"), crd("set", "set"), `"b": [{"x": "1"}]`, true},
		{crd("set", "atomic"), crd("set", "set"), `"b": ["x"]`, false},
		{crd("set", "set"), crd("atomic", "atomic"), `"a": [{"x": "1"}]`, false},
	} {
		j, err := newJudge(test.live, "v1", test.next, "v1", nil)
		if err != nil {
			t.Fatal(err)
		}
		f, err := j.fateOf(t.Context(), []byte(`{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}, `+test.fields+`}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Unappliable != ""; got != test.want || len(f.Refused)+len(f.Strict) > 0 {
			t.Errorf("%s: unappliable %t, want %t: %+v", test.fields, got, test.want, f)
		}
	}
}

// Before Kubernetes 1.33, a value that an update may keep can refuse every write of the status.
func TestStatusWritesAreJudged(t *testing.T) {
	t.Parallel()
	crd := func(maximum string) *apiextensionsv1.CustomResourceDefinition {
		out := &apiextensionsv1.CustomResourceDefinition{}
		err := yaml.Unmarshal([]byte("{spec: {group: example.com, scope: Namespaced, names: {kind: Widget}, versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, "+
			"schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: integer"+maximum+"}}}, status: {type: object, properties: {a: {type: integer"+maximum+"}}}}}}}]}}"), out)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, test := range []struct {
		kube, fields string
		want         bool
	}{
		{"1.32", `"status": {"a": 10}`, true},
		{"1.32", `"spec": {"a": 10}`, false},
		{"1.32", `"status": {"a": 1}`, false},
		{"1.33", `"status": {"a": 10}`, false},
		{"1.29", `"status": {"a": 10}`, false}, // any update is refused
	} {
		j, err := newJudge(crd(""), "v1", crd(", maximum: 9"), "v1", version.MustParse(test.kube))
		if err != nil {
			t.Fatal(err)
		}
		f, err := j.fateOf(t.Context(), []byte(`{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}, `+test.fields+`}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.StatusRefused != ""; got != test.want {
			t.Errorf("%s under %s: the status is refused %t, want %t: %+v", test.fields, test.kube, got, test.want, f)
		}
	}
}
