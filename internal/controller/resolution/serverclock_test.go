package resolution

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// movedClock is the machine's clock, moved; what it tells is moved when it is, not what has passed since then.
type movedClock struct {
	clock.RealClock

	by atomic.Int64
}

func (m *movedClock) Now() time.Time {
	return m.RealClock.Now().Add(time.Duration(m.by.Load()))
}

func (m *movedClock) Since(t time.Time) time.Duration { return m.Now().Sub(t) }

func moved(by time.Duration) *movedClock {
	m := &movedClock{}
	m.by.Store(int64(by))
	return m
}

func TestTheTimeOfTheAPIServerIsLearntFromItsAnswers(t *testing.T) {
	machine := clock.RealClock{}
	var ahead atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", machine.Now().Add(time.Duration(ahead.Load())).UTC().Format(http.TimeFormat))
	}))
	defer server.Close()
	near := func(what string, got, want time.Time) {
		t.Helper()
		// The header has whole seconds; the rest is for a machine that is busy.
		if d := got.Sub(want); d.Abs() > 20*time.Second {
			t.Errorf("%s: off by %s", what, d)
		}
	}
	for _, by := range []time.Duration{0, time.Hour, -time.Hour, 365 * 24 * time.Hour} {
		local := moved(by)
		c := NewServerClock(local)
		near("before any answer", c.Now(), local.Now())
		client := http.Client{Transport: c.Watch(http.DefaultTransport)}
		ask := func() {
			t.Helper()
			answer, err := client.Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
		}
		ask()
		near("after an answer", c.Now(), machine.Now())
		near("a time of the server", c.Local(machine.Now()), local.Now())
		look := local.Now()
		near("a local time", c.Server(look), machine.Now())
		if a, b := c.Server(look), c.Server(look); !a.Equal(b) {
			t.Errorf("one look was at %s, and at %s", a, b)
		}
		// The API server's clock is moved, both ways.
		for _, d := range []time.Duration{time.Hour, -2 * time.Hour, 0} {
			ahead.Store(int64(d))
			ask()
			near("after the server's clock was moved", c.Now(), machine.Now().Add(d))
		}
	}
	// A clock that is about right is left alone: what it tells is finer.
	c := NewServerClock(machine)
	c.learnTime(machine.Now().Add(-time.Second).UTC().Format(http.TimeFormat))
	c.learnTime("yesterday")
	if c.ahead.Load() != 0 {
		t.Errorf("it is put forward by %s", time.Duration(c.ahead.Load()))
	}
}
