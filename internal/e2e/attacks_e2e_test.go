//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/tools/bundletest"
	"sluice.dev/tools/gittest"
)

// header is a tar header that announces a file of that size; there is none.
func header(t *testing.T, size int64) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := tar.NewWriter(&buf).WriteHeader(&tar.Header{Name: "a", Size: size, Format: tar.FormatPAX}); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// TestE2EAttacksEndWithATrueReason makes the requests of an attacker who may create requests in a namespace.
func TestE2EAttacksEndWithATrueReason(t *testing.T) {
	s := standsAlone(t)
	s.tektonCRDs(t)
	ns, other := s.namespace(t), s.namespace(t)

	repos := gittest.NewServer(t, false)
	gittest.NewOrigin(t, repos.Root, "r.git", map[string]string{
		"task.yaml": taskText, "inside.yaml": "->dir/../task.yaml", "dir/x.yaml": "x: 1\n", "out.yaml": "->../../../../etc/passwd", "absolute.yaml": "->/etc/passwd",
		"module": "@" + strings.Repeat("1", 40), "large.yaml": strings.Repeat("x", 2<<20),
	})
	repos.Set(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/endless.git") {
			return false
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		_, _ = io.WriteString(w, "001e# service=git-upload-pack\n0000000eversion 2\n")
		line := []byte(fmt.Sprintf("%04x%s\n", 1005, strings.Repeat("x", 1000)))
		for r.Context().Err() == nil {
			if _, err := w.Write(line); err != nil {
				break
			}
		}
		return true
	})
	locked := gittest.NewServer(t, true)
	gittest.NewOrigin(t, locked.Root, "r.git", map[string]string{"task.yaml": taskText})
	locked.Set(demand("Authorization", basic("git", "tenant-token")))

	// The thief listens where requests lead; nothing secret may arrive there.
	var leaked atomic.Value
	leaked.Store("")
	thief := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, h := range []string{"Authorization", "Private-Token", "Cookie"} {
			if v := r.Header.Get(h); v != "" {
				leaked.Store(h + ": " + v)
			}
		}
		_, _ = io.WriteString(w, "stolen: 1\n")
	}))
	t.Cleanup(thief.Close)
	closed := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the server that is not allowed was asked") }))
	t.Cleanup(closed.Close)
	files := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/task.yaml":
			_, _ = io.WriteString(w, taskText)
		case "/endless":
			endless(w, r)
		case "/locked":
			if r.Header.Get("Authorization") != "Bearer tenant-token" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			_, _ = io.WriteString(w, taskText)
		case "/to-metadata":
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		case "/to-file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		case "/to-closed":
			http.Redirect(w, r, closed.URL, http.StatusFound)
		case "/to-thief":
			http.Redirect(w, r, thief.URL, http.StatusFound)
		case "/429", "/503":
			code, _ := strconv.Atoi(r.URL.Path[1:])
			w.WriteHeader(code)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(files.Close)
	page := func(text string) any { return map[string]any{"data": map[string]any{"manifestRaw": text}} }
	const tasks = "/api/v1/packages/tekton-task/tekton-catalog-tasks/"
	hubs := hub(t, map[string]any{
		tasks + "build/1.0.0": page(taskText), tasks + "two/1.0.0": page(taskText + "---\nkind: Secret\n"), tasks + "endless/1.0.0": http.HandlerFunc(endless),
	})
	reg := images(t)
	layer := func(blob []byte) bundletest.Layer {
		return bundletest.Layer{Name: "build", Kind: "task", APIVersion: "v1", Blob: blob}
	}
	push(t, reg, "good", bundletest.Task("build", taskText))
	push(t, reg, "exabyte", layer(header(t, 1<<60)))
	push(t, reg, "bomb", layer(bundletest.Gzip(make([]byte, 64<<20))))
	push(t, reg, "two", bundletest.Task("build", taskText+"---\nkind: Secret\n"))
	var many []bundletest.Layer
	for i := range 21 {
		many = append(many, bundletest.Task(fmt.Sprint("build", i), taskText))
	}
	push(t, reg, "many", many...)

	cas := gittest.PEM(files.Certificate().Raw) + locked.CA + gittest.PEM(thief.Certificate().Raw)
	known := strings.Join([]string{
		strings.TrimPrefix(repos.URL, "http://"), strings.TrimPrefix(locked.URL, "https://"), strings.TrimPrefix(files.URL, "https://"), strings.TrimPrefix(thief.URL, "https://"),
	}, ",")
	s.secret(t, "default", "operators", corev1.SecretTypeOpaque, map[string][]byte{"token": []byte("operators-token")})
	t.Cleanup(func() {
		_ = s.kube.CoreV1().Secrets("default").Delete(t.Context(), "operators", metav1.DeleteOptions{})
	})
	s.allowCredentials(t, "default", "resolver-git")
	s.configure(t, "git-resolver-config", map[string]string{"allowed-addresses": known, "ca-bundle": cas, "api-token-secret-name": "operators", "server-url": "https://git.example.test"})
	s.configure(t, "http-resolver-config", map[string]string{"allowed-addresses": known, "ca-bundle": cas, "backoff-steps": "1"})
	s.configure(t, "hubresolver-config", map[string]string{"allowed-addresses": "127.0.0.1", "artifact-hub-urls": "[" + hubs.URL + "]", "allow-plain-http": "true"})
	s.configure(t, "bundleresolver-config", map[string]string{"allowed-addresses": "127.0.0.1", "plain-http-registries": reg})
	s.configure(t, "cluster-resolver-config", map[string]string{"blocked-namespaces": "kube-system"})
	for _, n := range []string{ns, other} {
		for _, role := range []string{"resolver-git", "resolver-http", "resolver-bundles"} {
			s.allowCredentials(t, n, role)
		}
	}
	s.secret(t, ns, "mine", corev1.SecretTypeOpaque, map[string][]byte{"token": []byte("tenant-token")})
	s.secret(t, other, "mine", corev1.SecretTypeOpaque, map[string][]byte{"token": []byte("another-token")})
	s.apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: "+ns+"}\n")
	processes := s.startAll(t, allRoles...)

	r, h := repos.URL+"/r.git", files.URL
	planted := filepath.Join(t.TempDir(), "planted")
	bundle := func(path string) []string {
		return []string{"bundle", reg + "/" + path + ":v1", "name", "build", "kind", "task"}
	}
	attacks := []struct {
		name, resolver string
		params         []string
		reason, text   string // no reason: it is harmless and succeeds
	}{
		{"dots in a path", "git", []string{"url", r, "pathInRepo", "../../../../etc/passwd"}, "InvalidParams", "pathInRepo"},
		{"dots in the middle of a path", "git", []string{"url", r, "pathInRepo", "dir/../../x"}, "InvalidParams", "pathInRepo"},
		{"a link out of the repository", "git", []string{"url", r, "pathInRepo", "out.yaml"}, "ForbiddenByPolicy", "leaves the repository"},
		{"an absolute link", "git", []string{"url", r, "pathInRepo", "absolute.yaml"}, "ForbiddenByPolicy", "leaves the repository"},
		{"an absolute path", "git", []string{"url", r, "pathInRepo", "/etc/passwd"}, "NotFound", ""},
		{"a link inside", "git", []string{"url", r, "pathInRepo", "inside.yaml"}, "", ""},
		{"a path from the root", "git", []string{"url", r, "pathInRepo", "/task.yaml"}, "", ""},
		{"a submodule", "git", []string{"url", r, "pathInRepo", "module/x.yaml"}, "ForbiddenByPolicy", "submodule"},
		{"a large file", "git", []string{"url", r, "pathInRepo", "large.yaml"}, "ContentTooLarge", "at most"},
		{"an option for a revision", "git", []string{"url", r, "pathInRepo", "task.yaml", "revision", "--upload-pack=touch " + planted}, "InvalidParams", "revision"},
		{"an option for a repository", "git", []string{"url", "--upload-pack=touch " + planted, "pathInRepo", "task.yaml"}, "InvalidParams", "url"},
		{"ext::", "git", []string{"url", "ext::sh -c touch% " + planted, "pathInRepo", "x"}, "InvalidParams", "url"},
		{"file://", "git", []string{"url", "file://" + repos.Root + "/r.git", "pathInRepo", "task.yaml"}, "InvalidParams", "url"},
		{"a folder", "git", []string{"url", repos.Root + "/r.git", "pathInRepo", "task.yaml"}, "InvalidParams", "url"},
		{"the metadata service", "git", []string{"url", "http://169.254.169.254/x.git", "pathInRepo", "x"}, "ForbiddenByPolicy", ""},
		{"another port of loopback", "git", []string{"url", closed.URL + "/r.git", "pathInRepo", "x"}, "ForbiddenByPolicy", ""},
		{"an endless server", "git", []string{"url", repos.URL + "/endless.git", "pathInRepo", "x"}, "ContentTooLarge", ""},
		{"the operator's token for another server", "git", []string{"serverURL", thief.URL, "org", "o", "repo", "r", "pathInRepo", "x"}, "ForbiddenByPolicy", "serverURL"},

		{"an endless body", "http", []string{"url", h + "/endless"}, "ContentTooLarge", ""},
		{"a redirect to the metadata service", "http", []string{"url", h + "/to-metadata"}, "ForbiddenByPolicy", ""},
		{"a redirect to a file", "http", []string{"url", h + "/to-file"}, "ForbiddenByPolicy", "redirects"},
		{"a redirect to another port", "http", []string{"url", h + "/to-closed"}, "ForbiddenByPolicy", ""},
		{"loopback", "http", []string{"url", "https://localhost:1/"}, "ForbiddenByPolicy", ""},
		{"a private address", "http", []string{"url", "https://10.0.0.1/"}, "ForbiddenByPolicy", ""},
		{"plain http", "http", []string{"url", strings.Replace(h, "https", "http", 1)}, "InvalidParams", "plain http"},
		{"a file", "http", []string{"url", "file:///etc/passwd"}, "InvalidParams", "url"},
		{"an unknown mode of the cache", "http", []string{"url", h + "/task.yaml", "cache", "sometimes"}, "InvalidParams", "always, never, auto"},
		{"percent signs", "http", []string{"url", h + "/%25s%25n", "%s%n%d", "%!s"}, "NotFound", "/%25s%25n"},
		{"429", "http", []string{"url", h + "/429"}, "RemoteUnavailable", "429"},
		{"503", "http", []string{"url", h + "/503"}, "RemoteUnavailable", "503"},
		{"a file, harmless", "http", []string{"url", h + "/task.yaml"}, "", ""},

		{"an endless page", "hub", []string{"name", "endless", "version", "1.0.0"}, "ContentTooLarge", ""},
		{"a Secret behind the task of a hub", "hub", []string{"name", "two", "version", "1.0.0"}, "ResolutionFailed", "several YAML documents"},
		{"a hub at the metadata service", "hub", []string{"name", "build", "version", "1.0.0", "url", "http://169.254.169.254"}, "ForbiddenByPolicy", ""},
		{"a hub, harmless", "hub", []string{"name", "build", "version", "1.0.0"}, "", ""},

		{"an exabyte", "bundles", bundle("exabyte"), "ContentTooLarge", ""},
		{"a bomb", "bundles", bundle("bomb"), "ContentTooLarge", ""},
		{"21 layers", "bundles", bundle("many"), "ContentTooLarge", ""},
		{"a Secret behind the task of a bundle", "bundles", bundle("two"), "ResolutionFailed", "several YAML documents"},
		{"a bundle, harmless", "bundles", bundle("good"), "", ""},

		{"a Secret", "cluster", []string{"kind", "secret", "name", "s"}, "ForbiddenByPolicy", ""},
		{"a Secret of another namespace", "cluster", []string{"kind", "secret", "apiVersion", "v1", "name", "s", "namespace", other}, "ForbiddenByPolicy", ""},
		{"a blocked namespace", "cluster", []string{"name", "t", "namespace", "kube-system"}, "ForbiddenByPolicy", "kube-system"},
	}
	var requests []*v1beta1.ResolutionRequest
	for i, a := range attacks {
		requests = append(requests, newRequest(fmt.Sprintf("a%d", i), a.resolver, a.params...))
	}
	s.create(t, ns, requests...)
	got := s.ended(t, ns, len(attacks))
	for i, a := range attacks {
		t.Run(a.resolver+"/"+a.name, func(t *testing.T) {
			if a.reason == "" {
				wantContent(t, got[fmt.Sprintf("a%d", i)], taskText)
				return
			}
			wantFailure(t, got[fmt.Sprintf("a%d", i)], a.reason, a.text)
		})
	}
	if _, err := os.Stat(planted); err == nil {
		t.Error("a command was run")
	}

	t.Run("values of other types", func(t *testing.T) {
		for name, v := range map[string]v1beta1.ParamValue{
			"array": v1beta1.ArrayValue(h + "/task.yaml"), "object": v1beta1.ObjectValue(map[string]string{"url": h + "/task.yaml"}),
		} {
			r := newRequest(name, "git", "url", repos.URL+"/r.git", "pathInRepo", "task.yaml")
			r.Spec.Params = append(r.Spec.Params, v1beta1.Param{Name: "revision", Value: v})
			wantFailure(t, s.resolve(t, ns, r), "InvalidParams", "parameter revision is an "+name+", want a string")
		}
	})

	t.Run("what a credential has fetched is not for others", func(t *testing.T) {
		for name, params := range map[string][]string{
			"http": {"url", h + "/locked", "http-token-secret", "mine", "cache", "always"},
			"git":  {"url", locked.URL + "/r.git", "pathInRepo", "task.yaml", "gitToken", "mine", "cache", "always"},
		} {
			wantContent(t, s.resolve(t, ns, newRequest("locked-"+name, name, params...)), taskText)
			wantFailure(t, s.resolve(t, other, newRequest("own-"+name, name, params...)), "AccessDenied", "")
			without := append(append([]string{}, params[:len(params)-4]...), "cache", "always")
			wantFailure(t, s.resolve(t, ns, newRequest("without-"+name, name, without...)), "AccessDenied", "")
			wantFailure(t, s.resolve(t, other, newRequest("without-"+name, name, without...)), "AccessDenied", "")
			wantContent(t, s.resolve(t, ns, newRequest("again-"+name, name, params...)), taskText)
		}
	})

	t.Run("a token does not follow a redirect", func(t *testing.T) {
		r := s.resolve(t, ns, newRequest("to-thief", "http", "url", h+"/to-thief", "http-token-secret", "mine"))
		wantContent(t, r, "stolen: 1\n")
	})
	if v := leaked.Load(); v != "" {
		t.Errorf("the thief has %s", v)
	}

	t.Run("long names", func(t *testing.T) {
		r := newRequest(strings.Repeat("n", 253), strings.Repeat("x", 63))
		r.Annotations = map[string]string{resolution.AnnotationTimeout: "1s"}
		wantFailure(t, s.resolve(t, ns, r), "ResolutionTimedOut", "no process runs the resolver")
	})

	for role, p := range processes {
		if _, err := p.Get(t.Context(), "/readyz"); err != nil {
			t.Errorf("%s: %v", role, err)
		}
		// The limit of the manifests for a resolver with a smaller one; no attack may take that much.
		if peak := peakMemory(t, p); peak > 256<<20 {
			t.Errorf("%s has used %d MiB", role, peak>>20)
		}
	}
}

// peakMemory is the most memory that a process has held, 0 where the system does not tell.
func peakMemory(t *testing.T, p *process) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	return 0
}
