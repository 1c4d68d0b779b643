package compat

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/report"
)

// printerColumnRemoved compares the names of columns. A version without any has the columns of the default: the age.
var printerColumnRemoved = Rule{
	ID:    "printer-column-removed",
	Level: report.Cosmetic,
	Title: "A printer column was removed",
	Why:   `kubectl get no longer shows the column. Scripts that cut columns out of its output then take the wrong one.`,
	Help:  `Keep the column. With a priority above 0 it shows only with -o wide. Scripts should use -o json or custom-columns.`,
	Unsafe: Example{Old: exampleVersions(
		storedVersion("v1", `additionalPrinterColumns:
- {name: Ready, type: boolean, jsonPath: .status.ready}
- {name: Phase, type: string, jsonPath: .status.phase}`),
	), New: exampleVersions(
		storedVersion("v1", `additionalPrinterColumns:
- {name: Ready, type: boolean, jsonPath: .status.ready}`),
	)},
	Instead: exampleVersions(
		storedVersion("v1", `additionalPrinterColumns:
- {name: Ready, type: boolean, jsonPath: .status.ready}
- {name: Phase, type: string, jsonPath: .status.phase, priority: 1}`),
	),
	whole: inServedVersions(func(p pair) (out []report.Finding) {
		after := columnsByName(p.to)
		for i, o := range p.from.AdditionalPrinterColumns {
			if after[o.Name] == nil {
				out = append(out, report.Finding{
					Version: p.to.Name, Message: "printer column " + compactJSON(o.Name) + " is gone", Before: o.JSONPath,
					SchemaPath: p.from.documentTokens("additionalPrinterColumns", indexToken(i)), InOld: true,
				})
			}
		}
		return out
	}),
}

// columnsByName has the printer columns of a version by name; the first one of each name.
func columnsByName(p *part) map[string]*apiextensionsv1.CustomResourceColumnDefinition {
	out := map[string]*apiextensionsv1.CustomResourceColumnDefinition{}
	for i := range p.AdditionalPrinterColumns {
		if c := &p.AdditionalPrinterColumns[i]; out[c.Name] == nil {
			out[c.Name] = c
		}
	}
	return out
}
