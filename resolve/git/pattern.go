package git

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/yamlerr"
	"sluice.dev/resolve"
	"sluice.dev/resolve/verify"
)

// A pattern of a policy is written as an address or a name, and matched with the one form that fetches have ([repository.names]). So
// this file reads a pattern as it reads an address, with a word in place of each wildcard, and puts the wildcards back. For example,
// SSH://git@Example.com:22/team/*.git becomes example.com/team/*. A pattern that could match nothing is an error, because a rule to
// deny would deny nothing.

// ParsePolicy reads a policy in YAML; the empty text is the zero policy. What could restrict less than its author wants is an error:
// unknown, repeated and empty fields, a policy without a rule, several documents, and patterns that can match nothing, or less than they
// seem to.
func ParsePolicy(text string) (Policy, error) {
	if strings.TrimSpace(text) == "" {
		return Policy{}, nil
	}
	doc, err := onlyDocument(text)
	var p Policy
	if err == nil {
		p, err = readPolicy(doc, "")
	}
	if err != nil {
		return Policy{}, errors.New(brief.OneLine(err.Error()))
	}
	return p, nil
}

var errNoRule = errors.New("it has no rule; for a policy that allows everything leave it out")

// onlyDocument returns the content of the only YAML document that is not empty.
func onlyDocument(text string) (*yaml.Node, error) {
	docs, err := yamlerr.Documents([]byte(text))
	if err != nil {
		return nil, err
	}
	docs = slices.DeleteFunc(docs, func(d *yaml.Node) bool { return len(d.Content) == 0 || d.Content[0].Tag == "!!null" })
	switch len(docs) {
	case 0:
		return nil, errNoRule
	case 1:
		return docs[0].Content[0], nil
	}
	return nil, errors.New("it has several YAML documents; put all rules into one")
}

// eachField calls read for each field of a mapping, with its place for messages.
func eachField(n *yaml.Node, at string, known []string, read func(field, at string, value *yaml.Node) error) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: %sit is no object", n.Line, prefixed(at))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		field, value := n.Content[i].Value, n.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		var err error
		switch {
		case known != nil && !slices.Contains(known, field):
			err = fmt.Errorf("unknown field %q%s; allowed are %s", field, brief.Hint(field, known), strings.Join(known, ", "))
		case seen[field]:
			err = fmt.Errorf("the field %q stands twice", field)
		case value.Tag == "!!null":
			err = fmt.Errorf("the field %q is empty; leave it out", field)
		}
		if err != nil {
			return fmt.Errorf("line %d: %s%w", n.Content[i].Line, prefixed(at), err)
		}
		seen[field] = true
		if err := read(field, strings.TrimPrefix(at+"."+field, "."), value); err != nil {
			return err
		}
	}
	return nil
}

// prefixed is the place of a mistake in front of its message; empty for the policy itself.
func prefixed(at string) string {
	if at == "" {
		return ""
	}
	return at + ": "
}

// readPolicy reads a policy, or at a place below namespaces one of a namespace, which has no namespaces of its own. A policy without
// any rule is an error: its author wanted to restrict something.
func readPolicy(n *yaml.Node, at string) (Policy, error) {
	var p Policy
	known := []string{"allow", "deny"}
	if at == "" {
		known = append(known, "namespaces")
	}
	err := eachField(n, at, known, func(field, at string, value *yaml.Node) (err error) {
		switch field {
		case "allow":
			p.Allow, err = readRules(value, at)
		case "deny":
			p.Deny, err = readRules(value, at)
		case "namespaces":
			p.Namespaces = map[string]Policy{}
			err = eachField(value, at, nil, func(name, at string, value *yaml.Node) (err error) {
				if len(validation.IsDNS1123Label(name)) > 0 {
					return fmt.Errorf("namespaces: %q is no name of a namespace", name)
				}
				p.Namespaces[name], err = readPolicy(value, at)
				return err
			})
		}
		return err
	})
	if err == nil && p.Allow == nil && len(p.Deny) == 0 && len(p.Namespaces) == 0 {
		err = fmt.Errorf("%s%w", prefixed(at), errNoRule)
	}
	return p, err
}

