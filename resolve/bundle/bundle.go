// Package bundle resolves Tekton bundles: OCI images whose layers hold one Kubernetes resource each. On request it resolves whole
// artifacts.
//
// It promises to read a registry within bounds that do not depend on the registry's answers. It limits counts and sizes of
// manifests and layers, compressed and not, while it reads them. It fetches only the requested layer, and the result has the
// requested digest. Credentials go only to their own registry and its token server. They go over plain HTTP only if the operator
// allows it for that registry. If a policy of package resolve/verify demands cosign signatures, the package verifies them against
// the digest of the image that it read.
//
// Package resolve/netguard decides which addresses can be reached. The package does not cache: the framework does.
package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"sluice.dev/resolve"
	"sluice.dev/resolve/netguard"
	"sluice.dev/resolve/verify"
)

// Names of the parameters.
const (
	ParamBundle         = "bundle"
	ParamName           = "name"
	ParamKind           = "kind"
	ParamSecret         = "secret"
	ParamServiceAccount = "serviceAccount"
	ParamSigner         = "signer"
	ParamAll            = "all"
)

// Keys of the ConfigMap bundleresolver-config that this package reads.
const (
	KeyServiceAccount = "default-service-account"
	KeyKind           = "default-kind"
	KeyPlain          = "plain-http-registries"
	KeyPlainPrivate   = "allow-plain-http-private"
)

// Annotations of a layer of a bundle. The status of a request has them under the prefix resolution.tekton.dev/.
const (
	AnnotationName       = "dev.tekton.image.name"
	AnnotationKind       = "dev.tekton.image.kind"
	AnnotationAPIVersion = "dev.tekton.image.apiVersion"
)

// SignerCosign is the value of the parameter signer that asks for a cosign signature.
const SignerCosign = "cosign"

// ServiceAccounts reads ServiceAccounts with the rights of the resolver.
type ServiceAccounts interface {
	// ImagePullSecrets returns the names of a ServiceAccount's imagePullSecrets, which are in its namespace. Errors are of type
	// [*resolve.Error]. The reason is NotFound if there is no such ServiceAccount. It is AccessDenied, with the remedy, if the
	// resolver cannot read it.
	ImagePullSecrets(ctx context.Context, namespace, name string) ([]string, error)
}

// limits bound reads from a registry.
type limits struct {
	// Compressed is the size of a layer in the registry, in bytes.
	Compressed int64
	// Content is the size of a resource, in bytes.
	Content int64
	// Layers is the number of layers.
	Layers int
}

// maxManifest bounds a manifest or an index, in bytes.
const maxManifest = 1 << 20

// bundleLimits are the limits of a bundle; as in Tekton, it has at most 20 layers.
var bundleLimits = limits{Compressed: 4 << 20, Content: 4 << 20, Layers: 20}

// Options are the options of a resolver. The zero value is ready for use.
type Options struct {
	// Network has the addresses, proxies and authorities that the process allows in addition to the configuration. The zero value
	// allows only public and private addresses.
	Network netguard.Options
	// Accounts enables the parameter serviceAccount. Without it, a request that names one fails, and the configuration's default one
	// counts as having no secrets.
	Accounts ServiceAccounts
	// Policies returns the current policies. The resolver calls it for each request; it may return nil. nil stands for no policies.
	Policies func() *verify.Policies
	// Clock is for dates in Retry-After; nil ignores them.
	Clock resolve.Clock

	// transport replaces the guards of the network in tests.
	transport http.RoundTripper
}

// Resolver resolves bundles. [New] makes it.
type Resolver struct {
	options Options
	guards  *netguard.Pool
	limits  limits
	// artifact: it resolves whole artifacts; see [NewArtifact].
	artifact bool
}

var _ resolve.Resolver = (*Resolver)(nil)

// New returns a resolver of bundles.
func New(o Options) *Resolver {
	if o.Policies == nil {
		o.Policies = func() *verify.Policies { return nil }
	}
	return &Resolver{options: o, guards: netguard.NewPool(o.Network), limits: bundleLimits}
}

// Close closes idle connections.
func (r *Resolver) Close() error {
	r.guards.Close()
	return nil
}

