// Package resolve is the framework of resolvers: code that fetches a Kubernetes resource from where it lives, which may be
// a git repository, an OCI registry, another namespace, a hub or a web server.
//
// A resolver declares its parameters in a [Spec] and fetches in Resolve; all else is done here: validation of
// parameters, defaults, retries of transient errors, deadlines, sharing of equal requests, caching and limits. The
// kinds, names and reasons are those of Tekton's resolution.tekton.dev (TEP-0060).
//
// The package knows neither Kubernetes clients nor ResolutionRequest objects, so that resolvers also run from a command
// line and in tests. Package resolve/resolvetest holds every resolver to the rules that are written here.
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

// Resolver fetches resources from one sort of place. Its methods may be called concurrently.
type Resolver interface {
	// Spec describes the resolver. It always returns the same.
	Spec() Spec
	// Resolve fetches what the request asks for. The parameters are valid and complete: declared, of their type, with
	// defaults filled in. It returns soon after ctx is done, and leaves nothing behind. An error that is no [*Error] is
	// taken for a permanent one. The resource is the framework's afterwards; the request must not be kept or changed.
	Resolve(ctx context.Context, r *Request) (*Resource, error)
}

// Spec describes a resolver.
type Spec struct {
	// Name selects the resolver, as the value of the label resolution.tekton.dev/type; a DNS label.
	Name string
	// Aliases select it as well.
	Aliases []string
	// Doc says in one sentence what it fetches and from where.
	Doc string
	// ConfigMap is the name of the ConfigMap with its configuration, empty if it has none.
	ConfigMap string
	// Config declares the keys of the ConfigMap.
	Config []Key
	// Params declares the parameters, in the order in which documentation lists them.
	Params []Param
	// Validate judges parameters together, after each by itself is valid; nil accepts all. It returns all errors.
	Validate func(r *Request) []error
	// Scope tells who may share what the request fetches: requests with different scopes never share a cache entry or
	// a fetch. Nil stands for [NamespaceScope]. Content that everybody may read has [PublicScope]; content that a
	// credential fetched must have a scope that only those reach who have that credential.
	Scope func(r *Request) string
	// Host tells which remote a request goes to, host or host:port, so that fetches from one remote can be limited. It
	// is nil or gives "" where there is none.
	Host func(r *Request) string
	// Memory is about how many bytes one fetch holds at most in memory, for content of at most limit bytes; nil stands for
	// four times the limit. Where memory is scarce, fetches wait for each other by it.
	Memory func(limit int64) int64
	// NamedConfigs: the ConfigMap may have named configurations beside the plain one, keys NAME.KEY, from which a
	// parameter chooses; see [Config.With].
	NamedConfigs bool
}

// PublicScope is the scope of what everybody may read.
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
	// Aliases are other names, which TEP-0060 or older clients use. Giving one parameter by two names is an error.
	Aliases []string
	// Type is [String] if empty.
	Type Type
	// Required: the parameter must be given, unless the configuration has a default. An empty string counts as not given.
	Required bool
	// Default is the value where neither the request nor the configuration has one.
	Default string
	// DefaultKey is the key of the configuration that has the default.
	DefaultKey string
	// Allowed lists the values that are allowed; empty allows all.
	Allowed []string
	// MaxLength bounds the value's length in bytes; 0 stands for 4,096.
	MaxLength int
	// Check judges one value; nil accepts all.
	Check func(value string) error
	// Doc is one sentence.
	Doc string
}

// Key declares a key of a resolver's configuration.
type Key struct {
	Name string
	// Default is the value where the ConfigMap has none.
	Default string
	// Check judges a value; nil accepts all.
	Check func(value string) error
	// Wrong says what becomes of a value that Check refuses.
	Wrong Wrong
	// Doc is one sentence.
	Doc string
}

// Wrong says what becomes of a wrong value of a key of the configuration where there was no good one before.
type Wrong int

const (
	// TakesDefault has the default hold.
	TakesDefault Wrong = iota
	// IsKept has the value hold all the same: what cannot be understood in it does no harm.
	IsKept
	// Closes has nothing resolved: the key says what is allowed, and its default may allow more than the operator wants.
	Closes
)

// Value is the value of a parameter: one of its fields by its type.
type Value struct {
	Type   Type
	String string
	Array  []string
	Object map[string]string
}

