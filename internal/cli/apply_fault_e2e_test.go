//go:build e2e

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// fault strikes at one write.
type fault struct {
	// at counts writes from 1; after is whether the server gets to see it.
	at    int64
	after bool
	// strike is called once, with the process that writes.
	strike func(*os.Process)
	// lost: from then on nobody is reached any more.
	lost bool
}

// between is what stands between sluice and the API server.
type between struct {
	*httptest.Server

	writes  atomic.Int64
	fault   atomic.Pointer[fault]
	process atomic.Pointer[os.Process]
}

func (w *world) between() *between {
	w.t.Helper()
	transport, err := rest.TransportFor(w.Config())
	if err != nil {
		w.t.Fatal(err)
	}
	target, err := url.Parse(w.Server)
	if err != nil {
		w.t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = transport
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	b := &between{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		f := b.fault.Load()
		if f != nil && f.lost && b.writes.Load() >= f.at {
			panic(http.ErrAbortHandler)
		}
		write := r.Method != http.MethodGet && r.URL.Query().Get("dryRun") == "" && !strings.Contains(r.URL.Path, "/authorization.k8s.io/")
		if !write || b.writes.Add(1) != atOf(f) {
			proxy.ServeHTTP(rw, r)
			return
		}
		if f.after {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
		}
		f.strike(b.process.Load())
		panic(http.ErrAbortHandler)
	}))
	w.t.Cleanup(b.Close)
	return b
}

func atOf(f *fault) int64 {
	if f == nil {
		return -1
	}
	return f.at
}

// sluice runs sluice as a process through the proxy, with a fault, and returns how it ended.
func (b *between) sluice(w *world, f *fault, args ...string) (*os.ProcessState, string) {
	w.t.Helper()
	kubeconfig := w.file("between", fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],
"clusters":[{"name":"x","cluster":{"server":%q}}],"users":[{"name":"x","user":{}}]}`, b.URL))
	b.writes.Store(0)
	b.fault.Store(f)
	program, err := exec.LookPath("sluice")
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.CommandContext(w.t.Context(), program, append([]string{args[0], "--kubeconfig", kubeconfig, "-n", w.namespace}, args[1:]...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	b.process.Store(cmd.Process)
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return cmd.ProcessState, out.String()
}

// marked lists the objects of the kinds of the fault tests that are marked as the app's.
func (w *world) marked(app, group string) []string {
	w.t.Helper()
	var out []string
	for _, r := range []struct {
		gvr        schema.GroupVersionResource
		kind       string
		namespaced bool
	}{
		{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap", true},
		{schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}, "Widget", true},
		{schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, "CustomResourceDefinition", false},
		{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}, "ValidatingAdmissionPolicy", false},
	} {
		namespace := ""
		if r.namespaced {
			namespace = w.namespace
		}
		list, err := w.dynamic.Resource(r.gvr).Namespace(namespace).List(w.t.Context(), metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			w.t.Fatal(err)
		}
		for _, o := range list.Items {
			if o.GetAnnotations()["sluice.dev/app"] == w.namespace+"/"+app {
				out = append(out, r.kind+"/"+o.GetName())
			}
		}
	}
	slices.Sort(out)
	return out
}

// unboundPolicy is admission configuration, which comes last. It is bound to nothing.
func unboundPolicy(name string) string {
	return fmt.Sprintf(`---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %s}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "true"}]
