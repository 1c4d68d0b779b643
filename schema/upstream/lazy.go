package upstream

import (
	"sync"
	"sync/atomic"
)

// lazy is a value that is made when it is first asked for. Unlike with sync.Once, a panic of the maker leaves it unmade, so
// that whoever asks next does not take a half-made value for the whole. It is safe for concurrent use.
type lazy[T any] struct {
	mu    sync.Mutex
	value atomic.Pointer[T]
}

func (l *lazy[T]) get(create func() *T) *T {
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
