package contain

import (
	"fmt"
	"testing"
)

// Numbers that a multiple of one number can be and one of another cannot are found, with and without bounds. They may be whole numbers written
// as floats.
func TestMultiplesOfNumbers(t *testing.T) {
	factors := []float64{0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 4.5, 7}
	refused := 0
	for _, bounds := range []string{"", ", minimum: 0, maximum: 100", ", minimum: -10"} {
		for _, from := range factors {
			for _, to := range factors {
				old := parseSchema(t, fmt.Sprintf("{type: object, properties: {num: {type: number, multipleOf: %v%s}}}", from, bounds))
				new := parseSchema(t, fmt.Sprintf("{type: object, properties: {num: {type: number, multipleOf: %v%s}}}", to, bounds))
				r := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true})
				harmed := false
				before, after := validator(t, old), validator(t, new)
				for k := 1.0; k <= 12; k++ {
					obj := map[string]any{"apiVersion": "example.com/v1", "kind": "Example", "metadata": map[string]any{"name": "example", "namespace": "default"}, "num": k * from}
					was, _ := fine(t, before, obj)
					is, _ := fine(t, after, obj)
					harmed = harmed || was && !is
				}
				if harmed {
					refused++
				}
				if harmed && r.Verdict != NotContained {
					t.Errorf("multipleOf %v to %v%s: %v", from, to, bounds, told(r.Gaps))
				}
			}
		}
	}
	if refused < 100 {
		t.Errorf("only %d changes refuse a multiple", refused)
	}
}
