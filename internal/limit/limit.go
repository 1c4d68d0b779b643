// Package limit reads no more than it is told to, so that a file or a peer cannot make a process run out of memory.
package limit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ErrTooLarge says that there was more to read than allowed.
var ErrTooLarge = errors.New("too large")

// ReadAll reads r to its end. If that is more than n bytes, it stops after n+1 bytes and returns an error that wraps
// [ErrTooLarge], and no data.
func ReadAll(r io.Reader, n int64) ([]byte, error) {
	return ReadSized(r, 0, n)
}

// ReadSized is ReadAll with a hint of how many bytes there will be, which saves copying; a wrong hint does no harm.
func ReadSized(r io.Reader, hint, n int64) ([]byte, error) {
	var buf bytes.Buffer
	if hint > 0 {
		buf.Grow(int(min(hint, n)) + bytes.MinRead)
	}
	got, err := buf.ReadFrom(io.LimitReader(r, n+1))
	if err != nil {
		return nil, err
	}
	if got > n {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, n)
	}
	return buf.Bytes(), nil
}
