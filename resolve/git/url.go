package git

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/resolve"
	"sluice.dev/resolve/verify"
)

// Addresses come from requesters, so that everything which git or a shell could take for something else is refused: options, transport
// helpers, local paths, passwords. What is left has one canonical name for all spellings, by which policies and mirrors know the
// repository.

// repository is the parsed address of a repository.
type repository struct {
	// raw is the address as the requester wrote it; for https without the name of a user.
	raw string
	// scheme is https, http, ssh or git.
	scheme string
	user   string
	host   string
	// port is never empty.
	port string
	// path begins with a slash, unless an scp-like address has a relative one.
	path string
}

var defaultPorts = map[string]string{"https": "443", "http": "80", "ssh": "22", "git": "9418"}

// parseRepository parses an address: https, http, ssh, git, or user@host:path as for scp. It refuses everything else. It also
// refuses a password, which would end up in annotations. The user name in an address for https may be a token. It goes only into a
// header, and only with a password from a Secret.
func parseRepository(raw string) (repository, error) {
	bad := func(format string, args ...any) (repository, error) {
		return repository{}, fmt.Errorf(format, args...)
	}
	if raw == "" {
		return bad("it is empty; give the address of the repository")
	}
	if len(raw) > 2048 {
		return bad("it has %d bytes; at most 2048 are allowed", len(raw))
	}
	if strings.Contains(strings.TrimSpace(raw), " ") {
		return bad("%q has a space; write %%20 in place of each", raw)
	}
	if hasControl(raw) || strings.ContainsAny(raw, " \\\"'`<>") {
		return bad("%q has characters that no repository's address has", raw)
	}
	if strings.HasPrefix(raw, "-") {
		return bad("%q begins with a dash", raw)
	}
	if helper, _, ok := strings.Cut(raw, "::"); ok && !strings.ContainsAny(helper, ":/[") {
		return bad("%q names a transport helper; use https, http, ssh or git", raw)
	}
	scheme, _, ok := strings.Cut(raw, "://")
	if !ok {
		return parseSCP(raw)
	}
	scheme = strings.ToLower(scheme)
	port, known := defaultPorts[scheme]
	if !known {
		return bad("the scheme %q is not supported; use https, http, ssh or git, or the resolver dir for a folder", scheme)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return bad("it cannot be read as an address")
	}
	r := repository{raw: raw, scheme: scheme, host: strings.ToLower(u.Hostname()), port: port, path: u.Path}
	if u.Port() != "" {
		r.port = u.Port()
	}
	if u.User != nil {
		if _, has := u.User.Password(); has || scheme == "git" {
			return bad("it has credentials in it; put them into a Secret and name it in the parameter gitToken or authSecret")
		}
		r.user = u.User.Username()
		if scheme != "ssh" {
			r.raw = raw[:len(scheme)+3] + raw[strings.Index(raw, "@")+1:]
		}
	}
	if u.RawQuery != "" || u.Fragment != "" || u.ForceQuery {
		return bad("it has a query or a fragment, which a repository's address does not have")
	}
	return r.checkParts()
}

// parseSCP parses [USER@]HOST:PATH. A slash before the colon makes it a path on this machine, as for git.
func parseSCP(raw string) (repository, error) {
	head, p, ok := strings.Cut(raw, ":")
	user, host, hasUser := strings.Cut(head, "@")
	if !hasUser {
		user, host = "", head
	}
	if !ok || strings.Contains(head, "/") || host == "" || (hasUser && user == "") {
		return repository{}, fmt.Errorf("%q is a local path or no address; use https://host/path, ssh://host/path or user@host:path, or the resolver dir for a folder", raw)
	}
	r := repository{raw: raw, scheme: "ssh", user: user, host: strings.ToLower(host), port: "22", path: p}
	return r.checkParts()
}

// checkParts checks the parts of an address, and returns it with one spelling for one server: the host in lower case, and the port
// without zeros in front. Dashes at the beginning are refused: programs on the server could take them for options.
func (r repository) checkParts() (repository, error) {
	bad := func(what string) error {
		return fmt.Errorf("%q %s", r.raw, what)
	}
	if strings.HasPrefix(r.user, "-") || hasControl(r.user) || strings.ContainsAny(r.user, ":@/ ") {
		return repository{}, bad("has no good user name")
	}
	if hasControl(r.path) || strings.ContainsAny(r.path, "'\\") {
		return repository{}, bad("has characters in its path that are not allowed")
	}
	// Policies, configurations by host and mirrors use the address that is connected to: one spelling for one server.
	host, err := resolve.HostName(r.host)
	if err != nil || strings.Contains(host, "%") {
		return repository{}, bad("has no good host name; a name has letters of ASCII, or is written in its xn-- form")
	}
	r.host = host
	port, err := strconv.ParseUint(r.port, 10, 16)
	if err != nil || port == 0 {
		return repository{}, bad("has no good port")
	}
	r.port = strconv.FormatUint(port, 10)
	trimmed := strings.Trim(r.path, "/")
	if trimmed == "" {
		return repository{}, bad("names no repository")
	}
	if strings.HasPrefix(r.path, "-") {
		return repository{}, bad("has a path that begins with a dash")
	}
	if path.Clean("/"+trimmed) != "/"+trimmed {
		return repository{}, bad("has empty, . or .. parts in its path")
	}
	return r, nil
}

