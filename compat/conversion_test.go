package compat

import (
	"fmt"
	"slices"
	"testing"

	"sluice.dev/report"
)

const deadWebhook = `
conversion:
  strategy: Webhook
  webhook:
    conversionReviewVersions: [v1]
    clientConfig: {url: "https://127.0.0.1:1/x"}
`

// A webhook that is named, replaced or given new work is told, together with any change of versions; one that has nothing to do is not.
func TestWebhooksThatNobodyHasRun(t *testing.T) {
	const more, less = "type: object, properties: {a: {type: string}, b: {type: string}}", "type: object, properties: {a: {type: string}}"
	const strategy, added = "conversion-strategy-changed", "webhook-conversion-added"
	one, two := versions("v1 served,storage "+more), versions("v1 served,storage "+more, "v2 served "+more)
	moved := versions("v1 served "+more, "v2 served,storage "+more)
	for name, c := range map[string]struct {
		old, new string
		verdict  report.Verdict
		rule     string
	}{
		"one update names a webhook and stores another version": {one, deadWebhook + versions("v1 served "+more, "v2 served,storage "+less), report.Unsafe, strategy},
		"the same, and both versions are equal":                 {one, deadWebhook + moved, report.Unsafe, strategy},
		"the stored version stays, and is unserved":             {two, deadWebhook + versions("v1 none,storage "+more, "v2 served "+more), report.Unsafe, strategy},
		"a webhook for a new version alone":                     {one, deadWebhook + versions("v1 served,storage "+more, "v2 served "+less), report.IsUndecided, added},
		"a webhook without work":                                {one, deadWebhook + one, report.Safe, ""},
		"a webhook for a version that nobody uses":              {one, deadWebhook + versions("v1 served,storage "+more, "v2 none "+less), report.Safe, ""},
		"a webhook that goes on":                                {deadWebhook + two, deadWebhook + two, report.IsUnchanged, ""},
		"a webhook that goes on, the other way":                 {deadWebhook + two, deadWebhook + moved, report.Safe, ""},
		"a webhook that had no work, and a version":             {deadWebhook + one, deadWebhook + moved, report.Unsafe, added},
		"a webhook that gets a third version":                   {deadWebhook + two, deadWebhook + versions("v1 served,storage "+more, "v2 served "+more, "v3 served "+more), report.IsUndecided, added},
		"another webhook":                                       {webhook + two, deadWebhook + two, report.Unsafe, added},
		"the port that is the default":                          {webhook + two, webhook[:len(webhook)-3] + ", port: 443}}\n" + two, report.Safe, ""},
		"another port":                                          {webhook + two, webhook[:len(webhook)-3] + ", port: 8443}}\n" + two, report.Unsafe, added},
		"no webhook, and equal versions since this update":      {deadWebhook + versions("v1 served,storage "+more, "v2 served "+less), two, report.Unsafe, "conversion-webhook-dropped"},
		"no webhook, and equal versions as before":              {deadWebhook + two, two, report.Safe, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := check(t, patched(t, c.old), patched(t, c.new))
			if got.Verdict != c.verdict || c.rule != "" && !slices.Contains(ruleIDs(got.Findings), c.rule) {
				t.Errorf("got %s with %v, want %s with %s", got.Verdict, ruleIDs(got.Findings), c.verdict, c.rule)
			}
			if c.rule == "" && len(got.Findings) > 0 {
				t.Errorf("told without need: %v", ruleIDs(got.Findings))
			}
		})
	}
}

// What status.storedVersions names needs the webhook, too.
func TestAWebhookForVersionsThatAreOnlyStored(t *testing.T) {
	text := versions("v1alpha1 none type: string", "v1 served,storage type: string")
	old, new := patched(t, text), patched(t, deadWebhook+text)
	if got := check(t, old, new); !got.Verdict.Proven() {
		t.Errorf("nothing is stored as v1alpha1: %s", got.Verdict)
	}
	old.Status.StoredVersions = []string{"v1alpha1", "v1"}
	if got := check(t, old, new); got.Verdict != report.Unsafe || !slices.Contains(ruleIDs(got.Findings), "conversion-strategy-changed") {
		t.Errorf("objects are stored as v1alpha1: %s %v", got.Verdict, ruleIDs(got.Findings))
	}
}

// A webhook converts objects of each version to what fits it. A scale subresource that refuses some of them is told.
func TestScaleOfAVersionThatAWebhookConverts(t *testing.T) {
	text := func(subresources string) string {
		schema := "{openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}, status: {type: object}}}}"
		return deadWebhook + "versions:\n- {name: v1, served: true, storage: true, schema: " + schema + "}\n" +
			"- {name: v2, served: true, storage: false, subresources: {" + subresources + "}, schema: " + schema + "}\n"
	}
	got := check(t, patched(t, text("")), patched(t, text("scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}")))
	if got.Verdict != report.Unsafe || !slices.Contains(ruleIDs(got.Findings), "scale-value-refused") {
		t.Errorf("got %s with %v", got.Verdict, ruleIDs(got.Findings))
	}
}

// TestAWebhookNeedNotFillIn: a webhook makes the old value of an update, and nothing says that it knows the default of a new field. So an
// immutable object that gains one is not proven in a version to which the webhook converts.
func TestAWebhookNeedNotFillIn(t *testing.T) {
	of := func(conversion, more string) *crd {
		version := func(name string, storage bool, more string) string {
			return fmt.Sprintf("{name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {s: {type: string}%s}, x-kubernetes-validations: [{rule: self == oldSelf}]}}}}}", name, storage, more)
		}
		return patched(t, "conversion: "+conversion+"\nversions: ["+version("v1", true, "")+", "+version("v2", false, more)+"]")
	}
	const webhook = "{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'https://example.com/convert'}}}"
	for _, conversion := range []string{webhook, "{strategy: None}"} {
		if got := check(t, of(conversion, ""), of(conversion, ", nn: {type: integer, default: 1}")); got.Verdict.Proven() {
			t.Errorf("%s: %s", conversion, got.Verdict)
		}
	}
}
