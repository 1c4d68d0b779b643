package installation

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// answers are those of an API server, by path. It knows nothing else.
type answers map[string]any

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	answer, code := a[r.URL.Path], http.StatusOK
	if answer == nil {
		answer = apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path)
	}
	if refusal, ok := answer.(*apierrors.StatusError); ok {
		status := refusal.Status()
		status.APIVersion, status.Kind = "v1", "Status"
		if status.Code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		answer, code = status, int(status.Code)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	err := json.NewEncoder(w).Encode(answer)
	return w.Result(), err
}

// oneKindDown is a cluster whose widgets cannot be listed, in which Sluice has a namespace and a kind of its own with as little.
func oneKindDown(why *apierrors.StatusError) answers {
	group := func(name string) map[string]any {
		v := map[string]any{"groupVersion": name + "/v1", "version": "v1"}
		return map[string]any{"name": name, "versions": []any{v}, "preferredVersion": v}
	}
	resources := func(version string, list ...map[string]any) map[string]any {
		for _, r := range list {
			r["verbs"] = []any{"get", "list"}
		}
		return map[string]any{"groupVersion": version, "resources": list}
	}
	list := func(items ...any) map[string]any {
		return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "items": append([]any{}, items...)}
	}
	bindings := func(kind string) map[string]any {
		return map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "items": []any{}}
	}
	object := func(name string) map[string]any {
		return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": map[string]any{
			"name": name, "uid": name, "labels": map[string]any{"app.kubernetes.io/part-of": "sluice"},
		}}
	}
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	return answers{
		"/api":                               map[string]any{"versions": []any{"v1"}},
		"/apis":                              map[string]any{"groups": []any{group("example.com"), group("sluice.dev"), group("rbac.authorization.k8s.io"), group("apiextensions.k8s.io")}},
		"/api/v1":                            resources("v1", map[string]any{"name": "namespaces", "kind": "Namespace"}),
		"/apis/rbac.authorization.k8s.io/v1": resources("rbac.authorization.k8s.io/v1", map[string]any{"name": "rolebindings", "kind": "RoleBinding", "namespaced": true}),
		"/apis/apiextensions.k8s.io/v1":      resources("apiextensions.k8s.io/v1", map[string]any{"name": "customresourcedefinitions", "kind": "CustomResourceDefinition"}),
		"/apis/example.com/v1":               resources("example.com/v1", map[string]any{"name": "widgets", "kind": "Widget", "namespaced": true}),
		"/apis/sluice.dev/v1":                resources("sluice.dev/v1", map[string]any{"name": "deliveries", "kind": "Delivery", "namespaced": true}),

		"/api/v1/namespaces/sluice-system":                       object("sluice-system"),
		"/apis/rbac.authorization.k8s.io/v1/rolebindings":        bindings("RoleBindingList"),
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": bindings("ClusterRoleBindingList"),
		crds: list(object("deliveries.sluice.dev")),
		"/apis/example.com/v1/namespaces/sluice-system/widgets":   why,
		"/apis/sluice.dev/v1/namespaces/sluice-system/deliveries": why,
		"/apis/sluice.dev/v1/deliveries":                          why,
	}
}

