package life

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice.dev/api/v1alpha1"
)

var promoteDay = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// shopOf is the shop with another entry for a gate, and recorded releases.
func shopOf(t *testing.T, old, next string) *Project {
	t.Helper()
	text := shopText
	if !strings.Contains(text, old) {
		t.Fatalf("there is no %s", old)
	}
	text = strings.Replace(text, old, next, 1)
	text = strings.Replace(text, "source:\n", "releases: [{release: v1.0.0, date: 2024-01-01}, {release: v1.1.0, date: 2024-06-01}, {release: v1.2.0, date: 2025-01-01}]\nsource:\n", 1)
	project(t, text+"-- CHANGELOG.md --\n# Changes\n\n## Next\n\n- one\n\n## v1.2.0\n\n- old\n")
	p, err := load(t)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAFeatureIsPromotedWhereThePolicyAllowsIt(t *testing.T) {
	const before = "  description: A shop may have a banner.\n  stages: [{stage: Alpha, release: v1.0.0}]\n"
	p := shopOf(t, before, before)
	out, why, err := p.Promote(t.Context(), "Banner", v1alpha1.FeatureStage{Stage: v1alpha1.Beta, Release: "v1.3.0"}, promoteDay)
	if err != nil || out != nil || !slices.Equal(broken(why), []string{"promoted-undocumented", "promoted-untested"}) {
		t.Fatal(out, why, err)
	}
	const after = "  # nobody knows why\n  documentation: docs/banner.md\n  tests: {enabled: [TestBanner], disabled: [TestNoBanner]}\n  stages:\n  - {stage: Alpha, release: v1.0.0} # long ago\n"
	p = shopOf(t, before, after)
	out, why, err = p.Promote(t.Context(), "Banner", v1alpha1.FeatureStage{Stage: v1alpha1.Beta, Release: "v1.3.0"}, promoteDay)
	if err != nil || out != nil || !slices.Equal(broken(why), []string{"promoted-undocumented"}) {
		t.Fatal("a page that does not exist", out, why, err)
	}
	write(t, "docs/banner.md", "# Banner\n")
	out, why, err = p.Promote(t.Context(), "Banner", v1alpha1.FeatureStage{Stage: v1alpha1.Beta, Release: "v1.3.0"}, promoteDay)
	if err != nil || out == nil {
		t.Fatal(why, err)
	}
	if _, err := out.Write(); err != nil {
		t.Fatal(err)
	}
	if text := read(t, "features.yaml"); !strings.Contains(text, after+"  - {stage: Beta, release: v1.3.0}\n- gate: Express\n") {
		t.Errorf("features.yaml is\n%s", text)
	}
	if text := read(t, "CHANGELOG.md"); !strings.Contains(text, "## Next\n\n- one\n- Feature `Banner` is beta from v1.3.0 on.\n\n## v1.2.0\n") {
		t.Errorf("the change log is\n%s", text)
	}
	if p, err = load(t); err != nil || len(p.Model.Feature("Banner").Spec.Stages) != 2 {
		t.Error(err)
	}
	if _, _, err := p.Promote(t.Context(), "Baner", v1alpha1.FeatureStage{Stage: v1alpha1.Beta, Release: "v1.3.0"}, promoteDay); err == nil || !strings.Contains(err.Error(), `has no feature "Baner" (did you mean "Banner"?)`) {
		t.Error(err)
	}
	if _, _, err := p.Promote(t.Context(), "Express", v1alpha1.FeatureStage{Stage: "Stabel", Release: "v1.3.0"}, promoteDay); err == nil || !strings.Contains(err.Error(), "the stages are alpha, beta, stable, deprecated") {
		t.Error(err)
	}
	// It is beta already: another entry would say nothing, and a line in the change log something false.
	for stage, gate := range map[v1alpha1.Stage]string{v1alpha1.Beta: "Banner", v1alpha1.Alpha: "Pickup"} {
		if out, _, err := p.Promote(t.Context(), gate, v1alpha1.FeatureStage{Stage: stage, Release: "v1.4.0"}, promoteDay); out != nil || err == nil || !strings.Contains(err.Error(), "from v1.3.0 on already") {
			t.Errorf("%s to %s: %v", gate, stage, err)
		}
	}
	for want, stage := range map[string]v1alpha1.FeatureStage{
		"Banner: Alpha does not come after Beta":    {Stage: v1alpha1.Alpha, Release: "v1.4.0"},
		"Banner: v1.3.0 does not come after v1.3.0": {Stage: v1alpha1.Stable, Release: "v1.3.0"},
	} {
		if _, _, err := p.Promote(t.Context(), "Banner", stage, promoteDay); err == nil || !regexp.MustCompile(`^features.yaml:\d+: `+want+"$").MatchString(err.Error()) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestADefaultChangesAtAStage(t *testing.T) {
	const before = "  description: A shop may have a banner.\n  stages: [{stage: Alpha, release: v1.0.0}]\n"
	shopOf(t, before, "  documentation: README.md\n  tests: {enabled: [TestBanner], disabled: [TestNoBanner]}\n  announced: {Default: v1.1.0}\n  stages:\n  - {stage: Alpha, release: v1.0.0}\n  - {stage: Beta, release: v1.1.0}\n")
	write(t, "README.md", "# Shop\n")
	write(t, "features.yaml", strings.Replace(read(t, "features.yaml"), "source:\n", "policy: cert-manager\nsource:\n", 1))
	p, err := load(t)
	if err != nil {
		t.Fatal(err)
	}
	on, off := new(true), new(false)
	out, why, err := p.Promote(t.Context(), "Banner", v1alpha1.FeatureStage{Release: "v1.3.0", Default: on}, promoteDay)
	if err != nil || out == nil {
		t.Fatal(why, err)
	}
	if _, err := out.Write(); err != nil {
		t.Fatal(err)
	}
	if text := read(t, "features.yaml"); !strings.Contains(text, "  - {stage: Beta, release: v1.1.0}\n  - {stage: Beta, release: v1.3.0, default: true}\n") {
		t.Errorf("features.yaml is\n%s", text)
	}
	if text := read(t, "CHANGELOG.md"); !strings.Contains(text, "- Feature `Banner` is beta, and on by default, from v1.3.0 on.\n") {
		t.Errorf("the change log is\n%s", text)
	}
	for what, entry := range map[string]v1alpha1.FeatureStage{"there is no step to write": {Release: "v1.3.0", Default: off}, "an alpha feature is off by default": {Stage: v1alpha1.Alpha, Release: "v1.3.0", Default: on}} {
		gate := map[bool]string{true: "Banner", false: "Labels"}[entry.Stage == ""]
		if out, _, err := p.Promote(t.Context(), gate, entry, promoteDay); out != nil || err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAFeatureIsRemovedWithATombstone(t *testing.T) {
	const before = "- gate: Labels\n  stages: [{stage: Alpha, release: v1.0.0}]\n"
	p := shopOf(t, before, before)
	out, why, err := p.Promote(t.Context(), "Labels", v1alpha1.FeatureStage{Stage: v1alpha1.Removed, Release: "v1.3.0"}, promoteDay)
	if err != nil || out != nil || !slices.Contains(broken(why), "removed-too-early") {
		t.Fatal(out, why, err)
	}
	p = shopOf(t, before, before+"  announced: {Removed: v1.2.0}\n")
	out, why, err = p.Promote(t.Context(), "Labels", v1alpha1.FeatureStage{Stage: v1alpha1.Removed, Release: "v1.3.0"}, promoteDay)
	if err != nil || out == nil {
		t.Fatal(why, err)
	}
	if _, err := out.Write(); err != nil {
		t.Fatal(err)
	}
	if text := read(t, "CHANGELOG.md"); !strings.Contains(text, "- Feature `Labels` is withdrawn from v1.3.0 on: it is always off") {
		t.Errorf("the change log is\n%s", text)
	}
	if code := read(t, "api/v1/types.go"); strings.Contains(code, "+sluice:feature=Labels") || !strings.Contains(code, "+sluice:feature=Gifts") || !strings.Contains(code, "Labels Names") {
		t.Errorf("the types are\n%s", code)
	}
	write(t, "features.yaml", strings.Replace(read(t, "features.yaml"), "release: v1.2.0\n", "release: v1.3.0\n", 1))
	p, err = load(t)
	if err != nil {
		t.Fatal(err)
	}
	f := p.Model.Feature("Labels")
	if f.Stage != v1alpha1.Removed || len(f.Spec.Parts) != 1 || f.Spec.Parts[0].Field != "spec.labels" {
		t.Errorf("%+v", f.Spec)
	}
	if !slices.ContainsFunc(p.Warnings, func(w Problem) bool { return strings.Contains(w.Message, "take it out, and do not use the name again") }) {
		t.Errorf("nothing is said of the field that is still there: %v", p.Warnings)
	}
	if out, err := p.Outputs(t.Context(), Channel{}); err != nil || !slices.ContainsFunc(out, func(o outFile) bool {
		return strings.Contains(string(o.data), "Removed since v1.3.0, always off: feature Labels of component shop.")
	}) {
		t.Error("kubectl explain does not say that no object can use the field", err)
	}
}

// TestAGateIsLockedAndThenRemoved: the feature has graduated, so its field stays and takes its name along.
func TestAGateIsLockedAndThenRemoved(t *testing.T) {
	const before = "- gate: Labels\n  stages: [{stage: Alpha, release: v1.0.0}]\n"
	p := shopOf(t, before, "- gate: Labels\n  documentation: https://example.com/labels\n  tests: {enabled: [A], disabled: [B]}\n  stages: [{stage: Alpha, release: v0.9.0}, {stage: Beta, release: v1.0.0}, {stage: Stable, release: v1.1.0}]\n")
	if err := os.Remove("CHANGELOG.md"); err != nil {
		t.Fatal(err)
	}
	step := func(entry v1alpha1.FeatureStage) {
		t.Helper()
		out, why, err := p.Promote(t.Context(), "Labels", entry, promoteDay)
		if err != nil || out == nil {
			t.Fatal(why, err)
		}
		if _, err := out.Write(); err != nil {
			t.Fatal(err)
		}
		write(t, "features.yaml", strings.Replace(strings.Replace(read(t, "features.yaml"), "releases: [", "releases: [{release: "+entry.Release+", date: 2026-01-01}, ", 1), "  release: v1.", "  release: "+entry.Release+" # v1.", 1))
		if p, err = load(t); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := p.Promote(t.Context(), "Labels", v1alpha1.FeatureStage{Stage: v1alpha1.Stable, Release: "v1.3.0"}, promoteDay); err == nil {
		t.Error("stable again, without a lock")
	}
	step(v1alpha1.FeatureStage{Release: "v1.3.0", LockToDefault: true})
	if text := read(t, "features.yaml"); !strings.Contains(text, "{stage: Stable, release: v1.3.0, lockToDefault: true}]") {
		t.Errorf("features.yaml is\n%s", text)
	}
	if text := read(t, "CHANGELOG.md"); text != "# Changelog\n\n## v1.3.0\n\n- Feature `Labels` (stable) is always on from v1.3.0 on: its gate is locked.\n" {
		t.Errorf("the change log is\n%s", text)
	}
	if _, _, err := p.Promote(t.Context(), "Labels", v1alpha1.FeatureStage{Release: "v1.4.0", LockToDefault: true}, promoteDay); err == nil || !strings.Contains(err.Error(), "there is no step to write") {
		t.Error("locked twice", err)
	}
	write(t, "features.yaml", strings.Replace(read(t, "features.yaml"), "releases: [", "releases: [{release: v1.4.0, date: 2026-02-01}, ", 1))
	p, err := load(t)
	if err != nil {
		t.Fatal(err)
	}
	step(v1alpha1.FeatureStage{Stage: v1alpha1.Removed, Release: "v1.5.0"})
	if text := read(t, "CHANGELOG.md"); !strings.Contains(text, "- The gate `Labels` is removed from v1.5.0 on: the feature is always on.") {
		t.Errorf("the change log is\n%s", text)
	}
	if text := read(t, "features.yaml"); strings.Contains(text, "no field takes these names") {
		t.Errorf("features.yaml forbids the names of fields that stay:\n%s", text)
	}
	if _, findings := p.Model.ParseSettings(map[string]string{"labels": "true"}); len(findings) != 1 || !strings.Contains(findings[0].Message, "Labels is always on, its gate was removed in v1.5.0") {
		t.Errorf("%v", findings)
	}
}

// TestAFeatureInBracesIsEditedWhereItsStagesAre: other lists and comments with brackets stand on the same line.
func TestAFeatureInBracesIsEditedWhereItsStagesAre(t *testing.T) {
	const before = "- gate: Labels\n  stages: [{stage: Alpha, release: v1.0.0}]\n"
	for _, entry := range []string{
		"- {gate: Labels, announced: {Removed: v1.2.0}, stages: [{stage: Alpha, release: v1.0.0}], readBy: [a, b]} # see [1]\n",
		"- {stages: [{stage: Alpha, release: v1.0.0}], readBy: [a], announced: {Removed: v1.2.0}, gate: Labels}\n",
		"- gate: Labels\n  announced: {Removed: v1.2.0}\n  stages: [{stage: Alpha, release: v1.0.0}] # [x]\n  readBy: [a, b]\n",
		"- stages:\n  - stage: Alpha\n    release: v1.0.0\n  announced: {Removed: v1.2.0}\n  gate: Labels\n  readBy: [a]\n",
	} {
		for _, end := range []string{"\n", "\r\n"} {
			shopOf(t, before, entry)
			write(t, "features.yaml", strings.ReplaceAll(read(t, "features.yaml"), "\n", end))
			p, err := load(t)
			if err != nil {
				t.Fatal(err)
			}
			old := p.File.Features
			out, why, err := p.Promote(t.Context(), "Labels", v1alpha1.FeatureStage{Stage: v1alpha1.Removed, Release: "v1.3.0"}, promoteDay)
			if err != nil || out == nil {
				t.Fatal(why, err)
			}
			if _, err := out.Write(); err != nil {
				t.Fatal(err)
			}
			text := read(t, "features.yaml")
			if strings.Count(text, end) != strings.Count(text, "\n") {
				t.Errorf("the ends of lines are mixed:\n%q", text)
			}
			f, err := Read(t.Context(), "features.yaml")
			if err != nil {
				t.Fatalf("%v:\n%s", err, text)
			}
			e, _ := f.entryOf("Labels")
			if len(e.Stages) != 2 || e.Stages[1].Stage != v1alpha1.Removed || len(e.Parts) != 1 || !slices.Contains(e.ReadBy, "a") || len(f.Features) != len(old) {
				t.Errorf("%+v of\n%s", e, text)
			}
		}
	}
	p := shopOf(t, before, "- gate: Labels\n  announced: {Removed: v1.2.0}\n  stages: [\n    {stage: Alpha, release: v1.0.0}\n  ]\n")
	if _, _, err := p.Promote(t.Context(), "Labels", v1alpha1.FeatureStage{Stage: v1alpha1.Removed, Release: "v1.3.0"}, promoteDay); err == nil || !strings.Contains(err.Error(), "the stages are to be a list of lines") {
		t.Error(err)
	}
}

// TestAReleaseThatYAMLTakesForANumber is written as a text.
func TestAReleaseThatYAMLTakesForANumber(t *testing.T) {
	for release, want := range map[string]string{"v1.3.0": "{stage: Beta, release: v1.3.0}", "1.3": `{stage: Beta, release: "1.3"}`} {
		if got := stageLine(&v1alpha1.FeatureStage{Stage: v1alpha1.Beta, Release: release}); got != want {
			t.Errorf("%s: %s", release, got)
		}
	}
}
