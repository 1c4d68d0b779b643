// Package git resolves resources from git repositories: by git's own protocol over https, http and ssh, or through the API of
// GitHub, GitLab, Gitea or Bitbucket.
//
// The package talks to servers itself. So it controls the addresses that it connects to, the hosts that get credentials, the
// redirects that it follows and the amount that it reads. The git command only indexes and reads fetched data: it never sees a
// network, a credential, an address or a name that a requester chose. Repositories are bare mirrors without work trees. Requests
// share a mirror if they see the same repository through the same credential. Mirrors are a cache: you may delete them while the
// process does not run.
//
// The package fetches a commit without history. If the server supports it, it also leaves out trees and file contents, then fetches
// the trees on a path one after the other, and the contents of the requested files together. So the number of files in a repository
// does not matter. It looks branches and tags up again after a short time.
//
// The package does not decide whether a commit belongs to a branch of the repository: some hosts serve the commits of forks under
// the name of the original. It does not retry; its errors say whether a retry may help.
package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice.dev/resolve"
	"sluice.dev/resolve/netguard"
	"sluice.dev/resolve/verify"
)

const (
	defaultPackBytes  = 512 << 20
	defaultCacheBytes = 4 << 30
	// minBytes is the smallest allowed value of either.
	minBytes = 1 << 20
	// maxFileBytes bounds a result, a file or a directory.
	maxFileBytes = 10 << 20
	// maxProcesses bounds the git processes that wait for reads.
	maxProcesses = 8
)

// Options are the options of a resolver. Dir and Clock are required.
type Options struct {
	// Dir is the folder for mirrors. Only one process at a time may use it.
	Dir string
	// Network has the addresses, proxies and authorities that the process allows in addition to the configuration.
	Network netguard.Options
	// Clock provides the time.
	Clock resolve.Clock
	// ProcessBytes bounds the memory of all git processes together; 160 MiB by default.
	ProcessBytes int64
	// Policies returns the current policies about signatures of commits. The resolver calls it for each request; it may return nil.
	Policies func() *verify.Policies
	// CacheFull is called when the file system of Dir has no room any more or cannot be written, and when it can be used again.
	// Without it, each request fetches all anew, one after the other. nil stands for nothing to call.
	CacheFull func(full bool)
}

// Resolver is the git resolver. It implements [resolve.Resolver].
type Resolver struct {
	options Options
	files   *catfiles
	index   *indexer
	// beside serialises reads without the store.
	beside chan struct{}
	// besideBytes bounds the packs of such reads.
	besideBytes int64
	// way wraps the remote of each repository in tests; nil otherwise.
	way func(remote) remote

	guards *netguard.Pool
	// full: the cache cannot be used; see [Options.CacheFull].
	full atomic.Bool

	mu sync.Mutex
	// store is nil if its folder has no room; opened is the time of the last try.
	store  *store
	opened time.Time
}

var _ resolve.Resolver = (*Resolver)(nil)

// New returns a resolver. It fails if git is missing or too old, or if another process uses the folder. The caller must Close it.
func New(ctx context.Context, o Options) (*Resolver, error) {
	if o.Clock == nil || o.Dir == "" {
		return nil, errors.New("the git resolver needs a folder and a clock")
	}
	if o.Policies == nil {
		o.Policies = func() *verify.Policies { return nil }
	}
	binary, err := findGit(ctx)
	if err != nil {
		return nil, err
	}
	memory := resolve.NewMemory(cmp.Or(o.ProcessBytes, 160<<20))
	files := newCatfiles(binary, maxProcesses, memory)
	index := newIndexer(binary, memory)
	g := &Resolver{options: o, files: files, index: index, guards: netguard.NewPool(o.Network), beside: make(chan struct{}, 1), besideBytes: asideBytes}
	if err := g.openMirrorStore(); errors.Is(err, errDiskFull) {
		g.noteCacheFull(true)
	} else if err != nil {
		return nil, err
	}
	return g, nil
}

