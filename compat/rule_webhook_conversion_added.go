package compat

import (
	"context"
	"strings"

	"sluice.dev/report"
)

// webhookConversionAdded compares the steps that webhooks have to make under both CRDs, and the address of the
// webhook. It trusts a webhook with what it did before, and says nothing about what it makes of objects.
var webhookConversionAdded = Rule{
	ID:    "webhook-conversion-added",
	Level: report.ClientsBroken,
	Title: "A conversion webhook has to do what no webhook did before",
	Why: `Sluice does not run conversion webhooks. It trusts a webhook with the conversions that it made under the old CRD: they are not ` +
		`compared. Now the webhook has to convert between versions that it did not convert between, or another webhook takes its place: ` +
		`the address changed, or the version of the ConversionReview. While the webhook does not answer, requests that need it fail. ` +
		`If it drops a field of an object, the next write erases the field.

No request that needs the webhook passes if its caBundle holds no certificate. Kubernetes 1.31 and later refuse such an update.

If only a new version needs the new conversions, the change is undecided. kubectl and the deletion of namespaces use the ` +
		`version with the highest priority, even if it is new.`,
	Help: `First roll out the webhook that can make the new conversions, and declare a new version with served: false. Test the webhook: objects ` +
		`must survive the way to the other version and back. Then serve the version, and suppress the finding with that reason.`,
	Unsafe: Example{
		Old: webhookConversion + exampleVersions(storedVersion("v1")),
		New: webhookConversion + exampleVersions(
			servedVersion("v1"),
			storedVersion("v2"),
		),
	},
	Instead: webhookConversion + exampleVersions(
		storedVersion("v1"),
		unservedVersion("v2"),
	),
	whole: func(_ context.Context, c *comparison) []report.Finding {
		if f, ok := c.brokenBundle(); ok {
			return []report.Finding{f}
		}
		steps := c.conversionsAnew()
		anew := c.needWebhookAnew(steps)
		if !c.hasBothCRDs() || len(steps) == 0 || len(anew) > 0 && c.webhookNamedAnew() { // the last is conversion-strategy-changed
			return nil
		}
		f := report.Finding{SchemaPath: []string{"spec", "conversion", "webhook", "clientConfig"}}
		was, now := webhookAddress(c.old), webhookAddress(c.new)
		switch {
		case len(anew) > 0:
			f.Message = "requests for " + strings.Join(anew, ", ") + " now need the webhook: it has to convert " + stepNames(steps)
		case was != now && len(c.oldConversions) > 0:
			f.Message, f.Before, f.After = "another webhook has to convert "+stepNames(steps), was, now
		default:
			f.Outcome, f.Reason = report.Undecided, "sluice does not run conversion webhooks"
			f.Message = Undetermined + ": the webhook has to convert " + stepNames(steps) + ", which it did not convert before"
		}
		return []report.Finding{f}
	},
}
