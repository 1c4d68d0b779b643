package git

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"sluice.dev/resolve"
)

// Policy says what may be fetched. The zero value allows everything.
//
// What any rule of Deny matches is refused; if Allow is not empty, what no rule of it matches is refused as well. Both hold
// overall and, in Namespaces, for the requests of one namespace in addition.
type Policy struct {
	Allow      []Rule            `json:"allow,omitempty"`
	Deny       []Rule            `json:"deny,omitempty"`
	Namespaces map[string]Policy `json:"namespaces,omitempty"`
}

// Rule matches fetches by patterns, of which an empty one matches all. A pattern always stands for the whole text: * is
// anything but a slash, ** is anything, ? is one character that is no slash.
//
// A rule that denies a revision by the name of a branch does not keep anyone from its commits; to confine what is read,
// allow names.
type Rule struct {
	// Repository is matched, whatever its case, against HOST[:PORT]/PATH without .git, however the address was written.
	Repository string `json:"repository,omitempty"`
	// Revision is matched against the revision as it was asked for, the full name of the ref and the name of the commit; one
	// of them must match.
	Revision string `json:"revision,omitempty"`
	// Path is matched against the file's path after links were followed, without a leading slash.
	Path string `json:"path,omitempty"`
}

// ParsePolicy reads a policy in YAML. Unknown fields are errors.
func ParsePolicy(text string) (Policy, error) {
	var p Policy
	if strings.TrimSpace(text) == "" {
		return p, nil
	}
	if err := yaml.UnmarshalStrict([]byte(text), &p); err != nil {
		return p, fmt.Errorf("policy: %w", err)
	}
	for name, n := range p.Namespaces {
		if len(n.Namespaces) > 0 {
			return p, fmt.Errorf("policy: namespace %q has namespaces of its own", name)
		}
	}
	return p, nil
}

// fetched is what a policy judges. Empty fields are not known yet.
type fetched struct {
	namespace, repository string
	revisions             []string
	path                  string
}

// check refuses what the policy refuses. It is asked with the repository first, then with the revisions, then with the path, and
// each time refuses only what is certain.
func (p Policy) check(f fetched) error {
	if err := p.checkOne(f, "the operator's policy"); err != nil {
		return err
	}
	return p.Namespaces[f.namespace].checkOne(f, fmt.Sprintf("the operator's policy for namespace %q", f.namespace))
}

// judgesPaths tells whether a rule is about paths; that of namespaces is another.
func (p Policy) judgesPaths() bool {
	about := func(r Rule) bool { return r.Path != "" }
	return slices.ContainsFunc(p.Allow, about) || slices.ContainsFunc(p.Deny, about)
}

func (p Policy) checkOne(f fetched, who string) error {
	for _, r := range p.Deny {
		if r.matches(f, false) {
			return f.refusal(who)
		}
	}
	for _, r := range p.Allow {
		if r.matches(f, true) {
			return nil
		}
	}
	if len(p.Allow) > 0 {
		return f.refusal(who)
	}
	return nil
}

func (f fetched) refusal(who string) error {
	what := "the repository " + f.repository
	if len(f.revisions) > 0 {
		what = fmt.Sprintf("revision %q of %s", f.revisions[0], what)
	}
	if f.path != "" {
		what = fmt.Sprintf("the file %q in %s", f.path, what)
	}
	return resolve.Errorf(resolve.ReasonForbidden, "%s does not allow %s", who, what)
}

// matches tells whether the rule matches; unknown is the answer for what is not known yet.
func (r Rule) matches(f fetched, unknown bool) bool {
	if r.Repository != "" && !glob(strings.ToLower(r.Repository), strings.ToLower(f.repository)) {
		return false
	}
	if r.Revision != "" {
		if len(f.revisions) == 0 {
			return unknown
		}
		found := false
		for _, rev := range f.revisions {
			found = found || glob(r.Revision, rev)
		}
		if !found {
			return false
		}
	}
	if r.Path != "" {
		if f.path == "" {
			return unknown
		}
		return glob(strings.TrimPrefix(r.Path, "/"), f.path)
	}
	return true
}

// glob matches a whole text.
func glob(pattern, text string) bool {
	var re strings.Builder
	re.WriteString(`\A`)
	for i := 0; i < len(pattern); i++ {
		switch {
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
