// Package resolvetest tests a resolver against the rules of package resolve. The author gives requests that succeed and requests
// that fail. [Run] runs them through the framework in all the ways in which it will use the resolver: with wrong parameters,
// cancelled, concurrently, with a small limit.
//
// It does not test rules of one source, such as access to its files.
package resolvetest

import (
	"cmp"
	"context"
	"maps"
	"testing"
	"time"

	"sluice.dev/resolve"
)

// Case is a resolver with requests to try.
type Case struct {
	Resolver resolve.Resolver
	// Config is the data of its ConfigMap.
	Config map[string]string
	// Secrets and Identity hold for all requests.
	Secrets  resolve.Secrets
	Identity string
	// Works are requests that succeed; at least one.
	Works []Request
	// Fails are requests that fail, in Resolve or before.
	Fails []Failure
	// Hangs is a request whose remote never answers; nil for none.
	Hangs *Request
	// Hidden are texts that no error may contain: passwords, tokens, names of temporary directories.
	Hidden []string
	// Patience is the time to wait for events that should happen soon; 0 stands for 10 s.
	Patience time.Duration
}

// Request is a request for the resolver.
type Request struct {
	// Name identifies the request in the output of the test.
	Name string
	// Namespace is "default" if empty.
	Namespace string
	// Params are string parameters, Given others.
	Params map[string]string
	Given  []resolve.Given
	// Data is the expected content; nil expects any.
	Data []byte
	// Digest is a part of the expected digest, nil for any.
	Digest map[string]string
}

// Failure is a request and the reason for its failure.
type Failure struct {
	Request

	Reason resolve.Reason
	// Transient is true if another attempt may succeed.
	Transient bool
}

// Run runs all checks. If the resolver has a method Close(), Run calls it to close connections. Run counts goroutines, so tests
// that use it must not run in parallel with others.
func Run(t *testing.T, c Case) {
	t.Helper()
	for _, k := range checks {
		t.Run(k.name, func(t *testing.T) {
			checking := &tester{Case: &c}
			k.run(checking, t.Context())
			for _, problem := range checking.problems {
				t.Error(problem)
			}
		})
	}
}

// check is one rule.
type check struct {
	name string
	run  func(t *tester, ctx context.Context)
}

var checks = []check{
	{"the specification is sound", (*tester).checkSpec},
	{"wrong parameters do not reach Resolve", (*tester).checkRefusals},
	{"requests that work", (*tester).checkWorking},
	{"requests that fail", (*tester).checkFailing},
	{"content over the limit", (*tester).overLimit},
	{"concurrent use", (*tester).checkConcurrent},
	{"cancellation", (*tester).checkCancellation},
}

func (c *Case) patienceOrDefault() time.Duration {
	if c.Patience > 0 {
		return c.Patience
	}
	return 10 * time.Second
}

// queryFor returns the query of a request. All have one name and UID: what a resolver does must not depend on them.
func (q Request) queryFor(c *Case) *resolve.Query {
	out := &resolve.Query{
		Resolver: c.Resolver.Spec().Name, Namespace: q.Namespace, Name: "conformance", UID: "conformance",
		Secrets: c.Secrets, Identity: c.Identity, Params: append(resolve.Strings(q.Params), q.Given...),
	}
	out.Namespace = cmp.Or(out.Namespace, "default")
	return out
}

// newRunner runs a resolver without retries and with nothing cached.
func (c *Case) newRunner(r resolve.Resolver, o resolve.Options) (*resolve.Runner, error) {
	registry, err := resolve.NewRegistry(r)
	if err != nil {
		return nil, err
	}
	o.Resolvers = registry
	o.Cache = cmp.Or(o.Cache, &resolve.CacheLimits{})
	runner, err := resolve.NewRunner(o)
	if err != nil {
		return nil, err
	}
	config := map[string]string{resolve.KeyBackoffSteps: "1"}
	maps.Copy(config, c.Config)
	return runner, runner.Configure(r.Spec().Name, config)
}
