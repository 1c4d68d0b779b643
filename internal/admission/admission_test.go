package admission

import (
	"testing"
	"time"
)

func TestAnAnswerComesBeforeTheAPIServerStopsWaiting(t *testing.T) {
	for timeout, want := range map[string]time.Duration{
		"": 9500 * time.Millisecond, "1s": 900 * time.Millisecond, "30s": 29500 * time.Millisecond, "10h": 29500 * time.Millisecond,
		"-1s": 9500 * time.Millisecond, "x": 9500 * time.Millisecond, "1ns": time.Nanosecond,
	} {
		if got := allowedTime(timeout); got != want {
			t.Errorf("%q: %s", timeout, got)
		}
	}
}
