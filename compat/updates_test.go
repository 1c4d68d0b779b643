package compat

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"sluice.dev/report"
	"sluice.dev/schema/upstream"
	"sluice.dev/tools/draws"
)

// updateDraw draws upgrades of CRDs of two or three versions with rules about updates, whose defaults, rules, fields, and served and
// stored versions change. All values of the schemas are in a small domain.
type updateDraw struct {
	*rand.Rand
	shape int // where the fields are: in spec, in an object, in the items of a list map, in the values of a map
	// demands is nil if no version requires the field f.
	demands *rand.Rand
}

func (g *updateDraw) chance(percent int) bool { return g.IntN(100) < percent }

func (g *updateDraw) pick(all ...string) string { return all[g.IntN(len(all))] }

// updateSpec is the schema of spec in one version.
type updateSpec struct {
	f, g, inner, outer    string // rules about updates: of the field f, of the field g, of the object with the fields, and of spec
	fillF, fillG, fillAll string // defaults of f and g, and of the object with the fields
	fillKey, lacks        bool   // a default of the key of a list; whether the version has no field f
	demanded              bool   // f is required
}

const maybe = "?" // before a rule with optionalOldSelf

func rulesOf(text string) string {
	if text == "" {
		return ""
	}
	text, optional := strings.CutPrefix(text, maybe)
	return fmt.Sprintf(`, x-kubernetes-validations: [{rule: '%s', optionalOldSelf: %t}]`, text, optional)
}

func (g *updateDraw) scalarRule() string {
	return g.pick("self == oldSelf", "self == oldSelf", "self != oldSelf", "?!oldSelf.hasValue() || oldSelf.value() == self", "?oldSelf.orValue(self) == self", "self >= oldSelf")
}

func (g *updateDraw) recordRule() string {
	return g.pick("self == oldSelf", "!has(oldSelf.f) || has(self.f)", "has(self.f) == has(oldSelf.f)", "!has(self.f) || !has(oldSelf.f) || self.f == oldSelf.f",
		"has(oldSelf.f) || !has(self.f)", "!has(oldSelf.g) || has(self.g)", "!has(self.g) || !has(oldSelf.g) || self.g >= oldSelf.g", "!has(oldSelf.f) || !has(self.g)",
		"!has(self.f) || !has(oldSelf.g) || self.f == \"x\"", "?!oldSelf.hasValue() || !has(oldSelf.value().f) || has(self.f)",
		"has(self.f) || !has(oldSelf.f) || oldSelf.f == \"x\"", "!has(self.f) || !has(oldSelf.f) || self.f != oldSelf.f || self.f == \"x\"")
}

func (g *updateDraw) outerRule() string {
	switch g.shape {
	case 1:
		return g.pick("self == oldSelf", "!has(oldSelf.p) || has(self.p)", "!has(oldSelf.p) || !has(oldSelf.p.f) || has(self.p) && has(self.p.f)", "has(oldSelf.p) == has(self.p)")
	case 2:
		return g.pick("self == oldSelf", "!has(oldSelf.l) || has(self.l)", "!has(self.l) || !has(oldSelf.l) || self.l == oldSelf.l",
			"!has(self.l) || !has(oldSelf.l) || self.l.all(x, oldSelf.l.exists(y, x == y))", "!has(oldSelf.l) || !oldSelf.l.exists(x, has(x.f)) || has(self.l)")
	case 3:
		return g.pick("self == oldSelf", "!has(oldSelf.m) || has(self.m)", "!has(self.m) || !has(oldSelf.m) || self.m.all(x, x in oldSelf.m && self.m[x] == oldSelf.m[x])")
	}
	return g.recordRule()
}

