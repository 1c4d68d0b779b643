package resolution

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Creation times come from the API server, and time-outs are measured from them. If the clock of this node is minutes off, requests
// would end too early or too late. Each answer of the API server has its time, so no extra request is needed to learn it.

// tolerated is the difference between two clocks that needs no correction. The time in an answer has whole seconds, and is as old
// as the answer was on its way.
const tolerated = 2 * time.Second

// ServerClock has the time of the API server, which it learns from the header Date of answers (RFC 9110, 6.6.1). It uses the local
// time if that differs by at most two seconds, or before the first answer. The API server sets the creation time of requests. So a
// wrong local clock would end them too early or too late. It is safe for concurrent use.
type ServerClock struct {
	local clock.PassiveClock
	// began is the base of a measurement that is independent of changes of the clock.
	began time.Time
	ahead atomic.Int64 // nanoseconds that the API server is ahead

	mu    sync.Mutex
	date  string
	least time.Duration // the least lead of the API server, from its fastest answer
	known bool
}

// NewServerClock makes one that has the local time until it has seen an answer; see [ServerClock.Watch].
func NewServerClock(local clock.PassiveClock) *ServerClock {
	return &ServerClock{local: local, began: local.Now()}
}

// Now is the time of the API server.
func (c *ServerClock) Now() time.Time {
	return c.began.Add(c.local.Since(c.began) + time.Duration(c.ahead.Load()))
}

// Local is the API server's time t by the local clock.
func (c *ServerClock) Local(t time.Time) time.Time { return c.local.Now().Add(t.Sub(c.Now())) }

// Server is the local time t by the clock of the API server. The same t gives the same result until the clock learns from another
// answer.
func (c *ServerClock) Server(t time.Time) time.Time {
	return c.began.Add(t.Sub(c.began) + time.Duration(c.ahead.Load()))
}

// Watch returns a wrapper for the way to the API server, for rest.Config.Wrap.
func (c *ServerClock) Watch(next http.RoundTripper) http.RoundTripper { return &watched{next, c} }

type watched struct {
	next  http.RoundTripper
	clock *ServerClock
}

// WrappedRoundTripper lets client-go find the transport (k8s.io/apimachinery/pkg/util/net, RoundTripperWrapper).
func (w *watched) WrappedRoundTripper() http.RoundTripper { return w.next }

// RoundTrip implements [http.RoundTripper].
func (w *watched) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := w.next.RoundTrip(r)
	if err == nil {
		w.clock.learnTime(answer.Header.Get("Date"))
	}
	return answer, err
}

// learnTime reads the time of an answer that has just arrived.
func (c *ServerClock) learnTime(date string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if date == "" || date == c.date {
		return
	}
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	c.date = date
	// The server's time was at least that. A slow answer gives a smaller value. A much smaller value means that the server's clock was
	// changed.
	ahead := at.Sub(c.began.Add(c.local.Since(c.began)))
	if !c.known || ahead > c.least || ahead < c.least-tolerated {
		c.known, c.least = true, ahead
	}
	if ahead = c.least; ahead.Abs() <= tolerated {
		ahead = 0
	}
	c.ahead.Store(int64(ahead))
}
