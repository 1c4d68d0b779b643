package celrule

// Which values does a rule that is not understood mention, and where? For example, self.a.replace('x', 'y') == 'yy' suggests to try x and
// yy as a.

import (
	"cmp"
	"fmt"
	"math"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/common/operators"

	"sluice.dev/schema"
)

// Hint has values to try at a place because a rule mentions them there.
type Hint struct {
	// Path leads from self to the place: names of properties and keys as they stand in JSON, [Items] for all items of a
	// list, [Values] for all values of a map, [Keys] at the end for its keys.
	Path []string
	// Values are decoded JSON values of the type of the place: constants of the rule and their neighbours, and lists of them.
	Values []any
	// Sizes are numbers of items or properties, if the place is a list or a map.
	Sizes []int64
}

// Steps of a [Hint] that are not names.
const (
	Items  = "[]"
	Values = "{}"
	Keys   = "{key}"
)

// Hints returns the values that the rule mentions for each place, in the order of the paths. They help to find values that an opaque
// part of the rule refuses or accepts, without a promise that one does.
func Hints(r *Rule, s Scope) []Hint {
	if s.Spine == nil {
		return nil
	}
	h := &hinter{t: newTranslator(s), found: map[string]*Hint{}}
	h.walkExpr(r.root, &hintVars{name: self, to: &hintAt{node: h.t.nodes[0]}})
	out := make([]Hint, 0, len(h.found))
	for _, x := range h.found {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b Hint) int { return slices.Compare(a.Path, b.Path) })
	return out
}

// maxHints bounds the values of one place.
const maxHints = 64

type hintAt struct {
	path []string
	node *schema.Node
}

// hintVars say for which places names stand, nil where that is not known.
type hintVars = binding[*hintAt]

type hinter struct {
	t     *translator
	found map[string]*Hint
}

// walkExpr visits all parts of e; vars are what the names mean.
func (h *hinter) walkExpr(e *expr, vars *hintVars) {
	n := e.binders()
	if n > 0 {
		h.walkExpr(e.args[0], vars)
		inner := vars
		at := h.placeOf(e.args[0], vars)
		for i, v := range e.args[1 : n+1] {
			inner = &hintVars{v.name, h.elementPlace(at, i, n, e.name), inner}
		}
		for _, b := range e.args[n+1:] {
			h.walkExpr(b, inner)
		}
		return
	}
	// Operators of logic only join others, so the constants below one operand have nothing to do with the places below
	// the other.
	if e.kind == call && !e.isHas() {
		switch e.name {
		case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional:
		default:
			h.pairConstants(e, vars)
		}
	}
	for _, a := range e.args {
		h.walkExpr(a, vars)
	}
}

// elementPlace returns the place that the i-th of n variables stands for.
func (h *hinter) elementPlace(at *hintAt, i, n int, macro string) *hintAt {
	switch {
	case at == nil:
		return nil
	case macro == "optMap" || macro == "optFlatMap":
		return at
	case isMap(at.node) && i == 0:
		return at.withStep(Keys, &schema.Node{Type: "string"})
	case isMap(at.node):
		return at.withStep(Values, h.t.seenAsChild(at.node.Additional))
	case at.node.Type == "array" && at.node.Items != nil && i == n-1:
		return at.withStep(Items, h.t.seenAsChild(at.node.Items))
	}
	return nil
}

// withStep is the place one step below, with the schema of what is there.
func (a *hintAt) withStep(name string, n *schema.Node) *hintAt {
	return &hintAt{append(slices.Clone(a.path), name), n}
}

// placeOf returns the place that an expression stands for, nil if it is not a place.
func (h *hinter) placeOf(e *expr, vars *hintVars) *hintAt {
	switch e.kind {
	case ident:
		at, _ := vars.lookUp(e.name)
		return at
	case sel:
		return h.childPlace(h.placeOf(e.args[0], vars), e.name)
	case call:
		return h.placeOfCall(e, vars)
	case literal, list, mapping:
	}
	return nil
}

// placeOfCall is placeOf for a call that gives a part of its argument, or the argument itself. Of c ? a : b, the
// place of a counts, or that of b if a is none.
func (h *hinter) placeOfCall(e *expr, vars *hintVars) *hintAt {
	switch e.name {
	case operators.OptSelect, operators.Index, operators.OptIndex:
		at := h.placeOf(e.args[0], vars)
		if name, ok := e.args[1].val.(string); ok {
			return h.childPlace(at, name)
		}
		return h.elementPlace(at, 1, 2, "")
	case "orValue", "value", "filter":
		if len(e.args) > 0 {
			return h.placeOf(e.args[0], vars)
		}
	case operators.Conditional:
		return cmp.Or(h.placeOf(e.args[1], vars), h.placeOf(e.args[2], vars))
	}
	return nil
}

