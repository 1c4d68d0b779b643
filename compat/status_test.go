package compat

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/report"
	"sluice.dev/schema/upstream"
	"sluice.dev/tools/draws"
)

// statusPieces are the parts of a schema with a status, and what each of them can be. The first one is the most frequent.
var statusPieces = map[string][]string{
	"ROOT": {"", ", required: [spec]", ", x-kubernetes-preserve-unknown-fields: true"},
	"RULE": {
		"", "'!has(self.status) || !has(self.status.phase) || self.status.phase == \"x\"'",
		"'!has(self.status) || !has(self.status.res) || has(self.status.res.kind)'",
		"'!has(self.status) || !has(self.status.phase) || has(self.spec) && has(self.spec.a)'",
		"'!has(self.spec) || !has(self.spec.a) || self.spec.a < 2'",
		"'!has(self.status) || !has(oldSelf.status) || !has(oldSelf.status.res) || has(self.status.res)'",
	},
	"SPEC":   {"", ", maximum: 1", ", default: 1"},
	"STATUS": {"", "", ", required: [phase]", ", default: {}", ", default: {phase: x}"},
	"PHASE":  {"", "", ", enum: [x]", ", default: x", ", minLength: 2", ", nullable: true"},
	"EMBEDDED": {
		", x-kubernetes-embedded-resource: true", ", x-kubernetes-embedded-resource: true", ", x-kubernetes-embedded-resource: true", "",
	},
	"KEEP": {", x-kubernetes-preserve-unknown-fields: true", ""},
	"DEMAND": {
		"", "", ", required: [apiVersion, kind]", ", required: [kind]", ", required: [metadata]", ", minProperties: 1",
		", not: {required: [kind], properties: {kind: {enum: [K]}}}",
	},
	"FIELDS": {
		"", "", ", kind: {type: string, minLength: 1}", ", kind: {type: string, default: K}", ", apiVersion: {type: string}, kind: {type: string, enum: [K]}",
		", metadata: {type: object, properties: {name: {type: string, maxLength: 3}}}", ", metadata: {type: object, required: [name]}",
		", kind: {type: string, nullable: true}", ", metadata: {type: object, default: {}}",
	},
	"CHECK": {
		"", "", "has(self.kind)", "!has(self.kind) || self.kind == 'K'", "has(self.metadata)", "!has(self.metadata) || !has(self.metadata.name) || self.metadata.name == 'n'",
		"has(self.apiVersion) && self.apiVersion.size() > 0", "!has(self.b) || self.b == oldSelf.b",
	},
	"WHERE": {
		"res: RES", "res: RES", "list: {type: array, maxItems: 2, items: RES}", "map: {type: object, maxProperties: 2, additionalProperties: RES}",
		"list: {type: array, maxItems: 2, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [b], items: RES}",
	},
}

// drawStatus fills a schema with pieces.
func drawStatus(pieces map[string]string) string {
	const resource = "{type: objectEMBEDDEDKEEPDEMAND, properties: {b: {type: string, maxLength: 5}FIELDS}CHECK}"
	rule := func(text string) string {
		if text == "" {
			return ""
		}
		return ", x-kubernetes-validations: [{rule: " + text + "}]"
	}
	text := "{type: objectROOTRULE, properties: {spec: {type: object, properties: {a: {type: integerSPEC}, res: {type: object, x-kubernetes-embedded-resource: true, properties: {b: {type: string}}}}}, " +
		"status: {type: objectSTATUS, properties: {phase: {type: stringPHASE}, other: {type: string}, WHERE}}}}"
	for name, piece := range pieces {
		switch name {
		case "RULE":
			text = strings.ReplaceAll(text, name, rule(piece))
		case "WHERE":
			text = strings.ReplaceAll(text, name, strings.ReplaceAll(piece, "RES", resource))
		}
	}
	for name, piece := range pieces {
		if name == "CHECK" && piece != "" {
			piece = rule(`"` + piece + `"`)
		}
		text = strings.ReplaceAll(text, name, piece)
	}
	return text
}

