package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/resolve"
	"sluice.dev/resolve/verify"
)

// fakeClient is a small cluster. It counts what it is asked.
type fakeClient struct {
	kinds   []schema.GroupVersionKind // the first of a group is the preferred version
	root    map[string]bool           // kinds that are cluster-scoped
	objects map[string]*unstructured.Unstructured
	may     map[string]bool // "USER NAMESPACE/NAME"
	err     error           // what Get answers, if not nil
	hang    bool
	gets    int
	reviews []string
}

func (c *fakeClient) Mapping(ctx context.Context, group, version, kind string) (*meta.RESTMapping, error) {
	if c.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, k := range c.kinds {
		if k.Group == group && strings.EqualFold(k.Kind, kind) && (version == "" || k.Version == version) {
			m := &meta.RESTMapping{GroupVersionKind: k, Resource: k.GroupVersion().WithResource(strings.ToLower(k.Kind) + "s"), Scope: meta.RESTScopeNamespace}
			if c.root[k.Kind] {
				m.Scope = meta.RESTScopeRoot
			}
			return m, nil
		}
	}
	return nil, &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: group, Kind: kind}}
}

func (c *fakeClient) Get(_ context.Context, gvr schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	c.gets++
	if c.err != nil {
		return nil, c.err
	}
	if o, ok := c.objects[gvr.Resource+" "+namespace+"/"+name]; ok {
		return o.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(gvr.GroupResource(), name)
}

func (c *fakeClient) CanGet(_ context.Context, user string, gvr schema.GroupVersionResource, namespace, name string) (bool, error) {
	c.reviews = append(c.reviews, fmt.Sprintf("%s %s %s/%s", user, gvr.GroupResource(), namespace, name))
	return c.may[user+" "+namespace+"/"+name], nil
}

func object(kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "tekton.dev/v1", "kind": kind,
		"metadata": map[string]any{
			"name": name, "uid": "u-1", "resourceVersion": "12", "generation": int64(3), "creationTimestamp": "2026-01-01T00:00:00Z",
			"managedFields": []any{map[string]any{"manager": "kubectl"}}, "finalizers": []any{"x/y"},
			"ownerReferences": []any{map[string]any{"name": "o"}},
			"labels":          map[string]any{"app": "x"},
			"annotations":     map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "100%"},
		},
		"spec":   map[string]any{"steps": []any{map[string]any{"image": "busybox"}}},
		"status": map[string]any{"secret": "noise"},
	}}
	if namespace != "" {
		u.SetNamespace(namespace)
	}
	return u
}

func tekton(version, kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "tekton.dev", Version: version, Kind: kind}
}

func newFake() *fakeClient {
	return &fakeClient{
		kinds: []schema.GroupVersionKind{
			tekton("v1", "Task"),
			tekton("v1beta1", "Task"),
			tekton("v1", "Pipeline"),
			tekton("v1beta1", "StepAction"),
			tekton("v1", "ClusterThing"),
			{Version: "v1", Kind: "Secret"},
			{Version: "v1", Kind: "ConfigMap"},
			{Group: "other.dev", Version: "v1", Kind: "Task"},
			{Group: "other.dev", Version: "v1", Kind: "Widget"},
		},
		root: map[string]bool{"ClusterThing": true},
		objects: map[string]*unstructured.Unstructured{
			"tasks ns/a":        object("Task", "ns", "a"),
			"tasks shared/a":    object("Task", "shared", "a"),
			"pipelines ns/a":    object("Pipeline", "ns", "a"),
			"secrets ns/a":      object("Secret", "ns", "a"),
			"configmaps ns/a":   object("ConfigMap", "ns", "a"),
			"widgets ns/a":      object("Widget", "ns", "a"),
			"clusterthings /a":  object("ClusterThing", "", "a"),
			"stepactions ns/a":  object("StepAction", "ns", "a"),
			"tasks locked/a":    object("Task", "locked", "a"),
			"tasks ns/a:colons": object("Task", "ns", "a:colons"),
		},
	}
}

