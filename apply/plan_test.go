package apply

import (
	"errors"
	"testing"
)

func TestAnObjectIsFoundInTheVersionThatIsServedBeforeItsOwn(t *testing.T) {
	crd, err := NewObject("crd.yaml", 1, []byte(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"}, "spec": {
		"group": "example.com", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
		"versions": [{"name": "v1", "served": true}, {"name": "v2", "served": true, "storage": true}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	thing, err := NewObject("thing.yaml", 1, []byte(`{"apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": "x"}}`))
	if err != nil {
		t.Fatal(err)
	}
	kinds := func(kind, resource string, namespaced bool) map[string]any {
		return map[string]any{"resources": []any{map[string]any{"name": resource, "kind": kind, "namespaced": namespaced, "verbs": []any{"get"}}}}
	}
	for name, test := range map[string]struct {
		owner string
		want  Action
		err   error
	}{
		"nobody has it":       {"", Create, nil},
		"the app has it":      {"shops/shop", Update, nil},
		"another app has it":  {"shops/other", "", ErrOtherApp},
		"somebody else's own": {"-", Update, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, a := newServer(t)
			s.put("/apis/apiextensions.k8s.io/v1", kinds("CustomResourceDefinition", "customresourcedefinitions", false))
			s.put("/apis/example.com", map[string]any{"preferredVersion": map[string]any{"version": "v1"}, "versions": []any{map[string]any{"version": "v1"}}})
			s.put("/apis/example.com/v1", kinds("Thing", "things", true))
			if test.owner != "" {
				meta := map[string]any{"name": "x", "namespace": "shops", "uid": "1"}
				if test.owner != "-" {
					meta["annotations"] = map[string]any{AnnotationApp: test.owner}
				}
				s.put("/apis/example.com/v1/namespaces/shops/things/x", map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": meta})
			}
			p, err := a.Plan(t.Context(), Request{Objects: []Object{crd, thing}, App: "shop"})
			if !errors.Is(err, test.err) || (err != nil) != (test.err != nil) {
				t.Fatalf("error %v, want %v", err, test.err)
			}
			if err == nil && p.Items[1].Action != test.want {
				t.Errorf("%s, want %s", p.Items[1].Action, test.want)
			}
		})
	}
}
