package certify

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/go-openapi/swag/conv"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// kinds is a set of kinds of JSON values. Numbers are integers if they were decoded to int64.
type kinds uint8

const (
	null kinds = 1 << iota
	boolean
	integer
	float
	text
	list
	object

	anyKind = 1<<7 - 1
	number  = integer | float
)

func kindOf(v any) kinds {
	switch v.(type) {
	case nil:
		return null
	case bool:
		return boolean
	case int64:
		return integer
	case float64:
		return float
	case string:
		return text
	case []any:
		return list
	}
	return object
}

// formula is a statement about one JSON value. Those about one kind are true of all values of other kinds.
type formula any

type (
	and []formula
	or  []formula
	// is is true of values of these kinds.
	is kinds
	// within bounds a count: an integer, the length of a string, items, properties.
	within struct {
		of     count
		lo, hi int64
	}
	// between bounds a float.
	between struct {
		lo, hi         float64
		loOpen, hiOpen bool
	}
	// multiple is true of a number of its kind that is a multiple.
	multiple struct {
		kind kinds
		of   float64
		neg  bool
	}
	// integral is true of a float without a fraction. Unless exact, it ignores a fraction of a billionth of the value.
	integral struct{ exact, neg bool }
	matches  struct {
		expr string
		neg  bool
	}
	formatted struct {
		name string
		neg  bool
	}
	// among is true of the values that equal one of an enum.
	among struct {
		values []any
		set    *enumSet
		neg    bool
	}
	// present is true of objects with the property, or of those without.
	present struct {
		name string
		neg  bool
	}
	// prop, others and items restrict the properties and items that a value has; oneOther and oneItem demand that it has one.
	prop struct {
		name string
		f    formula
	}
	others struct {
		except []string
		f      formula
	}
	oneOther struct {
		except []string
		f      formula
	}
	items   struct{ f formula }
	oneItem struct{ f formula }
	// distinct is true of lists without two equal items.
	distinct struct {
		by  equality
		neg bool
	}
	// opaque stands for a statement that is not translated.
	opaque struct {
		id  string
		neg bool
	}
	// lazy is made when it is needed. Two with the same id mean the same.
	lazy struct {
		id   any
		make func() formula
		neg  bool
	}
)

// equality says when two items of a list are equal: deeply (uniqueItems), by their text (set), or by keys (map).
type equality struct {
	sort, keys, defaults string
	numbers              bool // one key, and it may be a number: 1 and 1.0 are different
}

type count uint8

const (
	ints count = iota
	runes
	entries
	fields
)

var counted = [...]kinds{integer, text, list, object}

func not(f formula) formula {
	switch f := f.(type) {
	case and:
		out := or{}
		for _, g := range f {
			out = append(out, not(g))
		}
		return out
	case or:
		out := and{}
		for _, g := range f {
			out = append(out, not(g))
		}
		return out
	case is:
		return is(anyKind &^ kinds(f))
	case within:
		out, lowest := or{}, int64(0)
		if f.of == ints {
			lowest = math.MinInt64
		}
		if f.lo > lowest {
			out = append(out, within{f.of, lowest, f.lo - 1})
		}
		if f.hi < math.MaxInt64 {
			out = append(out, within{f.of, f.hi + 1, math.MaxInt64})
		}
		return and{is(counted[f.of]), out}
	case between:
		return and{is(float), or{
			between{math.Inf(-1), f.lo, false, !f.loOpen}, between{f.hi, math.Inf(1), !f.hiOpen, false},
		}}
	case multiple:
		return and{is(f.kind), multiple{f.kind, f.of, !f.neg}}
	case integral:
		return and{is(float), integral{f.exact, !f.neg}}
	case matches:
		return and{is(text), matches{f.expr, !f.neg}}
	case formatted:
		return and{is(text), formatted{f.name, !f.neg}}
	case among:
		return among{f.values, f.set, !f.neg}
	case opaque:
		return opaque{f.id, !f.neg}
	case lazy:
		return lazy{f.id, f.make, !f.neg}
	}
	return notComposite(f)
}

// notComposite negates a formula about the fields of objects or the items of lists.
func notComposite(f formula) formula {
	switch f := f.(type) {
	case present:
		return and{is(object), present{f.name, !f.neg}}
	case prop:
		return and{is(object), present{name: f.name}, prop{f.name, not(f.f)}}
	case others:
		return and{is(object), oneOther{f.except, not(f.f)}}
	case oneOther:
		return and{is(object), others{f.except, not(f.f)}}
	case items:
		return and{is(list), oneItem{not(f.f)}}
	case oneItem:
		return and{is(list), items{not(f.f)}}
	case distinct:
		return and{is(list), distinct{f.by, !f.neg}}
	}
	return opaque{id: "the negation of a formula of no kind"}
}

// open returns the formula.
func (l lazy) open() formula {
	if l.neg {
		return not(l.make())
	}
	return l.make()
}

// truth is what an evaluation finds; unsure comes from opaque parts.
type truth int8

