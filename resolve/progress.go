package resolve

import (
	"context"
	"sync"
	"time"
)

// pace tells whether the remote of a fetch gives anything. What counts is the time for which the fetch waits for the remote, and what
// comes meanwhile; what the resolver does by itself costs no time here. It may be used concurrently.
type pace struct {
	clock Clock
	// rate is how many bytes a second are enough.
	rate int64

	mu      sync.Mutex
	waiting int
	since   time.Time
	// behind is for how long the fetch has waited for what did not come.
	behind time.Duration
	bytes  int64
	// with is the pace of work that several fetches wait for.
	with *pace
}

type paceKey struct{}

func withPace(ctx context.Context, p *pace) context.Context {
	return context.WithValue(ctx, paceKey{}, p)
}

func paceOf(ctx context.Context) *pace {
	p, _ := ctx.Value(paceKey{}).(*pace)
	return p
}

// AwaitRemote tells that a resolver waits for its remote, until the function is called with the number of bytes that came. A fetch
// whose remote gives next to nothing loses its place to others that wait for one. The context is the one that Resolve got; with
// another one nothing happens.
func AwaitRemote(ctx context.Context) (came func(bytes int)) {
	p := paceOf(ctx)
	if p == nil {
		return func(int) {}
	}
	p.begin()
	return p.end
}

// ShareProgress is for work that several callers of Resolve wait for, each with a context of its own: run is the context of the work,
// made of that of the first, and what the work waits for counts for each that has joined. Leave ends that for one.
func ShareProgress(run context.Context) (own context.Context, join func(ctx context.Context) (leave func())) {
	first := paceOf(run)
	if first == nil {
		return run, func(context.Context) func() { return func() {} }
	}
	work := &pace{clock: first.clock, rate: first.rate}
	return withPace(run, work), func(ctx context.Context) func() {
		p := paceOf(ctx)
		if p == nil {
			return func() {}
		}
		p.follow(work)
		return func() { p.follow(nil) }
	}
}

func (p *pace) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting++; p.waiting == 1 {
		p.since = p.clock.Now()
	}
}

func (p *pace) end(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	p.behind += now.Sub(p.since)
	p.since = now
	p.waiting--
	p.bytes += int64(n)
	p.behind = max(0, p.behind-time.Duration(n)*time.Second/time.Duration(max(p.rate, 1)))
}

func (p *pace) follow(work *pace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.with = work
}

// lag is for how long the remote owes something, and how many bytes came in all.
func (p *pace) lag() (time.Duration, int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	behind := p.behind
	if p.waiting > 0 {
		behind += p.clock.Now().Sub(p.since)
	}
	if p.with != nil {
		shared, bytes := p.with.lag()
		return max(behind, shared), p.bytes + bytes
	}
	return behind, p.bytes
}