// statusValues are values of .status, with something in place of an embedded resource at each place where the schema may have one.
func statusValues() []any {
	out := []any{
		map[string]any{}, map[string]any{"phase": "x"}, map[string]any{"phase": "yy"}, map[string]any{"phase": nil},
	}
	name := func(v any) any { return map[string]any{"name": v} }
	for _, res := range []map[string]any{
		{},
		{"b": "c"},
		{"apiVersion": "v1", "kind": "K"},
		{"apiVersion": "v1", "kind": "K", "b": "c"},
		{"apiVersion": "v1", "kind": "L", "metadata": name("n")},
		{"kind": "K"},
		{"kind": "-"},
		{"kind": ""},
		{"apiVersion": ""},
		{"apiVersion": "a/b/c", "kind": "K"},
		{"metadata": name("long")},
		{"metadata": name("")},
		{"metadata": name("/")},
		{"metadata": map[string]any{"labels": map[string]any{"a": "/"}}},
		{"metadata": map[string]any{}},
		{"metadata": map[string]any{"odd": "x"}},
		{"metadata": "x"},
		{"kind": int64(1)},
		{"kind": nil},
		{"more": "x"},
		{"apiVersion": "v1"},
		{"kind": "K", "metadata": name("n")},
		{"apiVersion": "v1", "metadata": name("n")},
	} {
		out = append(out, map[string]any{"res": res}, map[string]any{"list": []any{res}}, map[string]any{"map": map[string]any{"k": res}})
		if len(res) < 2 {
			out = append(out, map[string]any{"phase": "x", "res": res})
		}
	}
	return out
}

// Requests to the status subresource do not check embedded resources, so that stored ones may lack apiVersion and kind.
func TestEmbeddedResourcesInTheStatus(t *testing.T) {
	const (
		on  = "served: true, storage: true, subresources: {status: {}}"
		off = "served: true, storage: true"
		two = "served: true, storage: false, subresources: {status: {}}"
	)
	schema := func(where, more string) string {
		resource := "{type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true" + more + "}"
		return strings.ReplaceAll("{type: object, properties: {spec: {type: object, properties: {f: {type: string}SPEC}}, status: {type: object, properties: "+
			"{f: {type: string}STATUS, list: {type: array, items: {type: object, properties: {f: {type: string}LIST}}}}}}}", where, ", res: "+resource)
	}
	in := func(how, where, more string) string {
		s := schema(where, more)
		return statusVersion("v1", how, strings.NewReplacer("SPEC", "", "STATUS", "", "LIST", "").Replace(s))
	}
	second := func(more string) string { return strings.Replace(in(two, "STATUS", more), "v1", "v2", 1) }
	const (
		required = ", required: [apiVersion, kind]"
		rule     = ", x-kubernetes-validations: [{rule: has(self.kind)}]"
		kind     = ", properties: {kind: {type: string, pattern: '^[a-zA-Z]'}}"
		name     = ", properties: {metadata: {type: object, properties: {name: {type: string}}}}"
		filled   = ", properties: {kind: {type: string, default: K}}, x-kubernetes-validations: [{rule: \"!has(self.kind) || self.kind == 'L'\"}]"
		plain    = ", x-kubernetes-validations: [{rule: \"!has(self.kind) || self.kind == 'L'\"}]"
	)
	for _, tt := range []struct {
		name, old, new string
		safe           bool
	}{
		{"required", in(on, "STATUS", ""), in(on, "STATUS", required), false},
		{"required in a list", in(on, "LIST", ""), in(on, "LIST", required), false},
		{"required in the spec", in(on, "SPEC", ""), in(on, "SPEC", required), true},
		{"required without the subresource", in(off, "STATUS", ""), in(off, "STATUS", required), true},
		{"required before", in(on, "STATUS", required), in(on, "STATUS", required+rule), true},
		{"a rule", in(on, "STATUS", ""), in(on, "STATUS", rule), false},
		{"a rule in the spec", in(on, "SPEC", ""), in(on, "SPEC", rule), true},
		{"a pattern of the kind", in(on, "STATUS", ""), in(on, "STATUS", kind), false},
		{"a default under a rule", in(on, "STATUS", plain), in(on, "STATUS", filled), false},
		{"what the API server reads in any case", in(on, "STATUS", ""), in(on, "STATUS", name), true},
		{"another version", in(on, "STATUS", "") + second(""), in(on, "STATUS", "") + second(required), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := check(t, patched(t, "versions:\n"+tt.old), patched(t, "versions:\n"+tt.new))
			if safe := got.Verdict.Proven(); safe != tt.safe {
				t.Errorf("%s: %s", got.Verdict, listed(got))
			}
		})
	}
}

// Writers of the status need no complete resource, and other requests leave the status as it is stored, with its defaults.
func TestADefaultOfAnEmbeddedResourceInTheStatusThatIsGone(t *testing.T) {
	version := func(field string) *crd {
		return patched(t, "versions:\n"+statusVersion("v1", "served: true, storage: true, subresources: {status: {}}",
			"{type: object, properties: {status: {type: object, properties: {res: {type: object, x-kubernetes-embedded-resource: true, properties: {kind: {type: string"+field+"}}}}}}}"))
	}
	if got := check(t, version(", default: K"), version("")); slices.Contains(ruleIDs(got.Findings), "embedded-resource-added") {
		t.Errorf("nobody is refused: %s", listed(got))
	}
}