const (
	no truth = iota - 1
	unsure
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// eval evaluates a formula on a value.
func eval(f formula, v any) truth {
	switch f := f.(type) {
	case and:
		t := yes
		for _, g := range f {
			t = min(t, eval(g, v))
		}
		return t
	case or:
		t := no
		for _, g := range f {
			t = max(t, eval(g, v))
		}
		return t
	case is:
		return truthOf(kinds(f)&kindOf(v) != 0)
	case among:
		return truthOf(f.set.has(v) != f.neg)
	case opaque:
		return unsure
	case lazy:
		if f.neg {
			return -eval(f.make(), v)
		}
		return eval(f.make(), v)
	case within:
		n := size(v)
		return truthOf(counted[f.of] != kindOf(v) || n >= f.lo && n <= f.hi)
	}
	switch v := v.(type) {
	case int64:
		if m, ok := f.(multiple); ok && m.kind == integer {
			return truthOf((v%int64(m.of) == 0) != m.neg)
		}
	case float64:
		return evalFloat(f, v)
	case string:
		return evalText(f, v)
	case []any:
		return evalList(f, v)
	case map[string]any:
		return evalObject(f, v)
	}
	return yes
}

func evalFloat(f formula, v float64) truth {
	switch f := f.(type) {
	case between:
		return truthOf((v > f.lo || v == f.lo && !f.loOpen) && (v < f.hi || v == f.hi && !f.hiOpen))
	case integral:
		return truthOf((conv.IsFloat64AJSONInteger(v) && (!f.exact || v == math.Trunc(v))) != f.neg)
	case multiple:
		if f.kind == float {
			return truthOf(isMultiple(v, f.of) != f.neg)
		}
	}
	return yes
}

func evalText(f formula, v string) truth {
	switch f := f.(type) {
	case matches:
		re, err := compiled(f.expr)
		return truthOf((err == nil && re.MatchString(v)) != f.neg)
	case formatted:
		return truthOf(strfmt.Default.Validates(f.name, v) != f.neg)
	}
	return yes
}

func evalList(f formula, v []any) truth {
	switch f := f.(type) {
	case items:
		t := yes
		for _, x := range v {
			t = min(t, eval(f.f, x))
		}
		return t
	case oneItem:
		return -evalList(items{not(f.f)}, v)
	case distinct:
		if len(v) < 2 {
			return truthOf(!f.neg)
		}
		return unsure
	}
	return yes
}

func evalObject(f formula, v map[string]any) truth {
	switch f := f.(type) {
	case present:
		_, has := v[f.name]
		return truthOf(has != f.neg)
	case prop:
		if x, ok := v[f.name]; ok {
			return eval(f.f, x)
		}
	case others:
		t := yes
		for k, x := range v {
			if !slices.Contains(f.except, k) {
				t = min(t, eval(f.f, x))
			}
		}
		return t
	case oneOther:
		return -evalObject(others{f.except, not(f.f)}, v)
	}
	return yes
}

func size(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case string:
		return int64(utf8.RuneCountInString(v))
	case []any:
		return int64(len(v))
	case map[string]any:
		return int64(len(v))
	}
	return 0
}

func isMultiple(v, of float64) bool {
	if of < 1 {
		return conv.IsFloat64AJSONInteger(1 / of * v)
	}
	return conv.IsFloat64AJSONInteger(v / of)
}

// same compares with a value of an enum as k8s.io/kube-openapi/pkg/validation/validate does (basicCommonValidator).
func same(v, e any) bool {
	if v == nil || e == nil || !reflect.TypeOf(v).ConvertibleTo(reflect.TypeOf(e)) {
		return false
	}
	return reflect.DeepEqual(reflect.ValueOf(v).Convert(reflect.TypeOf(e)).Interface(), e)
}

// enumSet finds values of an enum without going through all of them.
type enumSet struct {
	plain    map[any]bool    // strings, numbers and booleans
	compound []any           // lists and objects
	keys     map[string]bool // the texts of key for each
}

func oneOf(values []any) among {
	s := &enumSet{plain: map[any]bool{}, keys: map[string]bool{}}
	for _, v := range values {
		s.keys[key(v)] = true
		switch v.(type) {
		case string, int64, float64, bool:
			s.plain[v] = true
		default:
			s.compound = append(s.compound, v)
		}
	}
	return among{values: values, set: s}
}

// has reports whether a value is the [same] as one of the enum.
func (s *enumSet) has(v any) bool {
	switch v := v.(type) {
	case string, bool:
		return s.plain[v]
	case int64:
		letter := "\uFFFD"
		if int64(rune(v)) == v { //nolint:gosec // whether it fits is the question
			letter = string(rune(v)) //nolint:gosec // it fits
		}
		return s.plain[v] || s.plain[float64(v)] || s.plain[letter]
	case float64:
		return s.plain[v] || s.plain[int64(v)]
	}
	return slices.ContainsFunc(s.compound, func(e any) bool { return same(v, e) })
}

// key writes a value as a text, in which 1 and 1.0 differ.
func key(v any) string {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]string{}
		for k, x := range v {
			out[k] = key(x)
		}
		b, _ := json.Marshal(out)
		return string(b)
	case []any:
		out := make([]string, len(v))
		for i, x := range v {
			out[i] = key(x)
		}
		b, _ := json.Marshal(out)
		return string(b)
	case float64:
		b, _ := json.Marshal(v)
		return "f" + string(b)
	}
	b, _ := json.Marshal(v)
	return string(b)
}
