package regular

import (
	"fmt"
	"regexp"
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

// realCase is a question about real patterns, with its answer.
type realCase struct {
	name    string
	a, b    string
	witness string // of a refutation
	proved  bool
}

var realCases = []realCase{
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

func TestContainedOnRealPatterns(t *testing.T) {
	for _, c := range realCases {
		t.Run(c.name, func(t *testing.T) {
			got := Contained(mustCompile(t, c.a), mustCompile(t, c.b), Budget{})
			got.Spent = Spent{}
			want := Answer{Verdict: Refuted, Witness: c.witness, Shortest: true}
			if c.proved {
				want = Answer{Verdict: Proved}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q in %q (-want +got):\n%s", c.a, c.b, diff)
			}
			if got.Verdict == Refuted && (!regexp.MustCompile(c.a).MatchString(got.Witness) || regexp.MustCompile(c.b).MatchString(got.Witness)) {
				t.Errorf("regexp does not confirm the witness %q", got.Witness)
			}
		})
	}
}

func TestContainedOnSets(t *testing.T) {
	re := func(p string) *Lang { return mustCompile(t, p) }
	must := func(l *Lang, err error) *Lang {
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	tests := []struct {
		name    string
		a, b    *Lang
		witness string
		proved  bool
	}{
		{name: "nothing in nothing", a: None(), b: None(), proved: true},
		{name: "nil is empty", a: nil, b: nil, proved: true},
		{name: "the empty string first", a: All(), b: None(), witness: ""},
		{name: "all in all", a: All(), b: All(), proved: true},
		{name: "a pattern for everything", a: All(), b: re(`(?s)^.*$`), proved: true},
		{name: "the empty pattern", a: All(), b: re(``), proved: true},
		{name: "a newline where dots do not reach", a: All(), b: re(`^.*$`), witness: "\n"},
		{name: "enum grown", a: oneOf([]string{"b", "a"}), b: oneOf([]string{"a", "b", "c"}), proved: true},
		{name: "enum shrunk", a: oneOf([]string{"yes", "no", "maybe"}), b: oneOf([]string{"maybe", "yes"}), witness: "no"},
		{name: "enum to pattern", a: oneOf([]string{"Always", "Never", "IfNotPresent"}), b: re(`^[A-Z][A-Za-z]+$`), proved: true},
		{name: "enum with a value that the pattern refuses", a: oneOf([]string{"Always", "", "x-y"}), b: re(`^[A-Za-z]*$`), witness: "x-y"},
		{name: "pattern to enum", a: re(`^(a|b)$`), b: oneOf([]string{"b", "a", "ab"}), proved: true},
		{name: "pattern to a smaller enum", a: re(`^(Allow|Deny|)$`), b: oneOf([]string{"Allow", "Deny"}), witness: ""},
		{name: "enum with a common prefix", a: re(`^a{0,3}$`), b: oneOf([]string{"", "a", "aa"}), witness: "aaa"},
		{name: "a maximum length added", a: re(label), b: LengthBetween(0, 63), witness: strings.Repeat("a", 64)},
		{name: "a maximum length that the pattern implies", a: re(label63), b: LengthBetween(1, 63), proved: true},
		{name: "a maximum length one too small", a: re(label63), b: LengthBetween(1, 62), witness: strings.Repeat("a", 63)},
		{name: "a maximum length lowered", a: LengthBetween(0, 253), b: LengthBetween(0, 63), witness: strings.Repeat("a", 64)},
		{name: "a minimum length added", a: All(), b: LengthBetween(1, -1), witness: ""},
		{name: "a minimum length that the pattern implies", a: re(`^[0-9a-f]{7,40}$`), b: LengthBetween(7, 40), proved: true},
		{name: "lengths are runes", a: oneOf([]string{"äöü中\U0001f600"}), b: LengthBetween(5, 5), proved: true},
		{name: "a length makes a pattern hold", a: Intersect(re(`^[a-z]*$`), LengthBetween(1, 5)), b: re(`^[a-z]{1,5}$`), proved: true},
		{name: "a pattern replaced by length and pattern", a: re(`^[a-z]{1,5}$`), b: Intersect(re(`^[a-z]*$`), LengthBetween(1, 5)), proved: true},
		{name: "an upper bound within the gap", a: Intersect(re(subdomain), LengthBetween(2, 253)), b: Intersect(re(label), LengthBetween(0, 253)), witness: "a.a"},
		{name: "any of several lengths", a: re(`^(a{3}|a{7})$`), b: Union(LengthBetween(3, 4), LengthBetween(7, 7)), proved: true},
		{name: "between two lengths", a: All(), b: Union(LengthBetween(0, 4), LengthBetween(6, -1)), witness: "aaaaa"},
		{name: "a length beyond all reach", a: re(`^a{0,5}$`), b: LengthBetween(0, 1<<62), proved: true},
		{name: "an odd length", a: Intersect(re(`^(aa)*$`), LengthBetween(1_000_001, 1_000_001)), b: None(), proved: true},
		{name: "a prefix", a: must(Prefix("a.b")), b: re(`^a\.`), proved: true},
		{name: "a prefix is read literally", a: must(Prefix("a.b")), b: re(`^a[^.]`), witness: "a.b"},
		{name: "a suffix", a: must(Suffix("-x")), b: re(`x$`), proved: true},
		{name: "a prefix and a suffix may overlap", a: Intersect(must(Prefix("aba")), must(Suffix("aba"))), b: LengthBetween(4, -1), witness: "aba"},
		{name: "a part", a: must(Containing("ell")), b: Complement(oneOf([]string{"well"})), witness: "well"},
		{name: "both of two", a: re(label), b: Intersect(re(subdomain), LengthBetween(0, 63), re(`^[^A-Z]*$`)), witness: strings.Repeat("a", 64)},
		{name: "one of two", a: re(`^[a-z0-9]+$`), b: Union(re(`[a-z]`), re(`^\d`)), proved: true},
		{name: "neither of two", a: re(`^[a-z0-9.]+$`), b: Union(re(`[a-z]`), re(`^\d`)), witness: "."},
		{name: "complements turn round", a: Complement(re(subdomain)), b: Complement(re(label)), proved: true},
		{name: "double complement", a: Complement(Complement(re(label))), b: re(subdomain), proved: true},
		{name: "a contradiction", a: Intersect(re(`^a`), re(`^b`)), b: None(), proved: true},
		{name: "an excluded middle", a: All(), b: Union(re(label), Complement(mustCompile(t, label))), proved: true},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			got := Contained(c.a, c.b, Budget{})
			got.Spent = Spent{}
			want := Answer{Verdict: Refuted, Witness: c.witness, Shortest: true}
			if c.proved {
				want = Answer{Verdict: Proved}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%v in %v (-want +got):\n%s", c.a, c.b, diff)
			}
			if got.Verdict == Refuted && (!c.a.Match(got.Witness) || c.b.Match(got.Witness)) {
				t.Errorf("Match does not confirm the witness %q", got.Witness)
			}
		})
	}
}

func TestWitnessIsReadable(t *testing.T) {
	tests := []struct{ pattern, want string }{
		{`^[\x00-\x{10FFFF}]$`, "a"},
		{`^[A-Z0-9]$`, "0"},
		{`^[^a-z]$`, "0"},
		{`^[^a-z0-9]$`, "A"},
		{`^\W$`, "-"},
		{`^[\x00-\x20]$`, " "},
		{`^[\x00-\x1f]$`, "\x00"},
		{`^[^\x00-\x7f]$`, "é"},
		{`^[\p{Han}]$`, "中"},
		{`^[\x{80}-\x{a1}]$`, "¡"},
		{`^[\x{d700}-\x{e000}]$`, "휀"},
		{`^(\x00|b|0)$`, "b"},
		{`^(\x00\x00|00|-a|a-)$`, "00"},
		{`^(-0|0b|b0)$`, "b0"},
		{`^(m|c)$`, "c"},
	}
	for _, c := range tests {
		if got := Empty(mustCompile(t, c.pattern), Budget{}); got.Verdict != Refuted || got.Witness != c.want {
			t.Errorf("%q: got %v %q, want %q", c.pattern, got.Verdict, got.Witness, c.want)
		}
	}
}

func TestEmptyAndEqual(t *testing.T) {
	re := func(p string) *Lang { return mustCompile(t, p) }
	tests := []struct {
		name    string
		got     Answer
		want    Verdict
		witness string
	}{
		{"a rune after the end", Empty(re(`a$b`), Budget{}), Proved, ""},
		{"a rune before the beginning", Empty(re(`a^b`), Budget{}), Proved, ""},
		{"a line break may come before ^ in multi-line mode", Empty(re(`(?m)a\n^b`), Budget{}), Refuted, "a\nb"},
		{"no rune at all", Empty(re(`[^\x00-\x{10FFFF}]`), Budget{}), Proved, ""},
		{"surrogates only", Empty(re(`[\x{d800}-\x{dfff}]`), Budget{}), Proved, ""},
		{"a boundary on both sides of nothing", Empty(re(`^\b$`), Budget{}), Proved, ""},
		{"a boundary that is none", Empty(re(`a\b\w`), Budget{}), Proved, ""},
		{"the same set written twice", Equal(re(`^(a|b)*$`), re(`^(a*b*)*$`), Budget{}), Proved, ""},
		{"the first is larger", Equal(re(`^(a|b)*$`), re(`^a*b*$`), Budget{}), Refuted, "ba"},
		{"the second is larger", Equal(re(`^a*b*$`), re(`^(a|b)*$`), Budget{}), Refuted, "ba"},
		{"anchors and their multi-line forms", Equal(re(`\Aa\z`), re(`^a$`), Budget{}), Proved, ""},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			if c.got.Verdict != c.want || c.got.Witness != c.witness {
				t.Errorf("got %v %q, want %v %q", c.got.Verdict, c.got.Witness, c.want, c.witness)
			}
		})
	}
}

