package bundle

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"sluice.dev/resolve"
	"sluice.dev/tools/bundletest"
)

const (
	user     = "puller"
	password = "s3cr3t-pass"
)

func TestCredentials(t *testing.T) {
	secrets := fakeSecrets{
		"ns/good":    dockerConfig(regHost, user, password),
		"ns/bad":     dockerConfig(regHost, user, "wrong"),
		"ns/other":   dockerConfig("other.example.com", user, password),
		"ns/old":     {".dockercfg": []byte(`{"https://reg.example.com/v1/":{"username":"` + user + `","password":"` + password + `"}}`)},
		"ns/broken":  {".dockerconfigjson": []byte(`{"auths":{"reg.example.com":{"auth":"` + password + `"}}}`)},
		"ns/nojson":  {".dockerconfigjson": []byte(password)},
		"ns/noport":  dockerConfig("reg.example.com:8443", user, password),
		"ns/empty":   {".dockerconfigjson": []byte(`{"auths":{}}`)},
		"ns/flat":    {".dockerconfigjson": []byte(`{"reg.example.com":{"auth":"` + password + `"}}`)},
		"ns/laptop":  {".dockerconfigjson": []byte(`{"auths":{"reg.example.com":{}},"credsStore":"desktop"}`)},
		"ns/helper":  {".dockerconfigjson": []byte(`{"credHelpers":{"reg.example.com":"ecr-login"}}`)},
		"ns/opaque":  {"password": []byte(password)},
		"else/there": dockerConfig(regHost, user, password),
	}
	accounts := fakeAccounts{
		"ns/default": {"missing", "other", "good"}, "ns/none": {}, "ns/builder": {"forbidden"}, "ns/broken": {"broken"}, "ns/elsewhere": {"other", "missing", "empty"},
	}
	for _, tt := range []struct {
		name     string
		params   []string
		opts     []Options
		secrets  resolve.Secrets
		public   bool
		want     resolve.Reason
		wantText string
	}{
		{"a secret", []string{ParamSecret, "good"}, nil, secrets, false, "", ""},
		{"a secret in the old form", []string{ParamSecret, "old"}, nil, secrets, false, "", ""},
		{"a secret with a wrong password", []string{ParamSecret, "bad"}, nil, secrets, false, resolve.ReasonDenied, "refuses access"},
		{"a secret for another registry", []string{ParamSecret, "other"}, nil, secrets, false, resolve.ReasonDenied, "refuses access"},
		{"a secret for another registry, which it names", []string{ParamSecret, "other"}, nil, secrets, false, resolve.ReasonDenied, "the Secret ns/other has no credential for reg.example.com; it has one for other.example.com"},
		{"a secret for another port", []string{ParamSecret, "noport"}, nil, secrets, false, resolve.ReasonDenied, "no credential for reg.example.com; it has one for reg.example.com:8443"},
		{"a secret without a registry", []string{ParamSecret, "empty"}, nil, secrets, false, resolve.ReasonDenied, "the Secret ns/empty has no credential for reg.example.com"},
		{"a secret without auths", []string{ParamSecret, "flat"}, nil, secrets, false, resolve.ReasonDenied, `registries stand below "auths"`},
		{"a secret copied from a laptop", []string{ParamSecret, "laptop"}, nil, secrets, false, resolve.ReasonDenied, "no credential for reg.example.com; credsStore and credHelpers name programs, which Sluice does not run"},
		{"a secret with a helper", []string{ParamSecret, "helper"}, nil, secrets, false, resolve.ReasonDenied, "which Sluice does not run"},
		{"two imagePullSecrets, none for the registry", []string{ParamServiceAccount, "elsewhere"}, []Options{{Accounts: accounts}}, secrets, false, resolve.ReasonDenied, "the Secrets ns/other, ns/empty have no credential for reg.example.com; they have one for other.example.com"},
		{"a secret of another namespace", []string{ParamSecret, "there"}, nil, secrets, false, resolve.ReasonNotFound, "ns/there"},
		{"a secret that may not be read", []string{ParamSecret, "forbidden"}, nil, secrets, true, resolve.ReasonDenied, "RoleBinding"},
		{"a broken secret", []string{ParamSecret, "broken"}, nil, secrets, true, resolve.ReasonDenied, "ns/broken"},
		{"a secret that is no JSON", []string{ParamSecret, "nojson"}, nil, secrets, true, resolve.ReasonDenied, "ns/nojson"},
		{"a secret of another type", []string{ParamSecret, "opaque"}, nil, secrets, true, resolve.ReasonDenied, "dockerconfigjson"},
		{"no secrets at all", []string{ParamSecret, "good"}, nil, nil, true, resolve.ReasonDenied, "cannot be read here"},
		{"a secret goes before the ServiceAccount", []string{ParamSecret, "good", ParamServiceAccount, "builder"}, nil, secrets, false, "", ""},
		{"the default ServiceAccount", nil, []Options{{Accounts: accounts}}, secrets, false, "", ""},
		{"a ServiceAccount without secrets", []string{ParamServiceAccount, "none"}, []Options{{Accounts: accounts}}, secrets, false, resolve.ReasonDenied, "refuses access"},
		{"a ServiceAccount whose secret may not be read", []string{ParamServiceAccount, "builder"}, []Options{{Accounts: accounts}}, secrets, true, resolve.ReasonDenied, "RoleBinding"},
		{"a ServiceAccount whose secret is broken", []string{ParamServiceAccount, "broken"}, []Options{{Accounts: accounts}}, secrets, true, resolve.ReasonDenied, "ns/broken"},
		{"a ServiceAccount that may not be read", []string{ParamServiceAccount, "x"}, []Options{{Accounts: accounts}}, secrets, true, resolve.ReasonDenied, "RoleBinding"},
		{"no ServiceAccounts at all", []string{ParamServiceAccount, "x"}, nil, secrets, true, resolve.ReasonDenied, "cannot be read here"},
		{"the default one cannot be read, the image is public", nil, []Options{{Accounts: fakeAccounts{}}}, secrets, true, "", ""},
		{"the default one cannot be read, the image is not public", nil, []Options{{Accounts: fakeAccounts{}}}, secrets, false, resolve.ReasonDenied, "RoleBinding"},
		{"nothing is known, the image is public", nil, nil, nil, true, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.push(bundletest.Task("a", yamlA))
			if !tt.public {
				f.front = wantBasic(user, password)
			}
			req := request(tt.params...)
			req.Secrets = tt.secrets
			res, err := f.resolve(req, tt.opts...)
			if tt.want == "" {
				if err != nil || string(res.Data) != yamlA {
					t.Fatalf("%v, %v", res, err)
				}
				return
			}
			e := failure(t, err)
			if e.Reason != tt.want || e.Transient || !strings.Contains(e.Msg, tt.wantText) {
				t.Errorf("reason %q, transient %v, text %q; want %q, %q", e.Reason, e.Transient, e.Msg, tt.want, tt.wantText)
			}
			if strings.Contains(e.Error(), password) {
				t.Errorf("the text has the password: %s", e.Error())
			}
		})
	}
}

