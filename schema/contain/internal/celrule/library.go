package celrule

// What does the text of a string show about the functions of Kubernetes' own libraries? For example, isIP(self.s) is true of all strings
// that a pattern of addresses matches, false of those with other letters, and opaque in between.

import (
	"regexp"
	"strings"
	"time"

	"sluice.dev/schema/contain/internal/logic"
)

// Functions of the libraries of Kubernetes are opaque, except for facts that the text of the string shows: a sufficient pattern, and a
// necessary one.

// known has a sufficient and a necessary pattern for an opaque statement about a string.
type known struct{ enough, needed string }

const (
	octet     = `(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])`
	anySuffix = `(?:[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)`
	anyRest   = `(?:\.[0-9]*)?` + anySuffix + `?`
	rest      = `(?:\.[0-9]{0,30})?` + suffix + `?`
	suffix    = `(?:[numkMGTPE]|[KMGTPE]i)`
)

// ipv6 are some of the addresses, none of which stands for one of version 4.
const (
	ipv6 = `(?:[1-9a-fA-F][0-9a-fA-F]{0,3}(?::[0-9a-fA-F]{1,4}){7}|::1?)`
	ipv4 = `(?:` + octet + `\.){3}` + octet
)

// isX has the patterns for the functions that report whether a string can be converted (k8s.io/apiserver/pkg/cel/library).
var isX = map[string]known{
	"isURL": {
		`\A(?:[a-zA-Z][a-zA-Z0-9+.-]*://[a-zA-Z0-9.-]+(?::[0-9]*)?)?/[a-zA-Z0-9._~/-]*\z|\A[a-zA-Z][a-zA-Z0-9+.-]*://[a-zA-Z0-9.-]+\z`,
		`\A(?:/|\*\z|[a-zA-Z][a-zA-Z0-9+.-]*:)`,
	},
	"isIP":   {`\A(?:` + ipv4 + `|` + ipv6 + `)\z`, `\A(?:` + ipv4 + `|[0-9a-fA-F.]*:[0-9a-fA-F.:]*)\z`},
	"isCIDR": {`\A(?:` + ipv4 + `/(?:[12]?[0-9]|3[0-2])|` + ipv6 + `/(?:[1-9]?[0-9]|1[01][0-9]|12[0-8]))\z`, `\A(?:` + ipv4 + `/(?:[12]?[0-9]|3[0-2])|[0-9a-fA-F.]*:[0-9a-fA-F.:]*/[0-9]+)\z`},
	"isQuantity": {
		// The digits may be missing, as long as there is something else.
		`\A(?:[+-][0-9]{0,30}` + rest + `|[0-9]{1,30}` + rest + `|\.[0-9]{0,30}` + suffix + `?|` + suffix + `)\z`,
		`\A(?:[+-][0-9]*` + anyRest + `|[0-9]+` + anyRest + `|\.[0-9]*` + anySuffix + `?|` + anySuffix + `)\z`,
	},
}

// refineByPatterns adds the known patterns to an opaque statement about a string.
func refineByPatterns(at place, k known, b boolV) boolV {
	pat := func(expr string, neg bool) *cond { return leafCond(at, logic.Pattern{Expr: expr, Neg: neg}) }
	r := b
	if k.needed != "" {
		r.t, r.f = andConds(pat(k.needed, false), r.t), orConds(pat(k.needed, true), r.f)
	}
	if k.enough != "" {
		r.t, r.f = orConds(pat(k.enough, false), r.t), andConds(pat(k.enough, true), r.f)
	}
	return r
}

// isA evaluates isURL and the like.
func (t *translator) isA(name string, a sval) (boolV, bool) {
	k, ok := isX[name]
	x, ok2 := t.termOf(a)
	if !ok || !ok2 || x.typ != "string" {
		return boolV{}, false
	}
	b := t.predicateOf(functionTerm(name, "bool", false, x))
	switch s := a.(type) {
	case strV:
		enough, needed := regexp.MustCompile(k.enough), regexp.MustCompile(k.needed)
		if m := enough.MatchString(string(s)); m || !needed.MatchString(string(s)) {
			return boolConst(m), true
		}
	case strAt:
		if s.isPlain() && !x.partial {
			return refineByPatterns(s.at, k, b), true
		}
	}
	return b, true
}

// conversions from strings, and the function that reports whether they fail.
var conversions = map[string]string{"url": "isURL", "ip": "isIP", "cidr": "isCIDR", "quantity": "isQuantity"}

var scheme = regexp.MustCompile(`\A[a-zA-Z][a-zA-Z0-9+.-]*:`)

// schemeOf says that the scheme of a URL is one of several, or none (getScheme in net/url).
func schemeOf(s strAt, consts []string) boolV {
	var alts []string
	none := false
	for _, c := range consts {
		switch {
		case c == "":
			none = true
		case scheme.MatchString(c+":") && c == strings.ToLower(c) && !strings.Contains(c, ":"):
			alts = append(alts, regexp.QuoteMeta(c))
		}
	}
	ts, fs := []*cond{}, []*cond{}
	add := func(b boolV) { ts, fs = append(ts, b.t), append(fs, b.f) }
	if len(alts) > 0 {
		add(matchesPattern(s.ref, `\A(?i:`+strings.Join(alts, "|")+`):`))
	}
	if none {
		b := matchesPattern(s.ref, scheme.String())
		add(boolV{b.f, b.t})
	}
	return boolV{orConds(ts...), andConds(fs...)}
}

