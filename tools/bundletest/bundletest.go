// Package bundletest makes Tekton bundles, good and bad ones, and pushes them to a registry, for tests and benchmarks. It promises
// nothing about real registries.
package bundletest

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Layer is a layer of a bundle. The zero value of MediaType stands for a gzipped OCI layer.
type Layer struct {
	Name, Kind, APIVersion string
	// Blob is the content in the registry, made by [Tar] or [Gzip], or raw bytes.
	Blob      []byte
	MediaType types.MediaType
	// Annotations, if not nil, replace those that come from Name, Kind and APIVersion.
	Annotations map[string]string
	// Size is the size of the blob in the manifest; 0 stands for the true size.
	Size int64
	// Digest is the digest of the blob in the manifest; zero stands for the true digest.
	Digest v1.Hash
}

// Task returns a layer as Tekton's own tools make it: a gzipped tar with the resource.
func Task(taskName, yaml string) Layer {
	return Layer{Name: taskName, Kind: "task", APIVersion: "v1", Blob: Gzip(Tar(File{taskName, []byte(yaml)}))}
}

// File is a file of a tar.
type File struct {
	Name string
	Data []byte
}

// Tar returns a tar with these files.
// The files have mode 0600 and no time. A name may be one that no extractor should follow, such as ../x.
func Tar(files ...File) []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		// Writing to memory does not fail.
		_ = w.WriteHeader(&tar.Header{Name: f.Name, Mode: 0o600, Size: int64(len(f.Data)), Typeflag: tar.TypeReg})
		_, _ = w.Write(f.Data)
	}
	_ = w.Close()
	return buf.Bytes()
}

// Gzip compresses data.
func Gzip(data []byte) []byte {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, _ = w.Write(data)
	_ = w.Close()
	return buf.Bytes()
}

// HashOf returns the digest of data.
func HashOf(data []byte) v1.Hash {
	sum := sha256.Sum256(data)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}

// Registry is a repository for bundles.
type Registry struct {
	// Repo is HOST[:PORT]/PATH.
	Repo name.Repository
	// Options are the options to reach it.
	Options []remote.Option
}

// NewRegistry returns a repository in the registry at host, reached through t. The registry has TLS.
// path is that of the repository, such as catalog/tasks. The registry need not run yet.
func NewRegistry(host, path string, t http.RoundTripper, opts ...remote.Option) (*Registry, error) {
	repo, err := name.NewRepository(host + "/" + path)
	if err != nil {
		return nil, err
	}
	return &Registry{Repo: repo, Options: append([]remote.Option{remote.WithTransport(t)}, opts...)}, nil
}

// taggable is a raw manifest.
type taggable struct {
	raw       []byte
	mediaType types.MediaType
}

// RawManifest implements remote.Taggable.
func (t taggable) RawManifest() ([]byte, error) { return t.raw, nil }

// MediaType returns the type for the registry.
func (t taggable) MediaType() (types.MediaType, error) { return t.mediaType, nil }

// Push puts a bundle with these layers under a tag and returns its digest.
// A layer with a digest of its own is not uploaded, so that the manifest names a blob which the registry lacks.
func (r *Registry) Push(ctx context.Context, tag string, layers ...Layer) (v1.Hash, error) {
	config := []byte("{}")
	if err := r.PushBlob(ctx, config); err != nil {
		return v1.Hash{}, err
	}
	m := v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: v1.Descriptor{MediaType: types.OCIConfigJSON, Digest: HashOf(config), Size: int64(len(config))},
		Layers: []v1.Descriptor{},
	}
	for _, l := range layers {
		if l.Digest == (v1.Hash{}) {
			l.Digest = HashOf(l.Blob)
			if err := r.PushBlob(ctx, l.Blob); err != nil {
				return v1.Hash{}, err
			}
		}
		m.Layers = append(m.Layers, l.descriptorOf())
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return v1.Hash{}, err
	}
	return r.PushManifest(ctx, tag, raw, types.OCIManifestSchema1)
}

