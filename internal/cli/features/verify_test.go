package features

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/life"
)

// release is a release of the component of a repository: its features, the fields of v1, and its versions.
type release struct {
	name, date, features, fields, versions string
}

// history is a component with six releases: Zone goes alpha, beta, stable; Trial is dropped; Label takes over from Tag under a new name;
// the value Fast takes two releases; v1 graduates from v1beta1. All steps are legal.
var history = []release{
	{"v1.0.0", "2023-01-01", zone(first) + trial("") + tag("", ""), "zone: {type: string}, trial: {type: string}, tag: {type: string}, mode: {type: string, enum: [Slow]}", "v1alpha1,v1beta1"},
	{"v1.1.0", "2023-06-01", zone(alphaZone) + trial("  announced: {Removed: v1.1.0}\n") + tag("", ""), "zone: {type: string}, trial: {type: string}, tag: {type: string}, mode: {type: string, enum: [Slow]}", "v1alpha1,v1beta1,v1"},
	{
		"v1.2.0", "2024-01-01", zone(alphaZone+betaZone) + trial(", {stage: Removed, release: v1.2.0}|  announced: {Removed: v1.1.0}\n") + tag("", "  announced: {Removed: v1.2.0}\n") + label + fast(""),
		"zone: {type: string}, tag: {type: string}, label: {type: string}, mode: {type: string, enum: [Slow, Fast]}", "v1alpha1,v1beta1,v1",
	},
	{
		"v1.3.0", "2024-08-01", zone(alphaZone+betaZone) + trial(", {stage: Removed, release: v1.2.0}|  announced: {Removed: v1.1.0}\n") + tag(", {stage: Removed, release: v1.3.0}", "  announced: {Removed: v1.2.0}\n") + label + fast(", {stage: Stable, release: v1.3.0}"),
		"zone: {type: string}, label: {type: string}, mode: {type: string, enum: [Slow, Fast]}", "v1",
	},
	{
		"v1.4.0", "2025-02-01", zone(alphaZone+betaZone+", {stage: Beta, release: v1.4.0, default: true}") + trial(", {stage: Removed, release: v1.2.0}|  announced: {Removed: v1.1.0}\n") + tag(", {stage: Removed, release: v1.3.0}", "  announced: {Removed: v1.2.0}\n") + label + fast(", {stage: Stable, release: v1.3.0}"),
		"zone: {type: string}, label: {type: string}, mode: {type: string, enum: [Slow, Fast]}", "v1",
	},
	{
		"v1.5.0", "2025-09-01", zone(alphaZone+betaZone+", {stage: Beta, release: v1.4.0, default: true}, {stage: Stable, release: v1.5.0}") + trial(", {stage: Removed, release: v1.2.0}|  announced: {Removed: v1.1.0}\n") + tag(", {stage: Removed, release: v1.3.0}", "  announced: {Removed: v1.2.0}\n") + label + fast(", {stage: Stable, release: v1.3.0}"),
		"zone: {type: string}, label: {type: string}, mode: {type: string, enum: [Slow, Fast]}", "v1",
	},
}

const (
	first     = ""
	alphaZone = "{stage: Alpha, release: v1.0.0}"
	betaZone  = ", {stage: Beta, release: v1.2.0}"
	label     = "- gate: Label\n  stages: [{stage: Alpha, release: v1.2.0}]\n  parts: [{group: example.com, resource: carts, field: spec.label}]\n"
)

func zone(stages string) string {
	more := "  announced: {Default: v1.1.0}\n"
	if stages == first {
		stages, more = alphaZone, ""
	}
	return "- gate: Zone\n  documentation: https://example.com/zone\n  tests: {enabled: [TestZone], disabled: [TestNoZone]}\n" + more + "  stages: [" + stages + "]\n  parts: [{group: example.com, resource: carts, field: spec.zone}]\n"
}

func trial(s string) string {
	stages, more, _ := strings.Cut(s, "|")
	if !strings.HasPrefix(stages, ",") {
		stages, more = "", stages
	}
	return "- gate: Trial\n" + more + "  stages: [{stage: Alpha, release: v1.0.0}" + stages + "]\n  parts: [{group: example.com, resource: carts, field: spec.trial}]\n"
}

func tag(stages, more string) string {
	return "- gate: Tag\n" + more + "  stages: [{stage: Alpha, release: v1.0.0}" + stages + "]\n  parts: [{group: example.com, resource: carts, field: spec.tag}]\n"
}

func fast(stages string) string {
	return "- gate: Fast\n  documentation: https://example.com/fast\n  tests: {enabled: [TestFast], disabled: [TestNoFast]}\n  stages: [{stage: Beta, release: v1.2.0, default: false, lockToDefault: true}" + stages +
		"]\n  parts: [{group: example.com, resource: carts, field: spec.mode, values: [Fast]}]\n"
}

