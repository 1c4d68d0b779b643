package compat

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"sluice.dev/report"
	"sluice.dev/schema/upstream"
	"sluice.dev/tools/draws"
)

// harm is what an object meets under the new CRD and did not meet under the old one.
type harm struct {
	path, rule string // where, and the rule of CEL that refuses it, if it is one
	how        string
}

// harms runs the values through the API server's code: each is created in each version of the old CRD, stored, created again
// under the new CRD, read in each version, and written back with a label; then some are updated to others.
func (p *unionPair) harms(t testing.TB) (out []harm, accepted, allowed int) {
	t.Helper()
	before, after := newWorld(t, p.old), newWorld(t, p.new)
	now, was := map[crossed]string{}, map[crossed]bool{}
	note := func(errs field.ErrorList, how string, args ...any) {
		for _, e := range errs {
			place := placeOf(e)
			if place == "" {
				continue
			}
			h := harm{path: place, how: fmt.Sprintf(how, args...) + ": " + e.Error()}
			if _, text, ok := strings.Cut(e.Detail, "failed rule: "); ok {
				h.rule = text
			}
			out = append(out, h)
		}
	}
	for _, v := range p.old.Spec.Versions {
		if !v.Served {
			continue
		}
		from, to := before.validators[v.Name], after.validators[v.Name]
		var specs []any
		var stored []map[string]any
		for _, spec := range p.domain {
			obj := p.object(v.Name, spec)
			res := created(t, from, obj)
			if res.Refused() || len(vanished(obj, res.Stored, "")) > 0 {
				continue
			}
			accepted++
			specs = append(specs, spec)
			stored = append(stored, res.Stored)
			if after.serves(v.Name) {
				now := created(t, to, obj)
				for _, path := range now.Pruned {
					out = append(out, harm{path: path, how: fmt.Sprintf("%s: creating %s drops %s", v.Name, compactJSON(spec), path)})
				}
				if len(now.Pruned) == 0 { // what is refused of the rest follows from the loss
					note(now.Errors, "%s: creating %s", v.Name, compactJSON(spec))
				}
				if len(now.Pruned) == 0 && !now.Refused() {
					for _, path := range vanished(obj, now.Stored, "") {
						out = append(out, harm{path: path, how: fmt.Sprintf("%s: creating %s drops %s", v.Name, compactJSON(spec), path)})
					}
				}
			}
			kept, _, err := before.validators[before.store().Name].Convert(res.Stored)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range p.new.Spec.Versions {
				if w.Served {
					out = append(out, p.across(t, before, after, kept, v.Name, w.Name, now, was)...)
				}
			}
		}
		if len(specs) < 2 || !after.serves(v.Name) || !slices.ContainsFunc(p.new.Spec.Versions, func(w crdVersion) bool { return strings.Contains(compactJSON(w.Schema), "oldSelf") }) {
			continue
		}
		for range 60 {
			i := p.IntN(len(specs))
			next := p.object(v.Name, p.Near(specs[i], specs))
			if res, err := from.Update(t.Context(), next, stored[i], true); err != nil || res.Refused() {
				continue
			}
			allowed++
			res, err := to.Update(t.Context(), next, stored[i], true)
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Pruned) > 0 {
				continue // told as that
			}
			note(res.Errors, "%s: updating %s to %s", v.Name, compactJSON(stored[i]["spec"]), compactJSON(next["spec"]))
		}
	}
	for c, how := range now {
		if !was[c] { // between versions, what some objects met there before is no news of others
			out = append(out, harm{path: c.path, how: how})
		}
	}
	return out, accepted, allowed
}

// placeOf says where the error is. Of junctors the text says it; that rules were not evaluated is nowhere.
func placeOf(e *field.Error) string {
	if e.Field != "<nil>" {
		return strings.TrimPrefix(e.Field, ".")
	}
	name, _, ok := strings.Cut(strings.TrimPrefix(e.Detail, `"`), `" must `)
	if !ok {
		return ""
	}
	return name
}

// crossed is what becomes of stored objects in a version: what is erased and refused, and where.
type crossed struct{ kind, version, path string }

