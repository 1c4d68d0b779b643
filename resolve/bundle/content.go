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

// Tekton writes a layer as a tar with one file, compressed by gzip. Other tools write the tar alone, or the resource as it is. The
// content tells them apart, since the types of layers do not.

// tarBlock is the size of a tar header. If a stream exceeds the limit by more than that, it can hold more content than the limit,
// unless the rest is padding.
const (
	tarBlock = 512
	tarExtra = 64 << 10
)

// layerContent returns the resource in a layer: gzip or not, a tar with one file or the raw bytes, and in it one document. It never
// holds more than maxSize bytes of content, whatever size the layer claims or decompresses to.
func layerContent(blob []byte, maxSize int64) ([]byte, error) {
	data, err := inflateLayer(blob, "the layer", maxSize+tarExtra, maxSize)
	if err == nil && isTar(data) {
		data, err = readTar(data, maxSize)
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

// inflateLayer returns the content of a layer that gzip may have compressed, at most most bytes. what is inflated, and how many bytes are
// allowed, is for messages.
func inflateLayer(blob []byte, what string, most, allowed int64) ([]byte, error) {
	if !bytes.HasPrefix(blob, []byte{0x1f, 0x8b}) {
		return blob, nil
	}
	var plain []byte
	zr, err := gzip.NewReader(bytes.NewReader(blob))
	if err == nil {
		plain, err = limit.ReadAll(zr, most)
	}
	if errors.Is(err, limit.ErrTooLarge) {
		return nil, tooLargef("%s inflates to more than the %d bytes that are allowed", what, allowed)
	}
	if err != nil {
		return nil, failf("%s is broken: its compression cannot be read", what)
	}
	return plain, nil
}

// isTar reports whether content is a tar. tar.Reader accepts some texts as old headers, so it has to have the magic word, or a NUL in its
// first block, as an old format has that some tools still write: a YAML or JSON text has none.
func isTar(b []byte) bool {
	return len(b) >= tarBlock && (bytes.Equal(b[257:262], []byte("ustar")) || bytes.IndexByte(b[:tarBlock], 0) >= 0)
}

// readTar returns the only file of a tar.
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
