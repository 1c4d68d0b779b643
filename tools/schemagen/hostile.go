package schemagen

import (
	"fmt"
	"strings"
)

// HostilePair is a change of a large CRD: the properties of an object before and after it, as YAML in flow style.
type HostilePair struct{ Name, Old, New string }

// Hostile returns changes of CRDs of about size bytes, each made to cost a lot in one way: many values, patterns, rules, fields,
// unions, or levels.
func Hostile(size int) []HostilePair {
	many := func(each int, f func(i int) string) string {
		var b strings.Builder
		for i := range max(1, size/each) {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(f(i))
		}
		return b.String()
	}
	fields := func(each int, schema func(i int) string) string {
		return many(each, func(i int) string { return fmt.Sprintf("f%06d: {%s}", i, schema(i)) })
	}
	rules := func(each int, rule func(i int) string) string {
		return "s: {type: object, properties: {l: {type: array, maxItems: 5, items: {type: string, maxLength: 9}}, n: {type: integer}}, x-kubernetes-validations: [" +
			many(each, func(i int) string { return `{rule: "` + rule(i) + `"}` }) + "]}"
	}
	depth := min(size/40, 900)
	nested := func(leaf string) string {
		return strings.Repeat("o: {type: object, properties: {", depth) + "x: {" + leaf + "}" + strings.Repeat("}}", depth)
	}
	union := func(member string) string {
		return fields(200, func(int) string {
			return "type: object, properties: {type: {type: string, enum: [A, B, C]}, a: {type: string}, b: {type: string}, c: {type: string}}, " + member
		})
	}
	return []HostilePair{
		{
			"values of an enum", "e: {type: string, enum: [" + many(16, func(i int) string { return fmt.Sprintf("value-%06d", i) }) + "]}",
			"e: {type: string, enum: [" + many(16, func(i int) string { return fmt.Sprintf("value-%06d", i+1) }) + "]}",
		},
		{
			"patterns", fields(60, func(i int) string { return fmt.Sprintf("type: string, pattern: '^[a-z]{1,%d}$'", i%50+9) }),
			fields(60, func(i int) string { return fmt.Sprintf("type: string, pattern: '^([a-y]|z[a-c]*){1,%d}$'", i%50+8) }),
		},
		{
			"long patterns", fields(4000, func(int) string { return "type: string, pattern: '^(" + strings.Repeat("a|bc|", 780) + "d)*$'" }),
			fields(4000, func(int) string { return "type: string, pattern: '^(" + strings.Repeat("a|bc|", 780) + "e)*$'" }),
		},
		{
			"rules", rules(40, func(i int) string { return fmt.Sprintf("self.n != %d || size(self.l) > 1", i) }),
			rules(40, func(i int) string { return fmt.Sprintf("self.n != %d || size(self.l) > 2", i) }),
		},
		{
			"rules over lists", "a: {type: string}", "a: {type: string}, " + rules(70, func(i int) string {
				return fmt.Sprintf("self.l.all(x, self.l.exists(y, y.contains(x) || x == 'v%d'))", i)
			}),
		},
		{
			"narrowed fields", fields(40, func(int) string { return "type: string, maxLength: 20" }), fields(40, func(int) string { return "type: string, maxLength: 10" }),
		},
		{"levels", nested("type: string"), nested("type: string, maxLength: 5")},
		{
			"unions", union("x-kubernetes-validations: [{rule: \"(self.type == 'A') == has(self.a)\"}]"),
			union("x-kubernetes-validations: [{rule: \"(self.type == 'B') == has(self.b)\"}]"),
		},
	}
}