// Each Secret that docker or a person writes works, or one sentence says what is wrong with it. No sentence has a part of a credential.
func TestOddSecretsAreUnderstood(t *testing.T) {
	base64Of := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	good := `{"auths":{"reg.example.com":{"auth":"` + base64Of(user+":"+password) + `"}}}`
	of := func(auth string) map[string][]byte {
		return map[string][]byte{".dockerconfigjson": []byte(`{"auths":{"reg.example.com":` + auth + `}}`)}
	}
	config := func(text string) map[string][]byte { return map[string][]byte{".dockerconfigjson": []byte(text)} }
	for what, c := range map[string]struct {
		data map[string][]byte
		want authn.AuthConfig // besides Auth
		told string
	}{
		"as kubectl writes it":         {config(good), authn.AuthConfig{Username: user, Password: password}, ""},
		"auth without padding":         {of(`{"auth":"` + strings.TrimRight(base64Of(user+":"+password), "=") + `"}`), authn.AuthConfig{Username: user, Password: password}, ""},
		"a colon in the password":      {of(`{"auth":"` + base64Of(user+":a:b") + `"}`), authn.AuthConfig{Username: user, Password: "a:b"}, ""},
		"username and password":        {of(`{"username":"u","password":"p","email":"x"}`), authn.AuthConfig{Username: "u", Password: "p"}, ""},
		"identitytoken":                {of(`{"auth":"` + base64Of("0-0:") + `","identitytoken":"it"}`), authn.AuthConfig{Username: "0-0", IdentityToken: "it"}, ""},
		"registrytoken":                {of(`{"registrytoken":"rt"}`), authn.AuthConfig{RegistryToken: "rt"}, ""},
		"auths besides a store":        {config(`{"credsStore":"desktop",` + good[1:]), authn.AuthConfig{Username: user, Password: password}, ""},
		"the old form":                 {map[string][]byte{".dockercfg": []byte(good[len(`{"auths":`) : len(good)-1])}, authn.AuthConfig{Username: user, Password: password}, ""},
		"auth without a colon":         {of(`{"auth":"` + base64Of(password) + `"}`), authn.AuthConfig{}, `the auth of its credential for "reg.example.com" is not USER:PASSWORD in base64`},
		"auth that is not in base64":   {of(`{"auth":"` + user + ":" + password + `"}`), authn.AuthConfig{}, "is not USER:PASSWORD in base64"},
		"auth that is a number":        {of(`{"auth":5}`), authn.AuthConfig{}, `its credential for "reg.example.com" is no object of texts`},
		"a text for a credential":      {of(`"` + password + `"`), authn.AuthConfig{}, `its credential for "reg.example.com" is no object of texts`},
		"null for a credential":        {of(`null`), authn.AuthConfig{}, "the Secret ns/s has no credential for reg.example.com"},
		"no auths":                     {config(`{"auths":{}}`), authn.AuthConfig{}, "the Secret ns/s has no credential for reg.example.com"},
		"null for auths":               {config(`{"auths":null}`), authn.AuthConfig{}, `registries stand below "auths" in .dockerconfigjson`},
		"a list of auths":              {config(`{"auths":["` + password + `"]}`), authn.AuthConfig{}, "its entry .dockerconfigjson has another type of value in auths than Docker's configuration"},
		"null":                         {config(`null`), authn.AuthConfig{}, `registries stand below "auths"`},
		"the old form in the new one":  {config(good[len(`{"auths":`) : len(good)-1]), authn.AuthConfig{}, `registries stand below "auths" in .dockerconfigjson`},
		"the new form in the old one":  {map[string][]byte{".dockercfg": []byte(good)}, authn.AuthConfig{}, `the form with "auths" belongs into .dockerconfigjson`},
		"a helper":                     {config(`{"credHelpers":{"reg.example.com":"gcloud"}}`), authn.AuthConfig{}, "credsStore and credHelpers name programs, which Sluice does not run"},
		"a helper for an empty auth":   {config(`{"auths":{"reg.example.com":{}},"credHelpers":{"reg.example.com":"gcloud"}}`), authn.AuthConfig{}, "which Sluice does not run"},
		"nothing":                      {config(""), authn.AuthConfig{}, "its entry .dockerconfigjson is empty"},
		"encoded twice":                {config(base64Of(good)), authn.AuthConfig{}, "is encoded by base64 twice"},
		"a list":                       {config("[" + good + "]"), authn.AuthConfig{}, "is no JSON object"},
		"YAML":                         {config("auths:\n  reg.example.com:\n    password: " + password), authn.AuthConfig{}, "its entry .dockerconfigjson is no JSON"},
		"the old form that is no JSON": {map[string][]byte{".dockercfg": []byte(password)}, authn.AuthConfig{}, "its entry .dockercfg is no JSON"},
		"another entry":                {map[string][]byte{"config.json": []byte(good)}, authn.AuthConfig{}, "it has no entry .dockerconfigjson, as Secrets of type kubernetes.io/dockerconfigjson have; it has config.json"},
		"another type":                 {map[string][]byte{"username": []byte(user), "password": []byte(password)}, authn.AuthConfig{}, "; it has password, username"},
		"an empty Secret":              {nil, authn.AuthConfig{}, "; it is empty"},
	} {
		var got authn.AuthConfig
		var told string
		creds := &credentials{}
		repo, err := name.NewRepository("reg.example.com/team/x")
		if err != nil {
			t.Fatal(err)
		}
		if err := creds.addSecret("ns", "s", c.data); err != nil {
			told = err.Error()
		} else if told = creds.lackFor(repo); told == "" {
			auth, err := creds.Resolve(repo)
			if err != nil {
				t.Fatal(err)
			}
			config, err := authn.Authorization(t.Context(), auth)
			if err != nil {
				t.Fatal(err)
			}
			got = *config
			got.Auth = ""
		}
		if diff := cmp.Diff(c.want, got); diff != "" || !strings.Contains(told, c.told) || (c.told == "") != (told == "") {
			t.Errorf("%s: %s%s", what, told, diff)
		}
		if strings.Contains(told, password) || strings.Contains(told, base64Of(password)) {
			t.Errorf("%s: the text has the password: %s", what, told)
		}
	}
}

