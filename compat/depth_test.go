package compat_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/compat"
)

// The path of a place is as long as the place is deep. Code that copies it for each place needs memory by the square of the depth.
func TestDeepSchemasAllocateNoMoreThanFlatOnes(t *testing.T) {
	const places = 6000
	chains := func(depth, length int) string {
		var b strings.Builder
		for i := range places / depth {
			fmt.Fprintf(&b, "c%d: {", i)
			b.WriteString(strings.Repeat("type: object, properties: {o: {", depth-1))
			fmt.Fprintf(&b, "type: string, maxLength: %d", length)
			b.WriteString(strings.Repeat("}}", depth-1) + "}, ")
		}
		return b.String()
	}
	allocated := func(depth int) uint64 {
		var sides [2]apiextensionsv1.CustomResourceDefinition
		for i := range sides {
			text := `{metadata: {name: widgets.example.com}, spec: {group: example.com,
names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}, scope: Namespaced, versions: [{name: v1, served: true, storage: true,
schema: {openAPIV3Schema: {type: object, properties: {` + chains(depth, 9-i) + `}}}}]}}`
			if err := yaml.Unmarshal([]byte(text), &sides[i]); err != nil {
				t.Fatal(err)
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		// A small budget, so that nearly all is the work around the search.
		if _, err := compat.Check(t.Context(), &sides[0], &sides[1], compat.Options{Budget: 60_000}); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	flat, deep := allocated(3), allocated(300)
	if deep > 2*flat {
		t.Errorf("%d places at depth 3 take %d MB, at depth 300 %d MB; want no more than twice as much", places, flat>>20, deep>>20)
	}
}
