package life

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/report"
)

// side is features.yaml and a CRD of one side, as far as they are not the usual.
type side struct {
	features, fields, rest, version string
}

// usual is what both sides of a fixture have where they say nothing else.
const (
	usualFields  = "a: {type: string}, b: {type: string}, mode: {type: string, enum: [X, Y]}"
	usualVersion = "v1"
)

// fixture is a change; safe and unsafe follow old.
type fixture struct {
	rule              string
	old, safe, unsafe side
}

func stagesOf(stages string, more ...string) string {
	return "- gate: F\n  stages: [" + stages + "]\n  parts: [{group: example.com, resource: things, field: spec.a}]\n" + strings.Join(more, "")
}

const (
	alpha  = "{stage: Alpha, release: v1.0.0}"
	beta   = "{stage: Beta, release: v1.2.0}"
	stable = "{stage: Stable, release: v1.5.0}"
	// at is the release of the new side.
	betaNow    = "{stage: Beta, release: v1.7.0}"
	stableNow  = "{stage: Stable, release: v1.7.0}"
	goneNow    = "{stage: Removed, release: v1.7.0}"
	documented = "  documentation: docs/f.md\n  tests: {enabled: [TestOn], disabled: [TestOff]}\n"
	values     = "- gate: G\n  stages: [%s]\n  parts: [{group: example.com, resource: things, field: spec.mode, values: [Z]}]\n"
)

