package compat

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice.dev/report"
	"sluice.dev/tools/draws"
)

// statusVersion is one version with a schema in flow style.
func statusVersion(name, how, schema string) string {
	return "- {name: " + name + ", " + how + ", schema: {openAPIV3Schema: " + schema + "}}\n"
}

// The API server fills in a default of .status before it drops the status of a new object, so that the object is validated without.
func TestADefaultOfTheStatusIsDroppedWithIt(t *testing.T) {
	const (
		on     = "served: true, storage: true, subresources: {status: {}}"
		off    = "served: true, storage: true"
		filled = "{type: object, REQUIREDproperties: {spec: {type: object, properties: {a: {type: integerSPEC}}}, status: {type: object, default: {}, properties: {p: {type: string}}}}RULES}"
	)
	schema := func(required, spec, rules string) string {
		return strings.NewReplacer("REQUIRED", required, "SPEC", spec, "RULES", rules).Replace(filled)
	}
	const rule = ", x-kubernetes-validations: [{rule: 'has(self.status)'}]"
	const optional = ", x-kubernetes-validations: [{rule: 'oldSelf.hasValue() || has(self.status)', optionalOldSelf: true}]"
	const spares = ", x-kubernetes-validations: [{rule: '!has(self.status) || has(self.spec) && has(self.spec.a) && self.spec.a > 5'}]"
	plain := "{type: object, properties: {spec: {type: object, properties: {a: {type: integer}}}}}"
	for _, tt := range []struct {
		name, old, new string
		safe           bool
	}{
		{"required", statusVersion("v1", on, schema("", "", "")), statusVersion("v1", on, schema("required: [status], ", "", "")), false},
		{"required, without the subresource", statusVersion("v1", off, schema("", "", "")), statusVersion("v1", off, schema("required: [status], ", "", "")), true},
		{"a rule", statusVersion("v1", on, schema("", "", "")), statusVersion("v1", on, schema("", "", rule)), false},
		{"a rule, without the subresource", statusVersion("v1", off, schema("", "", "")), statusVersion("v1", off, schema("", "", rule)), true},
		{"a rule about new objects", statusVersion("v1", on, schema("", "", "")), statusVersion("v1", on, schema("", "", optional)), false},
		{"all at once", statusVersion("v1", off, plain), statusVersion("v1", on, schema("required: [status], ", "", "")), false},
		{"a rule that spares new objects", statusVersion("v1", on, schema("", "", spares)), statusVersion("v1", on, schema("", ", minimum: 6", spares)), false},
		{
			"another version", statusVersion("v1", on, plain), statusVersion("v1", on, plain) +
				statusVersion("v2", "served: true, storage: false, subresources: {status: {}}", schema("required: [status], ", "", "")), false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Check(t.Context(), patched(t, "versions:\n"+tt.old), patched(t, "versions:\n"+tt.new), Options{})
			if err != nil {
				t.Fatal(err)
			}
			failed := slices.ContainsFunc(got.Findings, func(f report.Finding) bool { return f.Severity == report.Fail })
			if failed == tt.safe {
				t.Errorf("%s: %v", got.Verdict, ruleIDs(got.Findings))
			}
			for _, f := range got.Findings {
				if f.Outcome == report.Violation && tt.name != "another version" && f.Level == report.ObjectsStuck {
					t.Errorf("%s: only new objects are refused, and it is told as %s", f.Rule, f.Level)
				}
			}
		})
	}
}

// TestNewObjectsWithAStatusSubresource draws schemas of .status, and holds "safe" against the creation of objects.
func TestNewObjectsWithAStatusSubresource(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	draw := func() string {
		return statusVersion("v1", "served: true, storage: true"+pick(", subresources: {status: {}}", ", subresources: {status: {}}", ""),
			"{type: object"+pick("", "", ", required: [status]", ", required: [spec]")+", properties: {spec: {type: object"+pick("", ", default: {}")+", properties: {a: {type: integer"+pick("", ", minimum: 6", ", default: 7")+"}}}, status: {type: object"+
				pick("", "", ", required: [p]")+pick("", ", default: {p: x}", ", default: {p: y}")+", properties: {p: {type: string"+pick("", ", default: x", ", enum: [x, y]")+"}}}}"+
				pick("", "", ", x-kubernetes-validations: [{rule: 'has(self.status)'}]", ", x-kubernetes-validations: [{rule: '!has(self.status) || !has(self.status.p) || self.status.p == \"x\"'}]",
					", x-kubernetes-validations: [{rule: '!has(self.status) || has(self.spec) && has(self.spec.a) && self.spec.a > 5'}]")+"}")
	}
	domain := []map[string]any{{}, {"spec": map[string]any{}}, {"spec": map[string]any{"a": int64(1)}}, {"spec": map[string]any{"a": int64(9)}}}
	for _, status := range []map[string]any{{}, {"p": "x"}, {"p": "y"}} {
		domain = append(domain, map[string]any{"status": status}, map[string]any{"spec": map[string]any{"a": int64(1)}, "status": status}, map[string]any{"spec": map[string]any{"a": int64(9)}, "status": status})
	}
	safe, harmed := 0, 0
	for i := range draws.Count(1000) {
		old, new := patched(t, "versions:\n"+draw()), patched(t, "versions:\n"+draw())
		if !takes(t, old) || !takes(t, new) {
			continue
		}
		got, err := Check(t.Context(), old, new, Options{})
		if err != nil {
			t.Fatal(err)
		}
		failed := slices.ContainsFunc(got.Findings, func(f report.Finding) bool { return f.Severity == report.Fail })
		before, after := newWorld(t, old), newWorld(t, new)
		for _, fields := range domain {
			obj := map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w", "namespace": "default"}}
			maps.Copy(obj, fields)
			was, err := before.validators["v1"].Create(t.Context(), obj)
			if err != nil {
				t.Fatal(err)
			}
			now, err := after.validators["v1"].Create(t.Context(), obj)
			if err != nil {
				t.Fatal(err)
			}
			if was.Refused() || !now.Refused() {
				continue
			}
			harmed++
			if !failed {
				t.Fatalf("case %d: creating %v is refused now: %v; told: %v\nold: %s\nnew: %s", i, fields, now.Errors, ruleIDs(got.Findings), describeAll(old), describeAll(new))
			}
		}
		if !failed {
			safe++
		}
	}
	if safe < 5 || harmed < 50 {
		t.Errorf("%d safe cases, %d refused creations: the test shows little", safe, harmed)
	}
}

