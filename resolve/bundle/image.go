package bundle

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/limit"
	"sluice.dev/resolve"
)

// An image is read in two steps: its manifest, and then only the layers that are wanted. Each is bytes of a bounded number, whose
// digest this file computes and compares, whatever the registry or the library says about them.

// maxIndex bounds the images that an index may list.
const maxIndex = 100

// image is a bundle whose manifest has been read.
type image struct {
	puller *remote.Puller
	// options are those that the puller was made with.
	options []remote.Option
	repo    name.Repository
	limits  limits
	// digest is the digest of the manifest, computed from the bytes that were read.
	digest v1.Hash
	// top is the digest of the object that the reference names: the index that lists the image, or the image.
	top      v1.Hash
	manifest *v1.Manifest
	// pinned: the reference has a digest. anonymous: no credential could be sent.
	pinned, anonymous bool
}

// openImage reads the manifest of an image. From an index it takes the only image that is no attestation. If there are several, it takes
// the one for linux/amd64, as clients of Tekton's own resolver get it. It refuses an index in an index.
func (r *Resolver) openImage(ctx context.Context, ref name.Reference, creds *credentials, way *guard) (*image, error) {
	options := []remote.Option{
		remote.WithAuthFromKeychain(creds),
		remote.WithTransport(way),
		// The framework retries, within the deadline of the request.
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}),
		remote.WithRetryPredicate(func(error) bool { return false }),
		remote.WithRetryStatusCodes(),
	}
	puller, err := remote.NewPuller(options...)
	if err != nil {
		return nil, err
	}
	im := &image{puller: puller, options: options, repo: ref.Context(), limits: r.limits}
	raw, mediaType, digest, err := im.fetchManifest(ctx, ref)
	if tag, ok := ref.(name.Tag); ok && err != nil {
		return nil, im.withTags(ctx, tag, err)
	}
	if err != nil {
		return nil, err
	}
	im.top = digest
	// The reference may name an index: the image is one of those that it lists.
	if mediaType.IsIndex() {
		child, err := chooseImage(raw)
		if err != nil {
			return nil, err
		}
		raw, mediaType, digest, err = im.fetchManifest(ctx, im.repo.Digest(child.String()))
		if err != nil {
			return nil, err
		}
	}
	if !mediaType.IsImage() {
		return nil, failf("it is no image: the registry says that it is %s", cleanText(string(mediaType)))
	}
	if im.manifest, err = v1.ParseManifest(bytes.NewReader(raw)); err != nil {
		return nil, failf("its manifest cannot be read")
	}
	im.digest = digest
	return im, nil
}

const (
	// maxTags bounds the tags that are compared with a missing one, listedTags those that a message names.
	maxTags    = 10_000
	listedTags = 5
)

// withTags adds to the error of a tag that the registry does not have the nearest tag that it has, and a few others.
func (im *image) withTags(ctx context.Context, tag name.Tag, err error) error {
	missing := judgeError(ctx, err)
	if missing.Reason != resolve.ReasonNotFound {
		return err
	}
	pages, failure := im.puller.Lister(ctx, im.repo)
	if failure != nil {
		return err
	}
	page, failure := pages.Next(ctx)
	if failure != nil {
		return err
	}
	// Tags with a digest are those of signatures.
	tags := slices.DeleteFunc(page.Tags[:min(len(page.Tags), maxTags)], func(s string) bool {
		return len(s) > 128 || strings.HasPrefix(s, "sha256-")
	})
	if len(tags) == 0 {
		return err
	}
	// Registries list tags by name, so that the last ones are mostly the newest.
	slices.Reverse(tags)
	if near := brief.Nearest(tag.TagStr(), tags); near != "" {
		missing.Msg += "; the nearest tag is " + cleanText(near)
	}
	more := ""
	if len(tags) > listedTags {
		tags, more = tags[:listedTags], ", ..."
	}
	missing.Msg += "; there are " + cleanText(strings.Join(tags, ", ")) + more
	return missing
}

// fetchManifest reads a manifest or an index and computes its digest. For the old signed schema, the library takes the digest from
// a header. So only the digest of the bytes counts here.
func (im *image) fetchManifest(ctx context.Context, ref name.Reference) ([]byte, types.MediaType, v1.Hash, error) {
	desc, err := im.puller.Get(ctx, ref)
	if err != nil {
		return nil, "", v1.Hash{}, err
	}
	if int64(len(desc.Manifest)) > maxManifest {
		return nil, "", v1.Hash{}, tooLargef("its manifest has %d bytes; at most %d are allowed", len(desc.Manifest), maxManifest)
	}
	sum := sha256.Sum256(desc.Manifest)
	digest := v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
	if d, ok := ref.(name.Digest); ok && d.DigestStr() != digest.String() {
		return nil, "", v1.Hash{}, failf("the registry delivers a manifest with the digest %s", digest)
	}
	mediaType, _, _ := strings.Cut(string(desc.MediaType), ";")
	return desc.Manifest, types.MediaType(strings.ToLower(strings.TrimSpace(mediaType))), digest, nil
}

