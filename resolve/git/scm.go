package git

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"sluice.dev/internal/limit"
	"sluice.dev/resolve"
)

// This file reads a file through the API of a provider, in place of a clone. It asks for the commit of the revision first and then for
// the file in that commit, so that the result names the commit that it is from. The API does not prove that, so a policy about
// signatures refuses this way.

// provider describes the API of one kind of server. Its paths are templates for [api.pathOf]: the value revision
// is the ID of the commit in the path of a file.
type provider struct {
	// server is the web address of the public server, public the base of its API; empty if there is none. under is the path of the
	// API below the address of other servers.
	server, public, under string
	// clone is the path for git clone below the web address; empty stands for defaultClone.
	clone string
	// commit is the path for the commit of a revision; id reads its ID from the answer.
	commit string
	// tag is that path for a tag, if the server does not find tags by itself.
	tag string
	id  func(body []byte) (string, error)
	// file is the path of a file's content.
	file string
	// content extracts the content of a file from an answer with more; nil if the answer is the content. errNoFile means a
	// directory, a submodule or a link to one.
	content func(answer []byte) ([]byte, error)
	// login sets the headers for a token.
	login func(h http.Header, token string)
	// accept has the media types to ask for, for the commit and for the file; empty for any.
	accept [2]string
	// listing reports by the media type of the answer whether it is the listing of a directory and no file; nil if the server has
	// no such answer. If maybe is set, the answer can still be a file; the path meta decides.
	listing func(mediaType string) (yes, maybe bool)
	meta    string
	// siblings is the path for the listing of a directory, if the server follows symbolic links to files.
	siblings string
}

// serverAddresses returns a server's web address and the base of its API; address may be either.
func (p provider) serverAddresses(server string) (web, api string) {
	web = strings.TrimSuffix(strings.TrimRight(server, "/"), p.under)
	if p.public != "" && (web == p.server || web == strings.TrimSuffix(p.public, p.under)) {
		return p.server, p.public
	}
	return web, web + p.under
}

const (
	defaultProvider = "github"
	defaultClone    = "/{org}/{repo}.git"
)

// providers are the types of go-scm, which Tekton uses, under the same names.
var providers = func() map[string]provider {
	out := maps.Clone(ownTypes)
	out["bitbucket"], out["stash"] = ownTypes["bitbucketcloud"], ownTypes["bitbucketserver"]
	return out
}()

const (
	githubContents = "/repos/{org}/{repo}/contents/{path}?ref={revision}"
	// Between these two stands the type of a version: branch or tag.
	azureCommits = "/{org}/_apis/git/repositories/{repo}/commits?searchCriteria.$top=1&searchCriteria.itemVersion.versionType="
	azureVersion = "&searchCriteria.itemVersion.version={revision}&api-version=6.0"
)

