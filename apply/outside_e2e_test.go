//go:build e2e

package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// outsider is a namespace of its own, an applier in it, and somebody beside it who knows nothing of Sluice.
type outsider struct {
	*Applier

	t    *testing.T
	kube kubernetes.Interface
	home string
}

func newOutsider(t *testing.T) *outsider {
	t.Helper()
	kube, err := kubernetes.NewForConfig(shared.Get(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	ns, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "out-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(shared.Get(t).Config(), Options{Namespace: ns.Name, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return &outsider{a, t, kube, ns.Name}
}

func (o *outsider) object(text string) Object {
	o.t.Helper()
	content, err := decodeObject([]byte(text))
	if err != nil {
		o.t.Fatal(err)
	}
	return objectFrom(o.t, content)
}

func (o *outsider) configMap(namespace, name string) Object {
	return o.object(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q}}`, name, namespace))
}

func (o *outsider) deployment(text string) *appsv1.Deployment {
	o.t.Helper()
	d := &appsv1.Deployment{}
	if err := json.Unmarshal([]byte(text), d); err != nil {
		o.t.Fatal(err)
	}
	return d
}

// repeatUnderLock does something with the lock of an app whose last run has not ended, until nobody has changed the app in between.
func repeatUnderLock(ctx context.Context, a *Applier, app string, do func(locked *Applier) error) error {
	for {
		locked, unlock, err := a.Resume(ctx, "", app)
		if err == nil {
			err = do(locked)
		}
		unlock()
		if !errors.Is(err, ErrChanged) {
			return err
		}
	}
}

// applies plans and applies.
func applies(ctx context.Context, a *Applier, r Request) (p *Plan, err error) {
	err = repeatUnderLock(ctx, a, r.App, func(a *Applier) error {
		if p, err = a.Plan(ctx, r); err != nil {
			return err
		}
		return a.Apply(ctx, p)
	})
	return p, err
}

// deletes deletes an app.
func deletes(ctx context.Context, a *Applier, app string) error {
	return repeatUnderLock(ctx, a, app, func(a *Applier) error {
		d, err := a.PlanDeletion(ctx, DeletionRequest{App: app, Namespace: a.opts.Namespace})
		if err != nil {
			return err
		}
		return a.Delete(ctx, d)
	})
}

func (o *outsider) try(r Request) (*Plan, error) { return applies(o.t.Context(), o.Applier, r) }

// bring is try that has to succeed.
func (o *outsider) bring(r Request) *Plan {
	o.t.Helper()
	p, err := o.try(r)
	if err != nil {
		o.t.Fatal(err)
	}
	return p
}

func (o *outsider) drop(app string) error { return deletes(o.t.Context(), o.Applier, app) }

// An object that somebody has copied carries the app's annotation, and one that belongs to an object outside of the namespace does not
// go with what is in it. Neither goes with the namespace unseen.
func TestE2EANamespaceDoesNotTakeCopiesAndWhatBelongsElsewhere(t *testing.T) {
	o := newOutsider(t)
	role, err := o.kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: o.home}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	below, err := o.kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{
		Name: o.home + "-below", OwnerReferences: []metav1.OwnerReference{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: role.Name, UID: role.UID}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned := func(by metav1.Object) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: by.GetName(), UID: by.GetUID()},
		}}}
	}
	for name, somebodys := range map[string]func(of *corev1.ConfigMap) *corev1.ConfigMap{
		"copy": func(of *corev1.ConfigMap) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "copy", Labels: of.Labels, Annotations: of.Annotations}}
		},
		"belongs-elsewhere":       func(*corev1.ConfigMap) *corev1.ConfigMap { return owned(role) },
		"belongs-far-elsewhere":   func(*corev1.ConfigMap) *corev1.ConfigMap { return owned(below) },
		"belongs-to-app":          nil,
		"belongs-to-app-far-away": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // a deleted namespace takes its time
			place := o.home + "-" + name
			objects := []Object{
				o.object(fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, place)), o.configMap(place, "a"),
				o.object(fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q},"rules":[]}`, place)),
			}
			o.bring(Request{Objects: objects, App: name})
			mine, err := o.kube.CoreV1().ConfigMaps(place).Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			stays := somebodys != nil
			var cm *corev1.ConfigMap
			if stays {
				cm = somebodys(mine)
			} else {
				// The app's own object owns it, directly or by another one: both go with the app.
				own, err := o.kube.RbacV1().ClusterRoles().Get(t.Context(), place, metav1.GetOptions{})
				if err == nil && name == "belongs-to-app-far-away" {
					own, err = o.kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{
						Name: place + "-below", OwnerReferences: []metav1.OwnerReference{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: own.Name, UID: own.UID}},
					}}, metav1.CreateOptions{})
				}
				if err != nil {
					t.Fatal(err)
				}
				cm = owned(own)
			}
			if _, err := o.kube.CoreV1().ConfigMaps(place).Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			err = o.drop(name)
			if !stays {
				if err != nil {
					t.Errorf("the namespace is kept because of objects that go with the app: %v", err)
				}
				return
			}
			if !errors.Is(err, ErrProtected) || !strings.Contains(err.Error(), "ConfigMap "+place+"/"+cm.Name) {
				t.Errorf("the message is %v", err)
			}
			if now, err := o.kube.CoreV1().ConfigMaps(place).Get(t.Context(), cm.Name, metav1.GetOptions{}); err != nil || now.DeletionTimestamp != nil {
				t.Errorf("it is gone, or going: %v", err)
			}
		})
	}
}

