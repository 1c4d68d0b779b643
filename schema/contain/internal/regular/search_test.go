package regular

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// Patterns of the kinds that CRDs use.
const (
	label        = `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	label63      = `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`
	subdomain    = `^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	wildcard     = `^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	dns1035      = `^[a-z]([-a-z0-9]*[a-z0-9])?$`
	labelValue   = `^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
	qualified    = `^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	quantity     = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`
	plainNumber  = `^[0-9]+(\.[0-9]+)?$`
	duration     = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	gatewayTime  = `^([0-9]{1,5}(h|m|s|ms)){1,4}$`
	semver       = `^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-((0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(\+([0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*))?$`
	semverCore   = `^\d+\.\d+\.\d+$`
	semverV      = `^v?\d+\.\d+\.\d+`
	httpURL      = `^https?://[^\s/$.?#].[^\s]*$`
	httpsURL     = `^https://.+$`
	arn          = `^arn:(aws|aws-cn|aws-us-gov):[a-z0-9-]+:[a-z0-9-]*:[0-9]{12}:.+$`
	iamRole      = `^arn:(aws|aws-cn|aws-us-gov):iam::[0-9]{12}:role/[\w+=,.@/-]+$`
	ipv4         = `^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])$`
	ipv4Loose    = `^([0-9]{1,3}\.){3}[0-9]{1,3}$`
	cidr         = `^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])/(3[0-2]|[12]?[0-9])$`
	reasonWord   = `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`
	condition    = `^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	cron         = `^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$`
	sha256       = `^sha256:[a-f0-9]{64}$`
	anyDigest    = `^(sha1|sha256|sha512):[a-f0-9]+$`
	headerName   = "^[A-Za-z0-9!#$%&'*+\\-.^_\\x60|~]+$"
	hostname     = `^([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]{2,}$`
	domainPrefix = `^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$`
	absPath      = `^/`
	percent      = `^((100|[0-9]{1,2})%|[0-9]+)$`
	logLevel     = `^(?i)(debug|info|warn|error)?$`
)

// realCases ask whether each string that matches a matches b.
var realCases = []struct {
	name, a, b string
	proved     bool
	witness    string // else: a shortest string that matches a alone
}{
	{name: "a label is a subdomain", a: label, b: subdomain, proved: true},
	{name: "a subdomain may have dots", a: subdomain, b: label, witness: "a.a"},
	{name: "a label that begins with a letter is a label", a: dns1035, b: label, proved: true},
	{name: "a label may begin with a digit", a: label, b: dns1035, witness: "0"},
	{name: "a bounded label is a label", a: label63, b: label, proved: true},
	{name: "a label may be longer than 63", a: label, b: label63, witness: strings.Repeat("a", 64)},
	{name: "a subdomain is a wildcard domain", a: subdomain, b: wildcard, proved: true},
	{name: "a wildcard is no subdomain", a: wildcard, b: subdomain, witness: "*.a"},
	{name: "a label is a label value", a: label, b: labelValue, proved: true},
	{name: "a label value may be empty", a: labelValue, b: label, witness: ""},
	{name: "a label value may be upper case", a: `^.+$`, b: labelValue, witness: "-"},
	{name: "a label is a qualified name", a: label, b: qualified, proved: true},
	{name: "a qualified name and a condition type are the same", a: qualified, b: condition, proved: true},
	{name: "a condition type and a qualified name are the same", a: condition, b: qualified, proved: true},
	{name: "a qualified name may have a prefix", a: qualified, b: labelValue, witness: "a/a"},
	{name: "a plain number is a quantity", a: plainNumber, b: quantity, proved: true},
	{name: "a quantity may have a suffix", a: quantity, b: plainNumber, witness: "0k"},
	{name: "an unanchored number is found in each quantity", a: quantity, b: `[0-9]+[mMgG]?`, proved: true},
	{name: "a gateway duration is a duration", a: gatewayTime, b: duration, proved: true},
	{name: "a duration may have nanoseconds", a: duration, b: gatewayTime, witness: "0ns"},
	{name: "semver without parts is not strict semver", a: semverCore, b: semver, witness: "00.0.0"},
	{name: "strict semver has three numbers", a: semver, b: `^\d+\.\d+\.\d+`, proved: true},
	{name: "strict semver passes a loose check", a: semver, b: semverV, proved: true},
	{name: "strict semver may have a pre-release", a: semver, b: semverCore, witness: "0.0.0-a"},
	{name: "an https URL of one rune", a: httpsURL, b: httpURL, witness: "https://a"},
	{name: "an http URL need not be https", a: httpURL, b: httpsURL, witness: "http://aa"},
	{name: "the ARN of a role is an ARN", a: iamRole, b: arn, proved: true},
	{name: "an ARN need not be that of a role", a: arn, b: iamRole, witness: "arn:aws:a::000000000000:a"},
	{name: "an IPv4 address is four numbers", a: ipv4, b: ipv4Loose, proved: true},
	{name: "four numbers need not be an IPv4 address", a: ipv4Loose, b: ipv4, witness: "00.0.0.0"},
	{name: "a CIDR begins with an IPv4 address", a: cidr, b: `^([0-9]{1,3}\.){3}[0-9]{1,3}/[0-9]{1,2}$`, proved: true},
	{name: "a CIDR is no address", a: cidr, b: ipv4, witness: "0.0.0.0/0"},
	{name: "sha256 is a digest", a: sha256, b: anyDigest, proved: true},
	{name: "a digest need not be sha256", a: anyDigest, b: sha256, witness: "sha1:a"},
	{name: "a host name has no underscore", a: hostname, b: `^[^_]+$`, proved: true},
	{name: "a host name may be upper case", a: hostname, b: subdomain, witness: "a.aA"},
	{name: "a reason is a word", a: reasonWord, b: `^\w`, proved: true},
	{name: "a domain-prefixed path has a slash", a: domainPrefix, b: `/`, proved: true},
	{name: "a header name has no space", a: headerName, b: `^\S+$`, proved: true},
	{name: "cron entries have spaces", a: cron, b: `^\S+$`, witness: "0 0 0 0 0"},
	{name: "folding goes beyond ASCII", a: `^(?i)(insert|append|task)$`, b: `^[A-Za-z]+$`, witness: "tas\u212a"},
	{name: "log levels fold", a: `^(DEBUG|info|Warn)$`, b: logLevel, proved: true},
	{name: "a percentage may be a number", a: percent, b: `%$`, witness: "0"},
	{name: "an absolute path may be just a slash", a: absPath, b: `^/.`, witness: "/"},
	{name: "a dot takes no newline", a: absPath, b: `^/.*$`, witness: "/\n"},
	{name: "a newline allowed", a: absPath, b: `(?s)^/.*$`, proved: true},
	{name: "a dollar is not before a final newline", a: `^a\n?$`, b: `^a$`, witness: "a\n"},
	{name: "a multi-line dollar is", a: `^a\n?$`, b: `(?m)^a$`, proved: true},
	{name: "words are ASCII", a: `^é\b`, b: `^a`, witness: "éa"},
	{name: "an anchor within an alternative", a: `^a|b$`, b: `^(a|b)$`, witness: "aa"},
}

// trial is a question with the answer that regexp gives for one string.
type trial struct {
	match, avoid []string
	least, most  int64
	limit, spent int
	compiled     map[string]*regexp.Regexp
}

var compiledPatterns = map[string]*Pattern{}

func compileOnce(expr string) (p *Pattern, err error) {
	if p = compiledPatterns[expr]; p == nil {
		p, err = Compile(expr)
		compiledPatterns[expr] = p
	}
	return p, err
}

func (q *trial) strings(tb testing.TB, n int) (found []string, none bool) {
	tb.Helper()
	patterns := func(list []string) (out []*Pattern) {
		for _, expr := range list {
			p, err := compileOnce(expr)
			if err != nil {
				tb.Fatalf("%q: %v", expr, err)
			}
			out = append(out, p)
		}
		return out
	}
	charge := func(steps int) bool {
		q.spent += steps
		return q.spent <= q.limit
	}
	question := Question{Match: patterns(q.match), Avoid: patterns(q.avoid), Least: q.least, Most: q.most, Charge: charge}
	found, none = question.Strings(n)
	for i, s := range found {
		if !q.has(s) || !utf8.ValidString(s) || slices.Contains(found[:i], s) || len(found) > n {
			tb.Fatalf("%+v: %q of %q does not fit", q, s, found)
		}
		if i > 0 && utf8.RuneCountInString(found[i-1]) > utf8.RuneCountInString(s) {
			tb.Fatalf("%+v: %q is shorter than the one before it", q, s)
		}
	}
	if none && (len(found) > 0 || q.spent > q.limit) {
		tb.Fatalf("%+v: %q, %d steps of %d, and none is proven", q, found, q.spent, q.limit)
	}
	return found, none
}

func (q *trial) has(s string) bool {
	n := int64(utf8.RuneCountInString(s))
	if q.compiled == nil {
		q.compiled = map[string]*regexp.Regexp{}
		for _, expr := range slices.Concat(q.match, q.avoid) {
			q.compiled[expr] = regexp.MustCompile(expr)
		}
	}
	matches := func(expr string) bool { return q.compiled[expr].MatchString(s) }
	return q.least <= n && n <= q.most && !slices.ContainsFunc(q.avoid, matches) &&
		!slices.ContainsFunc(q.match, func(expr string) bool { return !matches(expr) })
}

const plenty = 4_000_000

func TestContainmentOfRealPatterns(t *testing.T) {
	for _, c := range realCases {
		t.Run(c.name, func(t *testing.T) {
			q := &trial{match: []string{c.a}, avoid: []string{c.b}, most: math.MaxInt64, limit: plenty}
			found, none := q.strings(t, 1)
			want := []string{c.witness}
			if c.proved {
				want = nil
			}
			if diff := cmp.Diff(want, found); diff != "" || none != c.proved {
				t.Errorf("%q in %q: proven: %v, (-want +got):\n%s", c.a, c.b, none, diff)
			}
		})
	}
}

// TestAgreesWithAllShortStrings: a proof holds for all short strings, and the first string is a shortest one.
func TestAgreesWithAllShortStrings(t *testing.T) {
	texts := allTexts("ab-\né", 4)
	proven := 0
	forSeeds(t, 2_000, func(t *testing.T, s source) {
		draw := func() string {
			switch s.IntN(3) {
			case 0:
				return s.simple(3)
			case 1:
				return s.assertive()
			}
			return s.pattern(2)
		}
		q := &trial{match: []string{draw()}, most: math.MaxInt64, limit: plenty}
		for s.IntN(3) == 0 {
			q.match = append(q.match, draw())
		}
		for s.IntN(2) == 0 {
			q.avoid = append(q.avoid, draw())
		}
		if s.IntN(3) == 0 {
			q.least = int64(s.IntN(4))
			q.most = q.least + int64(s.IntN(4))
		}
		found, none := q.strings(t, 6)
		if len(found) == 0 && !none {
			t.Errorf("%+v: not decided", q)
		}
		if none {
			proven++
		}
		first := slices.IndexFunc(texts, q.has)
		if first >= 0 && (none || utf8.RuneCountInString(found[0]) > utf8.RuneCountInString(texts[first])) {
			t.Errorf("%+v: %q fits, found: %q", q, texts[first], found)
		}
	})
	if proven == 0 {
		t.Error("no set was empty")
	}
}

// TestFindsAsManyAsThereAre: a finite set is found whole.
func TestFindsAsManyAsThereAre(t *testing.T) {
	q := &trial{match: []string{`^[ab]{1,3}$`, `[^a]`}, avoid: []string{`^b`}, most: 9, limit: plenty}
	want := []string{"ab", "aab", "aba", "abb"}
	if found, none := q.strings(t, 100); !slices.Equal(want, found) || none {
		t.Errorf("%q %v", found, none)
	}
}

func TestLengths(t *testing.T) {
	for _, c := range []struct {
		expr        string
		least, most int64
		want        string
		none        bool
	}{
		{"^a+$", 3, 3, "aaa", false},
		{"^a{3}$", 4, math.MaxInt64, "", true},
		{"^a{3}$", 0, 2, "", true},
		{"^[a-z]*$", 5000, math.MaxInt64, strings.Repeat("a", 5000), false},
		{"^(aa)*$", 31, 32, strings.Repeat("a", 32), false},
		{"^é$", 1, 1, "é", false},
	} {
		q := &trial{match: []string{c.expr}, least: c.least, most: c.most, limit: plenty}
		found, none := q.strings(t, 1)
		if none != c.none || strings.Join(found, " ") != c.want {
			t.Errorf("%+v: %q %v", c, found, none)
		}
	}
}

// TestManyClassesOfRunes: each range of runes of a pattern counts.
func TestManyClassesOfRunes(t *testing.T) {
	for _, n := range []int{3, 70, 400} {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `[\x{%x}\x{%x}]%c|`, 0x4000+3*i, 0x20000+3*i, 'a'+i%26)
		}
		whole := "^(?:" + b.String() + "end)$"
		last := fmt.Sprintf(`^\x{%x}%c$`, 0x20000+3*(n-1), 'a'+(n-1)%26)
		if _, none := (&trial{match: []string{last}, avoid: []string{whole}, most: 9, limit: plenty}).strings(t, 1); !none {
			t.Errorf("%d classes: the last string is not in the whole", n)
		}
		if found, _ := (&trial{match: []string{whole}, avoid: []string{last}, most: 9, limit: plenty}).strings(t, 1); len(found) == 0 {
			t.Errorf("%d classes: only the last string is in the whole", n)
		}
	}
}

// hostile are patterns that are made to explode in one way or another.
func hostile() map[string]string {
	var distinct strings.Builder
	for r := range rune(3000) {
		fmt.Fprintf(&distinct, `[^\x{%x}\x{%x}]`, 0x4000+2*r, 0x4001+2*r)
	}
	var words strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&words, "word%dx%d|", i*7919%4000, i)
	}
	return map[string]string{
		"sets that explode":             `(a|b)*a(a|b){30}`,
		"sets that explode, anchored":   `^(a|b)*a(a|b){300}$`,
		"sets of sets":                  `^((a|b)*a(a|b){20}c)*$`,
		"nested stars":                  `^(((((a*)*b)*c)*d)*e)*$`,
		"nested counts":                 `^(((a{1,10}){1,10}){1,10}b?){0,1}$`,
		"the largest count":             `^[ab]{1000}$`,
		"the largest count, unanchored": `[ab]{1000}c`,
		"many optional ones":            `^` + strings.Repeat("a?", 1000) + strings.Repeat("a", 1000) + `$`,
		"overlapping counts":            `^(a{3}|a{5}|a{7}|a{11}|a{13}|a{17}|a{19}|a{23})*$`,
		"a thousand runes":              `^` + strings.Repeat("ab?c*", 250) + `$`,
		"a hundred kilobytes":           strings.Repeat("abcdefghij", 10_000),
		"a hundred kilobytes of stars":  strings.Repeat("a*", 50_000),
		"alternatives":                  `^(` + words.String() + `end)*$`,
		"deep":                          strings.Repeat("(a|", 300) + "b" + strings.Repeat(")*", 300),
		"classes":                       strings.Repeat(`[\pL\d]\PL`, 100),
		"distinct classes":              distinct.String(),
		"boundaries":                    strings.Repeat(`(\b|a\B|$)*`, 200),
		"assertions in a loop":          `(((^|$|\b|\B|(?m:^|$))*)*a?)*$`,
		"a folded literal":              `(?i)` + strings.Repeat("Kelvin", 300),
		"words of ones and zeroes":      `^(.*1.{12})(.*0.{13})(.*1.{14})$`,
	}
}

// TestHostilePatternsKeepToTheBudget: a search ends at most one state after its budget, and what it finds until then fits.
func TestHostilePatternsKeepToTheBudget(t *testing.T) {
	patterns := hostile()
	patterns["everything"], patterns["a label"] = "", label
	maps.DeleteFunc(patterns, func(_, expr string) bool { _, err := compileOnce(expr); return errors.Is(err, ErrTooLarge) })
	for nameA, a := range patterns {
		for nameB, b := range patterns {
			q := &trial{match: []string{a}, avoid: []string{b}, most: math.MaxInt64, limit: 30_000}
			if q.strings(t, 3); q.spent > q.limit+8*maxInstructions { // three kinds of next rune, and the end, for each pattern
				t.Errorf("%s in %s: %d steps of %d", nameA, nameB, q.spent, q.limit)
			}
		}
	}
}

// TestLessBudgetIsNoOtherAnswer: with a smaller budget, a proof is a proof, or is missing.
func TestLessBudgetIsNoOtherAnswer(t *testing.T) {
	forSeeds(t, 200, func(t *testing.T, s source) {
		q := trial{match: []string{s.simple(4)}, avoid: []string{s.simple(4)}, most: math.MaxInt64, limit: plenty}
		full := q
		found, none := full.strings(t, 3)
		for q.limit = 1; q.limit < full.spent; q.limit = 3*q.limit + 1 {
			less := q
			if some, proven := less.strings(t, 3); proven && !none || len(some) > 0 && some[0] != found[0] {
				t.Errorf("%+v: %q %v, with %d steps %q %v", q, found, none, q.limit, some, proven)
			}
		}
	})
}

func TestPatternsBeyondTheLimits(t *testing.T) {
	if _, err := Compile(strings.Repeat("(?:ab){999}", 100)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
	if _, err := Compile("("); err == nil || errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
}

func FuzzStrings(f *testing.F) {
	for _, c := range realCases {
		f.Add(c.a, c.b, c.witness)
	}
	f.Fuzz(func(t *testing.T, a, b, text string) {
		if !utf8.ValidString(text) {
			return
		}
		for _, expr := range []string{a, b} {
			if _, err := Compile(expr); err != nil {
				return
			}
		}
		q := &trial{match: []string{a}, avoid: []string{b}, most: math.MaxInt64, limit: 100_000}
		found, none := q.strings(t, 4)
		switch {
		case !q.has(text) || len(found) == 0 && !none:
		case none:
			t.Errorf("%+v: proven, but %q fits", q, text)
		case utf8.RuneCountInString(text) < utf8.RuneCountInString(found[0]):
			t.Errorf("%+v: found %q, but %q fits", q, found, text)
		}
	})
}
