// Package contentstore keeps content that is too large for a ResolutionRequest in an OCI registry, by its digest: equal
// content is there once, and a reference can mean one content only.
//
// A content is a manifest with one layer, the content as it is. The manifest has a tag made of the content's digest, so
// that a registry does not take it for garbage; the reference names the manifest's digest, so that nobody can change what
// it means.
//
// The package promises that what it reads has the size and the digest that were asked for, and that a hostile registry
// makes it hold no more than that. It reads from one repository only, whatever a reference says. It deletes nothing: how
// long content stays is for the registry's own retention to decide.
package contentstore

import (
	"bytes"
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
	// MediaTypeContent is the type of the layer that is the content.
	MediaTypeContent = "application/vnd.sluice.resource.content.v1"
	// ArtifactType is the type of the manifest.
	ArtifactType = "application/vnd.sluice.resource.v1"

	// mediaTypeEmpty is that of a config which says nothing (OCI image-spec, guidance for artifacts).
	mediaTypeEmpty = "application/vnd.oci.empty.v1+json"
	// maxOverhead is how much a registry may send beside content: a manifest, a token, the text of an error.
	maxOverhead = 256 << 10
	// maxExchanges bounds the HTTP requests for one content, redirects included.
	maxExchanges = 50
)

var emptyConfig = []byte("{}")

// ErrForeign says that a reference leads elsewhere than to the store's repository.
var ErrForeign = errors.New("the content is not in this store")

// ErrMismatch says that a registry has given something else than the content that was asked for.
var ErrMismatch = errors.New("the registry does not give the content that was asked for")

// Options say how the registry is reached. The zero value reaches one that wants no credentials, over HTTPS, in the way of
// the Go library.
type Options struct {
	// Credentials are those of a registry; nil stands for none. See [ParseCredentials].
	Credentials authn.Keychain
	// Transport is the way to the registry; nil stands for [http.DefaultTransport].
	Transport http.RoundTripper
	// PlainHTTP: a registry that has no TLS is spoken to all the same. What is sent to it, credentials too, can be read on
	// the way, and what it gives is compared with its digest.
	PlainHTTP bool
}

// Store is a repository of contents. It may be used concurrently.
type Store struct {
	repository name.Repository
	options    Options
}

// New returns the store in a repository, REGISTRY/PATH in full. It does not speak to the registry yet.
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
	if o.Credentials == nil {
		o.Credentials = authn.NewMultiKeychain()
	}
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	return &Store{repository: r, options: o}, nil
}

// Digest is the identity of content: sha256 and its hexadecimal digits.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func descriptor(mediaType types.MediaType, data []byte) v1.Descriptor {
	sum := sha256.Sum256(data)
	return v1.Descriptor{MediaType: mediaType, Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}, Size: int64(len(data))}
}

// manifest is what a manifest of a content says. Equal contents have equal manifests.
type manifest struct {
	SchemaVersion int             `json:"schemaVersion"`
	MediaType     types.MediaType `json:"mediaType"`
	ArtifactType  string          `json:"artifactType"`
	Config        v1.Descriptor   `json:"config"`
	Layers        []v1.Descriptor `json:"layers"`
}

// raw is a manifest as the registry library takes it.
type raw []byte

// RawManifest implements [remote.Taggable].
func (r raw) RawManifest() ([]byte, error) { return r, nil }

// MediaType tells the library the type.
func (r raw) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// Put stores content and returns the reference to it, REPOSITORY@sha256:DIGITS. What is there already is not sent again.
func (s *Store) Put(ctx context.Context, data []byte) (string, error) {
	layer := descriptor(MediaTypeContent, data)
	text, err := json.Marshal(manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: ArtifactType,
		Config: descriptor(mediaTypeEmpty, emptyConfig), Layers: []v1.Descriptor{layer},
	})
	if err != nil {
		return "", err
	}
	pusher, err := remote.NewPusher(s.remote(maxOverhead)...)
	if err != nil {
		return "", err
	}
	for _, l := range []v1.Layer{static.NewLayer(emptyConfig, mediaTypeEmpty), static.NewLayer(data, MediaTypeContent)} {
		if err := pusher.Upload(ctx, s.repository, l); err != nil {
			return "", s.explain(err)
		}
	}
	if err := pusher.Push(ctx, s.repository.Tag("sha256-"+layer.Digest.Hex), raw(text)); err != nil {
		return "", s.explain(err)
	}
	return s.repository.Name() + "@" + Digest(text), nil
}