var fixtures = []fixture{
	{
		rule: "stage-moved-back", old: side{features: stagesOf(alpha + "," + beta)}, safe: side{features: stagesOf(alpha + "," + beta)},
		unsafe: side{features: stagesOf(alpha)},
	},
	{
		rule: "history-changed", old: side{features: stagesOf(alpha + "," + beta)}, safe: side{features: stagesOf(alpha+","+beta+","+stableNow, documented)},
		unsafe: side{features: stagesOf("{stage: Alpha, release: v0.9.0}," + beta)},
	},
	{rule: "feature-vanished", old: side{features: stagesOf(alpha) + behaviour}, safe: side{features: stagesOf(alpha) + behaviour}, unsafe: side{features: behaviour}},
	{rule: "feature-renamed", old: side{features: stagesOf(alpha)}, safe: side{features: stagesOf(alpha)}, unsafe: side{features: strings.Replace(stagesOf(alpha), "gate: F", "gate: H", 1)}},
	{
		rule: "tombstone-gone", old: side{features: stagesOf(alpha+",{stage: Removed, release: v1.3.0}") + behaviour, fields: "b: {type: string}"},
		safe: side{features: stagesOf(alpha+",{stage: Removed, release: v1.3.0}") + behaviour, fields: "b: {type: string}"}, unsafe: side{features: behaviour, fields: "b: {type: string}"},
	},
	{
		rule: "removed-feature-revived", old: side{features: stagesOf(alpha + ",{stage: Removed, release: v1.3.0}")}, safe: side{features: stagesOf(alpha + ",{stage: Removed, release: v1.3.0}")},
		unsafe: side{features: stagesOf(alpha)},
	},
	{
		rule: "removed-too-early", old: side{features: stagesOf(alpha + "," + beta)}, safe: side{features: stagesOf(alpha+","+beta+","+goneNow, "  announced: {Removed: v1.3.0}\n")},
		unsafe: side{features: stagesOf(alpha+","+beta+","+goneNow, "  announced: {Removed: v1.6.0}\n")},
	},
	{
		rule: "removed-too-early", old: side{features: stagesOf(alpha)}, safe: side{features: stagesOf(alpha+","+goneNow, "  announced: {Removed: v1.6.0}\n")},
		unsafe: side{features: stagesOf(alpha + "," + goneNow)},
	},
	{
		rule: "removed-too-early", old: side{features: stagesOf(alpha + ",{stage: Stable, release: v1.1.0},{stage: Deprecated, release: v1.2.0}")},
		safe:   side{features: stagesOf(alpha + ",{stage: Stable, release: v1.1.0},{stage: Deprecated, release: v1.2.0}," + goneNow)},
		unsafe: side{features: stagesOf(alpha + ",{stage: Stable, release: v1.1.0},{stage: Deprecated, release: v1.6.0}," + goneNow)},
	},
	{
		rule: "default-changed-too-early", old: side{features: stagesOf(alpha + "," + beta)},
		safe:   side{features: stagesOf(alpha+","+beta+",{stage: Beta, release: v1.7.0, default: true}", "  announced: {Default: v1.3.0}\n")},
		unsafe: side{features: stagesOf(alpha + "," + beta + ",{stage: Beta, release: v1.7.0, default: true}")},
	},
	{ // the component opens and closes what is beta
		rule: "default-changed-too-early", old: side{features: stagesOf(alpha + "," + beta), rest: "spec: {release: v1.6.0, defaultLevel: beta}\n"},
		safe:   side{features: stagesOf(alpha+","+beta, "  announced: {Default: v1.3.0}\n")},
		unsafe: side{features: stagesOf(alpha + "," + beta)},
	},
	{ // the lock closes what the level has opened
		rule: "default-changed-too-early", old: side{features: stagesOf(alpha + "," + beta), rest: "spec: {release: v1.6.0, defaultLevel: beta}\n"},
		safe:   side{features: stagesOf(alpha + "," + beta + ",{stage: Beta, release: v1.7.0, default: true}"), rest: "spec: {release: v1.7.0, defaultLevel: beta}\n"},
		unsafe: side{features: stagesOf(alpha + "," + beta + ",{stage: Beta, release: v1.7.0, lockToDefault: true}"), rest: "spec: {release: v1.7.0, defaultLevel: beta}\n"},
	},
	{
		rule: "announcement-backdated", old: side{features: stagesOf(alpha, "  announced: {Removed: v1.3.0}\n")}, safe: side{features: stagesOf(alpha, "  announced: {Removed: v1.3.0}\n")},
		unsafe: side{features: stagesOf(alpha, "  announced: {Removed: v1.2.0}\n")},
	},
	{rule: "beta-skipped", old: side{features: stagesOf(alpha)}, safe: side{features: stagesOf(alpha+","+betaNow, documented)}, unsafe: side{features: stagesOf(alpha+","+stableNow, documented)}},
	{
		rule: "born-too-stable", old: side{features: behaviour, fields: "b: {type: string}"}, safe: side{features: behaviour + stagesOf("{stage: Alpha, release: v1.7.0}"), fields: "a: {type: string}, b: {type: string}"},
		unsafe: side{features: behaviour + stagesOf(stableNow, documented), fields: "a: {type: string}, b: {type: string}"},
	},
	{
		rule: "lock-opened", old: side{features: stagesOf(alpha + ",{stage: Beta, release: v1.2.0, lockToDefault: true}")}, safe: side{features: stagesOf(alpha + ",{stage: Beta, release: v1.2.0, lockToDefault: true}")},
		unsafe: side{features: stagesOf(alpha + ",{stage: Beta, release: v1.2.0, lockToDefault: true},{stage: Beta, release: v1.7.0}")},
	},
	{
		rule: "locked-against-users", old: side{features: stagesOf(alpha + "," + beta)}, safe: side{features: stagesOf(alpha+","+beta+","+stableNow, documented)},
		unsafe: side{features: stagesOf(alpha + "," + beta + ",{stage: Beta, release: v1.7.0, lockToDefault: true}")},
	},
	{rule: "key-changed", old: side{features: stagesOf(alpha)}, safe: side{features: stagesOf(alpha, "  key: f\n")}, unsafe: side{features: stagesOf(alpha, "  key: other\n")}},
	{rule: "key-changed", old: side{features: stagesOf(alpha)}, safe: side{features: stagesOf(alpha)}, unsafe: side{features: stagesOf(alpha, "  inverted: true\n")}},
	{rule: "promoted-undocumented", old: side{features: stagesOf(alpha)}, safe: side{features: stagesOf(alpha+","+betaNow, documented)}, unsafe: side{features: stagesOf(alpha+","+betaNow, "  tests: {enabled: [A], disabled: [B]}\n")}},
	{
		rule: "promoted-undocumented", old: side{features: stagesOf(alpha)}, safe: side{features: stagesOf(alpha+","+betaNow, strings.Replace(documented, "docs/f.md", "docs/f.md#beta", 1))},
		unsafe: side{features: stagesOf(alpha+","+betaNow, strings.Replace(documented, "docs/f.md", "docs/g.md", 1))},
	},
	{rule: "promoted-untested", old: side{features: stagesOf(alpha)}, safe: side{features: stagesOf(alpha+","+betaNow, documented)}, unsafe: side{features: stagesOf(alpha+","+betaNow, "  documentation: https://example.com/x\n  tests: {enabled: [A]}\n")}},
	{
		rule: "single-reader-unsafe", old: side{features: stagesOf(alpha+","+beta, "  announced: {Default: v1.3.0}\n")},
		safe:   side{features: stagesOf(alpha+","+beta+",{stage: Beta, release: v1.7.0, default: true}", "  announced: {Default: v1.3.0}\n  readBy: [webhook]\n  safeSince: v1.5.0\n")},
		unsafe: side{features: stagesOf(alpha+","+beta+",{stage: Beta, release: v1.7.0, default: true}", "  announced: {Default: v1.3.0}\n  readBy: [webhook]\n  safeSince: v1.6.0\n")},
	},
	{rule: "gate-overdue", old: side{features: stagesOf("{stage: Alpha, release: v1.5.0}")}, safe: side{features: stagesOf("{stage: Alpha, release: v1.5.0}")}, unsafe: side{features: stagesOf(alpha)}},
	{rule: "release-moved-back", old: side{features: stagesOf(alpha)}, safe: side{features: stagesOf(alpha)}, unsafe: side{features: stagesOf(alpha), rest: "spec: {release: v1.5.0}\n"}},
	{rule: "release-not-recorded", old: side{features: stagesOf(alpha)}, safe: side{features: stagesOf(alpha)}, unsafe: side{features: stagesOf("{stage: Alpha, release: v0.5.0}")}},

	{
		rule: "field-dropped", old: side{features: stagesOf(alpha, "  announced: {Removed: v1.6.0}\n")}, safe: side{features: stagesOf(alpha+","+goneNow, "  announced: {Removed: v1.6.0}\n"), fields: "b: {type: string}"},
		unsafe: side{features: stagesOf(alpha + "," + goneNow), fields: "b: {type: string}"},
	},
	{
		rule: "field-incompatible", old: side{features: stagesOf(alpha)}, safe: side{features: stagesOf(alpha), fields: "a: {type: string}, b: {type: string, maxLength: 3}"},
		unsafe: side{features: stagesOf(alpha), fields: "a: {type: string, maxLength: 3}, b: {type: string}"},
	},
	{rule: "field-incompatible", old: side{features: stagesOf(alpha)}, safe: side{features: stagesOf(alpha)}, unsafe: side{features: stagesOf(alpha), fields: "a: {type: integer}, b: {type: string}"}},
	{
		rule: "alpha-version-broken", old: side{features: behaviour, version: "v1alpha1"}, safe: side{features: behaviour, version: "v1alpha1", fields: "a: {type: string}, b: {type: string}, c: {type: string}"},
		unsafe: side{features: behaviour, version: "v1alpha1", fields: "a: {type: integer}, b: {type: string}"},
	},
	{rule: "beta-version-alone", old: side{features: behaviour, version: "v1beta1,v1"}, safe: side{features: behaviour, version: "v1"}, unsafe: side{features: behaviour, version: "v2"}},
	{
		rule: "tombstone-reused", old: side{features: stagesOf(alpha + ",{stage: Removed, release: v1.3.0}"), fields: "b: {type: string}"}, safe: side{features: stagesOf(alpha + ",{stage: Removed, release: v1.3.0}"), fields: "b: {type: string}"},
		unsafe: side{features: stagesOf(alpha + ",{stage: Removed, release: v1.3.0}")},
	},
	{rule: "gate-dropped", old: side{features: stagesOf(alpha)}, safe: side{features: stagesOf(alpha)}, unsafe: side{features: strings.Replace(stagesOf(alpha), "spec.a", "spec.b", 1)}},
	{
		rule: "part-added-late", old: side{features: stagesOf(alpha + "," + beta)}, safe: side{features: stagesOf(alpha + "," + beta)},
		unsafe: side{features: strings.Replace(stagesOf(alpha+","+beta), "field: spec.a}", "field: spec.a}, {group: example.com, resource: things, field: spec.c}", 1), fields: "a: {type: string}, b: {type: string}, c: {type: string}"},
	},
	{
		rule: "new-field-required", old: side{features: behaviour}, safe: side{features: behaviour, fields: "a: {type: string}, b: {type: string}, c: {type: object, properties: {d: {type: string}}}"},
		unsafe: side{features: behaviour, fields: "a: {type: string}, b: {type: string}, list: {type: object, required: [d], properties: {d: {type: string}}}"},
	},
	{
		rule: "new-field-not-gated", old: side{features: behaviour, fields: "b: {type: string}"}, safe: side{features: behaviour + stagesOf("{stage: Alpha, release: v1.7.0}"), fields: "a: {type: string}, b: {type: string}"},
		unsafe: side{features: behaviour, fields: "a: {type: string}, b: {type: string}"},
	},
	{
		rule: "new-value-not-gated", old: side{features: behaviour}, safe: side{features: behaviour + fmt.Sprintf(values, "{stage: Beta, release: v1.7.0, default: false, lockToDefault: true}") + documented, fields: withZ},
		unsafe: side{features: behaviour, fields: withZ},
	},
	{
		rule: "new-value-at-once", old: side{features: behaviour}, safe: side{features: behaviour + fmt.Sprintf(values, "{stage: Beta, release: v1.7.0, default: false, lockToDefault: true}") + documented, fields: withZ},
		unsafe: side{features: behaviour + fmt.Sprintf(values, "{stage: Beta, release: v1.7.0, default: true}") + documented, fields: withZ},
	},
	{
		rule: "unknown-values-undocumented", old: side{features: behaviour, fields: "b: {type: string}"},
		safe:   side{features: behaviour + stagesOf("{stage: Alpha, release: v1.7.0}", "  unknownValues: they are refused\n"), fields: "a: {type: string, enum: [X]}, b: {type: string}"},
		unsafe: side{features: behaviour + stagesOf("{stage: Alpha, release: v1.7.0}"), fields: "a: {type: string, enum: [X]}, b: {type: string}"},
	},
}

