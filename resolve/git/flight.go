package git

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"sluice.dev/resolve"
)

// accident is a panic in a goroutine that several callers wait for. It panics in each of them, so that their own protection works.
type accident struct {
	value any
	stack []byte
}

// Error implements error.
func (a *accident) Error() string { return fmt.Sprintf("%v\n%s", a.value, a.stack) }

// guarded runs fn and catches its panic.
func guarded(fn func()) (a *accident) {
	done := false
	defer func() {
		if !done {
			a = &accident{recover(), debug.Stack()}
		}
	}()
	fn()
	done = true
	return nil
}

// flights lets callers with the same key share one run. A run ends when no caller waits for it any more.
type flights[T any] struct {
	mu   sync.Mutex
	runs map[string]*flight[T]
}

type flight[T any] struct {
	done    chan struct{}
	value   T
	err     error
	broken  *accident
	waiters int
	cancel  context.CancelFunc
	// join makes the waits of the run count for a caller, until it leaves.
	join func(context.Context) (leave func())
}

// do runs fn, or waits for the run of the same key. fn's context has no deadline of its own: it ends when all waiters have left.
func (g *flights[T]) do(ctx context.Context, key string, fn func(context.Context) (T, error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	g.mu.Lock()
	f := g.runs[key]
	if f == nil {
		if g.runs == nil {
			g.runs = map[string]*flight[T]{}
		}
		run, cancel := context.WithCancel(context.WithoutCancel(ctx))
		run, join := resolve.ShareProgress(run)
		f = &flight[T]{done: make(chan struct{}), cancel: cancel, join: join}
		g.runs[key] = f
		go func() {
			defer cancel()
			f.broken = guarded(func() { f.value, f.err = fn(run) })
			g.mu.Lock()
			if g.runs[key] == f {
				delete(g.runs, key)
			}
			g.mu.Unlock()
			close(f.done)
		}()
	}
	f.waiters++
	g.mu.Unlock()
	defer f.join(ctx)()

	select {
	case <-f.done:
		if f.broken != nil {
			panic(f.broken) //nolint:forbidigo // the runner makes an error of it, for each request that waits
		}
		return f.value, f.err
	case <-ctx.Done():
	}
	g.mu.Lock()
	f.waiters--
	if f.waiters == 0 {
		f.cancel()
		if g.runs[key] == f {
			delete(g.runs, key)
		}
	}
	g.mu.Unlock()
	return zero, ctx.Err()
}