func TestTokenServer(t *testing.T) {
	for _, tt := range []struct {
		name, realm, secret string
		want                resolve.Reason
	}{
		{"gives a token", "https://auth.example.com/token", "good", ""},
		{"refuses", "https://auth.example.com/token", "bad", resolve.ReasonDenied},
		{"without TLS gets no credentials", "http://auth.example.com/token", "good", resolve.ReasonFailed},
		{"at the metadata address", "https://169.254.169.254/token", "good", resolve.ReasonFailed},
		{"that is no URL", "://", "good", resolve.ReasonFailed},
		{"that is a file", "file:///etc/passwd", "good", resolve.ReasonFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.serve("auth.example.com:443", tokenServer(user, password))
			f.servePlain("auth.example.com:80", tokenServer(user, password))
			f.push(bundletest.Task("a", yamlA))
			f.front = wantToken(tt.realm)
			req := request(ParamSecret, tt.secret)
			req.Secrets = fakeSecrets{"ns/good": dockerConfig(regHost, user, password), "ns/bad": dockerConfig(regHost, user, "x")}
			_, err := f.resolve(req)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
			} else if e := failure(t, err); e.Reason != tt.want || e.Transient {
				t.Errorf("reason %q, want %q: %v", e.Reason, tt.want, e)
			}
			for _, r := range f.requests() {
				if r.host == "auth.example.com:80" {
					t.Errorf("plain HTTP: %+v", r)
				}
				if r.host == regHost+":443" && strings.HasPrefix(r.authorization, "Basic") {
					t.Errorf("the password went to the registry: %+v", r)
				}
			}
		})
	}
}

