package contain

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	"sluice.dev/schema"
	"sluice.dev/schema/upstream"
	"sluice.dev/tools/draws"
	"sluice.dev/tools/schemagen"
)

var index = regexp.MustCompile(`\[[0-9]+\]`)

// worstTally counts what the search by trial for the worst fates has seen.
type worstTally struct{ objects, tolerated, stuck, bounded, open int }

// holdFates stores objects under the old schema and looks what becomes of them under the new one. Each error of an update that
// touches nothing but a label has a gap whose worst fate is no better.
func holdFates(t testing.TB, seed uint64, old, new *jsonProps, n *worstTally, object func() map[string]any) {
	t.Helper()
	gaps := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true}).Gaps
	for i := range gaps {
		if w := gaps[i].Witness; w != nil && (gaps[i].Harm == Refused || gaps[i].Harm == RefusedTransition) {
			if gaps[i].Worst < w.Fate() {
				t.Errorf("seed %d: %s %s: the witness's fate is %v, and the worst is said to be %v", seed, gaps[i].Path, gaps[i].Keyword, w.Fate(), gaps[i].Worst)
			}
			if n.bounded++; gaps[i].Worst > w.Fate() {
				n.open++
			}
		}
	}
	before, after := validator(t, old), validator(t, new)
	for range 40 {
		obj := object()
		stored, ok := acceptedAs(t, before, obj)
		if !ok {
			continue
		}
		stored, _ = schema.AsStored(stored).(map[string]any)
		if r, err := after.Create(t.Context(), stored); err != nil || len(appendLostPaths(stored, r.Stored, "", nil)) > 0 {
			continue // another finding, and a worse one
		}
		if r, err := before.TouchUpdate(t.Context(), stored, true); err != nil || r.Refused() {
			continue // stuck already
		}
		n.objects++
		if why, err := after.Unappliable(stored); err != nil || why != "" && !slices.ContainsFunc(gaps, func(g Gap) bool {
			return g.Verdict == Unknown || g.Worst >= Stuck || g.Harm == Pruned
		}) {
			t.Errorf("seed %d: nothing says that nothing can be applied to %s: %s %v\n%s", seed, show(stored), why, err, difference(old, new))
		}
		for fate, ratchets := range map[Fate]bool{Tolerated: false, Stuck: true} {
			r, err := after.TouchUpdate(t.Context(), stored, ratchets)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range r.Errors {
				if known(before, t, stored, e) || strings.Contains(e.Detail, "some validation rules were not checked") {
					continue
				}
				if ratchets {
					n.stuck++
				} else {
					n.tolerated++
				}
				if !slices.ContainsFunc(gaps, func(g Gap) bool {
					// A rule may read a value below that it cannot read any more.
					below := strings.HasPrefix(g.Path.String(), "."+index.ReplaceAllString(e.Field, "[*]")) && (g.Keyword == "format" || g.Keyword == "type")
					return (below || blamesGap(&g, field.ErrorList{e})) && (g.Verdict == Unknown || g.Worst >= fate || g.Harm == Pruned)
				}) {
					t.Errorf("seed %d: nothing says that %s fares as badly as %d: %v\n%v\n%s", seed, show(stored), fate, e, told(gaps), difference(old, new))
					return
				}
			}
		}
	}
}

// known reports whether the old schema says the same of an update that touches nothing but a label.
func known(old *upstream.Validator, t testing.TB, stored map[string]any, e *field.Error) bool {
	t.Helper()
	r, err := old.TouchUpdate(t.Context(), stored, false)
	return err == nil && slices.ContainsFunc(r.Errors, func(x *field.Error) bool { return x.Error() == e.Error() })
}

// TestWorstFates compares the worst fate that is told of a gap with the worst one that trial finds among objects of few
// different values.
func TestWorstFates(t *testing.T) {
	var n worstTally
	for seed := range draws.Seeds(60) {
		worstFates(t, seed, &n)
	}
	t.Logf("%+v", n)
	if n.stuck == 0 || n.tolerated == 0 || n.open*4 > n.bounded {
		t.Errorf("%+v: the test says little", n)
	}
}

func worstFates(t testing.TB, seed uint64, n *worstTally) {
	t.Helper()
	g := updateGen{rand.New(rand.NewPCG(seed, 5))}
	if old, new, ok := g.pair(t); ok {
		spec := old.Properties["spec"]
		holdFates(t, seed, old, new, n, func() map[string]any {
			return map[string]any{
				"apiVersion": "example.com/v1", "kind": "Example", "metadata": map[string]any{"name": "example", "namespace": "default"},
				"spec": g.value(&spec),
			}
		})
	}
	s := schemagen.New(seed + 7_000_000)
	old := s.Schema()
	holdFates(t, seed, old, s.Change(old), n, func() map[string]any { return s.Object(old) })
}