// The server serves some objects in two groups: what the source has in one of them is not deleted in the other.
func TestE2EAnObjectThatMovesToAnotherGroupStays(t *testing.T) {
	o := newOutsider(t)
	was := o.object(fmt.Sprintf(`{"apiVersion":"v1","kind":"Event","metadata":{"name":"e"},"involvedObject":{"kind":"Pod","namespace":%q,"name":"x"},"reason":"r","type":"Normal"}`, o.home))
	is := o.object(fmt.Sprintf(`{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"e"},"regarding":{"kind":"Pod","namespace":%q,"name":"x"},"reason":"r","type":"Normal"}`, o.home))
	o.bring(Request{Objects: []Object{was, o.configMap(o.home, "a")}, App: "x"})
	p := o.bring(Request{Objects: []Object{is, o.configMap(o.home, "a")}, App: "x", Prune: true, Force: true})
	if r := p.Removals[0]; r.Action != Forget || !strings.Contains(r.Reason, "the source has it as Event.events.k8s.io") {
		t.Errorf("%s is to be: %s, %s", r.ID, r.Action, r.Reason)
	}
	if _, err := o.kube.EventsV1().Events(o.home).Get(t.Context(), "e", metav1.GetOptions{}); err != nil {
		t.Fatalf("the source has it, and it is gone: %v", err)
	}
	if err := o.drop("x"); err != nil {
		t.Fatal(err)
	}
	if _, err := o.kube.EventsV1().Events(o.home).Get(t.Context(), "e", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is left over: %v", err)
	}
}

