//go:build e2e

package resolution

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/client/versioned"
	"sluice.dev/resolve"
	"sluice.dev/tools/clustertest"
)

// wire counts the calls of a process by method and resource, and those that the API server did not carry out, with its
// status code; it can be cut.
type wire struct {
	next  http.RoundTripper
	cut   atomic.Bool
	mu    sync.Mutex
	calls map[string]int
	// writing is how many status writes are under way, most how many were.
	writing, most int
	// namespace is the one whose calls count, besides those for no namespace; empty: all of them.
	namespace string
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.cut.Load() {
		return nil, errors.New("the process is dead")
	}
	w.mu.Lock()
	what := r.Method + " other"
	for _, resource := range []string{"resolutionrequests", "leases", "events", "configmaps"} {
		if strings.Contains(r.URL.Path, "/"+resource) {
			what = r.Method + " " + resource
		}
	}
	if w.namespace != "" && strings.Contains(r.URL.Path, "/namespaces/") && !strings.Contains(r.URL.Path, "/namespaces/"+w.namespace+"/") {
		what = "elsewhere"
	}
	w.calls[what]++
	write := strings.HasSuffix(r.URL.Path, "/status")
	if write {
		w.writing++
		w.most = max(w.most, w.writing)
	}
	w.mu.Unlock()
	res, err := w.next.RoundTrip(r)
	if write {
		w.mu.Lock()
		w.writing--
		w.mu.Unlock()
	}
	if err == nil && res.StatusCode >= http.StatusBadRequest {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.calls[fmt.Sprintf("%s: %d", what, res.StatusCode)]++
		if res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= http.StatusInternalServerError {
			w.calls[what+", come again"]++
		}
	}
	return res, err
}

// countIn counts the writes for this namespace only, from now on: what other tests have left unfinished is taken up as well.
func (w *wire) countIn(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.namespace = namespace
	maps.DeleteFunc(w.calls, func(what string, _ int) bool { return strings.HasPrefix(what, http.MethodPatch) })
}

func (w *wire) count(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[what]
}

func wired(cfg *rest.Config) (*rest.Config, *wire) {
	w := &wire{calls: map[string]int{}}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { w.next = next; return w })
	return cfg, w
}

// process is an adapter for the resolver git, or a lifecycle controller, under its own ServiceAccount.
type process struct {
	*wire
	cancel context.CancelFunc
	ended  sync.WaitGroup
	*Members
}

// stop ends it in order.
func (p *process) stop() {
	p.cancel()
	p.ended.Wait()
}

// kill ends it as SIGKILL does: nothing that it writes afterwards arrives, its Lease stays.
func (p *process) kill() {
	p.cut.Store(true)
	p.stop()
}

type resolveFunc func(ctx context.Context, r *resolve.Request) (*resolve.Resource, error)

func (f resolveFunc) Hold(ctx context.Context, r *resolve.Request) (*resolve.Resource, *resolve.Reservation, error) {
	res, err := f(ctx, r)
	return res, nil, err
}

// echo answers with the parameter text.
func echo(_ context.Context, r *resolve.Request) (*resolve.Resource, error) {
	return &resolve.Resource{
		Data: []byte(r.Params["text"].String), Annotations: map[string]string{resolve.AnnotationContentType: resolve.ContentTypeYAML},
		Source: resolve.Source{URI: "echo:", Digest: map[string]string{"sha1": "00"}, EntryPoint: r.Name},
	}, nil
}