// request has what the framework fills in.
func request(config resolve.Config, params ...string) *resolve.Request {
	r := &resolve.Request{Namespace: "ns", Params: map[string]resolve.Value{}, Config: resolve.Config{KeyKind: "task", KeyAllowedKinds: DefaultAllowedKinds, KeyCheckAccess: "false"}}
	maps.Copy(r.Config, config)
	for i, all := 0, append([]string{ParamKind, "task", ParamName, "a"}, params...); i+1 < len(all); i += 2 {
		r.Params[all[i]] = resolve.Value{Type: resolve.String, String: all[i+1]}
	}
	return r
}

func reason(t testing.TB, err error) resolve.Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *resolve.Error
	if !errors.As(err, &e) {
		t.Fatalf("%T is no *resolve.Error: %v", err, err)
	}
	if strings.Contains(e.Msg, "\n") || strings.Contains(e.Msg, "%!") {
		t.Errorf("the text is not one plain line: %q", e.Msg)
	}
	return e.Reason
}

func TestResolveDeliversTheObjectAsItsAuthorWroteIt(t *testing.T) {
	const data = `apiVersion: tekton.dev/v1
kind: Task
metadata:
  annotations:
    note: 100%
  labels:
    app: x
  name: a
  namespace: ns
spec:
  steps:
  - image: busybox
`
	sum := sha256.Sum256([]byte(`{"steps":[{"image":"busybox"}]}`))
	want := &resolve.Resource{
		Data: []byte(data),
		Annotations: map[string]string{
			"resolution.tekton.dev/name": "a", "resolution.tekton.dev/namespace": "ns",
			"resolution.tekton.dev/content-type": "application/x-yaml", "content-type": "application/x-yaml",
		},
		Source: resolve.Source{
			URI:    "/apis/tekton.dev/v1/namespaces/ns/task/a@u-1",
			Digest: map[string]string{"sha256": hex.EncodeToString(sum[:])},
		},
		Anonymous: true,
	}
	got, err := New(newFake()).Resolve(t.Context(), request(nil))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, _, err := verify.Payload(got.Data); err != nil {
		t.Errorf("its signature could not be checked: %v", err)
	}
}

