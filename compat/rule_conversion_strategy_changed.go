package compat

import (
	"context"
	"strings"

	"sluice.dev/report"
)

// conversionStrategyChanged reports the step from None to Webhook, if clients of the old CRD need the webhook for a
// version that they used. The other direction is conversion-webhook-dropped, and a webhook with more to do
// webhook-conversion-added.
var conversionStrategyChanged = Rule{
	ID:    "conversion-strategy-changed",
	Level: report.ClientsBroken,
	Title: "A webhook now converts objects that so far looked the same in all versions",
	Why: `So far an object looked the same in all versions. Now every write in a version other than the storage version needs the webhook, ` +
		`and so does every read of an object that is stored in another version. While the webhook is down, or its certificate is invalid, ` +
		`those requests fail. Lists, watches and the deletion of namespaces fail with them. If the same update makes another version the ` +
		`storage version, that holds for all existing objects.

The webhook may also rename fields. Clients that use the same fields in all versions then no longer find them.`,
	Help: `Keep the strategy None until the webhook runs and the API server can reach it. Then name the webhook in the CRD, and suppress the ` +
		`finding with that reason.`,
	Unsafe: Example{
		Old: exampleVersions(
			servedVersion("v1beta1"),
			storedVersion("v1"),
		),
		New: webhookConversion + exampleVersions(
			servedVersion("v1beta1"),
			storedVersion("v1"),
		),
	},
	Instead: `
conversion:
  strategy: None` + exampleVersions(
		servedVersion("v1beta1"),
		storedVersion("v1"),
	),
	whole: func(_ context.Context, c *comparison) []report.Finding {
		if !c.webhookNamedAnew() {
			return nil
		}
		versions := c.needWebhookAnew(c.newConversions)
		if len(versions) == 0 {
			return nil
		}
		return []report.Finding{{
			Message: "conversion changed from None to Webhook: requests for " + strings.Join(versions, ", ") + " now need the webhook", Before: "None", After: "Webhook",
			SchemaPath: []string{"spec", "conversion", "strategy"},
		}}
	},
}