// What an annotation keeps from being deleted is not deleted to be created again either.
func TestE2EWhatAnAnnotationKeepsIsNotReplaced(t *testing.T) {
	o := newOutsider(t)
	job := func(image string, annotations ...string) Object {
		return o.object(fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","annotations":{%s}},
"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":%q}]}}}}`, strings.Join(annotations, ","), image))
	}
	const keep, replace = `"kapp.k14s.io/delete-strategy":"orphan"`, `"sluice.dev/on-immutable":"replace"`
	o.bring(Request{Objects: []Object{job("one", keep)}, App: "x"})
	before, err := o.kube.BatchV1().Jobs(o.home).Get(t.Context(), "j", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]Request{
		"by the flag":                      {Objects: []Object{job("two", keep)}, Replace: true},
		"by its annotation":                {Objects: []Object{job("two", keep, replace)}},
		"kept in the cluster only":         {Objects: []Object{job("two")}, Replace: true},
		"kept in the cluster, and replace": {Objects: []Object{job("two", replace)}},
	} {
		r.App = "x"
		if _, err := o.try(r); err == nil || !strings.Contains(err.Error(), "its annotation kapp.k14s.io/delete-strategy: orphan says that it stays") {
			t.Errorf("%s: %v", name, err)
		}
		now, err := o.kube.BatchV1().Jobs(o.home).Get(t.Context(), "j", metav1.GetOptions{})
		if err != nil || now.UID != before.UID {
			t.Fatalf("%s: it was deleted (%v)", name, err)
		}
	}
	// It is kept from the moment on at which somebody says so.
	r := Request{Objects: []Object{job("two")}, App: "x", Replace: true}
	patch := func(text string) {
		if _, err := o.kube.BatchV1().Jobs(o.home).Patch(t.Context(), "j", types.MergePatchType, []byte(text), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch(`{"metadata":{"annotations":{"kapp.k14s.io/delete-strategy":null}}}`)
	p, err := o.Plan(t.Context(), r)
	if err == nil {
		err = o.rehearse(t.Context(), p, false, nil)
	}
	if err != nil || p.Items[0].Action != Replace {
		t.Fatalf("%v, %v", p.Items[0].Action, err)
	}
	patch(`{"metadata":{"annotations":{"kapp.k14s.io/delete-strategy":"orphan"}}}`)
	if err := o.writeItem(t.Context(), p, &p.Items[0]); err == nil || !strings.Contains(err.Error(), "says that it stays") {
		t.Errorf("%v", err)
	}
	patch(`{"metadata":{"annotations":{"kapp.k14s.io/delete-strategy":null}}}`)
	if p := o.bring(r); p.Items[0].Action != Replace {
		t.Errorf("it is not replaced any more: %s", p.Items[0].Action)
	}
}

// A field that keeps what the cluster has keeps it as well where it is taken over from another applier.
func TestE2EAFieldThatIsIgnoredIsNotLostWhenItIsTakenOver(t *testing.T) {
	o := newOutsider(t)
	text := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q%s},"spec":{"replicas":%d,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	const ignore = `,"annotations":{"sluice.dev/ignore-fields":"/spec/replicas"}`
	for _, f := range formers {
		name := strings.ToLower(f.manager + "-" + string(f.operation))
		kind, query := types.ApplyPatchType, metav1.PatchOptions{FieldManager: f.manager}
		if f.operation == metav1.ManagedFieldsOperationUpdate {
			if _, err := o.kube.AppsV1().Deployments(o.home).Create(t.Context(), o.deployment(fmt.Sprintf(text, name, "", 3)), metav1.CreateOptions{FieldManager: f.manager}); err != nil {
				t.Fatal(err)
			}
		} else if _, err := o.kube.AppsV1().Deployments(o.home).Patch(t.Context(), name, kind, []byte(fmt.Sprintf(text, name, "", 3)), query); err != nil {
			t.Fatal(err)
		}
		want := func(replicas int32) {
			t.Helper()
			d, err := o.kube.AppsV1().Deployments(o.home).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || *d.Spec.Replicas != replicas {
				t.Fatalf("%s: %d replicas, want %d (%v)", name, *d.Spec.Replicas, replicas, err)
			}
		}
		r := Request{Objects: []Object{o.object(fmt.Sprintf(text, name, ignore, 5))}, App: name, Force: f.forced}
		if p := o.bring(r); !slices.Equal(p.Items[0].TakesOver, []string{f.manager}) {
			t.Fatalf("%s is not taken over: %v", f.manager, p.Items[0].TakesOver)
		}
		want(3)
		// From then on apply does not touch it.
		scale, err := o.kube.AppsV1().Deployments(o.home).GetScale(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		scale.Spec.Replicas = 7
		if _, err := o.kube.AppsV1().Deployments(o.home).UpdateScale(t.Context(), name, scale, metav1.UpdateOptions{FieldManager: "autoscaler"}); err != nil {
			t.Fatal(err)
		}
		o.bring(r)
		want(7)
	}
}

// Names of RBAC's objects may have what has a meaning in a URL. An app that has such an object can be listed, pruned and deleted.
func TestE2ENamesThatHaveAMeaningInAURL(t *testing.T) {
	o := newOutsider(t)
	names := []string{o.home + " and more", o.home + "?dryRun=All", o.home + "#1", o.home + ":a+b;c=d&e", o.home + "ü"}
	var objects []Object
	for _, name := range names {
		objects = append(objects, o.object(fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q},"rules":[]}`, name)))
	}
	objects = append(objects, o.configMap(o.home, "a"))
	o.bring(Request{Objects: objects, App: "x"})
	if p := o.bring(Request{Objects: objects, App: "x"}); p.Count(Unchanged) != len(objects) {
		t.Errorf("%d of %d are unchanged", p.Count(Unchanged), len(objects))
	}
	o.bring(Request{Objects: objects[1:], App: "x", Prune: true})
	for i, name := range names {
		if _, err := o.kube.RbacV1().ClusterRoles().Get(t.Context(), name, metav1.GetOptions{}); (i == 0) != apierrors.IsNotFound(err) {
			t.Errorf("%q after the prune: %v", name, err)
		}
	}
	if err := o.drop("x"); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, err := o.kube.RbacV1().ClusterRoles().Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%q is left over: %v", name, err)
		}
	}
}

