//go:build e2e

package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/tools/draws"
)

// turns let the requests of several runs go to the server one at a time, in an order that the test chooses.
type turns struct {
	asks  chan *turn
	ended chan *contender
}

// turn is a request that waits; it is told whether to go.
type turn struct {
	by      *contender
	request *http.Request
	answer  chan fate
}

// fate is what becomes of a request.
type fate int

const (
	passes fate = iota
	// cut: it does not reach the server. lost: the server gets it, the answer is lost.
	cut
	lost
)

var errKilled = errors.New("killed")

// contender is a run that changes the app: an apply of what wants has, or a deletion. It lives as long as a process does.
type contender struct {
	turns   *turns
	id      int
	wants   map[string]string
	deletes bool
	process *exec.Cmd
	killed  bool
	// inventories counts writes of the inventory under the lock: one in the beginning and one in the end.
	inventories int
	err         error
	answers     chan struct{}
}

func (c *contender) String() string {
	if c.deletes {
		return fmt.Sprintf("run %d, a deletion", c.id)
	}
	return fmt.Sprintf("run %d, an apply of %v", c.id, slices.Sorted(maps.Keys(c.wants)))
}

type transport struct {
	*contender

	next http.RoundTripper
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ask := &turn{t.contender, r, make(chan fate)}
	t.turns.asks <- ask
	defer func() { t.answers <- struct{}{} }()
	switch <-ask.answer {
	case cut:
		return nil, errKilled
	case lost:
		if response, err := t.next.RoundTrip(r); err == nil {
			_ = response.Body.Close()
		}
		return nil, errKilled
	case passes:
	}
	return t.next.RoundTrip(r)
}

// applier makes one of which each request waits for its turn, one after the other.
func (c *contender) applier(t *testing.T, namespace string) *Applier {
	t.Helper()
	config := shared.Get(t).Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{c, next} })
	a, err := New(config, Options{Namespace: namespace, Now: time.Now, Concurrent: 1, Locks: &Locks{duration: time.Hour, process: processOf(t, c.process)}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// processOf identifies another process as [thisProcess] does this one.
func processOf(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	fields := strings.Fields(thisProcess())
	_, began, ok := processStat(c.Process.Pid)
	if len(fields) != 4 || !ok {
		t.Fatalf("this process is %q", thisProcess())
	}
	return fmt.Sprintf("%s %s %d %s", fields[0], fields[1], c.Process.Pid, began)
}

// run does what the run is for, again where others were at it.
func (c *contender) run(ctx context.Context, t *testing.T, a *Applier, namespace string) {
	defer func() { c.turns.ended <- c }()
	for {
		a, unlock, err := a.Resume(ctx, namespace, "race")
		switch {
		case err != nil:
			c.err = err
		case c.deletes:
			d, err := a.PlanDeletion(ctx, DeletionRequest{App: "race", Namespace: namespace})
			if errors.Is(err, ErrNoApp) {
				c.err = nil
				unlock()
				return
			}
			if c.err = err; err == nil {
				c.err = a.Delete(ctx, d)
			}
		default:
			p, err := a.Plan(ctx, Request{Objects: configMapsOf(t, c.wants), App: "race", Prune: true})
			if c.err = err; err == nil {
				c.err = a.Apply(ctx, p)
			}
		}
		unlock()
		if !errors.Is(c.err, ErrWaiting) && !errors.Is(c.err, ErrChanged) {
			return
		}
	}
}

func configMapsOf(t *testing.T, wants map[string]string) []Object {
	t.Helper()
	var out []Object
	for name, value := range wants {
		out = append(out, objectFrom(t, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"by": value}}))
	}
	slices.SortFunc(out, func(a, b Object) int { return a.Compare(b.ID) })
	return out
}

// race is the state of the cluster that runs contend about.
type race struct {
	t         *testing.T
	kube      kubernetes.Interface
	config    *rest.Config
	namespace string
}

// objects returns what is marked as the app's.
func (r *race) objects() map[string]string {
	r.t.Helper()
	list, err := r.kube.CoreV1().ConfigMaps(r.namespace).List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]string{}
	for _, cm := range list.Items {
		if cm.Annotations[AnnotationApp] == r.namespace+"/race" {
			out[cm.Name] = cm.Data["by"]
		}
	}
	return out
}

// recorded checks that the inventory has all that exists.
func (r *race) recorded() {
	r.t.Helper()
	a, err := New(r.config, Options{Namespace: r.namespace, Now: time.Now})
	if err != nil {
		r.t.Fatal(err)
	}
	v, err := a.App(r.t.Context(), r.namespace, "race")
	if err != nil && !errors.Is(err, ErrNoApp) {
		r.t.Fatal(err)
	}
	for name := range r.objects() {
		if v.entryOf(ID{Kind: "ConfigMap", Namespace: r.namespace, Name: name}) == nil {
			r.t.Errorf("%s exists and no inventory has it", name)
		}
	}
}

