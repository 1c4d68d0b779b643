// Package contentstore keeps content that is too large for a ResolutionRequest in an OCI registry, by its digest. Equal content is
// stored once, and a reference identifies exactly one content.
//
// The store keeps each content as a manifest with one layer, which is the unchanged content. The tag of the manifest is made from
// the digest of the content, so that the registry does not collect it as garbage. The reference has the digest of the manifest, so
// that nobody can change its meaning.
//
// The package promises that the result of a read has the requested size and digest, and that a hostile registry cannot make it hold
// more than that in memory. It reads from one repository only, whatever a reference names. It deletes nothing: the registry's own
// retention decides how long content stays.
package contentstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"sluice.dev/internal/limit"
)

const (
	// MediaTypeContent is the media type of the layer with the content.
	MediaTypeContent = "application/vnd.sluice.resource.content.v1"
	// ArtifactType is the artifact type of the manifest.
	ArtifactType = "application/vnd.sluice.resource.v1"

	// mediaTypeEmpty is the media type of an empty config (OCI image-spec, guidance for artifacts).
	mediaTypeEmpty = "application/vnd.oci.empty.v1+json"
	// maxOverhead bounds what a registry may send in addition to content, in bytes: a manifest, a token, the text of an error.
	maxOverhead = 256 << 10
	// maxExchanges bounds the HTTP requests for one content, redirects included.
	maxExchanges = 50
)

var emptyConfig = []byte("{}")

// ErrForeign means that a reference names another repository than the store's.
var ErrForeign = errors.New("the content is not in this store")

// ErrMismatch means that a registry has sent other content than was asked for.
var ErrMismatch = errors.New("the registry does not give the content that was asked for")

// Options say how to reach the registry. The zero value uses HTTPS without credentials and the defaults of the Go library.
type Options struct {
	// Credentials are those of a registry; nil stands for none. See [ParseCredentials].
	Credentials authn.Keychain
	// PlainHTTP allows a registry without TLS. Others on the network can then read everything that is sent, including credentials.
	// Answers are still compared with their digests.
	PlainHTTP bool
}

// Store is a repository of contents. It is safe for concurrent use.
type Store struct {
	repository name.Repository
	options    Options
}

// New returns the store in a repository, given in full as REGISTRY/PATH. It does not contact the registry.
func New(repository string, o Options) (*Store, error) {
	strict := []name.Option{name.StrictValidation}
	if o.PlainHTTP {
		strict = append(strict, name.Insecure)
	}
	r, err := name.NewRepository(repository, strict...)
	if err != nil {
		return nil, fmt.Errorf("%q is no repository of the form REGISTRY/PATH: %w", repository, err)
	}
	if !strings.HasPrefix(repository, r.RegistryStr()+"/") || strings.Contains(repository, "//") {
		return nil, fmt.Errorf("%q is no repository of the form REGISTRY/PATH: it names no registry", repository)
	}
	o.Credentials = cmp.Or(o.Credentials, authn.NewMultiKeychain())
	return &Store{repository: r, options: o}, nil
}

// Digest returns the identity of content: sha256 and its hexadecimal digits.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func descriptorOf(mediaType types.MediaType, data []byte) v1.Descriptor {
	sum := sha256.Sum256(data)
	return v1.Descriptor{MediaType: mediaType, Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}, Size: int64(len(data))}
}

// manifest returns the manifest of a content. Equal contents have equal manifests.
type manifest struct {
	SchemaVersion int             `json:"schemaVersion"`
	MediaType     types.MediaType `json:"mediaType"`
	ArtifactType  string          `json:"artifactType"`
	Config        v1.Descriptor   `json:"config"`
	Layers        []v1.Descriptor `json:"layers"`
}

// raw is a manifest in the form that the registry library accepts.
type raw []byte

// RawManifest implements [remote.Taggable].
func (r raw) RawManifest() ([]byte, error) { return r, nil }

// MediaType returns the type of the manifest.
func (r raw) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// Put stores content and returns the reference to it, REPOSITORY@sha256:DIGITS. It does not send content again that the registry
// has.
func (s *Store) Put(ctx context.Context, data []byte) (string, error) {
	layer := descriptorOf(MediaTypeContent, data)
	text, err := json.Marshal(manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: ArtifactType,
		Config: descriptorOf(mediaTypeEmpty, emptyConfig), Layers: []v1.Descriptor{layer},
	})
	if err != nil {
		return "", err
	}
	pusher, err := remote.NewPusher(s.remoteOptions(maxOverhead)...)
	if err != nil {
		return "", err
	}
	for _, l := range []v1.Layer{static.NewLayer(emptyConfig, mediaTypeEmpty), static.NewLayer(data, MediaTypeContent)} {
		if err := pusher.Upload(ctx, s.repository, l); err != nil {
			return "", s.explainError(err)
		}
	}
	if err := pusher.Push(ctx, s.repository.Tag("sha256-"+layer.Digest.Hex), raw(text)); err != nil {
		return "", s.explainError(err)
	}
	return s.repository.Name() + "@" + Digest(text), nil
}