// Close ends idle processes and connections, and releases the folder. No request may be running.
func (g *Resolver) Close() error {
	g.guards.Close()
	if g.store == nil {
		g.files.endIdle("")
		return nil
	}
	return g.store.close()
}

// Spec implements [resolve.Resolver].
func (g *Resolver) Spec() resolve.Spec {
	return resolve.Spec{
		Name: "git", Doc: "Fetches a file, or the YAML files of a directory, from a git repository.",
		ConfigMap: ConfigMapName, Config: configKeys(), Params: declaredParams(), Validate: validateRequest, NamedConfigs: true,
		Host: func(r *resolve.Request) string {
			return placeOf(r).host
		},
	}
}

// declaredParams are the parameters, with the names of TEP-0060 as aliases. url, recursive, gitToken, gitTokenKey and authSecret are
// for git's protocol, and org to serverURL for the API of a provider. The others are for both.
func declaredParams() []resolve.Param {
	return []resolve.Param{
		{Name: "url", Aliases: []string{"repository_url"}, MaxLength: 2048, Check: resolve.Parses(parseRepository), Doc: "The repository: https://, http://, ssh://, git:// or user@host:path."},
		{Name: "revision", Aliases: []string{"branch", "commit"}, MaxLength: 255, Check: checkRevision, Doc: "A branch, a tag, another ref such as pull/1/head, or a commit by its full or shortened name."},
		{Name: "pathInRepo", Aliases: []string{"path"}, Required: true, Check: checkPath, Doc: "The file, or a directory: then all YAML and JSON files in it."},
		{Name: "recursive", Default: "false", Allowed: []string{"true", "false"}, Doc: "For a directory, whether to take the files in the directories below it as well, except those whose names begin with a dot. Not for repo."},
		{Name: "gitToken", MaxLength: 253, Check: checkName, Doc: "The Secret in the request's namespace with a token for the repository."},
		{Name: "gitTokenKey", Default: "token", MaxLength: 253, Check: checkName, Doc: "The key in that Secret."},
		{Name: "authSecret", MaxLength: 253, Check: checkName, Doc: "The Secret in the request's namespace with username and password, or with ssh-privatekey, known_hosts and, for an encrypted key, passphrase."},
		{Name: "org", MaxLength: 255, Check: checkOrg, Doc: "The organization, user, group or project, for the API of a provider."},
		{Name: "repo", MaxLength: 255, Check: checkRepo, Doc: "The repository's name. With it, the resolver uses the API of a provider instead of git's protocol."},
		{Name: "token", MaxLength: 253, Check: checkName, Doc: "The Secret in the request's namespace with a token for the API."},
		{Name: "tokenKey", Default: "token", MaxLength: 253, Check: checkName, Doc: "The key in that Secret."},
		{Name: "scmType", MaxLength: 63, Check: checkSCMType, Doc: "The provider: " + providerNames() + "."},
		{Name: "serverURL", MaxLength: 2048, Check: checkServerURL, Doc: "The provider's server. It needs token, unless it is the server that the operator has configured."},
		{Name: "configKey", MaxLength: 253, Check: checkName, Doc: "The named configuration to use."},
	}
}

var (
	namePattern = regexp.MustCompile(`\A[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?\z`)
	// Projects and repositories of Azure DevOps have spaces in their names.
	orgPattern  = regexp.MustCompile(`\A[A-Za-z0-9~_]([-A-Za-z0-9._ ]*[-A-Za-z0-9._])?(/[A-Za-z0-9_]([-A-Za-z0-9._ ]*[-A-Za-z0-9._])?)*\z`)
	repoPattern = regexp.MustCompile(`\A[A-Za-z0-9._]([-A-Za-z0-9._ ]*[-A-Za-z0-9._])?\z`)
)

func checkName(v string) error {
	if !namePattern.MatchString(v) {
		return fmt.Errorf("%q is no name", v)
	}
	return nil
}

