package contain

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// ruled returns a schema whose spec has the fields that the rules below speak of. Each rule is written as a path, a colon
// and the rule; a question mark behind the path says optionalOldSelf.
func ruled(t *testing.T, rules ...string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	p := parseSchema(t, `{type: object, properties: {spec: {type: object, properties: {
  a: {type: string, maxLength: 9}, b: {type: string, maxLength: 9}, n: {type: integer}, d: {type: string, default: x, maxLength: 9},
  z: {type: string, nullable: true, maxLength: 9}, o: {type: object, properties: {x: {type: string, maxLength: 9}, y: {type: integer}}},
  l: {type: array, maxItems: 3, items: {type: string, maxLength: 9}}}}}}`)
	for _, r := range rules {
		path, text, _ := strings.Cut(r, ": ")
		path, optional := strings.CutSuffix(path, "?")
		rule := apiextensionsv1.ValidationRule{Rule: text}
		if optional {
			rule.OptionalOldSelf = &optional
		}
		below(p, strings.Split(path, "."), func(x *apiextensionsv1.JSONSchemaProps) {
			x.XValidations = append(x.XValidations, rule)
		})
	}
	return p
}

// below changes the schema at a path of properties.
func below(p *apiextensionsv1.JSONSchemaProps, path []string, f func(*apiextensionsv1.JSONSchemaProps)) {
	if len(path) == 0 {
		f(p)
		return
	}
	sub := p.Properties[path[0]]
	below(&sub, path[1:], f)
	p.Properties[path[0]] = sub
}

// Rules about updates that say the same as others, or less, in another way or at another place.
func TestRulesAboutUpdatesThatFollow(t *testing.T) {
	for _, c := range []struct {
		name     string
		old, new []string
	}{
		{"from the field to the object around it", []string{"spec.a: self == oldSelf"}, []string{"spec: !has(self.a) || !has(oldSelf.a) || oldSelf.a == self.a"}},
		{"from the object to its field", []string{"spec: !has(self.a) || !has(oldSelf.a) || self.a == oldSelf.a"}, []string{"spec.a: self == oldSelf"}},
		{"two objects up", []string{"spec.o.x: self == oldSelf"}, []string{"spec: !has(self.o) || !has(oldSelf.o) || !has(self.o.x) || !has(oldSelf.o.x) || self.o.x == oldSelf.o.x"}},
		{"from what never changes to a part", []string{"spec.o: self == oldSelf"}, []string{"spec.o.x: self == oldSelf"}},
		{"from what never changes to its parts", []string{"spec.o: self == oldSelf"}, []string{"spec.o: !has(oldSelf.x) || has(self.x) && self.x == oldSelf.x"}},
		{"what is there stays", []string{"spec: has(self.a) == has(oldSelf.a)"}, []string{"spec: !has(oldSelf.a) || has(self.a)"}},
		{"an exception", []string{"spec.a: self == oldSelf"}, []string{"spec.a: self == 'x' ? true : self == oldSelf"}},
		{"a negation", []string{"spec.a: self == oldSelf"}, []string{"spec.a: !(self != oldSelf)"}},
		{"an optional old value", []string{"spec.a: self == oldSelf"}, []string{"spec.a?: oldSelf.orValue(self) == self"}},
		{"an old value that was optional", []string{"spec.a?: !oldSelf.hasValue() || oldSelf.value() == self"}, []string{"spec.a: self == oldSelf"}},
		{"what is stored is tolerated", []string{"spec.a: self != 'x'"}, []string{"spec.a?: oldSelf.hasValue() && oldSelf.value() == self || self != 'x'"}},
		{"from what the schema says", nil, []string{"spec.a: self.size() < 20 && oldSelf.size() < 10"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Decide(t.Context(), side(t, ruled(t, c.old...)), side(t, ruled(t, c.new...)), Options{Namespaced: true})
			if r.Verdict != Contained {
				t.Errorf("not proven:\n%s", strings.Join(told(r.Gaps), "\n"))
			}
		})
	}
}