// change changes some of the spec.
func (g *updateDraw) change(s updateSpec, defaults, rules int) updateSpec {
	if g.chance(defaults) {
		s.fillF = g.pick("", "x", "x", "z")
	}
	if g.chance(defaults / 2) {
		s.fillG = g.pick("", "1", "2")
	}
	if g.chance(defaults/2) && g.shape == 1 {
		s.fillAll = g.pick("", "{}", "{f: x}", "{g: 1}")
	}
	if g.chance(defaults / 2) {
		s.fillKey = g.chance(50)
	}
	if g.chance(defaults / 6) {
		s.lacks = !s.lacks
	}
	if g.chance(rules) {
		s.f = ""
		if g.chance(60) {
			s.f = g.scalarRule()
		}
	}
	if g.chance(rules / 3) {
		s.g = ""
		if g.chance(60) {
			s.g = g.scalarRule()
		}
	}
	if g.chance(rules) {
		s.inner = ""
		if g.chance(50) {
			s.inner = g.recordRule()
		}
	}
	if g.chance(rules / 2) {
		s.outer = ""
		if g.chance(50) {
			s.outer = g.outerRule()
		}
	}
	return s
}

func (g *updateDraw) text(s updateSpec) string {
	fill := func(value string) string {
		if value == "" {
			return ""
		}
		return ", default: " + value
	}
	if s.lacks {
		s.f, s.fillF = "", ""
		for _, r := range []*string{&s.inner, &s.outer} {
			if strings.Contains(*r, ".f") {
				*r = ""
			}
		}
		s.fillAll = strings.ReplaceAll(s.fillAll, "f: x", "")
	}
	fields := ""
	if !s.lacks {
		fields = "f: {type: string, maxLength: 5, enum: [x, z]" + fill(s.fillF) + rulesOf(s.f) + "}, "
	}
	fields += "g: {type: integer, enum: [1, 2]" + fill(s.fillG) + rulesOf(s.g) + "}"
	required := ""
	if s.demanded && !s.lacks {
		required = ", required: [f]"
	}
	if g.shape == 0 {
		return "{type: object" + required + ", properties: {" + fields + "}" + rulesOf(s.inner) + "}"
	}
	key := "k: {type: string, maxLength: 5}, "
	if s.fillKey {
		key = "k: {type: string, maxLength: 5, default: b}, "
	}
	items := required
	if !s.fillKey {
		items = strings.Replace(required+", required: [k]", "[f], required: [k]", "[f, k]", 1)
	}
	var in string
	switch g.shape {
	case 1:
		in = "p: {type: object" + required + fill(s.fillAll) + ", properties: {" + fields + "}" + rulesOf(s.inner) + "}"
	case 2:
		in = "l: {type: array, maxItems: 2, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object" + items + ", properties: {" + key + fields + "}" + rulesOf(s.inner) + "}}"
	case 3:
		in = "m: {type: object, maxProperties: 2, additionalProperties: {type: object" + required + ", properties: {" + fields + "}" + rulesOf(s.inner) + "}}"
	}
	return "{type: object, properties: {" + in + "}" + rulesOf(s.outer) + "}"
}

// domain are the values of spec.
func (g *updateDraw) domain() []map[string]any {
	var records []map[string]any
	for _, f := range []any{nil, "x", "z"} {
		for _, n := range []any{nil, int64(1), int64(2)} {
			r := map[string]any{}
			if f != nil {
				r["f"] = f
			}
			if n != nil {
				r["g"] = n
			}
			records = append(records, r)
		}
	}
	if g.shape == 0 {
		return records
	}
	out := []map[string]any{{}}
	for _, r := range records {
		switch g.shape {
		case 1:
			out = append(out, map[string]any{"p": r})
		case 2:
			for _, k := range []any{nil, "a", "b"} {
				item := maps.Clone(r)
				if k != nil {
					item["k"] = k
				}
				out = append(out, map[string]any{"l": []any{item}})
			}
		case 3:
			out = append(out, map[string]any{"m": map[string]any{"a": r}})
		}
	}
	if g.shape == 2 {
		return append(out, map[string]any{"l": []any{}})
	}
	return out
}

