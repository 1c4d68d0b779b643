package contain

import (
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/schema/upstream"
	"sluice.dev/tools/draws"
)

// updateGen makes pairs of schemas with rules about updates and about whole values, which differ in defaults (of fields, required
// ones too, of the objects around them, of items), types of lists and maps, keys, formats and fields, and updates between objects of
// few different values.
type updateGen struct{ *rand.Rand }

type jsonProps = apiextensionsv1.JSONSchemaProps

func one[T any](g updateGen, xs ...T) T { return xs[g.IntN(len(xs))] }

func (g updateGen) chance(percent int) bool { return g.IntN(100) < percent }

func jsonOf(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }

// scalarRules, recordRules and listRules are what is said at a value of the kind.
var (
	scalarRules = []string{"self == oldSelf", "self >= oldSelf", "oldSelf == self || self != oldSelf"}
	maybeRules  = []string{ // with optionalOldSelf
		"!oldSelf.hasValue() || oldSelf.value() == self", "oldSelf.orValue(self) == self", "oldSelf.hasValue() && oldSelf.value() == self",
	}
	recordRules = []string{
		"self == oldSelf", "!has(oldSelf.s) || has(self.s)", "has(self.s) == has(oldSelf.s)", "!has(self.s) || !has(oldSelf.s) || self.s == oldSelf.s",
		"!has(self.n) || !has(oldSelf.n) || self.n >= oldSelf.n", "!has(self.o) || !has(oldSelf.o) || self.o == oldSelf.o",
		"!has(self.o) || !has(self.p) || dyn(self.o) != dyn(self.p)", "has(self.o) ? [self.o].exists_one(x, x == oldSelf.?o.orValue(self.o)) : true",
		"!has(self.l) || !has(oldSelf.l) || self.l == oldSelf.l", "!has(self.l) || !has(self.o) || !self.l.exists(x, dyn(x) == dyn(self.o))",
		"!has(self.t) || !has(oldSelf.t) || self.t == oldSelf.t", "!has(self.o) || !has(self.p) || [self.o.?s, self.p.?s].all(x, x == self.o.?s)",
		"!has(self.l) || !has(self.m) || dyn(self.l) != dyn(self.m)", "!has(self.l) || !has(oldSelf.l) || self.l.all(x, oldSelf.l.exists(y, x == y))",
	}
	listRules = []string{
		"self == oldSelf", "self.all(x, self.exists_one(y, x == y))", "self.all(x, oldSelf.exists(y, x == y))", "self.size() >= oldSelf.size()",
		"oldSelf.all(x, x in self)", "!self.exists(x, self.filter(y, x == y).size() > 1)", "self.all(x, self.all(y, x == y || x.?s != y.?s))",
	}
)

// rule adds a rule to p, or none.
func (g updateGen) rule(p *jsonProps, percent int, texts []string) {
	if !g.chance(percent) {
		return
	}
	r := apiextensionsv1.ValidationRule{Rule: one(g, texts...)}
	if g.chance(20) {
		r = apiextensionsv1.ValidationRule{Rule: one(g, maybeRules...), OptionalOldSelf: new(true)}
	}
	p.XValidations = append(p.XValidations, r)
}

func (g updateGen) scalar(typ string) jsonProps {
	p := jsonProps{Type: typ}
	if typ == "string" {
		p.MaxLength = new(int64(20))
	}
	g.rule(&p, 25, scalarRules)
	return p
}

// record makes an object of scalars, of other records where depth allows it, and of lists of records.
func (g updateGen) record(depth int) jsonProps {
	p := jsonProps{Type: "object", Properties: map[string]jsonProps{"s": g.scalar("string"), "n": g.scalar("integer")}}
	if g.chance(40) {
		t := g.scalar("string")
		t.Format = one(g, "date-time", "", "duration", "byte")
		p.Properties["t"] = t
	}
	rules := []string{recordRules[0], recordRules[1], recordRules[2], recordRules[3], recordRules[4]}
	if depth > 0 {
		o := g.record(depth - 1)
		p.Properties["o"] = o
		if g.chance(50) {
			same := o.DeepCopy()
			same.XValidations = nil
			p.Properties["p"] = *same
		}
		if g.chance(70) {
			l := g.list(depth - 1)
			p.Properties["l"] = l
			same := l.DeepCopy()
			same.XValidations = nil
			p.Properties["m"] = *same
		}
		rules = recordRules
	}
	g.rule(&p, 35, rules)
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		c := p.Properties[name]
		g.filled(&c, 15)
		p.Properties[name] = c
	}
	if g.chance(25) {
		p.Required = []string{one(g, slices.Sorted(maps.Keys(p.Properties))...)}
	}
	return p
}

func (g updateGen) list(depth int) jsonProps {
	item := g.record(depth)
	p := jsonProps{Type: "array", MaxItems: new(int64(2)), Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}}
	g.topology(&p)
	g.rule(&p, 35, listRules)
	return p
}

