package apply

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/internal/cluster"
)

// untilCached is what an API server does as long as the webhook that converts the stored objects is down: its cache is not filled.
const untilCached = "429, until its cache is filled"

// waysDown are the ways in which the API server does not answer about one kind while it answers about others.
var waysDown = map[string]http.HandlerFunc{
	untilCached: func(w http.ResponseWriter, _ *http.Request) {
		answerStatus(w, apierrors.NewTooManyRequests("storage is (re)initializing", 1))
	},
	"429, and a long time to wait": func(w http.ResponseWriter, _ *http.Request) {
		answerStatus(w, apierrors.NewTooManyRequests("storage is (re)initializing", 3600))
	},
	"500, from a webhook": func(w http.ResponseWriter, _ *http.Request) {
		answerStatus(w, apierrors.NewInternalError(errors.New("conversion webhook for example.com/v1, Kind=Widget failed")))
	},
	"503, from an API service": func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
	},
	"504, after a minute": func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(time.Minute - time.Second):
			answerStatus(w, apierrors.NewTimeoutError("the webhook did not answer", 0))
		case <-r.Context().Done():
		}
	},
	"no answer":                 func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	"an answer that is no list": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
	"403": func(w http.ResponseWriter, _ *http.Request) {
		answerStatus(w, apierrors.NewForbidden(schema.GroupResource{Group: "example.com", Resource: "widgets"}, "", errors.New("not you")))
	},
}

func answerStatus(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.APIVersion, status.Kind = "v1", "Status"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

const (
	widgetCRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"
	widgets   = "/apis/example.com/v1/widgets"
	widgetsIn = "/apis/example.com/v1/namespaces/shops/widgets"
)

// kindsServed has the server serve ConfigMaps, namespaces, CRDs and two custom kinds, of which one is down.
func (s *server) kindsServed(down http.HandlerFunc) {
	resource := func(name, kind string, namespaced bool) map[string]any {
		return map[string]any{"name": name, "kind": kind, "namespaced": namespaced, "verbs": []any{"get", "list", "delete"}}
	}
	group := func(name string) map[string]any {
		v := map[string]any{"groupVersion": name + "/v1", "version": "v1"}
		return map[string]any{"name": name, "versions": []any{v}, "preferredVersion": v}
	}
	s.put("/api", map[string]any{"versions": []any{"v1"}})
	s.put("/apis", map[string]any{"groups": []any{group("example.com"), group("apiextensions.k8s.io")}})
	s.put("/apis/example.com", group("example.com"))
	s.put("/api/v1", map[string]any{"groupVersion": "v1", "resources": []any{resource("configmaps", "ConfigMap", true), resource("namespaces", "Namespace", false)}})
	s.put("/apis/apiextensions.k8s.io/v1", map[string]any{
		"groupVersion": "apiextensions.k8s.io/v1", "resources": []any{resource("customresourcedefinitions", "CustomResourceDefinition", false)},
	})
	s.put("/apis/example.com/v1", map[string]any{"groupVersion": "example.com/v1", "resources": []any{resource("widgets", "Widget", true), resource("gadgets", "Gadget", true)}})
	empty := map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]any{}, "items": []any{}}
	for _, path := range []string{
		"/api/v1/configmaps", "/api/v1/namespaces", "/api/v1/namespaces/shops/configmaps", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		"/apis/example.com/v1/gadgets", "/apis/example.com/v1/namespaces/shops/gadgets", "/apis/coordination.k8s.io/v1/namespaces/shops/leases",
	} {
		s.objects[path] = empty
	}
	s.down = map[string]http.HandlerFunc{widgets: down, widgetsIn: down, widgetsIn + "/w": down, widgetsIn + "/v": down}
}

// marked is an object that app shop has applied.
func marked(kind, name, uid string) map[string]any {
	return map[string]any{"apiVersion": "example.com/v1", "kind": kind, "metadata": map[string]any{
		"name": name, "namespace": "shops", "uid": uid, "labels": map[string]any{LabelApp: appID(shopOwner)}, "annotations": map[string]any{AnnotationApp: shopOwner},
		"managedFields": []any{map[string]any{"manager": Manager, "operation": string(metav1.ManagedFieldsOperationApply)}},
	}}
}

// record stores the inventory of app shop.
func (s *server) record(ids ...ID) {
	v := Inventory{APIVersion: inventoryVersion, Kind: inventoryKind, App: "shop", Namespace: "shops", State: Applied}
	for _, id := range ids {
		v.Objects = append(v.Objects, Entry{ID: id, Version: "v1", Resource: strings.ToLower(id.Kind) + "s", Manifest: "made"})
	}
	text, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	s.put(inventory, map[string]any{
		"metadata": map[string]any{"name": "sluice-app-shop", "namespace": "shops"}, "data": map[string]any{inventoryKey: string(text)},
	})
}

