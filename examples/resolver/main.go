// Command resolver is a complete custom resolver, which docs/writing-a-resolver.md explains: copy it, and change Spec and Resolve.
//
//	go run ./examples/resolver resolve host=example.com name=build
//	go run ./examples/resolver manifests --image=registry.example.com/resolver:v1
package main

import (
	"context"
	"errors"
	"regexp"

	"sluice.dev/resolve"
	"sluice.dev/resolve/controller"
	"sluice.dev/resolve/netguard"
)

// wellKnown fetches https://HOST/.well-known/tekton/NAME.yaml.
type wellKnown struct{ guards *netguard.Pool }

// Spec implements [resolve.Resolver].
func (wellKnown) Spec() resolve.Spec {
	return resolve.Spec{
		Name: "well-known", Doc: "Fetches what a host publishes below /.well-known/tekton.",
		ConfigMap: "well-known-config", Config: netguard.Keys(false, false),
		Params: []resolve.Param{
			{Name: "host", Required: true, MaxLength: 253, Check: checkPlainHost, Doc: "The host that publishes."},
			{Name: "name", Required: true, MaxLength: 63, Check: checkPlainHost, Doc: "The name of the resource."},
		},
		Scope: func(*resolve.Request) string { return resolve.PublicScope },
		Host:  func(r *resolve.Request) string { return r.Get("host") },
	}
}

func checkPlainHost(v string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9][-.:A-Za-z0-9]*$`).MatchString(v) {
		return errors.New("may have letters, digits, dots, colons and hyphens only")
	}
	return nil
}

// Resolve implements [resolve.Resolver].
func (w wellKnown) Resolve(ctx context.Context, r *resolve.Request) (*resolve.Resource, error) {
	guard, err := w.guards.Get(r.Config, false)
	if err != nil {
		return nil, err
	}
	at := "https://" + r.Get("host") + "/.well-known/tekton/" + r.Get("name") + ".yaml"
	answer, failure := guard.Get(ctx, netguard.Fetch{URL: at, MaxBytes: r.Limit()})
	if failure != nil {
		return nil, failure
	}
	return &resolve.Resource{Data: answer.Body, Source: resolve.Source{URI: at, Digest: resolve.SHA256(answer.Body)}}, nil
}

func main() { controller.Main(wellKnown{netguard.NewPool(netguard.Options{})}) }
