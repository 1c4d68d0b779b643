package life

import (
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
	out, why, err := p.Promote(t.Context(), "Banner", v1alpha1.Beta, "v1.3.0", promoteDay)
	if err != nil || out != nil || !slices.Equal(broken(why), []string{"promoted-undocumented", "promoted-untested"}) {
		t.Fatal(out, why, err)
	}
	const after = "  # nobody knows why\n  documentation: docs/banner.md\n  tests: {enabled: [TestBanner], disabled: [TestNoBanner]}\n  stages:\n  - {stage: Alpha, release: v1.0.0} # long ago\n"
	p = shopOf(t, before, after)
	out, why, err = p.Promote(t.Context(), "Banner", v1alpha1.Beta, "v1.3.0", promoteDay)
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
	if _, _, err := p.Promote(t.Context(), "Baner", v1alpha1.Beta, "v1.3.0", promoteDay); err == nil || !strings.Contains(err.Error(), `has no feature "Baner" (did you mean "Banner"?)`) {
		t.Error(err)
	}
	if _, _, err := p.Promote(t.Context(), "Express", "Stabel", "v1.3.0", promoteDay); err == nil || !strings.Contains(err.Error(), "the stages are alpha, beta, stable, deprecated") {
		t.Error(err)
	}
	// It is beta already: another entry would say nothing, and a line in the change log something false.
	for stage, gate := range map[v1alpha1.Stage]string{v1alpha1.Beta: "Banner", v1alpha1.Alpha: "Pickup"} {
		if out, _, err := p.Promote(t.Context(), gate, stage, "v1.4.0", promoteDay); out != nil || err == nil || !strings.Contains(err.Error(), "from v1.3.0 on already") {
			t.Errorf("%s to %s: %v", gate, stage, err)
		}
	}
	if _, _, err := p.Promote(t.Context(), "Banner", v1alpha1.Alpha, "v1.4.0", promoteDay); err == nil || !strings.Contains(err.Error(), "Alpha does not come after Beta") {
		t.Error(err)
	}
}

func TestAFeatureIsRemovedWithATombstone(t *testing.T) {
	const before = "- gate: Labels\n  stages: [{stage: Alpha, release: v1.0.0}]\n"
	p := shopOf(t, before, before)
	out, why, err := p.Promote(t.Context(), "Labels", v1alpha1.Removed, "v1.3.0", promoteDay)
	if err != nil || out != nil || !slices.Contains(broken(why), "removed-too-early") {
		t.Fatal(out, why, err)
	}
	p = shopOf(t, before, before+"  announced: {Removed: v1.2.0}\n")
	out, why, err = p.Promote(t.Context(), "Labels", v1alpha1.Removed, "v1.3.0", promoteDay)
	if err != nil || out == nil {
		t.Fatal(why, err)
	}
	if _, err := out.Write(); err != nil {
		t.Fatal(err)
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
			out, why, err := p.Promote(t.Context(), "Labels", v1alpha1.Removed, "v1.3.0", promoteDay)
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
	if _, _, err := p.Promote(t.Context(), "Labels", v1alpha1.Removed, "v1.3.0", promoteDay); err == nil || !strings.Contains(err.Error(), "the stages are to be a list of lines") {
		t.Error(err)
	}
}
