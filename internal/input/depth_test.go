package input

import (
	"runtime"
	"strings"
	"testing"
)

// Paths are as long as a document is deep: whoever makes one for each place takes memory by the square of the depth.
func TestDeepSchemasAllocateNoMoreThanFlatOnes(t *testing.T) {
	const places = 6000
	allocated := func(depth int) uint64 {
		one := ": " + strings.Repeat("{type: object, properties: {o: ", depth) + "{type: string}" + strings.Repeat("}}", depth) + ", "
		var b strings.Builder
		for i := range places / depth {
			b.WriteString("c" + strings.Repeat("x", i%7) + strings.Repeat("y", i/7%7) + strings.Repeat("z", i/49%50) + one)
		}
		text := "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: as.example.com}, " +
			"spec: {versions: [{name: v1, schema: {openAPIV3Schema: {type: object, properties: {" + b.String() + "}}}}]}}"
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := Decode(t.Context(), "crd.yaml", []byte(text)); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	flat, deep := allocated(3), allocated(200)
	if deep > 2*flat {
		t.Errorf("%d places at depth 3 take %d MB, at depth 200 %d MB; want no more than twice as much", places, flat>>20, deep>>20)
	}
}