// Lengths are 2x+3y in one pattern, and multiples of 5 or 7 in another, so that the exact
// lengths that exist are known without any automaton.
func TestLengthsAgreeWithArithmetic(t *testing.T) {
	lengths := []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 34, 35, 36, 69, 70, 71, 100, 253, 254, 1000, 1001, 99_999, 100_000, 100_002}
	tests := []struct {
		pattern string
		has     func(n int64) bool
	}{
		{`^(ab|cde)*$`, func(n int64) bool { return n != 1 }},
		{`^((.{5})*|(.{7})*)$`, func(n int64) bool { return n%5 == 0 || n%7 == 0 }},
		{`^x{3}(ab|cdefg)*$`, func(n int64) bool {
			n -= 3
			return n == 0 || n == 2 || n >= 4
		}},
		{`^[a-z]{1,63}$`, func(n int64) bool { return 1 <= n && n <= 63 }},
	}
	for _, c := range tests {
		l := mustCompile(t, c.pattern)
		for _, n := range lengths {
			got := Empty(Intersect(l, LengthBetween(n, n)), Budget{})
			want := Proved
			if c.has(n) {
				want = Refuted
			}
			if got.Verdict != want {
				t.Errorf("%q at length %d: got %v (%s), want %v", c.pattern, n, got.Verdict, got.Reason, want)
			} else if want == Refuted && (int64(utf8.RuneCountInString(got.Witness)) != n || n < 1001 && !l.Match(got.Witness)) {
				t.Errorf("%q at length %d: wrong witness of length %d", c.pattern, n, utf8.RuneCountInString(got.Witness))
			}
			// The next length that exists.
			next := n
			for !c.has(next) && next < n+100 {
				next++
			}
			got = Empty(Intersect(l, LengthBetween(n, -1)), Budget{})
			switch {
			case !c.has(next):
				if got.Verdict != Proved {
					t.Errorf("%q from length %d: got %v", c.pattern, n, got.Verdict)
				}
			case got.Verdict != Refuted || int64(utf8.RuneCountInString(got.Witness)) != next:
				t.Errorf("%q from length %d: got %v with %d runes, want %d", c.pattern, n, got.Verdict, utf8.RuneCountInString(got.Witness), next)
			}
		}
	}
}

