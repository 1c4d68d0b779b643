package compat

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice.dev/report"
	"sluice.dev/schema/upstream"
	"sluice.dev/tools/draws"
)

// TestReachabilityAcrossVersions draws CRDs of several versions and holds the verdict against all objects of a small domain,
// by the API server's code: each is written in each version of the old CRD, stored, read under the new CRD in each served
// version, written back, and written back once more. Some CRDs have objects that were stored in another version than today's. What fares worse than under the old CRD is told, and what is told between versions happens.
func TestReachabilityAcrossVersions(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	domain := specs()
	harms := 0
	for i := range draws.Count(200) {
		old, like := drawVersions(t, r, nil)
		new, _ := drawVersions(t, r, like)
		if r.IntN(3) == 0 {
			for _, v := range old.Spec.Versions {
				if v.Served || v.Storage {
					old.Status.StoredVersions = append(old.Status.StoredVersions, v.Name)
				}
			}
		}
		before, after := newWorld(t, old), newWorld(t, new)
		gone := func(name string) bool { return after.validators[name] == nil }
		if gone(before.store().Name) || slices.ContainsFunc(old.Status.StoredVersions, gone) || !takes(t, old) || !takes(t, new) {
			continue // the stored version is gone, so that nothing can be read; or the API server takes no such CRD
		}
		got, err := Check(t.Context(), old, new, Options{})
		if err != nil {
			t.Fatal(err)
		}
		happens := map[string]bool{} // version and path
		for _, from := range old.Spec.Versions {
			if !from.Served {
				continue
			}
			for _, spec := range domain {
				for _, in := range before.storing(from.Name) {
					stored := before.write(t, from.Name, in, spec)
					if stored == nil {
						continue
					}
					for _, to := range new.Spec.Versions {
						if !to.Served {
							continue
						}
						erased, refused, next := after.label(t, stored, to.Name)
						var wasErased, wasRefused []string
						var nextBefore map[string]any
						if before.serves(to.Name) {
							wasErased, wasRefused, nextBefore = before.label(t, stored, to.Name)
						}
						harmed := func(kind, version string, must bool, paths, was []string) {
							for _, path := range paths {
								around := func(was string) bool { return strings.HasPrefix(path+".", was+".") }
								if slices.ContainsFunc(was, around) {
									continue
								}
								happens[version+" "+path] = true
								if path == "spec" && len(was) > 0 { // rules were not evaluated then
									continue
								}
								if must && !fails(got, path) {
									t.Fatalf("case %d: an object of %s, stored in %s, is %s at %s by %s, and nothing is told:\n%v\nold:\n%s\nnew:\n%s",
										i, from.Name, in, kind, path, version, spec, describe(old), describe(new))
								}
								harms++
							}
						}
						harmed("erased", to.Name, true, erased, wasErased)
						if created := after.create(t, from.Name, spec); created != nil && in == before.store().Name && to.Name == from.Name {
							harmed("dropped by storage", after.store().Name, true, missing(spec, created["spec"], "spec"), missing(spec, stored["spec"], "spec"))
						}
						harmed("refused", to.Name, true, refused, wasRefused)
						// Rule added-in-one-version reports what a new version fills in when its clients write.
						must := before.serves(to.Name)
						was, wasLater := before.labels(t, stored), before.labels(t, nextBefore)
						for version, paths := range after.labels(t, next) {
							harmed("refused later", version, must, paths, slices.Concat(wasRefused, was[version], wasLater[version]))
						}
					}
				}
			}
		}
		for _, f := range got.Findings {
			if f.Outcome != report.Violation || f.Rule != "version-erases-data" && f.Rule != "versions-contradict" {
				continue
			}
			if !slices.ContainsFunc(slices.Collect(maps.Keys(happens)), func(k string) bool {
				version, path, _ := strings.Cut(k, " ")
				return version == f.Version && (strings.HasPrefix(path, strings.TrimPrefix(f.Path, ".")) || strings.HasPrefix(strings.TrimPrefix(f.Path, "."), path))
			}) {
				t.Fatalf("case %d: %s %s is told and does not happen: %s\n%s\nold:\n%s\nnew:\n%s", i, f.Rule, f.Path, f.Message, f.Witness.Object, describe(old), describe(new))
			}
		}
	}
	if harms == 0 {
		t.Error("no case did harm")
	}
}

func takes(t *testing.T, d *crd) bool {
	t.Helper()
	errs, err := upstream.ValidateCRD(t.Context(), d, nil)
	if err != nil {
		t.Fatal(err)
	}
	return len(errs) == 0
}

