package guard

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	clientgotesting "k8s.io/client-go/testing"
)

func TestTheMetadataOfOneObjectIsAskedFor(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/example.sluice.dev/v1/databases" || r.URL.Query().Get("limit") != "1" || !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
			t.Errorf("asked for %s as %s", r.URL, r.Header.Get("Accept"))
		}
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprint(rw, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"continue":"x"},"items":[{"metadata":{"name":"orders"}}]}`)
	}))
	defer server.Close()
	client, err := metadata.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Objects{Client: client}.countObjects(t.Context(), live(t, "v1.yaml"))
	if diff := cmp.Diff(stored{count: 1, example: "orders"}, got, cmp.AllowUnexported(stored{})); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestDeletionsWaitForTheirObjects(t *testing.T) {
	neverServed := func(c *apiextensionsv1.CustomResourceDefinition) {
		c.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
			{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionFalse},
			{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse},
		}
	}
	resource := schema.GroupResource{Group: "example.sluice.dev", Resource: "databases"}
	for name, test := range map[string]struct {
		crd     func(*apiextensionsv1.CustomResourceDefinition)
		setUp   func(*world)
		config  string
		allowed bool
		want    []string
	}{
		"none":                                {setUp: func(w *world) { w.stores(0) }, allowed: true},
		"one":                                 {setUp: func(w *world) { w.stores(1) }, want: []string{"deletion of databases.example.sluice.dev is unsafe", "1 object is stored", "default/orders", "on the CRD"}},
		"many":                                {setUp: func(w *world) { w.stores(3000) }, want: []string{"3000 objects are stored"}},
		"hidden":                              {setUp: func(w *world) { w.listFails(apierrors.NewForbidden(resource, "", errors.New("no"))) }, want: []string{"cannot be shown to be safe", "kubectl create clusterrole sluice-crd-guard-databases.example.sluice.dev --verb=list"}},
		"broken":                              {setUp: func(w *world) { w.listFails(errors.New("conversion webhook is down")) }, want: []string{"undecided, crd-removed", "conversion webhook is down"}},
		"open":                                {setUp: func(w *world) { w.listFails(errors.New("conversion webhook is down")) }, config: "failMode: open", allowed: true, want: []string{"conversion webhook is down"}},
		"warned":                              {setUp: func(w *world) { w.stores(1) }, config: "mode: warn", allowed: true, want: []string{"1 object is stored"}},
		"unserved":                            {crd: func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[0].Served = false }, want: []string{"serves no version"}},
		"a CRD that was never served":         {crd: neverServed, setUp: func(w *world) { w.listFails(apierrors.NewNotFound(resource, "")) }, allowed: true},
		"a CRD that was never served, hidden": {crd: neverServed, setUp: func(w *world) { w.listFails(apierrors.NewForbidden(resource, "", errors.New("no"))) }, allowed: true},
		"a CRD that is served, hidden, whose conditions somebody has taken away": {crd: neverServed, setUp: func(w *world) {
			w.listFails(apierrors.NewForbidden(resource, "", errors.New("no")))
			w.discovery.Resources = []*metav1.APIResourceList{{GroupVersion: "example.sluice.dev/v1", APIResources: []metav1.APIResource{{Name: "databases"}}}}
		}, want: []string{"cannot be shown to be safe", "--verb=list"}},
		"a CRD whose conditions somebody has taken away for good": {crd: func(c *apiextensionsv1.CustomResourceDefinition) {
			neverServed(c)
			c.Status.AcceptedNames = c.Spec.Names
		}, setUp: func(w *world) { w.listFails(apierrors.NewNotFound(resource, "")) }, want: []string{"undecided, crd-removed", "taken away", "NamesAccepted"}},
		"a CRD of which one name is taken": {crd: func(c *apiextensionsv1.CustomResourceDefinition) {
			neverServed(c)
			c.Status.AcceptedNames = c.Spec.Names
			c.Status.AcceptedNames.Kind = ""
		}, setUp: func(w *world) { w.listFails(apierrors.NewNotFound(resource, "")) }, allowed: true},
		"a CRD whose conditions somebody has taken away": {crd: neverServed, setUp: func(w *world) { w.stores(1) }, want: []string{"1 object is stored", "default/orders"}},
		"a CRD whose conditions somebody puts right a moment later": {crd: neverServed, setUp: func(w *world) {
			w.stores(1)
			asked := 0
			w.metadata.PrependReactor("list", "databases", func(clientgotesting.Action) (bool, runtime.Object, error) {
				asked++
				return asked < 3, nil, apierrors.NewNotFound(resource, "")
			})
		}, want: []string{"1 object is stored"}},
		"a CRD without conditions, while the API server is ill": {crd: neverServed, setUp: func(w *world) { w.listFails(apierrors.NewInternalError(errors.New("etcd"))) }, want: []string{"undecided, crd-removed", "etcd"}},
		"a CRD without conditions that serves no version": {crd: func(c *apiextensionsv1.CustomResourceDefinition) {
			neverServed(c)
			c.Spec.Versions[0].Served = false
		}, want: []string{"serves no version"}},
		"a CRD that says it is served, and is not": {setUp: func(w *world) { w.listFails(apierrors.NewNotFound(resource, "")) }, want: []string{"undecided, crd-removed"}},
		"a CRD that is served without being established": {crd: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue},
				{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse},
			}
		}, setUp: func(w *world) { w.stores(1) }, want: []string{"1 object is stored"}},
		"a CRD that goes already": {crd: func(c *apiextensionsv1.CustomResourceDefinition) { c.DeletionTimestamp = new(metav1.Now()) }, allowed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // some wait for the API server to change its mind
			w := newWorld(t)
			if test.setUp != nil {
				test.setUp(w)
			}
			if test.config != "" {
				w.configure(t, test.config)
			}
			crd := live(t, "v1.yaml")
			if test.crd != nil {
				test.crd(crd)
			}
			answer := w.review(t, deletionOf(t, crd))
			_, text := said(answer)
			if answer.Allowed != test.allowed {
				t.Errorf("allowed: %v, saying %s", answer.Allowed, text)
			}
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in: %s", want, text)
				}
			}
		})
	}
	t.Run("of what is no CRD", func(t *testing.T) {
		w := newWorld(t)
		r := deletionOf(t, nil)
		r.OldObject.Raw = []byte("[")
		if answer := w.review(t, r); answer.Allowed {
			t.Error("it is let through")
		}
	})
}

func TestCountingIsToldInWords(t *testing.T) {
	for _, test := range []struct {
		stored stored
		want   string
	}{
		{stored{count: 1, exact: true}, "1 object is stored"}, {stored{count: 2, exact: true}, "2 objects are stored"}, {stored{count: 1}, "objects are stored"},
	} {
		if got := test.stored.String(); got != test.want {
			t.Errorf("%+v: %s", test.stored, got)
		}
	}
}

// A version that is no longer served or stored may still stand in metadata.managedFields. The objects say whether it does.
func TestObjectsAnswerWhetherARemovedVersionOwnsFields(t *testing.T) {
	note := "no server-side apply passes for objects whose managedFields still name it"
	old, next := live(t, "v1.yaml"), live(t, "v1.yaml")
	gone := old.Spec.Versions[0]
	gone.Name, gone.Served, gone.Storage = "v1alpha1", false, false
	old.Spec.Versions = append(old.Spec.Versions, gone)
	owned := func(apiVersion, fields string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders", ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "example.sluice.dev/" + apiVersion, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)},
		}}}
	}
	const spec = `{"f:spec":{}}`
	for name, test := range map[string]struct {
		pages   [][]metav1.PartialObjectMetadata
		fails   error // of the page after them
		config  string
		refused bool
		want    string // part of the answer; empty for none
	}{
		"no objects":             {pages: [][]metav1.PartialObjectMetadata{{}}},
		"owned in another one":   {pages: [][]metav1.PartialObjectMetadata{{owned("v1", spec)}}},
		"without fields":         {pages: [][]metav1.PartialObjectMetadata{{owned("v1alpha1", "{}")}}},
		"one on the second page": {pages: [][]metav1.PartialObjectMetadata{{owned("v1", spec)}, {owned("v1alpha1", spec)}}, refused: true, want: "1 of 2 stored objects would be refused by every server-side apply"},
		"one, that may be":       {pages: [][]metav1.PartialObjectMetadata{{owned("v1alpha1", spec)}}, config: "levels: {clients-broken: warn}", want: "1 of 1 stored object would"},
		"one":                    {pages: [][]metav1.PartialObjectMetadata{{owned("v1alpha1", spec)}}, refused: true, want: "- clients-broken, owners-in-removed-version, v1alpha1: 1 of 1 stored object would"},
		"one, then an error":     {pages: [][]metav1.PartialObjectMetadata{{owned("v1alpha1", spec)}}, fails: errors.New("went away"), refused: true, want: "1 of 1 stored object would"},
		"an error":               {fails: errors.New("went away"), want: note + ": the stored objects cannot be listed: went away"},
		"hidden":                 {fails: apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no")), want: note + ": the guard may not list databases.example.sluice.dev; allow it with: kubectl create"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if test.config != "" {
				w.configure(t, test.config)
			}
			asked := 0
			w.metadata.PrependReactor("list", "databases", func(clientgotesting.Action) (bool, runtime.Object, error) {
				if asked == len(test.pages) && test.fails != nil {
					return true, nil, test.fails
				}
				asked %= len(test.pages) // a refusal lists once more
				list := &metav1.List{}
				for i := range test.pages[asked] {
					list.Items = append(list.Items, runtime.RawExtension{Object: &test.pages[asked][i]})
				}
				if asked++; asked < len(test.pages) || test.fails != nil {
					list.Continue = "more"
				}
				return true, list, nil
			})
			answer := w.review(t, updateOf(t, old, next))
			_, text := said(answer)
			if allowed := answer.Allowed; allowed == test.refused || !strings.Contains(text, test.want) || test.want == "" && text != "" {
				t.Errorf("allowed is %v: %s", allowed, text)
			}
		})
	}
}