// across notes what becomes of a stored object in a version of the new CRD, and what became of it under the old one.
func (p *unionPair) across(t testing.TB, before, after *world, stored map[string]any, writer, version string, now map[crossed]string, was map[crossed]bool) []harm {
	t.Helper()
	erased, refused, _ := after.label(t, stored, version)
	then := version
	if !before.serves(version) { // who met the same in the version of the writer meets nothing new in another one
		then = writer
	}
	wasErased, wasRefused, _ := before.label(t, stored, then)
	if len(erased) > len(wasErased) || len(refused) > 0 && before.stuck(t, stored) {
		refused = nil
	}
	var out []harm
	for kind, paths := range map[string][2][]string{"erased": {erased, wasErased}, "refused": {refused, wasRefused}} {
		for _, path := range paths[1] {
			was[crossed{kind, version, path}] = true
		}
		for _, path := range paths[0] {
			if slices.ContainsFunc(paths[1], func(was string) bool { return strings.HasPrefix(path+".", was+".") }) {
				continue // an error of a junctor stands for those below it
			}
			if kind == "refused" && len(paths[1]) > 0 && sameRules(schemaOf(p.old, then), schemaOf(p.new, version), path) {
				continue // the API server evaluates no rules where the schema refuses: nothing was let through before
			}
			how := fmt.Sprintf("%s in %s: %s", kind, version, compactJSON(stored))
			if version == writer {
				out = append(out, harm{path: path, how: how})
			} else {
				now[crossed{kind, version, path}] = how
			}
		}
	}
	return out
}

func schemaOf(d *apiextensionsv1.CustomResourceDefinition, version string) *apiextensionsv1.JSONSchemaProps {
	for _, v := range d.Spec.Versions {
		if v.Name == version && v.Schema != nil {
			return v.Schema.OpenAPIV3Schema
		}
	}
	return nil
}

// sameRules reports whether both schemas have rules at a place, and the same ones.
func sameRules(a, b *apiextensionsv1.JSONSchemaProps, path string) bool {
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' }) {
		if a == nil || b == nil {
			return false
		}
		a, b = below(a, name), below(b, name)
	}
	return a != nil && b != nil && len(a.XValidations) > 0 && reflect.DeepEqual(a.XValidations, b.XValidations)
}

// below is the schema of a field, of an item, which is named as "0]", or of a value of a map.
func below(s *apiextensionsv1.JSONSchemaProps, name string) *apiextensionsv1.JSONSchemaProps {
	if next, ok := s.Properties[name]; ok {
		return &next
	}
	if s.Items != nil && strings.HasSuffix(name, "]") {
		return s.Items.Schema
	}
	if s.AdditionalProperties != nil {
		return s.AdditionalProperties.Schema
	}
	return nil
}

func created(t testing.TB, v *upstream.Validator, obj map[string]any) upstream.Result {
	t.Helper()
	res, err := v.Create(t.Context(), obj)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// vanished lists what of a is not in b.
func vanished(a, b any, path string) []string {
	var out []string
	switch a := a.(type) {
	case map[string]any:
		m, _ := b.(map[string]any)
		for k, x := range a {
			if y, ok := m[k]; ok {
				out = append(out, vanished(x, y, strings.TrimPrefix(path+"."+k, "."))...)
			} else {
				out = append(out, strings.TrimPrefix(path+"."+k, "."))
			}
		}
	case []any:
		l, _ := b.([]any)
		for i, x := range a {
			if i >= len(l) {
				return append(out, path)
			}
			out = append(out, vanished(x, l[i], fmt.Sprintf("%s[%d]", path, i))...)
		}
	default:
		if !reflect.DeepEqual(a, b) {
			out = append(out, path)
		}
	}
	return out
}

// told reports whether a finding that fails the check speaks of the harm: of its place and, where a rule refuses, of the rule,
// unless the type is another one, so that everything below differs, or the comparison was cut short.
func (h *harm) told(got report.CRD) bool {
	return slices.ContainsFunc(got.Findings, func(f report.Finding) bool {
		if f.Severity != report.Fail || f.Outcome == report.Note || !related(h.path, f.Path) {
			return false
		}
		return h.rule == "" || f.After == h.rule || strings.Contains(f.Message, inlineJSON(h.rule)) || strings.HasPrefix(f.Rule, "version") || strings.HasPrefix(f.Rule, "type") || f.Rule == "schema-changed" ||
			f.Rule == defaultInvalid.ID // it says of no rule that it refuses the default
	})
}

var indexes = strings.NewReplacer("[0]", "", "[1]", "", "[2]", "", "[*]", "", ".*", "")

// related reports whether one of a place in an object and the path of a finding is the other, or around it.
func related(place, path string) bool {
	a, b := indexes.Replace(place)+".", indexes.Replace(strings.TrimPrefix(path, "."))+"."
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) || b == "."
}

type unionTally struct{ pairs, refused, safe, unsafe, undecided, missed, wrong, objects, updates int }