// An ordinary update in a version that is not the stored one leaves the status as the stored one has read it. Nothing fills in the defaults
// of the version.
func TestADefaultInTheStatusThatNobodyFillsIn(t *testing.T) {
	const (
		plain    = "{type: object, properties: {spec: {type: object}, status: {type: object, properties: {p: {type: string}}}}}"
		filled   = "{type: object, properties: {spec: {type: object}, status: {type: object, required: [p], properties: {p: {type: string, default: x}}}}}"
		ruled    = "{type: object, properties: {spec: {type: object}, status: {type: object, properties: {p: {type: string, default: x}}, x-kubernetes-validations: [{rule: has(self.p)}]}}}"
		on       = ", subresources: {status: {}}"
		stored   = "served: true, storage: true"
		other    = "served: true, storage: false"
		unserved = "served: false, storage: false"
	)
	both := func(v1, v2 string) string { return "versions:\n" + v1 + v2 }
	v1 := statusVersion("v1", stored+on, plain)
	for _, tt := range []struct {
		name, old, new string
		safe           bool
	}{
		{"required", both(v1, statusVersion("v2", other+on, plain)), both(v1, statusVersion("v2", other+on, filled)), false},
		{"a rule", both(v1, statusVersion("v2", other+on, plain)), both(v1, statusVersion("v2", other+on, ruled)), false},
		{"as before", both(v1, statusVersion("v2", other+on, filled)), both(v1, statusVersion("v2", other+on, strings.Replace(filled, "spec: {type: object}", "spec: {type: object, properties: {f: {type: string}}}", 1))), true},
		{"without the subresource", both(v1, statusVersion("v2", other, plain)), both(v1, statusVersion("v2", other, filled)), true},
		{"a version that is not served", both(v1, statusVersion("v2", unserved+on, plain)), both(v1, statusVersion("v2", unserved+on, filled)), true},
		{"the stored version", both(v1, ""), both(statusVersion("v1", stored+on, filled), ""), true},
		{"a new version", both(v1, ""), both(v1, statusVersion("v2", other+on, filled)), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := check(t, patched(t, tt.old), patched(t, tt.new))
			if safe := got.Verdict.Proven(); safe != tt.safe {
				t.Errorf("%s: %s", got.Verdict, listed(got))
			}
		})
	}
}

// statusLife is one object with what was done to it.
type statusLife struct {
	stored map[string]any
	how    string
}

func statusObject(version string, spec, status any) map[string]any {
	obj := map[string]any{"apiVersion": "example.com/" + version, "kind": "Widget", "metadata": map[string]any{"name": "w", "namespace": "default"}}
	if spec != nil {
		obj["spec"] = runtime.DeepCopyJSONValue(spec)
	}
	if status != nil {
		obj["status"] = runtime.DeepCopyJSONValue(status)
	}
	return obj
}

// withField is the object with one of its fields replaced; nil leaves it out.
func withField(obj map[string]any, name string, value any) map[string]any {
	out := maps.Clone(obj)
	delete(out, name)
	if value != nil {
		out[name] = runtime.DeepCopyJSONValue(value)
	}
	return out
}

