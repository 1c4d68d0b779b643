package metric

import "sync/atomic"

// Length is the length of a queue, for a metric that exists before the queue does. The zero value is 0.
type Length struct{ of atomic.Pointer[func() int] }

// Follow makes it the length of a queue, or of several.
func (l *Length) Follow(lengths ...func() int) {
	sum := func() (n int) {
		for _, length := range lengths {
			n += length()
		}
		return n
	}
	l.of.Store(&sum)
}

// Value is the length now.
func (l *Length) Value() float64 {
	if f := l.of.Load(); f != nil {
		return float64((*f)())
	}
	return 0
}