// Azure's docker login leaves an identitytoken in place of a password.
func TestAnIdentityTokenIsExchanged(t *testing.T) {
	f := newFixture(t)
	f.serve("auth.example.com:443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.FormValue("grant_type") != "refresh_token" || r.FormValue("refresh_token") != password {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"access_token":"pull-token"}`))
	}))
	f.push(bundletest.Task("a", yamlA))
	f.front = wantToken("https://auth.example.com/token")
	req := request(ParamSecret, "s")
	req.Secrets = fakeSecrets{"ns/s": {".dockerconfigjson": []byte(`{"auths":{"reg.example.com":{"auth":"MC0wOg==","identitytoken":"` + password + `"}}}`)}}
	if res, err := f.resolve(req); err != nil || string(res.Data) != yamlA {
		t.Errorf("%v, %v", res, err)
	}
}

// A token or a password must not follow a redirect to another host, port or scheme.
func TestCredentialsDoNotFollowRedirects(t *testing.T) {
	const other = "blobs.example.com"
	for _, tt := range []struct {
		name, to, host string
		token          bool
	}{
		{"token, another host", "https://" + other, other + ":443", true},
		{"password, another host", "https://" + other, other + ":443", false},
		{"token, another port", "https://" + regHost + ":8443", regHost + ":8443", true},
		{"password, another port", "https://" + regHost + ":8443", regHost + ":8443", false},
		{"token, another host that asks for it", "https://asks.example.com", "asks.example.com:443", true},
		{"password, another host that asks for it", "https://asks.example.com", "asks.example.com:443", false},
		{"token, a longer name", "https://" + regHost + ".evil.example.com", regHost + ".evil.example.com:443", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			l := bundletest.Task("a", yamlA)
			serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(tt.host, "asks.") {
					w.Header().Add("WWW-Authenticate", `Bearer realm="https://asks.example.com/token",service="x",scope="y"`)
					w.Header().Add("WWW-Authenticate", `Basic realm="x"`)
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				_, _ = w.Write(l.Blob)
			})
			// The certificate of the servers here is good for one label before example.com.
			if strings.Count(tt.host, ".") > 2 {
				f.transport.TLSClientConfig.ServerName = "example.com"
			}
			f.serve(tt.host, serve)
			f.serve("auth.example.com:443", tokenServer(user, password))
			f.push(l)
			wanted := wantBasic(user, password)
			if tt.token {
				wanted = wantToken("https://auth.example.com/token")
			}
			redirect := redirectBlobs(tt.to)
			f.front = func(w http.ResponseWriter, r *http.Request) bool { return wanted(w, r) || redirect(w, r) }
			req := request(ParamSecret, "good")
			req.Secrets = fakeSecrets{"ns/good": dockerConfig(regHost, user, password)}
			res, err := f.resolve(req)
			if strings.HasPrefix(tt.host, "asks.") {
				if e := failure(t, err); e.Reason != resolve.ReasonDenied {
					t.Errorf("reason %q: %v", e.Reason, e)
				}
			} else if err != nil || string(res.Data) != yamlA {
				t.Fatalf("%v, %v", res, err)
			}
			reached := false
			for _, r := range f.requests() {
				if r.host != tt.host {
					continue
				}
				reached = true
				if r.authorization != "" {
					t.Errorf("%s got %q", r.host, r.authorization)
				}
			}
			if !reached {
				t.Errorf("%s was not reached", tt.host)
			}
		})
	}
}