// A version that dropped a field until now, and refuses some of its values from now on, is told.
func TestAFieldThatWasDroppedIsRefused(t *testing.T) {
	const v1 = "versions:\n- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {b: {type: string}}}}}}}\n"
	const v2 = "- {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: "
	got := check(t, patched(t, v1+v2+"{a: {type: string}}}}}}}\n"), patched(t, v1+v2+"{a: {type: string}, b: {type: string, enum: [x]}}}}}}}\n"))
	if !slices.Contains(ruleIDs(got.Findings), "versions-contradict") {
		t.Errorf("%v", ruleIDs(got.Findings))
	}
}

// A default that the stored version fills in while it reads can be one that another version refuses.
func TestADefaultThatAnotherVersionRefuses(t *testing.T) {
	version := func(name, how, spec string) string {
		return "- {name: " + name + ", " + how + ", schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, " + spec + "}}}}}\n"
	}
	const small = "properties: {size: {type: integer, maximum: 3}}"
	second := version("v2", "served: true, storage: false", small)
	old := patched(t, "versions:\n"+version("v1", "served: true, storage: true", small)+second)
	new := patched(t, "versions:\n"+version("v1", "served: true, storage: true", "properties: {size: {type: integer, default: 9}}")+second)
	got := check(t, old, new)
	i := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == "versions-contradict" })
	if i < 0 || got.Findings[i].Version != "v2" || got.Findings[i].Path != ".spec.size" {
		t.Errorf("%+v", got.Findings)
	}
}

// What the new CRD fills in when it reads an object can make rules of another version refuse it, at another place than the
// default.
func TestADefaultThatARuleOfAnotherVersionRefuses(t *testing.T) {
	version := func(name, how, spec string) string {
		return "- {name: " + name + ", " + how + ", schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, " + spec + "}}}}}\n"
	}
	const fields, filled = "properties: {kind: {type: string}, size: {type: integer}}", "properties: {kind: {type: string, default: A}, size: {type: integer}}"
	const demands = ", x-kubernetes-validations: [{rule: '!has(self.kind) || self.kind != \"A\" || has(self.size)'}]"
	const fixed = ", x-kubernetes-validations: [{rule: 'self == oldSelf'}]"
	for name, c := range map[string]struct{ oldFirst, oldSecond, newFirst, newSecond string }{
		"filled in by reading":      {fields, fields + demands, filled, fields + demands},
		"filled in by writing back": {fields + fixed, "", fields + fixed, filled + fixed},
		"as it was":                 {fields + fixed, filled + fixed, fields + ", maxProperties: 5" + fixed, filled + fixed},
	} {
		t.Run(name, func(t *testing.T) {
			both := func(first, second string) *crd {
				text := "versions:\n" + version("v1", "served: true, storage: true", first)
				if second != "" {
					text += version("v2", "served: true, storage: false", second)
				}
				return patched(t, text)
			}
			got := check(t, both(c.oldFirst, c.oldSecond), both(c.newFirst, c.newSecond))
			i := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == "versions-contradict" })
			if name == "as it was" {
				if i >= 0 {
					t.Errorf("%s", listed(got))
				}
			} else if i < 0 || got.Findings[i].Path != ".spec.kind" || got.Findings[i].Version != "v2" {
				t.Errorf("%s", listed(got))
			}
		})
	}
}

// A default of the stored version is filled in for objects that were written in another one, too, which may have values that the
// stored one refuses: clients of that other version cannot write them back.
func TestADefaultThatTheWritersOwnVersionRefuses(t *testing.T) {
	version := func(name, how, spec string) string {
		return "- {name: " + name + ", " + how + ", schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, " + spec + "}}}}}\n"
	}
	const rule = ", x-kubernetes-validations: [{rule: '!has(self.size) || !has(self.kind) || self.kind != \"B\"'}]"
	const opaque = ", x-kubernetes-validations: [{rule: '!has(self.size) || !has(self.kind) || self.kind == \"A\" || self.kind.replace(\"ab\", \"\").size() <= self.kind.size()'}]"
	for name, c := range map[string]struct {
		more, rules string
		outcome     report.Outcome
	}{
		"the version of the writer": {"", rule, report.Violation},
		"a third version":           {version("v3", "served: true, storage: false", "properties: {kind: {type: string}, size: {type: integer}}"), rule, report.Violation},
		"not decided":               {"", opaque, report.Undecided},
	} {
		t.Run(name, func(t *testing.T) {
			both := func(size string) *crd {
				return patched(t, "versions:\n"+version("v1", "served: true, storage: true", "properties: {kind: {type: string, enum: [A]}, size: "+size+"}")+
					version("v2", "served: true, storage: false", "properties: {kind: {type: string}, size: {type: integer}}"+c.rules)+c.more)
			}
			got := check(t, both("{type: integer}"), both("{type: integer, default: 7}"))
			if !slices.ContainsFunc(got.Findings, func(f report.Finding) bool {
				return f.Rule == "versions-contradict" && f.Version == "v2" && f.Outcome == c.outcome
			}) || got.Verdict.Proven() {
				t.Errorf("%s: %s", got.Verdict, listed(got))
			}
		})
	}
}

