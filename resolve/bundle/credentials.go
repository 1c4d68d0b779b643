package bundle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"

	"sluice.dev/internal/brief"
	"sluice.dev/resolve"
)

// Credentials come from Secrets in the namespace of the request, in Docker's format. For example, an entry for reg.example.com/team
// counts for the image reg.example.com/team/bundle and not for reg.example.com/teams/bundle. The rules are those of the kubelet
// (pkg/credentialprovider/keyring.go).

// maxPullSecrets bounds the Secrets of one ServiceAccount that are read for a request.
const maxPullSecrets = 20

// credentials are the credentials that a request may use to pull. They are a keychain for the registry library.
type credentials struct {
	entries []entry
	// note names the credentials that could not be read, and why; empty if all could. It is added to the error if the registry
	// refuses.
	note string
	// secrets are the names of the Secrets that were read. helpers is set if one of them leaves credentials to programs; form says what is wrong
	// with the form of one.
	secrets []string
	helpers bool
	form    string
}

// entry is the credential for one registry or a part of it.
type entry struct {
	host, path string
	auth       authn.AuthConfig
}

// credentialsFor collects the credentials of the request: its secret, or else the imagePullSecrets of its ServiceAccount. If the
// configuration's default ServiceAccount cannot be read, public images still resolve.
func (r *Resolver) credentialsFor(ctx context.Context, req *resolve.Request) (*credentials, error) {
	c := &credentials{}
	if s := req.Get(ParamSecret); s != "" {
		if req.Secrets == nil {
			return nil, resolve.Errorf(resolve.ReasonDenied, "the secret %q cannot be read here", s)
		}
		data, err := req.Secrets.Secret(ctx, req.Namespace, s)
		if err != nil {
			return nil, err
		}
		if err := c.addSecret(req.Namespace, s, data); err != nil {
			return nil, err
		}
		return c, nil
	}
	account := req.Get(ParamServiceAccount)
	if account == "" {
		return c, nil
	}
	var names []string
	var err error = resolve.Errorf(resolve.ReasonDenied, "ServiceAccounts cannot be read here")
	if r.options.Accounts != nil {
		names, err = r.options.Accounts.ImagePullSecrets(ctx, req.Namespace, account)
	}
	for _, s := range names[:min(len(names), maxPullSecrets)] {
		if err != nil {
			break
		}
		err = c.addPullSecret(ctx, req, s)
	}
	if err == nil {
		return c, nil
	}
	var e *resolve.Error
	if account != cmp.Or(req.Config[KeyServiceAccount], "default") || !errors.As(err, &e) || e.Transient || ctx.Err() != nil {
		return nil, err
	}
	// Public images need no credentials, so that the default account is a try. The note helps if the registry refuses.
	c.note = fmt.Sprintf("the credentials of the ServiceAccount %s/%s could not be used: %s", req.Namespace, account, err.Error())
	return c, nil
}

// addPullSecret adds an imagePullSecret. It skips one that does not exist, as the kubelet does.
func (c *credentials) addPullSecret(ctx context.Context, req *resolve.Request, secret string) error {
	if req.Secrets == nil {
		return resolve.Errorf(resolve.ReasonDenied, "Secrets cannot be read here")
	}
	data, err := req.Secrets.Secret(ctx, req.Namespace, secret)
	var e *resolve.Error
	if errors.As(err, &e) && e.Reason == resolve.ReasonNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	return c.addSecret(req.Namespace, secret, data)
}

// addSecret adds the credentials of a Secret.
func (c *credentials) addSecret(namespace, name string, data map[string][]byte) error {
	if err := c.addDockerConfig(data); err != nil {
		return resolve.Errorf(resolve.ReasonDenied, "the secret %s/%s: %w", namespace, name, err)
	}
	c.secrets = append(c.secrets, namespace+"/"+name)
	return nil
}

// The entries of Secrets of the types kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg.
const (
	configEntry    = ".dockerconfigjson"
	oldConfigEntry = ".dockercfg"
)

// addDockerConfig reads a Secret of either type. Its errors reveal nothing of the content.
func (c *credentials) addDockerConfig(data map[string][]byte) error {
	auths, err := c.readAuths(data)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(auths)) {
		e := newEntry(key)
		err := json.Unmarshal(auths[key], &e.auth)
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fmt.Errorf("its credential for %q is no object of texts, such as username and password", e.host)
		}
		if err != nil {
			return fmt.Errorf("the auth of its credential for %q is not USER:PASSWORD in base64", e.host)
		}
		c.entries = append(c.entries, e)
	}
	return nil
}

// readAuths returns the credentials in a Secret by registry.
func (c *credentials) readAuths(data map[string][]byte) (auths map[string]json.RawMessage, err error) {
	if text, ok := data[configEntry]; ok {
		var config struct {
			Auths       map[string]json.RawMessage `json:"auths"`
			CredHelpers map[string]json.RawMessage `json:"credHelpers"`
			CredsStore  string                     `json:"credsStore"`
		}
		if err := json.Unmarshal(text, &config); err != nil {
			return nil, faultOfConfig(configEntry, text, err)
		}
		c.helpers = c.helpers || config.CredsStore != "" || len(config.CredHelpers) > 0
		if config.Auths == nil {
			c.form = `registries stand below "auths" in ` + configEntry
		}
		return config.Auths, nil
	}
	if text, ok := data[oldConfigEntry]; ok {
		if err := json.Unmarshal(text, &auths); err != nil {
			return nil, faultOfConfig(oldConfigEntry, text, err)
		}
		if auths["auths"] != nil {
			c.form = `the form with "auths" belongs into ` + configEntry + ", and registries stand at the top of " + oldConfigEntry
			delete(auths, "auths")
		}
		return auths, nil
	}
	has := "is empty"
	if len(data) > 0 {
		has = "has " + brief.Clip(strings.Join(slices.Sorted(maps.Keys(data)), ", "), 200)
	}
	return nil, errors.New("it has no entry " + configEntry + ", as Secrets of type kubernetes.io/dockerconfigjson have; it " + has)
}

