package resolve

import (
	"context"
	"sync"
	"time"
)

// This file finds out which fetches hold a place although their remote sends next to nothing. A resolver's own work, such as
// unpacking, must not count, so resolvers and package netguard say when they wait.

// pace measures whether the remote of a fetch makes progress: the time for which the fetch waits for the remote, and the bytes that
// arrive in that time. Time of the resolver's own work does not count. It is safe for concurrent use.
type pace struct {
	clock Clock
	// rate is the number of bytes a second that is enough.
	rate int64

	mu      sync.Mutex
	waiting int
	since   time.Time
	// behind is the time for which the fetch has waited for bytes that did not arrive.
	behind time.Duration
	bytes  int64
	// followers are the paces of the fetches that wait for this work, with how often each does. Its waits count for them. A follower
	// is never locked before the work that it follows.
	followers map[*pace]int
}

type paceKey struct{}

func withPace(ctx context.Context, p *pace) context.Context {
	return context.WithValue(ctx, paceKey{}, p)
}

func paceOf(ctx context.Context) *pace {
	p, _ := ctx.Value(paceKey{}).(*pace)
	return p
}

// AwaitRemote records that a resolver waits for its remote, until it calls the function with the number of bytes that arrived. If
// other fetches wait for a place, a fetch whose remote sends almost nothing loses its own. The context must come from Resolve; with
// another one nothing happens.
func AwaitRemote(ctx context.Context) (came func(bytes int)) {
	p := paceOf(ctx)
	if p == nil {
		return func(int) {}
	}
	p.beginWait()
	return p.endWait
}

// ShareProgress is for work that several callers of Resolve wait for, each with its own context. run is the context of the work,
// derived from that of the first caller. Waits of the work count for each caller from the time when it joins. leave ends that for one
// caller.
func ShareProgress(run context.Context) (own context.Context, join func(ctx context.Context) (leave func())) {
	first := paceOf(run)
	if first == nil {
		return run, func(context.Context) func() { return func() {} }
	}
	work := &pace{clock: first.clock, rate: first.rate, followers: map[*pace]int{}}
	return withPace(run, work), func(ctx context.Context) func() {
		p := paceOf(ctx)
		if p == nil {
			return func() {}
		}
		work.add(p)
		return func() { work.remove(p) }
	}
}

// add makes the waits of this work count for a follower from now on. A follower that waits for the same work twice counts once; it is
// told of the waits that are under way.
func (p *pace) add(follower *pace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.followers[follower]++; p.followers[follower] > 1 {
		return
	}
	for range p.waiting {
		follower.beginWait()
	}
}

// remove is the opposite of add. The last removal ends the waits that the follower was told of, without bytes.
func (p *pace) remove(follower *pace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.followers[follower]--; p.followers[follower] > 0 {
		return
	}
	delete(p.followers, follower)
	for range p.waiting {
		follower.endWait(0)
	}
}

// beginWait records that one more read of the remote is under way. Several can run at once; the time counts once.
func (p *pace) beginWait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting++; p.waiting == 1 {
		p.since = p.clock.Now()
	}
	for follower := range p.followers {
		follower.beginWait()
	}
}

// endWait records that a read has ended with n bytes. Bytes pay for time: n bytes at the demanded rate take away as much of the delay,
// which does not fall below zero. So a burst does not excuse a long silence after it.
func (p *pace) endWait(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	p.behind += now.Sub(p.since)
	p.since = now
	p.waiting--
	p.bytes += int64(n)
	p.behind = max(0, p.behind-time.Duration(n)*time.Second/time.Duration(max(p.rate, 1)))
	for follower := range p.followers {
		follower.endWait(n)
	}
}

// remoteLag returns the time for which the remote is late, and the number of bytes that arrived in total.
func (p *pace) remoteLag() (time.Duration, int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	behind := p.behind
	if p.waiting > 0 {
		behind += p.clock.Now().Sub(p.since)
	}
	return behind, p.bytes
}
