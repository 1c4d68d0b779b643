package resolve

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"sluice.dev/internal/brief"
)

// This file turns the parameters that a request gives into those that a resolver gets: by their declared names, of the declared types,
// with defaults from the configuration and the declaration, in this order. All mistakes of a request are told at once, since each
// costs its author a round.

// ParamCache is the parameter by which every request chooses whether to use the cache.
const ParamCache = "cache"

// CacheMode is the use of the cache by a request.
type CacheMode string

// Modes of the cache, as in Tekton's resolvers.
const (
	// CacheAuto uses it only for immutable content.
	CacheAuto CacheMode = "auto"
	// CacheAlways uses it for all; content may be as old as the cache's time to live.
	CacheAlways CacheMode = "always"
	// CacheNever always fetches, and asks the remote for the current state of branches and tags.
	CacheNever CacheMode = "never"
)

// cacheModes are the allowed values.
var cacheModes = []string{string(CacheAlways), string(CacheNever), string(CacheAuto)}

// cacheParam declares [ParamCache].
var cacheParam = Param{
	Name: ParamCache, Allowed: cacheModes, DefaultKey: KeyCacheMode,
	Doc: "Whether the result may come from the cache: auto (only what cannot change), always, never.",
}

// Given is a parameter as the requester gave it.
type Given struct {
	Name  string
	Value Value
}

// Strings returns string parameters, sorted by name.
func Strings(params map[string]string) []Given {
	var out []Given
	for _, name := range slices.Sorted(maps.Keys(params)) {
		out = append(out, Given{Name: name, Value: Value{Type: String, String: params[name]}})
	}
	return out
}

// maxGiven bounds the number of parameters, maxItems the number of entries of one.
const (
	maxGiven = 256
	maxItems = 1024
)

// Parse checks parameters against the specification. It returns them by their declared names, with defaults, and the mode of the
// cache. The error has the reason [ReasonInvalid] and lists everything that is wrong; see [Problems]. An unknown parameter is wrong
// only if its name is similar to a declared name, because it is then probably a mistake. Other unknown parameters have no effect.
func (s Spec) Parse(given []Given, c Config) (map[string]Value, CacheMode, error) {
	params, mode, _, err := s.parseParams(given, c)
	return params, mode, err
}

// parseParams is Parse, and returns the parameters without effect.
func (s Spec) parseParams(given []Given, c Config) (map[string]Value, CacheMode, []string, error) {
	if len(given) > maxGiven {
		return nil, "", nil, Errorf(ReasonInvalid, "%d parameters were given, at most %d are allowed", len(given), maxGiven)
	}
	declared := s.Parameters()
	var p problems
	out, warnings := s.takeGiven(given, declared, &p)
	for _, d := range declared {
		if _, ok := out[d.Name]; ok {
			continue
		}
		v, from := d.Default, "the default of parameter "+d.Name
		if d.DefaultKey != "" && c[d.DefaultKey] != "" {
			v, from = c[d.DefaultKey], "configuration key "+d.DefaultKey
		}
		switch {
		case v != "":
			if err := d.judgeText(v); err != nil {
				p.addProblem("%s: %w", from, err)
			}
			out[d.Name] = Value{Type: String, String: v}
		case d.Required:
			p.addProblem("parameter %s is missing%s", d.Name, orKey(d))
		}
	}
	if err := p.asError(); err != nil {
		for _, w := range warnings { // perhaps the misspelt name of one that is missing
			p.addProblem("%s", w)
		}
		return nil, "", nil, p.asError()
	}
	mode := cmp.Or(CacheMode(out[ParamCache].String), CacheAuto)
	delete(out, ParamCache)
	return out, mode, warnings, nil
}

// takeGiven returns the given values by the names of the declared parameters, and warnings about parameters without effect.
func (s Spec) takeGiven(given []Given, declared []Param, p *problems) (out map[string]Value, warnings []string) {
	by, names := map[string]int{}, []string{}
	for i, d := range declared {
		for _, n := range append([]string{d.Name}, d.Aliases...) {
			by[n] = i
			names = append(names, n)
		}
	}
	out = map[string]Value{}
	as := map[string]string{}
	for _, g := range given {
		i, ok := by[g.Name]
		if _, twice := out[g.Name]; !ok && s.Undeclared {
			if twice {
				p.addProblem("parameter %s is given twice", quoteShort(g.Name))
			}
			out[g.Name] = g.Value
			continue
		}
		if !ok {
			if hint := brief.Hint(g.Name, names); hint != "" {
				p.addProblem("unknown parameter %s%s", quoteShort(g.Name), hint)
			} else {
				warnings = append(warnings, fmt.Sprintf("the resolver %s has no parameter %s; it is ignored", s.Name, quoteShort(g.Name)))
			}
			continue
		}
		d := declared[i]
		if before, ok := as[d.Name]; ok {
			if before == g.Name {
				p.addProblem("parameter %s is given twice", g.Name)
			} else {
				p.addProblem("parameters %s and %s are the same, only one may be given", before, g.Name)
			}
			continue
		}
		as[d.Name] = g.Name
		if d.typeOrString() == String && g.Value.Type == String && g.Value.String == "" {
			continue // an empty string counts as not given
		}
		d.takeValue(g, p)
		out[d.Name] = g.Value
	}
	return out, warnings
}

// orKey completes the error for a missing parameter: the operator could have set a default.
func orKey(d Param) string {
	if d.DefaultKey == "" {
		return ""
	}
	return ", and configuration key " + d.DefaultKey + " gives no default"
}

// takeValue checks a value from the requester.
func (d Param) takeValue(g Given, p *problems) {
	t := g.Value.Type
	if t != d.typeOrString() {
		p.addProblem("parameter %s is %s, want %s", g.Name, typeWithArticle(t), typeWithArticle(d.typeOrString()))
		return
	}
	judge := func(at, v string) {
		if err := d.judgeText(v); err != nil {
			p.addProblem("parameter %s%s: %w", g.Name, at, err)
		}
	}
	switch t {
	case String:
		judge("", g.Value.String)
	case Array:
		if len(g.Value.Array) > maxItems {
			p.addProblem("parameter %s has %d items, at most %d are allowed", g.Name, len(g.Value.Array), maxItems)
			return
		}
		for i, v := range g.Value.Array {
			judge(fmt.Sprintf(", item %d", i+1), v)
		}
	case Object:
		if len(g.Value.Object) > maxItems {
			p.addProblem("parameter %s has %d entries, at most %d are allowed", g.Name, len(g.Value.Object), maxItems)
			return
		}
		for _, k := range slices.Sorted(maps.Keys(g.Value.Object)) {
			if len(k) > d.maxLength() {
				p.addProblem("parameter %s has a key of %d bytes", g.Name, len(k))
			}
			judge(", entry "+quoteShort(k), g.Value.Object[k])
		}
	}
}

// typeWithArticle names a type in an error. A value of the API can have any text as its type.
func typeWithArticle(t Type) string {
	switch t {
	case String:
		return "a string"
	case Array:
		return "an array"
	case Object:
		return "an object"
	}
	return "of an unknown type"
}
