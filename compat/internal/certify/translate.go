package certify

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// piece is the demand of one keyword on a value as a client sends it, before defaults are filled in.
type piece struct {
	keyword, detail string
	f               formula
}

// translator writes schemas as formulas. It leaves out validation rules: a proof without them is also valid with them.
type translator struct {
	formats func(string) bool // which formats of strings are checked
	numbers bool              // whether formats of numbers are
	made    map[lazyKey]formula
}

// lazy returns the formula that f makes once it is needed.
func (t *translator) lazy(k lazyKey, f func() formula) lazy {
	return lazy{id: k, make: func() formula {
		out, ok := t.made[k]
		if !ok {
			out = f()
			t.made[k] = out
		}
		return out
	}}
}

// lazyKey identifies the meaning of a place, or of a branch of a junctor at it.
type lazyKey struct {
	node                          id
	shape                         shape
	item, root                    bool
	keeps, whole, dark, unchecked bool
	branch                        id
}

func (p place) key(branch id) lazyKey {
	k := lazyKey{shape: p.shape, item: p.item, root: p.root, keeps: p.keeps, whole: p.whole, dark: p.dark, unchecked: p.unchecked, branch: branch}
	if p.node != nil {
		k.node = p.id
	}
	return k
}

// accepts is the formula of the values that a place accepts and does not prune.
func (t *translator) accepts(p place) formula {
	return t.lazy(p.key(id{}), func() formula {
		switch p.shape {
		case free:
			return and{}
		case gone:
			return or{}
		case hollow:
			return and{others{f: or{}}, items{t.accepts(p.items())}}
		case declared:
		}
		out := and{t.types(p.node)}
		if !p.item && !p.root && !p.Nullable {
			out = append(out, is(anyKind&^null))
		}
		for _, x := range t.pieces(p) {
			out = append(out, x.f)
		}
		names := slices.Sorted(maps.Keys(p.kids))
		for _, name := range names {
			out = append(out, prop{name, t.accepts(p.field(name))})
		}
		if p.hasMeta() {
			names = append(names, metaNames...)
		}
		if rest := p.others(); rest.shape != free {
			out = append(out, others{names, t.accepts(rest)})
		}
		return append(out, items{t.accepts(p.items())})
	})
}

// types is true of values that type and nullable allow.
func (t *translator) types(s *node) formula {
	k, whole := anyKind&^null, false
	switch {
	case t.format(s) != "" && !s.XIntOrString:
		k = text | list // a list is accepted in place of a string with a format (typeValidator in k8s.io/kube-openapi)
	case s.XIntOrString:
		k, whole = number|text, true
	case s.Type != "":
		k = map[string]kinds{"integer": number, "number": number, "string": text, "boolean": boolean, "array": list, "object": object}[s.Type]
		whole = s.Type == "integer"
	}
	if nullIsValid(s) {
		k |= null
	}
	if whole {
		return and{is(k), integral{exact: !s.XIntOrString}}
	}
	return is(k)
}

// nullIsValid reports whether only type and enum validate a null that is kept.
func nullIsValid(s *node) bool { return s.Nullable || s.Type == "" && !s.XIntOrString }

func (t *translator) format(s *node) string {
	name := strings.ReplaceAll(s.Format, "-", "")
	if name == "" || !s.XIntOrString && s.Type != "" && s.Type != "string" || !t.formats(name) {
		return ""
	}
	return name
}

// pieces are the demands of the keywords of a place, except type, nullable, rules and the places below.
func (t *translator) pieces(p place) []piece {
	out := t.values(p.node, p)
	switch listType := p.XListType; {
	case listType == nil:
	case *listType == "set":
		out = append(out, piece{"x-kubernetes-list-type", "", distinct{by: equality{sort: "set", defaults: fills(p.node.item)}}})
	case *listType == "map":
		out = append(out, piece{"x-kubernetes-list-type", "", and{items{is(object | null)}, distinct{by: t.keys(p.node)}}})
	}
	if p.XEmbeddedResource {
		out = append(out, piece{"x-kubernetes-embedded-resource", "", embedded(p.node, p.unchecked)})
	}
	if nullIsValid(p.node) {
		for i := range out {
			if out[i].keyword != "enum" {
				out[i].f = or{is(null), out[i].f}
			}
		}
	}
	return out
}