var ownTypes = map[string]provider{
	"github": {
		server: "https://github.com",
		public: "https://api.github.com", under: "/api/v3",
		commit: "/repos/{org}/{repo}/commits/{revision}",
		id:     commitFromText("sha"),
		file:   githubContents,
		login:  setBearerToken,
		// As JSON, the commit includes its changes, which may be large.
		accept:   [2]string{"application/vnd.github.sha", "application/vnd.github.raw+json"},
		listing:  func(mediaType string) (yes, maybe bool) { return mediaType == "application/json", false },
		siblings: githubContents,
	},
	"gitlab": {
		server: "https://gitlab.com", under: "/api/v4",
		commit: "/projects/{org%}%2F{repo%}/repository/commits/{revision%}",
		id:     commitFromField("id"),
		file:   "/projects/{org%}%2F{repo%}/repository/files/{path%}/raw?ref={revision}",
		login:  func(h http.Header, token string) { h.Set("Private-Token", token) },
	},
	"gitea": {
		server: "https://gitea.com", under: "/api/v1",
		commit: "/repos/{org}/{repo}/commits?limit=1&stat=false&verification=false&files=false&sha={revision}",
		id:     commitFromList("", "sha"),
		file:   "/repos/{org}/{repo}/raw/{path}?ref={revision}",
		login:  func(h http.Header, token string) { h.Set("Authorization", "token "+token) },
	},
	"gogs": {
		under:  "/api/v1",
		commit: "/repos/{org}/{repo}/commits/{revision}",
		id:     commitFromField("sha"),
		file:   "/repos/{org}/{repo}/raw/{revision}/{path}",
		login:  func(h http.Header, token string) { h.Set("Authorization", "token "+token) },
	},
	// Azure DevOps: the organization is ORGANIZATION/PROJECT.
	"azure": {
		server: "https://dev.azure.com",
		clone:  "/{org}/_git/{repo}",
		commit: azureCommits + "branch" + azureVersion,
		tag:    azureCommits + "tag" + azureVersion,
		id:     commitFromList("value", "commitId"),
		file: "/{org}/_apis/git/repositories/{repo}/items?path=%2F{path}&versionDescriptor.versionType=commit" +
			"&versionDescriptor.version={revision}&includeContent=true&$format=json&api-version=6.0",
		content: azureContent,
		login:   func(h http.Header, token string) { h.Set("Authorization", basicAuthHeader("", token)) },
	},
	"bitbucketserver": {
		under:  "/rest/api/1.0",
		clone:  "/scm/{org}/{repo}.git",
		commit: "/projects/{org}/repos/{repo}/commits?limit=1&until={revision}",
		id:     commitFromList("values", "id"),
		file:   "/projects/{org}/repos/{repo}/raw/{path}?at={revision}",
		login:  setBearerToken,
	},
	"bitbucketcloud": {
		server: "https://bitbucket.org",
		public: "https://api.bitbucket.org/2.0", under: "/2.0",
		commit:  "/repositories/{org}/{repo}/commits?pagelen=1&include={revision}",
		id:      commitFromList("values", "hash"),
		file:    "/repositories/{org}/{repo}/src/{revision}/{path}",
		listing: func(mediaType string) (yes, maybe bool) { return false, mediaType == "application/json" },
		meta:    "/repositories/{org}/{repo}/src/{revision}/{path}?format=meta",
		login: func(h http.Header, token string) {
			if user, password, ok := strings.Cut(token, ":"); ok {
				h.Set("Authorization", basicAuthHeader(user, password))
				return
			}
			setBearerToken(h, token)
		},
	},
}

var errNoFile = errors.New("it is no file")

// azureContent reads an item of Azure DevOps as JSON, which says whether it is a file.
func azureContent(answer []byte) ([]byte, error) {
	var item struct {
		Type    string  `json:"gitObjectType"`
		Content *string `json:"content"`
	}
	switch err := json.Unmarshal(answer, &item); {
	case err != nil:
		return nil, errGarbage
	case item.Type != "" && item.Type != "blob":
		return nil, errNoFile
	case item.Content == nil:
		return nil, errGarbage
	}
	return []byte(*item.Content), nil
}

func setBearerToken(h http.Header, token string) { h.Set("Authorization", "Bearer "+token) }

var errNoCommit = errors.New("the answer names no commit")

// commitFromField returns a function that reads the ID of a commit from a field of a JSON object. The server is not trusted: what is
// no full ID is an error.
func commitFromField(name string) func([]byte) (string, error) {
	return func(body []byte) (string, error) {
		var v map[string]json.RawMessage
		if err := json.Unmarshal(body, &v); err != nil {
			return "", errNoCommit
		}
		var id string
		if err := json.Unmarshal(v[name], &id); err != nil || !isObjectID(id) {
			return "", errNoCommit
		}
		return id, nil
	}
}

// commitFromText reads a plain name, or a field.
func commitFromText(name string) func([]byte) (string, error) {
	return func(body []byte) (string, error) {
		if id := string(bytes.TrimSpace(body)); isObjectID(id) {
			return id, nil
		}
		return commitFromField(name)(body)
	}
}