// draw draws the two CRDs.
func (g *updateDraw) draw(t *testing.T) (old, new *crd) {
	t.Helper()
	g.shape = g.IntN(4)
	base := g.change(updateSpec{}, 25, 50)
	names := []string{"v1", "v2", "v3"}[:2+g.IntN(5)/4]
	var before, after []updateSpec
	for range names {
		s := g.change(base, 60, 60)
		s.demanded = g.demands != nil && g.demands.IntN(6) == 0
		before = append(before, s)
		if g.chance(50) {
			s = g.change(s, 60, 8)
		}
		after = append(after, s)
	}
	if g.chance(20) { // one version at first, or at last
		names = names[:2]
	}
	crdOf := func(specs []updateSpec, store, hidden, gone int) *crd {
		var b strings.Builder
		b.WriteString("versions:\n")
		for i, name := range names {
			if i == gone {
				continue
			}
			fmt.Fprintf(&b, "- {name: %s, served: %t, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: %s}}}}\n", name, i != hidden, i == store, g.text(specs[i]))
		}
		return patched(t, b.String())
	}
	hides := func(store int) int {
		if i := g.IntN(8 * len(names)); i < len(names) {
			return i
		}
		return -1
	}
	store := g.IntN(len(names))
	gone := -1
	if g.chance(10) {
		gone = (store + 1) % len(names)
	}
	old = crdOf(before, store, hides(store), gone)
	if g.chance(35) {
		store = g.IntN(len(names))
	}
	new = crdOf(after, store, hides(store), -1)
	if g.chance(25) {
		for _, v := range old.Spec.Versions {
			if v.Served || v.Storage {
				old.Status.StoredVersions = append(old.Status.StoredVersions, v.Name)
			}
		}
	}
	return old, new
}

// put replaces what is stored by an object of the given spec, or sets a label if there is none. It returns what is stored then, nil if it
// is refused, and whether something was dropped on the way, which no client relies on.
func (w *world) put(t testing.TB, stored map[string]any, version string, spec map[string]any) (next map[string]any, dropped bool, errs field.ErrorList) {
	t.Helper()
	home := w.validators[strings.TrimPrefix(stored["apiVersion"].(string), "example.com/")] //nolint:errcheck,forcetypeassert // a test
	v := w.validators[version]
	var res upstream.Result
	var err error
	if spec == nil {
		res, err = v.TouchUpdateFrom(t.Context(), home, stored, true)
	} else {
		res, err = v.UpdateFrom(t.Context(), home, objectIn(version, spec), stored, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	if res.Refused() {
		return nil, len(res.Pruned) > 0, res.Errors
	}
	next, lost, err := w.validators[w.store().Name].Convert(res.Stored)
	if err != nil {
		t.Fatal(err)
	}
	return bare(next), len(res.Pruned)+len(lost) > 0, nil
}

// bare returns an object without metadata that say nothing here.
func bare(obj map[string]any) map[string]any {
	obj = maps.Clone(obj)
	obj["metadata"] = map[string]any{"name": "w", "namespace": "default"}
	return obj
}

func objectIn(version string, spec map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "example.com/" + version, "kind": "Widget", "metadata": map[string]any{"name": "w", "namespace": "default"}, "spec": spec,
	}
}

// newRefusal is a write that the new CRD refuses, after writes that both CRDs accept; the old one accepts it too.
type newRefusal struct {
	version, how string
	errs         field.ErrorList
}

// mostStates bounds the states of both worlds that are looked at.
const mostStates = 300

// firstRefusal looks for writes: first some under the old CRD, then some that are made under both. It returns the first one that only the
// new CRD refuses.
func firstRefusal(t testing.TB, before, after *world, domain []map[string]any) *newRefusal {
	t.Helper()
	type state struct {
		old, new map[string]any
		how      string
	}
	seen := map[string]bool{}
	var queue []state
	add := func(s state) {
		key := compactJSON(s.old) + compactJSON(s.new)
		if !seen[key] && len(queue) < mostStates {
			seen[key] = true
			queue = append(queue, s)
		}
	}
	ops := append([]map[string]any{nil}, domain...)
	// What the old CRD can store.
	var written []state
	for _, v := range before.crd.Spec.Versions {
		for _, spec := range domain {
			if !v.Served {
				continue
			}
			res, err := before.validators[v.Name].Create(t.Context(), objectIn(v.Name, spec))
			if err != nil {
				t.Fatal(err)
			}
			if res.Refused() || len(res.Pruned) > 0 {
				continue
			}
			for _, in := range before.storing(v.Name) {
				stored := bare(before.stores(t, res.Stored, in))
				add(state{stored, stored, "create " + compactJSON(spec) + " in " + v.Name + " stored in " + in})
			}
		}
	}
	for i := 0; i < len(queue); i++ {
		s := queue[i]
		written = append(written, s)
		for _, v := range before.crd.Spec.Versions {
			for _, spec := range ops {
				if !v.Served {
					continue
				}
				if next, _, _ := before.put(t, s.old, v.Name, spec); next != nil {
					add(state{next, next, s.how + ", put " + compactJSON(spec) + " in " + v.Name})
				}
			}
		}
	}
	queue = written
	for i := 0; i < len(queue); i++ {
		s := queue[i]
		for _, v := range after.crd.Spec.Versions {
			for _, spec := range ops {
				if !v.Served || !before.serves(v.Name) {
					continue
				}
				old, dropped, _ := before.put(t, s.old, v.Name, spec)
				if old == nil || dropped {
					continue
				}
				how := s.how + "; now " + compactJSON(s.new["spec"]) + ", put " + compactJSON(spec) + " in " + v.Name
				next, _, errs := after.put(t, s.new, v.Name, spec)
				if next == nil && !slices.ContainsFunc(errs, func(e *field.Error) bool { return strings.Contains(e.Detail, "failed rule") }) {
					continue // it broke something else before, and only ratcheting let it pass
				}
				if next == nil {
					return &newRefusal{v.Name, how, errs}
				}
				add(state{old, next, how})
			}
		}
	}
	return nil
}

// failsAt is fails for places and paths in lists and maps.
func failsAt(got report.CRD, place string) bool {
	return slices.ContainsFunc(got.Findings, func(f report.Finding) bool {
		a, b := withoutIndexes(place), withoutIndexes(strings.TrimPrefix(f.Path, "."))
		return f.Severity == report.Fail && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a))
	})
}