const (
	behaviour = "- gate: B\n  behaviourOnly: true\n  stages: [{stage: Alpha, release: v1.5.0}]\n"
	withZ     = "a: {type: string}, b: {type: string}, mode: {type: string, enum: [X, Y, Z]}"
)

// write lays a side out as files.
func (s side) write(t *testing.T, dir, release string) {
	t.Helper()
	fields, version, rest := s.fields, s.version, s.rest
	if fields == "" {
		fields = usualFields
	}
	if version == "" {
		version = usualVersion
	}
	if rest == "" {
		rest = "spec: {release: " + release + "}\n"
	}
	list := s.features
	write(t, dir+"/features.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: FeatureFile\ncomponent: things\n"+rest+
		"source: {crds: [crd.yaml]}\noutput: {manifests: features/all.yaml}\nreleases:\n"+releases+"features:\n"+list)
	text := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.com}\nspec:\n  group: example.com\n  scope: Namespaced\n" +
		"  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}\n  versions:\n"
	for i, v := range strings.Split(version, ",") {
		required := ""
		if strings.Contains(fields, "list: ") && s.unsafeList() {
			required = "required: [list], "
		}
		text += fmt.Sprintf("  - {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, %sproperties: {%s}}}}}}\n", v, i == 0, required, fields)
	}
	write(t, dir+"/crd.yaml", text)
	write(t, dir+"/docs/f.md", "# F\n")
}