// A rule about updates in another version counts where it refuses even a label.
func TestARuleAboutUpdatesOfANewVersion(t *testing.T) {
	version := func(name, how, spec string) string {
		return "- {name: " + name + ", " + how + ", schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {kind: {type: string}}" + spec + "}}}}}\n"
	}
	old := patched(t, "versions:\n"+version("v1", "served: true, storage: true", ""))
	for rule, told := range map[string]bool{
		"self.kind == oldSelf.kind": true,
		"self == oldSelf":           false,
		"!has(oldSelf.kind) || has(self.kind) && self.kind == oldSelf.kind":                false,
		"!has(oldSelf.kind) || oldSelf.kind != \"A\" || self.?kind.orValue(\"\") == \"B\"": true,
	} {
		t.Run(rule, func(t *testing.T) {
			got := check(t, old, patched(t, "versions:\n"+version("v1", "served: true, storage: false", "")+
				version("v2", "served: true, storage: true", ", x-kubernetes-validations: [{rule: '"+rule+"'}]")))
			if slices.Contains(ruleIDs(got.Findings), "versions-contradict") != told || (got.Verdict == report.Unsafe) != told {
				t.Errorf("%s", listed(got))
			}
		})
	}
}

// A null that clients of another version wrote is dropped by the stored version, though that one would have refused it.
func TestANullThatOnlyTheOtherVersionWrites(t *testing.T) {
	version := func(name, how, spec string) string {
		return "- {name: " + name + ", " + how + ", schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, " + spec + "}}}}}\n"
	}
	const null = "properties: {on: {type: boolean, nullable: true}}"
	second := version("v2", "served: true, storage: false", null)
	got := check(t, patched(t, "versions:\n"+version("v1", "served: true, storage: true", null+", not: {required: [on]}")+second),
		patched(t, "versions:\n"+version("v1", "served: true, storage: true", "properties: {on: {type: boolean}}, not: {required: [on]}")+second))
	if got.Verdict != report.Unsafe || !slices.Contains(ruleIDs(got.Findings), "version-erases-data") {
		t.Errorf("%s: %s", got.Verdict, listed(got))
	}
}

// A bound that does not fit the type refuses every number, with an error that has no path.
func TestABoundThatFitsNoNumberOfANewVersion(t *testing.T) {
	version := func(name, how, bound string) string {
		return "- {name: " + name + ", " + how + ", schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer, maximum: " + bound + "}}}}}}}\n"
	}
	got := check(t, patched(t, "versions:\n"+version("v1", "served: true, storage: true", "1")),
		patched(t, "versions:\n"+version("v1", "served: true, storage: true", "1")+version("v2", "served: true, storage: false", "2.5")))
	if !slices.Contains(ruleIDs(got.Findings), "versions-contradict") {
		t.Errorf("%s: %s", got.Verdict, listed(got))
	}
}

// What is stored holds 1 where a client sent 1.0, so that no version meets that.
func TestNumbersBetweenVersionsAreReadAsTheyAreStored(t *testing.T) {
	version := func(name, how, spec string) string {
		return "- {name: " + name + ", " + how + ", schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, " + spec + "}}}}}\n"
	}
	both := func(size string) *crd {
		return patched(t, "versions:\n"+version("v1", "served: true, storage: true", "properties: {count: {type: integer, maximum: 4}, size: "+size+"}")+
			version("v2", "served: true, storage: false", "properties: {count: {type: integer}, size: {type: integer}}, x-kubernetes-validations: [{rule: '!has(self.size) || !has(self.count) || self.count < 5'}]"))
	}
	for _, f := range check(t, both("{type: integer}"), both("{type: integer, default: 7}")).Findings {
		if f.Rule == "versions-contradict" && f.Witness != nil && strings.Contains(f.Message, "float64") {
			t.Errorf("%s: %s", f.Message, f.Witness.Object)
		}
	}
}

// Of two new defaults, each alone can be harmless to the simplest object that lacks it, because the other one goes with it.
func TestTwoDefaultsOfWhichAnotherVersionRefusesOne(t *testing.T) {
	version := func(name, how, spec string) string {
		return "- {name: " + name + ", " + how + ", schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, " + spec + "}}}}}\n"
	}
	second := version("v2", "served: true, storage: false", "properties: {kind: {type: string, enum: [A, B]}, big: {type: boolean}}, x-kubernetes-validations: [{rule: '!has(self.big) || !has(self.kind) || self.kind == \"A\"'}]")
	old := patched(t, "versions:\n"+version("v1", "served: true, storage: true", "properties: {kind: {type: string, enum: [A, B]}, big: {type: boolean}}")+second)
	new := patched(t, "versions:\n"+version("v1", "served: true, storage: true", "properties: {kind: {type: string, enum: [A, B], default: A}, big: {type: boolean, default: false}}")+second)
	got := check(t, old, new)
	if !slices.ContainsFunc(got.Findings, func(f report.Finding) bool {
		return f.Rule == "versions-contradict" && f.Version == "v2" && f.Path == ".spec.big" && f.Witness != nil
	}) {
		t.Errorf("%s: %s", got.Verdict, listed(got))
	}
}

