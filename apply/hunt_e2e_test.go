//go:build e2e

package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"sluice.dev/tools/draws"
)

// seeds are those that have found something.
var seeds = []uint64{4, 5, 1000, 5027, 30077}

// TestE2ENothingIsLostThatIsToStay has two apps and somebody without an app share namespaces and a CRD: they apply, prune, delete, take
// over from each other, one in the middle of the other, and are killed. A model knows whose each object is. What goes is the app's
// that was told to delete it, and what an app has in the end is what it was to have.
func TestE2ENothingIsLostThatIsToStay(t *testing.T) {
	list := slices.AppendSeq(slices.Clone(seeds), draws.Seeds(30))
	dead := exec.CommandContext(t.Context(), "sleep", "600")
	if err := dead.Start(); err != nil {
		t.Fatal(err)
	}
	process := processOf(t, dead)
	_ = dead.Process.Kill()
	_ = dead.Wait()
	var mu sync.Mutex
	sum := map[string]int{}
	t.Run("seeds", func(t *testing.T) {
		for _, seed := range list {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				h := newHunt(t, seed, process)
				h.run()
				mu.Lock()
				defer mu.Unlock()
				for k, n := range h.did {
					sum[k] += n
				}
			})
		}
	})
	t.Logf("%d runs: %v", len(list), sum)
	if len(list) >= 4 && sum["gone"] == 0 {
		t.Error("nothing was ever deleted: the test shows nothing")
	}
}

// hunt is one run.
type hunt struct {
	t       *testing.T
	r       *rand.Rand
	copies  *rand.Rand // of its own, so that the seeds above still do what they did when they found something
	dynamic dynamic.Interface
	prefix  string
	process string
	step    int
	made    map[types.UID]string // which app has made a namespace; empty for nobody
	did     map[string]int
	log     []string
}

