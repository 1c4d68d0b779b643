package limit

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadAll(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit int64
		want  string
		err   error
	}{
		{"one byte over the limit is refused", 4, "", ErrTooLarge},
		{"exactly the limit is read", 5, "abcde", nil},
		{"less than the limit is read", 100, "abcde", nil},
		{"nothing is allowed", 0, "", ErrTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, hint := range []int64{0, 1, 1000} {
				got, err := ReadSized(iotest.OneByteReader(strings.NewReader("abcde")), hint, tt.limit)
				if string(got) != tt.want || !errors.Is(err, tt.err) {
					t.Errorf("hint %d: got %q, %v; want %q, %v", hint, got, err, tt.want, tt.err)
				}
			}
		})
	}
}

func TestReadAllStopsAfterOneByteMore(t *testing.T) {
	r := strings.NewReader(strings.Repeat("x", 1000))
	if _, err := ReadAll(r, 10); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v, want ErrTooLarge", err)
	}
	if r.Len() != 1000-11 {
		t.Errorf("%d bytes are left, want %d", r.Len(), 1000-11)
	}
}

func TestReadAllPassesErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	if _, err := ReadAll(iotest.ErrReader(broken), 10); !errors.Is(err, broken) {
		t.Errorf("got %v, want the reader's error", err)
	}
}

func TestBodyPassesNoMoreThanItsLimit(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name  string
		limit int64
		want  string
		err   error
	}{
		{"one byte over the limit fails", 4, "abcd", broken},
		{"exactly the limit is read", 5, "abcde", nil},
		{"nothing is allowed", 0, "", broken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := io.ReadAll(Body(io.NopCloser(strings.NewReader("abcde")), tt.limit, broken))
			if string(got) != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("got %q, %v; want %q, %v", got, err, tt.want, tt.err)
			}
		})
	}
}
