package schemagen

// Which changes of a CRD cost most to compare? Each pair here makes one thing large: the number of fields, the
// length of a pattern, the depth of rules. Tests hold the budget against them.

import (
	"fmt"
	"strings"
)

// HostilePair is a change of a large CRD of Widgets, as YAML in flow style.
// Each is about as large as the size that was asked for, so that the cost of one byte can be compared
// between kinds.
type HostilePair struct{ Name, Old, New string }

// hostile makes the pairs of one size.
type hostile struct{ size int }

// joinMany joins as many parts as the size has room for, where each takes about so many bytes.
func (h hostile) joinMany(each int, part func(i int) string) string {
	return joinParts(max(1, h.size/each), part)
}

// joinParts joins n parts.
// The separator is that of flow style, which is the shortest YAML.
func joinParts(n int, part func(i int) string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(part(i))
	}
	return b.String()
}

// manyFields are many properties of one object.
// The names have a fixed length, so that the number of fields follows from the size.
func (h hostile) manyFields(each int, schema func(i int) string) string {
	return h.joinMany(each, func(i int) string { return fmt.Sprintf("f%06d: {%s}", i, schema(i)) })
}

// objectWithRules is a property s with a list, a number and many optional fields, under rules.
// The bounds on the list and the map keep the estimated cost of most rules below the API server's limit,
// so that they are evaluated.
func objectWithRules(rules string) string {
	return "s: {type: object, properties: {number: {type: integer}, l: {type: array, maxItems: 5, items: {type: string, maxLength: 9}}, " +
		"m: {type: object, maxProperties: 5, additionalProperties: {type: string, maxLength: 9}}}, x-kubernetes-validations: [" + rules + "]}"
}

// manyRules are many rules on one object.
// All of them are read, and compiled, for one object.
func (h hostile) manyRules(each int, rule func(i int) string) string {
	return objectWithRules(h.joinMany(each, func(i int) string { return `{rule: "` + rule(i) + `"}` }))
}

// nestedChains nest objects, one in the other, each with more, and the leaf in the innermost one.
// A chain costs depth times each bytes. There are as many chains as fit, at least one.
func (h hostile) nestedChains(depth, each int, more, leaf string) string {
	return h.joinMany(depth*each, func(i int) string {
		return fmt.Sprintf("c%d: {type: object, %sproperties: {", i, more) + strings.Repeat("o: {type: object, "+more+"properties: {", depth) + "x: {" + leaf + "}" + strings.Repeat("}}", depth+1)
	})
}

// versionWith is one version with the given properties in its spec.
// The text is in flow style and has no line break.
func versionWith(name string, storage bool, properties string) string {
	return fmt.Sprintf("{name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {%s}}}}}}", name, storage, properties)
}

// widgetsCRD is a CRD with the given versions.
// It is all of a CRD but its schemas, in two lines.
func widgetsCRD(versions string) string {
	return `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.example.com}, spec: {group: example.com,
names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}, scope: Namespaced, versions: [` + versions + "]}}\n"
}

// manyVersions are many versions, of which the last is stored.
// All versions are served, so that each may read what each other has written.
func (h hostile) manyVersions(each int, properties func(i int) string) string {
	n := max(2, h.size/each)
	return widgetsCRD(joinParts(n, func(i int) string { return versionWith(fmt.Sprintf("v%d", i+1), i == n-1, properties(i)) }))
}

