package rules_test

import (
	"strings"
	"testing"

	"sluice.dev/feature"
	"sluice.dev/feature/rules"
)

func TestRuleWithout(t *testing.T) {
	for _, tt := range []struct {
		path, rule string
		want       feature.Fate
	}{
		{"f", "self.a > 1", feature.Apart},
		{"f", "has(self.a)", feature.Apart},
		{"f", "has(self.f)", feature.Violated},
		{"f", "!has(self.f)", feature.Holds},
		{"f", "self.f > 1", feature.Violated},
		{"f", "self.f > 1 || self.a > 1", feature.Open},
		{"f", "!has(self.f) || self.f > 1", feature.Holds},
		{"f", "self.a > 1 && (!has(self.f) || self.f > self.a)", feature.Holds},
		{"f", "!(has(self.f) && self.f > 1)", feature.Holds},
		{"f", "!(has(self.a) || has(self.f))", feature.Open},
		{"f", "has(self.f) || has(self.g)", feature.Open},
		{"f", "has(self.f) == has(self.g)", feature.Open},
		{"f", "has(self.f) ? self.f > 1 : true", feature.Holds},
		{"f", "has(self.f) ? self.f > 1 : self.g > 1", feature.Open},
		{"f", "!has(self.f) ? has(self.f) : self.g > 1", feature.Violated},
		{"f", "self.f.g == 1", feature.Violated},
		{"f", "self['f'] == 1", feature.Violated},
		{"f.g", "has(self.f) && has(self.f.g)", feature.Violated},
		{"f.g", "has(self.f)", feature.Apart},
		{"f.g", "!has(self.f) || !has(self.f.g) || self.f.g == 1", feature.Holds},
		{"f", "size(self.f) > 1", feature.Violated},
		{"f", "self.f.startsWith('a')", feature.Violated},
		{"f", "self.?f.orValue(1) == 1", feature.Open},
		{"f", "!self.?f.hasValue() || self.f > 1", feature.Holds},
		{"f", "(has(self.f) && self.a > 1) == false", feature.Open},
		{"in", "self.__in__ > 1", feature.Violated},
		{"a.f", "self.a != {}", feature.Open},
		{"a.f", "!has(self.a)", feature.Apart},
		{"list[*].f", "self.list.all(x, has(x.f))", feature.Violated},
		{"list[*].f", "self.list.all(x, !has(x.f) || x.f > 1)", feature.Holds},
		{"list[*].f", "self.list.exists(x, has(x.f))", feature.Open},
		{"list[*].f", "self.list.all(x, x.g > 1)", feature.Apart},
		{"list[*].f", "self.list.all(x, x.g > 1 && (!has(x.f) || x.f > 1))", feature.Holds},
		{"list[*].f", "self.a > 1 || self.list.all(x, x.g > 1 && (!has(x.f) || x.f > 1))", feature.Holds},
		{"list[*].f", "!has(self.list) || self.list.all(x, has(x.f))", feature.Open},
		{"list[*].a[*].f", "self.list.all(x, x.a.all(y, y.f > 1))", feature.Violated},
		{"list[*].f", "self.list.size() > 1", feature.Apart},
		{"f", "(has(self.a) ? 1 : 0)" + strings.Repeat(" + (has(self.a) ? 1 : 0)", 40) + " == 1", feature.Apart},
		{"f", "self.f ==", feature.Apart},
	} {
		path, err := feature.ParsePath(tt.path)
		if err != nil {
			t.Fatal(err)
		}
		if got := rules.Without(tt.rule, path); got != tt.want {
			t.Errorf("%s without %s: %d, want %d", tt.rule, tt.path, got, tt.want)
		}
	}
}