func start(t *testing.T, cfg *rest.Config, role string, members bool, run func(ctx context.Context, c *versioned.Clientset, k *kubernetes.Clientset, m *Members, ready func()) error) *process {
	t.Helper()
	cfg, w := wired(cfg)
	c, k := client(t, cfg), kubernetes.NewForConfigOrDie(cfg)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &process{wire: w, cancel: cancel}
	var m *Members
	if members {
		m = &Members{Kube: k, Namespace: "sluice-system", ID: "m" + fmt.Sprint(serial.Add(1)), Roles: []string{role}, Clock: clock.RealClock{}, Log: quiet}
		if err := m.Join(ctx); err != nil {
			t.Fatal(err)
		}
		p.ended.Go(func() { m.Run(ctx) })
	}
	p.Members = m
	ready := make(chan struct{})
	p.ended.Go(func() {
		if err := run(ctx, c, k, m, func() { close(ready) }); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(p.stop)
	select {
	case <-ready:
	case <-time.After(clustertest.Patience):
		t.Fatal("it does not become ready")
	}
	return p
}

var (
	serial atomic.Int64
	quiet  = slog.New(slog.DiscardHandler)
)

func (in *installation) adapter(t *testing.T, members bool, f resolveFunc) *process {
	t.Helper()
	return start(t, in.account(t, "sluice-system", "sluice-resolver-git"), Role("git"), members,
		func(ctx context.Context, c *versioned.Clientset, k *kubernetes.Clientset, m *Members, ready func()) error {
			a := &Adapter{
				Client: c, Kube: k, Members: m, Resolvers: map[string]Resolver{"git": f}, Namespace: "sluice-system", Account: "sluice-resolver-git",
				Timeout: &Timeout{}, Metrics: NewMetrics(prometheus.NewRegistry()), Recorder: &record.FakeRecorder{}, Log: quiet, Clock: clock.RealClock{},
			}
			return a.Run(ctx, ready)
		})
}

func (in *installation) lifecycle(t *testing.T, ttl time.Duration) *process {
	t.Helper()
	return start(t, in.account(t, "sluice-system", "sluice-resolution"), LifecycleRole, false,
		func(ctx context.Context, c *versioned.Clientset, _ *kubernetes.Clientset, m *Members, ready func()) error {
			l := &Lifecycle{
				Client: c, Members: m, Timeout: &Timeout{}, TTL: ttl,
				Metrics: NewMetrics(prometheus.NewRegistry()), Recorder: &record.FakeRecorder{}, Log: quiet, Clock: clock.RealClock{},
			}
			return l.Run(ctx, ready)
		})
}

func text(s string) v1beta1.Param {
	return v1beta1.Param{Name: "text", Value: v1beta1.StringValue(s)}
}

// create creates n requests at once.
func (in *installation) create(t *testing.T, ns string, n int) {
	t.Helper()
	c := client(t, in.config)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				r := request(ns, fmt.Sprintf("r%d", i), "git", text(fmt.Sprint("content ", i)))
				if _, err := c.ResolutionV1beta1().ResolutionRequests(ns).Create(t.Context(), r, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// succeededAll waits until the n requests of the namespace have succeeded with their content.
func (in *installation) succeededAll(t *testing.T, ns string, n int) {
	t.Helper()
	c := client(t, in.config)
	eventually(t, "all to succeed", func(ctx context.Context) error {
		list, err := c.ResolutionV1beta1().ResolutionRequests(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != n {
			return fmt.Errorf("%d requests of %d", len(list.Items), n)
		}
		for i := range list.Items {
			r := &list.Items[i]
			if !r.Status.Finished() {
				return fmt.Errorf("%s is unfinished: %+v", r.Name, r.Status)
			}
			want := base64.StdEncoding.EncodeToString([]byte("content " + strings.TrimPrefix(r.Name, "r")))
			if r.Status.Data != want || r.Status.Succeeded().Status != metav1.ConditionTrue || r.Status.ObservedGeneration != r.Generation {
				t.Fatalf("%s: %+v", r.Name, r.Status)
			}
		}
		return nil
	})
}

func TestE2ETwoHundredAtOnceSucceedWithOneWriteEach(t *testing.T) {
	in := install(t)
	ns := in.namespace(t)
	a, l := in.adapter(t, false, echo), in.lifecycle(t, -1)
	a.countIn(ns)
	l.countIn(ns)
	began := time.Now()
	in.create(t, ns, 200)
	in.succeededAll(t, ns, 200)
	t.Logf("200 requests in %s; the resolver's calls %v, the lifecycle controller's %v", time.Since(began), a.calls, l.calls)
	patches, gets := a.count("PATCH resolutionrequests"), a.count("GET resolutionrequests")
	// A patch more for each that the lifecycle controller has marked in the very moment, or that the API server was too busy
	// for. Few lists and watches, however many requests there are: the API server ends a watch whenever a test beside changes the CRD.
	again := a.count("PATCH resolutionrequests, come again")
	if marked := l.count("PATCH resolutionrequests"); patches > 200+marked+again || gets > 20+marked+again || marked > 100 || again > 20 {
		t.Errorf("the resolver wrote %d times and read %d times, the lifecycle controller wrote %d times", patches, gets, marked)
	}
	got, err := client(t, in.config).ResolutionV1beta1().ResolutionRequests(ns).Get(t.Context(), "r7", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	origin := &v1beta1.RefSource{URI: "echo:", Digest: map[string]string{"sha1": "00"}, EntryPoint: "r7"}
	want := v1beta1.ResolutionRequestStatus{
		ObservedGeneration: 1, Data: base64.StdEncoding.EncodeToString([]byte("content 7")), Source: origin, RefSource: origin,
		Conditions:  []v1beta1.Condition{{Type: "Succeeded", Status: "True", LastTransitionTime: got.Status.Conditions[0].LastTransitionTime}},
		Annotations: map[string]string{"resolution.tekton.dev/content-type": "application/x-yaml"},
	}
	if diff := cmp.Diff(want, got.Status); diff != "" {
		t.Error(diff)
	}
}

// Results that come all at once leave room for the renewal of the Lease.
func TestE2EAWaveOfResultsIsWrittenAFewAtATime(t *testing.T) {
	in := install(t)
	ns := in.namespace(t)
	var waiting atomic.Int64
	open := make(chan struct{})
	a := in.adapter(t, false, func(ctx context.Context, r *resolve.Request) (*resolve.Resource, error) {
		if r.Namespace == ns && waiting.Add(1) == 200 {
			close(open)
		}
		select {
		case <-open:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return echo(ctx, r)
	})
	in.create(t, ns, 200)
	in.succeededAll(t, ns, 200)
	a.wire.mu.Lock()
	defer a.wire.mu.Unlock()
	if a.most < 2 || a.most > 64 {
		t.Errorf("%d writes were under way at once", a.most)
	}
}

func TestE2EDeletionCancelsTheWork(t *testing.T) {
	in := install(t)
	ns := in.namespace(t)
	begun, ended := make(chan struct{}), make(chan error, 1)
	in.adapter(t, false, func(ctx context.Context, _ *resolve.Request) (*resolve.Resource, error) {
		close(begun)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	in.create(t, ns, 1)
	<-begun
	if err := client(t, in.config).ResolutionV1beta1().ResolutionRequests(ns).Delete(t.Context(), "r0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, errGone) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on")
	}
}

func TestE2EAKilledProcessLosesNothing(t *testing.T) {
	in := install(t)
	ns := in.namespace(t)
	var n atomic.Int64
	half := make(chan struct{})
	first := in.adapter(t, true, func(ctx context.Context, r *resolve.Request) (*resolve.Resource, error) {
		switch i := n.Add(1); {
		case i == 50:
			close(half)
			fallthrough
		case i > 50:
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return echo(ctx, r)
	})
	in.create(t, ns, 100)
	<-half
	first.kill()
	in.adapter(t, true, echo)
	in.succeededAll(t, ns, 100)
}

func TestE2ETwoReplicasShareAndOneTakesOver(t *testing.T) {
	in := install(t)
	ns := in.namespace(t)
	var mu sync.Mutex
	by := map[string][]string{}
	resolver := func(name string) resolveFunc {
		return func(ctx context.Context, r *resolve.Request) (*resolve.Resource, error) {
			mu.Lock()
			by[name] = append(by[name], r.Name)
			mu.Unlock()
			return echo(ctx, r)
		}
	}
	one, two := in.adapter(t, true, resolver("one")), in.adapter(t, true, resolver("two"))
	eventually(t, "both to know of each other", func(context.Context) error {
		if n, m := one.Count(Role("git")), two.Count(Role("git")); n != 2 || m != 2 {
			return fmt.Errorf("they count %d and %d", n, m)
		}
		return nil
	})
	in.create(t, ns, 100)
	in.succeededAll(t, ns, 100)
	mu.Lock()
	names := slices.Concat(by["one"], by["two"])
	t.Logf("%d and %d", len(by["one"]), len(by["two"]))
	if len(by["one"]) < 20 || len(by["two"]) < 20 || len(names) != 100 {
		t.Errorf("the replicas resolved %d and %d of 100", len(by["one"]), len(by["two"]))
	}
	by = map[string][]string{}
	mu.Unlock()

	one.kill()
	other := in.namespace(t)
	in.create(t, other, 100)
	in.succeededAll(t, other, 100)
}

func TestE2EFailuresSayWhy(t *testing.T) {
	in := install(t)
	ns := in.namespace(t)
	in.lifecycle(t, -1)
	in.adapter(t, false, func(ctx context.Context, r *resolve.Request) (*resolve.Resource, error) {
		switch r.Params["text"].String {
		case "missing":
			return nil, resolve.Errorf(resolve.ReasonNotFound, "no such\nfile 100%%")
		case "big":
			return &resolve.Resource{Data: make([]byte, DefaultMaxData+1)}, nil
		case "largest", "crowded":
			return &resolve.Resource{Data: make([]byte, DefaultMaxData)}, nil
		case "panic":
			panic("a resolver's mistake")
		case "secret":
			_, err := r.Secrets.Secret(ctx, r.Namespace, "token")
			return nil, err
		case "nothing":
			return nil, nil
		case "long":
			return nil, resolve.Errorf(resolve.ReasonNotFound, "all %d bytes arrived", len(r.Params["more"].String))
		case "hang":
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return echo(ctx, r)
	})
	c := client(t, in.config).ResolutionV1beta1().ResolutionRequests(ns)
	for name, test := range map[string]struct {
		status          metav1.ConditionStatus
		reason, message string
		exact           resolve.Reason
	}{
		"missing": {"False", "ResolutionFailed", "NotFound: no such; file 100%", resolve.ReasonNotFound},
		"big":     {"False", "ResolutionFailed", "ContentTooLarge: the content has 1048577 bytes, over the limit of 1048576 bytes", resolve.ReasonTooLarge},
		"largest": {"True", "", "", ""},
		"crowded": {"False", "ResolutionFailed", "ContentTooLarge: the API server refuses to store the content of 1048576 bytes", resolve.ReasonTooLarge},
		"panic":   {"False", "ResolutionFailed", "has a defect", resolve.ReasonFailed},
		"nothing": {"False", "ResolutionFailed", "has a defect", resolve.ReasonFailed},
		"long":    {"False", "ResolutionFailed", "NotFound: all 60000 bytes arrived", resolve.ReasonNotFound},
		"secret":  {"False", "ResolutionFailed", "kubectl create rolebinding sluice-resolver-git-credentials --namespace=" + ns, resolve.ReasonDenied},
		"hang":    {"False", "ResolutionTimedOut", "not resolved within 3s of its creation", resolve.ReasonTimedOut},
		"nobody":  {"False", "ResolutionTimedOut", `the resolver "other" has not answered`, resolve.ReasonTimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(ns, name, "git", text(name))
			switch name {
			case "long":
				// Caches do not keep it.
				r.Spec.Params = append(r.Spec.Params, v1beta1.Param{Name: "more", Value: v1beta1.StringValue(strings.Repeat("x", 60_000))})
			case "crowded":
				// What the request has itself leaves no room for the largest content.
				r.Annotations = map[string]string{"example.com/notes": strings.Repeat("x", 200<<10), resolution.AnnotationTimeout: "15s"}
			case "nobody":
				r.Labels[resolution.LabelType] = "other"
				fallthrough
			case "hang":
				r.Annotations = map[string]string{resolution.AnnotationTimeout: "3s"}
			}
			if _, err := c.Create(t.Context(), r, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the end", func(ctx context.Context) error {
				r, err := c.Get(ctx, name, metav1.GetOptions{})
				if err != nil || !r.Status.Finished() {
					return errors.Join(err, errors.New("unfinished"))
				}
				got := r.Status.Succeeded()
				if got.Status != test.status || got.Reason != test.reason || !strings.Contains(got.Message, test.message) ||
					r.Status.Annotations[resolution.AnnotationReason] != string(test.exact) {
					t.Errorf("%+v, %v", got, r.Status.Annotations)
				}
				return nil
			})
		})
	}
}

func TestE2ETheLifecycleController(t *testing.T) {
	in := install(t)
	ns := in.namespace(t)
	in.lifecycle(t, 2*time.Second)
	c := client(t, in.config).ResolutionV1beta1().ResolutionRequests(ns)
	create := func(r *v1beta1.ResolutionRequest) {
		t.Helper()
		if _, err := c.Create(t.Context(), r, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	owned := request(ns, "owned", "git")
	owner, err := in.admin.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: ns, UID: owner.UID}}
	create(owned)
	create(request(ns, "orphan", "git"))

	eventually(t, "the mark that it is in progress", func(ctx context.Context) error {
		r, err := c.Get(ctx, "owned", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := r.Status.Succeeded(); s == nil || s.Status != metav1.ConditionUnknown || s.Reason != "ResolutionInProgress" || !strings.HasPrefix(s.Message, "waiting for resolver") {
			return fmt.Errorf("condition %+v", s)
		}
		return nil
	})
	writer := client(t, in.account(t, "sluice-system", "sluice-resolver-git")).ResolutionV1beta1().ResolutionRequests(ns)
	for _, name := range []string{"owned", "orphan"} {
		if _, err := writer.Patch(t.Context(), name, merge, []byte(`{"status":{"data":"eA==","annotations":{"a":"b"}}}`), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the seed protocol's success", func(ctx context.Context) error {
		r, err := c.Get(ctx, "owned", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := r.Status.Succeeded(); s.Status != metav1.ConditionTrue || s.Reason != "" || s.Message != "" || r.Status.Data != "eA==" || r.Status.Annotations["a"] != "b" {
			return fmt.Errorf("status %+v", r.Status)
		}
		return nil
	})
	eventually(t, "the one without an owner to go", func(ctx context.Context) error {
		list, err := c.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Name != "owned" {
			return fmt.Errorf("%d requests", len(list.Items))
		}
		return nil
	})
}
