package resolve

import (
	"context"
	"time"
)

// Observer is told what a [Runner] does, for metrics and logs. Functions that are nil are not called; those that are there
// are called concurrently and must return soon.
type Observer struct {
	// Started: a request came in. Every one is followed by Finished.
	Started func(resolver, namespace string)
	// Finished: a request ended after d; reason is empty for success.
	Finished func(resolver, namespace string, reason Reason, d time.Duration)
	// Cache: the cache was asked or changed.
	Cache func(resolver string, event CacheEvent)
	// Shared: a request waits for a fetch that another one began.
	Shared func(resolver string)
	// InFlight: the number of fetches that run changed by delta.
	InFlight func(resolver string, delta int)
	// Phase: a part of a fetch took d: [PhaseQueue], [PhaseFetch], or a resolver's own; see [StartPhase].
	Phase func(resolver, phase string, d time.Duration)
	// Bytes: a fetch gave so much content.
	Bytes func(resolver string, n int)
	// Retried: a try ended with a transient error, and the next one begins after wait.
	Retried func(resolver string, err *Error, wait time.Duration)
	// Panicked: a resolver panicked.
	Panicked func(resolver string, value any, stack []byte)
}

// CacheEvent is what happened in the cache.
type CacheEvent string

// Events of the cache.
const (
	CacheHit     CacheEvent = "hit"
	CacheMiss    CacheEvent = "miss"
	CacheStored  CacheEvent = "stored"
	CacheEvicted CacheEvent = "evicted"
)

// Phases that the runner itself tells.
const (
	PhaseQueue = "queue"
	PhaseFetch = "fetch"
)

type phaseKey struct{}

type phases struct {
	clock    Clock
	resolver string
	observe  func(resolver, phase string, d time.Duration)
}

// StartPhase begins a part of a resolver's work that metrics tell apart, for example "clone"; the function ends it. The
// context is the one that Resolve got; with another one nothing happens.
func StartPhase(ctx context.Context, phase string) (end func()) {
	p, ok := ctx.Value(phaseKey{}).(phases)
	if !ok || p.observe == nil {
		return func() {}
	}
	began := p.clock.Now()
	return func() { p.observe(p.resolver, phase, p.clock.Now().Sub(began)) }
}

// fill gives every function something to call.
func (o Observer) fill() Observer {
	if o.Started == nil {
		o.Started = func(string, string) {}
	}
	if o.Finished == nil {
		o.Finished = func(string, string, Reason, time.Duration) {}
	}
	if o.Cache == nil {
		o.Cache = func(string, CacheEvent) {}
	}
	if o.Shared == nil {
		o.Shared = func(string) {}
	}
	if o.InFlight == nil {
		o.InFlight = func(string, int) {}
	}
	if o.Phase == nil {
		o.Phase = func(string, string, time.Duration) {}
	}
	if o.Bytes == nil {
		o.Bytes = func(string, int) {}
	}
	if o.Retried == nil {
		o.Retried = func(string, *Error, time.Duration) {}
	}
	if o.Panicked == nil {
		o.Panicked = func(string, any, []byte) {}
	}
	return o
}
