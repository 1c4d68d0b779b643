package requester

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"strings"

	"sluice.dev/api/resolution/v1beta1"
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

func read(r *v1beta1.ResolutionRequest) (*Resource, error) {
	data, err := base64.StdEncoding.DecodeString(r.Status.Data)
	if err != nil {
		return nil, &DataError{Namespace: r.Namespace, Name: r.Name, Message: "it is not base64: " + err.Error()}
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
			return nil, &DataError{Namespace: r.Namespace, Name: r.Name, Message: fmt.Sprintf("its %s is %s, not %s as its source says", algorithm, got, want)}
		}
		out.DigestVerified = true
	}
	return out, nil
}
