//go:build e2e

package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"sluice.dev/api/v1alpha1"
)

// door is a way to the API server that holds back the first request for which it is to close, until it is opened.
type door struct {
	*httptest.Server

	closed, open chan struct{}
}

func (w *world) door(closes func(*http.Request) bool) *door {
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
	d := &door{closed: make(chan struct{}, 100), open: make(chan struct{})}
	d.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if closes(r) {
			d.closed <- struct{}{}
			<-d.open
		}
		proxy.ServeHTTP(rw, r)
	}))
	w.t.Cleanup(d.Close)
	return d
}

// start runs sluice as a process through the door; wait gives its exit code and output.
func (d *door) start(w *world, args ...string) (wait func() (int, string)) {
	w.t.Helper()
	kubeconfig := w.file("door", fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],
"clusters":[{"name":"x","cluster":{"server":%q}}],"users":[{"name":"x","user":{}}]}`, d.URL))
	program, err := exec.LookPath("sluice")
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(w.t.Context()), program, append([]string{args[0], "--kubeconfig", kubeconfig, "-n", w.namespace}, args[1:]...)...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	return func() (int, string) {
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode(), out.String()
	}
}

func TestE2EASecondRunOfAnAppSaysWhoIsAtItAndWaits(t *testing.T) {
	w := newWorld(t)
	one := w.file("one.yaml", configMap("a", "by", "one")+configMap("b", "by", "one"))
	two := w.file("two.yaml", configMap("b", "by", "two")+configMap("c", "by", "two"))
	w.run(ExitOK, "apply", "--app", "x", "-f", w.file("zero.yaml", configMap("z")))
	d := w.door(func(r *http.Request) bool {
		return r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/configmaps/a") && !r.URL.Query().Has("dryRun")
	})
	first := d.start(w, "apply", "--app", "x", "-f", one, "--prune")
	<-d.closed
	for _, args := range [][]string{{"apply", "--app", "x", "-f", two, "--prune", "--lock-timeout=0"}, {"delete", "x", "--lock-timeout=0"}} {
		_, errs := w.run(ExitFailed, args[0], args[1:]...)
		for _, want := range []string{w.namespace + "/x is being changed by ", "process ", "nothing was changed", "--lock-timeout"} {
			if !strings.Contains(errs, want) {
				t.Errorf("%v does not say %q: %s", args, want, errs)
			}
		}
	}
	// What only reads is not held up.
	w.run(ExitOK, "apply", "--app", "x", "-f", two, "--prune", "--dry-run=server")
	w.run(ExitFindings, "diff", "--app", "x", "-f", two)
	if objects, state := w.inventory("x"); state != "applying" || len(objects) != 3 {
		t.Errorf("%s: %v", state, objects)
	}
	second := w.door(func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/leases/") // it looks whether it gets the lock
	})
	wait := second.start(w, "apply", "--app", "x", "-f", two, "--prune")
	<-second.closed
	close(second.open)
	close(d.open)
	if code, out := first(); code != ExitOK {
		t.Errorf("the first one: %d\n%s", code, out)
	}
	if code, out := wait(); code != ExitOK {
		t.Errorf("the second one: %d\n%s", code, out)
	}
	w.settled("x", w.namespace+".example.com", []string{"ConfigMap/b", "ConfigMap/c"})
	for _, name := range []string{"b", "c"} {
		cm, err := w.kube.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || cm.Data["by"] != "two" {
			t.Errorf("%s: %v, %v", name, cm.Data, err)
		}
	}
	leases, err := w.kube.CoordinationV1().Leases(w.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(leases.Items) > 0 {
		t.Errorf("there are still %v, %v", leases.Items, err)
	}
}

// isHeldUpByACommand has a Delivery wait for sluice apply, which waits for the Delivery in turn.
func isHeldUpByACommand(t *testing.T, d *deliveryWorld) {
	d.grant("all", rule("", "configmaps"))
	revision := d.push(configMap("a", "by", "delivery"))
	door := d.door(func(r *http.Request) bool {
		return r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/configmaps/a") && !r.URL.Query().Has("dryRun")
	})
	first := door.start(d.world, "apply", "--app", "x", "-f", d.file("one.yaml", configMap("a", "by", "command")+configMap("b")))
	<-door.closed
	d.create("x", func(s *v1alpha1.DeliverySpec) { s.Prune = true })
	d.reaches("x", v1alpha1.ReasonApplying, says("is being changed by", "process"))
	close(door.open)
	if code, out := first(); code != ExitOK {
		t.Errorf("%d\n%s", code, out)
	}
	d.applies("x", revision)
	d.holds("a", "by", "delivery")
	if got := d.configMaps(d.namespace); strings.Join(got, " ") != "a sluice-app-x" {
		t.Errorf("there is %v", got)
	}
}
