package bundle

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"sluice.dev/internal/brief"
	"sluice.dev/resolve"
	"sluice.dev/resolve/verify"
)

// Formats of cosign. Until version 3 (github.com/sigstore/cosign, specs/SIGNATURE_SPEC.md), signatures are the layers of an image.
// Its tag is made from the digest, and each layer has the signed payload as its blob. Since version 3 (specs/BUNDLE_SPEC.md), each
// signature is an image that refers to the signed one, with a bundle in Sigstore's format as its layer.
const (
	signatureAnnotation   = "dev.cosignproject.cosign/signature"
	certificateAnnotation = "dev.sigstore.cosign/certificate"
	logAnnotation         = "dev.sigstore.cosign/bundle"
	timestampAnnotation   = "dev.sigstore.cosign/rfc3161timestamp"
	signatureMediaType    = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureType         = "cosign container image signature"

	bundleMediaType     = "application/vnd.dev.sigstore.bundle" // the version follows
	emptyMediaType      = "application/vnd.oci.empty.v1+json"
	predicateAnnotation = "dev.sigstore.bundle.predicateType"
	predicateSign       = "https://sigstore.dev/cosign/sign/v1"
	createdAnnotation   = "org.opencontainers.image.created"
)

const (
	// maxSignatures bounds the signatures that are read of one image; users who can push can add as many as they like.
	maxSignatures = 50
	// maxBundles bounds the bundles that refer to the image. Each costs two requests.
	maxBundles = 15
	// maxPayload bounds the signed payload in bytes.
	maxPayload = 64 << 10
	// maxBundle bounds a bundle in bytes. One with a proof of inclusion and a timestamp has about 12 KiB.
	maxBundle = 256 << 10
	// maxSignatureText bounds each annotation of a signature in bytes.
	maxSignatureText = 32 << 10
)

// imageSigners returns the IDs of the keys and identities of the policies that have signed the image, or the index that lists it. If a
// policy or the request demands a signature, it is an error if there is none.
func (r *Resolver) imageSigners(ctx context.Context, im *image, asked bool) ([]string, error) {
	uri := im.repo.Name()
	want := r.options.Policies().Cosign(uri)
	if len(want.IDs()) == 0 {
		if asked {
			return nil, resolve.Errorf(resolve.ReasonVerification, "a cosign signature is asked for, but the operator's policies have no cosign keys or identities for %s", uri)
		}
		return nil, nil
	}
	digests := []v1.Hash{im.top}
	if im.digest != im.top {
		digests = append(digests, im.digest)
	}
	s := &signatures{im: im, want: want, found: map[string]bool{}, payloads: map[v1.Hash][]byte{}}
	var failed error
	for _, read := range []func(context.Context, v1.Hash) error{s.readTag, s.readReferrers} {
		for _, d := range digests {
			if err := read(ctx, d); err != nil {
				failed = errors.Join(failed, err)
			}
			if s.allFound() {
				return s.foundIDs(), nil
			}
		}
	}
	ids := s.foundIDs()
	switch {
	case len(ids) > 0, !want.Enforced && !asked && ctx.Err() == nil:
		// A policy that only warns does so if there are no signers.
		return ids, nil
	case failed != nil:
		return nil, failed
	}
	return nil, resolve.Errorf(resolve.ReasonVerification, "%s", s.whyIncomplete())
}

// signatures collects the signers.
type signatures struct {
	im       *image
	want     verify.Signatories
	found    map[string]bool
	payloads map[v1.Hash][]byte
	seen     int
	// flaw says why the last refused signature is wrong.
	flaw string
	// cut: the registry's list of referrers is longer than the part that was read.
	cut bool
}

// foundIDs returns the IDs of those who have signed, in the order of the policies; nil for nobody.
func (s *signatures) foundIDs() []string {
	var out []string
	for _, id := range s.want.IDs() {
		if s.found[id] {
			out = append(out, id)
		}
	}
	return out
}

func (s *signatures) allFound() bool { return len(s.found) == len(s.want.IDs()) }

// whyIncomplete says why nobody has signed: signatures can be missing, not be good, or stand behind the part of a list that is read.
func (s *signatures) whyIncomplete() string {
	if s.cut {
		return fmt.Sprintf("no good cosign signature of %s is in the part of the list of what refers to %s that is read: %d pages, %d bytes at most",
			s.im.repo.Name(), s.im.top, maxPages, maxReferrers)
	}
	if s.seen == 0 {
		return fmt.Sprintf("it is not signed: %s has no cosign signature for the digest %s", s.im.repo.Name(), s.im.top)
	}
	return fmt.Sprintf("none of its %d cosign signatures is good for those of the operator's policies (%s): %s", s.seen, s.want.Names(), s.flaw)
}

// recordResult records the result for one signature.
func (s *signatures) recordResult(ids []string, err error) {
	for _, id := range ids {
		s.found[id] = true
	}
	if err != nil {
		s.flaw = brief.Cut("a signature does not count: "+brief.OneLine(err.Error()), 600)
	}
}

