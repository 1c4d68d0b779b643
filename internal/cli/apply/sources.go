package apply

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

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/apply"
	"sluice.dev/internal/cli/command"
	resolvecmd "sluice.dev/internal/cli/resolve"
	"sluice.dev/internal/config"
	"sluice.dev/internal/input"
	"sluice.dev/internal/preflight"
	"sluice.dev/internal/resolvers"
	"sluice.dev/internal/sourceurl"
	"sluice.dev/resolve"
)

// sourceFlags say where objects come from.
type sourceFlags struct {
	sources      []string
	allow        []string
	plain        bool
	verification string
	sshKey       string
	mayBeEmpty   bool
}

// sourceHelp is the part of the help that all commands with sources share.
const sourceHelp = `A source is a file, a directory, - (standard input), git:REV[:PATH] in the current repository,
git+https://HOST/REPO//PATH?ref=REV (also git+ssh and git+file), oci://REGISTRY/REPO:TAG
(Tekton bundles, Flux's artifacts, tars), http(s)://..., or a file with a ResolutionRequest, which Sluice resolves locally.
Pipe the output of Kustomize or Helm to -f -. Sluice leaves out Helm hooks that do not belong to an install or an upgrade (test,
pre-delete, ...), and applies the other hooks like other objects.`

func (f *sourceFlags) addSources(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringArrayVarP(&f.sources, "filename", "f", nil, "source of objects (may be repeated)")
	fs.StringArrayVar(&f.allow, "allow-address", nil, "host, host:port, address or range to fetch from although it is local to this machine")
	fs.BoolVar(&f.plain, "allow-plain-http", false, "allow http:// and registries without TLS")
	fs.StringVar(&f.verification, "verification", "", "file with VerificationPolicies that sources have to satisfy")
	fs.StringVar(&f.sshKey, "ssh-key", "", "private key for git+ssh (default: the first of ~/.ssh/id_ed25519, id_ecdsa, id_rsa)")
}

// loaded is what the sources hold.
type loaded struct {
	objects []apply.Object
	sources []apply.Source
	// configs are configurations of kapp's among the objects.
	configs []config.Document
	// crds finds places in definitions, by name.
	crds map[string]input.Document
}

// fetcher reads the sources of one command.
type fetcher struct {
	*command.Env

	flags *sourceFlags
	// cluster is for ResolutionRequests of the resolver cluster; nil where there is none.
	cluster *rest.Config

	resolving *resolvecmd.Resolvers
	free      func() error
	out       loaded
}

// loadAllSources reads all sources, in their order.
func loadAllSources(ctx context.Context, e *command.Env, f *sourceFlags, cluster *rest.Config) (*loaded, error) {
	if len(f.sources) == 0 {
		return nil, errors.New("nothing to do: give a source with -f (a file, a directory, -, git+https://..., oci://..., https://...)")
	}
	if n := len(slices.DeleteFunc(slices.Clone(f.sources), func(s string) bool { return s != "-" })); n > 1 {
		return nil, errors.New("-f - is given twice: standard input can be read once")
	}
	r := &fetcher{Env: e, flags: f, cluster: cluster, out: loaded{crds: map[string]input.Document{}}}
	defer func() {
		if r.free != nil {
			_ = r.free() // a folder of our own in the system's for temporary files
		}
	}()
	for _, s := range f.sources {
		before := len(r.out.objects) + len(r.out.configs)
		if err := r.readSource(ctx, s); err != nil {
			return nil, err
		}
		if len(r.out.objects)+len(r.out.configs) == before && len(f.sources) > 1 && !f.mayBeEmpty {
			return nil, fmt.Errorf("no object in %s; with --allow-empty one of several sources may be empty", redactUserInfo(s))
		}
	}
	if len(r.out.objects) == 0 {
		return nil, fmt.Errorf("no object in %s", strings.Join(f.sources, ", "))
	}
	return &r.out, nil
}

