//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/tools/gittest"
)

const someCommit = "0123456789abcdef0123456789abcdef01234567"

// provider speaks the API of an SCM provider, by TLS with a CA that nobody knows, for those who have the token: of the
// repository team/catalog it has the branch release/v1 and the file tasks/build it.yaml.
func provider(t *testing.T, login string, answers map[string]string) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var refused atomic.Int64
	refuse := demand(strings.SplitN(login, ": ", 2)[0], strings.SplitN(login, ": ", 2)[1])
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuse(w, r) {
			refused.Add(1)
			return
		}
		body, ok := answers[r.URL.RequestURI()]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return server, &refused
}

// selfSigned is a certificate for 127.0.0.1 that nobody has heard of.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// The way of a credential: a Secret in the namespace of the request, which its owner opens to the resolver by the command
// that a first request tells, to a server with a private CA.
func TestE2EProvidersWithCredentialsFromTheCluster(t *testing.T) {
	s := standsAlone(t)
	ns := s.namespace(t)
	providers := []struct {
		kind, token, login, clone string
		answers                   map[string]string
	}{
		{"github", "tok", "Authorization: Bearer tok", "/team/catalog.git", map[string]string{
			"/api/v3/repos/team/catalog/commits/release/v1":                               `{"sha":"` + someCommit + `"}`,
			"/api/v3/repos/team/catalog/contents/tasks/build%20it.yaml?ref=" + someCommit: taskText,
		}},
		{"gitlab", "tok", "Private-Token: tok", "/team/catalog.git", map[string]string{
			"/api/v4/projects/team%2Fcatalog/repository/commits/release%2Fv1":                                `{"id":"` + someCommit + `"}`,
			"/api/v4/projects/team%2Fcatalog/repository/files/tasks%2Fbuild%20it.yaml/raw?ref=" + someCommit: taskText,
		}},
		{"gitea", "tok", "Authorization: token tok", "/team/catalog.git", map[string]string{
			"/api/v1/repos/team/catalog/commits?limit=1&stat=false&verification=false&files=false&sha=release%2Fv1": `[{"sha":"` + someCommit + `"}]`,
			"/api/v1/repos/team/catalog/raw/tasks/build%20it.yaml?ref=" + someCommit:                                taskText,
		}},
		{"bitbucketserver", "tok", "Authorization: Bearer tok", "/scm/team/catalog.git", map[string]string{
			"/rest/api/1.0/projects/team/repos/catalog/commits?limit=1&until=release%2Fv1":         `{"values":[{"id":"` + someCommit + `"}]}`,
			"/rest/api/1.0/projects/team/repos/catalog/raw/tasks/build%20it.yaml?at=" + someCommit: taskText,
		}},
		{"bitbucketcloud", "joe:pw", "Authorization: " + basic("joe", "pw"), "/team/catalog.git", map[string]string{
			"/2.0/repositories/team/catalog/commits?pagelen=1&include=release%2Fv1":       `{"values":[{"hash":"` + someCommit + `"}]}`,
			"/2.0/repositories/team/catalog/src/" + someCommit + "/tasks/build%20it.yaml": taskText,
		}},
	}
	config := map[string]string{"allowed-addresses": "127.0.0.1"}
	servers := map[string]*httptest.Server{}
	refusals := map[string]*atomic.Int64{}
	for _, p := range providers {
		servers[p.kind], refusals[p.kind] = provider(t, p.login, p.answers)
		config["ca-bundle"] += gittest.PEM(servers[p.kind].Certificate().Raw)
		// The operator has a configuration of its own for each, by Tekton's keys, with a token for all namespaces.
		config[p.kind+".scm-type"], config[p.kind+".server-url"], config[p.kind+".default-org"] = p.kind, servers[p.kind].URL, "team"
		config[p.kind+".api-token-secret-name"], config[p.kind+".api-token-secret-key"], config[p.kind+".api-token-secret-namespace"] = "operators-"+p.kind, "key", systemNamespace
		s.secret(t, ns, p.kind, corev1.SecretTypeOpaque, map[string][]byte{"token": []byte(p.token)})
		s.secret(t, systemNamespace, "operators-"+p.kind, corev1.SecretTypeOpaque, map[string][]byte{"key": []byte(p.token)})
	}
	https := gittest.NewServer(t, true)
	gittest.NewOrigin(t, https.Root, "catalog.git", map[string]string{"task.yaml": taskText})
	config["ca-bundle"] += https.CA
	ssh := gittest.NewSSHServer(t, true)
	commit := gittest.Run(t, gittest.NewOrigin(t, ssh.Root, "catalog.git", map[string]string{"task.yaml": taskText}).Dir, nil, "rev-parse", "main")
	files := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a := r.Header.Get("Authorization"); a != basic("joe", "pw") && a != "Bearer tok" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(taskText))
	}))
	t.Cleanup(files.Close)
	s.secret(t, ns, "login", corev1.SecretTypeBasicAuth, map[string][]byte{"username": []byte("joe"), "password": []byte("pw")})
	s.secret(t, ns, "ssh", corev1.SecretTypeSSHAuth, ssh.Secret())
	s.secret(t, ns, "wrong", corev1.SecretTypeOpaque, map[string][]byte{"token": []byte("wrong")})
	s.configure(t, "git-resolver-config", config)
	s.configure(t, "http-resolver-config", map[string]string{"allowed-addresses": "127.0.0.1", "ca-bundle": gittest.PEM(files.Certificate().Raw)})
	s.startAll(t, "resolution", "resolver-git", "resolver-http")

	chosen := func(kind, secret string) []string {
		return []string{
			"scmType", kind, "serverURL", servers[kind].URL, "token", secret, "org", "team", "repo", "catalog", "revision", "release/v1", "pathInRepo", "tasks/build it.yaml",
		}
	}
	// Nobody has opened the namespace yet.
	for role, r := range map[string][]string{"git": chosen("github", "github"), "http": {"url", files.URL, "http-token-secret", "github"}} {
		message := wantFailure(t, s.resolve(t, ns, newRequest("too-early-"+role, role, r...)), "AccessDenied", "kubectl create rolebinding")
		s.rolebinding(t, message)
	}
	if n := refusals["github"].Load(); n != 0 {
		t.Errorf("the server was asked %d times without the credential", n)
	}

	for _, p := range providers {
		t.Run(p.kind, func(t *testing.T) {
			got := s.resolve(t, ns, newRequest("chosen-"+p.kind, "git", chosen(p.kind, p.kind)...))
			wantContent(t, got, taskText)
			if o := got.Status.Origin(); o == nil || o.URI != "git+"+servers[p.kind].URL+p.clone || o.Digest["sha1"] != someCommit || o.EntryPoint != "tasks/build it.yaml" {
				t.Errorf("origin %+v", o)
			}
			if refusals[p.kind].Load() != 0 {
				t.Error("it was asked without the credential")
			}
			wantFailure(t, s.resolve(t, ns, newRequest("wrong-"+p.kind, "git", chosen(p.kind, "wrong")...)), "AccessDenied", "")
			wantFailure(t, s.resolve(t, ns, newRequest("none-"+p.kind, "git", chosen(p.kind, "none")...)), "NotFound", "none")
			missing := append(chosen(p.kind, p.kind), "cache", "never")
			missing[len(missing)-3] = "tasks/none.yaml"
			wantFailure(t, s.resolve(t, ns, newRequest("missing-"+p.kind, "git", missing...)), "NotFound", "")
		})
	}

	t.Run("with the operator's token", func(t *testing.T) {
		operators := []string{"configKey", "github", "repo", "catalog", "revision", "release/v1", "pathInRepo", "tasks/build it.yaml"}
		message := wantFailure(t, s.resolve(t, ns, newRequest("operators-too-early", "git", operators...)), "AccessDenied", "--namespace="+systemNamespace)
		s.rolebinding(t, message)
		other := s.namespace(t)
		for _, p := range providers {
			operators[1] = p.kind
			wantContent(t, s.resolve(t, other, newRequest("operators-"+p.kind, "git", operators...)), taskText)
		}
	})

	t.Run("https with a private CA", func(t *testing.T) {
		url := https.URL + "/catalog.git"
		https.Set(demand("Authorization", basic("git", "tok")))
		wantContent(t, s.resolve(t, ns, newRequest("https-token", "git", "url", url, "pathInRepo", "task.yaml", "gitToken", "github")), taskText)
		wantFailure(t, s.resolve(t, ns, newRequest("https-wrong", "git", "url", url, "pathInRepo", "task.yaml", "gitToken", "wrong")), "AccessDenied", "")
		wantFailure(t, s.resolve(t, ns, newRequest("https-nobody", "git", "url", url, "pathInRepo", "task.yaml")), "AccessDenied", "")
		https.Set(demand("Authorization", basic("joe", "pw")))
		wantContent(t, s.resolve(t, ns, newRequest("https-login", "git", "url", url, "pathInRepo", "task.yaml", "authSecret", "login")), taskText)
		stranger := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a server that nobody vouches for was asked") }))
		stranger.TLS = &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}, MinVersion: tls.VersionTLS12}
		stranger.Config.ErrorLog = log.New(io.Discard, "", 0)
		stranger.StartTLS()
		t.Cleanup(stranger.Close)
		params := []string{"url", stranger.URL + "/x.git", "pathInRepo", "task.yaml", "gitToken", "github"}
		wantFailure(t, s.resolve(t, ns, newRequest("https-stranger", "git", params...)), "ResolutionFailed", "ca-bundle")
	})

	t.Run("ssh", func(t *testing.T) {
		url := "ssh://git@" + ssh.Address + "/catalog.git"
		got := s.resolve(t, ns, newRequest("ssh", "git", "url", url, "pathInRepo", "task.yaml", "authSecret", "ssh"))
		wantContent(t, got, taskText)
		if o := got.Status.Origin(); o == nil || o.URI != "git+"+url || o.Digest["sha1"] != commit {
			t.Errorf("origin %+v", o)
		}
		strange := gittest.NewSSHKey(t)
		data := ssh.Secret()
		data["ssh-privatekey"] = strange.PEM
		s.secret(t, ns, "strange-user", corev1.SecretTypeSSHAuth, data)
		data = ssh.Secret()
		host, _, _ := strings.Cut(ssh.Address, ":")
		data["known_hosts"] = []byte("[" + host + "]:" + strings.TrimPrefix(ssh.Address, host+":") + " " + strange.Public + "\n")
		s.secret(t, ns, "strange-host", corev1.SecretTypeSSHAuth, data)
		for _, name := range []string{"strange-user", "strange-host"} {
			message := wantFailure(t, s.resolve(t, ns, newRequest(name, "git", "url", url, "pathInRepo", "task.yaml", "authSecret", name)), "AccessDenied", "")
			if strings.Contains(message, base64.StdEncoding.EncodeToString(strange.PEM)) || strings.Contains(message, "PRIVATE KEY") {
				t.Errorf("the message has the key: %s", message)
			}
		}
	})

	t.Run("http", func(t *testing.T) {
		wantContent(t, s.resolve(t, ns, newRequest("http-bearer", "http", "url", files.URL+"/a", "http-token-secret", "github")), taskText)
		wantContent(t, s.resolve(t, ns, newRequest("http-basic", "http", "url", files.URL+"/a", "http-username", "joe", "http-password-secret", "login")), taskText)
		wantFailure(t, s.resolve(t, ns, newRequest("http-nobody", "http", "url", files.URL+"/a")), "AccessDenied", "")
	})
}
