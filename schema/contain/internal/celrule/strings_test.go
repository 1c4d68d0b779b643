package celrule

import (
	"math/rand/v2"
	"strings"
	"testing"

	"sluice.dev/schema/contain/internal/logic"
)

// stringRules are rules about one string that say what patterns and lengths can express, in whole or in part.
var stringRules = []string{
	`duration(self.s) >= duration('1ms')`, `duration(self.s) < duration('1s')`, `duration(self.s) == duration('0s')`,
	`duration(self.s) > duration('0')`, `duration(self.s) <= duration('1h')`, `duration(self.s) >= duration('-1s')`,
	`duration(self.s) > duration('1500us') && duration(self.s) != duration('90m')`,
	`duration(self.s) + duration('1s') > duration('2s')`,
	`url(self.s).getScheme() in ['http', 'https']`, `url(self.s).getScheme() == ''`, `url(self.s).getScheme() != 'FTP'`,
	`isURL(self.s)`, `!isURL(self.s)`, `isURL('http://' + self.s)`, `url(self.s).getHost() == 'a'`,
	`isIP(self.s)`, `ip(self.s).family() == 4`, `isIP(self.s) && ip(self.s).family() != 4`, `ip(self.s).isLoopback()`,
	`isCIDR(self.s)`, `!isCIDR(self.s)`, `cidr(self.s).prefixLength() <= 24`,
	`isQuantity(self.s)`, `!isQuantity(self.s)`, `quantity(self.s).isLessThan(quantity('5'))`,
	`int(self.s) <= 65535 && int(self.s) > 0`, `int(self.s) == 7`, `int(self.s) < -5`, `int(self.s) >= -120`, `int(self.s) != 0`,
	`int(self.s) + 1 > 0`, `int(self.s) * 2 == 10`, `int(self.s) >= 9223372036854775807`, `int(self.s) <= -9223372036854775807`,
	`bool(self.s)`, `!bool(self.s)`,
	`self.s.substring(1, 3) == 'ab'`, `self.s.substring(2) == 'b'`, `self.s.substring(1).startsWith('a')`,
	`self.s.substring(1).endsWith('a')`, `self.s.substring(1, 4).endsWith('a')`, `self.s.substring(0, 3).contains('a')`,
	`self.s.substring(1).contains('b/')`, `self.s.substring(1, 2) in ['/', '@']`, `size(self.s.substring(2)) == 1`,
	`self.s.charAt(0) == 'a'`, `self.s.charAt(2) == ''`, `self.s.charAt(1) in ['b', '']`, `self.s.substring(3, 1) == ''`,
	`self.s.lowerAscii() == self.s`, `self.s != self.s.upperAscii()`,
	`self.s.lowerAscii() == 'ab'`, `self.s.upperAscii() == 'AB'`, `self.s.lowerAscii().startsWith('http')`,
	`self.s.lowerAscii() == 'AB'`, `self.s.lowerAscii().contains('a-')`, `self.s.substring(1, 3).upperAscii() == 'B/'`,
	`self.s.upperAscii().endsWith('É')`,
	`('x' + self.s).startsWith('xa')`, `('x' + self.s) == 'xab'`, `(self.s + 'x').endsWith('bx')`, `(self.s + 'x').endsWith('x')`,
	`('x' + self.s + 'y') in ['xy', 'xaby', 'ab']`, `('ab' + self.s).startsWith('ac')`, `size('x' + self.s) > 2`,
	`self.s.contains('a.b')`, `self.s.startsWith('.')`, `self.s.endsWith('$')`, `self.s.endsWith('b')`, `self.s.startsWith('b')`, `self.s.matches('a.b')`, `self.s.matches('(?i)^AB$')`,
	`self.s in ['', 'ab', '5']`, `!(self.s in ['', 'ab', '5'])`, `self.s > 'a'`, `self.s <= 'ab'`,
	`!format.dns1123Label().validate(self.s).hasValue()`, `format.dns1123Subdomain().validate(self.s).hasValue()`,
	`!format.dns1035Label().validate(self.s).hasValue()`, `!format.labelValue().validate(self.s).hasValue()`,
	`!format.qualifiedName().validate(self.s).hasValue()`, `!format.named('dns1123Label').value().validate(self.s).hasValue()`,
	`format.named('nothing').hasValue()`,
	`self.s.split('/').size() == 2`, `self.s.indexOf('a') == -1`, `self.s.indexOf('a') == 0`, `self.s.trim() == 'ab'`,
	`self.s.trim() != ''`, `self.s.trim() in ['ab', '', ' a']`, `self.s.trim() == self.s`, `self.s.trim().startsWith('a')`, `self.s.trim().size() > 2`, `'x' + self.s.trim() == 'x'`,
	`self.s.replace('a', 'b') == 'bb'`, `self.s.replace('a', 'b') == 'a'`, `self.s.replace('/', '.').startsWith('a.')`, `self.s.replace('b', 'é').contains('é/')`,
	`self.s.replace('a', 'b') == self.s`, `self.s.replace('a', '') == self.s`, `self.s.replace('a', 'b').endsWith('b')`, `self.s.replace('a', 'a') == 'a'`, `self.s.replace('A', 'b').size() > 3`,
	`self.s.charAt(0) != '/'`, `self.s.charAt(1).lowerAscii() == 'a'`, `self.s.charAt(-1) == ''`, `self.s.charAt(0).matches('[a-c]')`,
	`self.s.find('^[a-z]+') != ''`, `self.s.replace('a', '') == 'b'`, `timestamp(self.s) > timestamp('2020-01-01T00:00:00Z')`,
	`double(self.s) > 1.5`, `self.s.find('^([^/]+)').endsWith('b')`, `self.s.find('^[a-z]*') in ['', 'ab']`, `self.s.find('^([^@]+)') == 'ab'`,
	`self.s.find('^[^/]+').startsWith('a')`, `self.s.find('^[^-]+').contains('/')`, `self.s.split('/')[0] == 'ab'`, `self.s.split('.')[0] in ['', 'a']`,
	`int(self.s.split('/')[0]) <= 120`, `int(self.s.find('^[-+0-9]+')) > 3`, `self.s.split('a')[0].endsWith('/')`, `self.s.split('/')[1] == 'a'`,
	`self.s.split('/').size() > 2`, `self.s.split(':').size() in [1, 3]`, `self.s.indexOf('b') > 1`, `self.s.indexOf('ab') <= 0`, `self.s.indexOf('//') >= 3`,
	`self.s.indexOf('a') < self.s.indexOf('b')`, `self.s.find('b$') == ''`, `self.s > 'ab'`, `self.s < 'é'`, `'a' >= self.s`, `self.s == self.s`, `string(self.s) == 'ab'`, `type(self.s) == string`,
}

