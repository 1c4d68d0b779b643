package admission

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"sluice.dev/internal/limit"
)

// Anybody in the cluster can send reviews to a webhook, and large ones. The memory for all of them together is bounded here, before a
// body is read. A request takes its share as its bytes arrive. So a client that announces 8 MB and sends nothing holds 64 KiB, and
// not 8 MB.

const (
	// chunk is what memory is counted in.
	chunk = 64 << 10
	// readShare is how much of the time a request may take to arrive, in percent: the API server has all of it when it begins.
	readShare = 35
)

// Intake bounds what reviews take, all those together that arrive, wait and are judged. One that arrives takes memory as it
// arrives, and no turn to be judged: whoever sends slowly, or promises much and sends nothing, keeps nobody waiting.
type Intake struct {
	// turns has a value for each review that is judged, memory one for each chunk that is held.
	turns, memory chan struct{}
	// beyond has room for the one request that goes on where all hold a part of what they need and wait for the rest.
	beyond chan struct{}
}

// NewIntake makes an intake of which n reviews, at least one, are judged at once. All reviews together hold no more than n+1
// of [MaxReview] bytes.
func NewIntake(n int) *Intake {
	n = max(n, 1)
	return &Intake{turns: make(chan struct{}, n), memory: make(chan struct{}, n*MaxReview/chunk), beyond: make(chan struct{}, 1)}
}

// errBusy says that a request found no room within its time.
var errBusy = errors.New("the webhook is busy with other requests; try again")

// awaitTurn waits until the request may be judged. The caller gives the turn back.
func (i *Intake) awaitTurn(ctx context.Context) error {
	select {
	case i.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errBusy
	}
}

// room is what one request holds of the memory.
type room struct {
	*Intake

	held   int
	beyond bool
}

// takeChunks waits for n chunks more. A request that holds some may have what it needs beyond all others, one at a time.
func (r *room) takeChunks(ctx context.Context, n int) error {
	for range n {
		if r.beyond {
			return nil
		}
		select {
		case r.memory <- struct{}{}:
			r.held++
			continue
		default:
		}
		last := r.Intake.beyond
		if r.held == 0 {
			last = nil
		}
		select {
		case r.memory <- struct{}{}:
			r.held++
		case last <- struct{}{}:
			r.beyond = true
		case <-ctx.Done():
			return errBusy
		}
	}
	return nil
}

func (r *room) giveBack() {
	for range r.held {
		<-r.memory
	}
	if r.beyond {
		<-r.Intake.beyond
	}
}

// readBody reads a body within its share of the time that the answer may take, which is up when ctx is done. done gives back the
// memory of it, and is called also after an error. One that is too large is [limit.ErrTooLarge].
func (i *Intake) readBody(ctx context.Context, within time.Duration, w http.ResponseWriter, r *http.Request) (body []byte, done func(), err error) {
	has := &room{Intake: i}
	done = has.giveBack
	if r.ContentLength > MaxReview {
		return nil, done, limit.ErrTooLarge
	}
	arrives, cancel := context.WithTimeout(ctx, within*readShare/100)
	defer cancel()
	// Where deadlines are not supported the server's own bounds hold. When the body is there the connection has to last as long as
	// the answer takes: what it fails to read then ends the context of the request.
	c := http.NewResponseController(w)
	if end, ok := arrives.Deadline(); ok {
		_ = c.SetReadDeadline(end)
	}
	if end, ok := ctx.Deadline(); ok {
		defer func() { _ = c.SetReadDeadline(end) }()
	}
	for {
		if len(body) == cap(body) {
			// Twice as much as has arrived, and no more than is announced or allowed, with room to see the end.
			size := min(max(2*cap(body), chunk), MaxReview+chunk)
			if r.ContentLength >= 0 {
				size = min(size, (int(r.ContentLength)/chunk+1)*chunk)
			}
			if size <= cap(body) {
				return nil, done, limit.ErrTooLarge // more than is announced, which the server does not let through
			}
			if err := has.takeChunks(arrives, min(size, MaxReview)/chunk-has.held); err != nil {
				return nil, done, err
			}
			body = append(make([]byte, 0, size), body...)
		}
		n, err := r.Body.Read(body[len(body):min(cap(body), MaxReview+1)])
		body = body[:len(body)+n]
		switch {
		case len(body) > MaxReview:
			return nil, done, limit.ErrTooLarge
		case errors.Is(err, io.EOF):
			return body, done, nil
		case err != nil:
			return nil, done, err
		}
	}
}
