package git

import (
	"bufio"
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/adler32"
	"io"
	"os"
	"path/filepath"

	"github.com/pjbgf/sha1cd"
)

// Most fetches bring one object, or a few without deltas. This file unpacks them without a process, and even a large tree takes
// only a few kilobytes of memory. The compressed bytes of the pack become those of the loose object (gitformat-pack and
// gitformat-loose in git's documentation; RFC 1950 and 1951).

// errNotPlain: the pack has deltas, is too large for this code, or is damaged. Git must unpack or refuse it.
var errNotPlain = errors.New("the pack is for git")

// maxPlain bounds the bytes of all objects of a pack that is unpacked here.
const maxPlain = maxTreeSize + 32<<20

// kinds are the types of objects in packs, without deltas.
var kinds = map[byte]string{1: "commit", 2: "tree", 3: "blob", 4: "tag"}

// newHash returns the hash for object IDs. For SHA-1 it detects the known collision attacks.
func newHash(format string) hash.Hash {
	if format == "sha256" {
		return sha256.New()
	}
	return sha1cd.New()
}

// nameOf returns the ID of an object from its hash.
func nameOf(h hash.Hash) (string, error) {
	if h, ok := h.(sha1cd.CollisionResistantHash); ok {
		sum, collision := h.CollisionResistantSum(nil)
		if collision {
			return "", errNotPlain
		}
		return hex.EncodeToString(sum), nil
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// unpackPlain writes the objects of a pack of that size into a folder, as loose objects.
func unpackPlain(ctx context.Context, pack io.ReaderAt, size int64, count uint32, format, dir string) error {
	trailer := newHash(format)
	end := size - int64(trailer.Size())
	sum := make([]byte, trailer.Size())
	if end < packHead {
		return errNotPlain
	}
	// The last bytes of a pack are the hash of all before them.
	if _, err := io.Copy(trailer, io.NewSectionReader(pack, 0, end)); err != nil {
		return err
	}
	if _, err := pack.ReadAt(sum, end); err != nil {
		return err
	}
	if !bytes.Equal(sum, trailer.Sum(nil)) {
		return errNotPlain
	}
	p := &plainPack{ReaderAt: pack, format: format, dir: dir, left: maxPlain, in: io.NewSectionReader(pack, packHead, end-packHead)}
	p.r = bufio.NewReaderSize(p.in, 32<<10)
	for range count {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.writeNextObject(); err != nil {
			return err
		}
	}
	if p.readPosition() != end {
		return errNotPlain
	}
	return nil
}

// packHead is the length of the header of a pack.
const packHead = 12

// plainPack reads the objects of a pack.
type plainPack struct {
	io.ReaderAt

	format, dir string
	in          *io.SectionReader
	r           *bufio.Reader
	// left is the number of bytes that the objects may still have.
	left int64
}

// readPosition is the position in the pack of the next read.
func (p *plainPack) readPosition() int64 {
	read, _ := p.in.Seek(0, io.SeekCurrent)
	return packHead + read - int64(p.r.Buffered())
}

// writeNextObject writes the next object as a loose one.
func (p *plainPack) writeNextObject() error {
	kind, size, err := p.readHeader()
	if err != nil {
		return err
	}
	if p.left -= size; p.left < 0 {
		return errNotPlain
	}
	var z [2]byte
	if _, err := io.ReadFull(p.r, z[:]); err != nil || z[0]&0x0f != 8 || z[1]&0x20 != 0 || binary.BigEndian.Uint16(z[:])%31 != 0 {
		return errNotPlain
	}
	from := p.readPosition()
	head := fmt.Appendf(nil, "%s %d\x00", kind, size)
	name, adler := newHash(p.format), adler32.New()
	both := io.MultiWriter(name, adler)
	_, _ = both.Write(head) // writing to a hash never fails
	body := flate.NewReader(p.r)
	n, err := io.Copy(both, io.LimitReader(body, size))
	if err != nil || n != size {
		return errNotPlain
	}
	if n, err := body.Read(z[:1]); n != 0 || !errors.Is(err, io.EOF) {
		return errNotPlain
	}
	to := p.readPosition()
	if _, err := p.r.Discard(adler32.Size); err != nil {
		return errNotPlain
	}
	id, err := nameOf(name)
	if err != nil {
		return err
	}
	// A block that is not compressed has the header. The blocks of the pack follow unchanged.
	length := byte(len(head)) //nolint:gosec // a kind and a number
	start := []byte{0x78, 0x01, 0, length, 0, ^length, 0xff}
	return writeLoose(p.dir, id, io.MultiReader(
		bytes.NewReader(append(start, head...)), io.NewSectionReader(p, from, to-from), bytes.NewReader(adler.Sum(nil))))
}

// readHeader reads the header of an object.
func (p *plainPack) readHeader() (kind string, size int64, err error) {
	b, err := p.r.ReadByte()
	if err != nil {
		return "", 0, errNotPlain
	}
	kind, size = kinds[b>>4&7], int64(b&0x0f)
	if kind == "" {
		return "", 0, errNotPlain
	}
	for shift := 4; b&0x80 != 0; shift += 7 {
		if b, err = p.r.ReadByte(); err != nil || shift > 32 {
			return "", 0, errNotPlain
		}
		size |= int64(b&0x7f) << shift
	}
	return kind, size, nil
}

// writeLoose writes the file of a loose object.
func writeLoose(dir, id string, from io.Reader) error {
	if err := os.MkdirAll(filepath.Join(dir, id[:2]), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, id[:2], id[2:]), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // a folder of the store, and the name of an object
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