`, name)
}

// story is two versions of an app, and what is in the cluster after each.
type story struct {
	group         string
	first, second string
	after, then   []string
}

func (w *world) story() story {
	s := story{group: w.namespace + ".example.com"}
	crd := "CustomResourceDefinition/widgets." + s.group
	one, two := widget(s.group, "small"), widget(s.group, "small, large")
	for i := range 6 {
		name := fmt.Sprintf("old-%d", i)
		one += configMap(name)
		s.after = append(s.after, "ConfigMap/"+name)
	}
	for i := range 6 {
		name := fmt.Sprintf("same-%d", i)
		one += configMap(name, "version", "1")
		two += configMap(name, "version", "2")
		s.after, s.then = append(s.after, "ConfigMap/"+name), append(s.then, "ConfigMap/"+name)
	}
	for i := range 6 {
		name := fmt.Sprintf("new-%d", i)
		two += configMap(name)
		s.then = append(s.then, "ConfigMap/"+name)
	}
	one, two = one+unboundPolicy(w.namespace+"-one"), two+unboundPolicy(w.namespace+"-two")
	s.after = append(s.after, crd, "Widget/w", "ValidatingAdmissionPolicy/"+w.namespace+"-one")
	s.then = append(s.then, crd, "Widget/w", "ValidatingAdmissionPolicy/"+w.namespace+"-two")
	slices.Sort(s.after)
	slices.Sort(s.then)
	s.first, s.second = w.file("one.yaml", one), w.file("two.yaml", two)
	return s
}

// recorded checks that the inventory has everything that exists.
func (w *world) recorded(app, group string) {
	w.t.Helper()
	objects, state := w.inventory(app)
	for _, o := range w.marked(app, group) {
		if !slices.Contains(objects, o) {
			w.t.Errorf("%s exists and is not in the inventory (%s)", o, state)
		}
	}
}

// settled checks that the cluster has exactly the objects, and the inventory too.
func (w *world) settled(app, group string, want []string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.marked(app, group)); diff != "" {
		w.t.Errorf("in the cluster: %s", diff)
	}
	objects, state := w.inventory(app)
	if diff := cmp.Diff(want, objects); diff != "" || state != "applied" {
		w.t.Errorf("in the inventory (%s): %s", state, diff)
	}
}

func TestE2EApplyIsKilledAtTenPointsAndGoesOn(t *testing.T) {
	w := newWorld(t)
	b := w.between()
	kill := func(p *os.Process) {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	}
	s := w.story()
	whole := []string{"apply", "--app", "x", "-f", s.second, "--prune"}
	var writes int64
	// Before the first write nothing has happened yet, after the last one everything has.
	check := func(f *fault) {
		switch {
		case f.at == 1 && !f.after:
			w.settled("x", s.group, s.after)
		case f.at == writes && f.after:
			w.settled("x", s.group, s.then)
		}
	}
	upgrade := func(t *testing.T, f *fault) {
		w.t = t
		w.run(ExitOK, "apply", "--app", "x", "-f", s.first)
		w.settled("x", s.group, s.after)
		state, out := b.sluice(w, f, whole...)
		if f != nil {
			if status, ok := state.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				t.Fatalf("it was not killed at write %d, but ended with %s after %d:\n%s", f.at, state, b.writes.Load(), out)
			}
			w.recorded("x", s.group)
			check(f)
			if state, out = b.sluice(w, nil, whole...); state.ExitCode() != ExitOK {
				t.Fatalf("the same command again: %s\n%s", state, out)
			}
		} else if state.ExitCode() != ExitOK {
			t.Fatalf("%s\n%s", state, out)
		}
		w.settled("x", s.group, s.then)
		if state, out = b.sluice(w, nil, whole...); state.ExitCode() != ExitOK || b.writes.Load() != 0 {
			t.Errorf("once more: %s, %d writes\n%s", state, b.writes.Load(), out)
		}
		w.run(ExitOK, "delete", "x", "--allow-delete-crds")
		if left := w.marked("x", s.group); len(left) > 0 {
			t.Errorf("after the deletion there is %v", left)
		}
	}
	upgrade(t, nil)
	// What somebody changes meanwhile, such as the status of a policy, costs another write: the fewest count.
	for range 3 {
		w.run(ExitOK, "apply", "--app", "x", "-f", s.first)
		state, _ := b.sluice(w, nil, whole...)
		if n := b.writes.Load(); state.ExitCode() != ExitOK || n < 20 {
			t.Fatalf("%s, %d writes", state, n)
		} else if writes == 0 || n < writes {
			writes = n
		}
		w.run(ExitOK, "delete", "x", "--allow-delete-crds")
	}
	const points = 10
	struck := map[int64]bool{}
	for i := range int64(points) {
		at := 1 + i*(writes-1)/(points-1)
		struck[at] = true
		f := &fault{at: at, after: i%2 == 1, strike: kill}
		t.Run(fmt.Sprintf("write %d of %d, after it %t", at, writes, f.after), func(t *testing.T) { upgrade(t, f) })
	}
	w.t = t
	if len(struck) != points || !struck[1] || !struck[writes] {
		t.Errorf("it was killed at %v of %d writes", slices.Sorted(maps.Keys(struck)), writes)
	}
}

func TestE2EADeletionIsKilledAndGoesOn(t *testing.T) {
	w := newWorld(t)
	b := w.between()
	s := w.story()
	for i, at := range []int64{1, 2, 9, 15} {
		w.run(ExitOK, "apply", "--app", "x", "-f", s.first)
		f := &fault{at: at, after: i%2 == 0, strike: func(p *os.Process) {
			if err := p.Kill(); err != nil {
				t.Error(err)
			}
		}}
		state, out := b.sluice(w, f, "delete", "x", "--allow-delete-crds")
		if status, ok := state.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
			t.Fatalf("it was not killed at write %d, but ended with %s after %d:\n%s", at, state, b.writes.Load(), out)
		}
		w.recorded("x", s.group)
		if state, out := b.sluice(w, nil, "delete", "x", "--allow-delete-crds"); state.ExitCode() != ExitOK {
			t.Fatalf("the same command again: %s\n%s", state, out)
		}
		if left := w.marked("x", s.group); len(left) > 0 {
			t.Errorf("there is still %v", left)
		}
		if objects, state := w.inventory("x"); state != "" {
			t.Errorf("the inventory is still there: %s %v", state, objects)
		}
	}
}

func TestE2EApplyIsInterruptedOrCutOffAndGoesOn(t *testing.T) {
	w := newWorld(t)
	b := w.between()
	s := w.story()
	whole := []string{"apply", "--app", "x", "-f", s.first}
	for name, f := range map[string]*fault{
		"SIGINT": {at: 9, after: true, strike: func(p *os.Process) {
			if err := p.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}},
		"the connection is lost": {at: 7, strike: func(*os.Process) {}, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			state, out := b.sluice(w, f, whole...)
			if state.ExitCode() != ExitFailed {
				t.Errorf("%s\n%s", state, out)
			}
			w.recorded("x", s.group)
			if _, state := w.inventory("x"); state != "applying" {
				t.Errorf("state %s", state)
			}
			if state, out := b.sluice(w, nil, whole...); state.ExitCode() != ExitOK {
				t.Fatalf("the same command again: %s\n%s", state, out)
			}
			w.settled("x", s.group, s.after)
			w.run(ExitOK, "delete", "x", "--allow-delete-crds")
		})
	}
	w.t = t
	// One broken connection is no reason to give up.
	f := &fault{at: 5, after: true, strike: func(*os.Process) {}}
	if state, out := b.sluice(w, f, whole...); state.ExitCode() != ExitOK {
		t.Errorf("%s\n%s", state, out)
	}
	w.settled("x", s.group, s.after)
}
