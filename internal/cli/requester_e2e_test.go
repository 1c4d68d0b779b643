//go:build e2e

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/client/informers"
	"sluice.dev/client/versioned"
	"sluice.dev/requester"
	"sluice.dev/tools/clustertest"
)

// Run is a kind of somebody else's, with a reference in its spec.
var (
	runs   = schema.GroupVersionResource{Group: "requester.test", Version: "v1", Resource: "runs"}
	runGVK = runs.GroupVersion().WithKind("Run")
)

func installRuns(t *testing.T, cfg *rest.Config) {
	t.Helper()
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	root := object(map[string]apiextensionsv1.JSONSchemaProps{"spec": object(map[string]apiextensionsv1.JSONSchemaProps{
		"ref": requester.Schema(), "shared": {Type: "boolean"},
	})})
	crds := apiextensions.NewForConfigOrDie(cfg).ApiextensionsV1().CustomResourceDefinitions()
	_, err := crds.Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "runs.requester.test"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: runs.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "runs", Kind: "Run"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: runs.Version, Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the kind Run", func() error {
		crd, err := crds.Get(t.Context(), "runs.requester.test", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", crd.Status.Conditions)
	})
	// All that a controller needs that makes requests.
	kube := kubernetes.NewForConfigOrDie(cfg)
	role := &authorizationv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "runs"}, Rules: []authorizationv1.PolicyRule{
		{APIGroups: []string{runs.Group}, Resources: []string{"runs"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"resolution.tekton.dev"}, Resources: []string{"resolutionrequests"}, Verbs: []string{"get", "list", "watch", "create", "patch"}},
	}}
	if _, err := kube.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &authorizationv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "runs"}, RoleRef: authorizationv1.RoleRef{APIGroup: authorizationv1.GroupName, Kind: "ClusterRole", Name: "runs"},
		Subjects: []authorizationv1.Subject{{Kind: "ServiceAccount", Namespace: "sluice-system", Name: "runs"}},
	}
	if _, err := kube.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	clustertest.AwaitRights(t, kube, "default")
}

// outcome is what a run has got at last.
type outcome struct {
	resource *requester.Resource
	err      error
}

// reconciler is a controller of runs as its author would write it. It acts on events alone.
type reconciler struct {
	runs      cache.GenericLister
	requester requester.Requester

	mu       sync.Mutex
	outcomes map[string]outcome
}

func (r *reconciler) reconcile(ctx context.Context, k types.NamespacedName) {
	o, err := r.runs.ByNamespace(k.Namespace).Get(k.Name)
	if err != nil {
		return // it has gone
	}
	object, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	out := outcome{}
	out.resource, out.err = r.submit(ctx, object)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes[k.Name] = out
}

func (r *reconciler) submit(ctx context.Context, o *unstructured.Unstructured) (*requester.Resource, error) {
	var run struct {
		Spec struct {
			Ref    requester.Ref `json:"ref"`
			Shared bool          `json:"shared"`
		} `json:"spec"`
	}
	text, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &run); err != nil {
		return nil, err
	}
	spec, err := run.Spec.Ref.Spec()
	if err != nil {
		return nil, err
	}
	asks := r.requester
	asks.Shared = run.Spec.Shared
	return asks.Submit(ctx, requester.OwnedBy(o, runGVK), run.Spec.Ref.Resolver, spec)
}

// begin runs the controller until the test ends.
func (r *reconciler) begin(t *testing.T, cfg *rest.Config) {
	t.Helper()
	client := versioned.NewForConfigOrDie(cfg)
	objects := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(cfg), 0)
	requests := informers.NewSharedInformerFactory(client, 0).Resolution().V1beta1().ResolutionRequests()
	r.runs = objects.ForResource(runs).Lister()
	r.requester = requester.Requester{Client: client.ResolutionV1beta1(), Lister: requests.Lister()}
	queue := workqueue.NewTyped[types.NamespacedName]()
	_, err := objects.ForResource(runs).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		if m, ok := o.(metav1.Object); ok {
			queue.Add(types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()})
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := requests.Informer().AddEventHandler(requester.Handler(runGVK.GroupKind(), queue.Add)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		queue.ShutDown()
		wg.Wait()
	})
	wg.Go(func() { objects.ForResource(runs).Informer().RunWithContext(ctx) })
	wg.Go(func() { requests.Informer().RunWithContext(ctx) })
	for range 4 {
		wg.Go(func() {
			if !cache.WaitForCacheSync(ctx.Done(), objects.ForResource(runs).Informer().HasSynced, requests.Informer().HasSynced) {
				return
			}
			for {
				k, closed := queue.Get()
				if closed {
					return
				}
				r.reconcile(ctx, k)
				queue.Done(k)
			}
		})
	}
}

// await waits for the outcome of a run.
func (r *reconciler) await(t *testing.T, name string) outcome {
	t.Helper()
	var out outcome
	until(t, "the outcome of "+name, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		var ok bool
		if out, ok = r.outcomes[name]; !ok {
			return errors.New("it has not been looked at")
		}
		if errors.Is(out.err, requester.ErrInProgress) {
			return out.err
		}
		return nil
	})
	return out
}

func (r *reconciler) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.outcomes, name)
}

