package git

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice.dev/resolve"
	"sluice.dev/resolve/netguard"
	"sluice.dev/resolve/verify"
)

// The configuration has Tekton's form: plain keys, and named configurations whose keys have the prefix NAME. A request chooses one by
// configKey, or the first that lists its host holds. What restricts access holds whatever a request chooses: see restrictions.

// ConfigMapName is the name of the ConfigMap with the configuration, as in Tekton.
const ConfigMapName = "git-resolver-config"

// The keys of the configuration. Those in ownKeys hold a credential or the place that it goes to: a named configuration has its own
// and inherits none.
const (
	keyTimeout         = "fetch-timeout"
	keyDefaultURL      = "default-url"
	keyDefaultRevision = "default-revision"
	keyDefaultOrg      = "default-org"
	keySCMType         = "scm-type"
	keyServerURL       = "server-url"
	keyAPISecret       = "api-token-secret-name"
	keyAPISecretKey    = "api-token-secret-key"
	keyAPISecretNS     = "api-token-secret-namespace"
	keyHosts           = "hosts"
	keyAuthSecret      = "auth-secret-name"
	keyAuthSecretNS    = "auth-secret-namespace"
	keyKnownHosts      = "known-hosts"
	keyRefTTL          = "ref-ttl"
	keyPolicy          = "policy"
	keySigners         = "allowed-signers"
	keyPackBytes       = "max-pack-bytes"
	keyCacheBytes      = "max-cache-bytes"
)

// KeyPlain allows credentials over http without TLS.
const KeyPlain = "allow-plain-http-credentials"

var ownKeys = []string{
	keyDefaultURL, keyDefaultOrg, keySCMType, keyServerURL, keyAPISecret, keyAPISecretKey, keyAPISecretNS, keyHosts, keyAuthSecret,
	keyAuthSecretNS,
}

func checkDuration(v string) error {
	if d, err := time.ParseDuration(v); err != nil || d < 0 {
		return fmt.Errorf("%q is no duration such as 30s", v)
	}
	return nil
}

func checkBytes(v string) error {
	if n, err := strconv.ParseInt(v, 10, 64); err != nil || n < minBytes || n > 1<<50 {
		return fmt.Errorf("%q is no number of bytes from %d to %d", v, minBytes, int64(1)<<50)
	}
	return nil
}

func checkSCMType(v string) error {
	if _, ok := providers[v]; !ok {
		return fmt.Errorf("%q is not one of %s", v, providerNames())
	}
	return nil
}

func providerNames() string { return strings.Join(slices.Sorted(maps.Keys(providers)), ", ") }

// withScheme returns the address of a server; without a scheme it is https, as in Tekton's documentation.
func withScheme(server string) string {
	server = strings.TrimRight(strings.TrimSpace(server), "/")
	if server != "" && !strings.Contains(server, "://") {
		server = "https://" + server
	}
	return server
}

// checkServerURL accepts the address of a server, with a path if the server is below one, and without a scheme.
func checkServerURL(v string) error {
	u, err := url.Parse(withScheme(v))
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || hasControl(v) {
		return fmt.Errorf("%q is no address such as https://git.example.com", v)
	}
	return nil
}