// Get reads the content of a reference, which must have that size and digest. The error wraps [ErrForeign] or [ErrMismatch] if
// another attempt does not help.
func (s *Store) Get(ctx context.Context, ref, digest string, size int64) ([]byte, error) {
	repository, of, ok := strings.Cut(ref, "@")
	if !ok || repository != s.repository.Name() {
		return nil, fmt.Errorf("%w: %.300q, the store is %s", ErrForeign, ref, s.repository.Name())
	}
	if h, err := v1.NewHash(of); err != nil || h.Algorithm != "sha256" {
		return nil, fmt.Errorf("%w: %.300q has no digest sha256", ErrForeign, ref)
	}
	if size < 0 {
		return nil, fmt.Errorf("%w: its size is %d", ErrMismatch, size)
	}
	puller, err := remote.NewPuller(s.remoteOptions(size + maxOverhead)...)
	if err != nil {
		return nil, err
	}
	layer, err := s.layerOf(ctx, puller, of)
	if err != nil {
		return nil, err
	}
	if layer.Digest.String() != digest || layer.Size != size {
		return nil, fmt.Errorf("%w: the manifest names %s with %d bytes, not %.100s with %d", ErrMismatch, layer.Digest, layer.Size, digest, size)
	}
	return s.readLayer(ctx, puller, digest, size)
}

// layerOf reads the manifest of a content, which must have that digest, and returns its layer.
func (s *Store) layerOf(ctx context.Context, puller *remote.Puller, of string) (v1.Descriptor, error) {
	got, err := puller.Get(ctx, s.repository.Digest(of))
	if err != nil {
		return v1.Descriptor{}, s.explainError(err)
	}
	if Digest(got.Manifest) != of {
		return v1.Descriptor{}, fmt.Errorf("%w: the manifest has the digest %s, not %s", ErrMismatch, Digest(got.Manifest), of)
	}
	var m manifest
	if err := json.NewDecoder(bytes.NewReader(got.Manifest)).Decode(&m); err != nil || len(m.Layers) != 1 || m.Layers[0].MediaType != MediaTypeContent {
		return v1.Descriptor{}, fmt.Errorf("%w: the manifest is not that of a content", ErrMismatch)
	}
	return m.Layers[0], nil
}

// readLayer reads the content itself, which must have that size and digest.
func (s *Store) readLayer(ctx context.Context, puller *remote.Puller, digest string, size int64) ([]byte, error) {
	blob, err := puller.Layer(ctx, s.repository.Digest(digest))
	if err != nil {
		return nil, s.explainError(err)
	}
	body, err := blob.Compressed()
	if err != nil {
		return nil, s.explainError(err)
	}
	defer body.Close() //nolint:errcheck // it was only read
	data, err := limit.ReadAll(body, size)
	if errors.Is(err, limit.ErrTooLarge) {
		return nil, fmt.Errorf("%w: there is more than its %d bytes", ErrMismatch, size)
	}
	if err != nil {
		return nil, s.explainError(err)
	}
	if int64(len(data)) != size || Digest(data) != digest {
		return nil, fmt.Errorf("%w: it has %d bytes and the digest %s, not %d and %s", ErrMismatch, len(data), Digest(data), size, digest)
	}
	return data, nil
}

// remoteOptions returns the options of the registry library for one content.
func (s *Store) remoteOptions(most int64) []remote.Option {
	return []remote.Option{
		remote.WithAuthFromKeychain(s.options.Credentials),
		remote.WithTransport(&bounded{inner: http.DefaultTransport, most: most, left: maxExchanges, plain: s.options.PlainHTTP}),
		// A busy registry gets a little time. The deadline comes from the caller.
		remote.WithRetryBackoff(remote.Backoff{Duration: 200 * time.Millisecond, Factor: 3, Jitter: 0.2, Steps: 3}),
	}
}

// explainError names the store in an error of the registry library, which may be long.
func (s *Store) explainError(err error) error {
	if errors.Is(err, errTooMuch) || errors.Is(err, limit.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	return fmt.Errorf("content store %s: %w", s.repository.Name(), err)
}

// errTooMuch means that the registry sends more, or asks for more, than a content needs.
var errTooMuch = errors.New("the registry sends or asks for more than it may")

// credentials are the credentials of registries by host, in the form of a Docker configuration. They are a keychain for the
// registry library.
type credentials map[string]authn.AuthConfig

// ParseCredentials reads a Docker configuration (config.json, or the Secret type kubernetes.io/dockerconfigjson). It does not run
// credential helpers that the configuration names.
func ParseCredentials(config []byte) (authn.Keychain, error) {
	var c struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		// The text of the error could contain a part of a password.
		return nil, errors.New("the credentials are no Docker configuration with auths")
	}
	out := credentials{}
	for k, a := range c.Auths {
		k = strings.TrimPrefix(strings.TrimPrefix(k, "https://"), "http://")
		host, _, _ := strings.Cut(k, "/")
		out[host] = a
	}
	return out, nil
}

// Resolve implements [authn.Keychain].
func (c credentials) Resolve(target authn.Resource) (authn.Authenticator, error) {
	if a, ok := c[target.RegistryStr()]; ok {
		return authn.FromConfig(a), nil
	}
	return authn.Anonymous, nil
}
