package resolve

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// A fetch reserves what its resolver says that it can take ([Spec.Memory]), in full, before it begins. So fetches that run cannot wait
// for each other's memory. When the content is there, the reservation shrinks to its size.

// Memory bounds the number of bytes that work holds at once. If there is not enough, work waits until others release theirs, in the
// order of the requests. It is safe for concurrent use; nil bounds nothing.
type Memory struct {
	size int64
	sem  *semaphore.Weighted
	used atomic.Int64
}

// NewMemory returns a Memory of that many bytes.
func NewMemory(size int64) *Memory {
	size = max(size, 1)
	return &Memory{size: size, sem: semaphore.NewWeighted(size)}
}

// howManyFit returns how many reservations of n bytes fit; nil bounds nothing.
func (m *Memory) howManyFit(n int64) int {
	if m == nil {
		return math.MaxInt
	}
	return int(max(1, m.size/max(n, 1)))
}

// Used returns the number of bytes in use.
func (m *Memory) Used() int64 {
	if m == nil {
		return 0
	}
	return m.used.Load()
}

func (m *Memory) releaseBytes(n int64) {
	m.used.Add(-n)
	m.sem.Release(n)
}

// Reserve waits until n bytes are free. If n is larger than the whole memory, it reserves all of it. The error is the cause of the
// context's end.
func (m *Memory) Reserve(ctx context.Context, n int64) (*Reservation, error) {
	if m == nil {
		return nil, nil //nolint:nilnil // nil is a reservation of nothing
	}
	n = min(max(n, 1), m.size)
	if err := m.sem.Acquire(ctx, n); err != nil {
		return nil, context.Cause(ctx)
	}
	m.used.Add(n)
	return &Reservation{of: m, n: n, users: 1}, nil
}

// Reservation is a part of a [Memory] that one or more users hold; nil is a reservation of nothing.
type Reservation struct {
	of *Memory

	mu    sync.Mutex
	n     int64
	users int
}

// Shrink releases all but n bytes.
func (r *Reservation) Shrink(n int64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n = max(n, 1); n < r.n {
		r.of.releaseBytes(r.n - n)
		r.n = n
	}
}

// Share adds a user, which must release the reservation too.
func (r *Reservation) Share() *Reservation {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.users++
	}
	return r
}

// Release removes a user. The last one frees the memory.
func (r *Reservation) Release() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users--; r.users == 0 {
		r.of.releaseBytes(r.n)
	}
}
