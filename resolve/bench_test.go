package resolve_test

import (
	"context"
	"fmt"
	"testing"

	"sluice.dev/resolve"
)

// BenchmarkRunner is what the framework itself takes for a request, with a resolver that takes nothing.
func BenchmarkRunner(b *testing.B) {
	registry, err := resolve.NewRegistry(&fake{spec(), func(context.Context, *resolve.Request) (*resolve.Resource, error) { return resource("x"), nil }})
	if err != nil {
		b.Fatal(err)
	}
	for _, mode := range []string{"never", "always"} {
		r, err := resolve.NewRunner(resolve.Options{Resolvers: registry})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(mode, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				if _, err := r.Resolve(b.Context(), ask(fmt.Sprint(i%50), str("cache", mode))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
