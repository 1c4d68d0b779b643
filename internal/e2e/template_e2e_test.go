//go:build e2e

package e2e

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/config"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/clustertest/nodeless"
	"sluice.dev/tools/kube"
)

// program is a resolver of somebody else, with what its manifests say of its process.
type program struct {
	path, account string
	args          []string
}

// startTemplateOfResolver installs Sluice and a resolver of somebody else by their manifests. The program is at path.
func startTemplateOfResolver(t *testing.T, path, resolver string) (*system, program) {
	t.Helper()
	p := program{path: path, account: resolver + "-resolver"}
	printed, err := exec.Command(path, "manifests", "--image=registry.example.com/resolver:v1").Output()
	if err != nil {
		t.Fatal(err)
	}
	// As the head of the manifests says.
	_, flag, _ := strings.Cut(string(printed), "--writer ")
	writer, _, _ := strings.Cut(flag, "\n")
	s, err := install(t.Context(), clustertest.Start(t), config.Options{Writers: []string{writer}})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := kube.Decode(printed)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range objects {
		// The API server judges the Deployment; nothing would run it here.
		if err := s.objects.ApplyObject(t.Context(), u, u.GetKind() == "Deployment"); err != nil {
			t.Fatal(err)
		}
		if u.GetKind() == "Deployment" {
			var d appsv1.Deployment
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &d); err != nil {
				t.Fatal(err)
			}
			p.args = d.Spec.Template.Spec.Containers[0].Args
		}
	}
	return s, p
}

// run starts the program as its Deployment does, under its account, and waits until it is ready.
func (p program) run(t *testing.T, s *system, pod string) *process {
	t.Helper()
	listen, err := nodeless.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(p.path, append(p.args, "--kubeconfig="+s.kubeconfig(t, p.account, p.account), "--listen="+listen)...)
	cmd.Env = []string{"POD_NAME=" + p.account + "-" + pod}
	out := &process{}
	if out.Process, err = nodeless.Launch(pod, listen, cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		out.stop(t)
		if text := out.Log(); t.Failed() || strings.Contains(text, "forbidden") || strings.Contains(text, `"level":"ERROR"`) {
			t.Errorf("%s logged: %s", pod, text)
		}
	})
	if err := out.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out
}

// The resolver that docs/writing-a-resolver.md has one copy runs with the rights that it prints, and loses nothing when it is killed.
func TestE2ETheTemplateOfAResolverAnswersAllRequests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolver")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "../../examples/resolver").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s, p := startTemplateOfResolver(t, path, "well-known")
	const requests, before = 200, 60
	var asked atomic.Int64
	reached, goOn := make(chan struct{}), make(chan struct{})
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		if n == before {
			close(reached)
		}
		if n >= before {
			select {
			case <-goOn:
			case <-r.Context().Done():
				return
			}
		}
		_, _ = io.WriteString(w, "kind: Task # "+r.URL.Path)
	}))
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	t.Cleanup(web.Close)
	s.configure(t, "well-known-config", map[string]string{
		"allowed-addresses": "127.0.0.1", "ca-bundle": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})),
	})
	s.start(t, "resolution", flagged("--other-resolvers=well-known"))
	first := p.run(t, s, "one")
	eventually(t, "the schema of the parameters", func(ctx context.Context) error {
		_, err := s.kube.CoreV1().ConfigMaps(p.account).Get(ctx, "resolver-schema-well-known", metav1.GetOptions{})
		return err
	})
	ns := s.namespace(t)
	host := web.Listener.Addr().String()
	var list []*v1beta1.ResolutionRequest
	for i := range requests {
		name := fmt.Sprintf("n%d", i)
		list = append(list, newRequest(name, "well-known", "host", host, "name", name))
	}
	s.create(t, ns, list...)
	<-reached
	first.Kill()
	close(goOn)
	p.run(t, s, "two")
	for name, r := range s.ended(t, ns, requests) {
		wantContent(t, r, "kind: Task # /.well-known/tekton/"+name+".yaml")
	}
	wantFailure(t, s.resolve(t, ns, newRequest("misspelt", "well-known", "host", host, "nam", "x")), "InvalidParams", `did you mean "name"?`)
}

// A resolver that was written for Tekton's framework runs unchanged. It is a module of its own, because Sluice does not import Tekton.
func TestE2ERealTektonResolverRuns(t *testing.T) {
	binaries := os.Getenv(envTekton)
	if binaries == "" {
		t.Skip("make e2e-tekton builds the resolver and runs this")
	}
	s, p := startTemplateOfResolver(t, filepath.Join(binaries, "tektonresolver"), "greeting")
	s.configure(t, "greeting-config", map[string]string{"word": "good morning"})
	s.start(t, "resolution", flagged("--other-resolvers=greeting"))
	p.run(t, s, "one")
	ns := s.namespace(t)
	got := s.resolve(t, ns, newRequest("polite", "greeting", "whom", "you"))
	wantContent(t, got, "apiVersion: tekton.dev/v1\nkind: Task\nmetadata: {name: greet}\nspec:\n  description: good morning you in "+ns+"\n  steps: [{image: busybox, name: s}]\n")
	if o := got.Status.Origin(); o == nil || o.URI != "greeting:" || o.Digest["sha1"] == "" || got.Status.Annotations["example.com/by"] != "greeting" {
		t.Errorf("origin %+v, annotations %v", o, got.Status.Annotations)
	}
	wantFailure(t, s.resolve(t, ns, newRequest("nobody", "greeting")), "InvalidParams", "name whom to greet")
	none := newRequest("none", "greeting", "whom", "you")
	none.Spec.URL = "greeting:none"
	wantFailure(t, s.resolve(t, ns, none), "ResolutionFailed", "there is nobody to greet")
}
