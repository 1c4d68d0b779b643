package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/memory"
	"github.com/chromedp/cdproto/runtime"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/api/v1alpha1"
	"sluice.dev/tools/clustertest"
)

var (
	requestsResource   = v1beta1.SchemeGroupVersion.WithResource("resolutionrequests")
	deliveriesResource = v1alpha1.SchemeGroupVersion.WithResource("deliveries")
	featuresResource   = v1alpha1.SchemeGroupVersion.WithResource("features")
	componentsResource = v1alpha1.SchemeGroupVersion.WithResource("components")
)

// place is a cluster with something to see.
type place struct {
	*clustertest.Cluster

	t      testing.TB
	client dynamic.Interface
}

// filled is the cluster of all tests, with the kinds of Sluice and some objects of each.
func filled(t testing.TB) *place {
	t.Helper()
	c := &place{Cluster: shared.Get(t), t: t}
	var err error
	if c.client, err = dynamic.NewForConfig(c.Config()); err != nil {
		t.Fatal(err)
	}
	once.Do(func() { c.fill() })
	return c
}

var once sync.Once

func (c *place) fill() {
	c.t.Helper()
	out, err := exec.Command(sluice(c.t), "manifests", "--roles=all", "--image", "example.test/sluice").Output()
	if err != nil {
		c.t.Fatal(err)
	}
	var crds []string
	for _, doc := range strings.Split(string(out), "\n---\n") {
		if strings.Contains(doc, "\nkind: CustomResourceDefinition\n") || strings.HasPrefix(doc, "kind: CustomResourceDefinition\n") {
			crds = append(crds, doc)
		}
	}
	c.apply(strings.Join(crds, "\n---\n") + "\n---\n" + read(c.t, "examples/operator/config/crd.yaml"))
	for _, ns := range []string{"pages-system", "team-a", "team-b"} {
		c.apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + ns + "}}")
	}
	c.apply("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: pages-system, name: feature-flags}, data: {banner: \"true\"}}")
	c.apply(read(c.t, "examples/operator/config/features.yaml"))
	ago := func(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }
	for i, d := range []struct{ ns, name, reason, status, message string }{
		{"team-a", "shop", "Blocked", "False", "preflights stop revision sha1:9f3c21aa: 1 finding fails"},
		{"team-a", "billing", "Delivered", "True", "12 objects of sha1:51c0de77 are delivered"},
		{"team-b", "search", "Resolving", "Unknown", "the source is being fetched"},
	} {
		status := map[string]any{
			"observedGeneration": int64(1),
			"conditions":         []any{map[string]any{"type": "Ready", "status": d.status, "reason": d.reason, "message": d.message, "lastTransitionTime": ago(time.Duration(i+1) * 37 * time.Minute)}},
		}
		if d.reason == "Blocked" {
			status["report"] = map[string]any{"fail": int64(1), "warn": int64(0), "undecided": int64(0), "notes": int64(0), "configMap": "shop-report", "worst": []any{map[string]any{
				"rule": "property-removed", "level": "data-lost", "severity": "fail", "crd": "orders.shop.example.com", "version": "v1", "path": ".spec.coupon", "message": `property "coupon" is gone, so its value is pruned`,
			}}}
			status["applied"] = map[string]any{"revision": "sha1:41ab7c02", "digest": "sha256:00"}
		}
		c.create(deliveriesResource, d.ns, d.name, map[string]any{"source": map[string]any{"url": "git+https://git.example.com/" + d.name + ".git//deploy?ref=main"}}, status)
	}
	for i, r := range []struct{ ns, name, resolver, status, reason, message string }{
		{"team-a", "build-pipeline-7d1f", "git", "True", "", ""},
		{"team-a", "build-pipeline-82ac", "git", "False", "NotFound", "git: there is no file ci/pipeline.yaml in revision main of https://git.example.com/catalog.git"},
		{"team-a", "lint-task-1c9e", "bundles", "Unknown", "", "the resolver has 3 requests before this one"},
		{"team-b", "deploy-5b0a", "http", "False", "RemoteUnavailable", "https://files.example.com answers 503"},
		{"team-b", "deploy-77fe", "http", "True", "", ""},
	} {
		c.request(r.ns, r.name, r.resolver, r.status, r.reason, r.message, time.Duration(i)*2*time.Second)
	}
	c.event("orders.shop.example.com", "UnsafeUpgradeRefused", "update by alice refused because of 1 failing finding: property-removed at v1 .spec.coupon", 3)
	c.event("invoices.shop.example.com", "UnsafeUpgradeAllowed", "update by bob let through although 1 finding fails. Reason given: nobody used the field", 1)
}