// missingSourcesError tells of all files and directories that do not exist.
func missingSourcesError(sources []string) error {
	var names []string
	for _, s := range sources {
		src, err := input.ParseSource(s)
		if strings.Contains(s, "://") || err != nil || src.Kind != input.Path {
			continue
		}
		if _, err := os.Stat(s); errors.Is(err, os.ErrNotExist) {
			names = append(names, s)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%s: no such file or directory; a source is a file, a directory, - (standard input), git:REV[:PATH], "+
		"git+https://HOST/REPO//PATH?ref=REV (also git+http, git+ssh, git+file), oci://REGISTRY/REPO:TAG, https://URL or http://URL", strings.Join(names, ", "))
}

// readSource reads one source.
func (r *fetcher) readSource(ctx context.Context, s string) error {
	scheme, rest, remote := strings.Cut(s, "://")
	switch {
	case !remote:
		src, err := input.ParseSource(s)
		if err != nil {
			return err
		}
		return withBuildHint(r.readLocal(ctx, s, src, "", ""), src)
	case scheme == "git+file":
		return r.gitFile(ctx, s, rest)
	case strings.HasPrefix(scheme, "git+"):
		return r.fetchGit(ctx, s, strings.TrimPrefix(scheme, "git+"), rest)
	case scheme == "oci":
		params := map[string]string{"bundle": rest}
		if r.dockerConfig() != nil {
			params["secret"] = localSecret
		}
		return r.fetchByParams(ctx, s, "oci", params)
	case scheme == "http", scheme == "https":
		return r.fetchByParams(ctx, s, "http", map[string]string{"url": s})
	}
	return fmt.Errorf("%s: the scheme %s:// is not known; there are git+https, git+http, git+ssh, git+file, oci, https and http", redactUserInfo(s), scheme)
}

// builders are programs that make objects of a folder, by a file that tells such a folder.
var builders = map[string]string{
	"kustomization.yaml": "kubectl kustomize DIR", "kustomization.yml": "kubectl kustomize DIR", "Kustomization": "kubectl kustomize DIR",
	"Chart.yaml": "helm template RELEASE DIR --include-crds",
}

// withBuildHint adds to an error of a source on this machine how its objects are had, where it is no folder of objects but one of Kustomize or
// Helm.
func withBuildHint(err error, src input.Source) error {
	if err == nil || src.Kind != input.Path {
		return err
	}
	for _, path := range src.Paths {
		for _, file := range slices.Sorted(maps.Keys(builders)) {
			folder := path
			if filepath.Base(path) == file {
				folder = filepath.Dir(path)
			}
			if info, e := os.Stat(filepath.Join(folder, file)); e == nil && info.Mode().IsRegular() {
				return fmt.Errorf("%w; build %s first: %s | sluice apply -f -", err, folder, strings.ReplaceAll(builders[file], "DIR", folder))
			}
		}
	}
	return err
}

// redactUserInfo leaves out what may be a password.
func redactUserInfo(s string) string {
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

// readLocal reads files, standard input, or a revision of a local repository. uri, if not empty, is the URI of the source in the result.
func (r *fetcher) readLocal(ctx context.Context, name string, src input.Source, dir, uri string) error {
	if src.Kind == input.Cluster {
		return errors.New("the cluster is no source; a file called cluster is ./cluster")
	}
	set, err := input.Load(ctx, src, input.Options{Dir: dir, Stdin: r.In, Objects: true})
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, o := range set.Objects {
		text.Write(o.JSON)
		text.WriteByte('\n')
	}
	source := apply.Source{Name: name, URI: uri, Digest: resolve.SHA256([]byte(text.String()))}
	if set.Commit != "" {
		source.Digest = map[string]string{"sha1": set.Commit}
	}
	requests, objects := []input.Object(nil), []input.Object(nil)
	for _, o := range set.Objects {
		if src.Kind != input.Git && isRequest(o.JSON) {
			requests = append(requests, o)
			continue
		}
		objects = append(objects, o)
	}
	set.Objects = objects
	if len(objects) > 0 || len(requests) == 0 {
		if err := r.takeObjects(set, source); err != nil {
			return err
		}
	}
	for _, o := range requests {
		if err := r.resolveRequest(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// takeObjects adds the objects of a set.
func (r *fetcher) takeObjects(set *input.Set, source apply.Source) error {
	for _, w := range set.Warnings {
		fmt.Fprintln(r.Err, "warning:", w.Position.Tell(w.Message))
	}
	objects, configs := preflight.Configs(set)
	r.out.configs = append(r.out.configs, configs...)
	for _, o := range objects {
		obj, err := apply.NewObject(o.File, o.Line, o.JSON)
		if err != nil {
			return err
		}
		r.out.objects = append(r.out.objects, obj)
	}
	for _, d := range set.Documents {
		r.out.crds[d.CRD.Name] = d
	}
	r.out.sources = append(r.out.sources, source)
	return nil
}

// gitFile reads a repository on this machine.
func (r *fetcher) gitFile(ctx context.Context, name, rest string) error {
	repo, path, ref, err := sourceurl.SplitGit(rest)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if !filepath.IsAbs(repo) {
		return fmt.Errorf("%s: git+file:// needs an absolute path: git+file:///path/of/repository//path/in/it?ref=REV", name)
	}
	if _, err := os.Stat(repo); err != nil {
		return fmt.Errorf("%s: there is no repository at %s", name, repo)
	}
	src, err := input.ParseSource("git:" + cmp.Or(ref, "HEAD"))
	if err != nil {
		return err
	}
	if path != "" {
		src.Paths = []string{"/" + path}
	}
	return r.readLocal(ctx, name, src, repo, "git+file://"+repo)
}

// fetchGit reads a remote repository by the resolver git.
func (r *fetcher) fetchGit(ctx context.Context, name, scheme, rest string) error {
	params, err := sourceurl.Git(scheme, rest)
	if err != nil {
		return fmt.Errorf("%s: %w", redactUserInfo(name), err)
	}
	if scheme == "ssh" || r.Getenv(gitTokenEnv) != "" && scheme == "https" {
		params["authSecret"] = localSecret
	}
	return r.fetchByParams(ctx, name, "git", params)
}

// fetchByParams has a resolver fetch and adds what it gives.
func (r *fetcher) fetchByParams(ctx context.Context, name, resolver string, params map[string]string) error {
	given := make([]resolve.Given, 0, len(params))
	for _, k := range slices.Sorted(maps.Keys(params)) {
		given = append(given, resolve.Given{Name: k, Value: resolve.Value{Type: resolve.String, String: params[k]}})
	}
	return r.resolveQuery(ctx, name, &resolve.Query{Resolver: resolver, Params: given})
}

func (r *fetcher) resolveQuery(ctx context.Context, name string, q *resolve.Query) error {
	if err := r.startResolvers(ctx); err != nil {
		return err
	}
	name = redactUserInfo(name)
	q.Secrets = localSecrets{r}
	bar := r.Progress("fetching "+name, 0)
	bar.Set(0)
	res, err := r.resolving.Runner.Resolve(ctx, q)
	bar.Done()
	if e, ok := errors.AsType[*resolve.Error](err); ok && e.Reason == resolve.ReasonForbidden {
		return fmt.Errorf("%s: %w (here --allow-address and --allow-plain-http say what else is allowed)", name, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	resolvecmd.Warn(r.Env, name, res)
	set, err := input.DecodeObjects(ctx, name, res.Data)
	if err != nil {
		return err
	}
	return r.takeObjects(set, apply.Source{Name: name, URI: res.Source.URI, Digest: res.Source.Digest, EntryPoint: res.Source.EntryPoint})
}

// isRequest tells whether an object is a ResolutionRequest.
func isRequest(json []byte) bool {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	return yaml.Unmarshal(json, &head) == nil && head.Kind == "ResolutionRequest" && strings.HasPrefix(head.APIVersion, resolution.GroupName+"/")
}

// resolveRequest resolves a ResolutionRequest on this machine.
func (r *fetcher) resolveRequest(ctx context.Context, o input.Object) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s:%d: ResolutionRequest: %w", o.File, o.Line, fmt.Errorf(format, args...))
	}
	var request v1beta1.ResolutionRequest
	if err := yaml.Unmarshal(o.JSON, &request); err != nil {
		return fail("%w", err)
	}
	if request.APIVersion != v1beta1.SchemeGroupVersion.String() {
		return fail("is of %s; %s is wanted", request.APIVersion, v1beta1.SchemeGroupVersion)
	}
	name := cmp.Or(request.Labels[resolution.LabelType], request.Labels[resolution.LabelResolver])
	if name == "" {
		return fail("has no label %s, which names the resolver", resolution.LabelType)
	}
	return r.resolveQuery(ctx, fmt.Sprintf("%s:%d", o.File, o.Line), &resolve.Query{
		Resolver: resolution.Canonical(name), Namespace: request.Namespace, URL: request.Spec.URL, Params: resolvecmd.GivenParams(request.Spec.Params),
	})
}

// maxContent bounds what one source may hold. In a cluster it is what a status takes.
const maxContent = 64 << 20

// startResolvers makes the resolvers, once.
func (r *fetcher) startResolvers(ctx context.Context) error {
	if r.resolving != nil {
		return nil
	}
	folder, remove, err := resolvecmd.CacheFolder("")
	if err != nil {
		return fmt.Errorf("no folder for mirrors: %w", err)
	}
	clock := resolve.SystemClock()
	lent := resolvers.Env{Clock: clock, Network: resolvecmd.Network(r.Env, clock), Cache: folder, Roots: map[string]string{"default": "."}, Cluster: r.cluster}
	// The user of this machine chooses the addresses. Local addresses need a flag.
	lent.Network.AllowPrivate = true
	lent.Network.Allow = r.flags.allow
	var entries []resolvers.Entry
	for _, e := range resolvers.All() {
		if e.Name != "cluster" || r.cluster != nil {
			entries = append(entries, e)
		}
	}
	rs, err := resolvecmd.NewResolvers(ctx, entries, lent, resolve.Options{
		Limits: resolve.Limits{Content: maxContent}, Cache: &resolve.CacheLimits{},
	})
	if err != nil {
		return errors.Join(err, remove())
	}
	r.free = func() error { return errors.Join(rs.Close(), remove()) }
	r.resolving = rs
	return r.configureResolvers(ctx, rs)
}

// configureResolvers sets what the flags say.
func (r *fetcher) configureResolvers(ctx context.Context, rs *resolvecmd.Resolvers) error {
	if r.flags.plain {
		var registries []string
		for _, s := range r.flags.sources {
			if rest, ok := strings.CutPrefix(s, "oci://"); ok {
				host, _, _ := strings.Cut(rest, "/")
				registries = append(registries, host)
			}
		}
		for name, data := range map[string]map[string]string{
			"http": {"allow-plain-http": "true"},
			"oci":  {"plain-http-registries": strings.Join(registries, ",")},
		} {
			if err := rs.Runner.Configure(name, data); err != nil && !isUnknown(err) {
				return err
			}
		}
	}
	if r.flags.verification == "" {
		return nil
	}
	text, err := os.ReadFile(r.flags.verification)
	if err != nil {
		return fmt.Errorf("--verification: %w", err)
	}
	if err := rs.ConfigureVerification(ctx, map[string]string{"policies": string(text), "no-match": "fail"}, localSecrets{r}); err != nil {
		return fmt.Errorf("--verification %s: %w", r.flags.verification, err)
	}
	return nil
}

// isUnknown tells that this build has no such resolver.
func isUnknown(err error) bool {
	e, ok := errors.AsType[*resolve.Error](err)
	return ok && e.Reason == resolve.ReasonUnknownResolver
}

// Credentials on this machine take the place of Secrets.
const (
	localSecret = "local"
	gitTokenEnv = "SLUICE_GIT_TOKEN"    //nolint:gosec // the name of a variable
	gitUserEnv  = "SLUICE_GIT_USERNAME" //nolint:gosec // the name of a variable
)

// localSecrets are the user's own credentials: the SSH key and known_hosts, a token from the environment. Secrets that a
// ResolutionRequest names are not available.
type localSecrets struct{ r *fetcher }

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
	keys := []string{l.r.flags.sshKey}
	if l.r.flags.sshKey == "" {
		keys = []string{filepath.Join(dir, "id_ed25519"), filepath.Join(dir, "id_ecdsa"), filepath.Join(dir, "id_rsa")}
	}
	for _, k := range keys {
		if data, err := os.ReadFile(k); err == nil { //nolint:gosec // the user's own key
			out["ssh-privatekey"] = data
			break
		} else if l.r.flags.sshKey != "" {
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
func (r *fetcher) dockerConfig() []byte {
	dir := cmp.Or(r.Getenv("DOCKER_CONFIG"), filepath.Join(r.Getenv("HOME"), ".docker"))
	data, err := os.ReadFile(filepath.Join(dir, "config.json")) //nolint:gosec // the user's own file
	if err != nil || !strings.Contains(string(data), `"auth":`) {
		return nil
	}
	return data
}
