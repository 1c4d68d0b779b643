package apply

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNewObjectLeavesOutWhatOnlyServersWrite(t *testing.T) {
	for _, c := range []struct{ name, manifest, want, id string }{
		{
			"what kubectl get printed",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"1","generation":2,"creationTimestamp":null,"managedFields":[],"labels":{"a":"b"}},"data":{"a":"1"}}`,
			`{"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap","metadata":{"labels":{"a":"b"},"name":"a","namespace":"n"}}`, "ConfigMap n/a",
		},
		{
			"status of a built-in kind", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"status":{}}`,
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"}}`, "Deployment.apps a",
		},
		{
			"texts of a Secret", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"x":"eA==","y":"eQ=="},"stringData":{"x":"z"}}`,
			`{"apiVersion":"v1","data":{"x":"eg==","y":"eQ=="},"kind":"Secret","metadata":{"name":"a"}}`, "Secret a",
		},
		{
			"status of others may be theirs", `{"apiVersion":"example.com/v1","kind":"X","metadata":{"name":"a"},"status":{"a":1}}`,
			`{"apiVersion":"example.com/v1","kind":"X","metadata":{"name":"a"},"status":{"a":1}}`, "X.example.com a",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := NewObject("f", 3, []byte(c.manifest))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{c.want, c.id}, []string{string(o.json), o.String()}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNewObjectRefuses(t *testing.T) {
	for name, manifest := range map[string]string{
		"no JSON":               `{`,
		"null":                  `null`,
		"a list":                `[]`,
		"no kind":               `{"apiVersion":"v1","metadata":{"name":"a"}}`,
		"no apiVersion":         `{"kind":"ConfigMap","metadata":{"name":"a"}}`,
		"an odd apiVersion":     `{"apiVersion":"a/b/c","kind":"X","metadata":{"name":"a"}}`,
		"no metadata":           `{"apiVersion":"v1","kind":"X"}`,
		"no name":               `{"apiVersion":"v1","kind":"X","metadata":{}}`,
		"a generated name":      `{"apiVersion":"v1","kind":"X","metadata":{"generateName":"a-"}}`,
		"a name that is a path": `{"apiVersion":"v1","kind":"X","metadata":{"name":"../../secrets/a"}}`,
		"a name of dots":        `{"apiVersion":"v1","kind":"X","metadata":{"name":".."}}`,
		"a number in a Secret":  `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"stringData":{"x":7}}`,
		"a number for a name":   `{"apiVersion":"v1","kind":"X","metadata":{"name":7}}`,
	} {
		_, err := NewObject("f", 3, []byte(manifest))
		var e *Error
		if !errors.As(err, &e) || e.File != "f" || e.Line != 3 {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestUniqueKeepsOneOfTwins(t *testing.T) {
	object := func(version, data string) Object {
		o, err := NewObject("f", 1, fmt.Appendf(nil, `{"apiVersion":%q,"kind":"X","metadata":{"name":"a"},"data":%q}`, version, data))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	if out, err := Unique([]Object{object("g.example.com/v1", "1"), object("g.example.com/v1", "1")}); err != nil || len(out) != 1 {
		t.Errorf("%d, %v", len(out), err)
	}
	for _, other := range []Object{object("g.example.com/v1", "2"), object("g.example.com/v2", "1")} {
		if _, err := Unique([]Object{object("g.example.com/v1", "1"), other}); err == nil {
			t.Error("the same object with other content is no error")
		}
	}
}

func TestStages(t *testing.T) {
	for id, want := range map[ID]Stage{
		{Kind: "Namespace"}: StageDefinitions,
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: StageDefinitions,
		{Group: "example.com", Kind: "Namespace"}:                         StageObjects,
		{Kind: "ConfigMap"}:                 StageSettings,
		{Group: "apps", Kind: "Deployment"}: StageObjects,
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}: StageAdmission,
	} {
		if got := stageOf(id); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	list := []Removal{
		{Entry: Entry{ID: ID{Kind: "Namespace", Name: "n"}}},
		{Entry: Entry{ID: ID{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "c"}}},
		{Entry: Entry{ID: ID{Kind: "ServiceAccount", Name: "s"}}, Stage: StageSettings},
		{Entry: Entry{ID: ID{Group: "apps", Kind: "Deployment", Name: "d"}}, Stage: StageObjects},
		{Entry: Entry{ID: ID{Group: "gateway.networking.k8s.io", Kind: "Gateway", Name: "g"}}, Stage: StageObjects},
		{Entry: Entry{ID: ID{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy", Name: "p"}}, Stage: StageAdmission},
	}
	sortRemovals(list)
	var names []string
	for _, r := range list {
		names = append(names, r.Name)
	}
	if diff := cmp.Diff([]string{"g", "c", "p", "d", "s", "n"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestCheckApp(t *testing.T) {
	for name, good := range map[string]bool{
		"shop": true, "a": true, "shop-1.eu": true, "": false, "Shop": false, "-shop": false, "shop.": false, "a..b": false, "a/b": false,
		strings.Repeat("a", 200): true, strings.Repeat("a", 201): false,
	} {
		if err := CheckApp(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestInventoriesThatCannotBeRead(t *testing.T) {
	bomb := func() []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		for range maxInventory>>20 + 1 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}()
	const head = `{"apiVersion":"sluice.dev/v1alpha1","kind":"Inventory","objects":[`
	for name, cm := range map[string]*corev1.ConfigMap{
		"empty":            {},
		"no JSON":          {Data: map[string]string{inventoryKey: "x"}},
		"a later version":  {Data: map[string]string{inventoryKey: `{"apiVersion":"sluice.dev/v2","kind":"Inventory"}`}},
		"a path in a name": {Data: map[string]string{inventoryKey: head + `{"kind":"X","version":"v1","resource":"xs","name":"../y"}]}`}},
		"no resource":      {Data: map[string]string{inventoryKey: head + `{"kind":"X","version":"v1","name":"y"}]}`}},
		"no gzip":          {BinaryData: map[string][]byte{packedKey: []byte("x")}},
		"no list of parts": {Data: map[string]string{partsKey: "x"}},
		"a path in a part": {Data: map[string]string{partsKey: `["sluice-part-x/../y"]`}},
		"another's part":   {Data: map[string]string{partsKey: `["sluice-app-x"]`}},
		"a bomb":           {BinaryData: map[string][]byte{packedKey: bomb}},
	} {
		if _, err := (&client{}).unpackInventory(t.Context(), cm); !errors.Is(err, errInventory) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(`{"apiVersion":"sluice.dev/v1alpha1","kind":"Inventory","objects":[{"kind":"X","version":"v1","resource":"xs","name":"y"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := (&client{}).unpackInventory(t.Context(), &corev1.ConfigMap{Data: map[string]string{inventoryKey: text}})
		if err != nil {
			return
		}
		for i := range v.Objects {
			if p := v.Objects[i].objectPath(); strings.Contains(p, "..") && strings.Contains(p, "/../") {
				t.Errorf("path %s", p)
			}
		}
	})
}

func TestConflictsNameFieldAndOwner(t *testing.T) {
	err := apierrors.NewApplyConflict([]metav1.StatusCause{
		{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "kubectl" using apps/v1`, Field: ".spec.replicas"},
		{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "a" with subresource "scale" using apps/v1 at 2025-01-01T00:00:00Z`, Field: ".spec.x"},
		{Type: metav1.CauseTypeFieldManagerConflict, Message: `other words`, Field: ".spec.y"},
	}, "conflicts")
	it := &Item{Object: Object{ID: ID{Kind: "X", Name: "a"}, File: "f", Line: 2}}
	var got []string
	for _, c := range conflictsOf(it, err) {
		got = append(got, c.Field+" "+c.Owner)
	}
	want := []string{".spec.replicas kubectl using apps/v1", `.spec.x a with subresource "scale" using apps/v1 at 2025-01-01T00:00:00Z`, ".spec.y other words"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if conflictsOf(it, apierrors.NewConflict(corev1.Resource("x"), "a", errors.New("stale"))) != nil {
		t.Error("another conflict is taken for one of fields")
	}
}
