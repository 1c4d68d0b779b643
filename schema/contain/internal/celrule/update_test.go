package celrule

import (
	"testing"

	"sluice.dev/schema"
)

func TestRuleOfAnUpdate(t *testing.T) {
	for _, c := range []struct {
		rule     string
		optional bool
		path     []string
		want     string // the same, written by hand; empty where it cannot be
	}{
		{rule: "self == oldSelf", want: "self.after == self.before"},
		{rule: "self.a > oldSelf.b", path: []string{"x"}, want: "!has(self.after.x) || !has(self.before.x) || self.after.x.a > self.before.x.b"},
		{
			rule: "self == oldSelf", path: []string{"x", "y-z"},
			want: "!has(self.after.x) || !has(self.after.x.y__dash__z) || !has(self.before.x) || !has(self.before.x.y__dash__z) || self.after.x.y__dash__z == self.before.x.y__dash__z",
		},
		{rule: "self == oldSelf", path: []string{"no name"}},
		{rule: "oldSelf.orValue(1) == self", optional: true, want: "optional.of(self.before).orValue(1) == self.after"},
		{rule: "self.all(x, x in oldSelf)", want: "self.after.all(x, x in self.before)"},
		{rule: "[1].all(self, self in oldSelf)"},
		{rule: "[1].all(optional, optional in oldSelf)", optional: true},
		{rule: ".self == oldSelf"},
	} {
		r, err := Parse(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := r.OfPair(c.optional, c.path...)
		if ok != (c.want != "") {
			t.Errorf("%s: %v", c.rule, ok)
		}
		if !ok || c.want == "" {
			continue
		}
		want, err := Parse(c.want)
		if err != nil {
			t.Fatal(err)
		}
		if got.Canonical() != want.Canonical() || got.UsesOldSelf() {
			t.Errorf("%s is\n%s, want\n%s", c.rule, got.Canonical(), want.Canonical())
		}
	}
}

func TestFreezes(t *testing.T) {
	for rule, want := range map[string]bool{
		"self == oldSelf": true, "oldSelf == self && self.a == 1": true, "!(self.b || !(self == oldSelf))": true,
		"self == oldSelf || self.a == 1": false, "self != oldSelf": false, "self.a == oldSelf.a": false, "!(self == oldSelf)": false,
	} {
		r, err := Parse(rule)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Freezes(); got != want {
			t.Errorf("%s: %v", rule, got)
		}
	}
}

// What is equal in CEL need not be the same: {"a": "x", "z": null} and {"a": "x", "b": "y"} of a nullable z are.
func TestSameWhereEqual(t *testing.T) {
	str := &schema.Node{Type: "string"}
	object := func(ps ...schema.Property) *schema.Node { return &schema.Node{Type: "object", Properties: ps} }
	a := schema.Property{Name: "a", Node: str}
	for _, c := range []struct {
		name, rule string
		node       *schema.Node
		want       bool
	}{
		{"a string", "self == oldSelf", str, true},
		{"a number", "self == oldSelf", &schema.Node{Type: "number"}, false},
		{"a time", "self == oldSelf", &schema.Node{Type: "string", Format: "date-time"}, false},
		{"a string with a default", "self == oldSelf", &schema.Node{Type: "string", HasDefault: true, Default: "x"}, false},
		{"an object", "self == oldSelf", object(a), true},
		{"a list", "self == oldSelf", &schema.Node{Type: "array", Items: str}, true},
		{"a set", "self == oldSelf", &schema.Node{Type: "array", ListType: "set", Items: str}, false},
		{"a map", "self == oldSelf", &schema.Node{Type: "object", Additional: str}, true},
		{"with a field that may be null", "self.a == oldSelf.a", object(a, schema.Property{Name: "z", Node: &schema.Node{Type: "string", Nullable: true}}), false},
		{"with a name that CEL does not find", "self.a == oldSelf.a", object(a, schema.Property{Name: "__z__", Node: str}), false},
		{"with a field that is not looked at", "self.a == oldSelf.a", object(a, schema.Property{Name: "n", Node: &schema.Node{Type: "number"}}), true},
		{"with a field that is looked at", "self.n > oldSelf.n", object(a, schema.Property{Name: "n", Node: &schema.Node{Type: "number"}}), false},
		{"with a field that is looked at as a part", "self == oldSelf", object(a, schema.Property{Name: "n", Node: &schema.Node{Type: "number"}}), false},
		{"with fields that are not declared", "self.a == oldSelf.a", &schema.Node{Type: "object", PreserveUnknown: true, Properties: []schema.Property{a}}, false},
	} {
		r, err := Parse(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.SameWhereEqual(c.node); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