// Request is what a resolver is asked for.
type Request struct {
	// Namespace and Name are those of the ResolutionRequest; Name is empty on a command line.
	Namespace, Name string
	// UID is that of the ResolutionRequest, empty on a command line.
	UID string
	// Params are the parameters by their declared names.
	Params map[string]Value
	// URL is the request's spec.url, which most resolvers do not use.
	URL string
	// Config is the resolver's configuration with defaults filled in.
	Config Config
	// Identity is the user on whose behalf the request is made, in the form system:serviceaccount:NAMESPACE:NAME; empty
	// where nobody is known. It is that of the owner of the request, never taken from a parameter.
	Identity string
	// Secrets reads credentials; nil where there are none to be had.
	Secrets Secrets
	// NotBefore is the time before which no look at what can move, a branch or a tag for example, serves this request; zero
	// where a look that is a short time old does. A resolver that keeps nothing from one request to the next need not heed it.
	NotBefore time.Time
	// MaxBytes is how many bytes the content may have; a resolver reads no more than that and gives [TooLarge] where
	// there is more. 0 stands for [DefaultMaxBytes].
	MaxBytes int64

	warnings []string
}

// maxWarnings bounds how many there are.
const maxWarnings = 10

// Warn tells who asks of something in the request that counts for nothing. It may be called in [Spec.Validate] only.
func (r *Request) Warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

// warned is the resource with the warnings in an annotation. What is cached stays as it is.
func (r *Request) warned(res *Resource) *Resource {
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
	out.Annotations[AnnotationWarning] = oneLine(strings.Join(list, "; "))
	return &out
}

// DefaultMaxBytes is how much content goes into a status: with base64 and the rest it stays below the 1.5 MiB that etcd
// takes for an object.
const DefaultMaxBytes = 1 << 20

// Limit is MaxBytes with its default.
func (r *Request) Limit() int64 {
	if r.MaxBytes > 0 {
		return r.MaxBytes
	}
	return DefaultMaxBytes
}

// Get returns the string parameter of that declared name, empty if it is not given.
func (r *Request) Get(name string) string { return r.Params[name].String }

// Secrets reads Kubernetes Secrets with the rights that the resolver has.
type Secrets interface {
	// Secret returns the data of a Secret, and [SecretHosts] where its annotation is there. Errors are of type [*Error] and
	// say what to do, for example which RoleBinding is missing. See [Request.SecretFor].
	Secret(ctx context.Context, namespace, name string) (map[string][]byte, error)
}

// Config is a configuration by key.
type Config map[string]string

// With returns the configuration in which keys with the prefix NAME. stand in for those without, as Tekton's configKey
// chooses a named configuration. Keys that the named configuration does not have are not inherited where own tells so.
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

// Resource is what was fetched.
type Resource struct {
	// Data is the content, as it was found.
	Data []byte
	// Annotations go to the status of the request, keys in full.
	Annotations map[string]string
	// Source says where it came from.
	Source Source
	// Signers are the IDs of the keys whose signature over the origin the resolver has checked, as package
	// resolve/verify names keys; nil where it has checked none.
	Signers []string
	// Immutable: the same parameters will always give the same content, because they name a commit or a digest.
	Immutable bool
	// LookedAt is when the resolver looked at what can move; zero for when its fetch began. The framework tells it in
	// [AnnotationLookedAt] where the resource is not immutable.
	LookedAt time.Time
	// Anonymous: nobody's rights were needed to read it. The framework has all else fetched again after [KeyAccessTTL], because
	// somebody may have lost the right to read it, if its scope is not [PublicScope].
	Anonymous bool
	// Expires is when the framework must have it fetched again in any case; zero for not sooner than that.
	Expires time.Time
}

// Source is the origin of a resource, refSource in the status of a request (SLSA provenance).
type Source struct {
	// URI names the place, for example git+https://example.com/repo.git.
	URI string
	// Digest is the content's identity: hexadecimal digits by algorithm, for example sha1 for a commit.
	Digest map[string]string
	// EntryPoint is the path or name inside the place; empty if there is none.
	EntryPoint string
}

// SHA256 is the digest of content, for [Source].
func SHA256(data []byte) map[string]string {
	sum := sha256.Sum256(data)
	return map[string]string{"sha256": hex.EncodeToString(sum[:])}
}

// Annotations that every resolver may set.
const (
	AnnotationPrefix      = "resolution.tekton.dev/"
	AnnotationContentType = AnnotationPrefix + "content-type"
	ContentTypeYAML       = "application/x-yaml"
	// AnnotationLookedAt is set by the framework, on results that can change: when the remote was asked what is there, in RFC
	// 3339. What was pushed later is not in the result.
	AnnotationLookedAt = "sluice.dev/looked-at"
	// AnnotationWarning is set by the framework: what of the request counts for nothing; see [Request.Warn].
	AnnotationWarning = "sluice.dev/warning"
)

// Clock tells the time; tests have their own.
type Clock interface {
	Now() time.Time
	// After is a channel that gets the time after d.
	After(d time.Duration) <-chan time.Time
}