// chooseImage returns the digest of the image that an index stands for. Attestations that BuildKit adds to an index count for nothing:
// they are for the platform unknown, or have an annotation.
func chooseImage(raw []byte) (v1.Hash, error) {
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return v1.Hash{}, failf("its index cannot be read")
	}
	if len(index.Manifests) > maxIndex {
		return v1.Hash{}, failf("its index lists %d images; at most %d are allowed", len(index.Manifests), maxIndex)
	}
	var images, amd64 []v1.Descriptor
	for _, d := range index.Manifests {
		unknown := d.Platform != nil && d.Platform.OS == "unknown"
		if !d.MediaType.IsImage() || unknown || d.Annotations["vnd.docker.reference.type"] != "" {
			continue
		}
		images = append(images, d)
		if d.Platform != nil && d.Platform.OS == "linux" && d.Platform.Architecture == "amd64" && d.Platform.Variant == "" {
			amd64 = append(amd64, d)
		}
	}
	switch {
	case len(images) == 1:
		return images[0].Digest, sha256Only(images[0].Digest)
	case len(amd64) == 1:
		return amd64[0].Digest, sha256Only(amd64[0].Digest)
	}
	return v1.Hash{}, failf("it is an index of %d images; a bundle is one image, or an index with one image or with one for linux/amd64", len(images))
}

// sha256Only refuses digests of other algorithms, which this package does not compute.
func sha256Only(h v1.Hash) error {
	if h.Algorithm != "sha256" || len(h.Hex) != sha256.Size*2 {
		return failf("it has a digest of the algorithm %s; only sha256 is supported", cleanText(h.Algorithm))
	}
	return nil
}

// findLayer checks the bundle and returns the descriptor of the layer with a resource of that kind and name.
func (im *image) findLayer(kind, resourceName string) (v1.Descriptor, error) {
	layers := im.manifest.Layers
	if len(layers) > im.limits.Layers {
		return v1.Descriptor{}, tooLargef("it has %d layers; a bundle has at most %d", len(layers), im.limits.Layers)
	}
	var found []v1.Descriptor
	var have []string
	for i, l := range layers {
		for _, a := range []string{AnnotationAPIVersion, AnnotationKind, AnnotationName} {
			if _, ok := l.Annotations[a]; !ok {
				return v1.Descriptor{}, failf("it is no Tekton bundle: layer %d has no annotation %s", i, a)
			}
		}
		have = append(have, cleanText(l.Annotations[AnnotationKind]+"/"+l.Annotations[AnnotationName]))
		if strings.EqualFold(l.Annotations[AnnotationKind], kind) && l.Annotations[AnnotationName] == resourceName {
			found = append(found, l)
		}
	}
	switch len(found) {
	case 0:
		slices.Sort(have)
		return v1.Descriptor{}, resolve.Errorf(resolve.ReasonNotFound, "it has no %s with the name %q; it has %s", kind, resourceName, cmp.Or(strings.Join(have, ", "), "no layers"))
	case 1:
	default:
		return v1.Descriptor{}, failf("it has %d layers with the %s %q, so the reference is ambiguous", len(found), kind, resourceName)
	}
	l := found[0]
	if !knownLayer(l.MediaType) {
		return v1.Descriptor{}, failf("the layer of %s %q is of the type %s, which is not supported", kind, resourceName, cleanText(string(l.MediaType)))
	}
	if l.Size < 0 || l.Size > im.limits.Compressed {
		return v1.Descriptor{}, tooLargef("the layer of %s %q has %d bytes; at most %d are allowed", kind, resourceName, l.Size, im.limits.Compressed)
	}
	return l, sha256Only(l.Digest)
}

// fetchBlob fetches a blob of the size and digest of its descriptor.
func (im *image) fetchBlob(ctx context.Context, d v1.Descriptor, maxSize int64) ([]byte, error) {
	if err := sha256Only(d.Digest); err != nil {
		return nil, err
	}
	if d.Size < 0 || d.Size > maxSize {
		return nil, tooLargef("a blob has %d bytes; at most %d are allowed", d.Size, maxSize)
	}
	layer, err := im.puller.Layer(ctx, im.repo.Digest(d.Digest.String()))
	if err != nil {
		return nil, err
	}
	rc, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	defer func() { _ = rc.Close() }()
	blob, err := limit.ReadSized(rc, d.Size, d.Size)
	if err != nil {
		return nil, fmt.Errorf("layer %s: %w", d.Digest, err)
	}
	// The library compares the digest at the end of the stream, if the stream has one. Here the bytes that were read count.
	sum := sha256.Sum256(blob)
	if int64(len(blob)) != d.Size || hex.EncodeToString(sum[:]) != d.Digest.Hex {
		return nil, failf("the registry delivers a layer that has not the size or not the digest %s", d.Digest)
	}
	return blob, nil
}

// knownLayer reports whether layers of the type may hold a resource. The content shows whether it is a tar or gzip. Raw bytes have
// no agreed type. Layers that are kept elsewhere, and other compressions, are not supported.
func knownLayer(t types.MediaType) bool {
	if slices.Contains([]types.MediaType{types.OCILayer, types.OCIUncompressedLayer, types.DockerLayer, types.DockerUncompressedLayer}, t) {
		return true
	}
	s := strings.ToLower(string(t))
	return !t.IsLayer() && (strings.HasPrefix(s, "application/vnd.cdf.tekton.") || strings.HasPrefix(s, "application/vnd.tekton.") ||
		s == "application/x-yaml" || s == "application/yaml" || s == "application/json")
}