// childPlace is the place of a field or a key below at; nil if at is nil or CEL knows no such field.
func (h *hinter) childPlace(at *hintAt, name string) *hintAt {
	if at == nil {
		return nil
	}
	c, key, err := childNode(at.node, name)
	if err != nil {
		return nil
	}
	return at.withStep(key, h.t.seenAsChild(c))
}

// pairConstants adds all constants below e to all places below e.
func (h *hinter) pairConstants(e *expr, vars *hintVars) {
	var places []*hintAt
	var consts []any
	var visit func(x *expr)
	visit = func(x *expr) {
		if at := h.placeOf(x, vars); at != nil {
			places = append(places, at)
			return
		}
		if x.kind == literal {
			consts = append(consts, x.val)
			return
		}
		if x.kind == call {
			consts = append(consts, samples[x.name]...)
		}
		if x.kind == call && x.name == "matches" && len(x.args) == 2 {
			if re, ok := x.args[1].val.(string); ok {
				consts = append(consts, sampleOf(re))
			}
		}
		if x.binders() > 0 {
			visit(x.args[0])
			return
		}
		for _, a := range x.args {
			visit(a)
		}
	}
	visit(e)
	// Any of the constants may be compared with any of the places: the expression is not understood, or it would not
	// be here.
	consts = append(consts, textsFor(e, consts)...)
	for _, p := range places {
		for _, c := range consts {
			h.addConstant(p, c)
		}
		h.addList(p, consts)
	}
}

// addList adds a list of the constants that its items may be, in descending order, with one more at the end.
func (h *hinter) addList(at *hintAt, consts []any) {
	if at.node.Type != "array" || at.node.Items == nil {
		return
	}
	var ints []int64
	var texts []string
	for _, c := range consts {
		switch c := c.(type) {
		case int64:
			ints = append(ints, c)
		case string:
			texts = append(texts, c)
		}
	}
	var list []any
	switch kind := at.node.Items.Type; {
	case kind == "integer" && len(ints) > 0:
		slices.Sort(ints)
		for _, i := range slices.Backward(slices.Compact(ints)) {
			list = append(list, i)
		}
		list = append(list, max(ints[0], math.MinInt64+1)-1)
	case kind == "string" && len(texts) > 0:
		slices.Sort(texts)
		for _, t := range slices.Backward(slices.Compact(texts)) {
			list = append(list, t)
		}
		list = append(list, "")
	default:
		return
	}
	h.hintAt(at).Values = append(h.hintAt(at).Values, list)
}

// forms are texts of which functions return a number, or a text at a position.
var forms = map[string]string{
	"getHours": "%dh", "getMinutes": "%dm", "getSeconds": "%ds", "getMilliseconds": "%dms", "prefixLength": "10.0.0.0/%d",
}

// textsFor are texts for which the functions in e return some of the constants.
func textsFor(e *expr, consts []any) (out []any) {
	e.walkParts(func(x *expr) {
		if x.kind != call {
			return
		}
		for _, c := range consts {
			switch c := c.(type) {
			case int64:
				for _, n := range withNeighbours(c) {
					out = appendTextsOfNumber(out, x, n)
				}
			case string:
				from, to, ok := twoTexts(x.args)
				if ok && x.name == "replace" && to != "" && strings.Count(c, to)*len(from)+len(c) <= maxMade {
					out = append(out, strings.ReplaceAll(c, to, from))
				}
			}
		}
	})
	return out
}

// appendTextsOfNumber adds texts for which the call x may return n, or as many parts.
func appendTextsOfNumber(out []any, x *expr, n int64) []any {
	if form := forms[x.name]; form != "" {
		return append(out, fmt.Sprintf(form, n))
	}
	if n < 0 || n > maxRepeated || len(x.args) < 2 {
		return out
	}
	text, isText := x.args[1].val.(string)
	switch {
	case !isText || text == "" || len(text)*maxRepeated > maxMade:
	case x.name == "indexOf" || x.name == "lastIndexOf":
		out = append(out, strings.Repeat("-", int(n))+text)
	case x.name == "findAll":
		out = append(out, strings.Repeat(sampleOf(text), int(n)))
	case x.name == "split":
		out = append(out, strings.Repeat(text, int(n)))
	}
	return out
}

