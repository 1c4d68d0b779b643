package bundletest

import (
	"bytes"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func newBlob(data []byte) v1.Layer { return blob{data: data, mediaType: types.OCILayer} }

// Digest implements v1.Layer.
func (b blob) Digest() (v1.Hash, error) { return HashOf(b.data), nil }

// DiffID implements v1.Layer; nothing here uses it.
func (b blob) DiffID() (v1.Hash, error) { return HashOf(b.data), nil }

// Compressed implements v1.Layer.
func (b blob) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(b.data)), nil
}

// Uncompressed implements v1.Layer; nothing here uses it.
func (b blob) Uncompressed() (io.ReadCloser, error) { return b.Compressed() }

// Size implements v1.Layer.
func (b blob) Size() (int64, error) { return int64(len(b.data)), nil }

// MediaType implements v1.Layer.
func (b blob) MediaType() (types.MediaType, error) { return b.mediaType, nil }