// durationIn is the duration in a string, as duration() or the format duration reads it. The index is its number of nanoseconds.
type durationIn struct {
	ref
	t         *translator
	formatted bool
}

func (b durationIn) indexBounds() (int64, int64) { return -1 << 63, 1<<63 - 1 }
func (b durationIn) numberAt(i int64) num        { return num{i: i} }

// asTerm names the duration. With the format duration the value itself is one; else it is the call duration(s).
func (b durationIn) asTerm() (termV, bool) {
	x := termV{text: mark, refs: []ref{b.ref}, typ: durationType}
	if !b.formatted {
		x.text = operatorText("duration", mark)
	}
	return x, true
}

// indexWithin says that the duration is from lo to hi nanoseconds: at least lo, and not at least hi+1.
func (b durationIn) indexWithin(lo, hi int64) *cond {
	if hi == 1<<63-1 {
		return b.atLeast(lo).t
	}
	return andConds(b.atLeast(lo).t, b.atLeast(hi+1).f)
}

// ladder are intermediate durations, so that a bound implies another.
var ladder = []int64{int64(time.Millisecond), int64(time.Second), int64(time.Minute), int64(time.Hour)}

const (
	units    = `(?:ns|us|µs|μs|ms|s|m|h)`
	duration = `\A[+-]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)` + units + `)+)\z`
	// shortDuration matches durations that cannot overflow.
	shortDuration = `\A[+-]?(?:0|(?:(?:[0-9]{1,5}(?:\.[0-9]{0,9})?h|[0-9]{1,6}(?:\.[0-9]{0,9})?m|[0-9]{1,8}(?:\.[0-9]{0,9})?s|` +
		`[0-9]{1,11}(?:\.[0-9]{0,9})?ms|[0-9]{1,14}(?:\.[0-9]{0,9})?(?:us|µs|μs)|[0-9]{1,17}(?:\.[0-9]{0,9})?ns)){1,20})\z`
)

var unitSizes = []struct {
	name string
	size int64
}{{"ns", 1}, {"us|µs|μs", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}}

// atLeast says that the duration is k or more, or less.
func (b durationIn) atLeast(k int64) boolV {
	if k == -1<<63 {
		return boolConst(true)
	}
	r := b.atLeastAlone(k)
	for _, l := range ladder {
		switch {
		case l < k:
			r.t = andConds(r.t, b.atLeastAlone(l).t)
		case l > k:
			r.f = andConds(r.f, b.atLeastAlone(l).f)
		}
	}
	return r
}

// atLeastAlone says that the duration is k or more, or less, without the implied bounds.
func (b durationIn) atLeastAlone(k int64) boolV {
	x, _ := b.asTerm()
	r := b.t.predicateOf(functionTerm("at least "+time.Duration(k).String(), "bool", false, x))
	if b.formatted || k < 0 {
		return r
	}
	if k == 0 {
		return refineBoth(b.at, r, `\A[^-]`, `\A-(?:.*[a-zµμ])?0*[1-9]`)
	}
	var large, small []string
	for _, u := range unitSizes {
		large = append(large, `0*`+decimalsFrom(abs((k-1)/u.size+1))+`(?:\.[0-9]*)?(?:`+u.name+`)`)
		if n := k / u.size; n > 0 {
			// A fraction of more digits may be rounded up to a whole unit (time.ParseDuration).
			small = append(small, `0*`+decimalPattern(0, abs(n-1))+`(?:\.[0-9]{0,9})?(?:`+u.name+`)`)
		}
	}
	enough := `\A\+?(?:[0-9.].*[a-zµμ])?(?:` + strings.Join(large, "|") + `)(?:[0-9.]|\z)`
	never := `\A-|\A\+?(?:0|(?:[0.]+` + units + `)+`
	if len(small) > 0 {
		never += `|` + strings.Join(small, "|")
	}
	return refineBoth(b.at, r, enough, never+`)\z`)
}

// refineBoth adds patterns that are enough for true and for false.
func refineBoth(at place, b boolV, enough, never string) boolV {
	pat := func(expr string, neg bool) *cond { return leafCond(at, logic.Pattern{Expr: expr, Neg: neg}) }
	return boolV{
		orConds(pat(enough, false), andConds(pat(never, true), b.t)),
		orConds(pat(never, false), andConds(pat(enough, true), b.f)),
	}
}

// Formats of the format library: a pattern and the longest length (k8s.io/apimachinery/pkg/util/validation).
const (
	label1123 = `[a-z0-9](?:[-a-z0-9]*[a-z0-9])?`
	label1035 = `[a-z](?:[-a-z0-9]*[a-z0-9])?`
	nameValue = `(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
)

var formatPatterns = map[string]struct {
	pattern string
	max     int64
}{
	"dns1123Label":     {`\A` + label1123 + `\z`, 63},
	"dns1123Subdomain": {`\A` + label1123 + `(?:\.` + label1123 + `)*\z`, 253},
	"dns1035Label":     {`\A` + label1035 + `\z`, 63},
	"labelValue":       {`\A(?:` + nameValue + `)?\z`, 63},
}

// knownFormats are the names that format.named knows.
var knownFormats = map[string]bool{
	"dns1123Label": true, "dns1123Subdomain": true, "dns1035Label": true, "qualifiedName": true,
	"dns1123LabelPrefix": true, "dns1123SubdomainPrefix": true, "dns1035LabelPrefix": true, "labelValue": true,
	"uri": true, "uuid": true, "byte": true, "date": true, "datetime": true,
}
