package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"sluice.dev/internal/brief"
)

// A list of the API server may be many megabytes, and a check needs one object at a time. This file reads the JSON of a list while it
// arrives. Nothing that the server sends is trusted: each value has a limit, and a list that ends early is an error and not a short
// list.

const (
	// maxObject bounds one object of a list in bytes. etcd refuses more than 1.5 MB by default, and JSON may be larger than the
	// stored form.
	maxObject = 32 << 20
	// maxListField bounds what a list says of itself.
	maxListField = 1 << 20
)

// errList marks an answer that is not a list of objects.
var errList = errors.New("the server's answer is not a list that can be read")

// cutError is an answer that ends too early, or cannot be read to its end. The request may be made again.
type cutError struct{ err error }

func (e cutError) Error() string { return "the connection broke off within a list: " + e.err.Error() }
func (e cutError) Unwrap() error { return e.err }

// listMeta is the metadata of a list.
type listMeta struct {
	Continue           string `json:"continue"`
	RemainingItemCount *int64 `json:"remainingItemCount"`
	ResourceVersion    string `json:"resourceVersion"`
}

// readList reads a list in JSON and calls item with the bytes of each of its objects, in order, while it reads the list. They are
// valid JSON, but may be something else than an object. It holds one object at a time, and overwrites the bytes after item returns.
// The error wraps errList if the input is not a list, is a cutError if it breaks off, and otherwise comes from item.
func readList(r io.Reader, item func([]byte) error) (listMeta, error) {
	l := newLister(r)
	var meta listMeta
	seen := map[string]bool{}
	err := l.readSequence('{', func() error {
		token, err := l.nextToken()
		if err != nil {
			return err
		}
		key, _ := token.(string) // the decoder accepts nothing else here
		if seen[key] {
			return fmt.Errorf("%w: %q is there twice", errList, brief.Clip(key, 40))
		}
		switch key {
		case "items":
			seen[key] = true
			return l.readSequence('[', func() error {
				raw, err := l.readValue(maxObject)
				if err != nil {
					return err
				}
				return item(raw)
			})
		case "kind", "metadata":
			seen[key] = true
		}
		value, err := l.readValue(maxListField)
		if err != nil {
			return err
		}
		switch key {
		case "kind":
			var kind string
			if json.Unmarshal(value, &kind) != nil || !strings.HasSuffix(kind, "List") {
				return fmt.Errorf("%w: its kind is %s", errList, brief.Clip(string(value), 40))
			}
		case "metadata":
			if err := json.Unmarshal(value, &meta); err != nil {
				return fmt.Errorf("%w: metadata: %w", errList, err)
			}
		}
		return nil
	})
	if err != nil {
		return listMeta{}, err
	}
	for _, key := range []string{"kind", "metadata", "items"} {
		if !seen[key] {
			return listMeta{}, fmt.Errorf("%w: it has no %s", errList, key)
		}
	}
	switch token, err := l.nextToken(); {
	case errors.Is(err, io.ErrUnexpectedEOF): // what nextToken says of an end
		return meta, nil
	case err != nil:
		return listMeta{}, err
	default:
		return listMeta{}, fmt.Errorf("%w: %q after its end", errList, brief.Clip(fmt.Sprint(token), 40))
	}
}

// lister takes a JSON text apart while it comes in.
type lister struct {
	from *source
	dec  *json.Decoder
	raw  json.RawMessage
}

func newLister(r io.Reader) *lister {
	s := &source{r: bufio.NewReaderSize(r, 64<<10)}
	return &lister{from: s, dec: json.NewDecoder(s)}
}

// readSequence calls element for each element of an object or array, where the next one begins. An array may be null.
func (l *lister) readSequence(open json.Delim, element func() error) error {
	token, err := l.nextToken()
	if err != nil || token == nil && open == '[' {
		return err
	}
	if token != open {
		return fmt.Errorf("%w: %q where %q should be", errList, brief.Clip(fmt.Sprint(token), 40), open)
	}
	for l.hasMore() {
		if err := element(); err != nil {
			return err
		}
	}
	_, err = l.nextToken() // the end, or the error that there is none
	return err
}

func (l *lister) hasMore() bool {
	l.from.left = maxListField
	return l.dec.More()
}

// nextToken takes a bracket, a name or a value that is neither object nor array.
func (l *lister) nextToken() (json.Token, error) {
	l.from.left = maxListField
	token, err := l.dec.Token()
	return token, listError(err)
}

// readValue takes a value of up to limit bytes, and what is read ahead of it. The bytes are good until the next call.
func (l *lister) readValue(limit int) ([]byte, error) {
	l.from.left = limit
	err := l.dec.Decode(&l.raw)
	return l.raw, listError(err)
}

// listError says what an error of the decoder means. It passes on those of its reader.
func listError(err error) error {
	var syntax *json.SyntaxError
	switch {
	case err == nil, errors.Is(err, errList):
		return err
	case errors.As(err, &syntax):
		return fmt.Errorf("%w: %w", errList, err)
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return cutError{err}
}

var errLarge = fmt.Errorf("%w: one of its values is too large", errList)

// source reads up to a number of bytes, and does not wait for a reader that gives nothing.
type source struct {
	r    *bufio.Reader
	left int
}

// Read implements io.Reader. It returns errLarge when the limit is used up, also if the reader has ended by then.
func (s *source) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, errLarge
	}
	if _, err := s.r.Peek(1); err != nil {
		return 0, err
	}
	n, err := s.r.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}
