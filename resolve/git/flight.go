package git

import (
	"context"
	"sync"
)

// flights lets callers that want the same share one run. A run ends when nobody waits for it any more.
type flights[T any] struct {
	mu   sync.Mutex
	runs map[string]*flight[T]
}

type flight[T any] struct {
	done    chan struct{}
	value   T
	err     error
	waiters int
	cancel  context.CancelFunc
}

// do runs fn, or waits for the run of the same key that is under way. fn's context has no deadline of its own: it is done
// when every waiter is.
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
		f = &flight[T]{done: make(chan struct{}), cancel: cancel}
		g.runs[key] = f
		go func() {
			defer cancel()
			f.value, f.err = fn(run)
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

	select {
	case <-f.done:
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
