package git

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"sluice.dev/resolve"
)

// A policy is asked three times: about the repository before anything is sent, about the revision when the server has said what it is,
// and about each file when links were followed. Each time it refuses what is certain by then.

// Policy restricts what can be fetched. The zero value allows everything.
//
// A fetch is refused if a rule of Deny matches it, or if Allow is not nil and no rule of it matches. So an Allow without rules allows
// nothing. Both apply to all requests. Namespaces has additional policies for the requests of single namespaces.
type Policy struct {
	Allow, Deny []Rule
	Namespaces  map[string]Policy
}

// Rule matches fetches by patterns; an empty pattern matches everything. A pattern always matches the whole text: * is anything but
// a slash, ** is anything, ? is one character that is no slash. **/ at the begin of a part also matches nothing.
//
// A rule that denies a branch by its name does not hide the commits of that branch. To limit access, use Allow.
type Rule struct {
	// Repository matches HOST/PATH or HOST:PORT/PATH, in any case and for any form of the address. The pattern may have any form
	// too: with or without a scheme, a user and .git.
	Repository string
	// Revision matches the revision of the request, the full name of the ref or the ID of the commit; one match is enough.
	Revision string
	// Path matches the path of the file after links were followed. The pattern may begin with a slash or ./, which count for nothing. A
	// rule to deny that matches a directory holds for everything below it.
	Path string
}

// fetched is the input of a policy. Empty fields are not known yet.
type fetched struct {
	namespace, repository string
	// repositories are all names of the repository, revisions those of the revision. maybe are names that the revision may have.
	repositories, revisions, maybe []string

	path string
}

// checkFetch returns an error if the policy refuses the fetch. The caller calls it with the repository first, then with the revisions,
// then with the path. Each call refuses only what is certain.
func (p Policy) checkFetch(f fetched) error {
	if err := p.checkOne(f, "the operator's policy"); err != nil {
		return err
	}
	return p.Namespaces[f.namespace].checkOne(f, fmt.Sprintf("the operator's policy for namespace %q", f.namespace))
}

// judgesPaths reports whether a rule is about paths. It ignores the policies of namespaces.
func (p Policy) judgesPaths() bool {
	about := func(r Rule) bool { return r.Path != "" }
	return slices.ContainsFunc(p.Allow, about) || slices.ContainsFunc(p.Deny, about)
}

// checkOne judges by the rules of this policy alone. who names it in the error.
func (p Policy) checkOne(f fetched, who string) error {
	for _, r := range p.Deny {
		if r.matchesFetch(f, false) {
			return f.refusalBy(who)
		}
	}
	for _, r := range p.Allow {
		if r.matchesFetch(f, true) {
			return nil
		}
	}
	if p.Allow != nil {
		return f.refusalBy(who)
	}
	return nil
}

// refusalBy is the error for a fetch that a policy refuses. It names as much of the fetch as is known.
func (f fetched) refusalBy(who string) error {
	what := "the repository " + f.repository
	if len(f.revisions) > 0 {
		what = fmt.Sprintf("revision %q of %s", f.revisions[0], what)
	}
	if f.path != "" {
		what = fmt.Sprintf("the file %q in %s", f.path, what)
	}
	return resolve.Errorf(resolve.ReasonForbidden, "%s does not allow %s", who, what)
}

// matchesFetch reports whether a rule, to allow or to deny, matches. A field that is not known yet refuses nothing: a rule to allow counts
// as matching, and a rule to deny as not matching. A name that the revision may have counts for a rule to deny only.
func (r Rule) matchesFetch(f fetched, allow bool) bool {
	if r.Repository != "" && !anyMatches(r.Repository, f.repositories) {
		return false
	}
	if r.Revision != "" {
		if len(f.revisions) == 0 {
			return allow
		}
		certain := anyMatches(r.Revision, f.revisions)
		if !certain && (allow || !anyMatches(r.Revision, f.maybe)) {
			return false
		}
	}
	if r.Path != "" {
		if f.path == "" {
			return allow
		}
		return matchGlob(r.Path, f.path) || !allow && r.matchesAbove(f.path)
	}
	return true
}

// matchesAbove reports whether the path of a directory above a file matches.
func (r Rule) matchesAbove(file string) bool {
	for at := path.Dir(file); at != "." && at != "/"; at = path.Dir(at) {
		if matchGlob(r.Path, at) {
			return true
		}
	}
	return false
}

func anyMatches(pattern string, texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return matchGlob(pattern, text) })
}

// matchGlob matches a whole text.
func matchGlob(pattern, text string) bool {
	var re strings.Builder
	re.WriteString(`\A`)
	for i := 0; i < len(pattern); i++ {
		switch {
		case strings.HasPrefix(pattern[i:], "**/") && (i == 0 || pattern[i-1] == '/'):
			re.WriteString(`((?s:.*)/)?`)
			i += 2
		case strings.HasPrefix(pattern[i:], "**"):
			re.WriteString(`(?s:.*)`)
			i++
		case pattern[i] == '*':
			re.WriteString(`[^/]*`)
		case pattern[i] == '?':
			re.WriteString(`[^/]`)
		default:
			re.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	re.WriteString(`\z`)
	m, err := regexp.Compile(re.String())
	return err == nil && m.MatchString(text)
}