// A finding about a default names the version that has it, which need not be the one that refuses the object.
func TestTheVersionWithTheDefaultIsNamed(t *testing.T) {
	const rule = ", x-kubernetes-validations: [{rule: '!has(self.f) || has(self.g)'}]"
	spec := func(field, rules string) string {
		return "{type: object, properties: {spec: {type: object, properties: {f: {type: string" + field + "}, g: {type: string}}" + rules + "}}}"
	}
	old := patched(t, "versions:\n"+statusVersion("v1", "served: true, storage: true", spec("", rule)))
	new := patched(t, "versions:\n"+statusVersion("v1", "served: true, storage: false", spec("", rule))+statusVersion("v2", "served: false, storage: true", spec(", default: x", "")))
	got := check(t, old, new)
	i := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == "versions-contradict" })
	if i < 0 || !strings.HasPrefix(got.Findings[i].Message, "the default in v2 makes v1 refuse objects written as v1: ") || got.Findings[i].Path != ".spec.f" {
		t.Errorf("%+v", got.Findings)
	}
}

// What a client of another served version writes has that version's defaults, which a third version may refuse.
func TestADefaultThatAnotherVersionFillsInWhenItWrites(t *testing.T) {
	versions := func(v2 string) string {
		const plain = "{type: object, properties: {spec: {type: object, properties: {mode: {type: stringMORE}}}}}"
		more := func(text string) string { return strings.Replace(plain, "MORE", text, 1) }
		return "versions:\n" + statusVersion("v1", "served: true, storage: true", more("")) +
			statusVersion("v2", "served: true, storage: false", more(v2)) +
			statusVersion("v3", "served: true, storage: false", more(", enum: [a]"))
	}
	old, new := patched(t, versions("")), patched(t, versions(", default: x"))
	got, err := Check(t.Context(), old, new, Options{})
	if err != nil {
		t.Fatal(err)
	}
	told := slices.ContainsFunc(got.Findings, func(f report.Finding) bool {
		return f.Severity == report.Fail && f.Version == "v3" && f.Path == ".spec.mode"
	})
	after := newWorld(t, new)
	stored := newWorld(t, old).write(t, "v1", "v1", map[string]any{})
	_, _, next := after.label(t, stored, "v2")
	if _, refused, _ := after.label(t, next, "v3"); len(refused) == 0 {
		t.Fatalf("the API server lets %v pass: the test shows nothing", next)
	}
	if !told {
		t.Errorf("%s: %v", got.Verdict, listed(got))
	}
}

// What is blamed is what changed: a rule about updates that is as before is not said to be added.
func TestARuleAboutUpdatesThatIsAsBeforeIsNotBlamed(t *testing.T) {
	const field = "{type: string, maxLength: 9FILLED, x-kubernetes-validations: [{rule: self == oldSelf}]}"
	own := func(filled string) string { return strings.ReplaceAll(field, "FILLED", filled) }
	for name, c := range map[string]struct{ old, new, says string }{
		"its own default":     {"f: " + own(""), "f: " + own(", default: std"), ".spec.f has a default now"},
		"a default around it": {"p: {type: object, properties: {f: " + own("") + "}}", "p: {type: object, default: {f: std}, properties: {f: " + own("") + "}}", ".spec.p has a default now"},
	} {
		t.Run(name, func(t *testing.T) {
			got := check(t, specCRD(t, c.old), specCRD(t, c.new))
			i := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == "transition-rule-added" })
			if i < 0 || !strings.Contains(got.Findings[i].Message, "is as before, but "+c.says) || got.Findings[i].Before != got.Findings[i].After {
				t.Errorf("%s", listed(got))
			}
		})
	}
}
