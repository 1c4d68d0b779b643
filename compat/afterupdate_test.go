package compat

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sluice.dev/report"
	"sluice.dev/schema"
	"sluice.dev/tools/draws"
)

// drawCreationRules draws a spec whose rules ask more of new objects than of updates, and what becomes of it with one change.
func drawCreationRules(t *testing.T, r *rand.Rand) (old, next *crd) {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	rules := func(all ...string) string {
		var out []string
		for range 2 {
			if rule := pick(all...); rule != "" {
				optional := ""
				if strings.Contains(rule, "oldSelf") {
					optional = ", optionalOldSelf: true"
				}
				out = append(out, fmt.Sprintf("{rule: %q%s}", rule, optional))
			}
		}
		return ", x-kubernetes-validations: [" + strings.Join(out, ", ") + "]"
	}
	spec := map[string]string{
		"a":     "a: {type: integer" + rules("", "self < 3", "oldSelf.hasValue() || self < 2", "oldSelf.hasValue() ? self >= oldSelf.value() : self == 1", "oldSelf.optMap(o, o <= self).orValue(self == 1)") + "MAX}",
		"b":     "b: {type: object, properties: {x: {type: integerDEFAULT}X}REQUIRED}",
		"phase": "phase: {type: string, enum: [new, midDONE]" + rules("", "self != 'done'", "oldSelf.hasValue() || self == 'new'", "oldSelf.hasValue() ? !(oldSelf.value() == 'new' && self == 'done') : self == 'new'") + "}",
		"whole": rules("", "!has(self.b)", "!has(self.b) || has(self.b.x)", "oldSelf.hasValue() || !has(self.b)", "oldSelf.hasValue() || has(self.a)", "oldSelf.hasValue() ? has(self.b) == has(oldSelf.value().b) : !has(self.b)", "!oldSelf.hasValue() || has(self.a)"),
	}
	spec["more"] = strings.TrimSuffix(spec["whole"], "]")
	if !strings.HasSuffix(spec["more"], "[") {
		spec["more"] += ", "
	}
	spec["more"] += pick(`{rule: "oldSelf.optMap(o, !has(o.b) || has(self.b)).orValue(true)", optionalOldSelf: true}`,
		`{rule: "!oldSelf.hasValue() || !has(oldSelf.value().b) || has(self.b)", optionalOldSelf: true}`, `{rule: "!has(oldSelf.b) || has(self.b)"}`) + "]"
	made := func(changed string) *crd {
		text := "{type: object, properties: {" + spec["a"] + ", " + spec["b"] + ", " + spec["phase"] + "}" + spec["whole"] + "}"
		if changed == "rule" {
			text = strings.Replace(text, spec["whole"], spec["more"], 1)
		}
		if changed == "b" {
			text = strings.Replace(strings.Replace(text, spec["b"]+", ", "", 1), spec["whole"], "", 1)
		}
		for _, mark := range [][3]string{{"MAX", "", ", maximum: 2"}, {"DEFAULT", "", ", default: 1"}, {"X", ", z: {type: integer}", ""}, {"REQUIRED", "", ", required: [x]"}, {"DONE", ", done", ""}} {
			if mark[0] == changed {
				text = strings.Replace(text, mark[0], mark[2], 1)
			}
			text = strings.Replace(text, mark[0], mark[1], 1)
		}
		return patched(t, "versions:\n"+statusVersion("v1", "served: true, storage: true", "{type: object, properties: {spec: "+text+"}}"))
	}
	return made(""), made(pick("MAX", "X", "REQUIRED", "DONE", "b", "rule"))
}

// An upgrade that is called safe refuses no update between objects that creations and updates reach, and drops nothing of them.
func TestUpdatesOfWhatUpdatesReachPassASafeUpgrade(t *testing.T) {
	var states []map[string]any
	for _, a := range []any{nil, int64(1), int64(3)} {
		for _, b := range []any{nil, map[string]any{}, map[string]any{"x": int64(1), "z": int64(1)}} {
			for _, phase := range []any{nil, "new", "mid", "done"} {
				spec := map[string]any{}
				for name, v := range map[string]any{"a": a, "b": b, "phase": phase} {
					if v != nil {
						spec[name] = v
					}
				}
				states = append(states, map[string]any{
					"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w", "namespace": "default"}, "spec": spec,
				})
			}
		}
	}
	verdicts, updates := map[report.Verdict]int{}, 0
	for seed := range draws.Seeds(400) {
		old, next := drawCreationRules(t, rand.New(rand.NewPCG(seed, 43)))
		got := check(t, old, next)
		verdicts[got.Verdict]++
		if got.Verdict != report.Safe {
			continue
		}
		before, after := newWorld(t, old).validators["v1"], newWorld(t, next).validators["v1"]
		var reached []int
		known := map[int]bool{}
		for i, s := range states {
			if res, err := before.Create(t.Context(), s); err == nil && !res.Refused() && len(res.Pruned) == 0 {
				reached, known[i] = append(reached, i), true
			}
		}
		for len(reached) > 0 {
			from := states[reached[0]]
			reached = reached[1:]
			stored := schema.AsStored(from).(map[string]any) //nolint:errcheck,forcetypeassert // a test
			for i, to := range states {
				res, err := before.Update(t.Context(), to, stored, true)
				if err != nil || res.Refused() || len(res.Pruned) > 0 {
					continue
				}
				if updates++; !known[i] {
					reached, known[i] = append(reached, i), true
				}
				now, err := after.Update(t.Context(), to, stored, true)
				if err != nil || now.Refused() || len(now.Pruned) > 0 {
					t.Fatalf("seed %d: safe, but an update of %v to %v fails: %v %v %v", seed, from["spec"], to["spec"], err, now.Errors, now.Pruned)
				}
			}
		}
	}
	if verdicts[report.Safe] == 0 || updates == 0 {
		t.Fatal("no update after a safe upgrade shows nothing")
	}
	t.Log(fmt.Sprint(verdicts), updates, "updates")
}

// What a creation refuses and no update leads to is no witness.
func TestObjectsThatNothingReachesAreUndecided(t *testing.T) {
	version := func(most string) *crd {
		return patched(t, "versions:\n"+statusVersion("v1", "served: true, storage: true", "{type: object, properties: {spec: {type: object, properties: {a: {type: integer"+most+
			", x-kubernetes-validations: [{rule: 'self <= 5 || oldSelf.hasValue() && self == oldSelf.value()', optionalOldSelf: true}]}}}}}"))
	}
	if got := check(t, version(""), version(", maximum: 5")); got.Verdict != report.IsUndecided {
		t.Errorf("%s %v", got.Verdict, ruleIDs(got.Findings))
	}
}