func TestPlainHTTPIsTheOperatorsChoice(t *testing.T) {
	f := newFixture(t)
	f.push(bundletest.Task("a", yamlA))
	for _, host := range []string{regHost, "127.0.0.1:5000", "localhost:5000", "10.0.0.1", "registry.local"} {
		plain := host
		if !strings.Contains(host, ":") {
			plain += ":80"
		}
		f.servePlain(plain, f.registry)
		if host == regHost {
			f.route(host+":443", "127.0.0.1:1") // nobody listens there
			f.transport.CloseIdleConnections()
		}
		f.forget()
		if _, err := f.resolve(request(ParamBundle, host+"/team/bundle:v1")); err == nil {
			t.Errorf("%s: resolved", host)
		}
		if seen := f.requests(); len(seen) > 0 {
			t.Errorf("%s: plain HTTP was spoken: %+v", host, seen)
		}
		allowed := request(ParamBundle, host+"/team/bundle:v1")
		allowed.Config[KeyPlain] = host
		res, err := f.resolve(allowed)
		if err != nil || string(res.Data) != yamlA {
			t.Errorf("%s, allowed: %v", host, err)
		}
		if below, ok := strings.CutPrefix(host, "reg."); ok {
			all := request(ParamBundle, host+"/team/bundle:v1")
			all.Config[KeyPlain] = "other.example, *." + strings.ToUpper(below) + "."
			if _, err := f.resolve(all); err != nil {
				t.Errorf("%s, allowed for its domain: %v", host, err)
			}
		}
		// Tekton speaks plain HTTP to what is named by a private address.
		private := request(ParamBundle, host+"/team/bundle:v1")
		private.Config[KeyPlainPrivate] = "true"
		if _, err := f.resolve(private); (err == nil) != (host != regHost && host != "registry.local") {
			t.Errorf("%s, allowed for private ones: %v", host, err)
		}
	}
}