// topology gives a list of records a type.
func (g updateGen) topology(p *jsonProps) {
	p.XListType, p.XListMapKeys, p.Items.Schema.Required = nil, nil, nil
	switch g.IntN(4) {
	case 0:
		p.XListType = new("atomic")
	case 1:
		p.XListType, p.XListMapKeys = new("map"), []string{"s"}
	case 2:
		p.XListType, p.XListMapKeys = new("map"), []string{"n", "s"}
	}
	for _, key := range p.XListMapKeys {
		if c := p.Items.Schema.Properties[key]; c.Default == nil {
			p.Items.Schema.Required = append(p.Items.Schema.Required, key)
		}
	}
}

// filled gives p a default, or takes it away.
func (g updateGen) filled(p *jsonProps, percent int) {
	p.Default = nil
	if !g.chance(percent) {
		return
	}
	switch {
	case p.Format == "date-time":
		p.Default = jsonOf(`"2020-01-01T00:00:00Z"`)
	case p.Format == "duration":
		p.Default = jsonOf(`"1h"`)
	case p.Type == "string":
		p.Default = jsonOf(one(g, `"YQ=="`, `"Yg=="`))
	case p.Type == "integer":
		p.Default = jsonOf(one(g, `0`, `1`))
	case p.Type == "array":
		p.Default = jsonOf(one(g, `[]`, `[{"s":"Yg==","n":0}]`))
	default:
		p.Default = jsonOf(one(g, `{}`, `{}`, `{"s":"Yg=="}`, `{"n":1}`))
	}
}

// change makes one change at or below p.
func (g updateGen) change(p *jsonProps) {
	if p.Items != nil && g.chance(60) {
		g.change(p.Items.Schema)
		g.keyed(p)
		return
	}
	if len(p.Properties) > 0 && g.chance(75) {
		name := one(g, slices.Sorted(maps.Keys(p.Properties))...)
		c := p.Properties[name]
		g.change(&c)
		p.Properties[name] = c
		return
	}
	switch n := g.IntN(13); {
	case n < 6:
		g.filled(p, 70)
	case p.Type == "array":
		g.topology(p)
	case p.Type == "string":
		p.Format = one(g, "", "", "date-time", "duration", "byte")
	case n == 6:
		p.Nullable = !p.Nullable
		if p.Nullable {
			p.Default = nil
		}
	case p.Type != "object":
	case n == 7:
		p.XMapType = one(g, nil, new("atomic"))
	case n == 8:
		c := g.scalar("string")
		g.filled(&c, 50)
		p.Properties["new"] = c
	case n == 9:
		delete(p.Properties, one(g, "n", "t", "p"))
	case n == 10:
		p.XPreserveUnknownFields = one(g, nil, new(true))
	case n == 11:
		p.Required = []string{one(g, slices.Sorted(maps.Keys(p.Properties))...)}
	default:
		p.XValidations = nil
	}
}

// keyed keeps the keys of a list valid after a change of its items.
func (g updateGen) keyed(p *jsonProps) {
	p.Items.Schema.Required, p.Items.Schema.Nullable = nil, false
	for _, key := range p.XListMapKeys {
		c, ok := p.Items.Schema.Properties[key]
		if !ok {
			c = g.scalar("string")
		}
		c.Nullable = false
		p.Items.Schema.Properties[key] = c
		if c.Default == nil {
			p.Items.Schema.Required = append(p.Items.Schema.Required, key)
		}
	}
}

// value makes a value of p of few different ones.
func (g updateGen) value(p *jsonProps) any {
	switch {
	case p.Nullable && g.chance(20):
		return nil
	case p.Format == "date-time":
		return one[any](g, "2020-01-01T00:00:00Z", "2020-01-01T01:00:00+01:00")
	case p.Format == "duration":
		return one[any](g, "1h", "60m")
	case p.Type == "string":
		return one[any](g, "YQ==", "YR==", "Yg==")
	case p.Type == "integer":
		return one[any](g, int64(0), int64(1))
	case p.Type == "array":
		out := []any{}
		for range g.IntN(3) {
			out = append(out, g.value(p.Items.Schema))
		}
		return out
	}
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		c := p.Properties[name]
		if g.chance(55) || slices.Contains(p.Required, name) {
			out[name] = g.value(&c)
		}
	}
	if p.XPreserveUnknownFields != nil && g.chance(50) {
		out["new"] = one[any](g, "b", int64(1), map[string]any{"x": int64(1)})
	}
	return out
}

// changed returns v with one to three parts left out, put in, or exchanged.
func (g updateGen) changed(p *jsonProps, v any) any {
	if g.chance(15) {
		return g.value(p)
	}
	switch v := v.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(p.Properties))
		name := one(g, names...)
		c := p.Properties[name]
		if old, ok := v[name]; !ok {
			v[name] = g.value(&c)
		} else if g.chance(30) && !slices.Contains(p.Required, name) {
			delete(v, name)
		} else {
			v[name] = g.changed(&c, old)
		}
		return v
	case []any:
		switch {
		case len(v) == 0 || g.chance(20):
			return append(v, g.value(p.Items.Schema))
		case g.chance(20):
			return v[1:]
		}
		i := g.IntN(len(v))
		v[i] = g.changed(p.Items.Schema, v[i])
		return v
	}
	return g.value(p)
}

