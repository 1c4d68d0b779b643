//go:build e2e

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/tools/bundletest"
	"sluice.dev/tools/gittest"
)

// signedForTekton is a Task with a signature as Tekton's own controller verifies it: of the JSON of Tekton's Go type without the
// annotation (pkg/trustedresources/verify.go of Tekton Pipelines).
func signedForTekton(t *testing.T, key *ecdsa.PrivateKey, by string) string {
	t.Helper()
	payload := fmt.Sprintf(`{"kind":"Task","apiVersion":"tekton.dev/v1","metadata":{"name":"build"},`+
		`"spec":{"steps":[{"name":"say","image":"example.test/busybox","command":["echo"],"args":[%q],"computeResources":{}}]}}`, by)
	sum := sha256.Sum256([]byte(payload))
	sum = sha256.Sum256(sum[:]) // Tekton signs the digest, and its library takes the digest of that
	sig, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(fmt.Sprintf(realTask, by), "{name: build}", "{name: build, annotations: {tekton.dev/signature: "+base64.StdEncoding.EncodeToString(sig)+"}}", 1)
}

// verifiesSources has Tekton's controller verify what Sluice's resolvers give, by VerificationPolicies that name its source.
func (p *pipelines) verifiesSources(t *testing.T) {
	ns := p.namespace(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	repos := gittest.NewServer(t, false)
	signed, changed := signedForTekton(t, key, "git"), strings.Replace(signedForTekton(t, key, "git"), "args: [git]", "args: [evil]", 1)
	gittest.NewOrigin(t, repos.Root, "catalog.git", map[string]string{"signed.yaml": signed, "changed.yaml": changed, "unsigned.yaml": fmt.Sprintf(realTask, "git")})
	reg := images(t)
	push(t, reg, "team/signed", bundletest.Task("build", signedForTekton(t, key, "bundles")))
	push(t, reg, "team/unsigned", bundletest.Task("build", fmt.Sprintf(realTask, "bundles")))
	p.set(t, tektonConfig, "git-resolver-config", loopback)
	p.set(t, tektonConfig, "bundleresolver-config", map[string]string{"allowed-addresses": "127.0.0.1", "plain-http-registries": reg})
	p.startAll(t, "resolver-git", "resolver-bundles")
	for name, pattern := range map[string]string{"catalog": repos.URL + "/catalog.git", "images": reg + "/team/.*"} {
		indented := strings.ReplaceAll(string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})), "\n", "\n        ")
		p.apply(t, fmt.Sprintf("apiVersion: tekton.dev/v1alpha1\nkind: VerificationPolicy\nmetadata: {name: %s, namespace: %s}\nspec:\n  resources: [{pattern: %q}]\n"+
			"  authorities:\n  - name: key\n    key:\n      hashAlgorithm: sha256\n      data: |\n        %s\n", name, ns, pattern, indented))
	}
	git := func(file string) []any {
		return params("url", repos.URL+"/catalog.git", "revision", "main", "pathInRepo", file)
	}
	bundle := func(path string) []any {
		return params("bundle", reg+"/team/"+path+":v1", "name", "build", "kind", "task")
	}
	for name, tt := range map[string]struct {
		resolver string
		params   []any
		passes   bool
	}{
		"signed-by-git":       {"git", git("signed.yaml"), true},
		"changed-by-git":      {"git", git("changed.yaml"), false},
		"unsigned-by-git":     {"git", git("unsigned.yaml"), false},
		"signed-by-bundles":   {"bundles", bundle("signed"), true},
		"unsigned-by-bundles": {"bundles", bundle("unsigned"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.create(t, ns, "TaskRun", name, map[string]any{"taskRef": map[string]any{"resolver": tt.resolver, "params": tt.params}})
			if tt.passes {
				p.wantPod(t, ns, "TaskRun", name, tt.resolver)
				return
			}
			eventually(t, name+" to fail", func(ctx context.Context) error {
				u, err := p.resource("taskruns").Namespace(ns).Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				c := succeeded(u)
				if c == nil || c["status"] == "Unknown" {
					return fmt.Errorf("condition %v", c)
				}
				if c["status"] != "False" || c["reason"] != "ResourceVerificationFailed" {
					t.Errorf("condition %v", c)
				}
				return nil
			})
		})
	}
}

// logsIn has bundles come from a registry that demands a login: by a Secret, by a ServiceAccount, and not without.
func (p *pipelines) logsIn(t *testing.T) {
	ns := p.namespace(t)
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != "joe" || password != "pw" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	reg := server.Listener.Addr().String()
	pushing, err := bundletest.NewRegistry(reg, "team/bundle", loggedIn{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pushing.Push(t.Context(), "v1", bundletest.Task("build", fmt.Sprintf(realTask, "bundles"))); err != nil {
		t.Fatal(err)
	}
	docker := fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, reg, base64.StdEncoding.EncodeToString([]byte("joe:pw")))
	p.secret(t, ns, "login", corev1.SecretTypeDockerConfigJson, map[string][]byte{corev1.DockerConfigJsonKey: docker})
	puller := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "puller"}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "login"}}}
	if _, err := p.kube.CoreV1().ServiceAccounts(ns).Create(t.Context(), puller, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.set(t, tektonConfig, "bundleresolver-config", map[string]string{"allowed-addresses": "127.0.0.1", "plain-http-registries": reg})
	p.startAll(t, "resolver-bundles")
	asks := func(name string, more ...string) {
		ref := params(append([]string{"bundle", reg + "/team/bundle:v1", "name", "build", "kind", "task"}, more...)...)
		p.create(t, ns, "TaskRun", name, map[string]any{"taskRef": map[string]any{"resolver": "bundles", "params": ref}})
	}
	asks("by-secret", "secret", "login")
	asks("by-account", "serviceAccount", "puller")
	p.wantPod(t, ns, "TaskRun", "by-secret", "bundles")
	p.wantPod(t, ns, "TaskRun", "by-account", "bundles")
	asks("by-nobody")
	eventually(t, "by-nobody to fail", func(ctx context.Context) error {
		u, err := p.resource("taskruns").Namespace(ns).Get(ctx, "by-nobody", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c := succeeded(u); c == nil || c["status"] != "False" || !strings.Contains(fmt.Sprint(c["message"]), "AccessDenied") {
			return fmt.Errorf("condition %v", c)
		}
		return nil
	})
}

// loggedIn sends the login of the registry.
type loggedIn struct{}

func (loggedIn) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.SetBasicAuth("joe", "pw")
	return http.DefaultTransport.RoundTrip(r)
}

// largeTask has a Task of 900 KB come by git.
func (p *pipelines) largeTask(t *testing.T) {
	ns := p.namespace(t)
	repos := gittest.NewServer(t, false)
	text := strings.Replace(fmt.Sprintf(realTask, "git"), "spec:\n", "spec:\n  description: "+strings.Repeat("long ", 180_000)+"\n", 1)
	gittest.NewOrigin(t, repos.Root, "catalog.git", map[string]string{"task.yaml": text})
	p.set(t, tektonConfig, "git-resolver-config", loopback)
	p.startAll(t, "resolver-git")
	ref := params("url", repos.URL+"/catalog.git", "revision", "main", "pathInRepo", "task.yaml")
	p.create(t, ns, "TaskRun", "large", map[string]any{"taskRef": map[string]any{"resolver": "git", "params": ref}})
	p.wantPod(t, ns, "TaskRun", "large", "git")
}
