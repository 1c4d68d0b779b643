package resolve

// How do commands that read files read sources elsewhere? sluice check and sluice apply take URLs such as
// git+https://... and oci://... in place of a path. They are fetched by the resolvers of a cluster, in this
// process, with the credentials of the user: the SSH key, the token in SLUICE_GIT_TOKEN, and what docker login has
// left.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/controller/resolution"
	"sluice.dev/internal/resolvers"
	"sluice.dev/internal/sourceurl"
	"sluice.dev/resolve"
)

// RemoteFlags say what may be fetched on this machine, and how.
type RemoteFlags struct {
	// Allow are the local addresses, and Plain allows connections without TLS.
	Allow []string
	Plain bool
	// Verification is a file with VerificationPolicies, and SSHKey one with a private key; both may be empty.
	Verification, SSHKey string
}

// AddRemote adds the flags.
func (f *RemoteFlags) AddRemote(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.Allow, "allow-address", nil, "host, host:port, address or range to fetch from although it is local to this machine")
	fs.BoolVar(&f.Plain, "allow-plain-http", false, "allow http:// and registries without TLS")
	fs.StringVar(&f.Verification, "verification", "", "file with VerificationPolicies that remote sources have to satisfy")
	fs.StringVar(&f.SSHKey, "ssh-key", "", "private key for git+ssh (default: the first of ~/.ssh/id_ed25519, id_ecdsa, id_rsa)")
}

// Remote fetches sources on this machine, with the user's own credentials. It starts the resolvers with the first source.
type Remote struct {
	*command.Env

	Flags *RemoteFlags
	// Cluster is for ResolutionRequests of the resolver cluster; nil where there is none.
	Cluster *rest.Config

	resolving  *resolution.Resolvers
	free       func() error
	registries []string // those without TLS
}

// Close removes what was kept for the next source.
func (r *Remote) Close() {
	if r.free != nil {
		_ = r.free() // a folder of our own in the system's for temporary files
	}
}

// Fetch fetches a source: git+https, git+http, git+ssh, oci, https or http, as `sluice apply` documents them.
// Errors name the source without user info. An unknown scheme is an error that lists the known ones.
func (r *Remote) Fetch(ctx context.Context, source string) (*resolve.Resource, error) {
	scheme, rest, _ := strings.Cut(source, "://")
	name := RedactUserInfo(source)
	resolver, params := "http", map[string]string{"url": source}
	switch {
	case strings.HasPrefix(scheme, "git+"):
		var err error
		if params, err = sourceurl.Git(strings.TrimPrefix(scheme, "git+"), rest); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if resolver = "git"; scheme == "git+ssh" || r.Getenv(gitTokenEnv) != "" && scheme == "git+https" {
			params["authSecret"] = localSecret
		}
	case scheme == "oci":
		if resolver, params = "oci", map[string]string{"bundle": rest}; r.dockerConfig() != nil {
			params["secret"] = localSecret
		}
		if host, _, _ := strings.Cut(rest, "/"); r.Flags.Plain && !slices.Contains(r.registries, host) {
			r.registries = append(r.registries, host)
		}
	case scheme != "http" && scheme != "https":
		return nil, fmt.Errorf("%s: the scheme %s:// is not known; there are git+https, git+http, git+ssh, git+file, oci, https and http", name, scheme)
	}
	given := make([]resolve.Given, 0, len(params))
	for _, k := range slices.Sorted(maps.Keys(params)) {
		given = append(given, resolve.Given{Name: k, Value: resolve.Value{Type: resolve.String, String: params[k]}})
	}
	return r.Resolve(ctx, name, &resolve.Query{Resolver: resolver, Params: given})
}

