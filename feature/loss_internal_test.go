package feature

import "testing"

func TestRuleWithout(t *testing.T) {
	for _, tt := range []struct {
		path, rule string
		want       fate
	}{
		{"f", "self.a > 1", apart},
		{"f", "has(self.a)", apart},
		{"f", "has(self.f)", violated},
		{"f", "!has(self.f)", holds},
		{"f", "self.f > 1", violated},
		{"f", "self.f > 1 || self.a > 1", open},
		{"f", "!has(self.f) || self.f > 1", holds},
		{"f", "self.a > 1 && (!has(self.f) || self.f > self.a)", holds},
		{"f", "!(has(self.f) && self.f > 1)", holds},
		{"f", "!(has(self.a) || has(self.f))", open},
		{"f", "has(self.f) || has(self.g)", open},
		{"f", "has(self.f) == has(self.g)", open},
		{"f", "has(self.f) ? self.f > 1 : true", apart},
		{"f", "has(self.f) ? self.f > 1 : self.g > 1", apart},
		{"f", "!has(self.f) ? has(self.f) : self.g > 1", violated},
		{"f", "self.f.g == 1", violated},
		{"f", "self['f'] == 1", violated},
		{"f.g", "has(self.f) && has(self.f.g)", violated},
		{"f.g", "has(self.f)", apart},
		{"f.g", "!has(self.f) || !has(self.f.g) || self.f.g == 1", holds},
		{"f", "size(self.f) > 1", violated},
		{"f", "self.f.startsWith('a')", violated},
		{"f", "self.?f.orValue(1) == 1", apart},
		{"list[*].f", "self.list.all(x, has(x.f))", violated},
		{"list[*].f", "self.list.all(x, !has(x.f) || x.f > 1)", holds},
		{"list[*].f", "self.list.exists(x, has(x.f))", open},
		{"list[*].f", "self.list.all(x, x.g > 1)", apart},
		{"list[*].f", "self.list.all(x, x.g > 1 && (!has(x.f) || x.f > 1))", holds},
		{"list[*].f", "self.a > 1 || self.list.all(x, x.g > 1 && (!has(x.f) || x.f > 1))", open},
		{"list[*].f", "!has(self.list) || self.list.all(x, has(x.f))", open},
		{"list[*].a[*].f", "self.list.all(x, x.a.all(y, y.f > 1))", violated},
		{"list[*].f", "self.list.size() > 1", apart},
		{"f", "self.f ==", apart},
	} {
		path, err := ParsePath(tt.path)
		if err != nil {
			t.Fatal(err)
		}
		if got := ruleWithout(tt.rule, path); got != tt.want {
			t.Errorf("%s without %s: %d, want %d", tt.rule, tt.path, got, tt.want)
		}
	}
}
