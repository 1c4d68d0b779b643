//go:build e2e

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	resolutionapi "sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/client/versioned"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/resolvers"
	"sluice.dev/resolve"
	"sluice.dev/resolve/controller"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/clustertest/nodeless"
	"sluice.dev/tools/kube"
)

// kubeconfigFor writes a kubeconfig that authenticates as a ServiceAccount.
func kubeconfigFor(t *testing.T, cfg *rest.Config, account string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := nodeless.Kubeconfig(t.Context(), kubernetes.NewForConfigOrDie(cfg), cfg, "sluice-system", account, file); err != nil {
		t.Fatal(err)
	}
	return file
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := nodeless.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url) //nolint:noctx // a test
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

func until(t *testing.T, what string, check func() error) {
	t.Helper()
	clustertest.Eventually(t, what, func(context.Context) error { return check() })
}

type echo struct{}

func (echo) Spec() resolve.Spec {
	return resolve.Spec{Name: "git", Doc: "Gives back what it gets.", Params: []resolve.Param{{Name: "text", Doc: "What to give back."}}}
}

func (echo) Resolve(_ context.Context, r *resolve.Request) (*resolve.Resource, error) {
	data := []byte(r.Get("text"))
	return &resolve.Resource{Data: data, Source: resolve.Source{URI: "echo:", Digest: resolve.SHA256(data)}}, nil
}

// manifests applies what sluice manifests prints, without the guard: no process answers for it.
func manifests(t *testing.T, c *clustertest.Cluster, args ...string) {
	t.Helper()
	if args == nil {
		args = []string{"--roles=resolution,resolver-git,resolver-bundles,resolver-cluster,resolver-http,resolver-hub,resolver-dir"}
	}
	changedManifests(t, c, func(*unstructured.Unstructured) {}, args...)
}