var (
	namespacesGVR = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMapsGVR = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	crdsGVR       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

func newHunt(t *testing.T, seed uint64, process string) *hunt {
	t.Helper()
	d, err := dynamic.NewForConfig(shared.Get(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	h := &hunt{
		t: t, r: rand.New(rand.NewPCG(seed, 12)), copies: rand.New(rand.NewPCG(seed, 13)), dynamic: d, prefix: fmt.Sprintf("hunt-%d-%d", seed, time.Now().UnixNano()%1e6), process: process,
		made: map[types.UID]string{}, did: map[string]int{},
	}
	t.Cleanup(h.clean)
	for _, name := range []string{"home", "c"} {
		h.create(namespacesGVR, "", map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": h.prefix + "-" + name}})
	}
	return h
}

// clean begins to delete what the run leaves: each kind that the server serves makes the other runs slower.
func (h *hunt) clean() {
	ctx := context.WithoutCancel(h.t.Context())
	for _, n := range []string{"a", "b", "c", "home"} {
		_ = h.dynamic.Resource(namespacesGVR).Delete(ctx, h.prefix+"-"+n, metav1.DeleteOptions{})
	}
	_ = h.dynamic.Resource(crdsGVR).Delete(ctx, h.crd(), metav1.DeleteOptions{})
}

func (h *hunt) group() string     { return h.prefix + ".example.com" }
func (h *hunt) home() string      { return h.prefix + "-home" }
func (h *hunt) crd() string       { return "things." + h.group() }
func (h *hunt) chance(n int) bool { return h.r.IntN(100) < n }

func (h *hunt) things() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: h.group(), Version: "v1", Resource: "things"}
}

// create makes an object as somebody without an app; that there is one, or that it has no place, is no error.
func (h *hunt) create(gvr schema.GroupVersionResource, namespace string, obj map[string]any) {
	h.t.Helper()
	_, err := h.dynamic.Resource(gvr).Namespace(namespace).Create(h.t.Context(), &unstructured.Unstructured{Object: obj}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		h.t.Fatal(err)
	}
}

// thing is an object in the cluster, as the model sees it.
type seenObject struct {
	id    ID
	owner string
	kept  bool
	by    string
}

// snapshot lists what there is and is not being deleted.
func (h *hunt) snapshot() map[types.UID]seenObject {
	h.t.Helper()
	out := map[types.UID]seenObject{}
	add := func(gvr schema.GroupVersionResource, namespace string) {
		list, err := h.dynamic.Resource(gvr).Namespace(namespace).List(h.t.Context(), metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		if err != nil {
			h.t.Fatal(err)
		}
		for _, o := range list.Items {
			id := ID{o.GroupVersionKind().Group, o.GetKind(), o.GetNamespace(), o.GetName()}
			mine := strings.HasPrefix(id.Namespace, h.prefix+"-") || strings.HasPrefix(id.Name, h.prefix+"-") || id.Name == h.crd()
			if !mine || o.GetDeletionTimestamp() != nil || id.Name == "kube-root-ca.crt" || id.Namespace == h.home() {
				continue
			}
			by, _, _ := unstructured.NestedString(o.Object, "data", "by")
			m := marksOf(o.Object)
			owner := o.GetAnnotations()[AnnotationApp]
			if !slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == Manager }) {
				owner = "" // a copy
			}
			out[o.GetUID()] = seenObject{id, owner, m.kept, by}
		}
	}
	add(namespacesGVR, "")
	for _, n := range []string{"a", "b", "c"} {
		add(configMapsGVR, h.prefix+"-"+n)
		add(h.things(), h.prefix+"-"+n)
	}
	add(crdsGVR, "")
	// What is in a namespace that is being deleted is going, too.
	alive := map[string]bool{}
	for _, o := range out {
		if isNamespace(o.id) {
			alive[o.id.Name] = true
		}
	}
	maps.DeleteFunc(out, func(_ types.UID, o seenObject) bool { return o.id.Namespace != "" && !alive[o.id.Namespace] })
	return out
}

// order is what an app is told to do.
type order struct {
	app                 string
	deletes             bool
	content             map[ID]map[string]any
	prune, force        bool
	allowCRDs, allowNSs bool
	keepProtected       bool
}

func (o order) String() string {
	if o.deletes {
		return fmt.Sprintf("delete %s (crds %t, namespaces %t, keep %t)", o.app, o.allowCRDs, o.allowNSs, o.keepProtected)
	}
	var ids []string
	for id := range o.content {
		ids = append(ids, id.Kind+" "+id.Namespace+"/"+id.Name)
	}
	slices.Sort(ids)
	return fmt.Sprintf("apply %s (prune %t, force %t, crds %t, namespaces %t): %s", o.app, o.prune, o.force, o.allowCRDs, o.allowNSs, strings.Join(ids, ", "))
}

// content is what the order wants at random.
func (h *hunt) content(app string) map[ID]map[string]any {
	out := map[ID]map[string]any{}
	put := func(version, kind, namespace, name string, more map[string]any) {
		o := map[string]any{"apiVersion": version, "kind": kind}
		meta := map[string]any{"name": name}
		if namespace != "" {
			meta["namespace"] = namespace
		}
		if kind == "ConfigMap" && h.chance(10) {
			meta["annotations"] = map[string]any{"helm.sh/resource-policy": "keep"}
		}
		o["metadata"] = meta
		maps.Copy(o, more)
		gv, err := schema.ParseGroupVersion(version)
		if err != nil {
			h.t.Fatal(err)
		}
		out[ID{gv.Group, kind, namespace, name}] = o
	}
	custom := h.chance(50)
	if custom || h.chance(20) {
		put("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", h.crd(), map[string]any{"spec": map[string]any{
			"group": h.group(), "scope": "Namespaced", "names": map[string]any{"plural": "things", "kind": "Thing", "listKind": "ThingList", "singular": "thing"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}},
		}})
	}
	for _, n := range []string{"a", "b", "c"} {
		if h.chance(40) {
			continue
		}
		namespace := h.prefix + "-" + n
		if h.chance(90) {
			put("v1", "Namespace", "", namespace, nil)
		}
		for i := range 2 {
			if h.chance(60) {
				put("v1", "ConfigMap", namespace, fmt.Sprintf("m%d", i), map[string]any{"data": map[string]any{"by": fmt.Sprintf("%s-%d", app, h.step)}})
			}
		}
		if custom && h.chance(60) {
			put(h.group()+"/v1", "Thing", namespace, "t", nil)
		}
	}
	put("v1", "ConfigMap", h.prefix+"-c", "always-"+app, map[string]any{"data": map[string]any{"by": fmt.Sprintf("%s-%d", app, h.step)}})
	return out
}

func (h *hunt) order(app string) order {
	h.step++
	o := order{app: app, prune: h.chance(70), force: h.chance(60), allowCRDs: h.chance(20), allowNSs: h.chance(20), keepProtected: h.chance(50)}
	if h.chance(25) {
		o.deletes = true
		return o
	}
	o.content = h.content(app)
	return o
}

// strike is what happens at a write of an order.
type strike struct {
	at     int
	kill   fate // passes: nobody is killed
	inside func()
}

type striking struct {
	next   http.RoundTripper
	strike *strike
	mu     sync.Mutex
	writes int
	dead   bool
}