func (c *place) apply(manifest string) {
	c.t.Helper()
	clustertest.Eventually(c.t, "an apply", func(context.Context) error {
		_, errs, err := c.Kubectl(c.t, manifest, "apply", "--server-side", "-f", "-")
		if err != nil {
			return fmt.Errorf("%w: %s", err, errs)
		}
		return nil
	})
}

// create creates an object, and gives it a status.
func (c *place) create(r schema.GroupVersionResource, namespace, name string, spec, status map[string]any, labels ...string) {
	c.t.Helper()
	kind := map[string]string{"deliveries": "Delivery", "resolutionrequests": "ResolutionRequest", "features": "Feature", "components": "Component"}[r.Resource]
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": r.GroupVersion().String(), "kind": kind, "spec": spec}}
	u.SetName(name)
	u.SetNamespace(namespace)
	if len(labels) == 2 {
		u.SetLabels(map[string]string{labels[0]: labels[1]})
	}
	to := dynamic.ResourceInterface(c.client.Resource(r))
	if namespace != "" {
		to = c.client.Resource(r).Namespace(namespace)
	}
	clustertest.Eventually(c.t, "the "+kind+" "+name, func(ctx context.Context) error {
		_, err := to.Create(ctx, u, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			err = nil
		}
		return err
	})
	if status == nil {
		return
	}
	patch, _ := json.Marshal(map[string]any{"status": status})
	if _, err := to.Patch(c.t.Context(), name, "application/merge-patch+json", patch, metav1.PatchOptions{}, "status"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *place) request(namespace, name, resolver, status, reason, message string, took time.Duration) {
	c.t.Helper()
	condition := map[string]any{"type": "Succeeded", "status": status, "message": message, "lastTransitionTime": time.Now().Add(took).UTC().Format(time.RFC3339)}
	st := map[string]any{"conditions": []any{condition}, "data": "", "source": nil, "refSource": nil}
	switch status {
	case "False":
		condition["reason"] = "ResolutionFailed"
		st["annotations"] = map[string]any{"sluice.dev/reason": reason}
	case "True":
		st["data"] = "YXBpVmVyc2lvbjogdGVrdG9uLmRldi92MQo="
		st["refSource"] = map[string]any{"uri": "git+https://git.example.com/catalog.git", "digest": map[string]any{"sha1": "51c0de7751c0de7751c0de7751c0de7751c0de77"}, "entryPoint": "ci/pipeline.yaml"}
	}
	c.create(requestsResource, namespace, name, map[string]any{"params": []any{map[string]any{"name": "url", "value": "https://git.example.com/catalog.git"}}}, st, "resolution.tekton.dev/type", resolver)
}

func (c *place) removeRequest(namespace, request string) {
	c.t.Helper()
	if err := c.client.Resource(requestsResource).Namespace(namespace).Delete(c.t.Context(), request, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *place) event(crd, reason, message string, count int32) {
	c.t.Helper()
	kube, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		c.t.Fatal(err)
	}
	now := metav1.Now()
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: strings.ReplaceAll(crd, ".", "-"), Namespace: "default"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: crd},
		Reason:         reason, Message: message, Type: "Warning", FirstTimestamp: metav1.NewTime(now.Add(-20 * time.Minute)), LastTimestamp: now, Count: count,
	}
	if _, err := kube.CoreV1().Events("default").Create(c.t.Context(), e, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		c.t.Fatal(err)
	}
}

