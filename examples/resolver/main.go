// Command resolver is a complete custom resolver, which docs/writing-a-resolver.md explains. It resolves one request without
// a cluster: go run ./examples/resolver --host example.com --name build
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"

	"sluice.dev/resolve"
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

func resolveOnce(ctx context.Context, params map[string]string) error {
	registry, err := resolve.NewRegistry(wellKnown{netguard.NewPool(netguard.Options{})})
	if err != nil {
		return err
	}
	runner, err := resolve.NewRunner(resolve.Options{Resolvers: registry})
	if err != nil {
		return err
	}
	res, err := runner.Resolve(ctx, &resolve.Query{Resolver: "well-known", Namespace: "default", Params: resolve.Strings(params)})
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(res.Data)
	return err
}

func main() {
	host, name := flag.String("host", "", "the host that publishes"), flag.String("name", "", "the name of the resource")
	flag.Parse()
	if err := resolveOnce(context.Background(), map[string]string{"host": *host, "name": *name}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // this is a command of its own
	}
}