// TestE2ERunsOfOneAppThatInterleaveDoNotDestroyEachOthersWork has two or three runs contend for an app, each request at a random time,
// some of them killed: whoever ends in order leaves exactly what it was to leave, and all that exists is recorded. The next apply gets all
// right.
func TestE2ERunsOfOneAppThatInterleaveDoNotDestroyEachOthersWork(t *testing.T) {
	kube, err := kubernetes.NewForConfig(shared.Get(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	kills, waits, overtaken := 0, 0, 0
	for seed := range draws.Seeds(100) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			k, w, o := contend(t, kube, rand.New(rand.NewPCG(seed, 2)))
			kills, waits, overtaken = kills+k, waits+w, overtaken+o
		})
	}
	t.Logf("%d runs were killed, %d looks at the lock of another run, %d locks taken over", kills, waits, overtaken)
}

func contend(t *testing.T, kube kubernetes.Interface, r *rand.Rand) (kills, waits, overtaken int) {
	ctx := t.Context()
	ns, err := kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "race-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	world := &race{t, kube, shared.Get(t).Config(), ns.Name}
	some := func(by string) map[string]string {
		out := map[string]string{}
		for n := range 6 {
			if r.IntN(2) == 0 {
				out[fmt.Sprintf("x%d", n)] = by
			}
		}
		out["always"] = by
		return out
	}
	settle := func(wants map[string]string) {
		t.Helper()
		a, err := New(world.config, Options{Namespace: ns.Name, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		a, unlock, err := a.Resume(ctx, ns.Name, "race")
		defer unlock()
		if err != nil {
			t.Fatal(err)
		}
		p, err := a.Plan(ctx, Request{Objects: configMapsOf(t, wants), App: "race", Prune: true})
		if err == nil {
			err = a.Apply(ctx, p)
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wants, world.objects()); diff != "" {
			t.Errorf("after an apply that nobody disturbed: %s", diff)
		}
	}
	if r.IntN(3) > 0 {
		settle(some("before"))
	}
	s := &turns{asks: make(chan *turn), ended: make(chan *contender)}
	running, pending := map[*contender]bool{}, map[*contender]*turn{}
	for id := range 2 + r.IntN(2) {
		c := &contender{turns: s, id: id, deletes: r.IntN(4) == 0, answers: make(chan struct{}), process: exec.CommandContext(ctx, "sleep", "600")}
		if err := c.process.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.process.Process.Kill()
			_ = c.process.Wait()
		})
		c.wants = some(fmt.Sprint(id))
		running[c] = true
		a := c.applier(t, ns.Name)
		go c.run(ctx, t, a, ns.Name)
	}
	lease := "/leases/" + InventoryName("race")
	for len(running) > 0 {
		for len(pending) < len(running) {
			select {
			case ask := <-s.asks:
				pending[ask.by] = ask
			case c := <-s.ended:
				if c.err != nil && !c.killed {
					t.Errorf("%s: %v", c, c.err)
				}
				delete(running, c)
			case <-ctx.Done():
				t.Fatal(ctx.Err())
			}
		}
		if len(running) == 0 {
			break
		}
		waiting := slices.SortedFunc(maps.Keys(pending), func(a, b *contender) int { return a.id - b.id })
		c := waiting[r.IntN(len(waiting))]
		ask := pending[c]
		delete(pending, c)
		write := ask.request.Method != http.MethodGet
		isLease := strings.HasSuffix(ask.request.URL.Path, lease)
		what := passes
		switch {
		case c.killed:
			what = cut
		case write && r.IntN(30) == 0:
			what = []fate{cut, lost}[r.IntN(2)]
			c.killed = true
			kills++
			_ = c.process.Process.Kill()
			_ = c.process.Wait()
		case write && (strings.HasSuffix(ask.request.URL.Path, "/configmaps") || strings.HasSuffix(ask.request.URL.Path, "/configmaps/"+InventoryName("race"))):
			c.inventories++
		case isLease && ask.request.Method == http.MethodDelete && c.inventories < 2:
			c.inventories = 0 // its plan was made before another run has ended
		case isLease && ask.request.Method == http.MethodDelete:
			want := c.wants
			if c.deletes {
				want = map[string]string{}
			}
			if diff := cmp.Diff(want, world.objects()); diff != "" {
				t.Errorf("%s has ended, and there is: %s", c, diff)
			}
			world.recorded()
		case isLease && ask.request.Method == http.MethodGet:
			waits++
		case isLease && ask.request.Method == http.MethodPut:
			overtaken++
		}
		if os.Getenv("SLUICE_RACES") == "1" {
			t.Log(c.id, []string{"", "cut ", "lost "}[what], ask.request.Method, strings.TrimPrefix(ask.request.URL.Path, "/api"))
		}
		ask.answer <- what
		<-c.answers
	}
	world.recorded()
	settle(some("after"))
	return kills, waits, overtaken
}
