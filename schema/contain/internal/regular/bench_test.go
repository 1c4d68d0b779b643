package regular

import (
	"regexp"
	"strings"
	"testing"
)

// BenchmarkContained decides every case of the table of real patterns once per operation,
// compiled beforehand.
func BenchmarkContained(b *testing.B) {
	type pair struct{ a, b *Lang }
	var pairs []pair
	for _, c := range realCases {
		pairs = append(pairs, pair{mustCompile(b, c.a), mustCompile(b, c.b)})
	}
	var spent Spent
	b.ReportAllocs()
	for b.Loop() {
		spent = Spent{}
		for _, p := range pairs {
			got := Contained(p.a, p.b, Budget{})
			spent.States += got.Spent.States
			spent.Steps += got.Spent.Steps
		}
	}
	n := float64(len(pairs))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/pair")
	b.ReportMetric(float64(spent.States)/n, "states/pair")
	b.ReportMetric(float64(spent.Steps)/n, "steps/pair")
}

// BenchmarkContainedOne shows single questions, from the simplest to one that explodes.
func BenchmarkContainedOne(b *testing.B) {
	tests := []struct {
		name string
		a, b *Lang
	}{
		{"label-in-subdomain", mustCompile(b, label), mustCompile(b, subdomain)},
		{"subdomain-in-length-253", mustCompile(b, subdomain), LengthBetween(0, 253)},
		{"label-in-length-1000000", mustCompile(b, label), LengthBetween(0, 1_000_000)},
		{"quantity-in-number-or-suffixed", mustCompile(b, quantity), mustCompile(b, `^[-+]?[0-9.]+([A-Za-z]*|[eE][-+]?[0-9.]+)$`)},
		{"semver-in-loose-semver", mustCompile(b, semver), mustCompile(b, semverV)},
		{"hostname-in-length-100", mustCompile(b, hostname), mustCompile(b, `^[a-zA-Z0-9._-]{1,100}$`)},
		{"letters-in-ASCII", mustCompile(b, `^\pL+$`), mustCompile(b, `^[a-zA-Z]+$`)},
		{"enum-in-pattern", oneOf(strings.Fields("Always Never IfNotPresent OnFailure Retain Delete Recycle")), mustCompile(b, `^[A-Z][A-Za-z]*$`)},
		{"explosion-decided", mustCompile(b, `^(a|b)*a(a|b){30}$`), mustCompile(b, `^(a|b)*a(a|b){29}$`)},
		{"explosion-undecided", mustCompile(b, `^(a{3}|a{5}|a{7}|a{11}|a{13}|a{17}|a{19}|a{23})*$`), mustCompile(b, `^(((a{1,10}){1,10}){1,10}b?){0,1}$`)},
	}
	for _, c := range tests {
		b.Run(c.name, func(b *testing.B) {
			var got Answer
			b.ReportAllocs()
			for b.Loop() {
				got = Contained(c.a, c.b, Budget{})
			}
			b.ReportMetric(float64(got.Spent.States), "states")
			b.ReportMetric(float64(got.Spent.Steps), "steps")
		})
	}
}

// BenchmarkCompile compiles every pattern of the table once per operation, here and, to
// compare, with regexp.
func BenchmarkCompile(b *testing.B) {
	var patterns []string
	for _, c := range realCases {
		patterns = append(patterns, c.a, c.b)
	}
	perPattern := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(patterns)), "ns/pattern")
	}
	b.Run("regular", func(b *testing.B) {
		for b.Loop() {
			for _, p := range patterns {
				if _, err := Compile(p); err != nil {
					b.Fatal(err)
				}
			}
		}
		perPattern(b)
	})
	b.Run("regexp", func(b *testing.B) {
		for b.Loop() {
			for _, p := range patterns {
				if _, err := regexp.Compile(p); err != nil {
					b.Fatal(err)
				}
			}
		}
		perPattern(b)
	})
}

// BenchmarkMembers draws ten members of the first pattern of every case.
func BenchmarkMembers(b *testing.B) {
	var sets []*Lang
	for _, c := range realCases {
		sets = append(sets, mustCompile(b, c.a))
	}
	for b.Loop() {
		for _, l := range sets {
			Members(l, 10, Budget{})
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(sets)), "ns/pattern")
}