func TestARemovalIsPlannedWhileSomeKindsAreDown(t *testing.T) {
	for name, why := range map[string]*apierrors.StatusError{
		"429": apierrors.NewTooManyRequests("storage is (re)initializing", 1),
		"500": apierrors.NewInternalError(errors.New("conversion webhook failed")),
		"503": apierrors.NewServiceUnavailable("no endpoints"),
		"403": apierrors.NewForbidden(schema.GroupResource{Resource: "widgets"}, "", errors.New("not you")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config := &rest.Config{Host: "http://server", Transport: oneKindDown(why)}
				c, err := New(config, "sluice-system")
				if err != nil {
					t.Fatal(err)
				}
				p, err := c.Plan(t.Context(), Options{})
				if err != nil {
					t.Fatal(err)
				}
				var left []string
				for _, o := range p.Left {
					left = append(left, o.String()+": "+o.Reason)
				}
				for _, want := range []string{"objects of widgets.example.com, which cannot be listed,", "Namespace sluice-system: ", "CustomResourceDefinition deliveries.sluice.dev: its objects cannot be listed"} {
					if !slices.ContainsFunc(left, func(l string) bool { return strings.HasPrefix(l, want) }) {
						t.Errorf("%q is not told to stay: %q", want, left)
					}
				}
				if !p.Empty() {
					t.Errorf("removed: %+v", p.Steps)
				}
				// Who deletes the objects of a kind must be able to release them first.
				if _, err := c.Plan(t.Context(), Options{DeleteObjects: true, DeleteNamespace: true}); err == nil || !strings.Contains(err.Error(), "deliveries.sluice.dev") {
					t.Errorf("its objects are deleted without a look: %v", err)
				}
			})
		})
	}
}

// What stays for a reason that ends during the removal was never removed, so no program can have created it again.
func TestARemovalIsCheckedAgainstWhatItRemoved(t *testing.T) {
	const deliveries = "/apis/sluice.dev/v1/deliveries"
	list := func(items ...any) map[string]any {
		return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "items": append([]any{}, items...)}
	}
	for name, test := range map[string]struct {
		uid  string // of the CRD at the end
		back bool
	}{
		"its last object expires":      {"deliveries.sluice.dev", false},
		"another one of the same name": {"another", true},
	} {
		t.Run(name, func(t *testing.T) {
			server := oneKindDown(nil)
			server["/apis/example.com/v1/namespaces/sluice-system/widgets"] = list()
			server["/apis/sluice.dev/v1/namespaces/sluice-system/deliveries"] = list()
			server[deliveries] = list(map[string]any{"metadata": map[string]any{"name": "one"}})
			c, err := New(&rest.Config{Host: "http://server", Transport: server}, "sluice-system")
			if err != nil {
				t.Fatal(err)
			}
			p, err := c.Plan(t.Context(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(p.Left, func(o Object) bool { return o.Name == "deliveries.sluice.dev" }) {
				t.Fatalf("the CRD does not stay: %+v", p)
			}
			p.Steps = nil // nothing is to be removed
			server[deliveries] = list()
			crd := map[string]any{"name": "deliveries.sluice.dev", "uid": test.uid, "labels": map[string]any{"app.kubernetes.io/part-of": "sluice"}}
			server["/apis/apiextensions.k8s.io/v1/customresourcedefinitions"] = list(map[string]any{"metadata": crd})
			server["/api/v1/namespaces/sluice-system"] = nil
			if err := c.Remove(t.Context(), p, Options{}, func(*Step) {}); errors.Is(err, ErrBack) != test.back || err != nil && !test.back {
				t.Error(err)
			}
		})
	}
}

func TestDoctorGoesOnWhereTheAPIServerCannotReadOneKind(t *testing.T) {
	resource := schema.GroupResource{Group: "sluice.dev", Resource: "deliveries"}
	for err, want := range map[error]State{
		apierrors.NewForbidden(resource, "", errors.New("not you")):    Warn,
		apierrors.NewTooManyRequests("storage is (re)initializing", 1): Fail,
		apierrors.NewInternalError(errors.New("webhook")):              Fail,
		apierrors.NewServiceUnavailable("no endpoints"):                Fail,
		apierrors.NewTimeoutError("the webhook did not answer", 0):     Fail,
		errors.New("dial tcp: connection refused"):                     "",
	} {
		d := &doctor{}
		failed := d.noteUnread("Delivery objects", err)
		switch {
		case want == "":
			if !errors.Is(failed, err) || len(d.checks) > 0 {
				t.Errorf("%v: %v, %+v", err, failed, d.checks)
			}
		case failed != nil || len(d.checks) != 1 || d.checks[0].State != want || d.checks[0].Fix == "" || !strings.Contains(d.checks[0].Message, err.Error()):
			t.Errorf("%v: %v, %+v", err, failed, d.checks)
		}
	}
}
