package bundle

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"sluice.dev/resolve"
	"sluice.dev/resolve/verify"
)

// What cosign writes (github.com/sigstore/cosign, specs/SIGNATURE_SPEC.md): signatures are the layers of an image with a
// tag that the digest makes, each with the signed payload as its blob.
const (
	signatureAnnotation = "dev.cosignproject.cosign/signature"
	signatureMediaType  = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureType       = "cosign container image signature"
)

const (
	// maxSignatures bounds the signatures of one image that are looked at; who may push can add as many as they like.
	maxSignatures = 50
	// maxPayload bounds the signed payload in bytes.
	maxPayload = 64 << 10
	// maxSignatureText bounds the annotation with the signature in bytes.
	maxSignatureText = 8 << 10
)

// signers returns the IDs of the keys of the policies that have signed the image, or the index that lists it. Where
// that is demanded, by a policy or by the request, none is an error.
func (r *Resolver) signers(ctx context.Context, im *image, asked bool) ([]string, error) {
	uri := im.repo.Name()
	want := r.policies().Cosign(uri)
	if len(want.Keys) == 0 {
		if asked {
			return nil, resolve.Errorf(resolve.ReasonVerification, "a cosign signature is asked for, but the operator's policies have no cosign keys for %s", uri)
		}
		return nil, nil
	}
	digests := []v1.Hash{im.top}
	if im.digest != im.top {
		digests = append(digests, im.digest)
	}
	s := &signatures{im: im, keys: want.Keys, found: map[string]bool{}, payloads: map[v1.Hash][]byte{}}
	for _, d := range digests {
		if err := s.read(ctx, d); err != nil {
			if want.Enforced || asked || ctx.Err() != nil {
				return nil, err
			}
			// A policy that only warns does so for want of signers.
			return nil, nil
		}
	}
	ids := s.ids()
	if len(ids) == 0 && (want.Enforced || asked) {
		return nil, resolve.Errorf(resolve.ReasonVerification, "%s", s.why())
	}
	return ids, nil
}

// signatures collects which keys have signed.
type signatures struct {
	im       *image
	keys     []verify.PublicKey
	found    map[string]bool
	payloads map[v1.Hash][]byte
	seen     int
	// flaw is why the last signature that was refused was.
	flaw string
}

func (s *signatures) ids() []string {
	var out []string
	for _, k := range s.keys {
		if s.found[k.ID] {
			out = append(out, k.ID)
		}
	}
	return out
}

func (s *signatures) why() string {
	if s.seen == 0 {
		return fmt.Sprintf("it is not signed: %s has no cosign signature for the digest %s", s.im.repo.Name(), s.im.top)
	}
	names := make([]string, len(s.keys))
	for i, k := range s.keys {
		names[i] = k.Name
	}
	return fmt.Sprintf("none of its %d cosign signatures is good for a key of the operator's policies (%s): %s", s.seen, strings.Join(names, ", "), s.flaw)
}

// read looks at the signatures of one digest.
func (s *signatures) read(ctx context.Context, digest v1.Hash) error {
	tag := s.im.repo.Tag(digest.Algorithm + "-" + digest.Hex + ".sig")
	raw, mediaType, _, err := s.im.fetchManifest(ctx, tag)
	var answer *transport.Error
	if errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	manifest, ok := parseImage(raw, mediaType)
	if !ok {
		s.seen++
		s.flaw = "they are not in the form that cosign writes"
		return nil
	}
	for i, l := range manifest.Layers {
		if s.seen++; i >= maxSignatures {
			s.flaw = fmt.Sprintf("only the first %d are looked at", maxSignatures)
			break
		}
		if err := s.check(ctx, l, digest); err != nil {
			return err
		}
		if len(s.found) == len(s.keys) {
			break
		}
	}
	return nil
}

func parseImage(raw []byte, mediaType types.MediaType) (*v1.Manifest, bool) {
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	return m, err == nil && mediaType.IsImage()
}

func decode(s string) ([]byte, bool) {
	b, err := base64.StdEncoding.DecodeString(s)
	return b, err == nil
}

// check looks at one signature. An error is only what keeps from finding out.
func (s *signatures) check(ctx context.Context, l v1.Descriptor, digest v1.Hash) error {
	text := l.Annotations[signatureAnnotation]
	if string(l.MediaType) != signatureMediaType || text == "" || len(text) > maxSignatureText || l.Size > maxPayload {
		s.flaw = "a signature is not in the form that cosign writes"
		return nil
	}
	sig, ok := decode(text)
	if !ok {
		s.flaw = "a signature is not base64"
		return nil
	}
	payload, ok := s.payloads[l.Digest]
	if !ok {
		var err error
		if payload, err = s.im.fetchBlob(ctx, l, maxPayload); err != nil {
			return err
		}
		s.payloads[l.Digest] = payload
	}
	if flaw := flawOf(payload, digest); flaw != "" {
		s.flaw = flaw
		return nil
	}
	for _, k := range s.keys {
		if s.found[k.ID] {
			continue
		}
		switch err := k.Verify(ctx, payload, sig); {
		case err == nil:
			s.found[k.ID] = true
		case errors.Is(err, verify.ErrSignature):
			s.flaw = "a signature is by another key"
		default:
			s.flaw = clean(k.Name + ": " + err.Error())
		}
	}
	return nil
}

// flawOf tells why a payload is not one about that digest; empty if it is. It is judged before the signature, which makes no difference: both
// have to be right.
func flawOf(payload []byte, digest v1.Hash) string {
	var p struct {
		Critical struct {
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
			Type string `json:"type"`
		} `json:"critical"`
	}
	if json.Unmarshal(payload, &p) != nil {
		return "a signature's payload is no JSON"
	}
	if p.Critical.Type != signatureType {
		return "a signature's payload is not one of cosign's"
	}
	if p.Critical.Image.Digest != digest.String() {
		return "a signature is for another digest"
	}
	return ""
}
