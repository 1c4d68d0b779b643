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
	"time"

	"sluice.dev/resolve"
)

func checkSpec(_ context.Context, c *Case) (out []string) {
	spec := c.Resolver.Spec()
	if err := spec.Check(); err != nil {
		out = append(out, resolve.Problems(err)...)
	}
	if _, err := c.newRunner(c.Resolver, resolve.Options{}); err != nil {
		out = append(out, "the configuration is refused: "+err.Error())
	}
	if len(c.Works) == 0 {
		out = append(out, "the case has no request that works")
	}
	a, errA := spec.Schema()
	b, errB := c.Resolver.Spec().Schema()
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		out = append(out, "Spec does not always return the same")
	}
	return out
}

// counting records whether Resolve was called.
type counting struct {
	resolve.Resolver

	mu    sync.Mutex
	calls int
}

// Resolve implements [resolve.Resolver].
func (c *counting) Resolve(ctx context.Context, r *resolve.Request) (*resolve.Resource, error) {
	c.mu.Lock()
	c.calls++
	c.mu.Unlock()
	return c.Resolver.Resolve(ctx, r)
}

func checkRefusals(ctx context.Context, c *Case) (out []string) {
	if len(c.Works) == 0 {
		return nil
	}
	counter := &counting{Resolver: c.Resolver}
	runner, err := c.newRunner(counter, resolve.Options{})
	if err != nil {
		return []string{err.Error()}
	}
	try := func(what string, q *resolve.Query) {
		_, err := runner.Resolve(ctx, q)
		e, ok := errors.AsType[*resolve.Error](err)
		if !ok || e.Reason != resolve.ReasonInvalid {
			out = append(out, fmt.Sprintf("%s: got %v, want an error with the reason %s", what, err, resolve.ReasonInvalid))
			return
		}
		out = append(out, c.judgeError(what, err)...)
	}
	unknown := c.Works[0].queryFor(c)
	unknown.Params = append(unknown.Params, resolve.Given{Name: "cachee", Value: resolve.Value{Type: resolve.String, String: "x"}})
	try("a mistyped parameter", unknown)
	for _, p := range c.Resolver.Spec().Params {
		given := func(keep bool, v resolve.Value) *resolve.Query {
			q := c.Works[0].queryFor(c)
			params := q.Params
			q.Params = nil
			for _, g := range params {
				if g.Name != p.Name && !slices.Contains(p.Aliases, g.Name) {
					q.Params = append(q.Params, g)
				}
			}
			if keep {
				q.Params = append(q.Params, resolve.Given{Name: p.Name, Value: v})
			}
			return q
		}
		if p.Type == "" || p.Type == resolve.String {
			try("an array for "+p.Name, given(true, resolve.Value{Type: resolve.Array, Array: []string{"x"}}))
			try("an object for "+p.Name, given(true, resolve.Value{Type: resolve.Object, Object: map[string]string{"x": "y"}}))
			try("a very long value for "+p.Name, given(true, resolve.Value{Type: resolve.String, String: strings.Repeat("x", 1<<20)}))
		}
		if p.Required && p.DefaultKey == "" {
			try("no "+p.Name, given(false, resolve.Value{}))
			try("an empty "+p.Name, given(true, resolve.Value{Type: resolve.String}))
		}
	}
	if counter.calls > 0 {
		out = append(out, fmt.Sprintf("Resolve was called %d times", counter.calls))
	}
	return out
}

// judgeError checks the text of an error.
func (c *Case) judgeError(what string, err error) (out []string) {
	e, ok := errors.AsType[*resolve.Error](err)
	if !ok {
		return []string{fmt.Sprintf("%s: the error is a %T, want a *resolve.Error", what, err)}
	}
	if e.Msg == "" || strings.ContainsAny(e.Msg, "\n\r\x00") || strings.Contains(e.Msg, "%!") {
		out = append(out, fmt.Sprintf("%s: the text is not one good line: %q", what, e.Msg))
	}
	for _, h := range c.Hidden {
		if h != "" && strings.Contains(e.Msg, h) {
			out = append(out, fmt.Sprintf("%s: the text has what should be hidden: %q", what, e.Msg))
		}
	}
	return out
}

func checkWorking(ctx context.Context, c *Case) (out []string) {
	for _, q := range c.Works {
		runner, err := c.newRunner(c.Resolver, resolve.Options{})
		if err != nil {
			return []string{err.Error()}
		}
		first, err := runner.Resolve(ctx, q.queryFor(c))
		if err != nil {
			out = append(out, fmt.Sprintf("%s: %v", q.Name, err))
			continue
		}
		second, err := runner.Resolve(ctx, q.queryFor(c))
		if err != nil {
			out = append(out, fmt.Sprintf("%s, again: %v", q.Name, err))
			continue
		}
		if q.Data != nil && !bytes.Equal(q.Data, first.Data) {
			out = append(out, fmt.Sprintf("%s: the content has %d bytes and is not the expected", q.Name, len(first.Data)))
		}
		for alg, digits := range q.Digest {
			if first.Source.Digest[alg] != digits {
				out = append(out, fmt.Sprintf("%s: the digest %s is %q, want %q", q.Name, alg, first.Source.Digest[alg], digits))
			}
		}
		if q.Digest == nil && len(first.Source.Digest) == 1 && first.Source.Digest["sha256"] != "" {
			// If the digest of the resolver is not that of the content, the case has a Digest.
			if !maps.Equal(first.Source.Digest, resolve.SHA256(first.Data)) {
				out = append(out, q.Name+": the digest sha256 is not that of the content")
			}
		}
		if first.Immutable && (!bytes.Equal(first.Data, second.Data) || !reflect.DeepEqual(first.Source, second.Source)) {
			out = append(out, q.Name+": it was called immutable and is another one the second time")
		}
		for k := range first.Annotations {
			if strings.Contains(k, "\n") {
				out = append(out, fmt.Sprintf("%s: the annotation %q", q.Name, k))
			}
		}
	}
	return out
}

