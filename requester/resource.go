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

// Resource is what a request has brought.
type Resource struct {
	Data        []byte
	Annotations map[string]string
	// Source says where it came from; nil if the resolver does not say.
	Source *v1beta1.RefSource
	// DigestVerified: the digest in Source is that of the data, and is right. Where it is false, the digest is that of
	// something the data was taken from, a commit or an image, which cannot be verified here, or there is none.
	DigestVerified bool
}

// DataError says that the content of a request is not what the request says it is.
type DataError struct {
	Namespace, Name string
	Message         string

	uid types.UID
}

// Error implements error.
func (e *DataError) Error() string {
	return fmt.Sprintf("the content of ResolutionRequest %s/%s: %s", e.Namespace, e.Name, e.Message)
}

// hashes are those of data; a digest sha1 is that of a commit.
var hashes = map[string]func() hash.Hash{"sha256": sha256.New, "sha512": sha512.New}

// dataHasDigest tells by the resolver's URI whether the digest is that of the data: it is for http and hub, whose URI is
// the address that was read, and for cluster; it is not for a bundle (the image's) and for git (the commit).
func dataHasDigest(uri string) bool {
	return strings.HasPrefix(uri, "http://") || strings.HasPrefix(uri, "https://") ||
		strings.HasPrefix(uri, "/api/") || strings.HasPrefix(uri, "/apis/") || strings.HasPrefix(uri, "file:")
}

// Store reads content that is kept outside of requests, which package requester/contentstore does. Its errors should tell
// what was wrong; what it returns is compared with digest and size here as well.
type Store interface {
	Get(ctx context.Context, ref, digest string, size int64) ([]byte, error)
}

// DefaultMaxBytes is how much content is read by default.
const DefaultMaxBytes = 16 << 20

// read returns what a request that has succeeded has brought.
func (q *Requester) read(ctx context.Context, r *v1beta1.ResolutionRequest) (*Resource, error) {
	data, wrong, err := q.content(ctx, &r.Status)
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

// content returns the content, wherever and however it is kept. Wrong says why it is not what the status says, so that
// reading it again does not help; err, why it cannot be read for now.
func (q *Requester) content(ctx context.Context, s *v1beta1.ResolutionRequestStatus) (data []byte, wrong string, err error) {
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
		return nil, fmt.Sprintf("it is in a store, %.300q, which this client has not been told to read", s.DataRef), nil
	case s.DataRef != "":
		if data, err = q.Store.Get(ctx, s.DataRef, s.DataDigest, s.DataSize); err != nil {
			return nil, "", err
		}
	default:
		if data, err = base64.StdEncoding.DecodeString(s.Data); err != nil {
			return nil, "it is not base64: " + err.Error(), nil //nolint:nilerr // it is told
		}
		switch s.DataEncoding {
		case "":
		case v1beta1.EncodingGzip:
			if data, wrong = unzip(data, s.DataSize); wrong != "" {
				return nil, wrong, nil
			}
		default:
			return nil, fmt.Sprintf("its encoding is %.100q, which this client does not know", s.DataEncoding), nil
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

// unzip inflates to no more than size bytes.
func unzip(packed []byte, size int64) (data []byte, wrong string) {
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