// If no search finds the object that fares worse, it is not ruled out. 61042969 is the square of 7813.
func TestWorstFatesAreNotRuledOut(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		path           string
		shown, worst   Fate
	}{
		{
			"an object with unknown fields", "{spec: {type: object, properties: {a: {x-kubernetes-preserve-unknown-fields: true}}}}",
			"{spec: {type: object, properties: {a: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {b: {type: string}}}}}}", ".spec.a", Stuck, Stuck,
		},
		{
			"a rule that refuses some values unchanged", "{spec: {type: object, properties: {a: {type: integer, minimum: 0, maximum: 9000}}}}",
			"{spec: {type: object, properties: {a: {type: integer, minimum: 0, maximum: 9000, x-kubernetes-validations: [{rule: 'oldSelf.hasValue() ? self * self != 61042969 : self < 5', optionalOldSelf: true}]}}}}",
			".spec.a", Spared, Stuck,
		},
		{
			"a rule that seldom reads what cannot be read", "{spec: {type: object, properties: {b: {type: string}, c: {type: integer}}}}",
			"{spec: {type: object, properties: {b: {type: string, format: duration}, c: {type: integer}}, " +
				"x-kubernetes-validations: [{rule: '!has(self.c) || !has(self.b) || !has(oldSelf.b) || self.c * self.c != 61042969 || self.b == oldSelf.b'}]}}",
			".spec.b", Tolerated, Stuck,
		},
		{
			"a rule of the object itself", "{spec: {type: object, default: {k: 1}, required: [k], properties: {k: {type: integer}}}}",
			"{spec: {type: object, required: [k], properties: {k: {type: integer}}}}, x-kubernetes-validations: [{rule: self.spec.k * self.spec.k != 61042969}]", "", Spared, Stuck,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			of := func(s string) Side { return side(t, parseSchema(t, "{type: object, properties: "+s+"}")) }
			r := Decide(t.Context(), of(c.old), of(c.new), Options{Namespaced: true})
			found := false
			for _, g := range r.Gaps {
				if g.Harm != Refused || g.Path.String() != c.path {
					continue
				}
				found = true
				if g.Witness == nil || g.Witness.Fate() != c.shown || g.Worst != c.worst {
					t.Errorf("%s %s: worst %d of %+v %s, want %d of %d", g.Path, g.Keyword, g.Worst, g.Witness, g.Reason, c.worst, c.shown)
				}
			}
			if !found {
				t.Errorf("%v", told(r.Gaps))
			}
		})
	}
}

// TestFatesOfStatusWrites holds the fates by the rules of Kubernetes 1.31, which ratchets updates and not writes of the status, against the API
// server's code: an object whose status cannot be written any more has a gap with that fate. Half of the schemas have their fields below .status.
func TestFatesOfStatusWrites(t *testing.T) {
	kube := version.MajorMinor(1, 31)
	judge := func(p *jsonProps) *upstream.Validator {
		v, err := upstream.New(p, upstream.Options{Group: "example.com", Version: "v1", Kind: "Example", Namespaced: true, KubeVersion: kube, StatusSubresource: true})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	stuck, tolerated, shown := 0, 0, 0
	for seed := range draws.Seeds(120) {
		g := updateGen{rand.New(rand.NewPCG(seed, 31))}
		old, new, ok := g.pair(t)
		if !ok {
			continue
		}
		field, of := "spec", old.Properties["spec"]
		if seed%2 == 0 {
			field = "status"
			old.Properties[field], new.Properties[field] = of, new.Properties["spec"]
			delete(old.Properties, "spec")
			delete(new.Properties, "spec")
			old.Required, new.Required = nil, nil
		}
		gaps := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true, KubeVersion: kube, StatusWrites: true}).Gaps
		before, after := judge(old), judge(new)
		for _, gap := range gaps {
			w := gap.Witness
			if w == nil || w.StatusRefused == "" {
				continue
			}
			shown++
			stored, err := before.CreateWithStatus(t.Context(), w.Object)
			if err != nil || stored.Refused() {
				t.Fatalf("seed %d: %v %v", seed, err, stored.Errors)
			}
			if r, err := after.UpdateStatus(t.Context(), stored.Stored, stored.Stored, true); err != nil || !r.Refused() {
				t.Errorf("seed %d: the status of %s can be written, %v\n%s", seed, show(w.Object), err, difference(old, new))
			}
		}
		for range 40 {
			obj := map[string]any{
				"apiVersion": "example.com/v1", "kind": "Example", "metadata": map[string]any{"name": "example", "namespace": "default"}, field: g.value(&of),
			}
			created, err := before.CreateWithStatus(t.Context(), obj)
			if err != nil || created.Refused() || len(appendLostPaths(obj, created.Stored, "", nil)) > 0 {
				continue
			}
			stored, _ := schema.AsStored(created.Stored).(map[string]any)
			update, err := after.TouchUpdate(t.Context(), stored, true)
			if err != nil {
				t.Fatal(err)
			}
			was, err := before.UpdateStatus(t.Context(), stored, stored, true)
			if err != nil {
				t.Fatal(err)
			}
			write, err := after.UpdateStatus(t.Context(), stored, stored, true)
			if err != nil {
				t.Fatal(err)
			}
			if update.Refused() || was.Refused() {
				continue
			}
			if !write.Refused() {
				tolerated++
				continue
			}
			stuck++
			if !slices.ContainsFunc(gaps, func(g Gap) bool { return g.Verdict == Unknown || g.Worst >= Stuck || g.Harm == Pruned }) {
				t.Errorf("seed %d: nothing says that the status of %s cannot be written: %v\n%v\n%s", seed, show(stored), write.Errors, told(gaps), difference(old, new))
			}
		}
	}
	t.Logf("%d objects are stuck, %d are not, %d witnesses", stuck, tolerated, shown)
	if stuck == 0 || tolerated == 0 || shown == 0 {
		t.Error("the cases do not show the difference")
	}
}
