// Package resolve is the framework of resolvers. A resolver fetches a Kubernetes resource from its source: a git repository, an OCI
// registry, another namespace, a hub or a web server.
//
// A resolver declares its parameters in a [Spec] and fetches in Resolve. The framework does the rest: it validates parameters,
// fills in defaults, retries after transient errors, enforces deadlines and limits, shares equal requests and caches results.
// Kinds, names and reasons are those of Tekton's resolution.tekton.dev (TEP-0060).
//
// The package knows neither Kubernetes clients nor ResolutionRequest objects, so resolvers also run from a command line and in
// tests. Package resolve/resolvetest tests a resolver against the rules of this package.
package resolve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Resolver fetches resources from one kind of source. Calls of its methods may be concurrent.
type Resolver interface {
	// Spec describes the resolver. It always returns the same description.
	Spec() Spec
	// Resolve fetches the resource of the request. The parameters are valid and complete: declared, of the right type, with
	// defaults. Resolve returns soon after ctx is done, and leaves nothing behind. An error that is not an [*Error] counts as
	// permanent. The framework owns the returned resource. Resolve must neither keep nor change the request.
	Resolve(ctx context.Context, r *Request) (*Resource, error)
}

// Spec describes a resolver.
type Spec struct {
	// Name selects the resolver, as the value of the label resolution.tekton.dev/type; a DNS label.
	Name string
	// Aliases are other names that select it.
	Aliases []string
	// Doc says in one sentence what the resolver fetches, and from where.
	Doc string
	// ConfigMap is the name of the ConfigMap with its configuration; empty if it has none.
	ConfigMap string
	// Config declares the keys of the ConfigMap.
	Config []Key
	// Params declares the parameters, in the order of the documentation.
	Params []Param
	// Validate checks parameters together, after each is valid on its own; nil accepts all. It returns all errors.
	Validate func(r *Request) []error
	// Scope says who may share the result of the request: requests with different scopes never share a cache entry or a fetch. Nil stands
	// for [NamespaceScope]. Content that all requesters may read has [PublicScope]. Content that needed a credential must have a scope of
	// its own for requests with that credential.
	Scope func(r *Request) string
	// Host returns the remote of a request, as host or host:port, so that the framework can limit fetches from one remote. It is
	// nil, or returns "", if there is none.
	Host func(r *Request) string
	// Memory returns the approximate number of bytes that one fetch holds in memory, for content of at most limit bytes. Nil stands
	// for four times the limit. If memory is scarce, fetches wait for each other by this number.
	Memory func(limit int64) int64
	// NamedConfigs: the ConfigMap may have named configurations as well, with keys NAME.KEY. A parameter chooses one; see
	// [Config.With].
	NamedConfigs bool
	// Undeclared: requests may have parameters, and the ConfigMap keys, that Params and Config do not declare. They arrive as they
	// were given, of any type, and need checks of the resolver's own. Without it, such a parameter or key has no effect.
	Undeclared bool
}

// PublicScope is the scope of content that all requesters may read.
const PublicScope = "public"

// NamespaceScope lets requests of the same namespace share.
func NamespaceScope(r *Request) string { return "namespace/" + r.Namespace }

// Type is the type of a parameter's value.
type Type string

// Types of parameters, as in Tekton's ParamValue.
const (
	String Type = "string"
	Array  Type = "array"
	Object Type = "object"
)

// Param declares a parameter.
type Param struct {
	Name string
	// Aliases are other names, from TEP-0060 or older clients. Using two names of one parameter is an error.
	Aliases []string
	// Type is [String] if empty.
	Type Type
	// Required: the request must have the parameter, unless the configuration has a default. An empty string counts as missing.
	Required bool
	// Default is the value if neither the request nor the configuration has one.
	Default string
	// DefaultKey is the key of the configuration that has the default.
	DefaultKey string
	// Allowed lists the allowed values; empty allows all.
	Allowed []string
	// MaxLength bounds the value's length in bytes; 0 stands for 4,096.
	MaxLength int
	// Check checks one value; nil accepts all.
	Check func(value string) error
	// Doc is one sentence.
	Doc string
}

// Key declares a key of a resolver's configuration.
type Key struct {
	Name string
	// Default is the value if the ConfigMap has none.
	Default string
	// Check checks a value; nil accepts all.
	Check func(value string) error
	// Wrong decides about a value that Check refuses.
	Wrong Wrong
	// Doc is one sentence.
	Doc string
}

// Wrong decides about a wrong value of a key of the configuration that has no last good value.
type Wrong int

const (
	// TakesDefault uses the default.
	TakesDefault Wrong = iota
	// Closes stops all resolution: the key restricts what is allowed, and its default may allow more than the operator wants.
	Closes
)

// Value is the value of a parameter: one of its fields, by its type.
type Value struct {
	Type   Type
	String string
	Array  []string
	Object map[string]string
}

// Request is the input of a resolver.
type Request struct {
	// Namespace and Name identify the ResolutionRequest; Name is empty on a command line.
	Namespace, Name string
	// UID is the UID of the ResolutionRequest; empty on a command line.
	UID string
	// Params are the parameters by their declared names.
	Params map[string]Value
	// URL is the request's spec.url, which most resolvers do not use.
	URL string
	// Config is the resolver's configuration with defaults.
	Config Config
	// Identity is the user on whose behalf the request is made, in the form system:serviceaccount:NAMESPACE:NAME; empty if it is
	// not known. It comes from the owner of the request, never from a parameter.
	Identity string
	// Secrets reads credentials; nil if there are none.
	Secrets Secrets
	// NotBefore is the earliest time at which a branch or a tag, or anything else that can move, must have been read to serve this
	// request. Zero allows a recent read. A resolver that keeps nothing between requests can ignore it.
	NotBefore time.Time
	// MaxBytes bounds the content. A resolver reads no more than that, and returns [TooLarge] if there is more. 0 stands for
	// [DefaultMaxBytes].
	MaxBytes int64

	warnings []string
}