func (s *striking) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return nil, errKilled
	}
	write := r.Method != http.MethodGet && r.URL.Query().Get("dryRun") == ""
	if write {
		s.writes++
	}
	if s.strike == nil || !write || s.writes != s.strike.at {
		return s.next.RoundTrip(r)
	}
	// Between the look at a namespace or a CRD and its deletion there is no room for others: the API server has no such condition.
	takes := r.Method == http.MethodDelete && (strings.Contains(r.URL.Path, "/customresourcedefinitions/") || strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/") && strings.Count(r.URL.Path, "/") == 4)
	if s.strike.inside != nil && !takes {
		s.strike.inside()
	}
	switch s.strike.kill {
	case passes:
		return s.next.RoundTrip(r)
	case lost:
		if response, err := s.next.RoundTrip(r); err == nil {
			_ = response.Body.Close()
		}
	case cut:
	}
	s.dead = true
	return nil, errKilled
}

// do carries an order out, and checks what went in each part of it: until the strike, and after it.
func (h *hunt) do(o order, s *strike) error {
	h.t.Helper()
	h.log = append(h.log, o.String())
	before := h.snapshot()
	if s != nil && s.inside != nil {
		inside := s.inside
		s.inside = func() {
			h.check(o, before, h.snapshot())
			h.log = append(h.log, "in the middle of it:")
			inside()
			h.log = append(h.log, "that was in the middle of it")
			before = h.snapshot()
		}
	}
	config := shared.Get(h.t).Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &striking{next: next, strike: s} })
	a, err := New(config, Options{Namespace: h.home(), Now: time.Now, Concurrent: 1, Locks: &Locks{duration: time.Hour, process: h.process}})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), 2*time.Minute)
	defer cancel()
	err = h.carryOut(ctx, a, o)
	after := h.snapshot()
	h.check(o, before, after)
	if err != nil {
		h.did["failed"]++
		h.log = append(h.log, "  ended with "+err.Error())
		return err
	}
	h.did["done"]++
	if s == nil || s.inside == nil { // what others do in the middle may be after the write of the same object
		h.checkEnd(o, after)
	}
	return nil
}

func (h *hunt) carryOut(ctx context.Context, a *Applier, o order) error {
	for {
		a, unlock, err := a.Resume(ctx, h.home(), o.app)
		switch {
		case err != nil:
		case o.deletes:
			var d *Deletion
			d, err = a.PlanDeletion(ctx, DeletionRequest{
				App: o.app, Namespace: h.home(), AllowDeleteCRDs: o.allowCRDs, AllowDeleteNamespaces: o.allowNSs, KeepProtected: o.keepProtected,
			})
			if err == nil {
				err = a.Delete(ctx, d)
			}
		default:
			var p *Plan
			p, err = a.Plan(ctx, Request{
				Objects: h.objects(o), App: o.app, Prune: o.prune, Force: o.force, AllowDeleteCRDs: o.allowCRDs, AllowDeleteNamespaces: o.allowNSs,
			})
			if err == nil {
				err = a.Apply(ctx, p)
			}
		}
		unlock()
		if !errors.Is(err, ErrChanged) {
			return err
		}
	}
}

func (h *hunt) objects(o order) []Object {
	var out []Object
	for _, c := range o.content {
		out = append(out, objectFrom(h.t, c))
	}
	slices.SortFunc(out, func(a, b Object) int { return a.Compare(b.ID) })
	return out
}

// check holds what an order has made go against the model.
func (h *hunt) check(o order, before, after map[types.UID]seenObject) {
	h.t.Helper()
	owner := h.home() + "/" + o.app
	gone := map[ID]bool{}
	for uid, was := range before {
		if _, there := after[uid]; !there {
			gone[was.id] = true
			h.did["gone"]++
		}
	}
	for uid, was := range before {
		if _, there := after[uid]; there {
			continue
		}
		why := ""
		switch {
		case was.id.Namespace != "" && gone[ID{Kind: "Namespace", Name: was.id.Namespace}] && o.allowNSs:
		case was.id.Kind == "Thing" && gone[ID{"apiextensions.k8s.io", "CustomResourceDefinition", "", h.crd()}] && o.allowCRDs:
		case was.owner != owner:
			why = "it is not the app's"
		case was.kept:
			why = "its annotation keeps it"
		case isNamespace(was.id) && h.made[uid] != o.app && !o.allowNSs:
			why = "the app has not made it"
		case !o.deletes && !o.prune:
			why = "nobody asked to prune"
		case !o.deletes && o.content[was.id] != nil:
			why = "the source has it"
		}
		if why != "" {
			h.t.Errorf("%s of %q (made by %q) went with %q, and %s\n%s", was.id, was.owner, h.made[uid], o, why, strings.Join(h.log, "\n"))
		}
	}
	for uid, is := range after {
		if _, there := before[uid]; !there && isNamespace(is.id) {
			h.made[uid] = o.app
		}
	}
}

