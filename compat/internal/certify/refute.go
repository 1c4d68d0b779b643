package certify

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
)

// refuter looks for contradictions. It finds no values: a question that it does not refute stays open.
type refuter struct {
	fuel int // the number of formulas that it may still visit
	// alone: it also looks into parts about which only their schema says something. A schema that allows no value is rare.
	alone bool
}

// facts is a conjunction.
type facts struct {
	kinds kinds
	lits  []formula
	ors   []or
	lazy  map[any]bool // the added ones, and whether they are negated
}

func newFacts() *facts { return &facts{kinds: anyKind, lazy: map[any]bool{}} }

func (x *facts) clone() *facts {
	y := &facts{kinds: x.kinds, lits: slices.Clip(x.lits), ors: slices.Clone(x.ors), lazy: make(map[any]bool, len(x.lazy))}
	maps.Copy(y.lazy, x.lazy)
	return y
}

// closed reports whether it is proven that no value satisfies all the formulas.
func (r *refuter) closed(fs ...formula) bool {
	x := newFacts()
	for _, f := range fs {
		if !r.add(x, f) {
			return true
		}
	}
	return r.search(x)
}

// add adds a formula. It returns false for a contradiction.
func (r *refuter) add(x *facts, f formula) bool {
	r.fuel--
	switch f := f.(type) {
	case and:
		for _, g := range f {
			if !r.add(x, g) {
				return false
			}
		}
		return true
	case or:
		switch len(f) {
		case 0:
			return false
		case 1:
			return r.add(x, f[0])
		}
		x.ors = append(x.ors, f)
		return true
	case lazy:
		if neg, ok := x.lazy[f.id]; ok {
			return neg == f.neg
		}
		x.lazy[f.id] = f.neg
		return r.add(x, f.open())
	case is:
		x.kinds &= kinds(f)
		return x.kinds != 0
	}
	x.lits = append(x.lits, f)
	return true
}

// search splits disjunctions until all cases are contradictions.
func (r *refuter) search(x *facts) bool {
	for changed := true; changed; {
		if r.contradicts(x, false) {
			return true
		}
		if r.fuel <= 0 {
			return false
		}
		changed = false
		ors := x.ors
		x.ors = nil
		for _, o := range ors {
			left := or{}
			for _, d := range o {
				c := x.clone()
				if r.add(c, d) && !r.contradicts(c, false) {
					left = append(left, d)
				}
			}
			if !r.add(x, left) {
				return true
			}
			changed = changed || len(left) == 1
		}
	}
	if r.contradicts(x, true) {
		return true
	}
	if len(x.ors) == 0 || r.fuel <= 0 {
		return false
	}
	best := 0
	for i, o := range x.ors {
		if len(o) < len(x.ors[best]) {
			best = i
		}
	}
	split := x.ors[best]
	x.ors = slices.Delete(slices.Clone(x.ors), best, best+1)
	for _, d := range split {
		if c := x.clone(); r.add(c, d) && !r.search(c) {
			return false
		}
	}
	return true
}

// contradicts rules out the kinds for which the literals contradict each other. With deep, it also splits statements about parts.
func (r *refuter) contradicts(x *facts, deep bool) bool {
	if r.fuel <= 0 {
		return false
	}
	for k := null; k <= object; k <<= 1 {
		if x.kinds&k != 0 && r.impossible(x, k, deep) {
			x.kinds &^= k
		}
	}
	return x.kinds == 0
}

func pick[T formula](x *facts) []T {
	var out []T
	for _, f := range x.lits {
		if g, ok := f.(T); ok {
			out = append(out, g)
		}
	}
	return out
}

func (x *facts) limits(of count) (lo, hi int64) {
	lo, hi = 0, math.MaxInt64
	switch of {
	case ints:
		lo = math.MinInt64
	case runes:
		hi = 3 << 20 // no request is longer
	case entries, fields:
		hi = 3 << 19
	}
	for _, w := range pick[within](x) {
		if w.of == of {
			lo, hi = max(lo, w.lo), min(hi, w.hi)
		}
	}
	return lo, hi
}