// Get reads the content that a reference means, which must have that size and digest. The error wraps [ErrForeign] or
// [ErrMismatch] where trying again does not help.
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
	puller, err := remote.NewPuller(s.remote(size + maxOverhead)...)
	if err != nil {
		return nil, err
	}
	got, err := puller.Get(ctx, s.repository.Digest(of))
	if err != nil {
		return nil, s.explain(err)
	}
	if Digest(got.Manifest) != of {
		return nil, fmt.Errorf("%w: the manifest has the digest %s, not %s", ErrMismatch, Digest(got.Manifest), of)
	}
	var m manifest
	if err := json.NewDecoder(bytes.NewReader(got.Manifest)).Decode(&m); err != nil || len(m.Layers) != 1 || m.Layers[0].MediaType != MediaTypeContent {
		return nil, fmt.Errorf("%w: the manifest is not that of a content", ErrMismatch)
	}
	layer := m.Layers[0]
	if layer.Digest.String() != digest || layer.Size != size {
		return nil, fmt.Errorf("%w: the manifest names %s with %d bytes, not %.100s with %d", ErrMismatch, layer.Digest, layer.Size, digest, size)
	}
	blob, err := puller.Layer(ctx, s.repository.Digest(digest))
	if err != nil {
		return nil, s.explain(err)
	}
	body, err := blob.Compressed()
	if err != nil {
		return nil, s.explain(err)
	}
	defer body.Close() //nolint:errcheck // it was only read
	data, err := limit.ReadAll(body, size)
	if errors.Is(err, limit.ErrTooLarge) {
		return nil, fmt.Errorf("%w: there is more than its %d bytes", ErrMismatch, size)
	}
	if err != nil {
		return nil, s.explain(err)
	}
	if int64(len(data)) != size || Digest(data) != digest {
		return nil, fmt.Errorf("%w: it has %d bytes and the digest %s, not %d and %s", ErrMismatch, len(data), Digest(data), size, digest)
	}
	return data, nil
}

// remote are the options of the registry library for one content.
func (s *Store) remote(most int64) []remote.Option {
	return []remote.Option{
		remote.WithAuthFromKeychain(s.options.Credentials),
		remote.WithTransport(&bounded{inner: s.options.Transport, most: most, left: maxExchanges, plain: s.options.PlainHTTP}),
		// A busy registry gets a little time; the deadline is the caller's.
		remote.WithRetryBackoff(remote.Backoff{Duration: 200 * time.Millisecond, Factor: 3, Jitter: 0.2, Steps: 3}),
	}
}

// explain names the store in an error of the registry library, which may be long.
func (s *Store) explain(err error) error {
	if errors.Is(err, errTooMuch) || errors.Is(err, limit.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	return fmt.Errorf("content store %s: %w", s.repository.Name(), err)
}

// errTooMuch says that the registry sends more, or asks for more, than a content needs.
var errTooMuch = errors.New("the registry sends or asks for more than it may")

// credentials are those of registries by host, in the form of a Docker configuration. They are a keychain of the registry
// library.
type credentials map[string]authn.AuthConfig

// ParseCredentials reads a Docker configuration (config.json, or the Secret type kubernetes.io/dockerconfigjson). Helpers
// that it names are not run.
func ParseCredentials(config []byte) (authn.Keychain, error) {
	var c struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		// The text of the error could have a part of a password.
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