// checkOrg accepts groups in groups, as GitLab has them: a/b/c.
func checkOrg(v string) error {
	if !orgPattern.MatchString(v) || strings.Contains(v, "..") {
		return fmt.Errorf("%q is no organization's name", v)
	}
	return nil
}

func checkRepo(v string) error {
	if !repoPattern.MatchString(v) || v == "." || v == ".." {
		return fmt.Errorf("%q is no repository's name", v)
	}
	return nil
}

// validateRequest judges parameters together.
func validateRequest(r *resolve.Request) (errs []error) {
	bad := func(format string, args ...any) {
		errs = append(errs, resolve.Errorf(resolve.ReasonInvalid, format, args...))
	}
	api := r.Get("repo") != ""
	if api && r.Get("url") != "" {
		bad("url and repo: give one of them; url is cloned, repo is read through the provider's API")
	}
	if r.Get("gitToken") != "" && r.Get("authSecret") != "" {
		bad("gitToken and authSecret: give one of them")
	}
	if api {
		for _, p := range []string{"gitToken", "authSecret"} {
			if r.Get(p) != "" {
				r.Warn("the parameter %s is for url and not for repo, which has token; it is ignored", p)
			}
		}
		return errs
	}
	for _, p := range []string{"org", "token", "scmType", "serverURL"} {
		if r.Get(p) != "" {
			r.Warn("the parameter %s is for repo and not for url; it is ignored", p)
		}
	}
	return errs
}

// Resolve implements [resolve.Resolver].
func (g *Resolver) Resolve(ctx context.Context, r *resolve.Request) (*resolve.Resource, error) {
	// This repeats checks of the framework, because the code below is safe only with them.
	if errs := validateRequest(r); len(errs) > 0 {
		return nil, errs[0]
	}
	for _, p := range declaredParams() {
		if v := r.Get(p.Name); p.Check != nil && (v != "" || p.Required) {
			if err := p.Check(v); err != nil {
				return nil, invalidParam(p.Name, err)
			}
		}
	}
	limit := settings{Config: r.Config}.durationOf(keyTimeout, time.Minute)
	own, cancel := context.WithTimeout(withTenant(ctx, r.Namespace), limit)
	defer cancel()
	var out *resolve.Resource
	var err error
	if r.Get("repo") != "" {
		out, err = g.throughAPI(own, r)
	} else {
		out, err = g.resolveByClone(own, r)
	}
	if err != nil && own.Err() != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &resolve.Error{
			Reason: resolve.ReasonTimedOut, Err: own.Err(),
			Msg: fmt.Sprintf("%s did not answer in full within %s (%s)", placeOf(r).name, limit, keyTimeout),
		}
	}
	return out, err
}

// where returns the target of a request: the remote's host, with a port that is not the scheme's own, and the repository's name,
// without credentials. Both are empty if the parameters do not name one.
type where struct{ host, name string }

// placeOf finds the target without reading a Secret or asking a server. Errors give the zero value: Resolve reports them.
func placeOf(r *resolve.Request) where {
	if r.Get("repo") == "" {
		repo, err := parseRepository(cmp.Or(r.Get("url"), r.Config[keyDefaultURL]))
		if err != nil {
			return where{}
		}
		return where{hostAndPort(repo), repo.canonicalName()}
	}
	s, err := chooseSettings(r.Config, r.Get("configKey"))
	if err != nil {
		return where{}
	}
	at, err := serverFor(r, s)
	if err != nil {
		return where{}
	}
	host := hostOf(at.server)
	return where{host, host + "/" + cmp.Or(r.Get("org"), s.Config[keyDefaultOrg]) + "/" + r.Get("repo")}
}

// invalidParam names the parameter in what is wrong with its value; nil stays nil.
func invalidParam(param string, err error) error {
	if err == nil {
		return nil
	}
	return resolve.Errorf(resolve.ReasonInvalid, "%s: %w", param, err)
}