// Resolve resolves a query. name is for messages. A refusal by the network rules gets the flags that allow more.
func (r *Remote) Resolve(ctx context.Context, name string, q *resolve.Query) (*resolve.Resource, error) {
	if err := r.startResolvers(ctx); err != nil {
		return nil, err
	}
	q.Secrets = localSecrets{r}
	bar := r.Progress("fetching "+name, 0)
	bar.Set(0)
	res, err := r.resolving.Runner.Resolve(ctx, q)
	bar.Done()
	if e, ok := errors.AsType[*resolve.Error](err); ok && e.Reason == resolve.ReasonForbidden {
		return nil, fmt.Errorf("%s: %w (here --allow-address and --allow-plain-http say what else is allowed)", name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	Warn(r.Env, name, res)
	return res, nil
}

// RedactUserInfo leaves out of a URL what may be a password. Texts that are no URLs stay as they are.
func RedactUserInfo(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return s
	}
	if host, path, slash := strings.Cut(rest, "/"); strings.Contains(host, "@") {
		rest = host[strings.LastIndexByte(host, '@')+1:] // as net/url has it
		if slash {
			rest += "/" + path
		}
	}
	return scheme + "://" + rest
}

// maxContent bounds what one source may hold. In a cluster it is what a status takes.
const maxContent = 64 << 20

// startResolvers makes the resolvers, once, and configures them as the flags say. Addresses in private networks
// are allowed, unlike in a cluster: the user could fetch from there anyway. Those of this machine need
// --allow-address.
func (r *Remote) startResolvers(ctx context.Context) error {
	if r.resolving != nil {
		return r.allowPlain()
	}
	folder, remove, err := CacheFolder("")
	if err != nil {
		return fmt.Errorf("no folder for mirrors: %w", err)
	}
	clock := resolve.SystemClock()
	lent := resolvers.Env{Clock: clock, Network: Network(r.Env, clock), Cache: folder, Roots: map[string]string{"default": "."}, Cluster: r.Cluster}
	// The user of this machine chooses the addresses. Local addresses need a flag.
	lent.Network.AllowPrivate = true
	lent.Network.Allow = r.Flags.Allow
	// The resolver cluster cannot be made without one.
	entries := slices.DeleteFunc(resolvers.All(), func(e resolvers.Entry) bool { return e.Name == "cluster" && r.Cluster == nil })
	rs, err := resolution.NewResolvers(ctx, MakeOf(entries, lent), FlagsOf(entries), resolve.Options{Limits: resolve.Limits{Content: maxContent}, Cache: &resolve.CacheLimits{}})
	if err != nil {
		return errors.Join(err, remove())
	}
	r.free = func() error { return errors.Join(rs.Close(), remove()) }
	r.resolving = rs
	if err := r.allowPlain(); err != nil || r.Flags.Verification == "" {
		return err
	}
	text, err := os.ReadFile(r.Flags.Verification)
	if err != nil {
		return fmt.Errorf("--verification: %w", err)
	}
	if err := rs.ConfigureVerification(ctx, map[string]string{"policies": string(text), "no-match": "fail"}, localSecrets{r}); err != nil {
		return fmt.Errorf("--verification %s: %w", r.Flags.Verification, err)
	}
	return nil
}

// allowPlain allows connections without TLS where the flag does. A build may lack a resolver. It is called again
// for each source, because only the URL says which registries are meant.
func (r *Remote) allowPlain() error {
	if !r.Flags.Plain {
		return nil
	}
	for name, data := range map[string]map[string]string{
		"http": {"allow-plain-http": "true"},
		"oci":  {"plain-http-registries": strings.Join(r.registries, ",")},
	} {
		err := r.resolving.Runner.Configure(name, data)
		if e, ok := errors.AsType[*resolve.Error](err); err != nil && (!ok || e.Reason != resolve.ReasonUnknownResolver) {
			return err
		}
	}
	return nil
}

// Credentials on this machine take the place of Secrets.
const (
	localSecret = "local"
	gitTokenEnv = "SLUICE_GIT_TOKEN"    //nolint:gosec // the name of a variable
	gitUserEnv  = "SLUICE_GIT_USERNAME" //nolint:gosec // the name of a variable
)

// localSecrets are the user's own credentials: the SSH key and known_hosts, a token from the environment. Secrets
// that a ResolutionRequest names are not available. A query names the Secret "local" to get them.
type localSecrets struct{ r *Remote }

// Secret implements [resolve.Secrets].
func (l localSecrets) Secret(_ context.Context, _, name string) (map[string][]byte, error) {
	if name != localSecret {
		return nil, resolve.Errorf(resolve.ReasonDenied, "the Secret %q is in a cluster, and this is resolved on your machine", name)
	}
	out := map[string][]byte{}
	if token := l.r.Getenv(gitTokenEnv); token != "" {
		out["username"], out["password"] = []byte(l.r.Getenv(gitUserEnv)), []byte(token)
	}
	if docker := l.r.dockerConfig(); docker != nil {
		out[".dockerconfigjson"] = docker
	}
	dir := filepath.Join(l.r.Getenv("HOME"), ".ssh")
	keys := []string{l.r.Flags.SSHKey}
	if l.r.Flags.SSHKey == "" {
		keys = []string{filepath.Join(dir, "id_ed25519"), filepath.Join(dir, "id_ecdsa"), filepath.Join(dir, "id_rsa")}
	}
	for _, k := range keys {
		if data, err := os.ReadFile(k); err == nil { //nolint:gosec // the user's own key
			out["ssh-privatekey"] = data
			break
		} else if l.r.Flags.SSHKey != "" {
			return nil, resolve.Errorf(resolve.ReasonDenied, "--ssh-key %s cannot be read", k)
		}
	}
	if hosts, err := os.ReadFile(filepath.Join(dir, "known_hosts")); err == nil { //nolint:gosec // the user's own file
		out["known_hosts"] = hosts
	}
	return out, nil
}

// dockerConfig gives the credentials for registries that docker login has left; nil where there are none. Helpers that keep
// credentials elsewhere are not run.
func (r *Remote) dockerConfig() []byte {
	dir := cmp.Or(r.Getenv("DOCKER_CONFIG"), filepath.Join(r.Getenv("HOME"), ".docker"))
	data, err := os.ReadFile(filepath.Join(dir, "config.json")) //nolint:gosec // the user's own file
	if err != nil || !strings.Contains(string(data), `"auth":`) {
		return nil
	}
	return data
}