// impossible reports whether it is proven that no value of the kind satisfies the literals.
func (r *refuter) impossible(x *facts, k kinds, deep bool) bool {
	r.fuel--
	enums := pick[among](x)
	for _, a := range enums {
		if a.neg {
			continue
		}
		for _, b := range enums {
			if b.neg && !slices.ContainsFunc(a.values, func(v any) bool {
				return !b.set.keys[key(v)]
			}) {
				return true
			}
		}
		if values, all := x.candidates(a.values, k); all {
			return x.none(values)
		}
	}
	for _, f := range pick[opaque](x) {
		if slices.Contains(x.lits, formula(opaque{f.id, !f.neg})) {
			return true
		}
	}
	switch k {
	case null:
		return x.none([]any{nil})
	case boolean:
		return x.none([]any{true, false})
	case integer:
		return x.noInteger()
	case float:
		return x.noFloat()
	case text:
		return x.noText(deep)
	case list:
		return r.noList(x, deep)
	case object, number:
	}
	return r.noObject(x, deep)
}

// none reports whether a literal refuses each of the values.
func (x *facts) none(values []any) bool {
	return !slices.ContainsFunc(values, func(v any) bool {
		return !slices.ContainsFunc(x.lits, func(f formula) bool { return eval(f, v) == no })
	})
}

// candidates are the values of the kind that can equal one of an enum, and whether these are all.
func (x *facts) candidates(enum []any, k kinds) ([]any, bool) {
	var out []any
	exact := slices.Contains(pick[integral](x), integral{exact: true})
	for _, e := range enum {
		switch e := e.(type) {
		case string:
			if k == text {
				out = append(out, e)
			}
			if rs := []rune(e); k == integer && len(rs) == 1 { // 65 is converted to "A"
				if rs[0] == '\uFFFD' {
					return nil, false
				}
				out = append(out, int64(rs[0]))
			}
		case int64:
			if k == integer {
				out = append(out, e)
			}
			if k == float {
				if !exact || e >= 1<<53 || e <= -1<<53 {
					return nil, false
				}
				out = append(out, float64(e))
			}
		case float64:
			if k == float {
				out = append(out, e)
			}
			if k == integer {
				if math.Abs(e) >= 1<<53 {
					return nil, false
				}
				if e == math.Trunc(e) {
					out = append(out, int64(e))
				}
			}
		default:
			if kindOf(e) == k {
				out = append(out, e)
			}
		}
	}
	return out, true
}

// fewValues bounds the values that are tried one by one.
const fewValues = 4096

func (x *facts) noInteger() bool {
	lo, hi := x.limits(ints)
	if lo > hi {
		return true
	}
	if values, all := x.few(integer); all {
		return x.none(values)
	}
	return slices.ContainsFunc(pick[multiple](x), func(m multiple) bool {
		return m.kind == integer && m.neg && slices.ContainsFunc(append(pick[multiple](x), multiple{integer, 0, false}), func(n multiple) bool {
			return n.kind == integer && !n.neg && (m.of == 1 || n.of > 0 && int64(n.of)%int64(m.of) == 0)
		})
	})
}

// floats returns the range of floats that is left, and whether there is none.
func (x *facts) floats() (lo, hi float64, none bool) {
	lo, hi = math.Inf(-1), math.Inf(1)
	for _, b := range pick[between](x) {
		if b.lo > lo || b.lo == lo && b.loOpen {
			lo = b.lo
		}
		hi = min(hi, b.hi)
	}
	open := slices.ContainsFunc(pick[between](x), func(b between) bool {
		return lo == hi && (b.loOpen && b.lo == lo || b.hiOpen && b.hi == hi)
	})
	return lo, hi, lo > hi || open
}

func (x *facts) noFloat() bool {
	lo, hi, none := x.floats()
	if none {
		return true
	}
	whole := pick[integral](x)
	exact := slices.Contains(whole, integral{exact: true})
	for _, w := range whole {
		if w.neg && (exact || slices.Contains(whole, integral{exact: w.exact})) {
			return true
		}
	}
	ms := pick[multiple](x)
	for _, m := range ms {
		if m.kind == float && m.neg && (slices.Contains(ms, multiple{float, m.of, false}) || exact && m.of == 1) {
			return true
		}
	}
	switch {
	case math.IsInf(lo, 0) || math.IsInf(hi, 0):
		return false
	case lo == hi:
		return x.none([]any{lo})
	case exact && hi-lo < fewValues:
		var all []any
		for v := math.Ceil(lo); v <= hi; v++ {
			all = append(all, v)
		}
		return x.none(all)
	}
	return false
}

