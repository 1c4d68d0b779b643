package apply

import "sync"

// Progress is reported as events, which only say what goes on. They decide nothing, and an applier without an observer reports none.

// Event reports progress of an apply or a deletion.
type Event struct {
	// Phase is the current activity, in words such as "applying objects"; empty if it has not changed.
	Phase string
	// Done and Total count the objects of the phase. Total is 0 if it is not known.
	Done, Total int
	// ID and Did are set when an object was created, updated or deleted, or would be by a dry run.
	ID  ID
	Did string
	// Note is a remark for the reader, such as the objects that a wait is for.
	Note string
}

// events passes events on, one at a time.
type events struct {
	mu      sync.Mutex
	observe func(Event)
}

func (e *events) notifyObserver(ev Event) {
	if e.observe == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.observe(ev)
}
