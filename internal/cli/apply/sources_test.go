package apply

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"sluice.dev/internal/cli/command"
	resolvecmd "sluice.dev/internal/cli/resolve"
	"sluice.dev/resolve"
	"sluice.dev/resolve/verify"
	"sluice.dev/tools/bundletest"
	"sluice.dev/tools/gittest"
)

// places is remotes on this machine and files, all of which hold ConfigMaps.
type places struct {
	dir, web, registry, repo string
	commit                   string
	env                      *command.Env
	stderr                   *bytes.Buffer
}

const cmText = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n"

func cm(name string) string { return strings.ReplaceAll(cmText, "NAME", name) }

func newPlaces(t *testing.T) *places {
	t.Helper()
	p := &places{dir: t.TempDir(), stderr: &bytes.Buffer{}}
	p.env = &command.Env{In: strings.NewReader(cm("stdin")), Out: io.Discard, Err: p.stderr, Now: time.Now, Getenv: func(string) string { return "" }}
	p.write(t, "files/a.yaml", cm("file"))
	p.write(t, "files/sub/b.yaml", cm("below"))
	mux := http.NewServeMux()
	mux.HandleFunc("/web.yaml", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, cm("web")) })
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	p.web = web.URL
	images := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(images.Close)
	p.registry = strings.TrimPrefix(images.URL, "http://")
	repository, err := name.NewRepository(p.registry+"/team/app", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&bundletest.Registry{Repo: repository}).Push(t.Context(), "v1", bundletest.Layer{
		MediaType: types.MediaType("application/vnd.cncf.flux.content.v1.tar+gzip"), Annotations: map[string]string{},
		Blob: bundletest.Gzip(bundletest.Tar(bundletest.File{Name: "b.yaml", Data: []byte(cm("oci-b"))}, bundletest.File{Name: "a.yaml", Data: []byte(cm("oci-a"))})),
	})
	if err != nil {
		t.Fatal(err)
	}
	p.repository(t)
	return p
}