// pair makes an old and a new schema; false if the API server would not take one of them.
func (g updateGen) pair(t testing.TB) (old, new *jsonProps, ok bool) {
	spec := g.record(2)
	old = &jsonProps{Type: "object", Properties: map[string]jsonProps{"spec": spec}}
	new = old.DeepCopy()
	c := new.Properties["spec"]
	for range 1 + g.IntN(2) {
		g.change(&c)
	}
	new.Properties["spec"] = c
	for _, p := range []*jsonProps{old, new} {
		correlated(p, true)
		crd := crdOf(p)
		errs, err := upstream.ValidateCRD(t.Context(), crd, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(errs) > 0 {
			return nil, nil, false
		}
	}
	return old, new, true
}

// fieldsOf finds the fields that the rules above mention.
var fieldsOf = regexp.MustCompile(`elf\.\??([a-z]+)`)

// correlated drops the rules that the API server would not compile: those about fields that there are not, and those about
// updates of what it finds no old value of.
func correlated(p *jsonProps, found bool) {
	p.XValidations = slices.DeleteFunc(p.XValidations, func(r apiextensionsv1.ValidationRule) bool {
		unknown := len(p.Properties) > 0 && slices.ContainsFunc(fieldsOf.FindAllStringSubmatch(r.Rule, -1), func(m []string) bool {
			_, ok := p.Properties[m[1]]
			return !ok
		})
		return unknown || !found && strings.Contains(r.Rule, "oldSelf")
	})
	if p.Items != nil {
		correlated(p.Items.Schema, found && p.XListType != nil && *p.XListType == "map")
	}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		c := p.Properties[name]
		correlated(&c, found && (p.XMapType == nil || *p.XMapType != "atomic"))
		p.Properties[name] = c
	}
}

func crdOf(p *jsonProps) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name = "examples.example.com"
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "examples", Singular: "example", Kind: "Example", ListKind: "ExampleList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: p},
		}},
	}
	return crd
}

type updateTally struct{ pairs, contained, updates, allowed int }

// attackUpdates decides a pair of schemas, and where it is called contained, tries updates that the old schema allows.
func attackUpdates(t testing.TB, seed uint64, n *updateTally) {
	g := updateGen{rand.New(rand.NewPCG(seed, 3))}
	old, new, ok := g.pair(t)
	if !ok {
		return
	}
	n.pairs++
	if !contained(side(t, old), side(t, new)) {
		return
	}
	n.contained++
	before, after := validator(t, old), validator(t, new)
	object := func(spec any) map[string]any {
		return map[string]any{
			"apiVersion": "example.com/v1", "kind": "Example", "metadata": map[string]any{"name": "example", "namespace": "default"}, "spec": spec,
		}
	}
	spec := old.Properties["spec"]
	for range 60 {
		v := g.value(&spec)
		w := runtime.DeepCopyJSONValue(v)
		for range 1 + g.IntN(3) {
			w = g.changed(&spec, w)
		}
		x, y := object(v), object(w)
		n.updates++
		stored, ok := acceptedAs(t, before, x)
		if _, fine := acceptedAs(t, before, y); !ok || !fine {
			continue
		}
		if r, err := before.Update(t.Context(), y, stored, true); err != nil || r.Refused() {
			continue
		}
		n.allowed++
		for _, obj := range []map[string]any{x, y} {
			if ok, why := fine(t, after, obj); !ok {
				t.Fatalf("seed %d: contained, but %s is refused: %s\n%s", seed, show(obj), why, difference(old, new))
			}
		}
		r, err := after.Update(t.Context(), y, stored, true)
		if err != nil || r.Refused() {
			t.Fatalf("seed %d: contained, but the update of %s\nto %s\nis refused: %v %v\n%s", seed, show(stored), show(y), r.Errors, err, difference(old, new))
		}
	}
}

// acceptedAs returns the object as it is stored, where the schema accepts it and keeps all of it.
func acceptedAs(t testing.TB, v *upstream.Validator, obj map[string]any) (map[string]any, bool) {
	t.Helper()
	r, err := v.Create(t.Context(), obj)
	if err != nil {
		t.Fatalf("%s: %v", show(obj), err)
	}
	return r.Stored, len(r.Errors) == 0 && len(appendLostPaths(obj, r.Stored, "", nil)) == 0
}

// difference shows two schemas.
func difference(old, new *jsonProps) string { return "old " + show(old) + "\nnew " + show(new) }

// TestUpdatesUnderContainedSchemas holds what is proven of rules about updates against the API server's code.
func TestUpdatesUnderContainedSchemas(t *testing.T) {
	var n updateTally
	for seed := range draws.Seeds(80) {
		attackUpdates(t, seed, &n)
	}
	t.Logf("%+v", n)
	if n.contained*10 < n.pairs || n.allowed*10 < n.updates {
		t.Errorf("%+v: the test says little", n)
	}
}

func FuzzUpdatesUnderContainedSchemas(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		var n updateTally
		attackUpdates(t, seed, &n)
	})
}
