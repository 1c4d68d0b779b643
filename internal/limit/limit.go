// Package limit reads no more than it is told to, so that a file or a peer cannot make a process run out of memory.
package limit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrTooLarge says that there was more to read than allowed.
var ErrTooLarge = errors.New("too large")

// ReadAll reads r to its end. If that is more than n bytes, it stops after n+1 bytes and returns an error that wraps
// [ErrTooLarge], and no data.
func ReadAll(r io.Reader, n int64) ([]byte, error) {
	return ReadSized(r, 0, n)
}

// ReadFile reads a file that a user names, as ReadAll does.
func ReadFile(name string, n int64) ([]byte, error) {
	f, err := os.Open(name) //nolint:gosec // the user names it
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	data, err := ReadAll(f, n)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
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

// Body returns a body that fails with tooLarge after n bytes.
func Body(inner io.ReadCloser, n int64, tooLarge error) io.ReadCloser {
	return &body{inner, n, tooLarge}
}

type body struct {
	io.ReadCloser

	left     int64
	tooLarge error
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n + int(b.left), b.tooLarge
	}
	return n, err
}
