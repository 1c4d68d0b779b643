package git

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"sluice.dev/resolve"
)

// Policy restricts what can be fetched. The zero value allows everything.
//
// A fetch is refused if a rule of Deny matches it, or if Allow is not empty and no rule of it matches. Both apply to all requests.
// Namespaces has additional policies for the requests of single namespaces.
type Policy struct {
	Allow      []Rule            `json:"allow,omitempty"`
	Deny       []Rule            `json:"deny,omitempty"`
	Namespaces map[string]Policy `json:"namespaces,omitempty"`
}

// Rule matches fetches by patterns; an empty pattern matches everything. A pattern always matches the whole text: * is anything but
// a slash, ** is anything, ? is one character that is no slash.
//
// A rule that denies a branch by its name does not hide the commits of that branch. To limit access, use Allow.
type Rule struct {
	// Repository matches HOST[:PORT]/PATH without .git, in any case and for any form of the address.
	Repository string `json:"repository,omitempty"`
	// Revision matches the revision of the request, the full name of the ref or the ID of the commit; one match is enough.
	Revision string `json:"revision,omitempty"`
	// Path matches the path of the file after links were followed, without a leading slash.
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

// fetched is the input of a policy. Empty fields are not known yet.
type fetched struct {
	namespace, repository string
	revisions             []string
	path                  string
}

// check returns an error if the policy refuses the fetch. The caller calls it with the repository first, then with the revisions,
// then with the path. Each call refuses only what is certain.
func (p Policy) check(f fetched) error {
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

// matches reports whether the rule matches. If a field is not known yet, its match is unknown.
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