// values are the pieces for keywords that a junctor can also have.
func (t *translator) values(s *node, p place) []piece {
	var out []piece
	add := func(keyword, detail string, f formula) { out = append(out, piece{keyword, detail, f}) }
	t.bounds(s, add)
	counts := func(keyword string, of count, lo, hi *int64) {
		switch {
		case lo != nil:
			add(keyword, "", within{of, max(*lo, 0), math.MaxInt64})
		case hi != nil && *hi < 0:
			add(keyword, "", is(anyKind&^counted[of]))
		case hi != nil:
			add(keyword, "", within{of, 0, *hi})
		}
	}
	counts("minLength", runes, s.MinLength, nil)
	counts("maxLength", runes, nil, s.MaxLength)
	counts("minItems", entries, s.MinItems, nil)
	counts("maxItems", entries, nil, s.MaxItems)
	if s.Pattern != "" {
		if _, err := compiled(s.Pattern); err != nil {
			add("pattern", "", is(anyKind&^text))
		} else {
			add("pattern", "", matches{expr: s.Pattern})
		}
	}
	if f := t.format(s); f != "" {
		add("format", "", formatted{name: f})
	}
	if len(s.Enum) > 0 {
		add("enum", "", enum(s, p.node))
	}
	if s.UniqueItems {
		add("uniqueItems", "", distinct{by: equality{sort: "all", defaults: fills(p.node.item)}})
	}
	t.objects(s, p, add)
	t.junctors(s, p, add)
	return out
}

func (t *translator) bounds(s *node, add func(keyword, detail string, f formula)) {
	format, bits := s.Format, 0
	if !t.numbers {
		format = ""
	}
	fits := func(float64) bool { return true }
	switch {
	case s.XIntOrString:
	case s.Type == "integer":
		if bits = 64; format == "int32" {
			bits = 32
			add("format", "", and{within{ints, math.MinInt32, math.MaxInt32}, between{lo: math.MinInt32, hi: math.MaxInt32}})
		}
		fits = func(f float64) bool {
			_, err := strconv.ParseInt(strconv.FormatFloat(f, 'f', -1, 64), 10, bits)
			return err == nil
		}
	case s.Type == "number" && format == "float":
		const last = math.MaxFloat32 + 1<<103
		add("format", "", between{lo: -last, hi: last})
		fits = func(f float64) bool { return math.Abs(f) <= last }
	}
	bound := func(keyword string, v *float64, ints, floats formula) {
		switch {
		case v == nil:
		case !fits(*v):
			add(keyword, "", is(anyKind&^number))
		default:
			add(keyword, "", and{ints, floats})
		}
	}
	if v := s.Minimum; v != nil {
		lo := int64(*v)
		if s.ExclusiveMinimum && lo < math.MaxInt64 {
			lo++
		} else if s.ExclusiveMinimum {
			bound("minimum", v, is(anyKind&^integer), between{*v, math.Inf(1), true, false})
			v = nil
		}
		bound("minimum", v, within{ints, lo, math.MaxInt64}, between{deref(v), math.Inf(1), s.ExclusiveMinimum, false})
	}
	if v := s.Maximum; v != nil {
		hi := int64(*v)
		if s.ExclusiveMaximum && hi > math.MinInt64 {
			hi--
		} else if s.ExclusiveMaximum {
			bound("maximum", v, is(anyKind&^integer), between{math.Inf(-1), *v, false, true})
			v = nil
		}
		bound("maximum", v, within{ints, math.MinInt64, hi}, between{math.Inf(-1), deref(v), false, s.ExclusiveMaximum})
	}
	if v := s.MultipleOf; v != nil {
		whole, fraction := formula(is(anyKind&^integer)), formula(is(anyKind&^float))
		if *v >= 1 {
			whole = multiple{kind: integer, of: math.Trunc(*v)}
		}
		if *v > 0 {
			fraction = multiple{kind: float, of: *v}
		}
		bound("multipleOf", v, whole, fraction)
	}
}

func (t *translator) objects(s *node, p place, add func(keyword, detail string, f formula)) {
	var filled []string // properties that may be filled in before the object is validated
	if p.node != nil {
		for _, name := range slices.Sorted(maps.Keys(p.kids)) {
			if c := p.kids[name]; hasDefault(c) {
				filled = append(filled, name)
				if s == p.node && eval(t.accepts(p.field(name)), fillIn(c, c.def)) == no {
					add("default", name, present{name: name})
				}
			}
		}
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(s.Required))) {
		c := p.field(name)
		switch {
		case slices.Contains(filled, name):
		case c.shape == declared && !c.Nullable:
			add("required", name, and{present{name: name}, prop{name, is(anyKind &^ null)}})
		default:
			add("required", name, present{name: name})
		}
	}
	bound := func(keyword string, lo, hi int64) {
		out := or{is(anyKind &^ object)}
		if len(filled) > 6 {
			// Bounds for every combination of missing properties: with all of them counted, or with none.
			out = append(out, within{fields, max(lo, 0), max(hi-int64(len(filled)), -1)}, and{
				within{fields, max(lo-int64(len(filled)), 0), hi}, opaque{id: fmt.Sprint(keyword, lo, hi, filled)},
			})
			add(keyword, "", out)
			return
		}
		for mask := range 1 << len(filled) {
			c, missing := and{}, int64(0)
			for i, name := range filled {
				lacks := mask&(1<<i) != 0
				if c = append(c, present{name, lacks}); lacks {
					missing++
				}
			}
			most := hi
			if hi != math.MaxInt64 {
				most = max(hi-missing, -1)
			}
			out = append(out, append(c, within{fields, max(lo-missing, 0), most}))
		}
		add(keyword, "", out)
	}
	if s.MinProperties != nil {
		bound("minProperties", *s.MinProperties, math.MaxInt64)
	}
	if s.MaxProperties != nil {
		bound("maxProperties", 0, *s.MaxProperties)
	}
}

