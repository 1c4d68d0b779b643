package git

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"sluice.dev/resolve"
)

// Work that several requests wait for runs in a goroutine of its own. It must not end with the request that began it, but with the
// last one that waits; and a defect in it must not end the process, but fail each of these requests.

// accident is a panic in a goroutine that several callers wait for. It panics in each of them, so that their own protection works.
type accident struct {
	value any
	stack []byte
}

// Error implements error.
func (a *accident) Error() string { return fmt.Sprintf("%v\n%s", a.value, a.stack) }

// catchPanic runs fn and catches its panic.
func catchPanic(fn func()) (a *accident) {
	defer func() {
		if v := recover(); v != nil {
			a = &accident{v, debug.Stack()}
		}
	}()
	fn()
	return nil
}

// shared is work that several callers wait for. It ends when no caller waits for it any more.
type shared struct {
	ctx    context.Context //nolint:containedctx // it is that of the work, not of a caller
	cancel context.CancelFunc
	done   chan struct{}
	broken *accident
	// waiters is for whoever shares the work, under a lock.
	waiters int
	// join makes the waits of the work count for a caller, until it leaves.
	join func(context.Context) (leave func())
}

// startShared returns work that is begun for a caller. Its context has no deadline.
func startShared(ctx context.Context) *shared {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	run, join := resolve.ShareProgress(run)
	return &shared{ctx: run, cancel: cancel, done: make(chan struct{}), join: join}
}

// waitDone waits until done is closed. If ctx ends first, it returns that error. For the last waiter it ends the work, and calls forget
// under the lock, so that nobody waits for that work any more.
func (s *shared) waitDone(ctx context.Context, lock *sync.Mutex, forget func()) error {
	defer s.join(ctx)()
	select {
	case <-s.done:
		if s.broken != nil {
			panic(s.broken) //nolint:forbidigo // the runner makes an error of it, for each request that waits
		}
		return nil
	case <-ctx.Done():
	}
	lock.Lock()
	defer lock.Unlock()
	if s.waiters--; s.waiters == 0 {
		s.cancel()
		forget()
	}
	return ctx.Err()
}

// flights lets callers with the same key share one run.
type flights[T any] struct {
	mu   sync.Mutex
	runs map[string]*flight[T]
}

type flight[T any] struct {
	*shared

	value T
	err   error
}

// runShared runs fn, or waits for the run of the same key.
func (g *flights[T]) runShared(ctx context.Context, key string, fn func(context.Context) (T, error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	g.mu.Lock()
	f := g.runs[key]
	// forget is for callers that hold the lock.
	forget := func() {
		if g.runs[key] == f {
			delete(g.runs, key)
		}
	}
	if f == nil {
		if g.runs == nil {
			g.runs = map[string]*flight[T]{}
		}
		f = &flight[T]{shared: startShared(ctx)}
		g.runs[key] = f
		go func() {
			defer f.cancel()
			f.broken = catchPanic(func() { f.value, f.err = fn(f.ctx) })
			g.mu.Lock()
			forget()
			g.mu.Unlock()
			close(f.done)
		}()
	}
	f.waiters++
	g.mu.Unlock()
	if err := f.waitDone(ctx, &g.mu, forget); err != nil {
		return zero, err
	}
	return f.value, f.err
}