// Texts that are made are repeated at most this often, and have at most so many bytes.
const (
	maxRepeated = 64
	maxMade     = 4096
)

// twoTexts returns the constants that follow the target of a call.
func twoTexts(args []*expr) (a, b string, ok bool) {
	if len(args) != 3 {
		return "", "", false
	}
	a, ok = args[1].val.(string)
	b, ok2 := args[2].val.(string)
	return a, b, ok && ok2
}

// samples are strings that functions look for.
var samples = map[string][]any{
	"isIP":      {"10.0.0.1", "::1", "x", "2001:DB8::1"},
	"ip":        {"10.0.0.1", "::1", "2001:DB8::1"},
	"isCIDR":    {"10.0.0.0/8", "::/0", "x"},
	"cidr":      {"10.0.0.0/8", "::/0"},
	"isURL":     {"http://a", "/a", "x"},
	"url":       {"http://a", "/a"},
	"duration":  {"1s", "0s", "x"},
	"timestamp": {"2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z", "2000-01-01T00:00:00Z", "x"},
	"quantity":  {"1", "0", "-1", "1Gi", "999Ei", "x"},
	"int":       {"0", "1", "x"},
	"double":    {"0", "1.5", "x"},
	"validate":  {"a", "A", "-", "", "2006-01-02", "2006-01-02T15:04:05Z", "f47ac10b-58cc-0372-8567-0e02b2c3d479", "YQ==", "http://a"},
	"split":     {"a", ""},
	"semver":    {"0.1.0", "1.0.0", "99.0.0", "x"},
	"isSemver":  {"1.0.0", "x"},

	"isQuantity": {"1", "1Gi", "x"},
	"trim":       {" a", "a "},
	"reverse":    {"ab", "aa"},
	"isSorted":   {int64(1), "a"},
	"lowerAscii": {"A", "a"},
	"upperAscii": {"A", "a"},

	"isCanonical":          {"10.0.0.1", "2001:db8::1", "2001:DB8::1", "::ffff:10.0.0.1"},
	"isLoopback":           {"127.0.0.1", "::1"},
	"isUnspecified":        {"0.0.0.0", "::"},
	"isLinkLocalUnicast":   {"169.254.0.1", "fe80::1"},
	"isLinkLocalMulticast": {"224.0.0.1", "ff02::1"},
	"isGlobalUnicast":      {"127.0.0.1", "::1"},
	"getFullYear":          {"0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"},
	"getMonth":             {"2020-01-01T00:00:00Z", "2020-12-31T23:59:59Z"},
	"getDayOfMonth":        {"2020-01-01T00:00:00Z", "2020-12-31T23:59:59Z"},
	"getDayOfWeek":         {"2023-01-01T00:00:00Z", "2023-01-07T00:00:00Z"},
	"getHours":             {"2020-01-01T00:00:00Z", "2020-12-31T23:59:59Z"},
}

// hintAt returns the hint of a place.
func (h *hinter) hintAt(at *hintAt) *Hint {
	key := strings.Join(at.path, "\x00")
	x := h.found[key]
	if x == nil {
		x = &Hint{Path: at.path}
		h.found[key] = x
	}
	return x
}

// addConstant adds a constant and its neighbours to a place, in the type of the place.
func (h *hinter) addConstant(at *hintAt, c any) {
	x := h.hintAt(at)
	if u, ok := c.(uint64); ok && u <= math.MaxInt64 {
		c = int64(u)
	}
	switch n := at.node; {
	case n.Type == "array" || isMap(n):
		h.addToList(x, at, c)
	case n.Type == "integer" || n.Type == "number":
		x.addNumber(n.Type, c)
	case n.Type == "boolean":
		x.addValue(true)
		x.addValue(false)
	case n.Type == "string" || n.IntOrString:
		x.addToString(n, c)
	}
}

// addToString notes a constant for a string, or for an integer or a string: a number may be that of its characters.
func (x *Hint) addToString(n *schema.Node, c any) {
	switch c := c.(type) {
	case int64:
		if n.IntOrString {
			x.addNumber(n.Type, c)
		} else {
			x.addText(c)
		}
	case string:
		x.addString(c)
	}
}

