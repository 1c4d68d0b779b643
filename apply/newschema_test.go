package apply

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// untyped is the answer to an apply with a field that the schema does not have.
var untyped = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "failed to create typed patch object: .spec.b: field not declared in schema",
}}

func TestOnlySomeAnswersMayBeAboutTheSchema(t *testing.T) {
	gr := schema.GroupResource{Group: "example.com", Resource: "foos"}
	for err, want := range map[error]bool{
		untyped: true,
		apierrors.NewInvalid(schema.GroupKind{}, "f", nil):               true,
		apierrors.NewBadRequest("strict decoding error"):                 true,
		apierrors.NewInternalError(errors.New("failed calling webhook")): false,
		apierrors.NewForbidden(gr, "f", errors.New("no")):                false,
		apierrors.NewNotFound(gr, "f"):                                   false,
		apierrors.NewConflict(gr, "f", errors.New("no")):                 false,
		apierrors.NewServiceUnavailable("no"):                            false,
		errors.New("connection refused"):                                 false,
	} {
		if got := aboutSchema(err); got != want {
			t.Errorf("%v: %t", err, got)
		}
	}
}

const (
	foosCRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.example.com"
	foosIn  = "/apis/example.com/v1/namespaces/shops/foos"
)

// fooCRD is a CRD whose spec has these properties, all of them texts.
func fooCRD(properties ...string) map[string]any {
	props := map[string]any{}
	for _, p := range properties {
		props[p] = map[string]any{"type": "string"}
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "foos.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced", "names": map[string]any{"kind": "Foo", "plural": "foos"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "properties": props}},
			}}}},
		},
	}
}

// The API server takes a moment to use a changed schema. Until then, it refuses what only the new schema allows, and no other object.
func TestAnObjectOfANewSchemaIsWrittenOnceTheServerKnowsTheSchema(t *testing.T) {
	for name, test := range map[string]struct {
		next []string // the fields of the CRD of the source
		says string   // part of the error; empty for none
		// writes is how often the object is written.
		writes int
	}{
		"a field that comes with the CRD":    {[]string{"a", "b"}, "", 3},
		"a field that the CRD does not have": {[]string{"a", "c"}, "the CRD of the source refuses it: ", 0},
		"a CRD that stays as it is":          {[]string{"a"}, "field not declared in schema", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, a := newServer(t)
				resource := func(name, kind string) map[string]any {
					return map[string]any{"resources": []any{map[string]any{"name": name, "kind": kind, "namespaced": kind == "Foo", "verbs": []any{"get"}}}}
				}
				s.put("/apis/apiextensions.k8s.io/v1", resource("customresourcedefinitions", "CustomResourceDefinition"))
				s.put("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", map[string]any{"items": []any{}})
				s.put("/apis/example.com/v1", resource("foos", "Foo"))
				s.put("/apis/example.com/v1/foos", map[string]any{"items": []any{}})
				s.put(foosIn, map[string]any{"items": []any{}})
				live := fooCRD("a")
				live["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
				applied := entryOf(Manager, "Apply", fieldsOf(map[string]any{"spec": live["spec"]}))
				applied["apiVersion"] = live["apiVersion"]
				metadataOf(live)["managedFields"] = []any{applied}
				s.put(foosCRD, live)
				writes := 0
				s.down = map[string]http.HandlerFunc{foosIn + "/f": func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPatch && r.URL.Query().Get("dryRun") == "" {
						writes++
					}
					if r.Method == http.MethodPatch && writes < 3 {
						answerStatus(w, untyped)
					} else {
						s.serve(w, r)
					}
				}}
				foo := map[string]any{"apiVersion": "example.com/v1", "kind": "Foo", "metadata": map[string]any{"name": "f"}, "spec": map[string]any{"b": "x"}}
				p, err := a.Plan(t.Context(), Request{Objects: []Object{objectFrom(t, fooCRD(test.next...)), objectFrom(t, foo)}})
				if err == nil {
					err = a.Apply(t.Context(), p)
				}
				if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) || writes != test.writes {
					t.Errorf("%d writes, error %v", writes, err)
				}
			})
		})
	}
}

// A webhook that does not answer may be one that the source starts, and then its objects are written without a dry run.
func TestASourceMayStartAWebhook(t *testing.T) {
	down := func(host string) error {
		return apierrors.NewInternalError(errors.New(`failed calling webhook "a": failed to call webhook: Post "https://` + host + `/x?timeout=10s": connection refused`))
	}
	pod := Item{Object: Object{ID: ID{Kind: "Deployment", Namespace: "hooks", Name: "d"}}}
	other := Item{Object: Object{ID: ID{Kind: "ConfigMap", Namespace: "shop", Name: "c"}}}
	hook := Item{Object: Object{ID: ID{Kind: "MutatingWebhookConfiguration", Name: "m"}}}
	for _, tt := range []struct {
		host  string
		items []Item
		want  bool
	}{
		{"svc.hooks.svc:443", []Item{other, pod}, true},
		{"svc.hooks.svc:443", []Item{other}, false},
		{"svc.hooks.svc:443", []Item{other, hook}, true},
		{"hooks.example.com", []Item{other}, true},
	} {
		p := &Plan{Items: tt.items}
		if got := p.mayPass(&tt.items[0], down(tt.host)) != ""; got != tt.want {
			t.Errorf("%s with %v: %t", tt.host, tt.items, got)
		}
	}
}

// Discovery has a kind for a moment after its CRD was deleted. If the source has the CRD, that is no reason to stop.
func TestAnObjectWhoseCRDWasJustDeletedIsTriedLater(t *testing.T) {
	gone := apierrors.NewGenericServerResponse(http.StatusNotFound, "PATCH", schema.GroupResource{}, "", "404 page not found", 0, true)
	foo := Item{Object: Object{ID: ID{Kind: "Foo", Namespace: "shop", Name: "f"}}}
	foo.Group, foo.mapping.resource = "example.com", "foos"
	crd := Item{Object: Object{ID: ID{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "foos.example.com"}}}
	for action, want := range map[Action]bool{Create: true, Unchanged: false} {
		crd.Action = action
		p := &Plan{Items: []Item{crd, foo}}
		if got := p.mayPass(&p.Items[1], gone) != ""; got != want {
			t.Errorf("the CRD is %s: %t", action, got)
		}
	}
}