// commitFromList reads a field of the first element of a list. The list is the answer itself or one of its fields.
func commitFromList(list, name string) func([]byte) (string, error) {
	return func(body []byte) (string, error) {
		if list != "" {
			var v map[string]json.RawMessage
			if err := json.Unmarshal(body, &v); err != nil {
				return "", errNoCommit
			}
			body = v[list]
		}
		var items []json.RawMessage
		if err := json.Unmarshal(body, &items); err != nil || len(items) == 0 {
			return "", errNoCommit
		}
		return commitFromField(name)(items[0])
	}
}

// commitID returns the ID of the commit that a revision names.
func (a *api) commitID(ctx context.Context, revision string, isTag bool) (string, error) {
	if isObjectID(revision) {
		return revision, nil
	}
	body, err := a.askCommit(ctx, revision, isTag)
	if err != nil {
		return "", a.explainAPIError(err, fmt.Sprintf("revision %q", revision))
	}
	id, err := a.provider.id(body)
	if err != nil {
		return "", resolve.Errorf(resolve.ReasonFailed, "%s: what the server answers names no commit; is scmType right?", a.name)
	}
	return id, nil
}

// namesForAPI returns the names for which the provider is asked for the same.
func namesForAPI(revision string, isTag bool) string {
	if isTag || isObjectID(revision) || strings.HasPrefix(revision, "refs/") || revision == "HEAD" {
		return ""
	}
	return revision + " refs/heads/" + revision
}

// throughAPI reads through a provider's API.
func (g *Resolver) throughAPI(ctx context.Context, r *resolve.Request) (*resolve.Resource, error) {
	s, err := chooseSettings(r.Config, r.Get("configKey"))
	if err != nil {
		return nil, err
	}
	org, repo := cmp.Or(r.Get("org"), s.Config[keyDefaultOrg]), r.Get("repo")
	if org == "" {
		return nil, resolve.Errorf(resolve.ReasonInvalid, "org: it is missing, and the configuration has no default-org")
	}
	if err := checkOrg(org); err != nil {
		return nil, invalidParam("org", err)
	}
	full := commitName(cmp.Or(r.Get("revision"), cmp.Or(s.Config[keyDefaultRevision], "main")))
	// The APIs know branches and tags by their short names.
	revision, isTag := strings.CutPrefix(full, "refs/tags/")
	revision = strings.TrimPrefix(revision, "refs/heads/")
	path := cleanPath(r.Get("pathInRepo"))
	if path == "" {
		return nil, resolve.Errorf(resolve.ReasonInvalid, "pathInRepo: %q names no file", r.Get("pathInRepo"))
	}
	a, err := g.connectAPI(ctx, r, s)
	if err != nil {
		return nil, err
	}
	a.org, a.repo = org, repo
	clone := a.server + a.pathOf(cmp.Or(a.provider.clone, defaultClone), "", "")
	parsed, err := parseRepository(clone)
	if err != nil {
		return nil, invalidParam("url", err)
	}
	a.name = parsed.canonicalName()
	// The operator's demands for a host apply to both ways of reading its repositories.
	demands, err := chooseSettings(r.Config, r.Get("configKey"), parsed.hostNames()...)
	if err != nil {
		return nil, err
	}
	signed := g.options.Policies().Commit(sourceURI(clone))
	if len(s.restrictions(keySigners))+len(demands.restrictions(keySigners)) > 0 || signed.Enforced {
		return nil, resolve.Errorf(resolve.ReasonVerification,
			"repo: the operator wants commits of %s to be signed, and the API of a provider does not prove that a file is part of a commit; give url: %s", a.name, clone)
	}
	policies, err := policiesFor(r.Config, demands)
	if err != nil {
		return nil, err
	}
	f := fetched{namespace: r.Namespace, repository: a.name, repositories: parsed.names()}
	if err := policies.checkFetch(f); err != nil {
		return nil, err
	}
	id, err := a.commitID(ctx, revision, isTag)
	if err != nil {
		return nil, withDefaultRevision(err, r)
	}
	f.revisions, f.path = []string{revision, full, id}, path
	if revision == full {
		// The server does not say whether this is a branch or a tag.
		f.maybe = []string{"heads/" + full, "tags/" + full, "refs/heads/" + full, "refs/tags/" + full}
	}
	if err := policies.checkFetch(f); err != nil {
		return nil, err
	}
	if policies.judgesPaths(r.Namespace) {
		if err := a.noLink(ctx, path, id); err != nil {
			return nil, err
		}
	}
	most := min(maxFileBytes, r.Limit())
	data, err := a.readFile(ctx, path, id, most)
	if errors.Is(err, errTooMuch) {
		return nil, resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: %q has more than the %d bytes that are allowed", path, most)
	}
	if err != nil {
		return nil, a.explainAPIError(err, fmt.Sprintf("file %q in commit %s", path, id))
	}
	more := map[string]string{resolve.AnnotationPrefix + "org": org, resolve.AnnotationPrefix + "repo": repo}
	if a.mayBeLink(data) {
		more[resolve.AnnotationWarning] = fmt.Sprintf("%q is the text of a symbolic link, it seems, which the API of this provider does not follow; name the file itself, or give url: %s", path, clone)
	}
	out := newResource(data, id, r.Get("pathInRepo"), clone, revision, more)
	addNames(out, namesForAPI(revision, isTag))
	out.Anonymous = a.token == ""
	return out, nil
}