// write lays out the files of a release, after those before it. Edits are texts to replace in them, old and new in pairs: in features.yaml
// once, in the CRD in each version.
func (r release) write(t *testing.T, before []release, edits ...string) {
	t.Helper()
	for i := 0; i < len(edits); i += 2 {
		if r.versions == edits[i] {
			r.versions = edits[i+1]
			edits = slices.Delete(slices.Clone(edits), i, i+2)
		}
	}
	recorded := ""
	for _, b := range append(slices.Clone(before), r) {
		recorded += fmt.Sprintf("- {release: %s, date: %s}\n", b.name, b.date)
	}
	versions := strings.Split(r.versions, ",")
	crd := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: carts.example.com}\nspec:\n  group: example.com\n  scope: Namespaced\n  names: {kind: Cart, plural: carts, singular: cart, listKind: CartList}\n  versions:\n"
	for i, v := range versions {
		crd += fmt.Sprintf("  - {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, required: [], properties: {%s}}}}}}\n", v, i == len(versions)-1, r.fields)
	}
	file := "apiVersion: sluice.dev/v1alpha1\nkind: FeatureFile\ncomponent: carts\nspec: {release: " + r.name + "}\nsource: {crds: [crd.yaml]}\noutput: {manifests: manifests.yaml}\nreleases:\n" + recorded +
		"rules: {gate-overdue: ignore}\nfeatures:\n" + r.features
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(file+crd, edits[i]) {
			t.Fatalf("there is no %q", edits[i])
		}
		file, crd = strings.Replace(file, edits[i], edits[i+1], 1), strings.ReplaceAll(crd, edits[i], edits[i+1])
	}
	for name, text := range map[string]string{"crd.yaml": crd, "features.yaml": file} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSixReleasesOfLegalSteps(t *testing.T) {
	t.Chdir(t.TempDir())
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	run := func(args ...string) (int, string) {
		t.Helper()
		var out bytes.Buffer
		code := runFeatures(t, args, &out, &out)
		return code, out.String()
	}
	git("init", "-q", ".")
	for i, r := range history {
		r.write(t, history[:i])
		if code, text := run("generate"); code != command.ExitOK {
			t.Fatalf("%s: %s", r.name, text)
		}
		for j := range i { // a step, and several at once
			if code, text := run("verify", "--against", "git:"+history[j].name); code != command.ExitOK {
				t.Errorf("the steps from %s to %s are refused: %s", history[j].name, r.name, text)
			}
		}
		git("add", "-A")
		git("commit", "-q", "-m", r.name)
		git("tag", r.name)
	}

	broken := map[string]bool{}
	for _, tt := range illegal {
		broken[tt.rule] = true
		t.Run(tt.rule+"/"+tt.name, func(t *testing.T) {
			before := history[:tt.from+1]
			next := history[len(history)-1]
			next.name, next.date = "v1.6.0", "2026-03-01"
			if tt.from+1 < len(history) {
				next = history[tt.from+1]
			}
			next.write(t, before, tt.edits...)
			code, text := run("verify", "--against", "git:"+before[tt.from].name)
			if code != command.ExitFindings || !strings.Contains(text, tt.rule) {
				t.Errorf("exit code %d: %s", code, text)
			}
		})
	}
	if len(illegal) < 30 {
		t.Errorf("there are %d illegal steps", len(illegal))
	}
	for _, r := range life.Rules() {
		if !broken[r.ID] {
			t.Errorf("no step breaks %s", r.ID)
		}
	}
}

