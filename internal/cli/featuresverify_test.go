package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// release is a release of the component of a repository: its features, the fields of v1, and its versions.
type release struct {
	name, date, features, fields, versions string
}

// history is a component with six releases: Zone goes alpha, beta, stable; Trial is dropped; Label takes over from Tag under a new name;
// the value Fast takes two releases; v1 graduates from v1beta1. All steps are legal.
var history = []release{
	{"v1.0.0", "2023-01-01", zone(first) + trial("") + tag("", ""), "zone: {type: string}, trial: {type: string}, tag: {type: string}, mode: {type: string, enum: [Slow]}", "v1beta1"},
	{"v1.1.0", "2023-06-01", zone(alphaZone) + trial("  announced: {Removed: v1.1.0}\n") + tag("", ""), "zone: {type: string}, trial: {type: string}, tag: {type: string}, mode: {type: string, enum: [Slow]}", "v1beta1,v1"},
	{
		"v1.2.0", "2024-01-01", zone(alphaZone+betaZone) + trial(", {stage: Removed, release: v1.2.0}|  announced: {Removed: v1.1.0}\n") + tag("", "  announced: {Removed: v1.2.0}\n") + label + fast(""),
		"zone: {type: string}, tag: {type: string}, label: {type: string}, mode: {type: string, enum: [Slow, Fast]}", "v1beta1,v1",
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
	return "- gate: Zone\n  documentation: docs/zone.md\n  tests: {enabled: [TestZone], disabled: [TestNoZone]}\n" + more + "  stages: [" + stages + "]\n  parts: [{group: example.com, resource: carts, field: spec.zone}]\n"
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
	return "- gate: Fast\n  documentation: docs/fast.md\n  tests: {enabled: [TestFast], disabled: [TestNoFast]}\n  stages: [{stage: Beta, release: v1.2.0, default: false, lockToDefault: true}" + stages +
		"]\n  parts: [{group: example.com, resource: carts, field: spec.mode, values: [Fast]}]\n"
}

// write lays out the files of a release, after those before it.
func (r release) write(t *testing.T, before []release) {
	t.Helper()
	recorded := ""
	for _, b := range append(slices.Clone(before), r) {
		recorded += fmt.Sprintf("- {release: %s, date: %s}\n", b.name, b.date)
	}
	versions := strings.Split(r.versions, ",")
	crd := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: carts.example.com}\nspec:\n  group: example.com\n  scope: Namespaced\n  names: {kind: Cart, plural: carts, singular: cart, listKind: CartList}\n  versions:\n"
	for i, v := range versions {
		crd += fmt.Sprintf("  - {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {%s}}}}}}\n", v, i == len(versions)-1, r.fields)
	}
	for name, text := range map[string]string{
		"crd.yaml": crd,
		"features.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: FeatureFile\ncomponent: carts\nspec: {release: " + r.name + "}\nsource: {crds: [crd.yaml]}\noutput: {manifests: manifests.yaml}\nreleases:\n" + recorded +
			"rules: {gate-overdue: ignore}\nfeatures:\n" + r.features,
	} {
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
		code := Main(append([]string{"features"}, args...), strings.NewReader(""), &out, &out)
		return code, out.String()
	}
	git("init", "-q", ".")
	for i, r := range history {
		r.write(t, history[:i])
		if code, text := run("generate"); code != ExitOK {
			t.Fatalf("%s: %s", r.name, text)
		}
		if i > 0 {
			if code, text := run("verify", "--against", "git:"+history[i-1].name); code != ExitOK {
				t.Errorf("the step to %s is refused: %s", r.name, text)
			}
		}
		git("add", "-A")
		git("commit", "-q", "-m", r.name)
		git("tag", r.name)
	}

	// From the last release on, each of these steps breaks a rule.
	last := history[len(history)-1]
	for _, tt := range []struct {
		rule, old, next string
	}{
		{"stage-moved-back", ", {stage: Stable, release: v1.5.0}]", "]"},
		{"history-changed", "{stage: Beta, release: v1.2.0}", "{stage: Beta, release: v1.1.0}"},
		{"feature-vanished", label, ""},
		{"feature-renamed", "gate: Label", "gate: Sticker"},
		{"tombstone-gone", trial(", {stage: Removed, release: v1.2.0}|  announced: {Removed: v1.1.0}\n"), ""},
		{"removed-too-early", "[{stage: Alpha, release: v1.2.0}]", "[{stage: Alpha, release: v1.2.0}, {stage: Removed, release: v1.6.0}]"},
		{"beta-skipped", "[{stage: Alpha, release: v1.2.0}]", "[{stage: Alpha, release: v1.2.0}, {stage: Stable, release: v1.6.0}]"},
		{"promoted-untested", "[{stage: Alpha, release: v1.2.0}]", "[{stage: Alpha, release: v1.2.0}, {stage: Beta, release: v1.6.0}]"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			if !strings.Contains(last.features, tt.old) {
				t.Fatalf("there is no %s", tt.old)
			}
			next := last
			next.name, next.date, next.features = "v1.6.0", "2026-03-01", strings.Replace(last.features, tt.old, tt.next, 1)
			next.write(t, history)
			code, text := run("verify", "--against", "git:"+last.name)
			if code != ExitFindings || !strings.Contains(text, tt.rule) {
				t.Errorf("exit code %d: %s", code, text)
			}
		})
	}
}
