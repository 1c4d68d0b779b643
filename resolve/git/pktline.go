package git

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"sluice.dev/internal/brief"
)

// The kinds of packets, see gitprotocol-common and gitprotocol-v2 of git's documentation.
type packetKind int

const (
	packetFlush packetKind = iota
	packetDelim
	packetEnd
	packetData
)

// packets reads packet lines and counts what it read.
type packets struct {
	r *bufio.Reader
	// left is the number of bytes that may still be read.
	left int64
	buf  []byte
}

var (
	errGarbage  = errors.New("what was answered is not git's protocol")
	errTooMuch  = errors.New("more was answered than the limit allows")
	errFromPeer = errors.New("the server reports an error")
)

// remoteError is an error message of the server, made safe for a line of text.
type remoteError struct{ text string }

func (e *remoteError) Error() string        { return e.text }
func (e *remoteError) Is(target error) bool { return target == errFromPeer }

func newRemoteError(text []byte) error {
	return &remoteError{brief.Clip(brief.OneLine(string(text)), 200)}
}

func newPackets(r io.Reader, limit int64) *packets {
	return &packets{r: bufio.NewReaderSize(r, 16<<10), left: limit}
}

// nextPacket returns the next packet. Its payload is valid until the next call. io.EOF stands for a clean end between packets.
func (p *packets) nextPacket() (packetKind, []byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, nil, fmt.Errorf("%w: it ends inside a packet", io.ErrUnexpectedEOF)
		}
		return 0, nil, err
	}
	n, err := strconv.ParseUint(string(head[:]), 16, 16)
	if err != nil {
		return 0, nil, errGarbage
	}
	p.left -= max(4, int64(n))
	if p.left < 0 {
		return 0, nil, errTooMuch
	}
	switch n {
	case 0:
		return packetFlush, nil, nil
	case 1:
		return packetDelim, nil, nil
	case 2:
		return packetEnd, nil, nil
	case 3:
		return 0, nil, errGarbage
	}
	n -= 4
	if cap(p.buf) < int(n) {
		p.buf = make([]byte, max(int(n), 4096))
	}
	p.buf = p.buf[:n]
	if _, err := io.ReadFull(p.r, p.buf); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return packetData, p.buf, nil
}

// nextLine returns the next packet as a line; an ERR line is an error.
func (p *packets) nextLine() (packetKind, string, error) {
	kind, b, err := p.nextPacket()
	if err != nil || kind != packetData {
		return kind, "", err
	}
	if text, ok := bytes.CutPrefix(b, []byte("ERR ")); ok {
		return 0, "", newRemoteError(text)
	}
	return kind, strings.TrimSuffix(string(b), "\n"), nil
}

// eachLine visits the lines up to the next packet that is none, such as the end of a list.
func (p *packets) eachLine(visit func(line string) error) error {
	for {
		kind, line, err := p.nextLine()
		switch {
		case err != nil:
			return noEOF(err)
		case kind != packetData:
			return nil
		}
		if err := visit(line); err != nil {
			return err
		}
	}
}

// request builds a request.
type request struct{ bytes.Buffer }

func (r *request) writeLine(format string, args ...any) {
	s := fmt.Sprintf(format, args...) + "\n"
	_, _ = fmt.Fprintf(r, "%04x%s", len(s)+4, s)
}

func (r *request) writeFlush() { r.WriteString("0000") }
func (r *request) writeDelim() { r.WriteString("0001") }