func TestTheDigestIsThatOfTheSpec(t *testing.T) {
	c := newFake()
	resolved := func() *resolve.Resource {
		r, err := New(c).Resolve(t.Context(), request(nil))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := resolved()
	o := c.objects["tasks ns/a"]
	o.SetResourceVersion("99")
	o.SetManagedFields(nil)
	o.Object["status"] = map[string]any{"changed": true}
	if diff := cmp.Diff(first, resolved()); diff != "" {
		t.Errorf("a change of status changes the result: %s", diff)
	}
	o.SetLabels(map[string]string{"team": "blue"})
	second := resolved()
	if string(second.Data) == string(first.Data) || second.Source.Digest["sha256"] != first.Source.Digest["sha256"] {
		t.Error("a label changes the digest, or nothing")
	}
	o.Object["spec"] = map[string]any{"b": "x<y", "a": []any{true, nil, 1.5, int64(7)}}
	sum := sha256.Sum256([]byte(`{"a":[true,null,1.5,7],"b":"x<y"}`))
	if got := resolved().Source.Digest["sha256"]; got != hex.EncodeToString(sum[:]) {
		t.Errorf("digest %s", got)
	}
	delete(o.Object, "spec")
	third := resolved()
	if got := resolve.SHA256(third.Data)["sha256"]; third.Source.Digest["sha256"] != got {
		t.Errorf("without spec: digest %v, want %s", third.Source.Digest, got)
	}
}

func TestKinds(t *testing.T) {
	for _, tt := range []struct {
		name    string
		allowed string
		params  []string
		want    resolve.Reason
		uri     string
	}{
		{"the default kinds", DefaultAllowedKinds, []string{ParamKind, "pipeline"}, "", "/apis/tekton.dev/v1/namespaces/ns/pipeline/a@u-1"},
		{"capitals, as in TEP-0060", DefaultAllowedKinds, []string{ParamKind, "Task"}, "", "/apis/tekton.dev/v1/namespaces/ns/task/a@u-1"},
		{"the version that the kind has", DefaultAllowedKinds, []string{ParamKind, "stepaction"}, "", "/apis/tekton.dev/v1beta1/namespaces/ns/stepaction/a@u-1"},
		{"an empty list is the default", "", nil, "", "/apis/tekton.dev/v1/namespaces/ns/task/a@u-1"},
		{"a chosen version", DefaultAllowedKinds, []string{ParamAPIVersion, "tekton.dev/v1beta1"}, "", "/apis/tekton.dev/v1beta1/namespaces/ns/task/a@u-1"},
		{"a kind with its group", DefaultAllowedKinds, []string{ParamKind, "Task.tekton.dev"}, "", "/apis/tekton.dev/v1/namespaces/ns/task/a@u-1"},
		{"a version that is not served", DefaultAllowedKinds, []string{ParamAPIVersion, "tekton.dev/v9"}, resolve.ReasonNotFound, ""},
		{"the same kind of another group", DefaultAllowedKinds, []string{ParamAPIVersion, "other.dev/v1"}, resolve.ReasonForbidden, ""},
		{"group and version disagree", DefaultAllowedKinds, []string{ParamKind, "task.tekton.dev", ParamAPIVersion, "other.dev/v1"}, resolve.ReasonInvalid, ""},
		{"a kind that is not allowed", DefaultAllowedKinds, []string{ParamKind, "configmap"}, resolve.ReasonForbidden, ""},
		{"a secret", DefaultAllowedKinds, []string{ParamKind, "secret", ParamAPIVersion, "v1"}, resolve.ReasonForbidden, ""},
		{"a kind that the cluster has not", "clustertask.tekton.dev", []string{ParamKind, "ClusterTask"}, resolve.ReasonNotFound, ""},
		{"a cluster-scoped kind", "*.tekton.dev", []string{ParamKind, "ClusterThing"}, "", "/apis/tekton.dev/v1/clusterthing/a@u-1"},
		{"a kind of the core group", "configmap", []string{ParamKind, "ConfigMap"}, "", "/api/v1/namespaces/ns/configmap/a@u-1"},
		{"all of a group", "*.other.dev", []string{ParamKind, "widget"}, "", "/apis/other.dev/v1/namespaces/ns/widget/a@u-1"},
		{"a kind in two groups", "*.tekton.dev, *.other.dev", nil, resolve.ReasonInvalid, ""},
		{"a kind in two groups, by its group", "*.tekton.dev,*.other.dev", []string{ParamAPIVersion, "tekton.dev/v1"}, "", "/apis/tekton.dev/v1/namespaces/ns/task/a@u-1"},
		{"a kind that is named goes before whole groups", "*.other.dev,task.tekton.dev", nil, "", "/apis/tekton.dev/v1/namespaces/ns/task/a@u-1"},
		{"everything, without a group", "*", []string{ParamKind, "widget"}, resolve.ReasonInvalid, ""},
		{"everything", "*", []string{ParamKind, "widget", ParamAPIVersion, "other.dev/v1"}, "", "/apis/other.dev/v1/namespaces/ns/widget/a@u-1"},
		{"everything is not secrets", "*", []string{ParamKind, "secret", ParamAPIVersion, "v1"}, resolve.ReasonForbidden, ""},
		{"all of the core group is not secrets", "*.", []string{ParamKind, "Secret"}, resolve.ReasonForbidden, ""},
		{"secrets by name", "secret", []string{ParamKind, "secret"}, "", "/api/v1/namespaces/ns/secret/a@u-1"},
		{"no kind", DefaultAllowedKinds, []string{ParamKind, "../task"}, resolve.ReasonInvalid, ""},
		{"a name that leaves the path", DefaultAllowedKinds, []string{ParamName, "../../secrets/a"}, resolve.ReasonInvalid, ""},
		{"a name of dots", DefaultAllowedKinds, []string{ParamName, ".."}, resolve.ReasonInvalid, ""},
		{"a name with an escape", DefaultAllowedKinds, []string{ParamName, "a%2f"}, resolve.ReasonInvalid, ""},
		{"no name", DefaultAllowedKinds, []string{ParamName, ""}, resolve.ReasonInvalid, ""},
		{"a long name", DefaultAllowedKinds, []string{ParamName, strings.Repeat("a", 300)}, resolve.ReasonInvalid, ""},
		{"a namespace that leaves the path", DefaultAllowedKinds, []string{ParamNamespace, "ns/../x"}, resolve.ReasonInvalid, ""},
		{"a name with colons", DefaultAllowedKinds, []string{ParamName, "a:colons"}, "", "/apis/tekton.dev/v1/namespaces/ns/task/a:colons@u-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newFake()
			got, err := New(c).Resolve(t.Context(), request(resolve.Config{KeyAllowedKinds: tt.allowed}, tt.params...))
			if r := reason(t, err); r != tt.want {
				t.Fatalf("reason %q, want %q: %v", r, tt.want, err)
			}
			if err != nil {
				if c.gets > 0 {
					t.Error("the object was read")
				}
				return
			}
			if diff := cmp.Diff(tt.uri, got.Source.URI); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNamespaces(t *testing.T) {
	for _, tt := range []struct {
		name, allowed, blocked, namespace string
		want                              resolve.Reason
	}{
		{"nothing is set", "", "", "shared", ""},
		{"the request's own", "", "", "", ""},
		{"allowed", "shared, other", "", "shared", ""},
		{"not allowed", "other", "", "shared", resolve.ReasonForbidden},
		{"the request's own is not allowed either", "other", "", "", resolve.ReasonForbidden},
		{"blocked", "", "x,shared", "shared", resolve.ReasonForbidden},
		{"another is blocked", "", "x", "shared", ""},
		{"blocked goes before allowed", "shared", "shared", "shared", resolve.ReasonForbidden},
		{"all are blocked", "", "*", "shared", resolve.ReasonForbidden},
		{"all are blocked but those that are allowed", "shared", "*", "shared", ""},
		{"all are allowed", "*", "", "shared", ""},
		{"all are allowed but those that are blocked", "*", "shared", "shared", resolve.ReasonForbidden},
		{"all are allowed and blocked", "*", "*", "shared", resolve.ReasonForbidden},
		{"a prefix is no match", "share,shared-x", "", "shared", resolve.ReasonForbidden},
		{"commas alone allow nothing less", ",", ",", "shared", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newFake()
			_, err := New(c).Resolve(t.Context(), request(resolve.Config{KeyAllowedNamespaces: tt.allowed, KeyBlockedNamespaces: tt.blocked}, ParamNamespace, tt.namespace))
			if r := reason(t, err); r != tt.want {
				t.Errorf("reason %q, want %q: %v", r, tt.want, err)
			}
			if err != nil && c.gets > 0 {
				t.Error("the object was read")
			}
		})
	}
}

func TestAccessIsCheckedBeforeTheObjectIsRead(t *testing.T) {
	const user = "system:serviceaccount:ns:builder"
	for _, tt := range []struct {
		name, check, identity, object string
		want                          resolve.Reason
		reviews                       []string
	}{
		{"not told to", "false", "", "a", "", nil},
		{"it may", "true", user, "a", "", []string{user + " tasks.tekton.dev shared/a"}},
		{"it may not", "true", "system:serviceaccount:ns:other", "a", resolve.ReasonDenied, []string{"system:serviceaccount:ns:other tasks.tekton.dev shared/a"}},
		{"what it may not read does not tell whether it exists", "true", "system:serviceaccount:ns:other", "none", resolve.ReasonDenied, []string{"system:serviceaccount:ns:other tasks.tekton.dev shared/none"}},
		{"nobody asks", "true", "", "a", resolve.ReasonForbidden, nil},
		{"a setting that is no boolean counts as true", "yes please", "", "a", resolve.ReasonForbidden, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newFake()
			c.may = map[string]bool{user + " shared/a": true}
			req := request(resolve.Config{KeyCheckAccess: tt.check}, ParamNamespace, "shared", ParamName, tt.object)
			req.Identity = tt.identity
			_, err := New(c).Resolve(t.Context(), req)
			if r := reason(t, err); r != tt.want {
				t.Errorf("reason %q, want %q: %v", r, tt.want, err)
			}
			if diff := cmp.Diff(tt.reviews, c.reviews); diff != "" {
				t.Error(diff)
			}
			if err != nil && c.gets > 0 {
				t.Error("the object was read")
			}
		})
	}
}

func TestScopesKeepIdentitiesApart(t *testing.T) {
	scope := New(newFake()).Spec().Scope
	checked := resolve.Config{KeyCheckAccess: "true"}
	a, b := request(checked), request(checked)
	a.Identity, b.Identity = "x", "y"
	if scope(a) == scope(b) {
		t.Error("two identities share")
	}
	other := request(nil)
	other.Namespace = "other"
	if scope(request(nil)) == scope(other) {
		t.Error("two namespaces share, although the namespace is a default")
	}
}

func TestErrorsOfTheAPIServer(t *testing.T) {
	gr := schema.GroupResource{Group: "tekton.dev", Resource: "tasks"}
	for _, tt := range []struct {
		name      string
		err       error
		want      resolve.Reason
		transient bool
		after     time.Duration
	}{
		{"not found", apierrors.NewNotFound(gr, "a"), resolve.ReasonNotFound, false, 0},
		{"forbidden", apierrors.NewForbidden(gr, "a", errors.New("rbac")), resolve.ReasonDenied, false, 0},
		{"unauthorized", apierrors.NewUnauthorized("x"), resolve.ReasonDenied, false, 0},
		{"429", apierrors.NewTooManyRequests("x", 5), resolve.ReasonUnavailable, true, 5 * time.Second},
		{"server timeout", apierrors.NewServerTimeout(gr, "get", 2), resolve.ReasonUnavailable, true, 2 * time.Second},
		{"internal error", apierrors.NewInternalError(errors.New("x")), resolve.ReasonUnavailable, true, 0},
		{"unavailable", apierrors.NewServiceUnavailable("x"), resolve.ReasonUnavailable, true, 0},
		{"bad request", apierrors.NewBadRequest("x"), resolve.ReasonFailed, false, 0},
		{"the network", errors.New("dial tcp: connection refused"), resolve.ReasonUnavailable, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newFake()
			c.err = tt.err
			_, err := New(c).Resolve(t.Context(), request(nil))
			if r := reason(t, err); r != tt.want {
				t.Errorf("reason %q, want %q: %v", r, tt.want, err)
			}
			var e *resolve.Error
			if errors.As(err, &e) && (e.Transient != tt.transient || e.RetryAfter != tt.after) {
				t.Errorf("transient %v, after %v", e.Transient, e.RetryAfter)
			}
		})
	}
}

func TestResolveEndsWithTheContext(t *testing.T) {
	c := newFake()
	c.hang = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := New(c).Resolve(ctx, request(nil))
	if r := reason(t, err); r != resolve.ReasonCanceled || !errors.Is(err, context.Canceled) {
		t.Errorf("reason %q: %v", r, err)
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	keys := map[string]func(string) error{}
	for _, k := range New(newFake()).Spec().Config {
		if k.Check != nil {
			keys[k.Name] = k.Check
			if k.Default != "" && k.Check(k.Default) != nil {
				t.Errorf("the default of %s is refused", k.Name)
			}
		}
	}
	for _, tt := range []struct {
		key, value string
		ok         bool
	}{
		{KeyAllowedKinds, "Task.tekton.dev, *.other.dev,configmap,*", true},
		{KeyAllowedKinds, "task.tekton.dev task.other.dev", true},
		{KeyAllowedKinds, ",", false},
		{KeyAllowedKinds, "task.", false},
		{KeyAllowedKinds, "*.", false},
		{KeyAllowedKinds, "/", false},
		{KeyAllowedKinds, "**.x", false},
		{KeyAllowedKinds, "tasks.tekton.dev", false},
		{KeyAllowedKinds, "task", false},
		{KeyAllowedNamespaces, "*, a,b-c", true},
		{KeyAllowedNamespaces, "a b", true},
		{KeyAllowedNamespaces, ",", false},
		{KeyBlockedNamespaces, "kube-*", false},
		{KeyCheckAccess, "true", true},
		{KeyCheckAccess, "yes", false},
		{KeyNamespace, "", true},
		{KeyNamespace, "*", false},
	} {
		if err := keys[tt.key](tt.value); (err == nil) != tt.ok {
			t.Errorf("%s %q: %v", tt.key, tt.value, err)
		}
	}
}
