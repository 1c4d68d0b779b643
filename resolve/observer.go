package resolve

import (
	"reflect"
	"time"
)

// Observer receives the events of a [Runner], for metrics and logs. Functions may be nil. Calls are concurrent and must return
// soon.
type Observer struct {
	// Started: a request came in. Finished follows every time.
	Started func(resolver, namespace string)
	// Finished: a request ended after d; reason is empty for success.
	Finished func(resolver, namespace string, reason Reason, d time.Duration)
	// Cache: the cache was used or changed.
	Cache func(resolver string, event CacheEvent)
	// Shared: a request waits for a fetch that another request began.
	Shared func(resolver string)
	// InFlight: the number of running fetches changed by delta.
	InFlight func(resolver string, delta int)
	// Phase: a part of a fetch took d: [PhaseQueue] or [PhaseFetch].
	Phase func(resolver, phase string, d time.Duration)
	// Bytes: the size of the content that a fetch returned.
	Bytes func(resolver string, n int)
	// Retried: an attempt ended with a transient error, and the next one begins after wait.
	Retried func(resolver string, err *Error, wait time.Duration)
	// Panicked: a resolver panicked.
	Panicked func(resolver string, value any, stack []byte)
}

// CacheEvent is an event of the cache.
type CacheEvent string

// Events of the cache.
const (
	CacheHit     CacheEvent = "hit"
	CacheMiss    CacheEvent = "miss"
	CacheStored  CacheEvent = "stored"
	CacheEvicted CacheEvent = "evicted"
)

// Phases of a fetch.
const (
	PhaseQueue = "queue"
	PhaseFetch = "fetch"
)

// withDefaults sets every function that is nil to one that does nothing.
func (o Observer) withDefaults() Observer {
	for _, f := range reflect.ValueOf(&o).Elem().Fields() {
		if f.IsNil() {
			f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { return nil }))
		}
	}
	return o
}