// What a write in one version leaves behind has the defaults of that version, which the other one reads.
func TestTheWritersDefaultsAreRead(t *testing.T) {
	version := func(name, how, spec string) string {
		return "- {name: " + name + ", " + how + ", schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, " + spec + "}}}}}\n"
	}
	const demands = "required: [size], properties: {size: {type: integer}}"
	const fills = "properties: {size: {type: integer, default: 3}}"
	const leaves = "properties: {size: {type: integer}}"
	v1 := version("v1", "served: true, storage: true", demands)
	for name, c := range map[string]struct{ second, rule string }{
		"the other version fills it in":      {fills, ""},
		"the other version leaves it out":    {leaves, "added-in-one-version"},
		"the other version narrows it":       {"properties: {size: {type: integer, maximum: 3}}", "versions-contradict"},
		"the other version does not have it": {"properties: {other: {type: integer}}", "version-erases-data"},
	} {
		t.Run(name, func(t *testing.T) {
			old := patched(t, "versions:\n"+v1)
			new := patched(t, "versions:\n"+v1+version("v2", "served: true, storage: false", c.second))
			got := check(t, old, new)
			if c.rule == "" && len(got.Findings) > 0 {
				t.Errorf("%v", got.Findings)
			}
			if c.rule != "" && !slices.Contains(ruleIDs(got.Findings), c.rule) {
				t.Errorf("%v, want %s", ruleIDs(got.Findings), c.rule)
			}
			for _, f := range got.Findings {
				if w := f.Witness; w != nil && (w.AcceptedBy == "" || w.JudgedBy == "" || strings.Contains(w.AcceptedBy, "v2 of the old")) {
					t.Errorf("%s names %q and %q", f.Rule, w.AcceptedBy, w.JudgedBy)
				}
			}
		})
	}
}

// A default makes a value differ from the old one only where it is filled in: in a field that some object has.
func TestADefaultBelowANewFieldEndsRatchetingWhereTheFieldIsKept(t *testing.T) {
	version := func(name string, storage bool, spec string) string {
		return fmt.Sprintf("- {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, %s}}}}}\n", name, storage, spec)
	}
	const demands, fills = "required: [version], properties: {version: {type: string}", "new: {type: object, properties: {protocol: {type: string, default: TCP}}}"
	const keeps = "properties: {version: {type: string}}, x-kubernetes-preserve-unknown-fields: true"
	for name, c := range map[string]struct {
		beta   string // what v1beta1 says of spec
		stored bool   // v1 is stored
		safe   bool
	}{
		"which the other version drops":                {"properties: {version: {type: string}}", false, true},
		"which the other version declares":             {"properties: {version: {type: string}, new: {type: object, properties: {protocol: {type: string}}}}", false, false},
		"which the other version keeps":                {keeps, false, false},
		"that is filled in before values are compared": {keeps, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			beta := version("v1beta1", !c.stored, c.beta)
			old := patched(t, "versions:\n"+version("v1", c.stored, demands+", new: {type: object, properties: {protocol: {type: string}}}}")+beta)
			new := patched(t, "versions:\n"+version("v1", c.stored, demands+", "+fills+"}")+beta)
			got := check(t, old, new)
			if safe := !slices.Contains(ruleIDs(got.Findings), "versions-contradict"); safe != c.safe {
				t.Errorf("%s: %s", got.Verdict, listed(got))
			}
		})
	}
}

