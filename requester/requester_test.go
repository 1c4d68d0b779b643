package requester_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgotesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	listers "sluice.dev/client/listers/resolution/v1beta1"
	"sluice.dev/client/versioned/fake"
	"sluice.dev/requester"
)

// The names are those that Tekton's client computes (the vectors of pkg/resolution/resource).
func TestNamesAreTektons(t *testing.T) {
	params := []v1beta1.Param{
		{Name: "string-param", Value: v1beta1.StringValue("value1")},
		{Name: "array-param", Value: v1beta1.ArrayValue("value1", "value2")},
		{Name: "object-param", Value: v1beta1.ObjectValue(map[string]string{"key": "value"})},
	}
	backwards := slices.Clone(params)
	slices.Reverse(backwards)
	for name, test := range map[string]struct {
		resolver, base string
		spec           v1beta1.ResolutionRequestSpec
		want           string
	}{
		"resolver":         {"prefix", "", v1beta1.ResolutionRequestSpec{}, "prefix-6c62272e07bb014262b821756295c58d"},
		"base":             {"", "base", v1beta1.ResolutionRequestSpec{}, "-6989337ae0757277b806e97e86444ef0"},
		"url":              {"", "", v1beta1.ResolutionRequestSpec{URL: "https://foo/bar"}, "-dcfaf53735f4a84a3e319e17352940b4"},
		"params":           {"", "", v1beta1.ResolutionRequestSpec{Params: params}, "-52921b17d3c2930a34419c618d6af0e9"},
		"params backwards": {"", "", v1beta1.ResolutionRequestSpec{Params: backwards}, "-52921b17d3c2930a34419c618d6af0e9"},
		"all":              {"prefix", "base", v1beta1.ResolutionRequestSpec{Params: params, URL: "https://foo/bar"}, "prefix-ff25bd24688ab610bdc530a5ab3aabbd"},
		"a long resolver": {
			"a-resolver-whose-name-is-longer-than-what-fits", "base",
			v1beta1.ResolutionRequestSpec{Params: params},
			"a-resolver-whose-name-is-longe-ba2f256f318de7f4154da577c283cb9e",
		},
	} {
		got, err := requester.Name(test.resolver, test.base, test.spec)
		if err != nil || got != test.want || len(got) > 63 {
			t.Errorf("%s: %s, %v; want %s", name, got, err, test.want)
		}
	}
}

var gvk = schema.GroupVersionKind{Group: "example.test", Version: "v1", Kind: "Run"}

func owner(name string) requester.Owner {
	return requester.OwnedBy(&metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}, gvk)
}

func spec(url string) v1beta1.ResolutionRequestSpec {
	return v1beta1.ResolutionRequestSpec{Params: []v1beta1.Param{{Name: "url", Value: v1beta1.StringValue(url)}}}
}

// only returns the only request there is.
func only(t *testing.T, c *fake.Clientset) *v1beta1.ResolutionRequest {
	t.Helper()
	list, err := c.ResolutionV1beta1().ResolutionRequests("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d requests, %v", len(list.Items), err)
	}
	return &list.Items[0]
}