// canonicalName is the name of the repository for policies and mirrors, equal for all spellings: the host, the port unless it is the
// scheme's own, and the path without .git. It has neither scheme nor user.
func (r repository) canonicalName() string {
	if r.port != defaultPorts[r.scheme] {
		return r.bracketed() + ":" + r.port + r.name()
	}
	return r.bracketed() + r.name()
}

// names returns the names by which policies know the repository, in lower case: the canonical one, that with the port, and for hosts
// that serve the repositories of others, that at the other host.
func (r repository) names() []string {
	out := []string{r.canonicalName(), r.bracketed() + ":" + r.port + r.name()}
	if other := verify.ServerOf(r.host); other != r.host {
		out = append(out, other+r.name())
	}
	// Of user@host:path, git sends the path as it is, and Azure DevOps reads %20 in it as a space, as in an address.
	for _, name := range slices.Clone(out) {
		plain, err := url.PathUnescape(name)
		if err != nil {
			continue
		}
		for _, other := range []string{plain, (&url.URL{Path: plain}).EscapedPath()} {
			if !slices.Contains(out, other) {
				out = append(out, other)
			}
		}
	}
	// Patterns are in lower case, too: a policy holds for a name in any case, also at servers that tell the cases apart.
	for i, name := range out {
		out[i] = strings.ToLower(name)
	}
	return out
}

// bracketed is the host as an address has it.
func (r repository) bracketed() string {
	if strings.Contains(r.host, ":") {
		return "[" + r.host + "]"
	}
	return r.host
}

// name is the path with a slash in front and without .git.
func (r repository) name() string {
	name := path.Clean("/" + r.path)
	if end := len(name) - len(".git"); end >= 0 && strings.EqualFold(name[end:], ".git") {
		name = name[:end]
	}
	return name
}

// baseURL is the address for HTTP.
func (r repository) baseURL() *url.URL {
	host := r.bracketed()
	if r.port != defaultPorts[r.scheme] {
		host = net.JoinHostPort(r.host, r.port)
	}
	return &url.URL{Scheme: r.scheme, Host: host, Path: strings.TrimRight(r.path, "/")}
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(c rune) bool { return c < 0x20 || c == 0x7f || c == 0xfffd || (c >= 0x80 && c < 0xa0) })
}

// checkRevision checks the name of a branch or tag, or a commit, by the rules of git check-ref-format.
func checkRevision(rev string) error {
	bad := func(what string) error {
		return fmt.Errorf("%q %s", rev, what)
	}
	switch {
	case rev == "":
		return errors.New("it is empty; name a branch, a tag or a commit")
	case len(rev) > 255:
		return fmt.Errorf("it has %d bytes; at most 255 are allowed", len(rev))
	case strings.HasPrefix(rev, "-"):
		return bad("begins with a dash")
	case hasControl(rev) || strings.ContainsAny(rev, " ~^:?*[\\"):
		return bad("has characters that no branch, tag or commit has")
	case strings.Contains(rev, "..") || strings.Contains(rev, "@{") || strings.Contains(rev, "//") || rev == "@":
		return bad("is an expression; name a branch, a tag or a commit")
	case strings.HasPrefix(rev, "/") || strings.HasSuffix(rev, "/") || strings.HasSuffix(rev, "."):
		return bad("is no name that git allows")
	}
	for c := range strings.SplitSeq(rev, "/") {
		if strings.HasPrefix(c, ".") || strings.HasSuffix(c, ".lock") {
			return bad("is no name that git allows")
		}
	}
	return nil
}

// checkPath checks a path inside a repository. The walk through the tree decides whether .. leaves the repository.
func checkPath(p string) error {
	switch {
	case p == "":
		return errors.New("it names no file; give a file or a directory")
	case len(p) > 4096:
		return fmt.Errorf("it has %d bytes; at most 4096 are allowed", len(p))
	case hasControl(p):
		return fmt.Errorf("%q has control characters", p)
	case strings.HasPrefix(path.Clean(strings.TrimLeft(p, "/"))+"/", "../"):
		return fmt.Errorf("%q leaves the repository", p)
	}
	return nil
}

// cleanPath returns a path that checkPath accepts without . and .. and the slash in front; empty for the root of the repository.
func cleanPath(p string) string { return strings.TrimPrefix(path.Clean("/"+p), "/") }

func isHex(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'f') })
}

// isObjectID reports whether s is a full object ID.
func isObjectID(s string) bool { return (len(s) == 40 || len(s) == 64) && isHex(s) }

// commitName returns a revision, in lower case if it is the full ID of a commit: git accepts both.
func commitName(revision string) string {
	if small := strings.ToLower(revision); isObjectID(small) {
		return small
	}
	return revision
}
