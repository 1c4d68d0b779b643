package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"sluice.dev/internal/limit"
	"sluice.dev/resolve"
)

// tarBlock is the size of a tar header. If a stream exceeds the limit by more than that, it can hold more content than the limit,
// unless the rest is padding.
const (
	tarBlock = 512
	tarExtra = 64 << 10
)

// layerContent returns the resource in a layer: gzip or not, a tar with one file or the raw bytes, and in it one document. It never
// holds more than maxSize bytes of content, whatever size the layer claims or decompresses to.
func layerContent(blob []byte, maxSize int64) ([]byte, error) {
	plain := blob
	if bytes.HasPrefix(blob, []byte{0x1f, 0x8b}) {
		zr, err := gzip.NewReader(bytes.NewReader(blob))
		if err != nil {
			return nil, failf("the layer is broken: its compression cannot be read")
		}
		plain, err = limit.ReadAll(zr, maxSize+tarExtra)
		if errors.Is(err, limit.ErrTooLarge) {
			return nil, tooLargef("the layer inflates to more than the %d bytes that are allowed", maxSize)
		}
		if err != nil {
			return nil, failf("the layer is broken: its compression cannot be read")
		}
	}
	data, err := untarSingle(plain, maxSize)
	if errors.Is(err, errNoTar) {
		data, err = plain, nil
	}
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > maxSize {
		return nil, tooLargef("the resource is larger than the %d bytes that are allowed", maxSize)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, failf("the layer is empty")
	}
	if resolve.SeveralDocuments(data) {
		return nil, failf("the layer holds several YAML documents; one resource is wanted")
	}
	return data, nil
}

var errNoTar = errors.New("no tar")

// untarSingle returns the only file of a tar. It returns errNoTar if the bytes do not begin as a tar does. It looks for the magic word,
// because tar.Reader accepts some texts as old headers.
func untarSingle(b []byte, maxSize int64) ([]byte, error) {
	if len(b) < tarBlock || !bytes.Equal(b[257:262], []byte("ustar")) {
		return untarOld(b, maxSize)
	}
	return readTar(b, maxSize)
}

// untarOld reads a tar without a magic word, an old format that some tools still write. A YAML or JSON text has no NUL, and the
// first block of a tar always has some.
func untarOld(b []byte, maxSize int64) ([]byte, error) {
	if len(b) < tarBlock || bytes.IndexByte(b[:tarBlock], 0) < 0 {
		return nil, errNoTar
	}
	return readTar(b, maxSize)
}

func readTar(b []byte, maxSize int64) ([]byte, error) {
	tr := tar.NewReader(bytes.NewReader(b))
	var data []byte
	for found := false; ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			if !found {
				return nil, failf("the layer is a tar without a file")
			}
			return data, nil
		}
		if err != nil {
			return nil, failf("the layer is broken: it is no tar with one file, and no text")
		}
		switch h.Typeflag {
		case tar.TypeReg:
		case tar.TypeDir, tar.TypeXGlobalHeader:
			continue
		default:
			return nil, failf("the layer is a tar with a link or a special file; one plain file is wanted")
		}
		if found {
			return nil, failf("the layer is a tar with several files; one is wanted")
		}
		found = true
		// The size in the header is only compared. Memory is allocated for the bytes that arrive.
		if h.Size > maxSize {
			return nil, tooLargef("the layer's tar announces a file of %d bytes; at most %d are allowed", h.Size, maxSize)
		}
		data, err = limit.ReadAll(tr, maxSize)
		if errors.Is(err, limit.ErrTooLarge) {
			return nil, tooLargef("the resource is larger than the %d bytes that are allowed", maxSize)
		}
		if err != nil || int64(len(data)) != h.Size {
			return nil, failf("the layer is broken: its tar ends early")
		}
	}
}