// mayBeLink reports whether content can be the target of a symbolic link: one line that does not end, and no object. A server that does not
// follow links gives it in place of the file.
func (a *api) mayBeLink(data []byte) bool {
	const longest = 4096 // PATH_MAX of Linux
	return a.provider.siblings == "" && len(data) > 0 && len(data) < longest && !bytes.ContainsAny(data, "\n\r\x00:{[")
}

// askCommit asks about the commit of a branch or a tag.
func (a *api) askCommit(ctx context.Context, revision string, isTag bool) ([]byte, error) {
	ways := []string{a.provider.commit}
	if a.provider.tag != "" {
		ways = append(ways, a.provider.tag)
		if isTag {
			ways = ways[1:]
		}
	}
	var body []byte
	var err error
	for _, way := range ways {
		body, _, err = a.sendGet(ctx, a.pathOf(way, revision, ""), a.provider.accept[0], 4<<20, false)
		var status *statusError
		if err == nil || !errors.As(err, &status) || status.code != http.StatusNotFound {
			break
		}
	}
	return body, err
}

// api is a server's API, with the token for it.
type api struct {
	provider provider
	// server is the web address, base that of the API. operators: the server comes from the configuration.
	server, base string
	operators    bool
	token        string
	client       *http.Client
	resolver     *Resolver
	// org and repo are the repository, name its name in messages and policies.
	org, repo, name string
}

// pathOf fills in a template of the provider. In a path, {NAME} keeps the slashes of a value, and {NAME%} escapes them too. In the
// query after it, {NAME} is escaped as values there are. The path of the root folder has no slash at its end.
func (a *api) pathOf(template, revision, path string) string {
	var inPath, inQuery []string
	for name, value := range map[string]string{"org": a.org, "repo": a.repo, "revision": revision, "path": path} {
		whole := url.PathEscape(value)
		inPath = append(inPath, "{"+name+"}", strings.ReplaceAll(whole, "%2F", "/"), "{"+name+"%}", whole)
		inQuery = append(inQuery, "{"+name+"}", url.QueryEscape(value))
	}
	before, query, hasQuery := strings.Cut(template, "?")
	out := strings.TrimSuffix(strings.NewReplacer(inPath...).Replace(before), "/")
	if hasQuery {
		out += "?" + strings.NewReplacer(inQuery...).Replace(query)
	}
	return out
}