// Spec implements [resolve.Resolver].
func (r *Resolver) Spec() resolve.Spec {
	spec := resolve.Spec{
		Name:      "bundles",
		Aliases:   []string{"bundle"},
		Doc:       "Fetches a resource from a Tekton bundle, an OCI image in a registry.",
		ConfigMap: "bundleresolver-config",
		Config: append([]resolve.Key{
			{Name: KeyServiceAccount, Default: "default", Check: checkObjectName, Doc: "The ServiceAccount whose imagePullSecrets are used where a request names none."},
			{Name: KeyKind, Default: "task", Doc: "The kind of the resource where a request names none."},
			{Name: KeyPlain, Check: resolve.Parses(resolve.ParseHosts), Doc: "Registries, as host or host:port, separated by commas. If one has no TLS, the resolver uses it without TLS. Others on the network can read the credentials."},
			{Name: KeyPlainPrivate, Default: "false", Check: resolve.CheckBool, Doc: "Whether the same holds for registries at a private or loopback address, localhost:PORT or a name in .localhost, as in Tekton."},
		}, netguard.Keys(true, false)...),
		Params: []resolve.Param{
			{
				Name: ParamBundle, Aliases: []string{"image_url"}, Required: true, MaxLength: 1024, Check: checkReference,
				Doc: "The image, by tag or by digest: registry.example.com/team/bundle:1.0, registry.example.com/team/bundle@sha256:….",
			},
			{Name: ParamName, MaxLength: 253, Doc: "The name of the resource in the bundle. Required without all."},
			{Name: ParamKind, Required: true, DefaultKey: KeyKind, MaxLength: 63, Doc: "The kind of the resource, in any case: task, Pipeline."},
			{Name: ParamSecret, MaxLength: 253, Check: checkObjectName, Doc: "A Secret with the credentials of the registry, of type kubernetes.io/dockerconfigjson, in the namespace of the request. The resolver uses it instead of the ServiceAccount's."},
			{Name: ParamServiceAccount, DefaultKey: KeyServiceAccount, MaxLength: 253, Check: checkObjectName, Doc: "The ServiceAccount in the namespace of the request whose imagePullSecrets are used."},
			{Name: ParamSigner, Allowed: []string{SignerCosign}, Doc: "With cosign, the bundle must be signed by a key or an identity that the operator trusts for it."},
			{
				Name: ParamAll, Default: "false", Allowed: []string{"true", "false"},
				Doc: "With true, Sluice fetches all resources of the image, as a stream of YAML. The image is a Tekton bundle, an artifact of Flux, or an image whose layers are tars with YAML and JSON files; of a Helm chart, Sluice reads `crds/`. Not with name.",
			},
		},
		Validate: func(r *resolve.Request) []error {
			switch all := r.Get(ParamAll) == "true"; {
			case all && r.Get(ParamName) != "":
				return []error{errors.New("parameter name cannot be given where parameter all is true")}
			case !all && r.Get(ParamName) == "":
				return []error{errors.New("parameter name is missing")}
			}
			return nil
		},
		Host: func(r *resolve.Request) string {
			ref, err := parseReference(r.Get(ParamBundle))
			if err != nil {
				return ""
			}
			return strings.ToLower(ref.Context().RegistryStr())
		},
	}
	if r.artifact {
		return artifactSpec(spec)
	}
	return spec
}

func checkReference(s string) error {
	_, err := parseReference(s)
	return err
}

// repository matches the names of repositories that the distribution specification allows. The registry library accepts dots as
// well, by which a path leaves the registry's own part of a host.
var repository = regexp.MustCompile(`\A[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*\z`)

// parseReference reads the name of an image. If it has both a tag and a digest, the digest counts.
func parseReference(s string, opts ...name.Option) (name.Reference, error) {
	s = strings.TrimPrefix(s, "docker://")
	if strings.Contains(s, "://") {
		return nil, errors.New("it is a URL; the name of an image is wanted, such as registry.example.com/team/bundle:1.0")
	}
	ref, err := name.ParseReference(s, opts...)
	if err != nil {
		return nil, errors.New("it is not the name of an image, such as registry.example.com/team/bundle:1.0")
	}
	if !repository.MatchString(ref.Context().RepositoryStr()) {
		return nil, errors.New("its path is not one that a registry has")
	}
	if d, ok := ref.(name.Digest); ok && !strings.HasPrefix(d.DigestStr(), "sha256:") {
		return nil, errors.New("only sha256 digests are supported")
	}
	return ref, nil
}

func checkObjectName(s string) error {
	if s == "" || len(s) > 253 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
		return errors.New("it is not the name of a Kubernetes object")
	}
	return nil
}

// Resolve implements [resolve.Resolver].
func (r *Resolver) Resolve(ctx context.Context, req *resolve.Request) (*resolve.Resource, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends goroutines that the registry library may have left running
	res, err := r.resolveBundle(ctx, req)
	if err != nil {
		failure := judgeError(ctx, err)
		what := "bundle "
		if r.artifact {
			what = "artifact "
		}
		failure.Msg = what + req.Get(ParamBundle) + ": " + failure.Msg
		return nil, failure
	}
	return res, nil
}