// readRules returns the rules of a list, with their patterns in the form in which fetches are matched.
func readRules(n *yaml.Node, at string) ([]Rule, error) {
	if n.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("line %d: %s: it is no list of rules", n.Line, at)
	}
	rules := make([]Rule, len(n.Content))
	for i, item := range n.Content {
		r := &rules[i]
		patterns := map[string]*string{"repository": &r.Repository, "revision": &r.Revision, "path": &r.Path}
		err := eachField(item, fmt.Sprintf("%s[%d]", at, i), []string{"repository", "revision", "path"}, func(field, at string, value *yaml.Node) (err error) {
			if value.Kind != yaml.ScalarNode || value.Value == "" {
				return fmt.Errorf("line %d: %s: it is no pattern; ** matches everything", value.Line, at)
			}
			*patterns[field], err = patternReaders[field](value.Value)
			if value.Value != strings.TrimSpace(value.Value) {
				err = errors.New("it begins or ends with white space")
			}
			if err != nil {
				return fmt.Errorf("%s: %q is wrong: %w", at, value.Value, err)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return rules, nil
}

// patternReaders bring the patterns of a rule into the form in which fetches are matched, by field.
var patternReaders = map[string]func(string) (string, error){"repository": repositoryPattern, "revision": revisionPattern, "path": pathPattern}

// withoutWildcards returns a text that the pattern matches, and the function that puts the wildcards back into it. A word stands for
// each wildcard, and a number for one that is a port, so that the text can be read as an address.
func withoutWildcards(pattern string) (text string, restored func(string) string) {
	number := 20003
	for strings.Contains(pattern, strconv.Itoa(number)) {
		number += 10
	}
	n := strconv.Itoa(number)
	return strings.NewReplacer(":*/", ":"+n+"/", "**", "a"+n+"z", "*", "s"+n+"z", "?", "q"+n+"z").Replace(pattern),
		strings.NewReplacer("a"+n+"z", "**", "s"+n+"z", "*", "q"+n+"z", "?", n, "*").Replace
}

// inText returns the result of reading the pattern without its wildcards, with the wildcards.
func inText(pattern string, read func(text string) (string, error)) (string, error) {
	text, restored := withoutWildcards(pattern)
	out, err := read(text)
	if err == nil && strings.ContainsAny(out, "*?") {
		err = errors.New("an escaped character stands for others in a pattern; write ? for it")
	}
	if err != nil {
		return "", errors.New(restored(err.Error()))
	}
	return restored(out), nil
}

// foreignSyntax matches what lists and the patterns of other tools have besides a text itself. A name may have other signs.
var foreignSyntax = regexp.MustCompile(`[{}\[\]|,\\]|\A[\^"']|[$"']\z`)

// checkLiterals refuses what other tools read as more than the text itself, so that a pattern does not match less than it seems to. The
// characters in more are refused, too.
func checkLiterals(pattern, more string) error {
	sign := foreignSyntax.FindString(pattern)
	if i := strings.IndexAny(pattern, more); i >= 0 {
		sign = pattern[i : i+1]
	}
	switch {
	case sign != "":
		return fmt.Errorf("%q has no meaning in it; write one rule for each name, or ? where that character is meant", sign)
	case strings.HasPrefix(pattern, "!"):
		return errors.New("it begins with an exclamation mark, which has no meaning in it; to make exceptions, use allow and deny")
	}
	return nil
}

// checkRepositoryName refuses the names that stand for less than the reader of a pattern expects. name begins with a slash, and has no
// .git at its end.
func checkRepositoryName(name string) error {
	switch {
	case strings.Contains(name+"/", ".git/"):
		return errors.New("it goes on after .git, and no repository is below another one; write HOST/PATH for the repository")
	case strings.Contains(name, "@"):
		return errors.New("@ has no meaning in the name of a repository; a revision stands in the field revision, and ? where that character is meant")
	}
	return checkLiterals(name[1:], ":")
}

// partOfPort matches an address up to a port with wildcards, that port, and the path.
var partOfPort = regexp.MustCompile(`\A([^/@\[\]]*@)?([^/:@\[\]]+|\[[^/\[\]]*\]):([0-9*?]*[*?][0-9*?]*)(/.*)\z`)

// matchesPort reports whether a pattern matches a port.
func matchesPort(pattern string) bool {
	// least is the smallest number that the pattern stands for: * for nothing and ? for 0, but no port begins with 0.
	least := strings.ReplaceAll(pattern, "*", "")
	if strings.HasPrefix(pattern, "*") && (least == "" || least[0] == '0') {
		least = "1" + least
	}
	if strings.HasPrefix(least, "?") {
		least = "1" + least[1:]
	}
	n, err := strconv.ParseUint(strings.ReplaceAll(least, "?", "0"), 10, 16)
	return err == nil && n > 0 && least[0] != '0'
}

// repositoryPattern returns the pattern for [repository.names]. It may have the form of any address that requests may have, or
// HOST/PATH or HOST:PORT/PATH, and spaces where an address has %20.
func repositoryPattern(pattern string) (string, error) {
	p := strings.TrimPrefix(strings.ReplaceAll(strings.ToLower(pattern), " ", "%20"), "git+")
	scheme, rest, schemed := strings.Cut(p, "://")
	if !schemed {
		scheme, rest = "", p
	}
	// http*://HOST/PATH means several schemes. The scheme is no part of the name, so that it has only to match one.
	if strings.Contains(scheme, "*") {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(defaultPorts)), func(s string) bool { return matchGlob(scheme, s) }) {
			return "", errors.New("the scheme is none of https, http, ssh and git")
		}
		schemed = false
		if host, name, ok := strings.Cut(rest, "/"); ok {
			rest = host[strings.Index(host, "@")+1:] + "/" + name // otherwise it would be user@host:path
		}
	}
	if strings.HasSuffix(rest, "/") {
		return "", errors.New("it ends with a slash; write /** after the name for everything below it")
	}
	// With ** in it, the host may end anywhere in the pattern, so that it cannot be read as an address.
	if host, _, _ := strings.Cut(rest, "/"); strings.Contains(host, "**") && !strings.Contains(host, "@") {
		return openPattern(rest)
	}
	port := ""
	if m := partOfPort.FindStringSubmatch(rest); m != nil && (schemed || m[1] == "") {
		if port = m[3]; !matchesPort(port) {
			return "", fmt.Errorf("%s matches no port; ports are from 1 to 65535", port)
		}
		rest = m[1] + m[2] + ":*" + m[4]
	}
	if schemed {
		rest = scheme + "://" + rest
	}
	out, err := inText(rest, func(text string) (string, error) { return repositoryName(text, schemed) })
	if port != "" {
		out = strings.Replace(out, ":*/", ":"+port+"/", 1)
	}
	return out, err
}

// repositoryName returns the name by which policies know the repository of an address, or of HOST/PATH.
func repositoryName(text string, isAddress bool) (string, error) {
	if !isAddress {
		var err error
		if text, err = asAddress(text); err != nil {
			return "", err
		}
	}
	r, err := parseRepository(text)
	if err == nil {
		err = checkRepositoryName(r.name())
	}
	if err != nil {
		return "", err
	}
	if server := verify.ServerOf(r.host); server != r.host {
		return strings.ToLower(server + r.name()), nil
	}
	return strings.ToLower(r.canonicalName()), nil
}

// hostBegin is what may stand before the ** by which a pattern leaves the end of the host open: a part of a host, or a host, which the
// last group has, and a part of its port.
var hostBegin = regexp.MustCompile(`\A([a-z0-9_*?][-a-z0-9_.*?]*|\[[0-9a-f:.*?]*\]?|([-a-z0-9_.*?]+|\[[0-9a-f:.*?]*\]):([1-9*?][0-9*?]{0,3})?)?\*\*`)

// openPattern returns a pattern that leaves open where the host ends and the path begins.
func openPattern(pattern string) (string, error) {
	p, err := url.PathUnescape(strings.TrimSuffix(pattern, ".git"))
	begin := hostBegin.FindStringSubmatch(p)
	if err == nil && begin != nil && begin[2] != "" {
		_, err = inText(begin[2], resolve.HostName)
	}
	escaped := strings.Count(p, "*")+strings.Count(p, "?") != strings.Count(pattern, "*")+strings.Count(pattern, "?")
	if err != nil || begin == nil || escaped || hasControl(p) || strings.ContainsAny(p, "\"'`<>\\#") || path.Clean("/"+p) != "/"+p {
		return "", errors.New("it is no address; write HOST/PATH")
	}
	if _, name, ok := strings.Cut(p, "/"); ok {
		if err := checkRepositoryName("/" + name); err != nil {
			return "", err
		}
	}
	return p, nil
}

// portAndPath is what follows a colon that is before a port, of digits and wildcards, not before the path of an scp-like address.
var portAndPath = regexp.MustCompile(`\A([0-9]|[asq][0-9]+z)+/`)

// portAlone is what follows a colon that is before a port, and nothing else.
var portAlone = regexp.MustCompile(`\A([0-9]|[asq][0-9]+z)+\z`)

// asAddress returns the address for HOST/PATH and HOST:PORT/PATH, and an scp-like address as it is.
func asAddress(text string) (string, error) {
	head, tail, colon := strings.Cut(text, ":")
	if colon && !strings.ContainsAny(head, "/[") && (strings.Contains(head, "@") || !portAndPath.MatchString(tail)) {
		switch first, _, _ := strings.Cut(tail, "/"); {
		case portAlone.MatchString(tail) && !strings.Contains(head, "@"): // an scp-like address of such a path begins with a user
			return "", errors.New("it names no repository; write HOST:PORT/** for all of a host, or USER@HOST:PATH")
		case defaultPorts[head] != "":
			return "", errors.New("two slashes have to follow the scheme")
		case strings.Contains(first, ":") || strings.Contains(first, "@") && !strings.Contains(head, "@"):
			return "", errors.New("it has a second port or a password in it, which no address of a repository has")
		}
		return text, nil
	}
	switch {
	case !strings.Contains(text, "/"):
		return "", errors.New("it names no repository; write HOST/** for all of a host")
	case strings.Contains(text, ":443/"):
		return "git://" + text, nil // the port is not the scheme's own, so that it stays
	}
	return "https://" + text, nil
}

// revisionPattern returns the pattern for the names of a revision.
func revisionPattern(pattern string) (string, error) {
	return inText(commitName(pattern), func(text string) (string, error) {
		return text, cmp.Or(checkRevision(text), checkLiterals(text, ""))
	})
}

// pathPattern returns the pattern for the path of a file, which has no slash at its begin.
func pathPattern(pattern string) (string, error) {
	return inText(strings.TrimPrefix(strings.TrimPrefix(pattern, "./"), "/"), func(text string) (string, error) {
		switch {
		case path.Clean("/"+text) != "/"+text || text == "":
			return "", errors.New("a file's path has no empty, . or .. parts; DIRECTORY/** is everything in a directory")
		case strings.Contains(text, `\`):
			return "", errors.New("a slash separates the parts of a path, and ? stands for any other character")
		}
		return text, cmp.Or(checkPath(text), checkLiterals(text, ""))
	})
}