// addToList notes a constant for the size of a list or a map, and for its scalars.
func (h *hinter) addToList(x *Hint, at *hintAt, c any) {
	switch c := c.(type) {
	case int64:
		for _, v := range withNeighbours(c) {
			if v >= 0 && v < 1_000 {
				x.Sizes = insertSorted(x.Sizes, v)
			}
		}
	case string, float64:
	default:
		return
	}
	if e := h.elementPlace(at, 0, 1, ""); e != nil && e.node.Type != "array" && e.node.Type != "object" {
		h.addConstant(e, c)
	}
}

// withNeighbours returns a number and its neighbours.
func withNeighbours(i int64) []int64 {
	out := []int64{i}
	if i > math.MinInt64 {
		out = append(out, i-1)
	}
	if i < math.MaxInt64 {
		out = append(out, i+1)
	}
	return out
}

// addNumber adds a number and its neighbours. For a double these are also the next ones that a float64 can hold,
// where a strict bound and one that is not differ.
func (x *Hint) addNumber(typ string, c any) {
	switch c := c.(type) {
	case int64:
		for _, v := range withNeighbours(c) {
			x.addValue(v)
		}
	case float64:
		if typ == "number" {
			for _, v := range []float64{c, c - 1, c + 1, math.Nextafter(c, math.Inf(1)), math.Nextafter(c, math.Inf(-1))} {
				x.addValue(v)
			}
		}
	}
}

// addText notes strings of a number: its digits, and so many letters.
func (x *Hint) addText(i int64) {
	for _, v := range append(withNeighbours(i), i/2+1) { // half of it, for lengths that are added
		x.addValue(strconv.FormatInt(v, 10))
		if v >= 0 && v < 1_000 {
			x.addValue(strings.Repeat("a", int(v)))
		}
	}
}

// addString notes a string and others that nearly are it: a rule may ask how it begins, or ends, or how long it is.
func (x *Hint) addString(s string) {
	x.addValue(s)
	x.addValue(s + "a")
	x.addValue("a" + s)
	if s != "" {
		x.addValue(s[:len(s)-1])
	}
	if d, err := time.ParseDuration(s); err == nil {
		x.addValue((d - 1).String())
		x.addValue((d + 1).String())
	}
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") == "" {
		x.addValue(s + "://a")
	}
}

// addValue adds a value, unless it is there or there are too many.
func (x *Hint) addValue(v any) {
	if s, ok := v.(string); ok {
		v = strings.ToValidUTF8(s, "")
	}
	if len(x.Values) < maxHints && !slices.Contains(x.Values, v) {
		x.Values = append(x.Values, v)
	}
}

// insertSorted inserts x into a sorted slice, unless it is there or the slice has maxHints elements.
func insertSorted[T cmp.Ordered](xs []T, x T) []T {
	i, ok := slices.BinarySearch(xs, x)
	if ok || len(xs) >= maxHints {
		return xs
	}
	return slices.Insert(xs, i, x)
}

// sampleOf returns a short string in which a regular expression finds a match, as a rule.
func sampleOf(expr string) string {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return ""
	}
	var b strings.Builder
	writeSample(&b, re.Simplify(), 0)
	return b.String()
}

// writeSample writes a text that the expression matches, letters where they are allowed and as few as possible. Of
// alternatives it takes the first, what may be missing it leaves out, and assertions such as ^ write nothing: so the
// result matches as a rule, and not always.
func writeSample(b *strings.Builder, re *syntax.Regexp, depth int) {
	if depth > 100 || b.Len() > 1_000 {
		return
	}
	switch re.Op {
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			b.WriteRune(r)
		}
	case syntax.OpCharClass:
		if class := (prefixAt{class: re.Rune}); class.classHasAll("a") { // a letter, if there is one
			b.WriteByte('a')
		} else if len(re.Rune) > 0 {
			b.WriteRune(re.Rune[0])
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('a')
	case syntax.OpConcat, syntax.OpCapture, syntax.OpPlus:
		for _, s := range re.Sub {
			writeSample(b, s, depth+1)
		}
	case syntax.OpAlternate:
		writeSample(b, re.Sub[0], depth+1)
	case syntax.OpRepeat:
		for range min(re.Min, 100) {
			writeSample(b, re.Sub[0], depth+1)
		}
	case syntax.OpNoMatch, syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary, syntax.OpStar, syntax.OpQuest: // nothing
	}
}
