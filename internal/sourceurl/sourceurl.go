// Package sourceurl reads the short form of a remote source, a URL, as a resolver and its parameters. It knows which public hosts are
// names of one server.
//
// It promises to refuse what it does not know, in words that say what is allowed. It does not fetch, and it does not decide
// which addresses may be spoken to.
package sourceurl

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

var (
	otherNames = map[string]string{
		"ssh.github.com": "github.com", "www.github.com": "github.com", "altssh.gitlab.com": "gitlab.com", "altssh.bitbucket.org": "bitbucket.org",
	}
	anyCase = []string{"github.com", "gitlab.com", "bitbucket.org", "dev.azure.com", "ssh.dev.azure.com", "codeberg.org", "gitea.com"}
)

// ServerOf returns the host whose repositories a host, in lower case, serves: github.com for ssh.github.com, and the host itself for most.
func ServerOf(host string) string { return cmp.Or(otherNames[host], host) }

// IgnoresCase reports whether repositories have one name in any case at a host, as [ServerOf] returns it. Only public servers are known.
func IgnoresCase(host string) bool { return slices.Contains(anyCase, host) }

// SplitGit takes REPO//PATH?ref=REV, a URL without its scheme, apart. Path and ref are empty where they are left out.
func SplitGit(rest string) (repo, path, ref string, err error) {
	rest, query, _ := strings.Cut(rest, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", "", "", errors.New("what stands behind ? cannot be read; it is ref=REV")
	}
	for k := range values {
		if k != "ref" {
			return "", "", "", fmt.Errorf("unknown key %q behind ?; it is ref=REV", k)
		}
	}
	i := strings.LastIndex(rest, "//")
	if i <= 0 {
		return rest, "", values.Get("ref"), nil
	}
	return rest[:i], strings.Trim(rest[i+2:], "/"), values.Get("ref"), nil
}

// Git gives the parameters of the resolver git for git+SCHEME://REST: a file, or all files of a folder.
func Git(scheme, rest string) (map[string]string, error) {
	repo, path, ref, err := SplitGit(rest)
	if err != nil {
		return nil, err
	}
	params := map[string]string{"url": scheme + "://" + repo, "pathInRepo": path, "revision": ref, "recursive": "true"}
	if path == "" {
		params["pathInRepo"] = "."
	}
	if ref == "" {
		params["revision"] = "HEAD"
	}
	return params, nil
}

// Parse gives resolver and parameters of a URL that the resolvers of a cluster can fetch.
func Parse(source string) (resolver string, params map[string]string, err error) {
	scheme, rest, ok := strings.Cut(source, "://")
	switch {
	case !ok || rest == "":
	case scheme == "git+https", scheme == "git+http", scheme == "git+ssh":
		params, err = Git(strings.TrimPrefix(scheme, "git+"), rest)
		return "git", params, err
	case scheme == "oci":
		return "bundles", map[string]string{"bundle": rest, "all": "true"}, nil
	case scheme == "https", scheme == "http":
		return "http", map[string]string{"url": source}, nil
	}
	return "", nil, errors.New("a source is git+https://, git+http://, git+ssh://, oci://, https:// or http:// and a host; for others name a resolver")
}
