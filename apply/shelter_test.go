package apply

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestWhatStaysIsNotTakenByItsNamespaceOrItsDefinition(t *testing.T) {
	const crd, inside = "gadgets.example.com", "gadgets"
	kept := marks{treatment: treatment{kept: true}}
	gadget := Entry{ID: ID{Group: "example.com", Kind: "Gadget", Namespace: "n", Name: "g"}, Version: "v1", Resource: inside}
	setting := Entry{ID: ID{Kind: "ConfigMap", Namespace: "n", Name: "c"}, Version: "v1", Resource: "configmaps"}
	for name, test := range map[string]struct {
		items []Entry
		other Removal
		// what becomes of the namespace n and the CRD
		namespace, crd Action
	}{
		"what is deleted with them":                    {nil, Removal{Entry: gadget, Action: Delete, live: &live{}}, Delete, Delete},
		"what has gone already":                        {nil, Removal{Entry: gadget, Action: Forget}, Delete, Delete},
		"an object that its annotation keeps":          {nil, Removal{Entry: gadget, Action: Forget, live: &live{marks: kept}}, Forget, Forget},
		"an object of another app":                     {nil, Removal{Entry: gadget, Action: Forget, live: &live{}}, Forget, Delete},
		"an object that is not served at present":      {nil, Removal{Entry: gadget, Action: Keep}, Keep, Delete},
		"one of another kind, which is kept":           {nil, Removal{Entry: setting, Action: Forget, live: &live{marks: kept}}, Forget, Delete},
		"an object of the source":                      {[]Entry{setting}, Removal{Entry: gadget, Action: Delete, live: &live{}}, Forget, Delete},
		"an object of the source that the CRD defines": {[]Entry{gadget}, Removal{Entry: setting, Action: Delete, live: &live{}}, Forget, Keep},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Plan{Removals: []Removal{
				test.other,
				{Entry: Entry{ID: ID{Kind: "ConfigMap", Namespace: "m", Name: "n"}}, Action: Delete, live: &live{}},
				{Entry: Entry{ID: ID{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: crd}}, Action: Delete, live: &live{}},
				{Entry: Entry{ID: ID{Kind: "Namespace", Name: "m"}}, Action: Delete, live: &live{}},
				{Entry: Entry{ID: ID{Kind: "Namespace", Name: "n"}}, Action: Delete, live: &live{}},
			}}
			for _, e := range test.items {
				p.Items = append(p.Items, Item{Object: Object{ID: e.ID, Version: e.Version}, mapping: mapping{resource: e.Resource}})
			}
			told := len(p.shelterRemovals())
			var got []Action
			stay := 0
			for i := range p.Removals[1:] {
				r := &p.Removals[i+1]
				got = append(got, r.Action)
				if r.Action != Delete {
					stay++
					if !strings.Contains(r.Reason, " n/") {
						t.Errorf("%s: reason %q", r.ID, r.Reason)
					}
				}
			}
			if diff := cmp.Diff([]Action{Delete, test.crd, Delete, test.namespace}, got); diff != "" || told != stay {
				t.Errorf("%d told, %d stay: %s", told, stay, diff)
			}
			if again := p.shelterRemovals(); len(again) > 0 {
				t.Errorf("again: %v", again)
			}
		})
	}
}