// updateRules are held against each other, each alone and some in pairs.
var updateRules = [][]string{
	{"spec: self == oldSelf"},
	{"spec: self.d == oldSelf.d"},
	{"spec: !has(self.a) || !has(oldSelf.a) || self.a == oldSelf.a"},
	{"spec: !has(oldSelf.a) || has(self.a)"},
	{"spec: has(self.a) == has(oldSelf.a)"},
	{"spec: !has(oldSelf.a) || has(self.a) && self.a == oldSelf.a"},
	{"spec: has(self.a) ? has(oldSelf.a) && self.a == oldSelf.a : true"},
	{"spec: !has(self.n) || !has(oldSelf.n) || self.n >= oldSelf.n"},
	{"spec: !has(self.n) || !has(oldSelf.n) || self.n > oldSelf.n"},
	{"spec: !has(self.z) || !has(oldSelf.z) || self.z == oldSelf.z"},
	{"spec: !has(self.o) || !has(oldSelf.o) || self.o == oldSelf.o"},
	{"spec: !has(self.o) || !has(oldSelf.o) || !has(self.o.x) || !has(oldSelf.o.x) || self.o.x == oldSelf.o.x"},
	{"spec: !has(self.l) || !has(oldSelf.l) || oldSelf.l.all(x, x in self.l)"},
	{"spec: !has(self.l) || !has(oldSelf.l) || self.l == oldSelf.l"},
	{"spec?: oldSelf.hasValue() || !has(self.a)"},
	{"spec?: !oldSelf.hasValue() || oldSelf.value() == self"},
	{"spec?: oldSelf.optMap(o, !has(o.a) || has(self.a)).orValue(true)"},
	{"spec?: oldSelf.?a.orValue('x') == self.?a.orValue('x')"},
	{"spec.a: self == oldSelf"},
	{"spec.a: oldSelf == '' || self == oldSelf"},
	{"spec.a: self.startsWith(oldSelf)"},
	{"spec.a: self.size() >= oldSelf.size()"},
	{"spec.a?: oldSelf.orValue(self) == self"},
	{"spec.a?: oldSelf.hasValue() || self != 'x'"},
	{"spec.a?: oldSelf.orValue('x') == self || self == 'xy'"},
	{"spec.n: self == oldSelf"},
	{"spec.n: self >= oldSelf"},
	{"spec.n: self > oldSelf || self == 0"},
	{"spec.d: self == oldSelf"},
	{"spec.z: self == oldSelf"},
	{"spec.o: self == oldSelf"},
	{"spec.o: has(self.x) == has(oldSelf.x)"},
	{"spec.o.x: self == oldSelf"},
	{"spec.o.x: self != oldSelf || self == 'x'"},
	{"spec.l: self == oldSelf"},
	{"spec.l: self.all(x, oldSelf.exists(y, x == y))"},
	{"spec.l: [1, 2].exists(oldSelf, oldSelf == 1) || self == oldSelf"},
	{"spec: self.?a == oldSelf.?a"},
	{"spec: self.d == 'x' || self.d == oldSelf.d"},
	{},
}

// No update that the old rules allow, between states that both sides accept, is refused by new rules that are said to follow.
func TestRulesAboutUpdatesThatFollowHaveNoEscape(t *testing.T) {
	var states []map[string]any
	for _, s := range []string{
		`{}`, `{"a": "x"}`, `{"a": ""}`, `{"a": "xy"}`, `{"a": "x", "b": "x"}`, `{"d": "x"}`, `{"d": "y"}`, `{"n": 0}`, `{"n": 1}`, `{"n": 1, "a": "x"}`,
		`{"z": null}`, `{"z": "x"}`, `{"z": "y"}`, `{"o": {}}`, `{"o": {"x": "x"}}`, `{"o": {"x": "y"}}`, `{"o": {"x": "x", "y": 1}}`, `{"l": []}`, `{"l": ["x"]}`,
		`{"l": ["y", "x"]}`, `{"l": ["x", "y"]}`, `{"l": ["x", "x"]}`,
	} {
		states = append(states, resource(t, `{"spec": `+s+`}`))
	}
	sets := slices.Clone(updateRules)
	for i := 0; i+7 < len(updateRules); i += 3 {
		sets = append(sets, slices.Concat(updateRules[i], updateRules[i+7]))
	}
	type judged struct {
		side    Side
		created []bool
		updated [][]bool
	}
	var all []judged
	for _, rules := range sets {
		p := ruled(t, rules...)
		v := validator(t, p)
		j := judged{side: side(t, p)}
		for _, s := range states {
			ok, _ := fine(t, v, s)
			j.created = append(j.created, ok)
		}
		for _, before := range states {
			var row []bool
			for _, after := range states {
				r, err := v.Update(t.Context(), after, before, true)
				if err != nil {
					t.Fatal(err)
				}
				row = append(row, !r.Refused())
			}
			j.updated = append(j.updated, row)
		}
		all = append(all, j)
	}
	proven := 0
	for i, old := range all {
		for k, new := range all {
			if i == k {
				continue
			}
			s := newComparison(old.side, new.side, &Options{Namespaced: true})
			if slices.ContainsFunc(s.suspects, func(x suspect) bool { return x.gap.Harm == RefusedTransition }) {
				continue
			}
			proven++
			for x := range states {
				for y := range states {
					if old.created[x] && old.created[y] && old.updated[x][y] && new.created[x] && new.created[y] && !new.updated[x][y] {
						t.Errorf("%q is said to imply %q, but not the update from %s to %s", sets[i], sets[k], show(states[x]), show(states[y]))
					}
				}
			}
		}
	}
	if proven < len(all) {
		t.Errorf("only %d pairs were proven", proven)
	}
	t.Logf("%d of %d pairs are proven", proven, len(all)*(len(all)-1))
}