// More ways in which values around an error differ from the old ones under the new CRD alone. Each pair was seen on an API server: a label is
// accepted under the old CRD, and refused under the new one.
func TestValuesThatDifferWithoutAClient(t *testing.T) {
	version := func(name string, storage bool, spec string) string {
		return fmt.Sprintf("- {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, %s}}}}}\n", name, storage, spec)
	}
	const keep, text, free = ", x-kubernetes-preserve-unknown-fields: true", "{type: string}", "{x-kubernetes-preserve-unknown-fields: true}"
	of := func(stored, spec string) string { return version("v1beta1", true, stored) + version("v1", false, spec) }
	for name, c := range map[string]struct {
		before, after string
		stored        []string
	}{
		"beside a field that the stored version drops": {
			before: of("required: [v], properties: {a: "+text+", v: "+text+"}", "required: [b], properties: {a: "+text+", b: "+text+", v: "+text+"}"),
			after:  of("required: [v], properties: {a: "+text+", v: "+text+"}", "required: [b], properties: {a: "+text+", b: "+text+", v: {type: string, default: zzz}}"),
		},
		"a new rule beside a value of another type": {
			before: of("x-kubernetes-preserve-unknown-fields: true", "properties: {b: "+text+"}"),
			after:  of("x-kubernetes-preserve-unknown-fields: true", "properties: {b: {type: string, x-kubernetes-validations: [{rule: 'self.size() < 3 || self.size() > 2'}]}}"),
		},
		"stored in a third version before": {
			before: version("v1", true, "required: [v], properties: {a: "+text+", b: "+text+", v: "+text+"}") +
				version("v2", false, "required: [v], properties: {a: {type: string, default: yyy}, b: "+text+", v: "+text+"}"+keep) + version("v3", false, "properties: {a: "+text+", b: "+text+", v: "+text+"}"),
			after: version("v1", true, "required: [v], properties: {a: "+text+", b: {type: string, default: zzz}, v: "+text+"}") +
				version("v2", false, "required: [v], properties: {a: {type: string, default: yyy}, b: "+text+", v: "+text+"}"+keep) + version("v3", false, "properties: {a: "+text+", b: "+text+", v: "+text+"}"),
			stored: []string{"v1", "v2"},
		},
		"below a default of the reader": {
			before: version("v1", true, "required: [version], properties: {version: {type: string}, new: {type: object, default: {}, properties: {protocol: {type: string}}}}") +
				version("v1beta1", false, "properties: {version: {type: string}}") + version("v2", false, "required: [version], properties: {version: {type: string}, new: {type: object, properties: {protocol: {type: string}}}}"),
			after: version("v1", true, "required: [version], properties: {version: {type: string}, new: {type: object, default: {}, properties: {protocol: {type: string}}}}") +
				version("v1beta1", false, "properties: {version: {type: string}}") + version("v2", false, "required: [version], properties: {version: {type: string}, new: {type: object, properties: {protocol: {type: string, default: TCP}}}}"),
		},
		"below a field of additionalProperties": {
			before: of("additionalProperties: true", "required: [v], properties: {v: "+text+", new: {type: object, properties: {p: "+text+"}}}"),
			after:  of("additionalProperties: true", "required: [v], properties: {v: "+text+", new: {type: object, properties: {p: {type: string, default: TCP}}}}"),
		},
		"a map that takes anything": {
			before: of("properties: {v: "+text+", m: {type: object, additionalProperties: "+text+"}}", "required: [v], properties: {v: "+text+", m: {type: object, additionalProperties: "+text+"}}"),
			after:  of("properties: {v: "+text+", m: {type: object, additionalProperties: "+text+"}}", "required: [v], properties: {v: "+text+", m: {type: object, additionalProperties: true}}"),
		},
		"below a default that is new": {
			before: of("properties: {v: "+text+", a: {type: object, properties: {}}}", "required: [v], properties: {v: "+text+", a: {type: object, properties: {b: {type: string, default: yyy}}}}"),
			after:  of("properties: {v: "+text+", a: {type: object, default: {}, properties: {}}}", "required: [v], properties: {v: "+text+", a: {type: object, properties: {b: {type: string, default: yyy}}}}"),
		},
		"a default of an unknown field": {
			before: of("properties: {v: "+text+", b: "+text+"}", "required: [v], properties: {v: "+text+"}"+keep),
			after:  of("properties: {v: "+text+", b: {type: string, default: yyy}}", "required: [v], properties: {v: "+text+"}"+keep),
		},
		"in another item": {
			before: of("properties: {l: {type: array, items: {type: object, properties: {c: {type: integer}, b: "+free+"}}}}", "properties: {l: {type: array, items: {type: object, properties: {c: {type: integer}, b: "+text+"}}}}"),
			after:  of("properties: {l: {type: array, items: {type: object, properties: {c: {type: integer}, b: "+free+"}}}}", "properties: {l: {type: array, items: {type: object, properties: {c: {type: integer}, b: {type: string, default: yyy}}}}}"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			old := patched(t, "versions:\n"+c.before)
			old.Status.StoredVersions = c.stored
			if got := check(t, old, patched(t, "versions:\n"+c.after)); !slices.Contains(ruleIDs(got.Findings), "versions-contradict") {
				t.Errorf("%s: %s", got.Verdict, listed(got))
			}
		})
	}
}

// A version that nobody serves still reads what it stored, and drops the fields of a value that is no object to it any more.
func TestAVersionThatIsOnlyStoredLosesFieldsOfAnotherType(t *testing.T) {
	of := func(spec string) string {
		return "versions:\n- {name: v1alpha1, served: false, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true" + spec + "}}}}}\n" +
			"- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}\n"
	}
	old := patched(t, of(""))
	old.Status.StoredVersions = []string{"v1alpha1", "v1"}
	if got := check(t, old, patched(t, of(", properties: {a: {type: integer}}"))); !slices.Contains(ruleIDs(got.Findings), "type-added") || got.Findings[0].Level != report.DataLost {
		t.Errorf("%s: %s", got.Verdict, listed(got))
	}
}