// descriptorOf is what the manifest says of a layer. Media type, size and annotations may be false on purpose, see
// [Layer].
func (l Layer) descriptorOf() v1.Descriptor {
	d := v1.Descriptor{MediaType: l.MediaType, Digest: l.Digest, Size: l.Size, Annotations: l.Annotations}
	d.MediaType = cmp.Or(d.MediaType, types.OCILayer)
	d.Size = cmp.Or(d.Size, int64(len(l.Blob)))
	if d.Annotations == nil {
		d.Annotations = map[string]string{
			"dev.tekton.image.name": l.Name, "dev.tekton.image.kind": l.Kind, "dev.tekton.image.apiVersion": l.APIVersion,
		}
	}
	return d
}

// PushManifest pushes an unchanged manifest under a tag and returns its digest.
func (r *Registry) PushManifest(ctx context.Context, tag string, raw []byte, mediaType types.MediaType) (v1.Hash, error) {
	err := remote.Put(r.Repo.Tag(tag), taggable{raw, mediaType}, append(r.Options, remote.WithContext(ctx))...)
	return HashOf(raw), err
}

// PushIndex puts an index of images that are in the registry already.
// Whether the images are there is not checked.
func (r *Registry) PushIndex(ctx context.Context, tag string, images ...v1.Descriptor) (v1.Hash, error) {
	raw, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: images})
	if err != nil {
		return v1.Hash{}, err
	}
	return r.PushManifest(ctx, tag, raw, types.OCIImageIndex)
}

// Refer pushes an image that refers to the subject, with one layer of that type, as cosign does with a bundle in Sigstore's format.
// It returns the descriptor of that image in a list of referrers.
// The registry need not know the subject. A real one lists the image among the referrers of the subject from then on.
func (r *Registry) Refer(ctx context.Context, subject v1.Hash, artifactType, predicate string, data []byte) (v1.Descriptor, error) {
	config := []byte("{}")
	for _, b := range [][]byte{config, data} {
		if err := r.PushBlob(ctx, b); err != nil {
			return v1.Descriptor{}, err
		}
	}
	m := map[string]any{
		"schemaVersion": 2, "mediaType": types.OCIManifestSchema1, "artifactType": artifactType,
		"config":      v1.Descriptor{MediaType: "application/vnd.oci.empty.v1+json", Digest: HashOf(config), Size: int64(len(config))},
		"layers":      []v1.Descriptor{{MediaType: types.MediaType(artifactType), Digest: HashOf(data), Size: int64(len(data))}},
		"subject":     v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: subject, Size: 1},
		"annotations": map[string]string{"dev.sigstore.bundle.predicateType": predicate},
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return v1.Descriptor{}, err
	}
	d := v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: HashOf(raw), Size: int64(len(raw)), ArtifactType: artifactType}
	return d, remote.Put(r.Repo.Digest(d.Digest.String()), taggable{raw, types.OCIManifestSchema1}, append(r.Options, remote.WithContext(ctx))...)
}

// PushBlob puts a blob.
func (r *Registry) PushBlob(ctx context.Context, data []byte) error {
	return remote.WriteLayer(r.Repo, static.NewLayer(data, types.OCILayer), append(r.Options, remote.WithContext(ctx))...)
}

// Sign pushes cosign signatures of an image, one by each key. image is the digest in the payload; pass the digest of the image for
// good signatures.
// The signatures are layers of an image with the tag sha256-DIGEST.sig, where cosign looks for them.
func (r *Registry) Sign(ctx context.Context, digest, image v1.Hash, keys ...crypto.Signer) error {
	payload := fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":%q},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`,
		r.Repo.Name(), image.String())
	var layers []Layer
	for _, k := range keys {
		sig, err := SignMessage(payload, k)
		if err != nil {
			return err
		}
		layers = append(layers, Layer{
			Blob: payload, MediaType: "application/vnd.dev.cosign.simplesigning.v1+json",
			Annotations: map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(sig)},
		})
	}
	_, err := r.Push(ctx, digest.Algorithm+"-"+digest.Hex+".sig", layers...)
	return err
}

// SignMessage signs as cosign does: SHA-256 for ECDSA and RSA, the message itself for Ed25519.
// Other kinds of keys fail when they sign.
func SignMessage(message []byte, key crypto.Signer) ([]byte, error) {
	if _, ok := key.Public().(ed25519.PublicKey); ok {
		return key.Sign(rand.Reader, message, crypto.Hash(0))
	}
	sum := sha256.Sum256(message)
	return key.Sign(rand.Reader, sum[:], crypto.SHA256)
}
