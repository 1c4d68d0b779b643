package contentstore

import (
	"fmt"
	"net/http"
	"sync"

	"sluice.dev/internal/limit"
)

// bounded is a transport that bounds the size of each answer and the number of answers.
type bounded struct {
	inner http.RoundTripper
	most  int64
	plain bool

	mu   sync.Mutex
	left int
}

// RoundTrip implements [http.RoundTripper].
func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !b.plain {
		return nil, fmt.Errorf("%s would be spoken to over plain HTTP, which is not allowed", r.URL.Host)
	}
	b.mu.Lock()
	b.left--
	spent := b.left < 0
	b.mu.Unlock()
	if spent {
		return nil, errTooMuch
	}
	answer, err := b.inner.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = limit.Body(answer.Body, b.most, errTooMuch)
	return answer, nil
}