// Hostile returns changes of CRDs of about size bytes. Each is made to cost a lot in one way: many values, patterns, rules, fields,
// unions, levels, versions, or defaults, or one huge one.
// Both sides of a pair differ as little as they can: the comparison cannot stop early, neither because
// both are equal nor because a witness is found at once. turn is 0 for the old side and 1 for the new
// one.
func Hostile(size int) []HostilePair {
	h := hostile{size}
	both := func(name string, change func(turn int) string) HostilePair {
		return HostilePair{name, widgetsCRD(versionWith("v1", true, change(0))), widgetsCRD(versionWith("v1", true, change(1)))}
	}
	letter := func(turn int) string { return string(rune('a' + turn)) }
	union := func(n int, rule string) string {
		return "u: {type: object, required: [type], properties: {type: {type: string}, " + joinParts(n, func(i int) string { return fmt.Sprintf("t%d: {type: string}", i) }) +
			"}, x-kubernetes-validations: [" + joinParts(n, func(i int) string { return `{rule: "` + strings.ReplaceAll(rule, "X", fmt.Sprint(i)) + `"}` }) + "]}"
	}
	return []HostilePair{
		both("values of an enum", func(turn int) string {
			return "e: {type: string, enum: [" + h.joinMany(16, func(i int) string { return fmt.Sprintf("value-%06d", i+turn) }) + "]}"
		}),
		both("enums", func(turn int) string {
			return h.manyFields(60, func(i int) string { return fmt.Sprintf("type: string, enum: [a, b, v%d]", i+turn) })
		}),
		both("patterns", func(turn int) string {
			return h.manyFields(60, func(i int) string {
				return fmt.Sprintf("type: string, pattern: '%s'", [...]string{fmt.Sprintf("^[a-z]{1,%d}$", i%50+9), fmt.Sprintf("^([a-y]|z[a-c]*){1,%d}$", i%50+8)}[turn])
			})
		}),
		both("long patterns", func(turn int) string {
			return h.manyFields(4000, func(int) string {
				return "type: string, pattern: '^(" + strings.Repeat("a|bc|", 780) + letter(turn) + ")*$'"
			})
		}),
		both("one pattern", func(turn int) string {
			return "p: {type: string, pattern: '^(" + h.joinMany(9, func(i int) string { return fmt.Sprintf("%d|", i) }) + letter(turn) + ")*$'}"
		}),
		both("patterns of one field", func(turn int) string {
			return "p: {type: string, allOf: [" + h.joinMany(30, func(i int) string { return fmt.Sprintf("{pattern: '.*%s.{%d}$'}", letter(turn), i%90) }) + "]}"
		}),
		both("rules", func(turn int) string {
			return h.manyRules(40, func(i int) string { return fmt.Sprintf("self.number != %d || size(self.l) > %d", i, turn+1) })
		}),
		both("rules over lists", func(turn int) string {
			return "a: {type: string}" + strings.Repeat(", "+h.manyRules(70, func(i int) string {
				return fmt.Sprintf("self.l.all(x, self.l.exists(y, y.contains(x) || x == 'v%d'))", i)
			}), turn)
		}),
		both("long rules", func(turn int) string {
			return h.manyRules(9000, func(i int) string {
				return joinParts(220, func(j int) string { return fmt.Sprintf("has(self.number) && self.number != %d || ", i*220+j) }) + fmt.Sprintf("size(self.l) > %d", turn)
			})
		}),
		both("long sums in rules", func(turn int) string {
			return h.manyRules(9000, func(i int) string { return strings.Repeat("self.number+", 700) + fmt.Sprintf("%d != %d", i, turn) })
		}),
		both("nested macros", func(turn int) string {
			return h.manyRules(400, func(i int) string {
				var b strings.Builder
				for v := range 8 {
					fmt.Fprintf(&b, "self.l.all(x%d, ", v)
				}
				return b.String() + fmt.Sprintf("x0 != x7 || x1.contains('v%d') || x2 == '%d'", i, turn) + strings.Repeat(")", 8)
			})
		}),
		both("maps and lists in rules", func(turn int) string {
			return h.manyRules(200, func(i int) string {
				return fmt.Sprintf("self.m.all(k, self.l.exists_one(x, x == self.m[k] + '%d')) ? self.l.filter(x, x in ['a', 'b%d']).map(x, x + 'c').size() > %d : true", i, i, turn)
			})
		}),
		both("messages of rules", func(turn int) string {
			return objectWithRules(h.joinMany(100, func(i int) string {
				return fmt.Sprintf(`{rule: "self.number != %d", messageExpression: "'not ' + string(self.number) + '%d' + self.l.join(',')"}`, 2*i+turn, i)
			}))
		}),
		both("rules at many places", func(turn int) string {
			return h.manyFields(100, func(i int) string {
				return fmt.Sprintf("type: string, maxLength: 9, x-kubernetes-validations: [{rule: \"self != 'v%d'\"}]", i+turn)
			})
		}),
		both("rules above many fields", func(turn int) string {
			rule := `x-kubernetes-validations: [{rule: "self != oldSelf || true"}], `
			return "c: {type: object, properties: {" + strings.Repeat("o: {type: object, "+rule+"properties: {", 100) +
				h.manyFields(40, func(int) string { return fmt.Sprintf("type: string, maxLength: %d", 20-turn) }) + strings.Repeat("}}", 101)
		}),
		both("rules about updates", func(turn int) string {
			return h.manyFields(100, func(i int) string {
				return fmt.Sprintf(`type: integer, default: %d, x-kubernetes-validations: [{rule: "self %s oldSelf"}]`, i, [...]string{">=", "=="}[turn])
			})
		}),
		both("narrowed fields", func(turn int) string {
			return h.manyFields(40, func(int) string { return fmt.Sprintf("type: string, maxLength: %d", 20-10*turn) })
		}),
		{
			"removed fields", widgetsCRD(versionWith("v1", true, h.manyFields(24, func(int) string { return "type: string" }))),
			widgetsCRD(versionWith("v1", true, "a: {type: string}")),
		},
		both("types", func(turn int) string {
			return h.manyFields(24, func(int) string { return "type: " + [...]string{"string", "integer"}[turn] })
		}),
		both("required fields", func(turn int) string {
			list := h.joinMany(40, func(i int) string { return fmt.Sprintf("f%06d", i) })
			return "s: {type: object, " + strings.Repeat("required: ["+list+"], ", turn) + "properties: {" + h.manyFields(40, func(int) string { return "type: string" }) + "}}"
		}),
		both("names of unknown fields that are required", func(turn int) string {
			return "s: {type: object, x-kubernetes-preserve-unknown-fields: true, required: [" + h.joinMany(9, func(i int) string { return fmt.Sprintf("f%06d", i+turn) }) + "]}"
		}),
		both("names of dropped fields that are required", func(turn int) string {
			return "s: {type: object, required: [" + h.joinMany(9, func(i int) string { return fmt.Sprintf("f%06d", i+turn) }) + "]}"
		}),
		both("long strings that are required", func(turn int) string {
			list := h.joinMany(60, func(i int) string { return fmt.Sprintf("f%06d", i) })
			return "s: {type: object, required: [" + list + "], properties: {" + h.manyFields(60, func(i int) string { return fmt.Sprintf("type: string, minLength: %d", 2_900_000-i+turn) }) + "}}"
		}),
		both("long strings in a list", func(turn int) string {
			return fmt.Sprintf("l: {type: array, minItems: 1000, items: {type: string, minLength: %d}}", 2_900_000+turn)
		}),
		both("levels", func(turn int) string {
			return h.nestedChains(300, 34, "", "type: string"+strings.Repeat(", maxLength: 5", turn))
		}),
		both("rules on all levels", func(turn int) string {
			return h.nestedChains(100, 90, `x-kubernetes-validations: [{rule: "has(self.o)`+strings.Repeat(" || true", turn)+`"}], `, "type: string")
		}),
		both("unions", func(turn int) string {
			return h.manyFields(200, func(int) string {
				return "type: object, properties: {type: {type: string, enum: [A, B, C]}, a: {type: string}, b: {type: string}, c: {type: string}}, x-kubernetes-validations: [{rule: \"(self.type == '" +
					strings.ToUpper(letter(turn)) + "') == has(self." + letter(turn) + ")\"}]"
			})
		}),
		both("members of a union", func(turn int) string {
			return union(max(2, size/90), [...]string{"!(has(self.tX) && self.type != 'TX')", "has(self.tX) == (self.type == 'TX')"}[turn])
		}),
		both("branches", func(turn int) string {
			return "s: {type: object, properties: {" + joinParts(9, func(i int) string { return fmt.Sprintf("a%d: {type: string}", i) }) + "}, oneOf: [" +
				h.joinMany(60, func(i int) string {
					return fmt.Sprintf("{required: [a%d, a%d], not: {required: [a%d]}}", i%9, i/9%9, (i/81+turn)%9)
				}) + "]}"
		}),
		both("branches in branches", func(turn int) string {
			branch := func(i int) string {
				return fmt.Sprintf("anyOf: [{minLength: %d}, {allOf: [{pattern: '^a%d'}, {anyOf: [{maxLength: %d}, {not: {enum: [x%d]}}]}]}]", i%7+turn, i, i%9, i)
			}
			return "p: {type: string, allOf: [" + h.joinMany(110, func(i int) string { return "{" + branch(i) + "}" }) + "]}"
		}),
		both("an enum under a pattern", func(turn int) string {
			return "e: {type: string, pattern: '^(v[a-z]*" + strings.Repeat("x", turn) + "-?[0-9]+)+$', enum: [" +
				h.joinMany(14, func(i int) string { return fmt.Sprintf("value-%06d", i) }) + "]}"
		}),
		both("all junctors in each other", func(turn int) string {
			const depth = 40
			return h.joinMany(2500, func(i int) string {
				return fmt.Sprintf("f%d: {type: string, allOf: [", i) + strings.Repeat("{allOf: [{anyOf: [{minLength: 3}, {not: ", depth) +
					fmt.Sprintf("{maxLength: %d}", i%9+turn) + strings.Repeat("}]}, {pattern: 'a'}]}", depth) + "]}"
			})
		}),
		{
			"versions", h.manyVersions(300, func(int) string { return "a: {type: string, maxLength: 20}" }),
			h.manyVersions(300, func(i int) string { return fmt.Sprintf("a: {type: string, maxLength: 10}, b%d: {type: string}", i) }),
		},
		{
			"large versions", h.manyVersions(size/8, func(int) string {
				return hostile{size / 8}.manyFields(40, func(int) string { return "type: string, maxLength: 20" })
			}),
			h.manyVersions(size/8, func(i int) string {
				return hostile{size / 8}.manyFields(40, func(int) string { return fmt.Sprintf("type: string, maxLength: %d", 19-i) })
			}),
		},
		both("defaults", func(turn int) string {
			return h.manyFields(50, func(i int) string { return fmt.Sprintf("type: string, maxLength: 9, default: v%d", i+turn) })
		}),
		both("one default", func(turn int) string {
			return "d: {type: array, items: {type: object, properties: {a: {type: string, maxLength: 9}, b: {type: integer, default: 1}}}, default: [" +
				h.joinMany(14, func(i int) string { return fmt.Sprintf("{a: v%d}", i+turn) }) + "]}"
		}),
		both("defaults over defaults", func(turn int) string {
			return h.nestedChains(100, 50, "default: {}, ", fmt.Sprintf("type: integer, default: %d", turn))
		}),
		both("one text", func(turn int) string {
			return "s: {type: string, description: '" + h.joinMany(9, func(i int) string { return fmt.Sprint(i) }) + "', maxLength: " + fmt.Sprint(9-turn) + "}"
		}),
		both("one value", func(turn int) string {
			return "s: {type: string, enum: [a, '" + strings.Repeat("v", size) + letter(turn) + "']}"
		}),
	}
}
