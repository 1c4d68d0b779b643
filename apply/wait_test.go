package apply

import (
	"testing"
)

func TestADefinitionIsServedForThoseWhoMayNotListItsObjects(t *testing.T) {
	const crd, things, version = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com", "/apis/example.com/v1/things", "/apis/example.com/v1"
	s, a := newServer(t)
	s.put(crd, map[string]any{
		"metadata": map[string]any{"name": "things.example.com"},
		"spec": map[string]any{
			"group": "example.com", "names": map[string]any{"kind": "Thing", "plural": "things"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}},
		},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
	})
	s.forbidden[things] = true
	why, err := a.establishing(t.Context(), "things.example.com")
	if err != nil || why == "" {
		t.Errorf("before it is served: %q, %v", why, err)
	}
	s.put(version, map[string]any{"resources": []any{map[string]any{"name": "things", "kind": "Thing", "namespaced": true, "verbs": []any{"get"}}}})
	why, err = a.establishing(t.Context(), "things.example.com")
	if err != nil || why != "" {
		t.Errorf("once it is served: %q, %v", why, err)
	}
}
