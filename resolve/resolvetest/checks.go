package resolvetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice.dev/resolve"
)

// tester runs checks, and collects what is wrong.
type tester struct {
	*Case

	problems []string
}

func (t *tester) failf(format string, args ...any) {
	t.problems = append(t.problems, fmt.Sprintf(format, args...))
}

// resolve resolves a request by a runner of its own.
func (t *tester) resolve(ctx context.Context, q Request, o resolve.Options) (*resolve.Resource, error) {
	runner, err := t.newRunner(t.Resolver, o)
	if err != nil {
		return nil, err
	}
	return runner.Resolve(ctx, q.queryFor(t.Case))
}

// validate returns the request that the resolver gets, so that a check can call the resolver itself.
func (t *tester) validate(q Request) (*resolve.Request, error) {
	runner, err := t.newRunner(t.Resolver, resolve.Options{})
	if err != nil {
		return nil, err
	}
	return runner.Validate(q.queryFor(t.Case))
}

// checkSpec demands a valid specification, a configuration that it accepts, and the same specification at each call: the framework
// reads it several times.
func (t *tester) checkSpec(context.Context) {
	spec := t.Resolver.Spec()
	if err := spec.Check(); err != nil {
		t.problems = append(t.problems, resolve.Problems(err)...)
	}
	if _, err := t.newRunner(t.Resolver, resolve.Options{}); err != nil {
		t.failf("the configuration is refused: %v", err)
	}
	if len(t.Works) == 0 {
		t.failf("the case has no request that works")
	}
	a, errA := spec.Schema()
	b, errB := t.Resolver.Spec().Schema()
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.failf("Spec does not always return the same")
	}
}

// counting records whether Resolve was called.
type counting struct {
	resolve.Resolver

	calls atomic.Int64
}

// Resolve implements [resolve.Resolver].
func (c *counting) Resolve(ctx context.Context, r *resolve.Request) (*resolve.Resource, error) {
	c.calls.Add(1)
	return c.Resolver.Resolve(ctx, r)
}

// checkRefusals gives each parameter values that are wrong by its declaration alone. The framework has to refuse them, so the resolver
// must not be called. It also demands an error for a parameter whose name is nearly that of the parameter cache.
func (t *tester) checkRefusals(ctx context.Context) {
	if len(t.Works) == 0 {
		return
	}
	counter := &counting{Resolver: t.Resolver}
	runner, err := t.newRunner(counter, resolve.Options{})
	if err != nil {
		t.failf("%v", err)
		return
	}
	try := func(what string, q *resolve.Query) {
		_, err := runner.Resolve(ctx, q)
		if e, ok := errors.AsType[*resolve.Error](err); !ok || e.Reason != resolve.ReasonInvalid {
			t.failf("%s: got %v, want an error with the reason %s", what, err, resolve.ReasonInvalid)
			return
		}
		t.judgeError(what, err)
	}
	text := func(s string) *resolve.Value { return &resolve.Value{Type: resolve.String, String: s} }
	unknown := t.Works[0].queryFor(t.Case)
	unknown.Params = append(unknown.Params, resolve.Given{Name: "cachee", Value: *text("x")})
	try("a mistyped parameter", unknown)
	for _, p := range t.Resolver.Spec().Params {
		// with is the first request that works, with another value of the parameter, or without it.
		with := func(v *resolve.Value) *resolve.Query {
			q := t.Works[0].queryFor(t.Case)
			q.Params = slices.DeleteFunc(q.Params, func(g resolve.Given) bool { return g.Name == p.Name || slices.Contains(p.Aliases, g.Name) })
			if v != nil {
				q.Params = append(q.Params, resolve.Given{Name: p.Name, Value: *v})
			}
			return q
		}
		if p.Type == "" || p.Type == resolve.String {
			try("an array for "+p.Name, with(&resolve.Value{Type: resolve.Array, Array: []string{"x"}}))
			try("an object for "+p.Name, with(&resolve.Value{Type: resolve.Object, Object: map[string]string{"x": "y"}}))
			try("a very long value for "+p.Name, with(text(strings.Repeat("x", 1<<20))))
		}
		if p.Required && p.DefaultKey == "" {
			try("no "+p.Name, with(nil))
			try("an empty "+p.Name, with(text("")))
		}
	}
	if n := counter.calls.Load(); n > 0 {
		t.failf("Resolve was called %d times", n)
	}
}

// judgeError checks the text of an error.
func (t *tester) judgeError(what string, err error) {
	e, ok := errors.AsType[*resolve.Error](err)
	if !ok {
		t.failf("%s: the error is a %T, want a *resolve.Error", what, err)
		return
	}
	if e.Msg == "" || strings.ContainsAny(e.Msg, "\n\r\x00") || strings.Contains(e.Msg, "%!") {
		t.failf("%s: the text is not one good line: %q", what, e.Msg)
	}
	for _, h := range t.Hidden {
		if h != "" && strings.Contains(e.Msg, h) {
			t.failf("%s: the text has what should be hidden: %q", what, e.Msg)
		}
	}
}