func TestWhichCredentialIsTaken(t *testing.T) {
	for _, tt := range []struct {
		name, repo string
		keys       []string
		want       string
	}{
		{"the host", "reg.example.com/a", []string{"other.example.com", "reg.example.com"}, "reg.example.com"},
		{"a URL as Docker writes it", "index.docker.io/a/b", []string{"https://index.docker.io/v1/"}, "https://index.docker.io/v1/"},
		{"Docker Hub by its other name", "index.docker.io/a/b", []string{"docker.io"}, "docker.io"},
		{"the longest path", "reg.example.com/a/b/c", []string{"reg.example.com", "reg.example.com/a/b", "reg.example.com/a"}, "reg.example.com/a/b"},
		{"a path in whole segments", "reg.example.com/team-b/x", []string{"reg.example.com/team"}, ""},
		{"a wildcard", "reg.example.com/a", []string{"*.example.com"}, "*.example.com"},
		{"the name rather than a wildcard", "reg.example.com/a", []string{"*.example.com/a", "reg.example.com"}, "reg.example.com"},
		{"a wildcard is one label", "a.b.example.com/a", []string{"*.example.com"}, ""},
		{"a suffix is no match", "evilreg.example.com/a", []string{"reg.example.com"}, ""},
		{"a prefix is no match", "reg.example.com.evil.org/a", []string{"reg.example.com", "reg.example.*"}, ""},
		{"another port", "reg.example.com:5000/a", []string{"reg.example.com"}, ""},
		{"the port", "reg.example.com:5000/a", []string{"reg.example.com:5000"}, "reg.example.com:5000"},
		{"a URL with the API's version", "reg.example.com/a", []string{"HTTPS://Reg.Example.com/v2/"}, "HTTPS://Reg.Example.com/v2/"},
		{"a URL with the API's version and a path", "reg.example.com/team/x", []string{"reg.example.com", "https://reg.example.com/v1/team"}, "https://reg.example.com/v1/team"},
		{"a URL with a slash", "reg.example.com/a", []string{"http://reg.example.com/"}, "http://reg.example.com/"},
		{"white space", "reg.example.com/a", []string{" reg.example.com "}, " reg.example.com "},
		{"the port of https in the key", "reg.example.com/a", []string{"https://reg.example.com:443"}, "https://reg.example.com:443"},
		{"the port of https in the image", "reg.example.com:443/a", []string{"reg.example.com"}, "reg.example.com"},
		{"a token of Docker's store", "index.docker.io/a/b", []string{"https://index.docker.io/v1/", "https://index.docker.io/v1/access-token"}, "https://index.docker.io/v1/"},
		{"a broken pattern", "reg.example.com/a", []string{"[.example.com"}, ""},
		{"an empty key", "reg.example.com/a", []string{""}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &credentials{}
			for _, k := range tt.keys {
				if err := c.addDockerConfig(map[string][]byte{".dockerconfigjson": fmt.Appendf(nil, `{"auths":{%q:{"username":%q,"password":"p"}}}`, k, k)}); err != nil {
					t.Fatal(err)
				}
			}
			repo, err := name.NewRepository(tt.repo)
			if err != nil {
				t.Fatal(err)
			}
			auth, err := c.Resolve(repo)
			if err != nil {
				t.Fatal(err)
			}
			config, err := authn.Authorization(t.Context(), auth)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, config.Username); diff != "" {
				t.Error(diff)
			}
		})
	}
}