// connectAPI finds the server and the token. The operator's token goes only to the operator's server, over the scheme that the operator
// has set. A requester who chooses either must bring a token.
func (g *Resolver) connectAPI(ctx context.Context, r *resolve.Request, s settings) (*api, error) {
	a, err := serverFor(r, s)
	if err != nil {
		return nil, err
	}
	a.resolver = g
	_, a.base = a.provider.serverAddresses(a.server)
	switch {
	case r.Get("token") != "":
		a.token, err = secretValue(ctx, r, r.Namespace, r.Get("token"), cmp.Or(r.Get("tokenKey"), "token"), hostOf(a.server))
	// The operator's own Secret: the server that it goes to is the operator's as well.
	case a.operators && s.Config[keyAPISecret] != "":
		a.token, err = secretValue(ctx, r, cmp.Or(s.Config[keyAPISecretNS], "default"), s.Config[keyAPISecret], cmp.Or(s.Config[keyAPISecretKey], "token"), "")
	case !a.operators && r.Get("serverURL") != "":
		err = resolve.Errorf(resolve.ReasonForbidden, "serverURL: a server of your own choice needs a token of your own; name its Secret in token")
	}
	if err != nil {
		return nil, err
	}
	if a.token != "" && strings.HasPrefix(a.server, "http:") && s.Config[KeyPlain] != "true" {
		return nil, resolve.Errorf(resolve.ReasonForbidden, "serverURL: a token is not sent over http without TLS; use https")
	}
	guard, err := g.guardFor(s, !a.operators && a.server != a.provider.server)
	if err != nil {
		return nil, err
	}
	a.client = httpClient(guard)
	return a, nil
}

// serverFor finds the server of a request; connectAPI adds what it takes to ask it.
func serverFor(r *resolve.Request, s settings) (*api, error) {
	ownType := cmp.Or(s.Config[keySCMType], defaultProvider)
	kind := cmp.Or(r.Get("scmType"), ownType)
	p, ok := providers[kind]
	if !ok {
		return nil, invalidParam("scmType", checkSCMType(kind))
	}
	// The comparison uses web addresses, because these are equal for all spellings of one server.
	own, _ := providers[ownType].serverAddresses(withScheme(cmp.Or(s.Config[keyServerURL], providers[ownType].server)))
	server, _ := p.serverAddresses(withScheme(r.Get("serverURL")))
	if server == "" {
		server = own
		if kind != ownType && !p.isSameAs(providers[ownType]) {
			server = p.server
		}
	}
	if server == "" {
		return nil, resolve.Errorf(resolve.ReasonInvalid, "serverURL: %s has no public server; name yours", kind)
	}
	if err := checkServerURL(server); err != nil {
		return nil, invalidParam("serverURL", err)
	}
	return &api{provider: p, server: server, operators: server == own && p.isSameAs(providers[ownType])}, nil
}

// isSameAs reports whether two types mean the same provider.
func (p provider) isSameAs(q provider) bool { return p.under == q.under && p.server == q.server }

// readFile returns the content of a file. Anything else at the path is an error.
func (a *api) readFile(ctx context.Context, path, commit string, most int64) ([]byte, error) {
	bound := most
	if a.provider.content != nil {
		// JSON escapes make the content longer.
		bound = 6*most + 1<<16
	}
	data, header, err := a.sendGet(ctx, a.pathOf(a.provider.file, commit, path), a.provider.accept[1], bound, a.provider.content == nil)
	if err == nil && a.provider.content != nil {
		if data, err = a.provider.content(data); err == nil && int64(len(data)) > most {
			err = errTooMuch
		}
		if errors.Is(err, errNoFile) {
			return nil, noFile(path)
		}
	}
	if err != nil || a.provider.listing == nil {
		return data, err
	}
	mediaType, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	yes, maybe := a.provider.listing(strings.ToLower(strings.TrimSpace(mediaType)))
	if maybe {
		meta, _, err := a.sendGet(ctx, a.pathOf(a.provider.meta, commit, path), "", 1<<20, false)
		if err != nil {
			return nil, err
		}
		var about struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(meta, &about); err != nil {
			return nil, errGarbage
		}
		yes = about.Type != "commit_file"
	}
	if yes {
		return nil, noFile(path)
	}
	return data, nil
}