func TestPagesShowTheCluster(t *testing.T) {
	c := filled(t)
	s := serve(t, t.TempDir(), c.Kubeconfig)
	p := s.enter(t, wide, "/features")
	p.has("Banner")
	p.has("pages-system/feature-flags")
	if got := eval[string](p, "[...document.querySelectorAll('.rows tbody tr')].find(r => r.innerText.startsWith('Banner')).innerText"); !strings.Contains(got, "Alpha") || !strings.Contains(got, "Beta") || !strings.Contains(got, "on") {
		t.Errorf("the row of Banner: %q", got)
	}
	// A filter changes the rows and the address.
	p.write("[name=words]", "markd")
	p.until("document.querySelectorAll('.rows tbody tr').length === 1 && location.search === '?words=markd'")
	p.write("[name=words]", "")
	p.until("document.querySelectorAll('.rows tbody tr').length > 1")
	p.click(".rows a[href$='banner']")
	p.has("A page may have a banner")
	p.has("sluice features disable pages.banner")
	p.has("sluice features promote Banner --to beta")
	p.accessible("a feature")
	p.click("main form button")
	p.has("0 objects of 0")
	p.open("http://" + s.host + "/upgrades")
	p.has("team-a/shop")
	if got := eval[string](p, "document.querySelector('.rows tbody tr').innerText"); !strings.Contains(got, "Blocked") || !strings.Contains(got, "property-removed") || !strings.Contains(got, "orders.shop.example.com .spec.coupon") {
		t.Errorf("the first row: %q", got)
	}
	p.has("update by alice refused")
	p.accessible("upgrades")
	p.click("a[href='/upgrades/team-a/shop']")
	p.has("1 finding fails")
	p.accessible("a delivery")
	p.click("a[href='/check?example=property-removed']")
	p.verdict("Fail")

	p.open("http://" + s.host + "/requests")
	p.has("build-pipeline-82ac")
	p.accessible("requests")
	p.write("[name=phase]", "Failed")
	p.until("[...document.querySelectorAll('section:last-of-type .badge')].every(b => b.textContent === 'Failed')")
	p.click("a[href='/requests/team-b/deploy-5b0a']")
	p.has("https://files.example.com answers 503")
	p.until("document.querySelectorAll('.line li').length >= 2")
	p.accessible("a request")

	for _, page := range []string{"/features", "/features/pages.banner", "/upgrades", "/upgrades/team-a/shop", "/requests", "/requests/team-a/build-pipeline-7d1f", "/check"} {
		for name, l := range map[string]look{"narrow": narrow, "dark": dark} {
			t.Run(name+page, func(t *testing.T) { // its tab closes at the end: a browser has six connections to a host, and a page that follows changes keeps one
				s.enter(t, l, page).accessible(page + ", " + name)
			})
		}
	}
	p.open("about:blank")
	s.end(t)
}