// repositoryOf returns the repository of a request, with the settings for its host.
func repositoryOf(r *resolve.Request) (repo repository, s settings, err error) {
	raw := r.Get("url")
	if raw == "" {
		if s, err = chooseSettings(r.Config, r.Get("configKey")); err != nil {
			return repo, s, err
		}
		if raw = s.Config[keyDefaultURL]; raw == "" {
			return repo, s, resolve.Errorf(resolve.ReasonInvalid, "url: it is missing; give the repository's address, or repo for a provider's API")
		}
	}
	if repo, err = parseRepository(raw); err != nil {
		return repo, s, invalidParam("url", err)
	}
	s, err = chooseSettings(r.Config, r.Get("configKey"), repo.hostNames()...)
	return repo, s, err
}

// cloning is a request that reads by git's own protocol.
type cloning struct {
	*Resolver

	settings settings
	// key identifies the mirror; connect is called if it has no connection yet.
	key     []string
	connect func() (remote, error)
	wanted  terms
	// policies judge the fetch. about is what is known of it: the repository first, then what the server says.
	policies       policies
	about          fetched
	revision, path string
	// below: files in subdirectories of a directory count, too.
	below bool
}

// cloned is what such a request has read.
type cloned struct {
	data   []byte
	commit commit
	// lookedAt is when the server reported the revision, admitted when it accepted the credential.
	lookedAt, admitted time.Time
	// names are the other names of the revision; see [target].
	names string
}

// resolveByClone reads by git's own protocol.
func (g *Resolver) resolveByClone(ctx context.Context, r *resolve.Request) (*resolve.Resource, error) {
	repo, s, err := repositoryOf(r)
	if err != nil {
		return nil, err
	}
	policies, err := policiesFor(r.Config, s)
	if err != nil {
		return nil, err
	}
	about := fetched{namespace: r.Namespace, repository: repo.canonicalName(), repositories: repo.names()}
	if err := policies.checkFetch(about); err != nil {
		return nil, err
	}
	cred, err := cloneCredential(ctx, r, s, repo)
	if err != nil {
		return nil, err
	}
	c := &cloning{
		Resolver: g, settings: s, policies: policies, about: about,
		revision: commitName(cmp.Or(r.Get("revision"), s.Config[keyDefaultRevision], "main")), path: r.Get("pathInRepo"), below: r.Get("recursive") == "true",
		// The rules for addresses are part of the key: a request whose rules refuse an address must not get a result that other rules
		// allowed.
		key: slices.Concat(cred.identityParts(), []string{repo.scheme, repo.user, repo.canonicalName(), repo.path}, netguard.Identity(s.Config, false)),
		connect: func() (remote, error) {
			r, err := g.connectTo(s, repo, cred)
			if err == nil && g.way != nil {
				r = g.way(r)
			}
			return r, err
		},
		wanted: terms{
			uri: sourceURI(repo.raw), now: g.options.Clock.Now, began: g.options.Clock.Now(), bytes: r.Limit(), notBefore: r.NotBefore,
			ttl: s.durationOf(keyRefTTL, 5*time.Second), credential: cred.isSet(), access: s.durationOf(resolve.KeyAccessTTL, time.Minute),
		},
	}
	for attempt := 0; ; attempt++ {
		var found cloned
		err := errDiskFull
		st := g.currentStore()
		if st != nil {
			// The limit is the same for all requests: it comes from the plain configuration.
			st.setLimit(settings{Config: r.Config}.bytesOf(keyCacheBytes, defaultCacheBytes))
			found, err = c.readFrom(ctx, st)
			g.noteCacheUse(st, err)
		}
		if errors.Is(err, errDiskFull) && ctx.Err() == nil {
			// Unused mirrors make room for this fetch. Once is enough: if that did not help, other files fill the disk.
			if attempt == 0 && st != nil && st.makeRoom() {
				continue
			}
			found, err = c.readBeside(ctx)
		}
		forget := func() bool { return st != nil && st.forgetServerFacts(st.folderName(c.key...)) }
		if attempt == 0 && ctx.Err() == nil && worthAnother(err, c.revision, forget) {
			continue
		}
		if err != nil {
			return nil, withDefaultRevision(g.userErrorFor(err, repo), r)
		}
		out := newResource(found.data, found.commit.id, c.path, repo.raw, c.revision, nil)
		out.Signers, out.LookedAt = found.commit.signers, found.lookedAt
		addNames(out, found.names)
		if out.Anonymous = !c.wanted.credential; c.wanted.credential {
			out.Expires = found.admitted.Add(c.wanted.access)
		}
		return out, nil
	}
}