func TestE2EAReconcilerGetsWhatItAsksFor(t *testing.T) {
	c := shared.Get(t)
	manifests(t, c)
	installRuns(t, c.Config())
	for _, role := range []string{"resolution", "resolver-git"} {
		p := begin(t, c, role, echoes(), nil)
		t.Cleanup(func() {
			if err := p.stop(); err != nil || p.loggedComplaints() != "" {
				t.Errorf("%v %s", err, p.log)
			}
		})
	}
	r := &reconciler{outcomes: map[string]outcome{}}
	r.begin(t, impersonate(c.Config(), "runs"))
	admin := dynamic.NewForConfigOrDie(c.Config()).Resource(runs).Namespace("default")
	requests := versioned.NewForConfigOrDie(c.Config()).ResolutionV1beta1().ResolutionRequests("default")
	create := func(name, spec string) (types.UID, error) {
		o := &unstructured.Unstructured{}
		text := fmt.Sprintf(`{"apiVersion": "requester.test/v1", "kind": "Run", "metadata": {"name": %q}, "spec": %s}`, name, spec)
		if err := json.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		made, err := admin.Create(t.Context(), o, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		return made.GetUID(), nil
	}
	owned := func(uid types.UID) []v1beta1.ResolutionRequest {
		list, err := requests.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var out []v1beta1.ResolutionRequest
		for _, i := range list.Items {
			for _, o := range i.OwnerReferences {
				if o.UID == uid {
					out = append(out, i)
				}
			}
		}
		return out
	}

	// What the schema refuses.
	for name, spec := range map[string]string{
		"no-name": `{"ref": {"resolver": "git", "params": [{"value": "x"}]}}`,
		"twice":   `{"ref": {"resolver": "git", "params": [{"name": "text", "value": "x"}, {"name": "text", "value": "y"}]}}`,
	} {
		if _, err := create(name, spec); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Each syntax brings the resource, under the name that everybody can compute.
	want := v1beta1.ResolutionRequestSpec{Params: []v1beta1.Param{{Name: "text", Value: v1beta1.StringValue("kind: Task\n")}}}
	for name, spec := range map[string]string{
		"params":   `{"ref": {"resolver": "git", "params": [{"name": "text", "value": "kind: Task\n"}]}}`,
		"resource": `{"ref": {"resolver": "git", "resource": {"text": "kind: Task\n"}}}`,
		"list":     `{"ref": {"resolver": "git", "resource": [{"name": "text", "value": "kind: Task\n"}]}}`,
	} {
		uid, err := create(name, spec)
		if err != nil {
			t.Fatal(err)
		}
		got := r.await(t, name)
		if got.err != nil || string(got.resource.Data) != "kind: Task\n" || got.resource.Source.URI != "echo:" {
			t.Errorf("%s: %+v", name, got)
		}
		expected, err := requester.Name("git", "default/"+name, want)
		if made := owned(uid); err != nil || len(made) != 1 || made[0].Name != expected || metav1.GetControllerOf(&made[0]) == nil {
			t.Errorf("%s: %d requests, %v", name, len(made), err)
		}
	}
	// What fails says why.
	if _, err := create("failing", `{"ref": {"resolver": "git", "params": [{"name": "txt", "value": "x"}]}}`); err != nil {
		t.Fatal(err)
	}
	if failed, ok := errors.AsType[*requester.FailedError](r.await(t, "failing").err); !ok || failed.Exact != "InvalidParams" {
		t.Errorf("%+v", failed)
	}
	if _, err := create("senseless", `{"ref": {"resolver": "git", "resource": 5}}`); err != nil {
		t.Fatal(err)
	}
	if got := r.await(t, "senseless"); got.err == nil || got.resource != nil {
		t.Errorf("%+v", got)
	}
	// A request that somebody deletes is made anew.
	name, err := requester.Name("git", "default/params", want)
	if err != nil {
		t.Fatal(err)
	}
	before, err := requests.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.forget("params")
	if err := requests.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := r.await(t, "params"); got.err != nil || string(got.resource.Data) != "kind: Task\n" {
		t.Errorf("%+v", got)
	}
	if after, err := requests.Get(t.Context(), name, metav1.GetOptions{}); err != nil || after.UID == before.UID {
		t.Errorf("%v", err)
	}

	// Owners that share have one request, made at once by several workers; it goes with the last of them.
	var uids []types.UID
	for i := range 5 {
		uid, err := create(fmt.Sprintf("shares-%d", i), `{"shared": true, "ref": {"resolver": "git", "params": [{"name": "text", "value": "shared"}]}}`)
		if err != nil {
			t.Fatal(err)
		}
		uids = append(uids, uid)
	}
	for i := range uids {
		if got := r.await(t, fmt.Sprintf("shares-%d", i)); got.err != nil || string(got.resource.Data) != "shared" {
			t.Fatalf("%d: %+v", i, got)
		}
	}
	one := owned(uids[0])
	if len(one) != 1 || len(one[0].OwnerReferences) != len(uids) || metav1.GetControllerOf(&one[0]) != nil {
		t.Fatalf("%d requests: %+v", len(one), one)
	}
	for i := range uids {
		if len(owned(uids[i])) != 1 {
			t.Fatalf("the request goes before its last owner, %d", i)
		}
		if err := admin.Delete(t.Context(), fmt.Sprintf("shares-%d", i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if i < len(uids)-1 {
			until(t, "the owner to leave", func() error {
				// The list of all requests, with their content, would take seconds of processor time until the garbage collector comes.
				left, err := requests.Get(t.Context(), one[0].Name, metav1.GetOptions{})
				if err == nil && slices.ContainsFunc(left.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == uids[i] }) {
					err = fmt.Errorf("%d owns it", i)
				}
				return err
			})
		}
	}
	until(t, "the request to go", func() error {
		if _, err := requests.Get(t.Context(), one[0].Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there: %w", errors.Join(err))
		}
		return nil
	})
	if err := admin.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}