func (x *facts) noText(deep bool) bool {
	lo, hi := x.limits(runes)
	if lo > hi {
		return true
	}
	say := pick[matches](x)
	for _, m := range say {
		if slices.Contains(say, matches{m.expr, !m.neg}) {
			return true
		}
	}
	for _, f := range pick[formatted](x) {
		if slices.Contains(x.lits, formula(formatted{f.name, !f.neg})) {
			return true
		}
	}
	for _, e := range pick[among](x) {
		var words []string
		for _, v := range e.values {
			if w, ok := v.(string); ok {
				words = append(words, regexp.QuoteMeta(w))
			}
		}
		if e.neg && len(words) > 0 {
			say = append(say, matches{`\A(?:` + strings.Join(words, "|") + `)\z`, true})
		}
	}
	return deep && len(say) > 0 && noString(say, lo, hi)
}

// below reports whether the statements about a part contradict each other.
func (r *refuter) below(fs []formula, deep bool) bool {
	if len(fs) == 1 && !r.alone {
		if l, ok := fs[0].(lazy); ok && !l.neg {
			return l.isFalse() // a schema alone usually allows a value
		}
	}
	x := newFacts()
	for _, f := range fs {
		if !r.add(x, f) {
			return true
		}
	}
	if deep {
		return r.search(x)
	}
	return r.contradicts(x, false)
}

// isFalse reports whether it is the formula of a place that is pruned.
func (l lazy) isFalse() bool {
	k, ok := l.id.(lazyKey)
	return ok && k.shape == gone
}

func (r *refuter) noList(x *facts, deep bool) bool {
	lo, hi := x.limits(entries)
	if slices.ContainsFunc(pick[distinct](x), func(d distinct) bool { return d.neg }) {
		lo = max(lo, 2) // two equal items
	}
	if lo > hi {
		return true
	}
	var each, some []formula
	for _, f := range pick[items](x) {
		each = append(each, f.f)
	}
	for _, f := range pick[oneItem](x) {
		some = append(some, f.f)
	}
	if len(some) > 0 && hi == 0 || hi == 1 && len(some) > 1 && r.below(append(slices.Clip(each), some...), deep) {
		return true
	}
	for _, f := range some {
		if r.below(append(slices.Clip(each), f), deep) {
			return true
		}
	}
	if lo > 0 && r.below(append(slices.Clip(each), and{}), deep) { // even where it is one schema alone
		return true
	}
	return r.cannotDiffer(x, each, lo)
}

// cannotDiffer reports whether what the facts say about equal items contradicts itself or the length, which is lo at least.
func (r *refuter) cannotDiffer(x *facts, each []formula, lo int64) bool {
	for _, d := range pick[distinct](x) {
		if !d.neg && lo > 1 && r.different(each, d.by) < lo {
			return true
		}
	}
	for _, two := range pick[distinct](x) {
		if two.neg && slices.ContainsFunc(pick[distinct](x), func(d distinct) bool { return !d.neg && d.by.implies(two.by) }) {
			return true
		}
	}
	return false
}

// different returns an upper bound for the different items of a list whose items satisfy the formulas, if they can be counted: deeply
// equal items are equal in every sense. For a list of type map it counts combinations of keys, and a missing key is a value, too.
func (r *refuter) different(each []formula, by equality) int64 {
	if by.sort != "map" {
		return r.count(each)
	}
	x := r.facts(each)
	if x == nil {
		return 0
	}
	if x.kinds&^(object|null) != 0 {
		return math.MaxInt64
	}
	n := int64(1)
	for key := range strings.SplitSeq(by.keys, "\x00") {
		var values []formula
		for _, p := range pick[prop](x) {
			if p.name == key {
				values = append(values, p.f)
			}
		}
		of := r.count(values)
		if !slices.Contains(pick[present](x), present{name: key}) {
			of++
		}
		if n *= min(of, many); n > fewValues {
			return math.MaxInt64
		}
	}
	if x.kinds&null != 0 {
		n++
	}
	return n
}

// many stands for a number that is too large to count.
const many = fewValues + 1

// count returns an upper bound for the number of values that satisfy the formulas, math.MaxInt64 if it cannot count them.
func (r *refuter) count(fs []formula) int64 {
	x := r.facts(fs)
	if x == nil {
		return 0
	}
	n := int64(0)
	for k := null; k <= object; k <<= 1 {
		if x.kinds&k == 0 {
			continue
		}
		values, all := x.few(k)
		if !all {
			return math.MaxInt64
		}
		r.fuel -= len(values)
		for _, v := range values {
			if !slices.ContainsFunc(fs, func(f formula) bool { return eval(f, v) == no }) {
				n++
			}
		}
	}
	return n
}