// faultOfConfig says why an entry of a Secret cannot be read.
func faultOfConfig(entry string, text []byte, err error) error {
	decoded, notEncoded := base64.StdEncoding.DecodeString(string(text))
	wrong, _ := errors.AsType[*json.UnmarshalTypeError](err)
	what := "is no JSON"
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		what = "is empty"
	case notEncoded == nil && json.Valid(decoded):
		what = "is encoded by base64 twice; put it into stringData, or encode it once for data"
	case wrong != nil && wrong.Field != "":
		what = "has another type of value in " + wrong.Field + " than Docker's configuration"
	case wrong != nil:
		what = "is no JSON object"
	}
	return errors.New("its entry " + entry + " " + what)
}

// newEntry reads a key of auths: a host, with an optional port and path. Docker writes URLs there, with the version of the API.
func newEntry(key string) entry {
	key = strings.TrimSpace(key)
	if scheme, rest, ok := strings.Cut(key, "://"); ok && (strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "http")) {
		key = rest
	}
	host, rest, _ := strings.Cut(key, "/")
	rest = strings.Trim(rest, "/")
	if first, below, _ := strings.Cut(rest, "/"); first == "v1" || first == "v2" {
		rest = below
	}
	return entry{host: canonicalRegistry(host), path: rest}
}

// canonicalRegistry maps the names of Docker Hub to one, and leaves out the port of https.
func canonicalRegistry(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ":443")
	switch host {
	case "docker.io", "registry-1.docker.io":
		return "index.docker.io"
	}
	return host
}

// Resolve implements [authn.Keychain]. Of the entries that match the repository, it prefers those without wildcards, and of these
// the one with the longest path.
func (c *credentials) Resolve(target authn.Resource) (authn.Authenticator, error) {
	if best := c.entryFor(target); best != nil {
		return authn.FromConfig(best.auth), nil
	}
	return authn.Anonymous, nil
}

// entryFor is the entry that counts for a repository; nil without one.
func (c *credentials) entryFor(target authn.Resource) *entry {
	host := canonicalRegistry(target.RegistryStr())
	_, repo, _ := strings.Cut(target.String(), "/")
	var best *entry
	for i := range c.entries {
		e := &c.entries[i]
		if e.matchesRepo(host, repo) && (best == nil || e.isBetterThan(best)) {
			best = e
		}
	}
	return best
}

// lackFor says why the Secrets that were read have no credential for a repository; empty if they have one, or if there are none.
func (c *credentials) lackFor(target authn.Resource) string {
	if best := c.entryFor(target); len(c.secrets) == 0 || best != nil && best.auth != (authn.AuthConfig{}) {
		return ""
	}
	var hosts []string
	for _, e := range c.entries {
		if name := strings.TrimSuffix(e.host+"/"+e.path, "/"); e.auth != (authn.AuthConfig{}) && !slices.Contains(hosts, name) {
			hosts = append(hosts, name)
		}
	}
	slices.Sort(hosts)
	lack, verb := "the Secret "+c.secrets[0]+" has", "it has"
	if len(c.secrets) > 1 {
		lack, verb = "the Secrets "+strings.Join(c.secrets[:min(len(c.secrets), maxNamed)], ", ")+" have", "they have"
	}
	lack += " no credential for " + target.RegistryStr()
	if len(hosts) > 0 {
		lack += "; " + verb + " one for " + strings.Join(hosts[:min(len(hosts), maxNamed)], ", ")
	}
	if c.form != "" {
		lack += "; " + c.form
	}
	if c.helpers {
		lack += "; credsStore and credHelpers name programs, which Sluice does not run"
	}
	return lack
}

// maxNamed bounds the registries and Secrets that a message names.
const maxNamed = 5

// isBetterThan prefers an entry without wildcards, and then the one with the longer path.
func (e *entry) isBetterThan(than *entry) bool {
	if wild, other := strings.Contains(e.host, "*"), strings.Contains(than.host, "*"); wild != other {
		return other
	}
	return len(e.path) > len(than.path)
}

// matchesRepo compares as the kubelet does: a wildcard stands for one label of the host, ports are equal or both missing.
// A path matches whole segments.
func (e *entry) matchesRepo(host, repo string) bool {
	if e.path != "" && repo != e.path && !strings.HasPrefix(repo, e.path+"/") {
		return false
	}
	pattern, labels := strings.Split(e.host, "."), strings.Split(host, ".")
	if len(pattern) != len(labels) {
		return false
	}
	for i, p := range pattern {
		if ok, err := path.Match(p, labels[i]); err != nil || !ok {
			return false
		}
	}
	return true
}