func (t *translator) junctors(s *node, p place, add func(keyword, detail string, f formula)) {
	branches := func(list []*node) []formula {
		out := make([]formula, len(list))
		for i, b := range list {
			out[i] = t.branch(b, p)
		}
		return out
	}
	for i, f := range branches(s.all) {
		add("allOf", strconv.Itoa(i), f)
	}
	if len(s.any) > 0 {
		add("anyOf", "", or(branches(s.any)))
	}
	if fs := branches(s.one); len(fs) > 0 {
		out := or{}
		for i, f := range fs {
			alone := and{f}
			for j, g := range fs {
				if i != j {
					alone = append(alone, not(g))
				}
			}
			out = append(out, alone)
		}
		add("oneOf", "", out)
	}
	if s.no != nil {
		add("not", "", not(t.branch(s.no, p)))
	}
}

// branch is the statement of a branch of a junctor about a value at p, once the defaults of p are filled in.
func (t *translator) branch(s *node, p place) formula {
	return t.lazy(p.key(s.id), func() formula {
		out := and{}
		if s.Type != "" || s.XIntOrString || t.format(s) != "" {
			out = append(out, t.types(s))
		}
		for _, x := range t.values(s, p) {
			out = append(out, x.f)
		}
		names := slices.Sorted(maps.Keys(s.kids))
		for _, name := range names {
			out = append(out, t.branchField(name, s.kids[name], p))
		}
		if a := s.AdditionalProperties; a != nil {
			var own map[string]*node
			if p.node != nil {
				own = p.kids
			}
			for _, name := range slices.Sorted(maps.Keys(own)) {
				c, declared := own[name], slices.Contains(names, name)
				switch {
				case declared:
				case s.extra != nil:
					names = append(names, name)
					out = append(out, t.branchField(name, s.extra, p))
				case !a.Allows && hasDefault(c):
					out = append(out, is(anyKind&^object))
				}
			}
			if s.extra != nil {
				out = append(out, others{names, t.branch(s.extra, p.others().orFree())})
			} else if !a.Allows {
				out = append(out, others{names, or{}})
			}
		}
		if it := s.item; it != nil {
			out = append(out, items{t.branch(it, p.items().orFree())})
		}
		if nullIsValid(s) && len(s.Enum) == 0 {
			return or{is(null), out}
		}
		return append(out, is(anyKind&^null))
	})
}

func (p place) orFree() place {
	if p.shape == declared {
		return p
	}
	return place{shape: free, item: p.item, root: p.root}
}

func (t *translator) branchField(name string, s *node, p place) formula {
	f := t.branch(s, p.field(name).orFree())
	there := prop{name, f}
	if p.node == nil {
		return there
	}
	c, ok := p.kids[name]
	if !ok || !hasDefault(c) {
		return there
	}
	switch eval(f, fillIn(c, c.def)) {
	case yes:
		return there
	case no:
		return and{or{is(anyKind &^ object), present{name: name}}, there}
	case unsure:
	}
	return and{there, or{present{name: name}, opaque{id: fmt.Sprintf("default of %s %x %x", name, s.id, c.id)}}}
}

// enum compares lists and objects after defaulting.
func enum(s, structural *node) formula {
	var values []any
	compound := false
	for _, e := range s.Enum {
		v := decoded(e.Raw)
		values = append(values, v)
		compound = compound || kindOf(v)&(list|object) != 0
	}
	filled := fills(structural)
	if !compound || filled == "" {
		return oneOf(values)
	}
	return or{
		and{is(anyKind &^ (list | object)), oneOf(values)},
		and{is(list | object), opaque{id: "enum " + key(values) + filled}},
	}
}

func (t *translator) keys(s *node) equality {
	keys := slices.Sorted(slices.Values(s.XListMapKeys))
	by := equality{sort: "map", keys: strings.Join(keys, "\x00")}
	for _, k := range keys {
		if it := s.item; it != nil {
			if c := it.kids[k]; hasDefault(c) {
				by.defaults += k + "=" + key(fillIn(c, c.def)) + "\x00"
			}
		}
	}
	by.numbers = len(keys) == 1 && t.mayBeNumber(s.item, keys[0])
	return by
}