// facts adds formulas, and rules out kinds; it returns nil for a contradiction.
func (r *refuter) facts(fs []formula) *facts {
	x := newFacts()
	for _, f := range fs {
		if !r.add(x, f) {
			return nil
		}
	}
	if r.contradicts(x, false) {
		return nil
	}
	return x
}

// few returns all values of the kind that may satisfy the literals, and false if there are too many.
func (x *facts) few(k kinds) ([]any, bool) {
	for _, a := range pick[among](x) {
		if !a.neg && len(a.values) <= fewValues {
			return x.candidates(a.values, k)
		}
	}
	switch k {
	case null:
		return []any{nil}, true
	case boolean:
		return []any{true, false}, true
	case text:
		_, longest := x.limits(runes)
		return []any{""}, longest == 0
	case integer:
		lo, hi := x.limits(ints)
		if hi-lo < 0 || hi-lo >= fewValues {
			return nil, false
		}
		var all []any
		for i := lo; i <= hi; i++ {
			all = append(all, i)
		}
		return all, true
	case list:
		_, longest := x.limits(entries)
		return []any{[]any{}}, longest == 0
	case float, object, number:
	}
	return nil, false
}

// implies reports whether lists that are distinct by e are distinct by o.
func (e equality) implies(o equality) bool {
	if e == o {
		return true
	}
	mine, theirs := strings.Split(e.keys, "\x00"), strings.Split(o.keys, "\x00")
	return e.sort == "map" && o.sort == "map" && e.defaults == o.defaults && !e.numbers &&
		!slices.ContainsFunc(mine, func(k string) bool { return !slices.Contains(theirs, k) })
}

// properties is what is said of the properties of an object.
type properties struct {
	has, lacks map[string]bool
	named      map[string][]formula // of their values
	rest       []others
}

func (x *facts) properties() *properties {
	p := &properties{map[string]bool{}, map[string]bool{}, map[string][]formula{}, pick[others](x)}
	for _, f := range pick[present](x) {
		if f.neg {
			p.lacks[f.name] = true
		} else {
			p.has[f.name] = true
		}
	}
	for _, f := range pick[prop](x) {
		p.named[f.name] = append(p.named[f.name], f.f)
	}
	return p
}

// at returns what is said of the value of a property.
func (p *properties) at(name string) []formula {
	out := slices.Clone(p.named[name])
	for _, o := range p.rest {
		if !slices.Contains(o.except, name) {
			out = append(out, o.f)
		}
	}
	return out
}

// atFresh returns what is said of the value of a property whose name nothing mentions.
func (p *properties) atFresh() (out []formula) {
	for _, o := range p.rest {
		out = append(out, o.f)
	}
	return out
}

// most returns how many properties there can be if there are no others than those that are excepted; not ok if there may be.
func (p *properties) most(o others) (n int64, ok bool) {
	l, isLazy := o.f.(lazy)
	if none := isLazy && l.isFalse() || len(asOr(o.f)) == 0 && isOr(o.f); !none {
		return 0, false
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(o.except))) {
		if !p.lacks[name] {
			n++
		}
	}
	return n, true
}

func (r *refuter) noObject(x *facts, deep bool) bool {
	lo, hi := x.limits(fields)
	if lo > hi {
		return true
	}
	p := x.properties()
	for name := range p.has {
		if p.lacks[name] || r.below(p.at(name), deep) {
			return true
		}
	}
	if int64(len(p.has)) > hi {
		return true
	}
	mentioned := map[string]bool{}
	for name := range p.named {
		mentioned[name] = true
	}
	for _, o := range p.rest {
		for _, name := range o.except {
			mentioned[name] = true
		}
		if n, ok := p.most(o); ok && n-r.neverThere(p, o, deep && n >= lo && lo > 0) < lo {
			return true
		}
	}
	for _, one := range pick[oneOther](x) {
		for _, name := range one.except {
			mentioned[name] = true
		}
		possible := !r.below(append(p.atFresh(), one.f), deep)
		for name := range mentioned {
			if !possible && !slices.Contains(one.except, name) && !p.lacks[name] {
				possible = !r.below(append(p.at(name), one.f), deep)
			}
		}
		if !possible {
			return true
		}
	}
	return false
}

// neverThere returns how many of the properties that are excepted no value allows. It looks into them only if asked to, and alone.
func (r *refuter) neverThere(p *properties, o others, look bool) (n int64) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(o.except))) {
		if look && r.alone && !p.lacks[name] && r.below(p.at(name), true) {
			n++
		}
	}
	return n
}

func isOr(f formula) bool { _, ok := f.(or); return ok }

func asOr(f formula) or { o, _ := f.(or); return o }
