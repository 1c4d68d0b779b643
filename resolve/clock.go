package resolve

import (
	"context"
	"time"
)

// SystemClock is the machine's clock.
func SystemClock() Clock { return systemClock{} }

type systemClock struct{}

// Now implements [Clock].
func (systemClock) Now() time.Time { return time.Now() } //nolint:forbidigo // this is the clock that others get injected

// After implements [Clock].
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// withTimeout returns a context that ends after d by the clock, with the given cause. The caller must call the function.
func withTimeout(ctx context.Context, c Clock, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func(after <-chan time.Time) {
		select {
		case <-after:
			cancel(cause)
		case <-ctx.Done():
		}
	}(c.After(d))
	return ctx, func() { cancel(nil) }
}

// waitFor waits for d. If ctx ends first, it returns the cause of that.
func waitFor(ctx context.Context, c Clock, d time.Duration) error {
	select {
	case <-c.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