func (p *places) write(t *testing.T, file, text string) {
	t.Helper()
	path := filepath.Join(p.dir, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// repository makes a repository with the tag v1 and a later commit, and serves it.
func (p *places) repository(t *testing.T) {
	t.Helper()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", filepath.Join(p.dir, "repo.git"), "-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	p.write(t, "repo.git/deploy/a.yaml", cm("git"))
	p.write(t, "repo.git/deploy/deep/down/b.yaml", cm("git-below"))
	p.write(t, "repo.git/deploy/.hidden/c.yaml", cm("git-hidden"))
	git("init", "-q", "-b", "main")
	git("add", ".")
	git("commit", "-qm", "one")
	git("tag", "v1")
	p.commit = git("rev-parse", "HEAD")
	p.write(t, "repo.git/deploy/a.yaml", cm("git-later"))
	git("commit", "-qam", "two")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := cgi.Handler{
			Path: "/usr/bin/env", Args: []string{"git", "http-backend"}, Stderr: io.Discard,
			Env: []string{"GIT_PROJECT_ROOT=" + p.dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_PROTOCOL=" + r.Header.Get("Git-Protocol")},
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.repo = strings.TrimPrefix(server.URL, "http://")
}

// names loads sources and gives the names of their objects.
func (p *places) names(ctx context.Context, f sourceFlags) ([]string, *loaded, error) {
	l, err := loadAllSources(ctx, p.env, &f, nil)
	if err != nil {
		return nil, nil, err
	}
	var out []string
	for _, o := range l.objects {
		out = append(out, o.Name)
	}
	return out, l, nil
}

func TestSourcesAreResolvedAndToldApart(t *testing.T) {
	p := newPlaces(t)
	t.Chdir(p.dir)
	request := `apiVersion: resolution.tekton.dev/v1beta1
kind: ResolutionRequest
metadata: {name: r, labels: {resolution.tekton.dev/type: git}}
spec:
  params:
  - {name: url, value: "http://` + p.repo + `/repo.git"}
  - {name: revision, value: v1}
  - {name: pathInRepo, value: deploy/a.yaml}
`
	p.write(t, "request.yaml", request)
	p.write(t, "both.yaml", request+"---\n"+cm("beside"))
	commit := map[string]string{"sha1": p.commit}
	for _, c := range []struct {
		source string
		want   []string
		digest map[string]string
	}{
		{"files", []string{"file", "below"}, nil},
		{"files/a.yaml", []string{"file"}, nil},
		{"-", []string{"stdin"}, nil},
		{p.web + "/web.yaml", []string{"web"}, resolve.SHA256([]byte(cm("web")))},
		{"oci://" + p.registry + "/team/app:v1", []string{"oci-a", "oci-b"}, nil},
		{"git+http://" + p.repo + "/repo.git//deploy?ref=v1", []string{"git", "git-below"}, commit},
		{"git+http://" + p.repo + "/repo.git//deploy/a.yaml?ref=" + p.commit, []string{"git"}, commit},
		{"git+http://" + p.repo + "/repo.git//deploy", []string{"git-later", "git-below"}, nil},
		{"git+file://" + p.dir + "/repo.git//deploy?ref=v1", []string{"git", "git-below"}, commit},
		{"git+file://" + p.dir + "/repo.git", []string{"git-later", "git-below"}, nil},
		{"request.yaml", []string{"git"}, commit},
		{"both.yaml", []string{"beside", "git"}, nil},
	} {
		t.Run(strings.NewReplacer(p.web, "web", p.repo, "repo", p.registry, "registry", p.dir, "dir", p.commit, "commit").Replace(c.source), func(t *testing.T) {
			got, l, err := p.names(t.Context(), sourceFlags{sources: []string{c.source}, RemoteFlags: resolvecmd.RemoteFlags{Allow: []string{"127.0.0.1"}, Plain: true}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			s := l.sources[len(l.sources)-1]
			if c.digest != nil && !cmp.Equal(c.digest, s.Digest) || len(s.Digest) != 1 || s.Name == "" {
				t.Errorf("source %+v, want the digest %v", s, c.digest)
			}
		})
	}
}

// git+ssh takes the user's own key and known_hosts.
func TestASourceIsFetchedBySSH(t *testing.T) {
	s := gittest.NewSSHServer(t, true)
	gittest.NewOrigin(t, s.Root, "shop.git", map[string]string{"deploy/a.yaml": cm("ssh"), "deploy/sub/b.yaml": cm("ssh-below"), "other.yaml": cm("other")})
	p := &places{dir: t.TempDir(), stderr: &bytes.Buffer{}}
	p.env = &command.Env{Out: io.Discard, Err: p.stderr, Now: time.Now, Getenv: func(name string) string { return map[string]string{"HOME": p.dir}[name] }}
	p.write(t, ".ssh/known_hosts", string(s.Secret()["known_hosts"]))
	source := "git+ssh://git@" + s.Address + "/shop.git//deploy?ref=main"
	p.write(t, "key", string(s.User.PEM))
	flags := sourceFlags{sources: []string{source}, RemoteFlags: resolvecmd.RemoteFlags{Allow: []string{"127.0.0.1"}}}
	if _, _, err := p.names(t.Context(), flags); err == nil || !strings.Contains(err.Error(), "ssh-privatekey") {
		t.Errorf("without a key: %v", err)
	}
	withFlag := flags
	withFlag.SSHKey = filepath.Join(p.dir, "key")
	p.write(t, ".ssh/id_ed25519", string(gittest.NewSSHKey(t).PEM))
	if _, _, err := p.names(t.Context(), flags); err == nil || !strings.Contains(err.Error(), "refuses") {
		t.Errorf("with another key: %v", err)
	}
	check := func(how string, f sourceFlags) {
		t.Helper()
		got, l, err := p.names(t.Context(), f)
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		if diff := cmp.Diff([]string{"ssh", "ssh-below"}, got); diff != "" || len(l.sources[0].Digest["sha1"]) != 40 || l.sources[0].URI != "git+ssh://git@"+s.Address+"/shop.git" {
			t.Errorf("%s: %+v %s", how, l.sources, diff)
		}
	}
	check("--ssh-key", withFlag)
	p.write(t, ".ssh/id_ed25519", string(s.User.PEM))
	check("~/.ssh", flags)
	p.write(t, ".ssh/known_hosts", "")
	if _, _, err := p.names(t.Context(), flags); err == nil || !strings.Contains(err.Error(), "known_hosts") {
		t.Errorf("a server that nobody knows: %v", err)
	}
}

func TestAFolderOfKustomizeOrHelmIsToBeBuiltFirst(t *testing.T) {
	p := newPlaces(t)
	p.write(t, "kustomize/kustomization.yaml", "resources: [a.yaml]\n")
	p.write(t, "kustomize/a.yaml", cm("a"))
	p.write(t, "named/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n")
	in := func(f string) string { return filepath.Join(p.dir, f) }
	for source, want := range map[string]string{
		in("kustomize"):                    "build " + in("kustomize") + " first: kubectl kustomize " + in("kustomize") + " | sluice apply -f -",
		in("kustomize/kustomization.yaml"): "kubectl kustomize " + in("kustomize") + " |",
		in("named"):                        "kubectl kustomize " + in("named") + " |",
		"../testdata/helm/chart":           "helm template RELEASE ../testdata/helm/chart --include-crds | sluice apply -f -",
	} {
		if _, _, err := p.names(t.Context(), sourceFlags{sources: []string{source}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", source, err)
		}
	}
	if got, _, err := p.names(t.Context(), sourceFlags{sources: []string{in("kustomize/a.yaml")}}); err != nil || !cmp.Equal([]string{"a"}, got) {
		t.Errorf("a file of it: %v, %v", got, err)
	}
	p.write(t, "plain/a.yaml", "words\n")
	if _, _, err := p.names(t.Context(), sourceFlags{sources: []string{in("plain")}}); err == nil || strings.Contains(err.Error(), "built") {
		t.Errorf("another folder: %v", err)
	}
}

func TestSeveralSourcesAddUp(t *testing.T) {
	p := newPlaces(t)
	got, l, err := p.names(t.Context(), sourceFlags{sources: []string{filepath.Join(p.dir, "files"), p.web + "/web.yaml", "-"}, RemoteFlags: resolvecmd.RemoteFlags{Allow: []string{"127.0.0.1"}, Plain: true}})
	if diff := cmp.Diff([]string{"file", "below", "web", "stdin"}, got); diff != "" || err != nil || len(l.sources) != 3 {
		t.Errorf("%v: %s", err, diff)
	}
}

func TestSourcesThatAreRefused(t *testing.T) {
	p := newPlaces(t)
	p.write(t, "template.yaml", "kind: {{ .Kind }}\n")
	p.write(t, "word.yaml", "hello\n")
	p.write(t, "nokind.yaml", "metadata: {name: a}\n")
	p.write(t, "request.yaml", "apiVersion: resolution.tekton.dev/v1beta1\nkind: ResolutionRequest\nmetadata: {name: r}\n")
	in := func(f string) string { return filepath.Join(p.dir, f) }
	allow := []string{"127.0.0.1"}
	for name, c := range map[string]struct {
		flags sourceFlags
		want  string
	}{
		"none":                              {sourceFlags{}, "give a source with -f"},
		"standard input twice":              {sourceFlags{sources: []string{"-", "-"}}, "given twice"},
		"no such file":                      {sourceFlags{sources: []string{in("nothing")}}, "no such file"},
		"the cluster":                       {sourceFlags{sources: []string{"cluster"}}, "./cluster"},
		"an unknown scheme":                 {sourceFlags{sources: []string{"ftp://user:secret@example.com/x"}}, "ftp://example.com/x: the scheme ftp:// is not known"},
		"a loopback address":                {sourceFlags{sources: []string{p.web + "/web.yaml"}, RemoteFlags: resolvecmd.RemoteFlags{Plain: true}}, "--allow-address"},
		"plain http":                        {sourceFlags{sources: []string{p.web + "/web.yaml"}, RemoteFlags: resolvecmd.RemoteFlags{Allow: allow}}, "plain http"},
		"a registry without TLS":            {sourceFlags{sources: []string{"oci://" + p.registry + "/team/app:v1"}, RemoteFlags: resolvecmd.RemoteFlags{Allow: allow}}, "oci://"},
		"no such artifact":                  {sourceFlags{sources: []string{"oci://" + p.registry + "/team/app:v2"}, RemoteFlags: resolvecmd.RemoteFlags{Allow: allow, Plain: true}}, "v2"},
		"no such revision":                  {sourceFlags{sources: []string{"git+http://" + p.repo + "/repo.git//deploy?ref=v9"}, RemoteFlags: resolvecmd.RemoteFlags{Allow: allow}}, "v9"},
		"no such path":                      {sourceFlags{sources: []string{"git+http://" + p.repo + "/repo.git//nothing?ref=v1"}, RemoteFlags: resolvecmd.RemoteFlags{Allow: allow}}, "nothing"},
		"another key behind ?":              {sourceFlags{sources: []string{"git+http://" + p.repo + "/repo.git//deploy?revision=v1"}}, `unknown key "revision"`},
		"a relative path of a repository":   {sourceFlags{sources: []string{"git+file://repo//deploy"}}, "absolute path"},
		"no repository":                     {sourceFlags{sources: []string{"git+file:///nothing//deploy"}}, "no repository"},
		"a template":                        {sourceFlags{sources: []string{in("template.yaml")}}, "template.yaml:1: is a template"},
		"a word":                            {sourceFlags{sources: []string{in("word.yaml")}}, "word.yaml:1: is a string"},
		"an object without a kind":          {sourceFlags{sources: []string{in("nokind.yaml")}}, "nokind.yaml:1: an object without a kind"},
		"a request without a resolver":      {sourceFlags{sources: []string{in("request.yaml")}}, "request.yaml:1: ResolutionRequest: has no label"},
		"ssh without a key":                 {sourceFlags{sources: []string{"git+ssh://git@example.com/x.git//a"}}, "ssh-privatekey"},
		"verification without policies":     {sourceFlags{sources: []string{p.web + "/web.yaml"}, RemoteFlags: resolvecmd.RemoteFlags{Allow: allow, Plain: true, Verification: in("nothing")}}, "--verification"},
		"what no verification policy knows": {sourceFlags{sources: []string{p.web + "/web.yaml"}, RemoteFlags: resolvecmd.RemoteFlags{Allow: allow, Plain: true, Verification: in("files/a.yaml")}}, "--verification"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := p.names(t.Context(), c.flags)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}

func TestWhatMayBeAPasswordIsNotShown(t *testing.T) {
	for source, want := range map[string]string{
		"https://h.test/a@b":             "https://h.test/a@b",
		"git+https://u:p@h.test/r//x":    "git+https://h.test/r//x",
		"git+https://u:p@ss@h.test/r//x": "git+https://h.test/r//x",
		"oci://u:p@h.test":               "oci://h.test",
		"-":                              "-",
	} {
		if got := resolvecmd.RedactUserInfo(source); got != want {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
}

func TestSourcesPassTheVerificationThatIsAskedFor(t *testing.T) {
	p := newPlaces(t)
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := verify.Sign([]byte(cm("signed")), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	signed := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: signed\n  annotations: {" + verify.AnnotationSignature + ": " + signature + "}\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := map[string]string{"/signed.yaml": signed, "/changed.yaml": strings.Replace(signed, "name: signed", "name: changed", 1), "/unsigned.yaml": cm("unsigned")}[r.URL.Path]
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	p.write(t, "policies.yaml", "apiVersion: tekton.dev/v1alpha1\nkind: VerificationPolicy\nmetadata: {name: p}\nspec:\n  resources: [{pattern: '.*'}]\n  authorities:\n  - name: k\n    key:\n      data: |\n        "+
		strings.ReplaceAll(strings.TrimSpace(public), "\n", "\n        ")+"\n")
	for file, ok := range map[string]bool{"signed": true, "changed": false, "unsigned": false} {
		got, _, err := p.names(t.Context(), sourceFlags{sources: []string{server.URL + "/" + file + ".yaml"}, RemoteFlags: resolvecmd.RemoteFlags{Allow: []string{"127.0.0.1"}, Plain: true, Verification: filepath.Join(p.dir, "policies.yaml")}})
		if ok && (err != nil || !cmp.Equal(got, []string{file})) || !ok && (err == nil || !strings.Contains(err.Error(), "sign")) {
			t.Errorf("%s: %v, error %v", file, got, err)
		}
	}
}

// TestAConfigurationOfKappsIsASourceOfItsOwn: kapp's users keep it in a file beside the objects, or in a ConfigMap among them.
func TestAConfigurationOfKappsIsASourceOfItsOwn(t *testing.T) {
	p := newPlaces(t)
	const text = "apiVersion: kapp.k14s.io/v1alpha1\nkind: Config\nwaitRules: []\n"
	p.write(t, "kapp-config.yml", text)
	p.write(t, "in-configmap.yml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config, labels: {kapp.k14s.io/config: \"\"}}\ndata:\n  config.yml: |\n    "+strings.ReplaceAll(text, "\n", "\n    ")+"\n")
	path := func(name string) string { return filepath.Join(p.dir, name) }
	for _, c := range []struct{ sources, want []string }{
		{[]string{path("kapp-config.yml"), path("files")}, []string{"file", "below"}},
		{[]string{path("files"), path("in-configmap.yml")}, []string{"file", "below", "config"}},
	} {
		got, l, err := p.names(t.Context(), sourceFlags{sources: c.sources})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || len(l.configs) != 1 || !strings.Contains(string(l.configs[0].Data), "waitRules") {
			t.Errorf("%v: %v, %s", c.sources, l.configs, diff)
		}
	}
	if _, _, err := p.names(t.Context(), sourceFlags{sources: []string{path("kapp-config.yml")}}); err == nil || !strings.Contains(err.Error(), "no object") {
		t.Errorf("a configuration alone: %v", err)
	}
}