// changedManifests applies what sluice manifests prints, with a change.
func changedManifests(t *testing.T, c *clustertest.Cluster, change func(*unstructured.Unstructured), args ...string) {
	t.Helper()
	k, err := kube.New(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs := sluice(t, append([]string{"manifests", "--image=example.test/sluice:v1"}, args...)...)
	if code != ExitOK {
		t.Fatal(errs)
	}
	objects, err := kube.Decode([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range objects {
		change(u)
		// The API server judges Deployments; nothing would run them here.
		if err := k.ApplyObject(t.Context(), u, u.GetKind() == "Deployment"); err != nil {
			t.Fatalf("%s %s: %v", u.GetKind(), u.GetName(), err)
		}
	}
}

// running is a process that runs in the test.
type running struct {
	cancel context.CancelFunc
	done   chan error
	listen string
	log    *bytes.Buffer
}

// stop ends it in order and returns its error.
func (r running) stop() error {
	r.cancel()
	return <-r.done
}

// loggedComplaints are the lines that it logged, but for one about the API server, which answers watches with 429 Too Many Requests while another
// test changes a CRD.
func (r running) loggedComplaints() string {
	var b strings.Builder
	for line := range strings.Lines(r.log.String()) {
		if !strings.Contains(line, `"msg":"the API server does not answer watches","status":"429 `) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// begin starts a process with one role under the ServiceAccount that the manifests make for it, and waits until it is
// ready. It has to be stopped.
func begin(t *testing.T, c *clustertest.Cluster, role string, table []resolvers.Entry, change func(*serveFlags)) running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r := running{cancel: cancel, done: make(chan error, 1), listen: freeAddress(t), log: &bytes.Buffer{}}
	f := serveFlags{
		Options: controller.Options{Kubeconfig: kubeconfigFor(t, c.Config(), "sluice-"+role), Listen: r.listen, ID: role, LogLevel: "warn"},
		roles:   []string{role}, webhookListen: "127.0.0.1:0",
	}
	if change != nil {
		change(&f)
	}
	e := &command.Env{Out: io.Discard, Err: r.log, Now: time.Now, Getenv: func(string) string { return "" }}
	go func() { r.done <- serveRoles(ctx, e, f, table) }()
	until(t, role+" to be ready", func() error {
		if code, body := get(t, "http://"+r.listen+"/readyz"); code != http.StatusOK {
			return errors.New(body)
		}
		return nil
	})
	return r
}

// echoes has one resolver, which gives back what it gets.
func echoes() []resolvers.Entry {
	return []resolvers.Entry{{Name: "git", ConfigMap: "git-resolver-config", Spec: echo{}.Spec, New: func(context.Context, resolvers.Env) (resolve.Resolver, error) {
		return echo{}, nil
	}}}
}

// TestE2EServeEndsIfItsPortIsTaken: each role that listens ends the process and names the address, rather than wait for what it has begun.
func TestE2EServeEndsIfItsPortIsTaken(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.WithoutControllers())
	manifests(t, c, "--roles=resolution,crd-guard,feature-webhook")
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	busy := l.Addr().String()
	for _, role := range []string{"resolution", "crd-guard", "feature-webhook"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			f := serveFlags{
				Options: controller.Options{Kubeconfig: kubeconfigFor(t, c.Config(), "sluice-"+role), Listen: "127.0.0.1:0", ID: role, LogLevel: "warn"},
				roles:   []string{role}, webhookListen: busy, guard: guardFlags{listen: busy}, features: featureWebhookFlags{listen: busy},
			}
			ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
			defer cancel()
			e := &command.Env{Out: io.Discard, Err: io.Discard, Now: time.Now, Getenv: func(string) string { return "" }}
			if err := serveRoles(ctx, e, f, nil); err == nil || !strings.Contains(err.Error(), "another process listens on "+busy) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestE2EServeResolvesUnderTheAccountsThatTheManifestsMake(t *testing.T) {
	c := shared.Get(t)
	manifests(t, c)
	processes := []running{begin(t, c, "resolution", echoes(), nil), begin(t, c, "resolver-git", echoes(), nil)}

	crds := apiextensions.NewForConfigOrDie(c.Config())
	crd, err := crds.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), "resolutionrequests.resolution.tekton.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(crd.Spec.Conversion.Webhook.ClientConfig.CABundle, []byte("BEGIN CERTIFICATE")) {
		t.Error("the API server has not been told the webhook's certificate")
	}

	requests := versioned.NewForConfigOrDie(c.Config()).ResolutionV1beta1().ResolutionRequests("default")
	r := &v1beta1.ResolutionRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "r", Labels: map[string]string{resolutionapi.LabelType: "git"}},
		Spec:       v1beta1.ResolutionRequestSpec{Params: []v1beta1.Param{{Name: "text", Value: v1beta1.StringValue("hello")}}},
	}
	if _, err := requests.Create(t.Context(), r, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the request to succeed", func() error {
		got, err := requests.Get(t.Context(), "r", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got.Status.Data != "aGVsbG8=" || !got.Status.Finished() {
			return fmt.Errorf("status %+v", got.Status)
		}
		return nil
	})
	until(t, "the metrics to count it", func() error {
		if _, body := get(t, "http://"+processes[1].listen+"/metrics"); !strings.Contains(body, `sluice_resolution_requests_total{outcome="succeeded",reason="",resolver="git"} 1`) {
			return errors.New(body)
		}
		return nil
	})
	until(t, "the Leases to be renewed", func() error {
		leases, err := kubernetes.NewForConfigOrDie(c.Config()).CoordinationV1().Leases("sluice-system").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, l := range leases.Items {
			if l.Spec.RenewTime.Sub(l.CreationTimestamp.Time) < 2*time.Second {
				return errors.New("not yet")
			}
		}
		return nil
	})
	for _, p := range processes {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
		if told := p.loggedComplaints(); told != "" {
			t.Errorf("it complains: %s", told)
		}
	}
	leases, err := kubernetes.NewForConfigOrDie(c.Config()).CoordinationV1().Leases("sluice-system").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(leases.Items) != 0 {
		t.Errorf("Leases are left: %v %v", leases.Items, err)
	}
}

// write makes a file in a folder and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