// readTag reads the signatures of one digest that a tag names.
func (s *signatures) readTag(ctx context.Context, digest v1.Hash) error {
	tag := s.im.repo.Tag(digest.Algorithm + "-" + digest.Hex + ".sig")
	raw, mediaType, _, err := s.im.fetchManifest(ctx, tag)
	if isMissing(err) {
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
			s.flaw = fmt.Sprintf("Sluice checks only the first %d", maxSignatures)
			break
		}
		if err := s.verifySimple(ctx, l, digest); err != nil {
			return err
		}
		if s.allFound() {
			break
		}
	}
	return nil
}

func isMissing(err error) bool {
	var answer *transport.Error
	return errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
}

// readReferrers reads the signatures that refer to one digest, the newest first. If the registry has no referrers API, the library
// reads the list under the tag that the distribution specification names.
func (s *signatures) readReferrers(ctx context.Context, digest v1.Hash) error {
	options := append(slices.Clone(s.im.options), remote.WithContext(ctx))
	index, err := remote.Referrers(s.im.repo.Digest(digest.String()), options...)
	if err != nil {
		return err
	}
	list, err := index.IndexManifest()
	if err != nil {
		return failf("the registry's list of referrers cannot be read")
	}
	s.cut = s.cut || list.Annotations[cutAnnotation] != ""
	var signed []v1.Descriptor
	for _, d := range list.Manifests {
		// cosign lists attestations in the same way. They are no signatures, and there can be many. Some registries report the type
		// of the configuration, or none.
		predicate := d.Annotations[predicateAnnotation]
		named := strings.HasPrefix(d.ArtifactType, bundleMediaType) || d.ArtifactType == "" || d.ArtifactType == emptyMediaType
		if named && (predicate == "" || predicate == predicateSign) {
			signed = append(signed, d)
		}
	}
	slices.SortStableFunc(signed, func(a, b v1.Descriptor) int {
		return strings.Compare(b.Annotations[createdAnnotation], a.Annotations[createdAnnotation])
	})
	for i, d := range signed {
		if s.seen++; i >= maxBundles {
			s.flaw = fmt.Sprintf("Sluice checks only %d of the %d referrers", maxBundles, len(signed))
			break
		}
		data, err := s.fetchBundle(ctx, d)
		switch {
		case isFlaw(err):
			s.recordResult(nil, err)
		case err != nil:
			return err
		default:
			s.recordResult(s.want.Bundle(data, digest.Hex))
		}
		if s.allFound() {
			break
		}
	}
	return nil
}

// isFlaw reports whether an error is about one signature: one that is missing, or differs from the list, must not hide others. A
// failure of the network is about all of them.
func isFlaw(err error) bool {
	refused, ok := errors.AsType[*resolve.Error](err)
	return isMissing(err) || ok && !refused.Transient
}

// fetchBundle fetches the bundle of one signature.
func (s *signatures) fetchBundle(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	if err := sha256Only(d.Digest); err != nil {
		return nil, err
	}
	raw, mediaType, _, err := s.im.fetchManifest(ctx, s.im.repo.Digest(d.Digest.String()))
	if err != nil {
		return nil, err
	}
	manifest, ok := parseImage(raw, mediaType)
	if !ok || len(manifest.Layers) != 1 || !strings.HasPrefix(string(manifest.Layers[0].MediaType), bundleMediaType) {
		return nil, failf("it is not in the form that cosign writes")
	}
	return s.im.fetchBlob(ctx, manifest.Layers[0], maxBundle)
}

func parseImage(raw []byte, mediaType types.MediaType) (*v1.Manifest, bool) {
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	return m, err == nil && mediaType.IsImage()
}

// verifySimple verifies one signature. It returns an error only if it could not decide.
func (s *signatures) verifySimple(ctx context.Context, l v1.Descriptor, digest v1.Hash) error {
	text := l.Annotations[signatureAnnotation]
	long := slices.ContainsFunc(slices.Collect(maps.Values(l.Annotations)), func(a string) bool { return len(a) > maxSignatureText })
	if string(l.MediaType) != signatureMediaType || text == "" || long || l.Size > maxPayload {
		s.flaw = "a signature is not in the form that cosign writes"
		return nil
	}
	sig, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		s.flaw = "a signature is not base64"
		return nil //nolint:nilerr // the flaw says so
	}
	payload, ok := s.payloads[l.Digest]
	if !ok {
		if payload, err = s.im.fetchBlob(ctx, l, maxPayload); err != nil {
			return err
		}
		s.payloads[l.Digest] = payload
	}
	if flaw := flawOf(payload, digest); flaw != "" {
		s.flaw = flaw
		return nil
	}
	s.recordResult(s.want.Simple(verify.Simple{
		Payload: payload, Signature: sig,
		Certificate: l.Annotations[certificateAnnotation], Log: l.Annotations[logAnnotation], Timestamp: l.Annotations[timestampAnnotation],
	}))
	return nil
}

// flawOf says why a payload is not about that digest; empty if it is. It runs before the check of the signature. The order does not
// matter, because both must be right.
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
