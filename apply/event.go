package apply

import "sync"

// Event tells what happens during an apply or a deletion.
type Event struct {
	// Phase is what goes on, in words such as "applying objects"; empty where it goes on as before.
	Phase string
	// Done and Total count the objects of the phase; Total is 0 where it is not known.
	Done, Total int
	// ID and Did are set when something was done to an object: created, updated, deleted, or what a dry run would do.
	ID  ID
	Did string
	// Note is a remark for the reader, such as what is waited for.
	Note string
}

// events hands events on, one at a time.
type events struct {
	mu      sync.Mutex
	observe func(Event)
}

func (e *events) tell(ev Event) {
	if e.observe == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.observe(ev)
}