// illegal are steps that break a rule: the release that they start from, by its place in the history, and what is different in the
// release that follows (old and new text, in pairs).
var illegal = []struct {
	rule, name string
	from       int
	edits      []string
}{
	{"stage-moved-back", "stable to beta", 5, []string{", {stage: Stable, release: v1.5.0}]", "]"}},
	{"stage-moved-back", "beta to alpha", 2, []string{betaZone, ""}},
	{"history-changed", "another release", 5, []string{"{stage: Beta, release: v1.2.0}", "{stage: Beta, release: v1.1.0}"}},
	{"feature-vanished", "the field stays", 5, []string{label, ""}},
	{"feature-renamed", "the same parts", 5, []string{"gate: Label", "gate: Sticker"}},
	{"tombstone-gone", "the entry is taken out", 5, []string{trial(", {stage: Removed, release: v1.2.0}|  announced: {Removed: v1.1.0}\n"), ""}},
	{"removed-feature-revived", "alpha again", 5, []string{", {stage: Removed, release: v1.2.0}", "", "label: {", "trial: {type: string}, label: {"}},
	{"removed-too-early", "alpha, not announced", 5, []string{labelStages, labelStages + ", {stage: Removed, release: v1.6.0}"}},
	{"removed-too-early", "beta, announced in the same release", 2, []string{betaZone, betaZone + ", {stage: Removed, release: v1.3.0}", "{Default: v1.1.0}", "{Default: v1.1.0, Removed: v1.3.0}"}},
	{"removed-too-early", "stable, announced in the same release", 5, []string{"{stage: Stable, release: v1.5.0}]", "{stage: Stable, release: v1.5.0}, {stage: Removed, release: v1.6.0}]", "{Default: v1.1.0}", "{Default: v1.1.0, Removed: v1.6.0}"}},
	{"default-changed-too-early", "two releases after it was announced", 2, []string{betaZone, betaZone + ", {stage: Beta, release: v1.3.0, default: true}"}},
	{"announcement-backdated", "a release that said nothing", 5, []string{"gate: Label\n", "gate: Label\n  announced: {Removed: v1.4.0}\n"}},
	{"beta-skipped", "alpha to stable", 5, []string{labelStages, labelStages + ", {stage: Stable, release: v1.6.0}"}},
	{"born-too-stable", "a new feature", 5, []string{"label: {", "size: {type: string}, label: {", label, label + size("{stage: Stable, release: v1.6.0}")}},
	{"lock-opened", "at the same default", 2, []string{", {stage: Stable, release: v1.3.0}", ", {stage: Beta, release: v1.3.0, default: false}"}},
	{"locked-against-users", "beta", 2, []string{betaZone, betaZone + ", {stage: Beta, release: v1.3.0, lockToDefault: true}"}},
	{"key-changed", "another key", 5, []string{"gate: Label\n", "gate: Label\n  key: sticker\n"}},
	{"key-changed", "the opposite meaning", 5, []string{"gate: Label\n", "gate: Label\n  inverted: true\n"}},
	{"promoted-undocumented", "tests only", 5, []string{labelStages, labelStages + ", {stage: Beta, release: v1.6.0}", "gate: Label\n", "gate: Label\n  tests: {enabled: [A], disabled: [B]}\n"}},
	{"promoted-untested", "no test for off", 5, []string{labelStages, labelStages + ", {stage: Beta, release: v1.6.0}", "gate: Label\n", "gate: Label\n  documentation: https://example.com/x\n  tests: {enabled: [A]}\n"}},
	{"single-reader-unsafe", "safe for one release", 3, []string{"gate: Zone\n", "gate: Zone\n  readBy: [webhook]\n  safeSince: v1.3.0\n"}},
	{"gate-overdue", "alpha for years", 5, []string{"{gate-overdue: ignore}", "{gate-overdue: fail}", "spec: {release: v1.6.0}", "spec: {release: v1.20.0}"}},
	{"release-moved-back", "an older release", 5, []string{"spec: {release: v1.6.0}", "spec: {release: v1.4.0}"}},
	{"release-not-recorded", "a date is missing", 5, []string{"- {release: v1.2.0, date: 2024-01-01}\n", "", "{gate-overdue: ignore}", "{gate-overdue: ignore, release-not-recorded: fail}"}},
	{"field-dropped", "the feature is alpha", 5, []string{"label: {type: string}, ", "", labelStages, labelStages + ", {stage: Removed, release: v1.6.0}"}},
	{"field-dropped", "the feature is stable", 5, []string{"zone: {type: string}, ", "", "{stage: Stable, release: v1.5.0}]", "{stage: Stable, release: v1.5.0}, {stage: Removed, release: v1.6.0}]"}},
	{"field-incompatible", "another type", 5, []string{"zone: {type: string}", "zone: {type: integer}"}},
	{"field-incompatible", "a bound", 5, []string{"label: {type: string}", "label: {type: string, maxLength: 3}"}},
	{"alpha-version-broken", "the number stays", 0, []string{"tag: {type: string}", "tag: {type: integer}"}},
	{"beta-version-alone", "v1 at once", 0, []string{"v1alpha1,v1beta1,v1", "v1alpha1,v1"}},
	{"tombstone-reused", "the field is back", 5, []string{"label: {", "trial: {type: string}, label: {"}},
	{"gate-dropped", "another field", 5, []string{"field: spec.label}", "field: spec.zone}"}},
	{"part-added-late", "a field of a beta feature", 2, []string{"label: {", "zones: {type: string}, label: {", "field: spec.zone}", "field: spec.zone}, {group: example.com, resource: carts, field: spec.zones}"}},
	{"part-added-late", "a field of a stable feature", 5, []string{"label: {", "zones: {type: string}, label: {", "field: spec.zone}", "field: spec.zone}, {group: example.com, resource: carts, field: spec.zones}"}},
	{"new-field-required", "in a stable version", 5, []string{"label: {", "size: {type: string}, label: {", "required: []", "required: [size]"}},
	{"new-field-not-gated", "in a stable version", 5, []string{"label: {", "size: {type: string}, label: {"}},
	{"new-value-not-gated", "in a stable version", 5, []string{"[Slow, Fast]", "[Slow, Fast, Turbo]"}},
	{"new-value-at-once", "open in the first release", 5, []string{"[Slow, Fast]", "[Slow, Fast, Turbo]", label, label + strings.NewReplacer("Fast", "Turbo", "v1.2.0, default: false, lockToDefault: true", "v1.6.0, default: true").Replace(fast(""))}},
	{"unknown-values-undocumented", "a new enum", 5, []string{"label: {", "size: {type: string, enum: [S, L]}, label: {", label, label + size("{stage: Alpha, release: v1.6.0}")}},
}

const labelStages = "{stage: Alpha, release: v1.2.0}"

func size(stages string) string {
	return "- gate: Size\n  documentation: https://example.com/x\n  tests: {enabled: [A], disabled: [B]}\n  stages: [" + stages + "]\n  parts: [{group: example.com, resource: carts, field: spec.size}]\n"
}