// maxWarnings bounds the number of warnings.
const maxWarnings = 10

// Warn warns the requester of something in the request that has no effect. Call it only in [Spec.Validate].
func (r *Request) Warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

// withWarnings returns the resource with the warnings in an annotation, after which come those of the resolver. It does not change the cached resource.
func (r *Request) withWarnings(res *Resource) *Resource {
	if len(r.warnings) == 0 {
		return res
	}
	list := r.warnings
	if more := len(list) - maxWarnings; more > 0 {
		list = append(slices.Clone(list[:maxWarnings]), fmt.Sprintf("and %d more", more))
	}
	out := *res
	out.Annotations = maps.Clone(res.Annotations)
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	if own := out.Annotations[AnnotationWarning]; own != "" {
		list = append(slices.Clip(list), own)
	}
	out.Annotations[AnnotationWarning] = oneLine(strings.Join(list, "; "))
	return &out
}

// DefaultMaxBytes is the content that fits into a status: with base64 and the rest, the object stays below the 1.5 MiB that etcd
// accepts.
const DefaultMaxBytes = 1 << 20

// Limit returns MaxBytes with its default.
func (r *Request) Limit() int64 {
	if r.MaxBytes > 0 {
		return r.MaxBytes
	}
	return DefaultMaxBytes
}

// Get returns the string parameter of that declared name; empty if the request does not have it.
func (r *Request) Get(name string) string { return r.Params[name].String }

// Secrets reads Kubernetes Secrets with the rights of the resolver.
type Secrets interface {
	// Secret returns the data of a Secret, and [SecretHosts] if the Secret has that annotation. Errors are of type [*Error] and say
	// what to do, for example which RoleBinding is missing. See [Request.SecretFor].
	Secret(ctx context.Context, namespace, name string) (map[string][]byte, error)
}

// Config is a configuration by key.
type Config map[string]string

// With returns the configuration in which keys with the prefix NAME. replace those without, as Tekton's configKey chooses a named
// configuration. If own returns true for a key, a named configuration does not inherit it.
func (c Config) With(name string, own func(key string) bool) Config {
	out := Config{}
	for k, v := range c {
		if !own(k) {
			out[k] = v
		}
	}
	for _, k := range slices.Sorted(maps.Keys(c)) {
		if len(k) > len(name)+1 && k[:len(name)] == name && k[len(name)] == '.' {
			out[k[len(name)+1:]] = c[k]
		}
	}
	return out
}

// Resource is the result of a fetch.
type Resource struct {
	// Data is the unchanged content.
	Data []byte
	// Annotations go to the status of the request, with their full keys.
	Annotations map[string]string
	// Source is the origin of the content.
	Source Source
	// Signers are the IDs of the keys whose signature over the origin the resolver has verified, as in package resolve/verify; nil
	// if it has verified none.
	Signers []string
	// Immutable: the same parameters always give the same content, because they name a commit or a digest.
	Immutable bool
	// LookedAt is when the resolver read the branch, tag or other thing that can move; zero stands for the begin of its fetch. The
	// framework reports it in [AnnotationLookedAt] if the resource is not immutable.
	LookedAt time.Time
	// Anonymous: reading it needed no credential. The framework fetches other resources again after [KeyAccessTTL], unless their scope is
	// [PublicScope], because a requester may have lost the right to read them.
	Anonymous bool
	// Expires is when the framework must fetch it again in any case; zero sets no such time.
	Expires time.Time
}

// Source is the origin of a resource, refSource in the status of a request (SLSA provenance).
type Source struct {
	// URI identifies the place, for example git+https://example.com/repo.git.
	URI string
	// Digest identifies the content: hexadecimal digits by algorithm, for example sha1 for a commit.
	Digest map[string]string
	// EntryPoint is the path or name inside the place; empty if there is none.
	EntryPoint string
}

// SHA256 returns the digest of content, for [Source].
func SHA256(data []byte) map[string]string {
	sum := sha256.Sum256(data)
	return map[string]string{"sha256": hex.EncodeToString(sum[:])}
}

// Annotations that every resolver may set.
const (
	AnnotationPrefix      = "resolution.tekton.dev/"
	AnnotationContentType = AnnotationPrefix + "content-type"
	ContentTypeYAML       = "application/x-yaml"
	// AnnotationLookedAt has the time when the remote was asked, in RFC 3339. The result does not include later pushes. The
	// framework sets it on results that can change.
	AnnotationLookedAt = "sluice.dev/looked-at"
	// AnnotationRevisions has the names of the revision of a resource in git, separated by spaces, as the server knew them at that
	// time: HEAD main refs/heads/main. A name that also means something else is not there.
	AnnotationRevisions = "sluice.dev/revisions" // as in package api/resolution
	// AnnotationWarning names parts of the request that have no effect; see [Request.Warn]. The framework sets it.
	AnnotationWarning = "sluice.dev/warning"
)

// Clock provides the time; tests have their own.
type Clock interface {
	Now() time.Time
	// After returns a channel that receives the time after d.
	After(d time.Duration) <-chan time.Time
}
