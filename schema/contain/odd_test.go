package contain

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"sluice.dev/tools/draws"
)

// usual are values of formats as clients write them, and the API server keeps them.
var usual = map[string][]any{
	"ipv4":      {"10.0.0.1", "127.0.0.1", "255.255.255.255"},
	"ipv6":      {"::1", "fe80::1", "2001:db8::8a2e:370:7334"},
	"cidr":      {"10.0.0.0/8", "2001:db8::/32"},
	"uri":       {"https://example.com/a?b=c", "urn:a:b"},
	"uuid":      {"123e4567-e89b-12d3-a456-426614174000"},
	"date":      {"2024-02-29", "1999-12-31"},
	"date-time": {"2024-02-29T12:00:00Z", "1999-12-31T23:59:59.5Z", "2024-02-29T12:00:00+01:00"},
	"duration":  {"1h30m", "0s", "15ms"},
	"byte":      {"", "YWJj", "AAAA"},
}

// oddRule draws a rule about a value, often one that all values of its type satisfy.
func oddRule(r *rand.Rand, format string) string {
	of := func(rules ...string) string {
		return strings.NewReplacer("N", strconv.Itoa(r.IntN(20)-10), "M", strconv.Itoa(r.IntN(20)-10)).Replace(rules[r.IntN(len(rules))])
	}
	switch format {
	case "integer":
		return of("self <= N", "self < N || self >= N", "self >= N", "self != N", "self % 2 == 0 || self % 2 != 0", "self in [N, M]",
			"!(self in [N, M])", "self * 1 == self", "self < N || self > M", "self == self", "self + 1 > self || self > 9223372036854775806")
	case "int-or-string":
		return of("type(self) == int || type(self) == string", "type(self) == string || self <= N", "type(self) == string || self < N || self >= N",
			"type(self) == int || self.size() < 5", "string(self) != 'N'", "type(self) == int ? self == self : true")
	case "date", "date-time":
		return of("self.getFullYear() >= 1", "self.getFullYear() < 2020", "self == self", "self > timestamp('2000-01-01T00:00:00Z')")
	case "duration":
		return of("self >= duration('0s') || self < duration('0s')", "self > duration('1s')", "self == self")
	case "byte":
		return of("size(self) >= 0", "size(self) < 2", "self == self")
	case "ipv4", "ipv6":
		return of("isIP(self)", "size(self) >= 0", "!ip(self).isLoopback()", "self.contains('.')", "self != ''")
	}
	return of("size(self) >= 0", "self != ''", "self.contains('a')", "self.size() < 12", "self == self")
}

// Where it is said that odd values alone are in trouble, the API server refuses nothing that clients usually write.
func TestOddAloneIsTrueOfUsualValues(t *testing.T) {
	formats := []string{"integer", "integer", "int-or-string", "ipv4", "ipv6", "cidr", "uri", "uuid", "date", "date-time", "duration", "byte"}
	told, tried := map[string]int{}, 0
	for seed := range draws.Seeds(4000) {
		r := rand.New(rand.NewPCG(seed, 7))
		format := formats[r.IntN(len(formats))]
		n := r.IntN(20) - 10
		var values []any
		base := fmt.Sprintf("type: string, format: %s", format)
		switch format {
		case "integer":
			base = "type: integer" + []string{"", fmt.Sprintf(", minimum: %d", n), fmt.Sprintf(", maximum: %d", n), fmt.Sprintf(", multipleOf: %d", 1+r.IntN(3))}[r.IntN(4)]
		case "int-or-string":
			base = "x-kubernetes-int-or-string: true"
			values = []any{"", "a", "80%", "12345", "-1"}
		default:
			values = usual[format]
		}
		if format == "integer" || format == "int-or-string" {
			for i := int64(-25); i <= 25; i++ {
				values = append(values, i)
			}
			values = append(values, int64(math.MaxInt64), int64(math.MinInt64), int64(1)<<53, int64(1)<<53+1)
		}
		rule := oddRule(r, format)
		old := parseSchema(t, "{type: object, properties: {spec: {"+base+"}}}")
		new := parseSchema(t, "{type: object, properties: {spec: {"+base+", x-kubernetes-validations: [{rule: \""+rule+"\"}]}}}")
		verdict := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true})
		if verdict.Verdict == Contained || verdict.Verdict == Unknown || !verdict.Gaps[0].OddAlone {
			continue
		}
		told[format]++
		before, after := validator(t, old), validator(t, new)
		for _, v := range values {
			object := map[string]any{"apiVersion": "example.com/v1", "kind": "Example", "metadata": map[string]any{"name": "a", "namespace": "b"}, "spec": v}
			if got, err := before.Create(t.Context(), object); err != nil || got.Refused() {
				continue
			}
			tried++
			if got, err := after.Create(t.Context(), object); err != nil || got.Refused() {
				t.Errorf("seed %d: %s with rule %s: odd values alone are in trouble, it says, but %v is refused: %v %v", seed, base, rule, v, got.Errors, err)
			}
		}
	}
	if len(told) < 4 || tried < 1000 {
		t.Errorf("the test says little: %v, %d values", told, tried)
	}
	t.Logf("said of %v, %d values tried", told, tried)
}