func (t *translator) mayBeNumber(item *node, name string) bool {
	if item == nil {
		return true
	}
	c, ok := item.kids[name]
	return !ok || (t.format(c) == "" || c.XIntOrString) && (c.XIntOrString || c.Type == "" || c.Type == "integer" || c.Type == "number")
}

// embedded has the demands on an embedded resource (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta),
// or what Coerce alone demands.
func embedded(s *node, unchecked bool) formula {
	out := and{}
	if unchecked {
		valid := or{within{fields, 0, 0}, opaque{id: "metadata that can be read"}}
		return append(out, prop{"apiVersion", is(text)}, prop{"kind", is(text)}, prop{"metadata", and{readable(), valid}})
	}
	for name, f := range map[string]formula{
		"apiVersion": and{is(text), within{runes, 1, math.MaxInt64}, matches{expr: `^[^/]*(/[^/]*)?$`}},
		"kind":       and{is(text), within{runes, 1, 63}, matches{expr: `^[a-zA-Z\x{130}\x{212A}]([-a-zA-Z0-9\x{130}\x{212A}]*[a-zA-Z0-9\x{130}\x{212A}])?$`}},
	} {
		out = append(out, prop{name, f})
		if c := s.kids[name]; !hasDefault(c) || eval(f, c.def) == no {
			out = append(out, present{name: name})
		}
	}
	filled := ""
	if c, ok := s.kids["metadata"]; ok {
		filled = fills(c)
	}
	valid := formula(opaque{id: "metadata of an embedded resource " + filled})
	if filled == "" {
		valid = or{within{fields, 0, 0}, valid}
	}
	return append(out, prop{"metadata", and{readable(), valid}})
}

// readable has the types of the fields of ObjectMeta. Other fields, and null, are dropped.
func readable() formula {
	texts := and{is(object), others{f: is(text)}}
	types := map[string]formula{"labels": texts, "annotations": texts}
	for k, names := range map[kinds][]string{
		text:   {"name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"},
		number: {"generation", "deletionGracePeriodSeconds"},
		list:   {"ownerReferences", "finalizers", "managedFields"},
	} {
		for _, name := range names {
			types[name] = is(k)
		}
	}
	out := and{is(object)}
	names := slices.Sorted(maps.Keys(types))
	for _, name := range names {
		out = append(out, prop{name, types[name]})
	}
	return append(out, others{names, or{}})
}

func decoded(raw []byte) any {
	var v any
	if len(raw) == 0 || utiljson.Unmarshal(raw, &v) != nil {
		return nil
	}
	return v
}

// hasDefault reports whether something is filled in; a default of null is none.
func hasDefault(s *node) bool { return s != nil && s.def != nil }

// fillIn fills the defaults into a value (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting).
func fillIn(s *node, v any) any {
	if s == nil {
		return v
	}
	instead := func(c *node, x any) any {
		if x == nil && hasDefault(c) && !c.Nullable {
			return c.def
		}
		return x
	}
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for name, c := range s.kids {
			if _, has := out[name]; !has && hasDefault(c) {
				out[name] = c.def
			}
		}
		for name, x := range out {
			c, ok := s.kids[name]
			if !ok && s.extra != nil {
				c, ok = s.extra, true
			}
			if ok {
				out[name] = fillIn(c, instead(c, x))
			}
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i, x := range out {
			out[i] = fillIn(s.item, instead(s.item, x))
		}
		return out
	}
	return v
}

// fills is a text of all defaults that are filled in below a value; it is empty if there are none.
func fills(s *node) string {
	if s == nil {
		return ""
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.kids)) {
		c := s.kids[name]
		part := fills(c)
		if hasDefault(c) {
			part += fmt.Sprintf("=%s nullable %t", key(c.def), c.Nullable)
		}
		if part != "" {
			fmt.Fprintf(&out, "%q{%q}", name, part)
		}
	}
	if part := fills(s.extra); part != "" {
		fmt.Fprintf(&out, "*{%q}", part)
	}
	if part := fills(s.item); part != "" {
		fmt.Fprintf(&out, "[%q]", part)
	}
	return out.String()
}

// sameDefault reports whether two nodes fill in the same default. It ignores defaults of nodes below them.
func sameDefault(a, b *node) bool {
	if !hasDefault(a) || !hasDefault(b) {
		return hasDefault(a) == hasDefault(b)
	}
	return reflect.DeepEqual(a.def, b.def) || reflect.DeepEqual(fillIn(a, a.def), fillIn(b, b.def))
}