// What clients of one version wrote is pruned by the stored version, though that one would have refused all that has the field.
func TestAFieldThatOnlyTheOtherVersionWrites(t *testing.T) {
	version := func(name, how, spec string) string {
		return "- {name: " + name + ", " + how + ", schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, " + spec + "}}}}}\n"
	}
	const field = "properties: {size: {type: integer}}"
	for name, stored := range map[string]string{"served": "served: true, storage: true", "only stored": "served: false, storage: true"} {
		t.Run(name, func(t *testing.T) {
			second := version("v2", "served: true, storage: false", field)
			old := patched(t, "versions:\n"+version("v1", stored, field+", not: {required: [size]}")+second)
			new := patched(t, "versions:\n"+version("v1", stored, "properties: {other: {type: integer}}, not: {required: [size]}")+second)
			got := check(t, old, new)
			i := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == "version-erases-data" })
			if i < 0 || got.Findings[i].Path != ".spec.size" || got.Verdict != report.Unsafe {
				t.Errorf("%s", listed(got))
			}
		})
	}
}

// fails reports whether a finding fails the check at the path, above it or below it.
func fails(got report.CRD, path string) bool {
	return slices.ContainsFunc(got.Findings, func(f report.Finding) bool {
		own := strings.TrimSuffix(strings.TrimPrefix(f.Path, "."), ".*")
		return f.Severity == report.Fail && own != "" && (strings.HasPrefix(path, own) || strings.HasPrefix(own, path))
	})
}

func describe(d *crd) string {
	var b strings.Builder
	for _, v := range d.Spec.Versions {
		fmt.Fprintf(&b, "%s served=%t storage=%t %s\n", v.Name, v.Served, v.Storage, compactJSON(v.Schema.OpenAPIV3Schema.Properties["spec"]))
	}
	return b.String()
}

// A gap that the old CRD had at the same place is news for objects that lost fields on the way before, and keep them now.
func TestAGapThatOtherObjectsMetBefore(t *testing.T) {
	version := func(name string, storage bool, spec string) string {
		return fmt.Sprintf("- {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, %s}}}}}\n", name, storage, spec)
	}
	const keep, list = ", x-kubernetes-preserve-unknown-fields: true", "{type: array, items: {type: string}}"
	for name, c := range map[string]struct {
		first, second, then string // v1, v2, and v2 of the new CRD
		outcome             report.Outcome
	}{
		"nobody met it":               {"required: [l], properties: {l: " + list + "}", "not: {required: [l]}", "not: {required: [l]}" + keep, report.Violation},
		"declared from now on":        {"required: [l], properties: {l: " + list + "}", "not: {required: [l]}", "not: {required: [l]}, properties: {l: " + list + "}", report.Violation},
		"of an unknown field":         {"properties: {a: " + list + "}" + keep, "properties: {a: " + list + "}, not: {required: [l]}", "properties: {a: " + list + ", l: " + list + "}, not: {required: [l]}", report.Violation},
		"others met it, not decided":  {"properties: {l: " + list + ", m: " + list + "}", "not: {anyOf: [{required: [l]}, {required: [m]}]}, properties: {l: " + list + "}", "not: {anyOf: [{required: [l]}, {required: [m]}]}, properties: {l: " + list + ", m: " + list + "}", report.Undecided},
		"those that have it met it":   {"properties: {l: " + list + "}", "not: {required: [l]}, properties: {l: " + list + "}", "not: {required: [l]}, properties: {l: " + list + "}" + keep, ""},
		"a field of another place":    {"properties: {l: " + list + ", o: {type: object, properties: {m: " + list + "}}}", "properties: {l: {type: array, maxItems: 2, items: {type: string}}, o: {type: object}}", "properties: {l: {type: array, maxItems: 2, items: {type: string}}, o: {type: object, properties: {m: " + list + "}}}", ""},
		"a field that is still lost":  {"required: [l], properties: {l: " + list + "}", "not: {required: [l]}", "not: {required: [l]}, properties: {m: " + list + "}", ""},
		"a field of no other version": {"properties: {l: " + list + "}", "not: {required: [l]}, properties: {l: " + list + "}", "not: {required: [l]}, properties: {l: " + list + ", m: " + list + "}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, stored := range [][2]bool{{false, false}, {false, true}, {true, true}} { // as v2, before and after
				old := patched(t, "versions:\n"+version("v1", !stored[0], c.first)+version("v2", stored[0], c.second))
				new := patched(t, "versions:\n"+version("v1", !stored[1], c.first)+version("v2", stored[1], c.then))
				want := c.outcome
				if stored[0] { // what v2 dropped was never stored
					want = ""
				}
				got := check(t, old, new)
				i := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == "versions-contradict" && f.Version == "v2" })
				if want == "" && i >= 0 || want != "" && (i < 0 || got.Findings[i].Outcome != want || got.Verdict.Proven()) {
					t.Errorf("stored as v2: %v: %s\n%s", stored, got.Verdict, listed(got))
				}
			}
		})
	}
}

