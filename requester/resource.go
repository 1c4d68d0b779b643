package requester

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/internal/limit"
)

// Resource is the result of a request.
type Resource struct {
	Data        []byte
	Annotations map[string]string
	// Source is the origin of the resource; nil if the resolver gives none.
	Source *v1beta1.RefSource
	// DigestVerified is true if the digest in Source is the digest of the data and matches it. It is false if there is no digest.
	// It is also false if the digest identifies something that contains the data, such as a commit or an image: this package cannot
	// verify it.
	DigestVerified bool
}

// DataError means that the content of a request contradicts its status.
type DataError struct {
	Namespace, Name string
	Message         string

	uid types.UID
}

// Error implements error.
func (e *DataError) Error() string {
	return fmt.Sprintf("the content of ResolutionRequest %s/%s: %s", e.Namespace, e.Name, e.Message)
}

// hashes are the algorithms for data. A digest sha1 is that of a commit.
var hashes = map[string]func() hash.Hash{"sha256": sha256.New, "sha512": sha512.New}

// dataHasDigest decides by the URI of the source whether the digest is that of the data. It is for http and hub, whose URI is the
// address of the data, and for cluster. For a bundle it is the digest of the image, and for git the commit.
func dataHasDigest(uri string) bool {
	return strings.HasPrefix(uri, "http://") || strings.HasPrefix(uri, "https://") ||
		strings.HasPrefix(uri, "/api/") || strings.HasPrefix(uri, "/apis/") || strings.HasPrefix(uri, "file:")
}

// Store reads content that is kept outside of requests. Package requester/contentstore implements it. Its errors should describe
// the cause. The requester compares the result with digest and size itself.
type Store interface {
	Get(ctx context.Context, ref, digest string, size int64) ([]byte, error)
}

// DefaultMaxBytes is the default bound of content, in bytes.
const DefaultMaxBytes = 16 << 20

// readResource returns the resource of a request that has succeeded.
func (q *Requester) readResource(ctx context.Context, r *v1beta1.ResolutionRequest) (*Resource, error) {
	data, wrong, err := q.contentOf(ctx, &r.Status)
	if err != nil {
		return nil, fmt.Errorf("the content of ResolutionRequest %s/%s cannot be read: %w", r.Namespace, r.Name, err)
	}
	if wrong != "" {
		return nil, &DataError{Namespace: r.Namespace, Name: r.Name, Message: wrong, uid: r.UID}
	}
	out := &Resource{Data: data, Annotations: maps.Clone(r.Status.Annotations), Source: r.Status.Origin().DeepCopy()}
	if out.Source == nil || !dataHasDigest(out.Source.URI) {
		return out, nil
	}
	for _, algorithm := range sortedKeys(out.Source.Digest) {
		newHash, ok := hashes[algorithm]
		if !ok {
			continue
		}
		h := newHash()
		// A hash never fails to write.
		_, _ = h.Write(data)
		if got, want := hex.EncodeToString(h.Sum(nil)), out.Source.Digest[algorithm]; got != want {
			return nil, &DataError{Namespace: r.Namespace, Name: r.Name, uid: r.UID, Message: fmt.Sprintf("its %s is %s, not %s as its source says", algorithm, got, want)}
		}
		out.DigestVerified = true
	}
	return out, nil
}

// contentOf returns the content, in whatever form it is kept. wrong says why it contradicts the status, so that another read does not
// help. err says why it cannot be read now.
func (q *Requester) contentOf(ctx context.Context, s *v1beta1.ResolutionRequestStatus) (data []byte, wrong string, err error) {
	most := cmp.Or(q.MaxBytes, DefaultMaxBytes)
	kept := s.DataRef != "" || s.DataEncoding != ""
	switch {
	case kept && (s.DataSize < 0 || s.DataDigest == ""):
		return nil, fmt.Sprintf("it has the size %d and the digest %.100q", s.DataSize, s.DataDigest), nil
	case kept && s.DataSize > most:
		return nil, fmt.Sprintf("it has %d bytes, over the limit of %d bytes", s.DataSize, most), nil
	case s.DataRef != "" && (s.Data != "" || s.DataEncoding != ""):
		return nil, "it is in a store and in the request", nil
	case s.DataRef != "" && q.Store == nil:
		return nil, fmt.Sprintf("it is in the store %.300q, and this client is not set up to read it", s.DataRef), nil
	case s.DataRef != "":
		if data, err = q.Store.Get(ctx, s.DataRef, s.DataDigest, s.DataSize); err != nil {
			return nil, "", err
		}
	default:
		if data, wrong = decodeInline(s); wrong != "" {
			return nil, wrong, nil
		}
	}
	if kept && int64(len(data)) != s.DataSize {
		return nil, fmt.Sprintf("it has %d bytes, not %d", len(data), s.DataSize), nil
	}
	if s.DataDigest != "" {
		if sum := sha256.Sum256(data); s.DataDigest != "sha256:"+hex.EncodeToString(sum[:]) {
			return nil, fmt.Sprintf("its digest is sha256:%x, not %.100q", sum, s.DataDigest), nil
		}
	}
	return data, "", nil
}

// decodeInline returns the content that is in the status itself.
func decodeInline(s *v1beta1.ResolutionRequestStatus) (data []byte, wrong string) {
	data, err := base64.StdEncoding.DecodeString(s.Data)
	if err != nil {
		return nil, "it is not base64: " + err.Error()
	}
	switch s.DataEncoding {
	case "":
		return data, ""
	case v1beta1.EncodingGzip:
		return gunzipAtMost(data, s.DataSize)
	}
	return nil, fmt.Sprintf("its encoding is %.100q, which this client does not know", s.DataEncoding)
}

// gunzipAtMost decompresses no more than size bytes.
func gunzipAtMost(packed []byte, size int64) (data []byte, wrong string) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		data, err = limit.ReadAll(z, size)
	}
	switch {
	case errors.Is(err, limit.ErrTooLarge):
		return nil, fmt.Sprintf("it inflates to more than the %d bytes that it should have", size)
	case err != nil:
		return nil, "it is not gzip: " + err.Error()
	}
	return data, ""
}