// checkWorking resolves each request that works twice, without a cache, and compares the results with the case and with each other.
func (t *tester) checkWorking(ctx context.Context) {
	for _, q := range t.Works {
		first, err := t.resolve(ctx, q, resolve.Options{})
		if err != nil {
			t.failf("%s: %v", q.Name, err)
			continue
		}
		second, err := t.resolve(ctx, q, resolve.Options{})
		if err != nil {
			t.failf("%s, again: %v", q.Name, err)
			continue
		}
		if q.Data != nil && !bytes.Equal(q.Data, first.Data) {
			t.failf("%s: the content has %d bytes and is not the expected", q.Name, len(first.Data))
		}
		for alg, digits := range q.Digest {
			if first.Source.Digest[alg] != digits {
				t.failf("%s: the digest %s is %q, want %q", q.Name, alg, first.Source.Digest[alg], digits)
			}
		}
		// If the digest of the resolver is not that of the content, the case has a Digest.
		ofContent := q.Digest == nil && len(first.Source.Digest) == 1 && first.Source.Digest["sha256"] != ""
		if ofContent && !maps.Equal(first.Source.Digest, resolve.SHA256(first.Data)) {
			t.failf("%s: the digest sha256 is not that of the content", q.Name)
		}
		if first.Immutable && (!bytes.Equal(first.Data, second.Data) || !reflect.DeepEqual(first.Source, second.Source)) {
			t.failf("%s: it was called immutable and is another one the second time", q.Name)
		}
		for k := range first.Annotations {
			if strings.Contains(k, "\n") {
				t.failf("%s: the annotation %q", q.Name, k)
			}
		}
	}
}

// checkFailing demands the reason that the case names, and an error that users can read.
func (t *tester) checkFailing(ctx context.Context) {
	for _, q := range t.Fails {
		_, err := t.resolve(ctx, q.Request, resolve.Options{})
		e, ok := errors.AsType[*resolve.Error](err)
		if !ok || e.Reason != q.Reason || e.Transient != q.Transient {
			t.failf("%s: got %+v, want the reason %s, transient %t", q.Name, err, q.Reason, q.Transient)
			continue
		}
		t.judgeError(q.Name, err)
		// This checks the result of the resolver itself as well, because the framework may have corrected it.
		if req, err := t.validate(q.Request); err == nil {
			if _, err := t.Resolver.Resolve(ctx, req); err != nil {
				t.judgeError(q.Name+", unmended", err)
			}
		}
	}
}

// overLimit resolves each request with a limit that is one byte below its content. The resolver must refuse it as too large, and not
// cut it off.
func (t *tester) overLimit(ctx context.Context) {
	for _, q := range t.Works {
		res, err := t.resolve(ctx, q, resolve.Options{})
		if err != nil || len(res.Data) < 2 {
			continue // another check reports it
		}
		_, err = t.resolve(ctx, q, resolve.Options{Limits: resolve.Limits{Content: int64(len(res.Data)) - 1}})
		if e, ok := errors.AsType[*resolve.Error](err); !ok || e.Reason != resolve.ReasonTooLarge {
			t.failf("%s: with a limit one byte too small: got %v, want the reason %s", q.Name, err, resolve.ReasonTooLarge)
		}
	}
}

// checkConcurrent calls the resolver from 16 goroutines at once. Run tests with -race to find more than wrong results.
func (t *tester) checkConcurrent(ctx context.Context) {
	if len(t.Works) == 0 {
		return
	}
	const many = 16
	problems := make([]string, many)
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			q := t.Works[i%len(t.Works)]
			// Each calls the resolver directly, because the runner would share the fetch.
			req, err := t.validate(q)
			if err != nil {
				problems[i] = err.Error()
				return
			}
			params, config := maps.Clone(req.Params), maps.Clone(req.Config)
			res, err := t.Resolver.Resolve(ctx, req)
			switch {
			case err != nil:
				problems[i] = fmt.Sprintf("%s: %v", q.Name, err)
			case q.Data != nil && !bytes.Equal(q.Data, res.Data):
				problems[i] = q.Name + ": the content is not the expected"
			case !reflect.DeepEqual(params, req.Params) || !maps.Equal(config, req.Config):
				problems[i] = q.Name + ": the request was changed"
			}
		})
	}
	wg.Wait()
	t.problems = append(t.problems, slices.DeleteFunc(problems, func(p string) bool { return p == "" })...)
}

// checkCancellation calls the resolver with contexts that end, and demands that it returns soon, and leaves no goroutine behind.
func (t *tester) checkCancellation(ctx context.Context) {
	t.settleGoroutines(0)
	before := runtime.NumGoroutine()
	try := func(what string, q Request, wait time.Duration) {
		req, err := t.validate(q)
		if err != nil {
			t.failf("%v", err)
			return
		}
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := t.Resolver.Resolve(ctx, req)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil && wait > 0 {
				t.failf("%s: it succeeded", what)
			}
		case <-time.After(wait + t.patienceOrDefault()):
			t.failf("%s: it has not returned %s after the context was done", what, t.patienceOrDefault())
		}
	}
	if len(t.Works) > 0 {
		try("a context that is done before", t.Works[0], 0)
	}
	if t.Hangs != nil {
		for range 4 {
			try("a remote that hangs", *t.Hangs, 50*time.Millisecond)
		}
	}
	if after := t.settleGoroutines(before); after > before {
		stacks := make([]byte, 1<<16)
		t.failf("%d goroutines are left behind:\n%s", after-before, stacks[:runtime.Stack(stacks, true)])
	}
}

// settleGoroutines closes connections and waits until at most that many goroutines are left, for a second if the number is 0. It returns
// their number.
func (t *tester) settleGoroutines(most int) int {
	patience := t.patienceOrDefault()
	if most == 0 {
		patience = time.Second
	}
	last, still := 0, 0
	for until := time.After(patience); ; {
		if closer, ok := t.Resolver.(interface{ Close() }); ok {
			closer.Close()
		}
		n := runtime.NumGoroutine()
		if n == last {
			still++
		} else {
			last, still = n, 0
		}
		if most > 0 && n <= most || most == 0 && still > 20 {
			return n
		}
		select {
		case <-until:
			return n
		case <-time.After(5 * time.Millisecond):
		}
	}
}
