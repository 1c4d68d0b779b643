package contain

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"sluice.dev/tools/draws"
)

// TestShapesHoldAllStringsOfTheirFormats draws strings near the samples of all formats: what the API server's code accepts, the shape does.
func TestShapesHoldAllStringsOfTheirFormats(t *testing.T) {
	const letters = "0123456789abcdefABCDEFtTzZ:./-+= %$é\n"
	compiled := map[string]*regexp.Regexp{}
	var samples []string
	for name, f := range formats {
		samples = append(samples, f.samples...)
		if shapes[name] != "" {
			compiled[name] = regexp.MustCompile(shapes[name])
		}
	}
	samples = append(samples, "1:2:3:4:5:6:1.2.3.4", "1::/0", "1.2.3.4/00024", "0000.5e00.5301", "2024-02-29T23:59:60Z", "2024-02-29t00:00:00.5+01:00")
	slices.Sort(samples)
	accepted := 0
	for seed := range draws.Seeds(40_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := []rune(samples[r.IntN(len(samples))])
		for range r.IntN(4) {
			i, c := r.IntN(len(s)+1), []rune(letters)[r.IntN(len([]rune(letters)))]
			switch {
			case i == len(s) || r.IntN(3) == 0:
				s = slices.Insert(s, i, c)
			case r.IntN(2) == 0:
				s = slices.Delete(s, i, i+1)
			default:
				s[i] = c
			}
		}
		for name, shape := range compiled {
			if !matchFormat(name, string(s)) {
				continue
			}
			accepted++
			if !shape.MatchString(string(s)) {
				t.Errorf("%q has the format %s and not its shape", string(s), name)
			}
		}
	}
	if accepted < 300 {
		t.Errorf("%d strings have a format: the test says little", accepted)
	}
}

// TestFormatsAreCompared: shapes prove that two formats have no string in common, or that a pattern or a length is implied.
func TestFormatsAreCompared(t *testing.T) {
	for _, tt := range []struct {
		old, new string
		want     Verdict
	}{
		{"format: date-time", "oneOf: [{format: date-time}, {format: date}]", Contained},
		{"format: uuid", "oneOf: [{format: date}, {format: uuid}]", Contained},
		{"format: cidr", "oneOf: [{format: cidr}, {format: ipv6}]", Contained},
		{"format: ipv4", "oneOf: [{format: ipv4}, {format: ipv6}]", NotContained}, // ::ffff:10.0.0.1 is both
		{"format: date-time", "format: date-time, not: {format: cidr}", Contained},
		{"format: ipv4", `format: ipv4, pattern: "[.]"`, Contained},
		{"format: date", "format: date, maxLength: 10", Contained},
		{"format: date", "format: date, maxLength: 9", NotContained},
		{"minLength: 0", "format: password", Contained}, // every string is one
	} {
		parse := func(s string) Side {
			return side(t, parseSchema(t, "{type: object, properties: {spec: {type: object, properties: {s: {type: string, "+s+"}}}}}"))
		}
		r := Decide(t.Context(), parse(tt.old), parse(tt.new), Options{Namespaced: true})
		got := r.Verdict
		for _, g := range r.Gaps { // lists in place of strings are another matter
			if len(r.Gaps) == 1 && g.Detail == ListsLetThrough {
				got = Contained
			}
		}
		if got != tt.want {
			t.Errorf("%s to %s: %s %v", tt.old, tt.new, got, r.Gaps)
		}
	}
}

// TestAnOddWitnessIsAString where a list in place of the string is refused as well.
func TestAnOddWitnessIsAString(t *testing.T) {
	parse := func(s string) Side {
		return side(t, parseSchema(t, "{type: object, properties: {spec: {type: object, properties: {s: {type: string, format: date-time"+s+"}}}}}"))
	}
	r := Decide(t.Context(), parse(""), parse(", x-kubernetes-validations: [{rule: self == self}]"), Options{Namespaced: true})
	if len(r.Gaps) != 1 || !r.Gaps[0].OddAlone || r.Gaps[0].Witness == nil {
		t.Fatalf("gaps %v", r.Gaps)
	}
	if v, _ := ValueAt(r.Gaps[0].Witness.Object, r.Gaps[0].Path); v != "2006-01-02t15:04:05z" {
		t.Errorf("witness %v", v)
	}
}
