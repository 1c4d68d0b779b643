package compat

import (
	"k8s.io/utils/ptr"

	"sluice.dev/report"
)

// scaleSubresourceChanged compares the three paths. A path that is new harms nobody who used the subresource; values
// that it refuses are for scale-value-refused.
var scaleSubresourceChanged = Rule{
	ID:    "scale-subresource-changed",
	Level: report.ClientsBroken,
	Title: "A path of the scale subresource changed",
	Why: `The paths name the fields that /scale reads and writes. With another path, autoscalers write a field that the controller may ignore, ` +
		`and read a number that they may not have set. If the label selector path is removed, the HorizontalPodAutoscaler no longer finds ` +
		`pods.`,
	Help: `Keep the paths. To rename the field, keep the old field and let the controller copy its value to the new one.`,
	Unsafe: Example{Old: exampleVersions(
		storedVersion("v1", scaleSubresource(".spec.replicas")),
	), New: exampleVersions(
		storedVersion("v1", scaleSubresource(".spec.size")),
	)},
	Instead: exampleVersions(
		storedVersion("v1", scaleSubresource(".spec.replicas")),
	),
	whole: inServedVersions(func(p pair) (out []report.Finding) {
		o, n := scaleOf(p.from), scaleOf(p.to)
		if o == nil || n == nil {
			return nil
		}
		tell := func(name, before, after string) {
			if before == after || before == "" {
				return
			}
			message := name + " changed from " + before + " to " + after
			if after == "" {
				message = name + " " + before + " is gone"
			}
			out = append(out, report.Finding{
				Version: p.to.Name, Message: message, Before: before, After: after, SchemaPath: p.to.documentTokens("subresources", "scale", name),
			})
		}
		tell("specReplicasPath", o.SpecReplicasPath, n.SpecReplicasPath)
		tell("statusReplicasPath", o.StatusReplicasPath, n.StatusReplicasPath)
		tell("labelSelectorPath", ptr.Deref(o.LabelSelectorPath, ""), ptr.Deref(n.LabelSelectorPath, ""))
		return out
	}),
}