// What Sluice itself records is no part of a source, such as one that was dumped from a namespace.
func TestE2ERecordsOfAppsAreNoPartOfASource(t *testing.T) {
	o := newOutsider(t)
	o.bring(Request{Objects: []Object{o.configMap(o.home, "a")}, App: "x"})
	record, err := o.kube.CoreV1().ConfigMaps(o.home).Get(t.Context(), "sluice-app-x", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	record.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	dumped, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	records := map[string]Object{
		"an inventory":         o.object(string(dumped)),
		"a part of one":        o.object(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"sluice-part-x","labels":{"sluice.dev/inventory-part":"x"}}}`),
		"a lock":               o.object(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"sluice-app-x"}}`),
		"the place of its own": o.object(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"sluice-app-y"}}`),
	}
	for name, object := range records {
		_, err := o.try(Request{Objects: []Object{o.configMap(o.home, "b"), object}, App: "y", Force: true})
		if err == nil || !strings.Contains(err.Error(), "leave it out of the source") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, err := o.kube.CoreV1().ConfigMaps(o.home).List(t.Context(), metav1.ListOptions{}); err != nil || slices.ContainsFunc(list.Items, func(c corev1.ConfigMap) bool { return c.Name == "b" || c.Name == "sluice-app-y" }) {
		t.Errorf("something was written: %v", err)
	}
	if now, err := o.kube.CoreV1().ConfigMaps(o.home).Get(t.Context(), "sluice-app-x", metav1.GetOptions{}); err != nil || now.ResourceVersion != record.ResourceVersion {
		t.Errorf("the record of the other app has changed: %v", err)
	}
	if list, err := o.kube.CoordinationV1().Leases(o.home).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("locks are left: %v, %v", list.Items, err)
	}
}

// What was read from a cluster says whose it was there. A copy of it is the app's that applies it, or nobody's.
func TestE2EACopyOfAnAppsObjectIsNotTheApps(t *testing.T) {
	o := newOutsider(t)
	o.bring(Request{Objects: []Object{o.configMap(o.home, "a")}, App: "x"})
	dumped, err := o.client.fetchObject(t.Context(), "/api/v1/namespaces/"+o.home+"/configmaps/a")
	if err != nil {
		t.Fatal(err)
	}
	metadataOf(dumped)["name"] = "copy"
	o.bring(Request{Objects: []Object{objectFrom(t, dumped)}})
	found, err := o.Orphans(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, orphan := range found.Objects {
		if orphan.Namespace == o.home {
			t.Errorf("%s is taken for one of app %s", orphan.ID, orphan.App)
		}
	}
	before := o.home + "-before"
	if _, err := o.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: before}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim := o.object(fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q,"annotations":{"sluice.dev/made-by":"%s/x"}}}`, before, o.home))
	o.bring(Request{Objects: []Object{claim, o.configMap(o.home, "a")}, App: "x"})
	o.bring(Request{Objects: []Object{o.configMap(o.home, "a")}, App: "x", Prune: true})
	o.bring(Request{Objects: []Object{claim, o.configMap(o.home, "a")}, App: "x"})
	if err := o.drop("x"); err != nil {
		t.Fatal(err)
	}
	if ns, err := o.kube.CoreV1().Namespaces().Get(t.Context(), before, metav1.GetOptions{}); err != nil || ns.DeletionTimestamp != nil {
		t.Errorf("a namespace that was there before is gone, because the source said that the app has made it: %v", err)
	}
}