// TestAPageFollowsAllOfItsText changes a feature and deletes it while its page is open.
func TestAPageFollowsAllOfItsText(t *testing.T) {
	c := filled(t)
	c.create(featuresResource, "", "pages.passing", map[string]any{
		"component": "pages", "gate": "Passing", "description": "before", "stages": []any{map[string]any{"stage": "Alpha", "release": "v1.1.0", "date": "2026-01-31"}},
	}, nil)
	s := serve(t, t.TempDir(), c.Kubeconfig)
	p := s.enter(t, wide, "/features/pages.passing")
	p.until("document.querySelector('main h1 + p').textContent === 'before'")
	chosen := eval[string](p, "getSelection().selectAllChildren(document.querySelector('main h1')); document.querySelector('main pre').focus(); getSelection().toString()")
	if _, err := c.client.Resource(featuresResource).Patch(t.Context(), "pages.passing", "application/merge-patch+json", []byte(`{"spec": {"description": "after"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	p.until("document.querySelector('main h1 + p').textContent === 'after'")
	if got := eval[[]string](p, "[document.activeElement.tagName, getSelection().toString()]"); got[0] != "PRE" || got[1] != chosen {
		t.Errorf("focus and selection are %q, and %q was selected", got, chosen)
	}
	if err := c.client.Resource(featuresResource).Delete(t.Context(), "pages.passing", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.has("There is no feature")
	if got := eval[[]string](p, "[...document.querySelectorAll('h1')].map(h => h.textContent)"); len(got) != 1 || got[0] != "Feature" {
		t.Errorf("headings: %q", got)
	}
}

// forwardTo passes connections on to the cluster until it is told to stop. Its kubeconfig leads through it.
func (c *place) forwardTo(address string) (at string, stop func()) {
	c.t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		c.t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", strings.TrimPrefix(c.Server, "https://"))
			if err != nil {
				_ = from.Close()
				continue
			}
			mu.Lock()
			open = append(open, from, to)
			mu.Unlock()
			go func() { _, _ = io.Copy(to, from) }()
			go func() { _, _ = io.Copy(from, to) }()
		}
	}()
	return l.Addr().String(), func() {
		_ = l.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, o := range open {
			_ = o.Close()
		}
	}
}

// TestAClusterGoesAwayAndComesBack has pages say that what they show is old.
func TestAClusterGoesAwayAndComesBack(t *testing.T) {
	c := filled(t)
	at, stop := c.forwardTo("127.0.0.1:0")
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range config.Clusters {
		x.Server = "https://" + at
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	s := serve(t, t.TempDir(), file)
	list, one := s.enter(t, wide, "/requests"), s.enter(t, wide, "/upgrades/team-a/shop")
	list.has("build-pipeline-82ac")
	one.has("1 finding fails")
	stop()
	for _, p := range []*tab{list, one} {
		p.has("(what is shown was read before)")
	}
	list.has("build-pipeline-82ac")
	_, stop = c.forwardTo(at)
	defer stop()
	for _, p := range []*tab{list, one} {
		p.until("!document.body.innerText.includes('read before')")
	}
}

// TestALongLookDoesNotGrow lets requests come and change while a page is open.
// longLook is how long a tab is looked at: not at all by default, and as SLUICE_LOOK says (1h) before a release.
func longLook() time.Duration {
	d, _ := time.ParseDuration(os.Getenv("SLUICE_LOOK"))
	return d
}

// held is what a tab holds after the garbage is collected. The heap is in bytes.
type held struct{ elements, nodes, documents, listeners, heap int64 }

func (p *tab) heldMemory() held {
	p.t.Helper()
	command(p, heapprofiler.CollectGarbage, cdp.Empty{})
	dom := command(p, memory.GetDOMCounters, cdp.Empty{})
	return held{eval[int64](p, "document.querySelectorAll('*').length"), dom.Nodes, dom.Documents, dom.JsEventListeners, int64(command(p, runtime.GetHeapUsage, cdp.Empty{}).UsedSize)}
}

// TestALongLookDoesNotGrow opens the page of requests while requests come and change: the page follows, is never loaded again, and holds
// no more at the end than after the first changes.
func TestALongLookDoesNotGrow(t *testing.T) {
	c := filled(t)
	s := serve(t, t.TempDir(), c.Kubeconfig)
	p := s.enter(t, wide, "/requests?words=coming")
	p.has("By resolver and namespace")
	const many = 120
	var before held
	for i := range many {
		c.request("team-a", fmt.Sprintf("coming-%03d", i), "git", "True", "", "", 0)
		if i == 60 { // the rows of a page are full
			p.until("document.querySelectorAll('section:last-of-type tbody tr').length === 50")
			eval[bool](p, "window.stays = true; true")
		}
	}
	begun, rounds := time.Now(), 0
	for told := begun; rounds < 8 || time.Since(begun) < longLook(); rounds++ {
		if rounds == 2 { // the page has shown all that it will show
			before = p.heldMemory()
		}
		message := fmt.Sprintf("there is no file number %d", rounds)
		c.request("team-a", fmt.Sprintf("coming-0-%d", rounds), "git", "False", "NotFound", message, time.Second)
		p.has(message)
		c.removeRequest("team-a", fmt.Sprintf("coming-0-%d", rounds))
		if time.Since(told) > 5*time.Minute {
			told = time.Now()
			t.Logf("after %s and %d changes: %+v, sluice ui %s, %s", time.Since(begun).Round(time.Second), rounds, p.heldMemory(), s.memoryUse(t), s.work(t))
		}
	}
	after := p.heldMemory()
	t.Logf("%+v before, %+v after %d changes in %s", before, after, rounds, time.Since(begun).Round(time.Second))
	if !eval[bool](p, "window.stays === true") {
		t.Error("the page was loaded again")
	}
	near := func(a, b, share int64) bool { return b <= a+max(a/share, 10) }
	if !near(before.elements, after.elements, 1000) || !near(before.nodes, after.nodes, 5) || !near(before.documents, after.documents, 5) || !near(before.listeners, after.listeners, 5) || !near(before.heap, after.heap, 2) {
		t.Errorf("the tab holds %+v, and held %+v", after, before)
	}
	p.click(".pages a:last-of-type")
	p.has(fmt.Sprintf("51 to 100 of %d", many))
	c.removeRequest("team-a", "coming-000")
	p.has(fmt.Sprintf("of %d", many-1))
}

// TestAUserOfOneNamespaceSeesOnlyThat opens the pages as a user with rights in one namespace.
func TestAUserOfOneNamespaceSeesOnlyThat(t *testing.T) {
	c := filled(t)
	kube, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "reader", Namespace: "team-b"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"sluice.dev", "resolution.tekton.dev"}, Resources: []string{"deliveries", "resolutionrequests"}, Verbs: []string{"get", "list", "watch"},
	}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader", Namespace: "team-b"}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "bella"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
	}
	if _, err := kube.RbacV1().Roles("team-b").Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.RbacV1().RoleBindings("team-b").Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range config.Contexts {
		x.Namespace = "team-b"
	}
	for _, u := range config.AuthInfos {
		u.Impersonate = "bella"
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	s := serve(t, t.TempDir(), file)
	p := s.enter(t, wide, "/requests")
	p.has("Only namespace team-b")
	p.has("deploy-5b0a")
	p.open("http://" + s.host + "/upgrades")
	p.has("team-b/search")
	p.has("Only namespace team-b")
	p.has("You may not list and watch this")
	p.open("http://" + s.host + "/features")
	p.has("You may not list and watch this")
	for _, page := range []string{"/requests", "/upgrades", "/features", "/requests/team-a/build-pipeline-7d1f", "/upgrades/team-a/shop", "/features/pages.banner"} {
		p.open("http://" + s.host + page)
		if text := eval[string](p, "document.body.innerText"); strings.Contains(text, "team-a/") && !strings.Contains(page, "team-a") || strings.Contains(text, "catalog.git") || strings.Contains(text, "coupon") {
			t.Errorf("%s shows what the user may not see:\n%s", page, text)
		}
	}
	p.open("http://" + s.host + "/check?old=cluster:deliveries.sluice.dev&new=cluster:deliveries.sluice.dev")
	p.verdict("Not compared")
}

// TestManyObjectsAreSeenAtOnce measures the first view of a cluster with many objects.
func TestManyObjectsAreSeenAtOnce(t *testing.T) {
	c := filled(t)
	share := 10
	if os.Getenv("SLUICE_ROUNDS") == "1" {
		share = 1
	}
	c.apply("{apiVersion: v1, kind: Namespace, metadata: {name: many}}")
	atOnce(10_000/share, func(i int) {
		c.request("many", fmt.Sprintf("many-%05d", i), []string{"git", "http", "bundles"}[i%3], []string{"True", "True", "False"}[i/3%3], "NotFound", "there is no such file", time.Second)
	})
	atOnce(200/share, func(i int) {
		c.create(deliveriesResource, "many", fmt.Sprintf("many-%03d", i), map[string]any{"source": map[string]any{"url": "oci://registry.example.com/app:v1"}}, nil)
	})
	c.create(componentsResource, "", "sizes", map[string]any{"release": "v1.2.0"}, nil)
	atOnce(500/share, func(i int) {
		c.create(featuresResource, "", fmt.Sprintf("sizes.part%03d", i), map[string]any{
			"component": "sizes", "gate": fmt.Sprintf("Part%03d", i), "stages": []any{map[string]any{"stage": "Alpha", "release": "v1.1.0", "date": "2026-01-31"}},
		}, nil)
	})
	s := serve(t, t.TempDir(), c.Kubeconfig)
	for page, text := range map[string]string{"/requests": "By resolver and namespace", "/upgrades": "many/many-000", "/features": "Part000"} {
		p := s.enter(t, wide, "/check")
		begun := time.Now()
		p.open("http://" + s.host + page)
		first := time.Since(begun)
		p.has(text)
		p.until("!document.body.innerText.includes('so far')")
		t.Logf("%s: the page is there after %s, all of it after %s, %s so far; %d elements", page, first.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond), s.work(t), eval[int](p, "document.querySelectorAll('*').length"))
		begun = time.Now()
		p.open("http://" + s.host + page)
		t.Logf("%s, again: %s", page, time.Since(begun).Round(time.Millisecond))
	}
	t.Logf("sluice ui: %s", s.memoryUse(t))
}

// atOnce calls f for the numbers below n, eight at a time.
func atOnce(n int, f func(int)) {
	var wg sync.WaitGroup
	room := make(chan struct{}, 8)
	for i := range n {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			f(i)
		})
	}
	wg.Wait()
}
