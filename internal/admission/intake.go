package admission

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"sluice.dev/internal/limit"
)

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
}

// NewIntake makes an intake of which n reviews, at least one, are judged at once. All reviews together hold no more than n of
// [MaxReview] bytes.
func NewIntake(n int) *Intake {
	n = max(n, 1)
	return &Intake{turns: make(chan struct{}, n), memory: make(chan struct{}, n*MaxReview/chunk)}
}

// errBusy says that there is no room for a request, and was none for as long as it had time.
var errBusy = errors.New("the webhook is busy with other requests; try again")

// take waits for n values of room in c.
func take(ctx context.Context, c chan struct{}, n int) error {
	for i := range n {
		select {
		case c <- struct{}{}:
		case <-ctx.Done():
			give(c, i)
			return errBusy
		}
	}
	return nil
}

func give(c chan struct{}, n int) {
	for range n {
		<-c
	}
}

// read reads a body within its share of the time that the answer may take, which is up when ctx is done. done gives back the
// memory of it, and is called also after an error. One that is too large is [limit.ErrTooLarge].
func (i *Intake) read(ctx context.Context, within time.Duration, w http.ResponseWriter, r *http.Request) (body []byte, done func(), err error) {
	held := 0
	done = func() { give(i.memory, held) }
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
			more := min(size, MaxReview)/chunk - held
			if err := take(arrives, i.memory, more); err != nil {
				return nil, done, err
			}
			held += more
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