// A field that one version stores as an unknown one is lost where the stored version declared it and no longer does, though it
// dropped other unknown fields before.
func TestAFieldThatOnlyAnotherVersionStored(t *testing.T) {
	version := func(name string, storage bool, spec string) string {
		return fmt.Sprintf("- {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, %s}}}}}\n", name, storage, spec)
	}
	const never = ", x-kubernetes-validations: [{rule: '!has(self.a)'}]"
	second := version("v2", false, "x-kubernetes-preserve-unknown-fields: true")
	for name, c := range map[string]struct{ before, after, path string }{
		"in an object":            {"type: object, properties: {m: {type: integer}, deep: {type: integer}}", "type: object, properties: {m: {type: integer}}", ".spec.a.deep"},
		"in a list":               {"type: array, items: {type: object, properties: {m: {type: integer}, deep: {type: integer}}}", "type: array, items: {type: object, properties: {m: {type: integer}}}", ".spec.a[*].deep"},
		"in a map":                {"type: object, additionalProperties: {type: object, properties: {deep: {type: integer}}}", "type: object, additionalProperties: {type: object}", ".spec.a.*.deep"},
		"a null":                  {"type: object, properties: {deep: {type: integer, nullable: true}}", "type: object", ".spec.a.deep"},
		"one that was never kept": {"type: object, properties: {m: {type: integer}}", "type: object, maxProperties: 3, properties: {m: {type: integer}}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := check(t, patched(t, "versions:\n"+version("v1", true, "properties: {a: {"+c.before+"}}"+never)+second),
				patched(t, "versions:\n"+version("v1", true, "properties: {a: {"+c.after+"}}"+never)+second))
			i := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == "version-erases-data" })
			if c.path == "" && i >= 0 || c.path != "" && (i < 0 || got.Findings[i].Path != c.path || got.Findings[i].Outcome != report.Violation) {
				t.Errorf("%s\n%s", got.Verdict, listed(got))
			}
		})
	}
}

// Reading fills in the old value of an update in another version, and nothing fills in the new one: rules about updates that the old
// CRD never broke refuse to set the field for the first time, or to leave it out.
func TestADefaultOfTheStoredVersionUnderRulesAboutUpdates(t *testing.T) {
	version := func(name, how, spec string) string {
		return "- {name: " + name + ", " + how + ", schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, " + spec + "}}}}}\n"
	}
	both := func(filled, own, rule string) *crd {
		return patched(t, "versions:\n"+version("v1", "served: true, storage: true", "properties: {f: {type: string, maxLength: 9"+filled+"}}")+
			version("v2", "served: true, storage: false", "properties: {f: {type: string, maxLength: 9"+own+"}}"+rule))
	}
	const rules = ", x-kubernetes-validations: [{rule: '"
	for name, c := range map[string]struct {
		own, rule string
		told      bool
	}{
		"set for the first time": {own: rules + "self == oldSelf'}]", told: true},
		"left out":               {rule: rules + "!has(oldSelf.f) || has(self.f)'}]", told: true},
		"set or not":             {rule: rules + "has(self.f) == has(oldSelf.f)'}]", told: true},
		"another field":          {rule: rules + "!has(self.f) || !has(oldSelf.f) || self.f.size() < 10'}]"},
		"a rule about creation":  {rule: rules + "!has(self.f) || self.f.size() < 10'}]"},
		"the version fills it in too, and it may change": {own: ", default: x" + rules + "self.size() >= 0 || self == oldSelf'}]"},
	} {
		t.Run(name, func(t *testing.T) {
			got := check(t, both("", c.own, c.rule), both(", default: x", c.own, c.rule))
			i := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == "versions-contradict" })
			if i >= 0 != c.told || i >= 0 && (got.Findings[i].Version != "v2" || got.Findings[i].Path != ".spec.f" || !strings.Contains(got.Findings[i].Message, "failed rule")) {
				t.Errorf("%s", listed(got))
			}
		})
	}
}

