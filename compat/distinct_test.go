package compat

import (
	"fmt"
	"testing"

	"sluice.dev/report"
)

// A list of distinct items is no longer than there are different items. The proof of that is checked, and one item less is too few.
func TestListsOfFewDifferentItems(t *testing.T) {
	keyed := func(keys, required, properties string) string {
		return "x-kubernetes-list-type: map, x-kubernetes-list-map-keys: " + keys + ", items: {type: object, required: " + required + ", properties: {" + properties + "}}"
	}
	set := func(items string) string { return "x-kubernetes-list-type: set, items: {" + items + "}" }
	for name, c := range map[string]struct {
		list string
		most int // how many different items there are
	}{
		"values of an enum":               {set("type: string, enum: [a, b]"), 2},
		"values that a length leaves":     {set("type: string, enum: [a, bb, cc, ddd], maxLength: 2, minLength: 2"), 2},
		"values that a pattern leaves":    {set("type: string, enum: [a, b, c1], pattern: '^[a-z]$'"), 2},
		"values that a junctor leaves":    {set("type: string, enum: [a, b, c], not: {enum: [a]}"), 2},
		"booleans":                        {set("type: boolean"), 2},
		"the empty string":                {set("type: string, maxLength: 0"), 1},
		"keys of an enum":                 {keyed("[k]", "[k]", "k: {type: string, enum: [a, b, cc], maxLength: 1}, v: {type: string}"), 2},
		"keys that are booleans":          {keyed("[k]", "[k]", "k: {type: boolean}, v: {type: integer}"), 2},
		"two keys":                        {keyed("[k, l]", "[k, l]", "k: {type: boolean}, l: {type: string, enum: [a, b, c]}, v: {type: string}"), 6},
		"a key of which no value is left": {keyed("[k]", "[k]", "k: {type: string, enum: [aa], maxLength: 1}"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			list := func(most int) *crd {
				return specCRD(t, fmt.Sprintf("l: {type: array, maxItems: %d, %s}", most, c.list))
			}
			if got := check(t, list(c.most+3), list(c.most)); !got.Verdict.Proven() {
				t.Errorf("%d are enough, and the verdict is %s\n%s", c.most, got.Verdict, listed(got))
			}
			if c.most == 0 {
				return
			}
			if got := check(t, list(c.most+3), list(c.most-1)); got.Verdict != report.Unsafe {
				t.Errorf("%d are too few, and the verdict is %s\n%s", c.most-1, got.Verdict, listed(got))
			}
		})
	}
}