// attackUnion decides a pair, with a budget or the default one (0), and holds what is said against all values of the domain.
func attackUnion(t testing.TB, p *unionPair, budget int64, n *unionTally) {
	got, err := Check(t.Context(), p.old, p.new, Options{Budget: budget})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range got.Findings {
		if (f.Rule == crdRefusedByAPIServer.ID || f.Rule == oldCRDInvalid.ID) && got.Verdict != report.IsUndecided {
			n.refused++
			return
		}
	}
	n.pairs++
	harms, accepted, allowed := p.harms(t)
	n.objects += accepted
	n.updates += allowed
	switch got.Verdict {
	case report.Safe, report.IsUnchanged:
		n.safe++
	case report.Unsafe:
		n.unsafe++
	case report.IsUndecided:
		n.undecided++
		if budget == 0 {
			t.Logf("%s%s", listed(got), p)
		}
		if len(harms) > 0 {
			n.missed++
		}
	case report.IsNew, report.IsRemoved: // both sides are there
	}
	for _, h := range harms {
		if !h.told(got) {
			n.wrong++
			t.Errorf("%s\nis not told: %s\n%s%s", h.how, got.Verdict, listed(got), p)
			return
		}
	}
	for _, f := range got.Findings {
		if f.Before != "" && f.Before == f.After && !strings.HasPrefix(f.Rule, "version") && f.Rule != "added-in-one-version" && !strings.Contains(f.Message, "is as before") {
			n.wrong++
			t.Errorf("%s: nothing changed there: %s\n%s%s", f.Rule, f.Message, listed(got), p)
		}
	}
	if len(p.old.Spec.Versions) > 1 || len(p.new.Spec.Versions) > 1 {
		return
	}
	for _, f := range got.Findings {
		if f.Witness != nil && f.Rule != oddValueRefused.ID && !strings.Contains(f.Witness.Object, ".0\n") { // YAML is read as 1 where the witness has 1.0
			if failed := t.Failed(); !failed {
				requireWitness(t, p.old, p.new, f)
				if t.Failed() {
					t.Log(p)
				}
			}
		}
	}
}

// attackUnions does so with pairs that are drawn, and with each budget in turn.
func attackUnions(t *testing.T, count int, draw func(seed uint64) *unionPair, budgets ...int64) (n unionTally) {
	t.Helper()
	for seed := range draws.Seeds(count) {
		if n.wrong >= 10 {
			break
		}
		attackUnion(t, draw(seed), budgets[seed%uint64(len(budgets))], &n)
	}
	t.Logf("%+v", n)
	return n
}

func listed(got report.CRD) string {
	var b strings.Builder
	for _, f := range got.Findings {
		fmt.Fprintf(&b, "  %s %s %s %s %s: %s\n", f.Outcome, f.Level, f.Rule, f.Version, f.Path, f.Message)
		if f.Reason != "" {
			fmt.Fprintf(&b, "      %s\n", f.Reason)
		}
	}
	return b.String()
}

// keptSeeds are those of pairs that found something.
var keptSeeds = []uint64{1000903, 1001892, 1003686, 1004394, 20000365, 20000375, 20001030, 20001303, 20001843, 20002011, 20002098, 20019462, 20066965, 20072269, 20084426, 20114090, 20132871, 50012504, 50012710, 30002705, 30004655, 30006363, 30006604, 30010278, 200011034, 200024848, 567002057}

// TestUnions holds verdicts about unions and their rules against all objects of small domains, by the API server's code: under
// what is called safe no object fares worse, each object that fares worse has a finding, and each witness is confirmed.
func TestUnions(t *testing.T) {
	for _, seed := range keptSeeds {
		attackUnion(t, drawUnions(seed), 0, &unionTally{})
	}
	n := attackUnions(t, 120, drawUnions, 0)
	if n.safe*10 < n.pairs || n.unsafe*10 < n.pairs || n.undecided*10 > n.pairs || n.objects < 10*n.pairs {
		t.Errorf("%+v: the test says little", n)
	}
}

// TestUnionsWhoseReaderFillsIn does so where defaults that are filled in on reading meet constraints of the version that was written.
func TestUnionsWhoseReaderFillsIn(t *testing.T) {
	n := attackUnions(t, 300, drawFilled, 0)
	if n.safe*50 < n.pairs || n.unsafe*10 < n.pairs || n.undecided*10 > n.pairs || n.objects < 5*n.pairs {
		t.Errorf("%+v: the test says little", n)
	}
}

// TestUnionsWhoseStoragePrunes does so where storage drops what the version that was written requires.
func TestUnionsWhoseStoragePrunes(t *testing.T) {
	n := attackUnions(t, 150, drawPruned, 0)
	if n.safe*50 < n.pairs || n.unsafe*10 < n.pairs || n.undecided*5 > n.pairs || n.objects < 5*n.pairs {
		t.Errorf("%+v: the test says little", n)
	}
}

// TestUnionsWithSmallBudgets stops the proofs anywhere: what is left is undecided and said to be so, and nothing is called safe
// for that.
func TestUnionsWithSmallBudgets(t *testing.T) {
	n := attackUnions(t, 60, drawUnions, 1, 30, 300, 1_000, 3_000, 10_000)
	if n.undecided*5 < n.pairs || n.safe == 0 {
		t.Errorf("%+v: the test says little", n)
	}
}
