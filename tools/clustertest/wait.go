package clustertest

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Patience is how long a test waits for what must come. It is long because a busy machine is no failure.
const Patience = 6 * time.Minute

// The pause between two calls of a check grows by a tenth each time, from shortPause to longPause. Most checks pass soon. The others are
// called less often, because each call is work for the API server and the test.
const (
	shortPause = 20 * time.Millisecond
	longPause  = 250 * time.Millisecond
)

// Until calls check until it returns nil. When the time is over, or ctx ends, the error wraps the last one of check.
// check gets a context that ends with the wait. Its last error is kept because it says what was missing, which a
// deadline does not.
func Until(ctx context.Context, most time.Duration, what string, check func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var last error
	for pause := shortPause; ; pause = min(pause+pause/10, longPause) {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil { // after its end, a check says no more than that
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, last)
		case <-time.After(pause):
		}
	}
}

// Eventually calls check until it returns nil, and fails the test if it does not within [Patience].
// what completes the sentence: waiting for what.
func Eventually(t testing.TB, what string, check func(ctx context.Context) error) {
	t.Helper()
	if err := Until(t.Context(), Patience, what, check); err != nil {
		t.Fatal(err)
	}
}
