package compat

import (
	"testing"

	"sluice.dev/report"
)

// At admission the API server has validated the CRD before. What it accepts by its own rules is not refused by those of this process, and
// no part of the budget is for a second validation.
func TestWhatAnAPIServerHasAcceptedIsNotValidatedAgain(t *testing.T) {
	const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              a: {type: string}
`
	// A schema without a type is not structural.
	old, new := decode(t, crd), decode(t, crd+"              b: {description: It has no type.}\n")
	for _, accepted := range []bool{false, true} {
		got, err := Check(t.Context(), old, new, Options{Accepted: accepted})
		if err != nil {
			t.Fatal(err)
		}
		refused := false
		for _, f := range got.Findings {
			refused = refused || f.Rule == "crd-refused-by-api-server" && f.Outcome == report.Violation
		}
		if refused == accepted {
			t.Errorf("accepted: %v, findings: %+v", accepted, got.Findings)
		}
	}
	const budget = 300
	if n := newComparison(old, new, Options{Budget: budget, Accepted: true}).searchBudget(); n != budget {
		t.Errorf("%d of %d units are for the comparison", n, budget)
	}
}