// An object that gets the annotation, or another owner, after the plan was made stays with the namespace that it is in.
func TestWhatStaysInTheEndKeepsItsNamespace(t *testing.T) {
	const space = "/api/v1/namespaces/shops"
	s, a := newServer(t)
	s.shop()
	s.put("/api/v1", map[string]any{"resources": []any{
		map[string]any{"name": "configmaps", "kind": "ConfigMap", "namespaced": true, "verbs": []any{"get"}},
		map[string]any{"name": "namespaces", "kind": "Namespace", "verbs": []any{"get"}},
	}})
	s.put(space, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
		"name": "shops", "uid": "2", "annotations": map[string]any{AnnotationApp: "shops/shop"},
	}})
	v, err := a.App(t.Context(), "shops", "shop")
	if err != nil {
		t.Fatal(err)
	}
	v.Objects = append(v.Objects, Entry{ID: ID{Kind: "Namespace", Name: "shops"}, Version: "v1", Resource: "namespaces"})
	if err := a.client.saveInventory(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	d, err := a.PlanDeletion(t.Context(), DeletionRequest{App: "shop", Namespace: "shops", AllowDeleteNamespaces: true})
	if err != nil {
		t.Fatal(err)
	}
	actions := func() []Action { return []Action{d.Removals[0].Action, d.Removals[1].Action} }
	if diff := cmp.Diff([]Action{Delete, Delete}, actions()); diff != "" {
		t.Fatal(diff)
	}
	s.before = func(r *http.Request) {
		if r.Method == http.MethodDelete && r.URL.Path == thing {
			s.before = nil
			meta, _ := s.objects[thing]["metadata"].(map[string]any)
			meta["annotations"] = map[string]any{AnnotationApp: "shops/shop", annotationPolicy: "keep"}
			s.put(thing, s.objects[thing])
		}
	}
	if err := a.Delete(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if s.objects[thing] == nil || s.objects[space] == nil {
		t.Errorf("the ConfigMap is there: %t, its namespace: %t", s.objects[thing] != nil, s.objects[space] != nil)
	}
	if diff := cmp.Diff([]Action{Forget, Forget}, actions()); diff != "" {
		t.Error(diff)
	}
}

// A refusal of a dry run counts, unless the plan itself takes away in an earlier turn what refuses, or the guard counts objects that the plan deletes.
func TestARefusedDeletionMaySucceedInItsTurn(t *testing.T) {
	removal := func(group, kind, resource, name string) Removal {
		return Removal{Entry: Entry{ID: ID{Group: group, Kind: kind, Name: name}, Version: "v1", Resource: resource}, Action: Delete}
	}
	crd := removal("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", "ws.example.com")
	object := removal("example.com", "W", "ws", "w")
	configMap := removal("", "ConfigMap", "configmaps", "c")
	policy := removal("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", "p")
	hook := removal("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "h")
	policy.Stage, hook.Stage, configMap.Stage = StageAdmission, StageAdmission, StageObjects
	resource := schema.GroupResource{Group: "example.com", Resource: "ws"}
	byGuard := func(field string) error {
		err := apierrors.NewForbidden(resource, "x", errors.New(`admission webhook "crd-guard.sluice.dev" denied the request`))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "crd-removed", Field: field}}
		return err
	}
	denied := apierrors.NewForbidden(resource, "x", errors.New("ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no"))
	down := apierrors.NewInternalError(errors.New(`failed calling webhook "h"`))
	for _, tt := range []struct {
		name string
		of   Removal
		also []Removal
		err  error
		want bool
	}{
		{"the guard, and objects go first", crd, []Removal{object}, byGuard("objects"), true},
		{"the guard, and the objects are another app's", crd, []Removal{configMap}, byGuard("objects"), false},
		{"the guard cannot count", crd, []Removal{object}, byGuard(""), false},
		{"a policy that goes first", configMap, []Removal{policy}, denied, true},
		{"a policy that stays", configMap, nil, denied, false},
		{"a policy that goes later", object, []Removal{policy}, denied, false},
		{"no right", configMap, []Removal{policy}, apierrors.NewForbidden(resource, "x", errors.New(`User "u" cannot delete resource`)), false},
		{"a webhook that does not answer", object, nil, down, false},
		{"a webhook that goes later", object, []Removal{hook}, down, false},
		{"it changed", object, nil, apierrors.NewConflict(resource, "w", errors.New("no")), true},
	} {
		p := &Plan{Removals: append([]Removal{tt.of}, tt.also...)}
		if got := p.mayBeDeleted(&tt.of, tt.err); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}