func noFile(path string) error {
	return resolve.Errorf(resolve.ReasonInvalid,
		"pathInRepo: %q is no file but a directory, a submodule or a link to one; with repo one file is read: name it, or give url, with which a directory is read too", path)
}

// noLink refuses a file that the server finds through a symbolic link. The answer does not name its target, so the operator's rules
// for paths could not be checked.
func (a *api) noLink(ctx context.Context, path, commit string) error {
	if a.provider.siblings == "" {
		// The other servers return the text of a link.
		return nil
	}
	dir, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir, name = path[:i], path[i+1:]
	}
	body, _, err := a.sendGet(ctx, a.pathOf(a.provider.siblings, commit, dir), "application/vnd.github+json", 8<<20, false)
	if err != nil {
		return a.explainAPIError(err, fmt.Sprintf("file %q in commit %s", path, commit))
	}
	var entries []struct{ Name, Type string }
	if err := json.Unmarshal(body, &entries); err != nil {
		return resolve.Errorf(resolve.ReasonNotFound, "%s: there is no file %q in commit %s", a.name, path, commit)
	}
	for _, e := range entries {
		if e.Name == name && e.Type == "file" {
			return nil
		}
	}
	return resolve.Errorf(resolve.ReasonForbidden,
		"pathInRepo: the operator's policy has rules for paths, and the server does not show %q to be a plain file; give url, with which links are followed by the same rules", path)
}

// hostOf returns the host of a server's address in lower case, with a port that is not the scheme's own.
func hostOf(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return "?" // no host; an earlier check has refused the address
	}
	return hostAndPort(repository{scheme: u.Scheme, host: strings.ToLower(u.Hostname()), port: portOf(u)})
}

// sendGet sends a request to the API. The path is escaped. isFile: the answer is a file, which may be a page.
func (a *api) sendGet(ctx context.Context, path, accept string, most int64, isFile bool) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("User-Agent", "sluice")
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	if a.token != "" {
		a.provider.login(req.Header, a.token)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, nil, &statusError{code: resp.StatusCode, retryAfter: retryAfter(resp.Header, a.resolver.options.Clock)}
	}
	if ledToSignIn(req, resp) {
		return nil, nil, &statusError{code: resp.StatusCode, signIn: true}
	}
	if resp.ContentLength > most {
		return nil, nil, errTooMuch
	}
	body, err := limit.ReadAll(resp.Body, most)
	if errors.Is(err, limit.ErrTooLarge) {
		err = errTooMuch
	}
	if err == nil && !isFile && isSignInPage(req, resp, body) {
		err = &statusError{code: resp.StatusCode, signIn: true}
	}
	return body, resp.Header, err
}

// explainAPIError turns an error into one for the user; what names the thing that was asked for. Providers answer 404 for what a token
// may not read, too, so the text says both.
func (a *api) explainAPIError(err error, what string) error {
	var status *statusError
	if !errors.As(err, &status) {
		return explainRemoteError(err, a.name)
	}
	switch status.code {
	case http.StatusNotFound, http.StatusUnprocessableEntity:
		hidden := "the token may not read it"
		if a.token == "" {
			hidden = "it cannot be read without a token"
		}
		return resolve.Errorf(resolve.ReasonNotFound, "%s: there is no %s, or %s", a.name, what, hidden).Because(err)
	case http.StatusConflict: // GitHub and Gitea
		return resolve.Errorf(resolve.ReasonNotFound, "%s: there is no %s; the repository is empty", a.name, what).Because(err)
	}
	return explainRemoteError(err, a.name)
}