// TestStatusWrites draws CRDs with the status subresource, and holds "safe" against the life of objects of a small domain, by the API
// server's code: they are created, their status is written through the subresource, and then, under both CRDs, a label is set, and
// spec and status are written. What the old CRD accepts the new one accepts, and it drops nothing.
func TestStatusWrites(t *testing.T) {
	specs := []any{nil, map[string]any{}, map[string]any{"a": int64(1)}, map[string]any{"a": int64(2)}}
	statuses := statusValues()
	safe, harmed, undecided := 0, 0, 0
	for seed := range draws.Seeds(150) {
		r := rand.New(rand.NewPCG(seed, 77))
		pieces := map[string]string{}
		draw := func(name string) {
			all := statusPieces[name]
			pieces[name] = all[0]
			if r.IntN(3) > 0 {
				pieces[name] = all[r.IntN(len(all))]
			}
		}
		names := []string{"ROOT", "RULE", "SPEC", "STATUS", "PHASE", "EMBEDDED", "KEEP", "DEMAND", "FIELDS", "CHECK", "WHERE"}
		for _, name := range names {
			draw(name)
		}
		const on = "served: true, storage: true, subresources: {status: {}}"
		old := patched(t, "versions:\n"+statusVersion("v1", on, drawStatus(pieces)))
		for range 1 + r.IntN(2) {
			draw(names[r.IntN(len(names))])
		}
		new := patched(t, "versions:\n"+statusVersion("v1", on, drawStatus(pieces)))
		if !takes(t, old) || !takes(t, new) {
			continue
		}
		got, err := Check(t.Context(), old, new, Options{})
		if err != nil {
			t.Fatal(err)
		}
		failed := !got.Verdict.Proven()
		var worse string
		before, after := newWorld(t, old).validators["v1"], newWorld(t, new).validators["v1"]
		must := func(res upstream.Result, err error) upstream.Result {
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		compare := func(obj map[string]any, was, now upstream.Result, what string, args ...any) {
			clean := len(was.Pruned) == 0 && len(vanished(obj, was.Stored, "")) == 0
			if worse == "" && clean && !was.Refused() && (now.Refused() || len(now.Pruned) > 0) {
				worse = fmt.Sprintf(what, args...) + fmt.Sprintf(": refused %v, dropped %v", now.Errors, now.Pruned)
			}
		}
		var lives []statusLife
		for _, spec := range specs {
			obj := statusObject("v1", spec, nil)
			first := must(before.Create(t.Context(), obj))
			compare(obj, first, must(after.Create(t.Context(), obj)), "creating %s", compactJSON(spec))
			if first.Refused() {
				continue
			}
			lives = append(lives, statusLife{first.Stored, compactJSON(spec)})
			for _, status := range statuses {
				second := must(before.UpdateStatus(t.Context(), withField(first.Stored, "status", status), first.Stored, true))
				if second.Refused() || len(second.Pruned) > 0 {
					continue
				}
				lives = append(lives, statusLife{second.Stored, compactJSON(spec) + " with " + compactJSON(status)})
			}
		}
		for _, life := range lives {
			if worse != "" {
				break
			}
			// Nothing else differs: the label that the main resource writes, a field beside what is looked at in a status.
			_, dropped, _, err := after.Read(life.stored)
			if err != nil {
				t.Fatal(err)
			}
			_, droppedBefore, _, _ := before.Read(life.stored)
			if len(dropped) > 0 && len(droppedBefore) == 0 {
				worse = fmt.Sprintf("%s: reading drops %v", life.how, dropped)
			}
			compare(nil, must(before.TouchUpdate(t.Context(), life.stored, true)), must(after.TouchUpdate(t.Context(), life.stored, false)), "%s: touched", life.how)
			again := life.stored
			if m, ok := life.stored["status"].(map[string]any); ok {
				again = withField(life.stored, "status", withField(m, "other", "z"))
			}
			compare(nil, must(before.UpdateStatus(t.Context(), again, life.stored, true)), must(after.UpdateStatus(t.Context(), again, life.stored, false)), "%s: same status", life.how)
			for range 6 {
				next := withField(life.stored, "status", statuses[r.IntN(len(statuses))])
				compare(next, must(before.UpdateStatus(t.Context(), next, life.stored, true)), must(after.UpdateStatus(t.Context(), next, life.stored, false)), "%s: status %s", life.how, compactJSON(next["status"]))
			}
			next := withField(life.stored, "spec", specs[r.IntN(len(specs))])
			compare(nil, must(before.Update(t.Context(), next, life.stored, true)), must(after.Update(t.Context(), next, life.stored, false)), "%s: spec %s", life.how, compactJSON(next["spec"]))
		}
		switch {
		case worse != "" && !failed:
			t.Errorf("seed %d: %s; told: %v\nold: %s\nnew: %s", seed, worse, ruleIDs(got.Findings), describeAll(old), describeAll(new))
		case worse != "":
			harmed++
		case !failed:
			safe++
		default:
			if got.Verdict == "undecided" {
				undecided++
			}
			t.Logf("seed %d: %s and no harm seen: %v\nold: %s\nnew: %s", seed, got.Verdict, listed(got), describeAll(old), describeAll(new))
		}
		for _, f := range got.Findings {
			if f.Witness == nil || f.Outcome != report.Violation || f.Witness.Old != "" || f.Level == report.ReadersSurprised || f.Level == report.MeaningChanged {
				continue
			}
			obj, err := readBack(f.Witness.Object)
			if err != nil {
				t.Fatal(err)
			}
			was, now := must(before.CreateWithStatus(t.Context(), obj)), must(after.CreateWithStatus(t.Context(), obj))
			if was.Refused() || len(was.Pruned) > 0 || !now.Refused() && len(now.Pruned) == 0 && len(vanished(was.Stored, now.Stored, "")) == 0 &&
				!must(after.TouchUpdate(t.Context(), was.Stored, false)).Refused() && !must(after.TouchUpdate(t.Context(), now.Stored, false)).Refused() {
				t.Errorf("seed %d: %s is no harm: before %v %v, now %v %v:\n%s\nold: %s\nnew: %s", seed, f.Rule, was.Errors, was.Pruned, now.Errors, now.Pruned, f.Witness.Object, describeAll(old), describeAll(new))
			}

		}
	}
	t.Logf("%d safe, %d harmed, %d undecided without harm", safe, harmed, undecided)
}

// TestStatusesAcrossVersions draws CRDs of two versions with the status subresource. Objects are created in each version of the old CRD,
// their status is written there, and they are stored. What a label meets in a version of the new CRD, and did not meet in the old one, is
// told.
func TestStatusesAcrossVersions(t *testing.T) {
	statuses := statusValues()
	safe, harmed := 0, 0
	for seed := range draws.Seeds(150) {
		r := rand.New(rand.NewPCG(seed, 78))
		names := []string{"ROOT", "RULE", "SPEC", "STATUS", "PHASE", "EMBEDDED", "KEEP", "DEMAND", "FIELDS", "CHECK", "WHERE"}
		draw := func(pieces map[string]string, name string) {
			pieces[name] = statusPieces[name][0]
			if r.IntN(3) == 0 || name == "STATUS" || name == "PHASE" {
				pieces[name] = statusPieces[name][r.IntN(len(statusPieces[name]))]
			}
		}
		const on, two = "served: true, storage: true, subresources: {status: {}}", "served: true, storage: false, subresources: {status: {}}"
		pieces := map[string]string{}
		for _, name := range names {
			draw(pieces, name)
		}
		second := maps.Clone(pieces)
		if r.IntN(3) == 0 {
			draw(second, names[r.IntN(len(names))])
			second["EMBEDDED"] = pieces["EMBEDDED"] // or the one version cannot convert what the other one has stored
		}
		crdOf := func() *crd {
			return patched(t, "versions:\n"+statusVersion("v1", on, drawStatus(pieces))+statusVersion("v2", two, drawStatus(second)))
		}
		old := crdOf()
		for range 1 + r.IntN(2) {
			changed := second
			if r.IntN(3) == 0 {
				changed = pieces
			}
			draw(changed, []string{"STATUS", "PHASE", "RULE", "CHECK", "DEMAND", "FIELDS"}[r.IntN(6)])
		}
		new := crdOf()
		if !takes(t, old) || !takes(t, new) {
			continue
		}
		got, err := Check(t.Context(), old, new, Options{})
		if err != nil {
			t.Fatal(err)
		}
		before, after := newWorld(t, old), newWorld(t, new)
		worse := ""
		for _, v := range []string{"v1", "v2"} {
			for i, status := range append([]any{nil}, statuses...) {
				spec := []any{map[string]any{}, map[string]any{"a": int64(1)}}[i%2]
				obj := statusObject(v, spec, status)
				res, err := before.validators[v].CreateWithStatus(t.Context(), obj)
				if err != nil {
					t.Fatal(err)
				}
				if res.Refused() || len(res.Pruned) > 0 || len(vanished(obj, res.Stored, "")) > 0 {
					continue
				}
				stored := before.stores(t, res.Stored, "v1")
				for _, w := range []string{"v1", "v2"} {
					_, refused, _ := after.label(t, stored, w)
					_, was, _ := before.label(t, stored, w)
					if len(refused) > 0 && len(was) == 0 && worse == "" {
						worse = fmt.Sprintf("%s with %s, written in %s, is refused in %s at %v", compactJSON(spec), compactJSON(status), v, w, refused)
					}
				}
			}
		}
		switch {
		case worse != "" && got.Verdict.Proven():
			t.Errorf("seed %d: %s; told: %v\nold: %s\nnew: %s", seed, worse, ruleIDs(got.Findings), describeAll(old), describeAll(new))
		case worse != "":
			harmed++
		case got.Verdict.Proven():
			safe++
		default:
			t.Logf("seed %d: %s and no harm seen: %s\nold: %s\nnew: %s", seed, got.Verdict, listed(got), describeAll(old), describeAll(new))
		}
	}
	t.Logf("%d safe, %d harmed", safe, harmed)
}
