package contentstore

import (
	"fmt"
	"io"
	"net/http"
	"sync"
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
	answer.Body = &boundedBody{inner: answer.Body, left: b.most}
	return answer, nil
}

// boundedBody fails after a number of bytes.
type boundedBody struct {
	inner io.ReadCloser
	left  int64
}

// Read implements [io.Reader].
func (b *boundedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.inner.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooMuch
	}
	return n, err
}

// Close implements [io.Closer].
func (b *boundedBody) Close() error { return b.inner.Close() }