func checkFailing(ctx context.Context, c *Case) (out []string) {
	for _, q := range c.Fails {
		runner, err := c.newRunner(c.Resolver, resolve.Options{})
		if err != nil {
			return []string{err.Error()}
		}
		_, err = runner.Resolve(ctx, q.queryFor(c))
		e, ok := errors.AsType[*resolve.Error](err)
		if !ok || e.Reason != q.Reason || e.Transient != q.Transient {
			out = append(out, fmt.Sprintf("%s: got %+v, want the reason %s, transient %t", q.Name, err, q.Reason, q.Transient))
			continue
		}
		out = append(out, c.judgeError(q.Name, err)...)
		// This checks the result of the resolver itself as well, because the framework may have corrected it.
		req, err := runner.Validate(q.queryFor(c))
		if err != nil {
			continue
		}
		if _, err := c.Resolver.Resolve(ctx, req); err != nil {
			out = append(out, c.judgeError(q.Name+", unmended", err)...)
		}
	}
	return out
}

func overLimit(ctx context.Context, c *Case) (out []string) {
	for _, q := range c.Works {
		whole, err := c.newRunner(c.Resolver, resolve.Options{})
		if err != nil {
			return []string{err.Error()}
		}
		res, err := whole.Resolve(ctx, q.queryFor(c))
		if err != nil || len(res.Data) < 2 {
			continue // another check reports it
		}
		small, err := c.newRunner(c.Resolver, resolve.Options{Limits: resolve.Limits{Content: int64(len(res.Data)) - 1}})
		if err != nil {
			return []string{err.Error()}
		}
		_, err = small.Resolve(ctx, q.queryFor(c))
		if e, ok := errors.AsType[*resolve.Error](err); !ok || e.Reason != resolve.ReasonTooLarge {
			out = append(out, fmt.Sprintf("%s: with a limit one byte too small: got %v, want the reason %s", q.Name, err, resolve.ReasonTooLarge))
		}
	}
	return out
}

func checkConcurrent(ctx context.Context, c *Case) (out []string) {
	if len(c.Works) == 0 {
		return nil
	}
	const many = 16
	runner, err := c.newRunner(c.Resolver, resolve.Options{})
	if err != nil {
		return []string{err.Error()}
	}
	problems := make([]string, many)
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			q := c.Works[i%len(c.Works)]
			// Each calls the resolver directly, because the runner would share the fetch.
			req, err := runner.Validate(q.queryFor(c))
			if err != nil {
				problems[i] = err.Error()
				return
			}
			params, config := maps.Clone(req.Params), maps.Clone(req.Config)
			res, err := c.Resolver.Resolve(ctx, req)
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
	for _, p := range problems {
		if p != "" {
			out = append(out, p)
		}
	}
	return out
}

func checkCancellation(ctx context.Context, c *Case) (out []string) {
	c.settleGoroutines(0)
	before := runtime.NumGoroutine()
	try := func(what string, q Request, wait time.Duration) {
		runner, err := c.newRunner(c.Resolver, resolve.Options{})
		if err != nil {
			out = append(out, err.Error())
			return
		}
		req, err := runner.Validate(q.queryFor(c))
		if err != nil {
			out = append(out, err.Error())
			return
		}
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := c.Resolver.Resolve(ctx, req)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil && wait > 0 {
				out = append(out, what+": it succeeded")
			}
		case <-time.After(wait + c.patienceOrDefault()):
			out = append(out, fmt.Sprintf("%s: it has not returned %s after the context was done", what, c.patienceOrDefault()))
		}
	}
	if len(c.Works) > 0 {
		try("a context that is done before", c.Works[0], 0)
	}
	if c.Hangs != nil {
		for range 4 {
			try("a remote that hangs", *c.Hangs, 50*time.Millisecond)
		}
	}
	if after := c.settleGoroutines(before); after > before {
		stacks := make([]byte, 1<<16)
		out = append(out, fmt.Sprintf("%d goroutines are left behind:\n%s", after-before, stacks[:runtime.Stack(stacks, true)]))
	}
	return out
}

// settleGoroutines closes connections and waits until at most that many goroutines are left, for a second if the number is 0. It returns
// their number.
func (c *Case) settleGoroutines(most int) int {
	patience := c.patienceOrDefault()
	if most == 0 {
		patience = time.Second
	}
	last, still := 0, 0
	for until := time.After(patience); ; {
		if closer, ok := c.Resolver.(interface{ Close() }); ok {
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