// What the other versions fill in decides what a rule about updates compares with: the version that reads the object, the new storage
// version, and each version in which it is written.
func TestOldValuesOfUpdatesHaveTheDefaultsOfOtherVersions(t *testing.T) {
	version := func(name string, storage bool, spec string) string {
		return fmt.Sprintf("- {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, %s}}}}}\n", name, storage, spec)
	}
	const rules = ", x-kubernetes-validations: [{rule: '"
	plain := func(more string) string {
		return "properties: {f: {type: string, maxLength: 9" + more + "}, g: {type: integer}}"
	}
	coded := func(more string) string {
		return `properties: {f: {type: string, maxLength: 9, pattern: "^q[0-9]{3}$"` + more + "}, g: {type: integer}}"
	}
	item := func(more string) string {
		return "properties: {l: {type: array, maxItems: 3, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}, " +
			"f: {type: string, maxLength: 9" + more + "}}}}}"
	}
	const frozen, kept = rules + "self == oldSelf'}]", rules + "!has(oldSelf.f) || has(self.f)'}]"
	for name, c := range map[string]struct {
		first, second [2]string // v1 and v2, before and after
		stored        [2]string
		in            string // the version that refuses
		path          string
		outcome       report.Outcome
	}{
		"the storage version gains a default": {
			first: [2]string{plain(""), plain(", default: x")}, second: [2]string{plain(frozen), plain(frozen)}, in: "v2", path: ".spec.f", outcome: report.Violation,
		},
		"no value is found that may be set": {
			first: [2]string{coded(""), coded(", default: q000")}, second: [2]string{coded(frozen), coded(frozen)}, in: "v2", path: ".spec.f", outcome: report.Undecided,
		},
		"another version becomes the storage version": {
			first: [2]string{plain(frozen), plain(frozen)}, second: [2]string{plain(", default: x"), plain(", default: x")}, stored: [2]string{"v1", "v2"},
			in: "v1", path: ".spec.f", outcome: report.Violation,
		},
		"another version becomes the storage version, and the field must stay": {
			first: [2]string{plain("") + kept, plain("") + kept}, second: [2]string{plain(", default: x"), plain(", default: x")}, stored: [2]string{"v1", "v2"},
			in: "v1", path: ".spec.f", outcome: report.Violation,
		},
		"a version that only writes gains a default": {
			first: [2]string{plain(frozen), plain(frozen)}, second: [2]string{plain(""), plain(", default: x")}, in: "v1", path: ".spec.f", outcome: report.Violation,
		},
		"in the items of a list map": {
			first: [2]string{item(""), item(", default: x")}, second: [2]string{item(frozen), item(frozen)}, in: "v2", path: ".spec.l[*].f", outcome: report.Violation,
		},
		"the storage version loses a default": {
			first: [2]string{plain(", default: x"), plain("")}, second: [2]string{plain("") + frozen, plain("") + frozen}, in: "v2", path: ".spec.f", outcome: report.Violation,
		},
		"another version becomes the storage version, with a default that the first refuses": {
			first: [2]string{plain(", enum: [a]"), plain(", enum: [a]")}, second: [2]string{plain(", default: x"), plain(", default: x")}, stored: [2]string{"v1", "v2"},
			in: "v1", path: ".spec.f", outcome: report.Violation,
		},
		"the version gains a field that another one stored": {
			first: [2]string{plain(""), plain("")}, second: [2]string{"properties: {g: {type: integer}}", plain("") + kept}, in: "v2", path: ".spec", outcome: report.Undecided,
		},
		"only this version requires the field": {
			first: [2]string{plain(""), plain(", default: x")}, second: [2]string{plain(frozen) + ", required: [f]", plain(frozen) + ", required: [f]"}, in: "v2", path: ".spec.f", outcome: report.Violation,
		},
		"both require the field": {
			first: [2]string{plain("") + ", required: [f]", plain(", default: x")}, second: [2]string{plain(frozen) + ", required: [f]", plain(frozen) + ", required: [f]"},
		},
		"another field has the rule": {
			first: [2]string{plain(""), plain(", default: x")}, second: [2]string{plain("") + rules + "!has(self.g) || !has(oldSelf.g) || self.g == oldSelf.g'}]", plain("") + rules + "!has(self.g) || !has(oldSelf.g) || self.g == oldSelf.g'}]"},
		},
		"the rule reads the new value of the field alone": {
			first: [2]string{plain(""), plain(", default: x")}, second: [2]string{plain("") + rules + "!has(self.f) || !has(oldSelf.g)'}]", plain("") + rules + "!has(self.f) || !has(oldSelf.g)'}]"},
		},
		"both storage versions fill in the same": {
			first: [2]string{plain(", default: x" + frozen), plain(", default: x" + frozen)}, second: [2]string{plain(", default: x"), plain(", default: x")}, stored: [2]string{"v1", "v2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			both := func(i int) *crd {
				stored := cmp.Or(c.stored[i], "v1")
				return patched(t, "versions:\n"+version("v1", stored == "v1", c.first[i])+version("v2", stored == "v2", c.second[i]))
			}
			got := check(t, both(0), both(1))
			i := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == "versions-contradict" })
			switch {
			case c.outcome == "":
				if i >= 0 {
					t.Errorf("%s", listed(got))
				}
			case i < 0:
				t.Errorf("nothing is told: %s", listed(got))
			case got.Findings[i].Outcome != c.outcome || got.Findings[i].Version != c.in || got.Findings[i].Path != c.path || got.Verdict.Proven():
				t.Errorf("%s %s", got.Verdict, listed(got))
			}
		})
	}
}