// checkEnd holds what there is after an order that has ended in order against it.
func (h *hunt) checkEnd(o order, after map[types.UID]seenObject) {
	h.t.Helper()
	owner := h.home() + "/" + o.app
	a, err := New(shared.Get(h.t).Config(), Options{Namespace: h.home(), Now: time.Now})
	if err != nil {
		h.t.Fatal(err)
	}
	v, err := a.App(h.t.Context(), h.home(), o.app)
	if err != nil && !errors.Is(err, ErrNoApp) {
		h.t.Fatal(err)
	}
	there := map[ID]seenObject{}
	for _, is := range after {
		there[is.id] = is
		if is.owner == owner && !is.kept && !isNamespace(is.id) && !is.id.isCRD() && v.entryOf(is.id) == nil {
			h.t.Errorf("%s is marked as that of %s, whose inventory does not have it\n%s", is.id, o.app, strings.Join(h.log, "\n"))
		}
	}
	for id, want := range o.content {
		is, ok := there[id]
		by, _, _ := unstructured.NestedString(want, "data", "by")
		if !ok || is.owner != owner || is.by != by {
			h.t.Errorf("%s is %+v after %q, want one by %q\n%s", id, is, o, by, strings.Join(h.log, "\n"))
		}
	}
}

func (h *hunt) run() {
	apps := []string{"one", "two"}
	for range 6 {
		i := h.r.IntN(2)
		o := h.order(apps[i])
		var s *strike
		if h.chance(60) {
			s = &strike{at: 1 + h.r.IntN(14)}
			if h.chance(50) {
				s.kill = []fate{cut, lost}[h.r.IntN(2)]
				h.did["killed"]++
			}
			switch other := h.order(apps[1-i]); {
			case h.chance(40):
				s.inside = func() { _ = h.do(other, nil) }
			case h.chance(50):
				s.inside = h.stranger
			}
		}
		_ = h.do(o, s)
		if h.chance(40) {
			h.stranger()
		}
		if h.t.Failed() {
			return
		}
	}
	// In the end each app can be brought in order, and goes with all it has, and nothing else.
	for _, app := range apps {
		o := order{app: app, prune: true, force: true, content: map[ID]map[string]any{}}
		h.step++
		for id, c := range h.content(app) {
			if id.Namespace == "" || id.Namespace == h.prefix+"-c" && id.Kind == "ConfigMap" {
				o.content[id] = c
			}
		}
		o.content[ID{Kind: "Namespace", Name: h.prefix + "-c"}] = map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": h.prefix + "-c"}}
		if err := h.do(o, nil); err != nil {
			h.t.Errorf("in the end: %v\n%s", err, strings.Join(h.log, "\n"))
		}
		if err := h.do(order{app: app, deletes: true, keepProtected: true}, nil); err != nil {
			h.t.Errorf("in the end: %v\n%s", err, strings.Join(h.log, "\n"))
		}
	}
	for _, o := range h.snapshot() {
		_, app, _ := strings.Cut(o.owner, "/")
		if app != "" && !o.kept && !isNamespace(o.id) && !o.id.isCRD() {
			h.t.Errorf("%s of %s is left in the end\n%s", o.id, o.owner, strings.Join(h.log, "\n"))
		}
	}
}

// stranger makes something, or takes the mark from something, as somebody without an app.
func (h *hunt) stranger() {
	namespace := h.prefix + "-" + []string{"a", "b", "c"}[h.r.IntN(3)]
	meta := map[string]any{"name": fmt.Sprintf("strange-%d", h.r.IntN(3)), "namespace": namespace}
	h.did["stranger"]++
	switch h.r.IntN(3) {
	case 0:
		h.create(h.things(), namespace, map[string]any{"apiVersion": h.group() + "/v1", "kind": "Thing", "metadata": meta})
	case 1:
		h.create(configMapsGVR, namespace, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
	case 2:
		// Somebody makes an object of an app their own.
		patch := []byte(`{"metadata":{"annotations":{"` + AnnotationApp + `":null}}}`)
		_, err := h.dynamic.Resource(configMapsGVR).Namespace(namespace).Patch(h.t.Context(), "m0", types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			h.t.Fatal(err)
		}
	}
	if h.copies.IntN(3) == 0 {
		// Somebody copies an object of an app, with all that it says of itself.
		of, err := h.dynamic.Resource(configMapsGVR).Namespace(namespace).Get(h.t.Context(), "m1", metav1.GetOptions{})
		if err == nil {
			h.create(configMapsGVR, namespace, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
				"name": fmt.Sprintf("copy-%d", h.copies.IntN(3)), "namespace": namespace, "annotations": toAny(of.GetAnnotations()), "labels": toAny(of.GetLabels()),
			}})
			h.did["copied"]++
		}
	}
	h.log = append(h.log, "a stranger was in "+namespace)
}

func toAny(texts map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range texts {
		out[k] = v
	}
	return out
}
