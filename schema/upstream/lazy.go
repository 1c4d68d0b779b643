package upstream

// How is a part made once, when it is needed first? For example, the types of a schema, which only a question about applies needs.

import (
	"sync"
	"sync/atomic"
)

// lazy is a value that is made on first use. Unlike with sync.Once, a panic of the maker leaves the value unset, so that the next
// caller does not get an incomplete value. It is safe for concurrent use.
type lazy[T any] struct {
	mu    sync.Mutex
	value atomic.Pointer[T]
}

// getOrCreate returns the value, and makes it if nobody has.
func (l *lazy[T]) getOrCreate(create func() *T) *T {
	if v := l.value.Load(); v != nil {
		return v
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if v := l.value.Load(); v != nil {
		return v
	}
	v := create()
	l.value.Store(v)
	return v
}