// openNamed reads the manifest of the image that the request names.
func (r *Resolver) openNamed(ctx context.Context, req *resolve.Request) (*image, error) {
	plain := plainRegistries(req)
	ref, err := referenceWith(req.Get(ParamBundle), plain)
	if err != nil {
		return nil, &resolve.Error{Reason: resolve.ReasonInvalid, Msg: err.Error()}
	}
	transport, err := r.transportFor(req.Config)
	if err != nil {
		return nil, resolve.Errorf(resolve.ReasonFailed, "the configuration is wrong: %w", err)
	}
	way := &guard{inner: transport, plain: plain, max: max(maxManifest, r.limits.Compressed), clock: r.options.Clock}
	creds, err := r.credentialsFor(ctx, req)
	if err != nil {
		return nil, err
	}
	im, err := r.openImage(ctx, ref, creds, way)
	if err != nil {
		failure := judgeError(ctx, err)
		if note := cmp.Or(creds.note, creds.lackFor(ref.Context())); note != "" && failure.Reason == resolve.ReasonDenied {
			failure.Msg += "; " + note
		}
		return nil, failure
	}
	_, im.pinned = ref.(name.Digest)
	im.anonymous = len(creds.entries) == 0
	return im, nil
}

// resolveBundle returns one layer of a bundle, or all resources of the image. It finds the layer in the manifest and checks the
// signatures before it fetches the layer.
func (r *Resolver) resolveBundle(ctx context.Context, req *resolve.Request) (*resolve.Resource, error) {
	im, err := r.openNamed(ctx, req)
	if err != nil {
		return nil, err
	}
	if r.artifact || req.Get(ParamAll) == "true" {
		return r.resolveWhole(ctx, req, im)
	}
	im.limits.Content = min(im.limits.Content, req.Limit())
	im.limits.Compressed = min(im.limits.Compressed, req.Limit()+tarExtra)
	layer, err := im.findLayer(req.Get(ParamKind), req.Get(ParamName))
	if err != nil {
		return nil, err
	}
	signers, err := r.imageSigners(ctx, im, req.Get(ParamSigner) != "")
	if err != nil {
		return nil, err
	}
	blob, err := im.fetchBlob(ctx, layer, im.limits.Compressed)
	if err != nil {
		return nil, err
	}
	data, err := layerContent(blob, im.limits.Content)
	if err != nil {
		return nil, err
	}
	digest := im.digest.String()
	return &resolve.Resource{
		Data: data,
		Annotations: map[string]string{
			resolve.AnnotationPrefix + AnnotationKind:       layer.Annotations[AnnotationKind],
			resolve.AnnotationPrefix + AnnotationName:       layer.Annotations[AnnotationName],
			resolve.AnnotationPrefix + AnnotationAPIVersion: layer.Annotations[AnnotationAPIVersion],
			resolve.AnnotationContentType:                   resolve.ContentTypeYAML,
			// TEP-0060's own names.
			"digest":       digest,
			"content-type": resolve.ContentTypeYAML,
		},
		Source: resolve.Source{
			URI:        im.repo.Name(),
			Digest:     map[string]string{im.digest.Algorithm: im.digest.Hex},
			EntryPoint: req.Get(ParamName),
		},
		Signers:   signers,
		Immutable: im.pinned,
		Anonymous: im.anonymous,
	}, nil
}

// referenceWith parses the name of the image again, so that the registry library uses plain HTTP if that is allowed.
func referenceWith(s string, plain map[string]bool) (name.Reference, error) {
	ref, err := parseReference(s)
	if err != nil {
		return nil, err
	}
	if plain[strings.ToLower(ref.Context().RegistryStr())] {
		return parseReference(s, name.Insecure)
	}
	return ref, nil
}

// plainRegistries returns the registries for which the configuration allows plain HTTP.
func plainRegistries(req *resolve.Request) map[string]bool {
	c, out := req.Config, map[string]bool{}
	for _, h := range resolve.SplitList(c[KeyPlain]) {
		out[strings.ToLower(h)] = true
	}
	if ref, err := parseReference(req.Get(ParamBundle)); err == nil {
		host := strings.ToLower(ref.Context().RegistryStr())
		hosts, err := resolve.ParseHosts(c[KeyPlain])
		// The registry library knows which names are local. The guard of the network judges the addresses that they resolve to.
		if err == nil && hosts.Has(host) || c[KeyPlainPrivate] == "true" && ref.Context().Scheme() == "http" {
			out[host] = true
		}
	}
	return out
}

// transportFor returns the transport to registries under a configuration.
func (r *Resolver) transportFor(c resolve.Config) (http.RoundTripper, error) {
	if r.options.transport != nil {
		return r.options.transport, nil
	}
	g, err := r.guards.Get(c, false)
	if err != nil {
		return nil, err
	}
	return g.RoundTripper(true), nil
}

func failf(format string, args ...any) error {
	return resolve.Errorf(resolve.ReasonFailed, format, args...)
}

func tooLargef(format string, args ...any) error {
	return &resolve.Error{Reason: resolve.ReasonTooLarge, Msg: fmt.Sprintf(format, args...)}
}