func TestCompileErrors(t *testing.T) {
	for _, p := range []string{`(`, `[`, `a**`, `\8`, `(?=a)`, `a{1001}`, `(a{1000}){1000}`, "\xff", strings.Repeat("(", 2000) + strings.Repeat(")", 2000)} {
		if l, err := Compile(p); err == nil || l != nil {
			t.Errorf("Compile(%q) = %v, %v", fmt.Sprintf("%.20s", p), l, err)
		} else if len(err.Error()) > 300 && !strings.Contains(err.Error(), "nests") && !strings.Contains(err.Error(), "missing") {
			t.Errorf("Compile(%.20q): an error of %d bytes", p, len(err.Error()))
		}
	}
}

// A counted class is decided by its length, however large the count.
func TestCountedClassesAreLengths(t *testing.T) {
	re := func(p string) *Lang { return mustCompile(t, p) }
	tests := []struct {
		name    string
		a, b    *Lang
		want    Verdict
		witness string
	}{
		{"in a length", re(`^[a-z0-9-]{1,1000}$`), LengthBetween(1, 1000), Proved, ""},
		{"in a smaller length", re(`^[a-z0-9-]{1,1000}$`), LengthBetween(1, 999), Refuted, strings.Repeat("a", 1000)},
		{"in a larger count", re(`^[a-z]{1,63}$`), re(`^[a-z0-9]{0,253}$`), Proved, ""},
		{"in a smaller count", re(`^[a-z]{1,63}$`), re(`^[a-z0-9]{0,62}$`), Refuted, strings.Repeat("a", 63)},
		{"in a smaller class", re(`^[a-z]{5,63}$`), re(`^[a-y]{1,63}$`), Refuted, "aaaaz"},
		{"the same, written differently", re(`^([a-z]){0,63}$`), Intersect(re(`^[a-z]*$`), LengthBetween(0, 63)), Proved, ""},
		{"without an upper bound", re(`^.{20,}$`), LengthBetween(20, -1), Proved, ""},
		{"a newline", LengthBetween(20, 20), re(`^.{20}$`), Refuted, strings.Repeat("a", 19) + "\n"},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			got := Contained(c.a, c.b, Budget{})
			if got.Verdict != c.want || len(got.Witness) != len(c.witness) || got.Verdict == Refuted && (!c.a.Match(got.Witness) || c.b.Match(got.Witness)) {
				t.Errorf("got %v %q, want %v %q", got.Verdict, got.Witness, c.want, c.witness)
			}
			if got.Spent.States > 200 {
				t.Errorf("%d states for a question of lengths", got.Spent.States)
			}
		})
	}
}

func TestStringIsShort(t *testing.T) {
	many := make([]*Lang, 50)
	for i := range many {
		many[i] = Union(Intersect(mustCompile(t, strings.Repeat("é", 100+i)), LengthBetween(int64(i+1), 99)), Complement(oneOf([]string{"a", "b", "c", "d", "e"})))
	}
	tests := []struct {
		l    *Lang
		want string
	}{
		{nil, "none"},
		{All(), "all"},
		{mustCompile(t, `^a$`), `"^a$"`},
		{LengthBetween(1, -1), "length 1.."},
		{LengthBetween(-5, 5), "length 0..5"},
		{Complement(oneOf([]string{"b", "a"})), `not "^(?:b|a)$"`},
		{Intersect(oneOf([]string{"a"}), LengthBetween(1, 2)), `("^(?:a)$" and length 1..2)`},
	}
	for _, c := range tests {
		if got := c.l.String(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	if got := Intersect(many...).String(); len(got) > 4000 || !utf8.ValidString(got) {
		t.Errorf("a description of %d bytes: %s", len(got), got)
	}
}