func (s side) unsafeList() bool { return true }

// releases are every 100 days or so, v1.0.0 to v1.6.0.
const releases = `- {release: v1.0.0, date: 2024-01-01}
- {release: v1.1.0, date: 2024-04-01}
- {release: v1.2.0, date: 2024-07-01}
- {release: v1.3.0, date: 2024-10-01}
- {release: v1.4.0, date: 2025-01-01}
- {release: v1.5.0, date: 2025-04-01}
- {release: v1.6.0, date: 2025-07-01}
`

var verifyDay = time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC)

// judge compares a side with what it was, as the command does.
func judge(t *testing.T, old, next side) *report.Report {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	old.write(t, "old", "v1.6.0")
	next.write(t, "next", "v1.7.0")
	generated := func(name string) *Project {
		t.Helper()
		f, err := Read(t.Context(), name+"/features.yaml")
		if err != nil {
			t.Fatal(err)
		}
		p, err := Load(t.Context(), f, verifyDay)
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.Outputs(t.Context(), Channel{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(); err != nil {
			t.Fatal(err)
		}
		return p
	}
	generated("old")
	p := generated("next")
	base, lacks, err := LoadBase(t.Context(), p.File, "old", verifyDay)
	if err != nil || lacks != "" {
		t.Fatal(lacks, err)
	}
	r, err := Verify(t.Context(), base, p.State(), verifyDay)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// broken are the rules of a report that fail or warn.
func broken(r *report.Report) (out []string) {
	for _, c := range r.CRDs {
		for _, f := range c.Findings {
			out = append(out, f.Rule)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestEachRuleHasWhatItLetsPassAndWhatNot(t *testing.T) {
	for _, f := range fixtures {
		t.Run(f.rule, func(t *testing.T) {
			if got := broken(judge(t, f.old, f.safe)); slices.Contains(got, f.rule) {
				t.Errorf("the safe change breaks %v", got)
			}
			r := judge(t, f.old, f.unsafe)
			if got := broken(r); !slices.Contains(got, f.rule) {
				t.Errorf("the unsafe change breaks %v only", got)
			}
			for _, c := range r.CRDs {
				for _, x := range c.Findings {
					if x.Position == nil || x.Position.File == "" || x.Position.Line == 0 || x.Message == "" || strings.HasSuffix(x.Message, ".") {
						t.Errorf("a finding without a place, or in another form: %+v", x)
					}
				}
			}
		})
	}
}

func TestRulesAreDocumentedAndShown(t *testing.T) {
	page := read(t, filepath.Join("..", "..", "docs", "features-life.md"))
	seen := map[string]bool{}
	for _, r := range Rules() {
		if seen[r.ID] || r.Why == "" || r.Help == "" || r.Level == "" || r.check == nil {
			t.Errorf("%s is there twice, or lacks something", r.ID)
		}
		seen[r.ID] = true
		if !strings.Contains(page, "| `"+r.ID+"` | "+r.Why+" | "+r.Help+" |\n") {
			t.Errorf("docs/features-life.md does not have %s with its reason and its way out", r.ID)
		}
		if !slices.ContainsFunc(fixtures, func(f fixture) bool { return f.rule == r.ID }) {
			t.Errorf("%s has no fixture", r.ID)
		}
	}
	for _, f := range fixtures {
		if !seen[f.rule] {
			t.Errorf("there is no rule %s", f.rule)
		}
	}
	if len(fixtures) < 30 {
		t.Errorf("there are %d fixtures", len(fixtures))
	}
}

func TestPoliciesDiffer(t *testing.T) {
	old := side{features: stagesOf(alpha + "," + beta)}
	next := side{features: stagesOf(alpha+","+beta+",{stage: Removed, release: v1.7.0}", "  announced: {Removed: v1.5.0}\n")}
	for policy, want := range map[string]bool{
		"policy: kubernetes\n":   true,  // 6 months
		"policy: tekton\n":       true,  // 6 months
		"policy: cert-manager\n": false, // two releases
		"policy: custom\nwindows: {Beta: {months: 3, releases: 2}}\n": false,
		"policy: custom\nwindows: {Beta: {releases: 5}}\n":            true,
		"rules: {removed-too-early: ignore}\n":                        false,
	} {
		next.rest = "spec: {release: v1.7.0}\n" + policy
		if got := broken(judge(t, old, next)); slices.Contains(got, "removed-too-early") != want {
			t.Errorf("%s: %v", policy, got)
		}
	}
}

// TestTheGateGoesAfterTheFlip by Tekton's policy only: "as soon as the next release" (TEP-0033, promoting behavior flags). In the policy of
// Kubernetes it has to be locked for two releases. A feature that is off is withdrawn after its window.
func TestTheGateGoesAfterTheFlip(t *testing.T) {
	const flipped = alpha + "," + beta + ",{stage: Beta, release: v1.6.0, default: true}"
	for _, tt := range []struct {
		policy, stages string
		refused        bool
	}{
		{"tekton", flipped, false},
		{"kubernetes", flipped, true},
		{"cert-manager", flipped, true},
		{"tekton", alpha + "," + beta, true}, // a part goes, not a gate alone
		{"kubernetes", alpha + "," + beta + "," + stable + ",{stage: Stable, release: v1.5.1, lockToDefault: true}", false},
	} {
		old := side{features: stagesOf(tt.stages, "  announced: {Default: v1.2.0}\n")}
		next := side{features: stagesOf(tt.stages+","+goneNow, "  announced: {Default: v1.2.0}\n"), rest: "spec: {release: v1.7.0}\npolicy: " + tt.policy + "\n"}
		if got := broken(judge(t, old, next)); slices.Contains(got, "removed-too-early") != tt.refused {
			t.Errorf("%s, %s: %v", tt.policy, tt.stages, got)
		}
	}
}

func TestWhatIsWrongWithThePolicyIsToldAtOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	s := side{features: behaviour, rest: "spec: {release: v1.7.0}\npolicy: kubernets\nwindows: {Bta: {months: 1}}\nrules: {stage-moved-bak: fail, key-changed: fatal}\n"}
	s.write(t, ".", "")
	f, err := Read(t.Context(), "features.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Load(t.Context(), f, verifyDay)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Verify(t.Context(), p.State(), p.State(), verifyDay)
	want := []string{
		`features.yaml:5: there is no policy "kubernets" (did you mean "kubernetes"?); the policies are kubernetes, tekton, cert-manager, custom`,
		`features.yaml:6: there is no window for "Bta" (did you mean "Beta"?); the stages are Alpha, Beta, Stable`,
		`features.yaml:7: the severity is "fatal"; it is fail, warn or ignore`,
		`features.yaml:7: there is no rule "stage-moved-bak" (did you mean "stage-moved-back"?)`,
	}
	if err == nil {
		t.Fatal("there is no error")
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Error(diff)
	}
}

// TestNothingIsPromisedInDevelopment: a feature whose first stage begins with a later release may change in any way.
func TestNothingIsPromisedInDevelopment(t *testing.T) {
	planned := stagesOf("{stage: Alpha, release: v1.9.0}")
	old := side{features: behaviour + planned}
	for name, next := range map[string]side{
		"it is gone":                {features: behaviour, fields: "b: {type: string}, mode: {type: string, enum: [X, Y]}"},
		"another name":              {features: behaviour + strings.Replace(planned, "gate: F", "gate: H", 1)},
		"another release":           {features: behaviour + stagesOf("{stage: Alpha, release: v1.8.0}")},
		"another type":              {features: behaviour + planned, fields: strings.Replace(usualFields, "a: {type: string}", "a: {type: integer}", 1)},
		"another key":               {features: behaviour + planned + "  key: other\n"},
		"it begins in this release": {features: behaviour + stagesOf("{stage: Alpha, release: v1.7.0}")},
	} {
		t.Run(name, func(t *testing.T) {
			for _, version := range []string{"v1", "v1alpha1"} {
				old, next := old, next
				old.version, next.version = version, version
				if got := broken(judge(t, old, next)); got != nil {
					t.Errorf("%s: it breaks %v", version, got)
				}
			}
		})
	}
}

// TestABaseOfGitIsThatOfFeaturesYAML: the working directory is in another repository, or in none.
func TestABaseOfGitIsThatOfFeaturesYAML(t *testing.T) {
	t.Chdir(t.TempDir())
	side{}.write(t, "repo/pages", "v1.7.0")
	load := func(name string) *Project {
		t.Helper()
		f, err := Read(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Load(t.Context(), f, verifyDay)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	out, err := load("repo/pages/features.yaml").Outputs(t.Context(), Channel{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write(); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"init -q", "add .", "-c user.name=a -c user.email=a@example.com commit -q -m base"} {
		if text, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", "repo"}, strings.Fields(args)...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	absolute, err := filepath.Abs("repo/pages/features.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"repo/pages/features.yaml", absolute, "repo/../repo/pages/features.yaml"} {
		p := load(name)
		base, lacks, err := LoadBase(t.Context(), p.File, "git:HEAD", verifyDay)
		if err != nil || lacks != "" {
			t.Errorf("%s: %s %v", name, lacks, err)
			continue
		}
		if len(base.Features) != len(p.Declaration.Features) || len(base.CRDs) == 0 {
			t.Errorf("%s: the base has %d features and %d CRDs", name, len(base.Features), len(base.CRDs))
		}
	}
}
