package git

import (
	"bufio"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// This file reads loose objects, also those of small packs, in a few kilobytes of memory for any size (gitformat-loose in git's
// documentation). Git reads objects in packs.

// looseObject is an object in a file of its own.
type looseObject struct {
	kind string
	size int64
	// body has the content. left is the number of bytes that have not been read.
	body *bufio.Reader
	left io.LimitedReader
	file *os.File
}

// openLoose opens a loose object; errMissing if there is none.
func (m *mirror) openLoose(id string) (o *looseObject, err error) {
	file, err := os.Open(filepath.Join(m.dir, "objects", id[:2], id[2:]))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errMissing
	case err != nil:
		return nil, errCorrupt
	}
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	z, err := zlib.NewReader(bufio.NewReader(file))
	if err != nil {
		return nil, errCorrupt
	}
	body := bufio.NewReader(z)
	head, err := upTo(body, 0, 64, nil)
	if err != nil {
		return nil, errCorrupt
	}
	kind, digits, _ := strings.Cut(string(head), " ")
	size, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || size < 0 {
		return nil, errCorrupt
	}
	return &looseObject{kind: kind, size: size, body: body, left: io.LimitedReader{R: body, N: size}, file: file}, nil
}

// checkEnd reports whether the object ended at the right place.
func (o *looseObject) checkEnd() error {
	if _, err := o.body.ReadByte(); o.left.N > 0 || !errors.Is(err, io.EOF) {
		return errCorrupt
	}
	return nil
}

// mayHavePacks reports whether packs may have objects.
func (m *mirror) mayHavePacks() bool {
	names, err := filepath.Glob(filepath.Join(m.dir, "objects", "pack", "*.idx"))
	return err != nil || len(names) > 0
}

// withObject calls fn with an object of that kind, any kind if want is empty, and of at most limit bytes. It checks kind and size
// before it reads the content; fn must read all of it. A larger object is a *[sizeError].
func (m *mirror) withObject(ctx context.Context, id, want string, limit int64, fn func(kind string, size int64, body io.Reader) error) error {
	o, err := m.openLoose(id)
	switch {
	case errors.Is(err, errMissing) && m.mayHavePacks():
		return m.store.files.withProcess(ctx, m.dir, func(p *catfile) error { return p.withObject(ctx, id, want, limit, fn) })
	case err != nil:
		return err
	}
	defer func() { _ = o.file.Close() }()
	if err := checkObject(o.kind, want, o.size, limit); err != nil {
		return err
	}
	if err := fn(o.kind, o.size, &o.left); err != nil {
		return err
	}
	return o.checkEnd()
}

// checkObject reports whether an object may be read.
func checkObject(kind, want string, size, limit int64) error {
	switch {
	case want != "" && kind != want:
		return errCorrupt
	case size > limit:
		return &sizeError{size, limit}
	}
	return nil
}

// readObject returns the content of an object; see [mirror.withObject].
func (m *mirror) readObject(ctx context.Context, id, want string, limit int64) (kind string, data []byte, err error) {
	err = m.withObject(ctx, id, want, limit, func(is string, size int64, body io.Reader) error {
		kind, data = is, make([]byte, size)
		if _, err := io.ReadFull(body, data); err != nil {
			return errCorrupt
		}
		return nil
	})
	return kind, data, err
}

// missingObjects returns the objects that the mirror does not have.
func (m *mirror) missingObjects(ctx context.Context, ids []string) (out []string, err error) {
	for _, id := range ids {
		if _, err := os.Lstat(filepath.Join(m.dir, "objects", id[:2], id[2:])); err != nil {
			out = append(out, id)
		}
	}
	if len(out) == 0 || !m.mayHavePacks() {
		return out, nil
	}
	ids, out = out, nil
	err = m.store.files.withProcess(ctx, m.dir, func(p *catfile) error {
		for _, id := range ids {
			switch _, _, _, err := p.objectInfo(id); {
			case errors.Is(err, errMissing):
				out = append(out, id)
			case err != nil:
				return err
			}
		}
		return nil
	})
	return out, err
}