// configKeys declares the configuration.
func configKeys() []resolve.Key {
	optional := func(check func(string) error) func(string) error {
		return func(v string) error {
			if v == "" {
				return nil
			}
			return check(v)
		}
	}
	return append([]resolve.Key{
		{Name: keyTimeout, Default: "1m", Check: checkDuration, Doc: "How long one request may take."},
		{Name: keyDefaultURL, Doc: "The repository where a request names none."},
		{Name: keyDefaultRevision, Default: "main", Check: optional(func(v string) error { return invalidParam("revision", checkRevision(v)) }), Doc: "The revision where a request names none."},
		{Name: keyDefaultOrg, Doc: "The organization where a request names none."},
		{Name: keySCMType, Default: defaultProvider, Check: optional(checkSCMType), Doc: "The provider whose API the resolver uses if a request names repo."},
		{Name: keyServerURL, Check: optional(checkServerURL), Doc: "The address of that server; empty for the provider's public one."},
		{Name: keyAPISecret, Doc: "The Secret with the token for that API."},
		{Name: keyAPISecretKey, Default: "token", Doc: "The key in that Secret."},
		{Name: keyAPISecretNS, Default: "default", Doc: "The namespace of that Secret."},
		{Name: keyHosts, Check: resolve.Parses(resolve.ParseHosts), Wrong: resolve.Closes, Doc: "The hosts, as HOST, HOST:PORT or *.DOMAIN, comma separated, to which auth-secret-name may be sent. A named configuration is used for its hosts even if no request asks for it."},
		{Name: keyAuthSecret, Doc: "The Secret with username and password, a token, or ssh-privatekey and known_hosts, for clones."},
		{Name: keyAuthSecretNS, Default: "default", Doc: "The namespace of that Secret."},
		resolve.SecretHostsKey(),
		{Name: keyKnownHosts, Doc: "Lines of known_hosts for SSH servers, where a Secret has none."},
		{Name: KeyPlain, Default: "false", Check: resolve.CheckBool, Doc: "Whether credentials may be sent over http without TLS."},
		{Name: keyRefTTL, Default: "5s", Check: checkDuration, Doc: "How long the resolver trusts its last look at a branch or tag."},
		{Name: keyPackBytes, Default: strconv.FormatInt(defaultPackBytes, 10), Check: checkBytes, Doc: "How many bytes one fetch may transfer, at most half of max-cache-bytes. A server without partial fetches sends all files of a commit."},
		{Name: keyCacheBytes, Default: strconv.FormatInt(defaultCacheBytes, 10), Check: checkBytes, Doc: "How many bytes the mirrors of repositories take on disk, including running fetches. The volume needs an eighth more."},
		{Name: keyPolicy, Check: optional(resolve.Parses(ParsePolicy)), Wrong: resolve.Closes, Doc: "Which repositories, revisions and paths may be read: a Policy in YAML."},
		{Name: keySigners, Check: optional(resolve.Parses(verify.ParseCommitKeys)), Wrong: resolve.Closes, Doc: "If set, commits or tags must be signed by one of these: lines of git's allowed_signers file, and OpenPGP keys in armor."},
	}, netguard.Keys(true, true)...)
}

// settings is the configuration for one request.
type settings struct {
	resolve.Config
	// name is the name of a named configuration; empty for the plain one.
	name string
	// listing are the named configurations that list the host.
	listing []string
}

// restrictions returns the values of a key that restricts what is allowed: that of this configuration, and those of all that list
// the host, so that a requester cannot avoid them by another name.
func (s settings) restrictions(key string) []string {
	out := []string{s.Config[key]}
	for _, n := range s.listing {
		out = append(out, s.Config[n+"."+key])
	}
	return slices.DeleteFunc(out, func(v string) bool { return v == "" })
}

// configNames lists the named configurations.
func configNames(c resolve.Config) []string {
	names := map[string]bool{}
	for k := range c {
		if name, key, ok := strings.Cut(k, "."); ok && name != "" && key != "" {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// chooseSettings returns the configuration of that name, or the one for the host, which has one or several names. A named configuration with
// hosts is only for these, so that a requester cannot avoid the rules of another one.
func chooseSettings(c resolve.Config, name string, host ...string) (settings, error) {
	names := configNames(c)
	var listing []string
	for _, n := range names {
		if len(host) > 0 && hostIn(c[n+"."+keyHosts], host...) {
			listing = append(listing, n)
		}
	}
	if name == "" && len(listing) > 0 {
		name = listing[0]
	}
	if name == "" && slices.Contains(names, "default") {
		name = "default"
	}
	if name == "" {
		return settings{Config: c}, nil // no configuration lists the host
	}
	if !slices.Contains(names, name) {
		if name == "default" {
			return settings{Config: c, listing: listing}, nil
		}
		return settings{}, resolve.Errorf(resolve.ReasonInvalid, "configKey: there is no configuration %q; there are: %s", name, strings.Join(names, ", "))
	}
	if len(host) > 0 && c[name+"."+keyHosts] != "" && !slices.Contains(listing, name) {
		return settings{}, resolve.Errorf(resolve.ReasonForbidden, "configKey: the configuration %q is not for the host %s", name, host[0])
	}
	// NAME default is another name of the plain configuration.
	own := func(key string) bool { return name != "default" && slices.Contains(ownKeys, key) }
	return settings{Config: c.With(name, own), name: name, listing: listing}, nil
}

// hostIn reports whether a list, which was checked, has a host by one of its names.
func hostIn(list string, names ...string) bool {
	hosts, err := resolve.ParseHosts(list)
	return err == nil && hosts.Has(names...)
}

// durationOf returns a duration of the configuration, which was checked before; otherwise is for a configuration without defaults.
func (s settings) durationOf(key string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(s.Config[key]); err == nil && d >= 0 {
		return d
	}
	return otherwise
}

func (s settings) bytesOf(key string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(s.Config[key], 10, 64); err == nil && n > 0 {
		return n
	}
	return otherwise
}
