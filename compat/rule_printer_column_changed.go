package compat

import "sluice.dev/report"

// printerColumnChanged compares columns of one name. Their order and priority may change without a finding.
var printerColumnChanged = Rule{
	ID:    "printer-column-changed",
	Level: report.Cosmetic,
	Title: "A printer column shows something else",
	Why: `The column keeps its name, but its value comes from another field or is formatted as another type. People and scripts read it as ` +
		`before.`,
	Help: `Give the new value a column with another name.`,
	Unsafe: Example{Old: exampleVersions(
		storedVersion("v1", `additionalPrinterColumns:
- {name: Ready, type: integer, jsonPath: .status.readyReplicas}`),
	), New: exampleVersions(
		storedVersion("v1", `additionalPrinterColumns:
- {name: Ready, type: string, jsonPath: .status.ready}`),
	)},
	Instead: exampleVersions(
		storedVersion("v1", `additionalPrinterColumns:
- {name: Ready, type: integer, jsonPath: .status.readyReplicas}
- {name: IsReady, type: string, jsonPath: .status.ready}`),
	),
	whole: inServedVersions(func(p pair) (out []report.Finding) {
		before := columnsByName(p.from)
		for i, n := range p.to.AdditionalPrinterColumns {
			o := before[n.Name]
			if o == nil || o.JSONPath == n.JSONPath && o.Type == n.Type && o.Format == n.Format {
				continue
			}
			out = append(out, report.Finding{
				Version: p.to.Name, Message: "printer column " + compactJSON(n.Name) + " shows something else",
				Before: o.JSONPath + " (" + o.Type + ")", After: n.JSONPath + " (" + n.Type + ")",
				SchemaPath: p.to.documentTokens("additionalPrinterColumns", indexToken(i)),
			})
		}
		return out
	}),
}