// whileDown runs a test for each way of being down, on a clock of its own. No call may take longer than one request may.
func whileDown(t *testing.T, test func(t *testing.T, s *server, a *Applier, forbidden bool)) {
	t.Helper()
	for name, down := range waysDown {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, a := newServer(t)
				s.kindsServed(down)
				begun := time.Now()
				test(t, s, a, name == "403")
				if took := time.Since(begun); took > cluster.RequestTimeout {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func TestOrphansAreFoundAndAdoptedWhileOneKindIsDown(t *testing.T) {
	whileDown(t, func(t *testing.T, s *server, a *Applier, _ bool) {
		s.objects["/apis/example.com/v1/gadgets"] = map[string]any{"items": []any{marked("Gadget", "g", "1")}}
		d, err := a.PlanAdoption(t.Context(), "shops", "shop")
		if err == nil {
			err = a.Adopt(t.Context(), d)
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Objects) != 1 || d.Objects[0].Name != "g" {
			t.Errorf("adopted: %+v", d.Objects)
		}
		if len(d.Unlisted) != 1 || !strings.Contains(d.Unlisted[0], "widgets.example.com") {
			t.Errorf("not listed: %q", d.Unlisted)
		}
		if v, err := a.App(t.Context(), "shops", "shop"); err != nil || len(v.Objects) != 1 || !v.Incomplete {
			t.Errorf("recorded: %+v, %v", v, err)
		}
	})
}

// Several objects of a kind are listed, and a single one is read by its name.
func TestTheStatusOfOtherObjectsIsToldWhileOneKindIsDown(t *testing.T) {
	for how, names := range map[string][]string{"read": {"w"}, "listed": {"w", "v"}} {
		t.Run(how, func(t *testing.T) {
			whileDown(t, func(t *testing.T, s *server, a *Applier, _ bool) {
				s.put("/apis/example.com/v1/namespaces/shops/gadgets/g", marked("Gadget", "g", "1"))
				v := &Inventory{App: "shop", Namespace: "shops", Objects: []Entry{{ID: ID{"example.com", "Gadget", "shops", "g"}, Version: "v1"}}}
				for _, n := range names {
					v.Objects = append(v.Objects, Entry{ID: ID{"example.com", "Widget", "shops", n}, Version: "v1"})
				}
				states, err := a.Status(t.Context(), v)
				if err != nil {
					t.Fatal(err)
				}
				if states[0].Status != "Current" {
					t.Errorf("%+v", states[0])
				}
				for _, s := range states[1:] {
					if s.Status != "Unknown" || s.Message == "" {
						t.Errorf("%+v", s)
					}
				}
			})
		})
	}
}

func TestAGroupThatDoesNotAnswerHidesOnlyTheStatusOfItsOwnObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := newServer(t)
		s.shop()
		s.down = map[string]http.HandlerFunc{"/apis/example.com/v1": waysDown["503, from an API service"]}
		v := &Inventory{App: "shop", Namespace: "shops", Objects: []Entry{
			{ID: ID{Kind: "ConfigMap", Namespace: "shops", Name: "thing"}, Version: "v1"}, {ID: ID{"example.com", "Widget", "shops", "w"}, Version: "v1"},
		}}
		states, err := a.Status(t.Context(), v)
		if err != nil || states[0].Status != "Current" || states[1].Status != "Unknown" || states[1].Message == "" {
			t.Errorf("%+v, %v", states, err)
		}
	})
}

// What would go with a CRD or a namespace is not known while its kind is down. So it stays, unless the user allows its deletion, and the
// reason names the kind.
func TestWhatMayTakeObjectsAlongStaysWhileTheirKindIsDown(t *testing.T) {
	for name, test := range map[string]struct {
		id    ID
		path  string
		allow bool
	}{
		"a namespace":             {ID{Kind: "Namespace", Name: "shops"}, "/api/v1/namespaces/shops", false},
		"a namespace, if allowed": {ID{Kind: "Namespace", Name: "shops"}, "/api/v1/namespaces/shops", true},
		"a CRD":                   {ID{"apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.example.com"}, widgetCRD, false},
		"a CRD, if allowed":       {ID{"apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.example.com"}, widgetCRD, true},
	} {
		t.Run(name, func(t *testing.T) {
			whileDown(t, func(t *testing.T, s *server, a *Applier, forbidden bool) {
				s.put(test.path, map[string]any{
					"metadata": map[string]any{"name": test.id.Name, "uid": "1", "annotations": map[string]any{AnnotationApp: shopOwner}},
					"spec": map[string]any{
						"group": "example.com", "names": map[string]any{"plural": "widgets", "kind": "Widget"},
						"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}},
					},
					"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
				})
				s.record(test.id)
				d, err := a.PlanDeletion(t.Context(), DeletionRequest{App: "shop", Namespace: "shops", AllowDeleteCRDs: test.allow, AllowDeleteNamespaces: test.allow})
				if err != nil {
					t.Fatal(err)
				}
				err = d.Err()
				switch r := d.Removals[0]; {
				case test.allow:
					if err != nil || r.Action != Delete || r.Takes == "" {
						t.Errorf("%+v, %v", r, err)
					}
				case err == nil || !strings.Contains(err.Error(), "widgets"):
					t.Errorf("it is deleted, or the kind is not named: %v", err)
				case !errors.Is(err, ErrProtected) && (!forbidden || isNamespace(test.id)):
					t.Errorf("it is not protected: %v", err)
				}
			})
		})
	}
}

// The error of a request that concerns the whole cluster ends a search: no other kind can be listed either.
func TestASearchEndsIfTheClusterDoesNotAnswer(t *testing.T) {
	s, a := newServer(t)
	s.kindsServed(waysDown["403"])
	s.down["/api/v1/configmaps"] = func(w http.ResponseWriter, _ *http.Request) {
		answerStatus(w, apierrors.NewUnauthorized("who are you"))
	}
	if _, err := a.Orphans(t.Context(), "shops", ""); !errors.Is(err, cluster.ErrNoAccess) {
		t.Errorf("error %v", err)
	}
}