// withDefaultRevision says of a missing revision that the operator has chosen it, where the request names none.
func withDefaultRevision(err error, r *resolve.Request) error {
	e, ok := errors.AsType[*resolve.Error](err)
	if !ok || e.Reason != resolve.ReasonNotFound || r.Get("revision") != "" || !strings.HasPrefix(e.Msg, "revision: ") && !strings.Contains(e.Msg, ": there is no revision ") {
		return err
	}
	named := *e
	named.Msg += "; the request names no revision, and this is the one of " + keyDefaultRevision
	return &named
}

// addNames adds the annotation for the names of the revision, if there are any.
func addNames(out *resolve.Resource, names string) {
	if names != "" {
		out.Annotations[resolve.AnnotationRevisions] = names
	}
}

// worthAnother reports whether a second attempt may succeed. It forgets what is known of the server if that may be the cause.
func worthAnother(err error, revision string, forget func() bool) bool {
	if errors.Is(err, errCorrupt) || errors.Is(err, errMissing) {
		return true // a new mirror has no damage
	}
	// The server may have moved, have learnt another version of the protocol, or have lost what a branch named.
	rewritten := errors.Is(err, errFromPeer) && !isObjectID(revision)
	return (rewritten || mayBeOutdated(err)) && forget()
}

// readFrom reads from the mirror in a store.
func (c *cloning) readFrom(ctx context.Context, st *store) (found cloned, err error) {
	packBytes := min(c.settings.bytesOf(keyPackBytes, defaultPackBytes), st.packBytes())
	if st.aside {
		packBytes = min(packBytes, c.besideBytes)
	}
	host, _, _ := strings.Cut(c.about.repository, "/")
	m, err := st.acquireMirror(st.folderName(c.key...), host, c.connect)
	if err != nil {
		return found, err
	}
	defer st.releaseMirror(m)
	defer func() {
		if errors.Is(err, errCorrupt) || errors.Is(err, errMissing) {
			st.discardMirror(m)
		}
	}()
	looked, err := m.lookupRevision(ctx, c.revision, c.wanted, packBytes)
	if err != nil {
		return found, err
	}
	t := looked.target
	found.lookedAt, found.names = looked.at, t.names
	if found.admitted, err = m.proveAccess(ctx, c.wanted); err != nil {
		return found, err
	}
	about := c.about
	about.revisions = policyNames(c.revision, t)
	if err := c.policies.checkFetch(about); err != nil {
		return found, err
	}
	if found.commit, err = m.ensureCommit(ctx, t, packBytes); err != nil {
		return found, err
	}
	if found.commit.id != t.commit {
		// The revision was the ID of a tag object, or the server reported another commit than the tag has.
		about.revisions = policyNames(c.revision, target{ref: t.ref, commit: found.commit.id})
		if err := c.policies.checkFetch(about); err != nil {
			return found, err
		}
	}
	if err := checkSignature(c.settings.restrictions(keySigners), found.commit, c.options.Clock.Now); err != nil {
		return found, err
	}
	if found.commit.signers, err = c.commitSigners(c.wanted.uri, found.commit); err != nil {
		return found, err
	}
	w := &walker{mirror: m, commit: found.commit, fileBytes: min(maxFileBytes, c.wanted.bytes), packBytes: packBytes, below: c.below}
	found.data, err = w.readPath(ctx, c.path, func(path string) error {
		about := about
		about.path = path
		return c.policies.checkFetch(about)
	})
	return found, err
}