var stringPieces = []string{
	"a", "b", "ab", "A", "B", "Ab", "é", "É", "/", "-", ".", "_", "@", "$", " ", "\n", "x", "xab", "+", ":", "::", "0", "1", "5", "7",
	"00", "007", "12", "120", "65535", "65536", "99999", "9223372036854775807", "9223372036854775808", "http", "https", "HTTP", "ftp",
	"://", "//", "ns", "us", "µs", "ms", "s", "m", "h", "1ms", "999us", "1000us", "1s", "0s", "0.5s", "1h", "2562048h", "10.0.0.1",
	"256", "10.0.0.0/8", "fe80::1", "/64", "/33", "%eth0", "Ki", "M", "e3", "E", "1Gi", "k", "true", "false", "T", "f",
	"2020-06-01T00:00:00Z", "1.5", "#", "?", "*", "%zz", "[", "\\", "\t", "\u00a0a", "\u2003", "\u0085", "\u200b", "\v",
}

func randomString(r *rand.Rand) string {
	if r.IntN(12) == 0 {
		return strings.Repeat(stringPieces[r.IntN(12)], r.IntN(70))
	}
	var b strings.Builder
	for range r.IntN(5) {
		b.WriteString(stringPieces[r.IntN(len(stringPieces))])
	}
	return b.String()
}

func TestStringRulesAgreeWithUpstream(t *testing.T) {
	p := props{Type: "object", Properties: map[string]props{"s": {Type: "string"}}}
	n := toNode(t, p)
	r := rand.New(rand.NewPCG(7, 7))
	var values []any
	for _, s := range stringPieces {
		values = append(values, map[string]any{"s": s})
	}
	for _, s := range []string{"b\n", "\nb", "b\na", "a\nb"} { // a line's ends are not the string's
		values = append(values, map[string]any{"s": s})
	}
	for range 500 {
		values = append(values, map[string]any{"s": randomString(r)})
	}
	for _, rule := range stringRules {
		j := newJudge(t, p, rule, false)
		if j == nil {
			t.Errorf("%s: upstream does not compile it", rule)
			continue
		}
		f := Translate(parse(t, rule), Scope{Spine: n, Checker: reChecker{}})
		unsure := 0
		for _, v := range values {
			want := j.refuses(v)
			switch got := logic.Eval(f, v, reChecker{}); {
			case got == logic.Unsure:
				unsure++
			case (got == logic.Yes) != (want == ""):
				t.Errorf("%s on %q: formula says %v, upstream %q", rule, v, got, want)
			}
		}
		if unsure > 0 {
			t.Logf("%s: %d of %d unsure", rule, unsure, len(values))
		}
	}
}
