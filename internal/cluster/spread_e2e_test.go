//go:build e2e

package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/kube"
)

const (
	namespaces   = 16
	perNamespace = 20 // together more than a first page
)

// world is an API server with objects in many namespaces, all of which the new CRD refuses.
type world struct {
	c         *clustertest.Cluster
	objects   dynamic.NamespaceableResourceInterface
	live, new *apiextensionsv1.CustomResourceDefinition
}

// namespace names them so that their order differs with and without the slash that ends them in the server's order.
func namespace(i int) string {
	if i%2 == 0 {
		return fmt.Sprintf("ns%d", i)
	}
	return fmt.Sprintf("ns%d-x", i-1)
}

func lacking(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.sluice.dev/v1", "kind": "Database", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"engine": "mariadb", "storage": map[string]any{"size": "1Gi"}},
	}}
}

func newWorld(t *testing.T) *world {
	w := &world{c: clustertest.Start(t, clustertest.WithoutControllers()), live: readCRD(t, "v1.yaml"), new: readCRD(t, "v2-unsafe.yaml")}
	k, err := kube.New(w.c.Config())
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Apply(t.Context(), "../../examples/upgrade/v1.yaml", false); err != nil {
		t.Fatal(err)
	}
	d := dynamic.NewForConfigOrDie(w.c.Config())
	w.objects = d.Resource(schema.GroupVersionResource{Group: "example.sluice.dev", Version: "v1", Resource: "databases"})
	var wg sync.WaitGroup
	for i := range namespaces {
		wg.Go(func() {
			ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace(i)}}}
			if err := k.Create(t.Context(), ns); err != nil {
				t.Error(err)
				return
			}
			for j := range perNamespace {
				if _, err := w.objects.Namespace(namespace(i)).Create(t.Context(), lacking(fmt.Sprintf("db-%d", j)), metav1.CreateOptions{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return w
}

// wire sees the requests of a scan on their way to the server.
type wire struct {
	http.RoundTripper
	before func(*http.Request)
	// start is the resource version that the lists of namespaces asked for; most is how many requests were under way at once.
	start          atomic.Pointer[string]
	under, most    atomic.Int64
	lists, refused atomic.Int64
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	exact := r.URL.Query().Get("resourceVersionMatch") == "Exact"
	if v := r.URL.Query().Get("resourceVersion"); exact {
		w.lists.Add(1)
		w.start.Store(&v)
	}
	if w.before != nil {
		w.before(r)
	}
	n := w.under.Add(1)
	for most := w.most.Load(); n > most && !w.most.CompareAndSwap(most, n); most = w.most.Load() {
	}
	response, err := w.RoundTripper.RoundTrip(r)
	if err != nil {
		w.under.Add(-1)
		return nil, err
	}
	if exact && response.StatusCode != http.StatusOK {
		w.refused.Add(1)
	}
	response.Body = &body{response.Body, sync.OnceFunc(func() { w.under.Add(-1) })}
	return response, nil
}

type body struct {
	io.ReadCloser
	done func()
}

func (b *body) Close() error {
	b.done()
	return b.ReadCloser.Close()
}

// scan scans with one connection's requests seen by the wire; all bad objects are kept.
func (w *world) scan(t *testing.T, wire *wire, config *rest.Config, o ScanOptions) Scan {
	t.Helper()
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { wire.RoundTripper = rt; return wire })
	c, err := For(config)
	if err != nil {
		t.Fatal(err)
	}
	if o.Keep == 0 {
		o.Keep = 1 << 20
	}
	if o.minSpread == 0 {
		o.minSpread = 1
	}
	s, err := c.Scan(t.Context(), w.live, w.new, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// at returns the names of the objects stored at a resource version.
func (w *world) at(t *testing.T, version string) []string {
	t.Helper()
	list, err := w.objects.List(t.Context(), metav1.ListOptions{ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, u := range list.Items {
		out = append(out, u.GetNamespace()+"/"+u.GetName())
	}
	return out
}

func found(s Scan) []string {
	var out []string
	for _, f := range s.Fates {
		out = append(out, f.Name)
	}
	return out
}

// TestE2EScanReadsNamespacesAtOnce holds that a scan by namespace finds every object exactly once, in the order in which a scan page
// by page finds them, whatever happens meanwhile.
func TestE2EScanReadsNamespacesAtOnce(t *testing.T) {
	w := newWorld(t)
	serial := w.scan(t, &wire{}, w.c.Config(), ScanOptions{Pages: 1})
	if serial.Checked != namespaces*perNamespace || len(serial.Fates) != namespaces*perNamespace || serial.Serial != "" {
		t.Fatalf("one after the other: %d objects, %d fates, %q", serial.Checked, len(serial.Fates), serial.Serial)
	}
	same := func(t *testing.T, s Scan) {
		t.Helper()
		s.Serial = ""
		if diff := cmp.Diff(serial, s); diff != "" {
			t.Error(diff)
		}
	}

	t.Run("as page by page", func(t *testing.T) {
		for _, o := range []ScanOptions{{}, {Pages: 2, PageSize: 7}, {Pages: 64, PageSize: 29}} {
			var last int64
			o.Progress = func(checked, remaining int64) {
				if total := checked + remaining; checked <= 0 || remaining >= 0 && total != serial.Checked {
					t.Errorf("%d checked, %d remain", checked, remaining)
				}
				last = checked
			}
			wire := &wire{}
			s := w.scan(t, wire, w.c.Config(), o)
			if s.Serial != "" || last != serial.Checked || wire.lists.Load() < namespaces {
				t.Errorf("%+v: serial because %q, progress ends at %d, %d lists", o, s.Serial, last, wire.lists.Load())
			}
			if most := wire.most.Load(); most < 2 || o.Pages > 0 && most > int64(o.Pages) {
				t.Errorf("%+v: %d requests at once", o, most)
			}
			same(t, s)
		}
	})
	t.Run("the first examples", func(t *testing.T) {
		s := w.scan(t, &wire{}, w.c.Config(), ScanOptions{Keep: 5})
		if diff := cmp.Diff(found(serial)[:5], found(s)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("few objects in each namespace", func(t *testing.T) {
		s := w.scan(t, &wire{}, w.c.Config(), ScanOptions{minSpread: minSpread})
		if !strings.Contains(s.Serial, "fewer than 100 objects") {
			t.Errorf("serial because %q", s.Serial)
		}
		same(t, s)
	})
	t.Run("while others write", func(t *testing.T) { w.whileOthersWrite(t) })
	t.Run("namespaces that must not be listed", func(t *testing.T) {
		w.allowReader(t)
		config := w.c.Config()
		config.Impersonate = rest.ImpersonationConfig{UserName: "reader"}
		s := w.scan(t, &wire{}, config, ScanOptions{})
		if !strings.Contains(s.Serial, "the namespaces cannot be listed") {
			t.Errorf("serial because %q", s.Serial)
		}
		same(t, s)
	})
	t.Run("a server that refuses the exact version", func(t *testing.T) {
		wire := &wire{before: func(r *http.Request) {
			if q := r.URL.Query(); q.Has("resourceVersionMatch") { // without a version to match the API server refuses it
				q.Del("resourceVersion")
				r.URL.RawQuery = q.Encode()
			}
		}}
		s := w.scan(t, wire, w.c.Config(), ScanOptions{})
		if wire.refused.Load() == 0 || !strings.Contains(s.Serial, "reading by namespace failed") {
			t.Errorf("%d refused, serial because %q", wire.refused.Load(), s.Serial)
		}
		same(t, s)
	})
	t.Run("a namespace that is gone with objects left in it", func(t *testing.T) {
		w.orphan(t, namespace(3))
		s := w.scan(t, &wire{}, w.c.Config(), ScanOptions{})
		if !strings.Contains(s.Serial, "but the server counts") {
			t.Errorf("serial because %q", s.Serial)
		}
		same(t, s)
	})
	t.Run("no namespace", func(t *testing.T) { w.clusterScoped(t) })
	t.Run("a version that the server has forgotten", func(t *testing.T) {
		w.c.CrashWith(t, clustertest.WithoutControllers(), clustertest.APIServerArg("etcd-compaction-interval=1s"))
		var once sync.Once
		wire := &wire{}
		wire.before = func(r *http.Request) {
			if v := r.URL.Query().Get("resourceVersion"); v != "" {
				once.Do(func() { w.awaitForgotten(t, v) })
			}
		}
		s := w.scan(t, wire, w.c.Config(), ScanOptions{})
		if wire.refused.Load() == 0 || !strings.Contains(s.Serial, ErrExpired.Error()) || s.Renewed == 0 {
			t.Errorf("%d refused, serial because %q, renewed %d times", wire.refused.Load(), s.Serial, s.Renewed)
		}
		s.Renewed = 0
		same(t, s)
	})
}

// whileOthersWrite scans again and again while objects come, go and change. What a scan finds is what was stored at the version
// that it read.
func (w *world) whileOthersWrite(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	var writes atomic.Int64
	for i := range 2 {
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				in := w.objects.Namespace(namespace((7*n + i) % namespaces))
				name := fmt.Sprintf("more-%d-%d", i, n)
				if _, err := in.Create(ctx, lacking(name), metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				if n%2 == 0 {
					if err := in.Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{}); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
				writes.Add(1)
			}
		})
	}
	for range 4 {
		wire := &wire{before: func(*http.Request) { // something is written between any two requests
			now := writes.Load()
			poll(t, func() bool { return writes.Load() > now })
		}}
		s := w.scan(t, wire, w.c.Config(), ScanOptions{PageSize: 20})
		if s.Serial != "" || wire.start.Load() == nil {
			t.Errorf("serial because %q", s.Serial)
			break
		}
		if diff := cmp.Diff(w.at(t, *wire.start.Load()), found(s)); diff != "" {
			t.Error(diff)
		}
	}
	stop()
	writers.Wait()
	for i := range namespaces {
		list, err := w.objects.Namespace(namespace(i)).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range list.Items {
			if strings.HasPrefix(u.GetName(), "more-") {
				if err := w.objects.Namespace(namespace(i)).Delete(t.Context(), u.GetName(), metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// allowReader lets the user reader list the objects, and nothing else.
func (w *world) allowReader(t *testing.T) {
	d := dynamic.NewForConfigOrDie(w.c.Config())
	for kind, u := range map[string]map[string]any{
		"ClusterRole": {"rules": []any{map[string]any{"apiGroups": []any{"example.sluice.dev"}, "resources": []any{"databases"}, "verbs": []any{"list"}}}},
		"ClusterRoleBinding": {
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}},
		},
	} {
		u["apiVersion"], u["kind"], u["metadata"] = "rbac.authorization.k8s.io/v1", kind, map[string]any{"name": "reader"}
		resource := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: strings.ToLower(kind) + "s"}
		if _, err := d.Resource(resource).Create(t.Context(), &unstructured.Unstructured{Object: u}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	config := w.c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "reader"}
	as := dynamic.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{Group: "example.sluice.dev", Version: "v1", Resource: "databases"})
	poll(t, func() bool { _, err := as.List(t.Context(), metav1.ListOptions{Limit: 1}); return err == nil })
}

// orphan removes a namespace without its objects, as somebody does who clears its finalizers by force.
func (w *world) orphan(t *testing.T, name string) {
	config := rest.CopyConfig(w.c.Config())
	in := dynamic.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	if err := in.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ns, err := in.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(ns.Object, "spec", "finalizers")
	if _, err := in.Update(t.Context(), ns, metav1.UpdateOptions{}, "finalize"); err != nil {
		t.Fatal(err)
	}
	poll(t, func() bool { _, err := in.Get(t.Context(), name, metav1.GetOptions{}); return err != nil })
}

// clusterScoped scans objects that are in no namespace.
func (w *world) clusterScoped(t *testing.T) {
	crd := w.live.DeepCopy()
	crd.Name, crd.Spec.Scope = "globals.example.sluice.dev", apiextensionsv1.ClusterScoped
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "globals", Singular: "global", Kind: "Global", ListKind: "GlobalList"}
	next := w.new.DeepCopy()
	next.Name, next.Spec.Scope, next.Spec.Names = crd.Name, crd.Spec.Scope, crd.Spec.Names
	k, err := kube.New(w.c.Config())
	if err != nil {
		t.Fatal(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetAPIVersion("apiextensions.k8s.io/v1")
	u.SetKind("CustomResourceDefinition")
	unstructured.RemoveNestedField(u.Object, "status")
	if err := k.ApplyObject(t.Context(), u, false); err != nil {
		t.Fatal(err)
	}
	globals := dynamic.NewForConfigOrDie(w.c.Config()).Resource(schema.GroupVersionResource{Group: "example.sluice.dev", Version: "v1", Resource: "globals"})
	var want []string
	for i := range firstPage + 10 {
		g := lacking(fmt.Sprintf("g-%02d", i))
		g.SetKind("Global")
		if _, err := globals.Create(t.Context(), g, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		want = append(want, g.GetName())
	}
	s := (&world{c: w.c, live: crd, new: next}).scan(t, &wire{}, w.c.Config(), ScanOptions{})
	if diff := cmp.Diff(want, found(s)); diff != "" || s.Serial == "" {
		t.Errorf("serial because %q: %s", s.Serial, diff)
	}
}

// awaitForgotten waits until the server no longer has the version.
func (w *world) awaitForgotten(t *testing.T, version string) {
	poll(t, func() bool {
		_, err := w.objects.List(t.Context(), metav1.ListOptions{ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact, Limit: 1})
		return err != nil
	})
}

func poll(t *testing.T, done func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		t.Error(err)
	}
}