// sourceURI is the name of a repository in SPDX, which Tekton uses too.
func sourceURI(raw string) string { return "git+" + raw }

// policyNames returns the names by which a policy may know a revision.
func policyNames(revision string, t target) []string {
	out := []string{revision}
	for _, ref := range []string{t.ref, t.symref} {
		if ref != "" {
			out = append(out, ref)
		}
		for _, p := range []string{"refs/heads/", "refs/tags/"} {
			if short, ok := strings.CutPrefix(ref, p); ok {
				out = append(out, short, strings.TrimPrefix(ref, "refs/"))
			}
		}
	}
	return append(out, t.commit)
}

// policies are the policies that apply to a request, all of them.
type policies []Policy

// policiesFor returns the policy of the configuration, that of the named one and those for the host.
func policiesFor(c resolve.Config, s settings) (policies, error) {
	var all policies
	for _, text := range append(s.restrictions(keyPolicy), c[keyPolicy]) {
		p, err := ParsePolicy(text)
		if err != nil {
			// If a policy cannot be read, nothing is allowed.
			return nil, resolve.Errorf(resolve.ReasonForbidden, "the operator's policy cannot be read: policy: %w", err)
		}
		all = append(all, p)
	}
	return all, nil
}

// judgesPaths reports whether a policy has rules for paths that hold for the namespace.
func (all policies) judgesPaths(namespace string) bool {
	return slices.ContainsFunc(all, func(p Policy) bool { return p.judgesPaths() || p.Namespaces[namespace].judgesPaths() })
}

// checkFetch is [Policy.checkFetch] of each policy.
func (all policies) checkFetch(f fetched) error {
	for _, p := range all {
		if err := p.checkFetch(f); err != nil {
			return err
		}
	}
	return nil
}

// connectTo returns a connection to a repository.
func (g *Resolver) connectTo(s settings, repo repository, cred credential) (remote, error) {
	guard, err := g.guardFor(s, false)
	if err != nil {
		return nil, err
	}
	switch repo.scheme {
	case "ssh":
		return newSSHRemote(repo, guard, cred.ssh, g.options.Clock.Now), nil
	case "git":
		return &daemonRemote{repo, guard}, nil
	}
	return newHTTPRemote(httpClient(guard), repo.baseURL(), cred.authorization, g.options.Clock), nil
}

// guardFor returns the guard of the network under a configuration. chosen is true if the requester has chosen the address, and false
// if the operator has.
func (g *Resolver) guardFor(s settings, chosen bool) (*netguard.Guard, error) {
	guard, err := g.guards.Get(s.Config, chosen)
	if err != nil {
		return nil, resolve.Errorf(resolve.ReasonFailed, "the configuration of the git resolver is wrong: %w", err)
	}
	return guard, nil
}

// httpClient follows redirects as git does. The code for the credential has decided whether http is allowed.
func httpClient(guard *netguard.Guard) *http.Client {
	return &http.Client{Transport: guard.RoundTripper(true), CheckRedirect: followSafely}
}

// newResource is the result.
func newResource(data []byte, id, path, url, revision string, more map[string]string) *resolve.Resource {
	// As in Tekton, a leading slash is the repository's root.
	path = strings.TrimLeft(path, "/")
	algorithm := "sha1"
	if len(id) == 64 {
		algorithm = "sha256"
	}
	annotations := map[string]string{
		resolve.AnnotationContentType:         resolve.ContentTypeYAML,
		resolve.AnnotationPrefix + "revision": id,
		resolve.AnnotationPrefix + "path":     path,
		resolve.AnnotationPrefix + "url":      url,
		"commit":                              id,
		"content-type":                        resolve.ContentTypeYAML,
	}
	maps.Copy(annotations, more)
	return &resolve.Resource{
		Data: data, Annotations: annotations, Immutable: isObjectID(revision),
		Source: resolve.Source{URI: sourceURI(url), Digest: map[string]string{algorithm: id}, EntryPoint: path},
	}
}
