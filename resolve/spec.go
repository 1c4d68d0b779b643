package resolve

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// A specification is data that its author writes by hand, so that a mistake in it is told when the process starts and not at the first
// request.

// maxParamName bounds the names of parameters and keys.
const maxParamName = 253

var paramName = regexp.MustCompile(`^[A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?$`)

// isParamName reports whether n may be the name of a parameter or a key. The length is checked separately: a pattern with a count
// compiles to that many copies, at each start of a program.
func isParamName(n string) bool { return len(n) <= maxParamName && paramName.MatchString(n) }

// Parameters lists the parameters that a request may have: the declared ones, in their order, and then [ParamCache].
func (s Spec) Parameters() []Param { return append(slices.Clone(s.Params), cacheParam) }

// Check returns all problems of a specification; nil if there are none. [NewRegistry] calls it.
func (s Spec) Check() error {
	var p problems
	for _, n := range append([]string{s.Name}, s.Aliases...) {
		if len(validation.IsDNS1123Label(n)) > 0 {
			p.addProblem("resolver name %s is no DNS label", quoteShort(n))
		}
	}
	if s.Doc == "" {
		p.addProblem("resolver %s has no Doc", s.Name)
	}
	taken := map[string]bool{ParamCache: true}
	for _, d := range s.Params {
		for _, n := range append([]string{d.Name}, d.Aliases...) {
			if !isParamName(n) {
				p.addProblem("parameter name %s is not allowed", quoteShort(n))
			}
			if taken[n] {
				p.addProblem("parameter %s stands twice", n)
			}
			taken[n] = true
		}
		s.checkParam(d, &p)
	}
	keys := map[string]bool{}
	for _, k := range s.Config {
		if !isParamName(k.Name) || strings.Contains(k.Name, ".") {
			p.addProblem("configuration key %s is not allowed", quoteShort(k.Name))
		}
		if keys[k.Name] {
			p.addProblem("configuration key %s stands twice", k.Name)
		}
		keys[k.Name] = true
		if k.Doc == "" {
			p.addProblem("configuration key %s has no Doc", k.Name)
		}
		if k.Default != "" && k.Check != nil {
			if err := k.Check(k.Default); err != nil {
				p.addProblem("the default of configuration key %s: %w", k.Name, err)
			}
		}
	}
	if len(s.Config) > 0 && s.ConfigMap == "" {
		p.addProblem("resolver %s has keys but no ConfigMap", s.Name)
	}
	return p.asError()
}

// checkParam adds the problems of one parameter. Defaults are checked like values, because a default that Check refuses would fail
// each request that leaves the parameter out.
func (s Spec) checkParam(d Param, p *problems) {
	if d.Doc == "" {
		p.addProblem("parameter %s has no Doc", d.Name)
	}
	if !slices.Contains([]Type{"", String, Array, Object}, d.Type) {
		p.addProblem("parameter %s has the unknown type %s", d.Name, quoteShort(string(d.Type)))
	}
	if d.Type != "" && d.Type != String && (d.Default != "" || d.DefaultKey != "") {
		p.addProblem("parameter %s has a default, which only strings can have", d.Name)
	}
	if d.Required && d.Default != "" {
		p.addProblem("parameter %s is required although it has a default", d.Name)
	}
	if d.Default != "" {
		if err := d.judgeText(d.Default); err != nil {
			p.addProblem("the default of parameter %s: %w", d.Name, err)
		}
	}
	if d.DefaultKey != "" && !slices.ContainsFunc(s.Config, func(k Key) bool { return k.Name == d.DefaultKey }) {
		p.addProblem("parameter %s has its default in %s, which is no declared key", d.Name, quoteShort(d.DefaultKey))
	}
	if d.MaxLength < 0 {
		p.addProblem("parameter %s has a negative MaxLength", d.Name)
	}
}

// memoryFor is Memory with its default.
func (s Spec) memoryFor(limit int64) int64 {
	if s.Memory != nil {
		return s.Memory(limit)
	}
	return 4 * limit
}

// typeOrString is the type with its default.
func (d Param) typeOrString() Type {
	return cmp.Or(d.Type, String)
}

// maxLength is MaxLength with its default.
func (d Param) maxLength() int {
	if d.MaxLength > 0 {
		return d.MaxLength
	}
	return 4096
}

// judgeText returns the problem of one string, in words that follow the parameter's name.
func (d Param) judgeText(v string) error {
	if n := d.maxLength(); len(v) > n {
		return fmt.Errorf("it has %d bytes, at most %d are allowed", len(v), n)
	}
	if strings.ContainsRune(v, 0) {
		return errors.New("it has a NUL character")
	}
	if len(d.Allowed) > 0 && !slices.Contains(d.Allowed, v) {
		return fmt.Errorf("%s is not allowed; allowed are %s", quoteShort(v), strings.Join(d.Allowed, ", "))
	}
	if d.Check != nil {
		return d.Check(v)
	}
	return nil
}