func update(t *testing.T, c *fake.Clientset, r *v1beta1.ResolutionRequest) {
	t.Helper()
	if _, err := c.ResolutionV1beta1().ResolutionRequests("ns").Update(t.Context(), r, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestSubmitMakesOneRequestAndReadsItWhenItHasEnded(t *testing.T) {
	c := fake.NewSimpleClientset()
	r := &requester.Requester{Client: c.ResolutionV1beta1()}
	for range 2 {
		if _, err := r.Submit(t.Context(), owner("a"), "git", spec("u")); !errors.Is(err, requester.ErrInProgress) {
			t.Fatalf("error %v", err)
		}
	}
	made := only(t, c)
	if !metav1.IsControlledBy(made, &metav1.ObjectMeta{UID: "uid-a"}) || made.Labels[resolution.LabelType] != "git" {
		t.Errorf("made %+v", made)
	}
	sum := sha256.Sum256([]byte("content"))
	origin := &v1beta1.RefSource{URI: "https://example.test/x", Digest: map[string]string{"sha256": hex.EncodeToString(sum[:])}}
	made.Status = v1beta1.ResolutionRequestStatus{
		Data: base64.StdEncoding.EncodeToString([]byte("content")), RefSource: origin, Annotations: map[string]string{"a": "b"},
		Conditions: []v1beta1.Condition{{Type: "Succeeded", Status: "True"}},
	}
	update(t, c, made)
	got, err := r.Submit(t.Context(), owner("a"), "git", spec("u"))
	want := &requester.Resource{Data: []byte("content"), Annotations: map[string]string{"a": "b"}, Source: origin, DigestVerified: true}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}

	// A digest that is a commit's is not that of the data; one that is the data's must be right.
	made.Status.RefSource = &v1beta1.RefSource{URI: "git+https://example.test/x", Digest: map[string]string{"sha1": "00"}}
	update(t, c, made)
	if got, err := r.Submit(t.Context(), owner("a"), "git", spec("u")); err != nil || got.DigestVerified {
		t.Errorf("%v %v", got, err)
	}
	made.Status.RefSource = &v1beta1.RefSource{URI: "https://example.test/x", Digest: map[string]string{"sha256": "00"}}
	update(t, c, made)
	if _, err := r.Submit(t.Context(), owner("a"), "git", spec("u")); !isA[*requester.DataError](err) {
		t.Errorf("a wrong digest: %v", err)
	}
	made.Status.RefSource, made.Status.Data = nil, "%"
	update(t, c, made)
	if _, err := r.Submit(t.Context(), owner("a"), "git", spec("u")); !isA[*requester.DataError](err) {
		t.Errorf("no base64: %v", err)
	}
}

func isA[E error](err error) bool { _, ok := errors.AsType[E](err); return ok }

func TestAFailureIsTypedAndCarriesItsReason(t *testing.T) {
	c := fake.NewSimpleClientset()
	r := &requester.Requester{Client: c.ResolutionV1beta1()}
	if _, err := r.Submit(t.Context(), owner("a"), "git", spec("u")); !errors.Is(err, requester.ErrInProgress) {
		t.Fatal(err)
	}
	made := only(t, c)
	made.Status.Conditions = []v1beta1.Condition{{Type: "Succeeded", Status: "False", Reason: "ResolutionFailed", Message: "NotFound: no"}}
	made.Status.Annotations = map[string]string{resolution.AnnotationReason: "NotFound"}
	update(t, c, made)
	_, err := r.Submit(t.Context(), owner("a"), "git", spec("u"))
	failed, ok := errors.AsType[*requester.FailedError](err)
	if !ok || failed.Reason != "ResolutionFailed" || failed.Exact != "NotFound" || failed.Message != "NotFound: no" || failed.Name != made.Name {
		t.Errorf("%+v", err)
	}
}

func TestAnObjectThatIsNotTheRequestIsAConflict(t *testing.T) {
	for name, change := range map[string]func(*v1beta1.ResolutionRequest){
		"another owner": func(r *v1beta1.ResolutionRequest) { r.OwnerReferences[0].UID, r.OwnerReferences[0].Name = "other", "b" },
		"another kind": func(r *v1beta1.ResolutionRequest) {
			r.OwnerReferences[0].UID, r.OwnerReferences[0].Kind = "other", "Other"
		},
		"another group": func(r *v1beta1.ResolutionRequest) {
			r.OwnerReferences[0].UID, r.OwnerReferences[0].APIVersion = "other", "other.test/v1"
		},
		"no controller": func(r *v1beta1.ResolutionRequest) {
			r.OwnerReferences[0].UID, r.OwnerReferences[0].Controller = "other", nil
		},
		"several owners": func(r *v1beta1.ResolutionRequest) {
			r.OwnerReferences[0].UID = "other"
			r.OwnerReferences = append(r.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p"})
		},
		"no owner":         func(r *v1beta1.ResolutionRequest) { r.OwnerReferences = nil },
		"another spec":     func(r *v1beta1.ResolutionRequest) { r.Spec = spec("evil") },
		"another resolver": func(r *v1beta1.ResolutionRequest) { r.Labels[resolution.LabelType] = "http" },
	} {
		c := fake.NewSimpleClientset()
		r := &requester.Requester{Client: c.ResolutionV1beta1()}
		if _, err := r.Submit(t.Context(), owner("a"), "git", spec("u")); !errors.Is(err, requester.ErrInProgress) {
			t.Fatal(err)
		}
		made := only(t, c)
		change(made)
		update(t, c, made)
		if _, err := r.Submit(t.Context(), owner("a"), "git", spec("u")); !isA[*requester.ConflictError](err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What will go by itself is no conflict: the owner asks again when it has gone.
func TestARequestThatIsGoingIsAwaited(t *testing.T) {
	for name, change := range map[string]func(*v1beta1.ResolutionRequest){
		"being deleted": func(r *v1beta1.ResolutionRequest) { r.DeletionTimestamp = new(metav1.Unix(1, 0)) },
		"of an owner of the same name that was there before": func(r *v1beta1.ResolutionRequest) {
			r.OwnerReferences[0].UID, r.OwnerReferences[0].APIVersion = "before", gvk.Group+"/v1alpha1"
		},
	} {
		c := fake.NewSimpleClientset()
		r := &requester.Requester{Client: c.ResolutionV1beta1()}
		if _, err := r.Submit(t.Context(), owner("a"), "git", spec("u")); !errors.Is(err, requester.ErrInProgress) {
			t.Fatal(err)
		}
		made := only(t, c)
		made.Status.Conditions = []v1beta1.Condition{{Type: "Succeeded", Status: "True"}}
		change(made)
		update(t, c, made)
		if _, err := r.Submit(t.Context(), owner("a"), "git", spec("u")); !errors.Is(err, requester.ErrInProgress) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatHasFailedIsAskedForAgain(t *testing.T) {
	for name, test := range map[string]struct {
		status v1beta1.ResolutionRequestStatus
		keeps  bool // something keeps the request from going
		anew   bool
		want   error
	}{
		"in progress":      {v1beta1.ResolutionRequestStatus{}, false, false, requester.ErrInProgress},
		"failed":           {v1beta1.ResolutionRequestStatus{Conditions: []v1beta1.Condition{{Type: "Succeeded", Status: "False"}}}, false, true, requester.ErrInProgress},
		"failed, and kept": {v1beta1.ResolutionRequestStatus{Conditions: []v1beta1.Condition{{Type: "Succeeded", Status: "False"}}}, true, false, requester.ErrInProgress},
		"bad content":      {v1beta1.ResolutionRequestStatus{Data: "%", Conditions: []v1beta1.Condition{{Type: "Succeeded", Status: "True"}}}, false, true, requester.ErrInProgress},
		"succeeded":        {v1beta1.ResolutionRequestStatus{Data: "eA==", Conditions: []v1beta1.Condition{{Type: "Succeeded", Status: "True"}}}, false, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewSimpleClientset()
			if test.keeps {
				c.PrependReactor("delete", "*", func(clientgotesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
			}
			r := &requester.Requester{Client: c.ResolutionV1beta1()}
			if _, err := r.Again(t.Context(), owner("a"), "git", spec("u")); !errors.Is(err, requester.ErrInProgress) {
				t.Fatal(err)
			}
			made := only(t, c)
			made.Status, made.UID = test.status, "first"
			made.Annotations = map[string]string{"which": "first"}
			update(t, c, made)
			// A cache that is behind knows nothing of it.
			indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			r.Lister = listers.NewResolutionRequestLister(indexer)
			if _, err := r.Again(t.Context(), owner("a"), "git", spec("u")); !errors.Is(err, test.want) {
				t.Errorf("%v", err)
			}
			if anew := only(t, c).Annotations["which"] == ""; anew != test.anew {
				t.Errorf("another request is made: %v", anew)
			}
			deletes := slices.ContainsFunc(c.Actions(), func(a clientgotesting.Action) bool { return a.GetVerb() == "delete" })
			if deletes != (test.anew || test.keeps) {
				t.Errorf("deleted: %v", deletes)
			}
			for _, a := range c.Actions() {
				if d, ok := a.(clientgotesting.DeleteActionImpl); ok && (d.DeleteOptions.Preconditions == nil || *d.DeleteOptions.Preconditions.UID != "first") {
					t.Errorf("deleted whatever it is: %+v", d.DeleteOptions)
				}
			}
		})
	}
}

func TestOwnersOfANamespaceShareARequestIfTheyWantTo(t *testing.T) {
	c := fake.NewSimpleClientset()
	r := &requester.Requester{Client: c.ResolutionV1beta1(), Shared: true}
	for _, o := range []string{"a", "b", "a", "b"} {
		if _, err := r.Submit(t.Context(), owner(o), "git", spec("u")); !errors.Is(err, requester.ErrInProgress) {
			t.Fatal(err)
		}
	}
	var uids []types.UID
	made := only(t, c)
	for _, o := range made.OwnerReferences {
		uids = append(uids, o.UID)
	}
	if diff := cmp.Diff([]types.UID{"uid-a", "uid-b"}, uids); diff != "" || metav1.GetControllerOf(made) != nil {
		t.Errorf("owners %s, controller %v", diff, metav1.GetControllerOf(made))
	}
}

func TestTheHandlerQueuesOwnersWhenTheirRequestEnds(t *testing.T) {
	var got []string
	h := requester.Handler(gvk.GroupKind(), func(n types.NamespacedName) { got = append(got, n.String()) })
	expect := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		got = nil
	}
	begun := &v1beta1.ResolutionRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "example.test/v2", Kind: "Run", Name: "a"}, {APIVersion: "v1", Kind: "Run", Name: "b"}, {APIVersion: "example.test/v1", Kind: "Run", Name: "c"},
	}}}
	ended := begun.DeepCopy()
	ended.Status.Conditions = []v1beta1.Condition{{Type: "Succeeded", Status: "True"}}
	h.OnAdd(begun, false)
	h.OnUpdate(begun, begun)
	expect("unfinished")
	h.OnUpdate(begun, ended)
	expect("ended", "ns/a", "ns/c")
	h.OnUpdate(ended, ended)
	expect("ended before")
	h.OnAdd(ended, true)
	expect("at the start", "ns/a", "ns/c")
	h.OnDelete(begun)
	expect("deleted", "ns/a", "ns/c")
	h.OnAdd(&corev1.Pod{}, false)
	expect("something else")
}

func TestRefReadsBothForms(t *testing.T) {
	for name, test := range map[string]struct {
		ref  requester.Ref
		want v1beta1.ResolutionRequestSpec
		ok   bool
	}{
		"params":      {requester.Ref{Resolver: "git", Params: spec("u").Params}, spec("u"), true},
		"resource":    {older(`{"url": "u"}`), spec("u"), true},
		"list":        {older(` [{"name": "url", "value": "u"}]`), spec("u"), true},
		"null":        {older(`null`), v1beta1.ResolutionRequestSpec{}, true},
		"empty":       {older(``), v1beta1.ResolutionRequestSpec{}, true},
		"by name":     {older(`{"b": ["x"], "a": {"k": "v"}}`), v1beta1.ResolutionRequestSpec{Params: []v1beta1.Param{{Name: "a", Value: v1beta1.ObjectValue(map[string]string{"k": "v"})}, {Name: "b", Value: v1beta1.ArrayValue("x")}}}, true},
		"text":        {older(`"u"`), v1beta1.ResolutionRequestSpec{}, false},
		"no params":   {older(`["u"]`), v1beta1.ResolutionRequestSpec{}, false},
		"broken":      {older(`{`), v1beta1.ResolutionRequestSpec{}, false},
		"both":        {requester.Ref{Resolver: "git", Resource: older(`{"url": "u"}`).Resource, Params: spec("u").Params}, v1beta1.ResolutionRequestSpec{}, false},
		"url":         {requester.Ref{Resolver: "git", URL: "https://x"}, v1beta1.ResolutionRequestSpec{URL: "https://x"}, true},
		"twice":       {requester.Ref{Resolver: "git", Params: append(spec("u").Params, spec("v").Params...)}, v1beta1.ResolutionRequestSpec{}, false},
		"no name":     {requester.Ref{Resolver: "git", Params: []v1beta1.Param{{}}}, v1beta1.ResolutionRequestSpec{}, false},
		"no resolver": {requester.Ref{Params: spec("u").Params}, v1beta1.ResolutionRequestSpec{}, false},
	} {
		got, err := test.ref.Spec()
		if (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, got); test.ok && diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func older(text string) requester.Ref {
	return requester.Ref{Resolver: "git", Resource: &apiextensionsv1.JSON{Raw: []byte(text)}}
}

func TestTheSchemaHasTheFieldsOfRef(t *testing.T) {
	properties := requester.Schema().Properties
	kind := reflect.TypeFor[requester.Ref]()
	if len(properties) != kind.NumField() {
		t.Errorf("%d properties, %d fields", len(properties), kind.NumField())
	}
	for field := range kind.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if _, ok := properties[name]; !ok {
			t.Errorf("no property %q", name)
		}
	}
}
