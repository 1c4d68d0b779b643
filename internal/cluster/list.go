package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"sluice.dev/internal/brief"
)

const (
	// maxObject bounds one object of a list in bytes. etcd refuses more than 1.5 MB by default, and JSON may be larger than the
	// stored form.
	maxObject = 32 << 20
	// maxListField bounds what a list says of itself.
	maxListField = 1 << 20
)

// errList marks an answer that is not a list of objects.
var errList = errors.New("the server's answer is not a list")

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

// readList reads a list in JSON and calls item with the bytes of each of its objects, in order, while it reads the list. It holds
// one object at a time, and overwrites the bytes after item returns. It only finds the ends of objects and does not parse them, so
// decode each with care. The error wraps errList if the input is not a list, is a cutError if it breaks off, and otherwise comes
// from item.
func readList(r io.Reader, item func([]byte) error) (listMeta, error) {
	l := &lister{r: r, chunk: make([]byte, 64<<10)}
	var meta listMeta
	seen := map[string]bool{}
	err := l.object(func(key string) error {
		if seen[key] {
			return fmt.Errorf("%w: %q is there twice", errList, brief.Clip(key, 40))
		}
		switch key {
		case "items":
			seen[key] = true
			return l.array(item)
		case "kind", "metadata":
			seen[key] = true
		}
		value, err := l.value(l.scratch[:0], maxListField)
		if err != nil {
			return err
		}
		l.scratch = value
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
	switch c, err := l.next(); {
	case errors.Is(l.err, io.ErrUnexpectedEOF): // fill turned the end into that
		return meta, nil
	case err != nil:
		return listMeta{}, err
	default:
		return listMeta{}, fmt.Errorf("%w: %q after its end", errList, c)
	}
}

// lister tells the parts of a JSON text apart while it comes in.
type lister struct {
	r       io.Reader
	chunk   []byte
	at, end int   // the part of the chunk that has not been read
	err     error // of the last read
	scratch []byte
}

// fill reads on where nothing is left of the chunk. An error is a cutError.
func (l *lister) fill() error {
	for empty := 0; l.at == l.end; empty++ {
		if l.err == nil && empty == 100 {
			l.err = io.ErrNoProgress
		}
		if l.err != nil {
			if errors.Is(l.err, io.EOF) {
				l.err = io.ErrUnexpectedEOF
			}
			return cutError{l.err}
		}
		l.at = 0
		l.end, l.err = l.r.Read(l.chunk)
	}
	return nil
}

// peek returns the next byte that is not white space, and leaves it.
func (l *lister) peek() (byte, error) {
	for {
		for ; l.at < l.end; l.at++ {
			switch c := l.chunk[l.at]; c {
			case ' ', '\t', '\r', '\n':
			default:
				return c, nil
			}
		}
		if err := l.fill(); err != nil {
			return 0, err
		}
	}
}

// next takes the next byte that is not white space.
func (l *lister) next() (byte, error) {
	c, err := l.peek()
	if err == nil {
		l.at++
	}
	return c, err
}

func (l *lister) expect(want byte) error {
	c, err := l.next()
	if err == nil && c != want {
		err = fmt.Errorf("%w: %q where %q should be", errList, c, want)
	}
	return err
}

// object reads an object and calls field when its value is next.
func (l *lister) object(field func(key string) error) error {
	if err := l.expect('{'); err != nil {
		return err
	}
	return l.sequence('}', func() error {
		raw, err := l.value(nil, maxListField)
		if err != nil {
			return err
		}
		var key string
		if err := json.Unmarshal(raw, &key); err != nil {
			return fmt.Errorf("%w: %s where a name should be", errList, brief.Clip(string(raw), 40))
		}
		if err := l.expect(':'); err != nil {
			return err
		}
		return field(key)
	})
}

// array reads an array, or null, and calls item with each value.
func (l *lister) array(item func([]byte) error) error {
	c, err := l.peek()
	if err != nil {
		return err
	}
	if c == 'n' {
		raw, err := l.value(nil, maxListField)
		if err == nil && string(raw) != "null" {
			err = fmt.Errorf("%w: %s where its objects should be", errList, brief.Clip(string(raw), 40))
		}
		return err
	}
	if err := l.expect('['); err != nil {
		return err
	}
	return l.sequence(']', func() error {
		raw, err := l.value(l.scratch[:0], maxObject)
		if err != nil {
			return err
		}
		l.scratch = raw
		return item(raw)
	})
}

// sequence calls element for each element of an object or array until its end.
func (l *lister) sequence(end byte, element func() error) error {
	c, err := l.peek()
	if err != nil {
		return err
	}
	if c == end {
		_, err = l.next()
		return err
	}
	for {
		if err := element(); err != nil {
			return err
		}
		switch c, err := l.next(); {
		case err != nil:
			return err
		case c == end:
			return nil
		case c != ',':
			return fmt.Errorf("%w: %q between two elements", errList, c)
		}
	}
}

// value appends the next value to dst. In an object or array it reads only brackets and strings.
func (l *lister) value(dst []byte, limit int) ([]byte, error) {
	if _, err := l.peek(); err != nil {
		return dst, err
	}
	var s span
	for {
		n, done := s.scan(l.chunk[l.at:l.end])
		if len(dst)+n > limit {
			return dst, fmt.Errorf("%w that can be read: one of its values is larger than %d MiB", errList, limit>>20)
		}
		dst = append(dst, l.chunk[l.at:l.at+n]...)
		l.at += n
		if done {
			if len(dst) == 0 {
				return dst, fmt.Errorf("%w: %q where a value should be", errList, l.chunk[l.at])
			}
			return dst, nil
		}
		if err := l.fill(); err != nil {
			return dst, err
		}
	}
}

// span finds the end of a value.
type span struct {
	depth                   int
	quoted, escaped, scalar bool
}

// scan returns the number of bytes of b that belong to the value, and whether it ends there.
func (s *span) scan(b []byte) (n int, done bool) {
	for i, c := range b {
		if s.quoted {
			switch {
			case s.escaped:
				s.escaped = false
			case c == '\\':
				s.escaped = true
			case c == '"':
				s.quoted = false
				if s.depth == 0 {
					return i + 1, true
				}
			}
			continue
		}
		switch c {
		case '"':
			if s.scalar {
				return i, true
			}
			s.quoted = true
		case '{', '[':
			if s.scalar {
				return i, true
			}
			s.depth++
		case '}', ']':
			if s.depth == 0 {
				return i, true
			}
			if s.depth--; s.depth == 0 {
				return i + 1, true
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if s.depth == 0 {
				return i, true
			}
		default:
			s.scalar = s.depth == 0
		}
	}
	return len(b), false
}