// What another applier has left may contradict the manifest until it is taken over. That is no reason to refuse it, and the difference is
// told as it will be.
func TestE2EWhatIsTakenOverMayContradictWhatIsThere(t *testing.T) {
	o := newOutsider(t)
	deployment := func(probe, volume string) string {
		return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
"spec":{"volumes":[{"name":"v",` + volume + `}],"containers":[{"name":"c","image":"i","livenessProbe":{` + probe + `},"volumeMounts":[{"name":"v","mountPath":"/v"}]}]}}}}`
	}
	service := func(port string) string {
		return `{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"},"spec":{"selector":{"a":"b"},"ports":[{"name":"p","port":80},{"name":"q","port":` + port + `}]}}`
	}
	for name, texts := range map[string][2]string{
		"the way of a probe":   {deployment(`"httpGet":{"port":80,"path":"/"}`, `"emptyDir":{}`), deployment(`"tcpSocket":{"port":80}`, `"emptyDir":{}`)},
		"the kind of a volume": {deployment(`"tcpSocket":{"port":80}`, `"configMap":{"name":"x"}`), deployment(`"tcpSocket":{"port":80}`, `"emptyDir":{}`)},
		"the number of a port": {service("81"), service("82")},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutsider(t)
			source := o.object(texts[1])
			mapping, err := o.mapper.findMapping(t.Context(), source.GVK(), nil)
			if err != nil {
				t.Fatal(err)
			}
			path := listPath(source.Group, source.Version, mapping.resource, o.home)
			query := url.Values{"fieldManager": {"kubectl-client-side-apply"}}
			if _, err := o.client.sendWithRetries(t.Context(), request{verb: http.MethodPost, path: path, query: query, body: []byte(texts[0])}); err != nil {
				t.Fatal(err)
			}
			r := Request{Objects: []Object{source}, App: "x"}
			p, err := o.Plan(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			told, err := o.Try(t.Context(), p, TryOptions{Contents: true})
			if err != nil {
				t.Fatal(err)
			}
			if p = o.bring(r); len(p.Untried) != 1 || p.Untried[0].Reason != takenOverNote {
				t.Errorf("untried: %v", p.Untried)
			}
			live, err := o.client.fetchObject(t.Context(), path+"/x")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(yamlTextOf(withoutServerFields(live)), told[0].After); diff != "" {
				t.Errorf("the difference is not what was told: %s", diff)
			}
			if p = o.bring(r); p.Items[0].Action != Unchanged {
				t.Errorf("once more: %s", p.Items[0].Action)
			}
		})
	}
	// What the manifest itself has wrong is refused before the first write, as ever.
	if _, err := o.client.sendWithRetries(t.Context(), request{
		verb: http.MethodPost, path: "/api/v1/namespaces/" + o.home + "/services", query: url.Values{"fieldManager": {"kubectl-client-side-apply"}}, body: []byte(service("81")),
	}); err != nil {
		t.Fatal(err)
	}
	p, err := o.try(Request{Objects: []Object{o.object(service("0"))}, App: "x"})
	if !apierrors.IsInvalid(err) || p.inventory.resourceVersion != "" {
		t.Errorf("%v", err)
	}
}