// TestUpdatesAcrossVersions draws CRDs of several versions with rules about updates, and holds the verdict against all sequences of
// writes in a small domain, by the API server's code. What is called safe refuses no write that the old CRD accepted after the same
// writes.
func TestUpdatesAcrossVersions(t *testing.T) {
	var n updateTally
	for _, seed := range []uint64{4, 35, 62, 78, 88, 129, 141, 167, 208, 261, 263, 289, 1102} { // those that found something
		n.attack(t, &updateDraw{Rand: rand.New(rand.NewPCG(seed, 77))}, seed)
	}
	for seed := range draws.Seeds(200) {
		if n.wrong >= 10 {
			break
		}
		n.attack(t, &updateDraw{Rand: rand.New(rand.NewPCG(seed, 77)), demands: rand.New(rand.NewPCG(seed, 78))}, seed)
	}
	t.Logf("%+v", n)
	if n.safe*5 < n.pairs || n.harmed*10 < n.pairs || n.undecided*5 > n.pairs {
		t.Errorf("%+v: the test says little", n)
	}
}

// updateTally counts pairs of CRDs: those called safe, those with a write that the new CRD refuses, and those that are undecided though no such
// write was found.
type updateTally struct{ pairs, safe, harmed, undecided, wrong int }

func (n *updateTally) attack(t *testing.T, g *updateDraw, seed uint64) {
	t.Helper()
	old, new := g.draw(t)
	before, after := newWorld(t, old), newWorld(t, new)
	gone := func(name string) bool { return after.validators[name] == nil }
	if gone(before.store().Name) || slices.ContainsFunc(old.Status.StoredVersions, gone) || !takes(t, old) || !takes(t, new) {
		return
	}
	got, err := Check(t.Context(), old, new, Options{})
	if err != nil {
		t.Fatal(err)
	}
	n.pairs++
	if got.Verdict.Proven() {
		n.safe++
	}
	harm := firstRefusal(t, before, after, g.domain())
	switch {
	case harm == nil && got.Verdict == report.IsUndecided:
		n.undecided++
		t.Logf("seed %d: undecided\n%s\nold:\n%s\nnew:\n%s", seed, listed(got), describe(old), describe(new))
	case harm == nil:
	case !slices.ContainsFunc(placesOf(harm.errs), func(place string) bool { return failsAt(got, place) }):
		n.wrong++
		t.Errorf("seed %d: %s is refused in %s, and nothing is told: %v\n%s\nold:\n%s\nnew:\n%s", seed, harm.how, harm.version, harm.errs, listed(got), describe(old), describe(new))
		fallthrough
	default:
		n.harmed++
	}
}
