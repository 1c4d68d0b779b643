// Package cluster resolves objects of the cluster that the resolver runs in, by kind, namespace and name.
//
// It promises to read only kinds and namespaces that the operator's configuration allows, and Secrets only if the configuration
// names them. If the configuration demands it, the user on whose behalf the request is made must have the right to read the object.
// All these checks come before the object is read, so a refusal does not reveal whether it exists. The result is the object as its
// author wrote it: without its status and without the metadata that the API server adds.
//
// It does not decide who can make requests, and does not cache.
package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"sluice.dev/resolve"
)

// Names of the parameters.
const (
	ParamKind       = "kind"
	ParamName       = "name"
	ParamNamespace  = "namespace"
	ParamAPIVersion = "apiVersion"
)

// Keys of the ConfigMap cluster-resolver-config that this package reads. The last two are not Tekton's.
const (
	KeyKind              = "default-kind"
	KeyNamespace         = "default-namespace"
	KeyAllowedNamespaces = "allowed-namespaces"
	KeyBlockedNamespaces = "blocked-namespaces"
	KeyAllowedKinds      = "allowed-kinds"
	KeyCheckAccess       = "check-access"
)

// DefaultAllowedKinds are the kinds that can be read if the configuration names none.
const DefaultAllowedKinds = "task.tekton.dev,pipeline.tekton.dev,stepaction.tekton.dev"

// Annotations on success, besides the type of the content.
const (
	AnnotationName      = resolve.AnnotationPrefix + "name"
	AnnotationNamespace = resolve.AnnotationPrefix + "namespace"
)

// Client is the access of the resolver to a cluster. [NewClient] makes one; tests have their own. Calls of its methods may be
// concurrent. Errors are those of client-go; package k8s.io/apimachinery/pkg/api/errors distinguishes them.
type Client interface {
	// Mapping returns the resource of a kind; the case of its name does not matter. The empty version stands for the preferred one.
	// If the cluster has no such kind, [meta.IsNoMatchError] is true for the error.
	Mapping(ctx context.Context, group, version, kind string) (*meta.RESTMapping, error)
	// Get reads an object; namespace is empty for a cluster-scoped one.
	Get(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error)
	// CanGet reports whether a user can read an object, by a SubjectAccessReview.
	CanGet(ctx context.Context, user string, gvr schema.GroupVersionResource, namespace, name string) (bool, error)
}

// Resolver resolves objects of a cluster. [New] makes it.
type Resolver struct{ client Client }

var _ resolve.Resolver = (*Resolver)(nil)

// New returns a resolver that reads through the client.
func New(client Client) *Resolver { return &Resolver{client: client} }

// Spec implements [resolve.Resolver].
func (r *Resolver) Spec() resolve.Spec {
	return resolve.Spec{
		Name:      "cluster",
		Aliases:   []string{"in-cluster"},
		Doc:       "Reads an object of this cluster, from this or another namespace.",
		ConfigMap: "cluster-resolver-config",
		Config: []resolve.Key{
			{Name: KeyKind, Default: "task", Doc: "The kind where a request names none."},
			{Name: KeyNamespace, Check: checkNamespace, Doc: "The namespace where a request names none; empty stands for the namespace of the request."},
			{Name: KeyAllowedNamespaces, Check: checkNamespaces, Wrong: resolve.Closes, Doc: "Comma-separated namespaces that may be read; empty or * stands for all. A namespace named here is read although blocked-namespaces is *."},
			{Name: KeyBlockedNamespaces, Check: checkNamespaces, Wrong: resolve.Closes, Doc: "Comma-separated namespaces that are not read; * stands for all that allowed-namespaces does not name."},
			{Name: KeyAllowedKinds, Default: DefaultAllowedKinds, Check: resolve.Parses(resolve.ParseKinds), Wrong: resolve.Closes, Doc: "Comma-separated kinds that may be read, as KIND.GROUP, or KIND for the core group; *.GROUP stands for all of a group, * for all. No * includes Secrets: name them."},
			{Name: KeyCheckAccess, Default: "false", Check: resolve.CheckBool, Wrong: resolve.Closes, Doc: "With true, an object is read only if the ServiceAccount of the run or delivery that asks may read it."},
		},
		Params: []resolve.Param{
			{Name: ParamKind, Required: true, DefaultKey: KeyKind, MaxLength: 253, Check: checkKindParam, Doc: "The kind of the object, in any case: task, Pipeline; or with its group: task.tekton.dev."},
			{Name: ParamName, Required: true, MaxLength: 253, Check: checkName, Doc: "The name of the object."},
			{Name: ParamNamespace, DefaultKey: KeyNamespace, MaxLength: 63, Check: checkNamespace, Doc: "The namespace of the object. Default: the namespace of the request. Cluster-scoped kinds have none."},
			{Name: ParamAPIVersion, MaxLength: 253, Check: checkAPIVersion, Doc: "The group and version of the kind, as tekton.dev/v1, or v1 for the core group. Default: the group that the operator allows for the kind, in its preferred version."},
		},
		Scope: scopeOf,
	}
}

// scopeOf separates the results of different identities if access is checked. The namespace is always part of it, because it is the
// default of a parameter.
func scopeOf(r *resolve.Request) string {
	s := resolve.NamespaceScope(r)
	if checksAccess(r.Config) {
		s += "/identity/" + r.Identity
	}
	return s
}

// checksAccess reports whether the configuration demands that the requester may read the object.
func checksAccess(c resolve.Config) bool {
	// The configuration refuses a value that is no boolean. If one gets here, checking is the safe side.
	v, err := strconv.ParseBool(strings.TrimSpace(c[KeyCheckAccess]))
	return v || (err != nil && strings.TrimSpace(c[KeyCheckAccess]) != "")
}

// Resolve implements [resolve.Resolver].
func (r *Resolver) Resolve(ctx context.Context, req *resolve.Request) (*resolve.Resource, error) {
	res, err := r.resolveObject(ctx, req)
	if err == nil {
		return res, nil
	}
	var own *resolve.Error
	if !errors.As(err, &own) || ctx.Err() != nil {
		return nil, classifyError(ctx, "the API server", err)
	}
	return nil, own
}

// resolveObject checks everything before it reads the object: its kind, its namespace, and the rights of the user. So a refusal is the
// same whether the object exists or not.
func (r *Resolver) resolveObject(ctx context.Context, req *resolve.Request) (*resolve.Resource, error) {
	namespace := cmp.Or(req.Get(ParamNamespace), req.Namespace)
	if err := errors.Join(checkNamespace(namespace), checkName(req.Get(ParamName))); err != nil {
		return nil, &resolve.Error{Reason: resolve.ReasonInvalid, Msg: err.Error()}
	}
	mapping, err := r.requestedMapping(ctx, req)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if err := mayReadNamespace(req.Config, namespace); err != nil {
			return nil, err
		}
	} else {
		namespace = ""
	}
	what := describeObject(mapping, namespace, req.Get(ParamName))
	if checksAccess(req.Config) {
		if err := r.checkAccess(ctx, req, mapping, namespace, what); err != nil {
			return nil, err
		}
	}
	obj, err := r.client.Get(ctx, mapping.Resource, namespace, req.Get(ParamName))
	if err != nil {
		return nil, classifyError(ctx, what, err)
	}
	data, err := renderYAML(obj, mapping.GroupVersionKind)
	if err != nil {
		return nil, resolve.Errorf(resolve.ReasonFailed, "%s cannot be written as YAML: %w", what, err)
	}
	out := newResource(data, obj, mapping, namespace)
	out.Anonymous = !checksAccess(req.Config)
	return out, nil
}

// checkAccess demands that the identity of the request may read the object. A request without an identity is refused, because nobody's
// rights could be asked for.
func (r *Resolver) checkAccess(ctx context.Context, req *resolve.Request, m *meta.RESTMapping, namespace, what string) error {
	if req.Identity == "" {
		return resolve.Errorf(resolve.ReasonForbidden, "%s: the operator lets objects be read only on behalf of a ServiceAccount, and the request belongs to no run or delivery that has one", what)
	}
	ok, err := r.client.CanGet(ctx, req.Identity, m.Resource, namespace, req.Get(ParamName))
	if err != nil {
		return classifyError(ctx, "the check whether "+req.Identity+" may read "+what, err)
	}
	if !ok {
		return resolve.Errorf(resolve.ReasonDenied, "%s may not read %s: it needs the verb get on %s", req.Identity, what, m.Resource.GroupResource())
	}
	return nil
}

// newResource is the result, with the annotations of Tekton's resolver. An object can change, so the resource is not immutable.
func newResource(data []byte, obj *unstructured.Unstructured, m *meta.RESTMapping, namespace string) *resolve.Resource {
	annotations := map[string]string{
		AnnotationName:                obj.GetName(),
		resolve.AnnotationContentType: resolve.ContentTypeYAML,
		"content-type":                resolve.ContentTypeYAML, // TEP-0060's name
	}
	if namespace != "" {
		annotations[AnnotationNamespace] = namespace
	}
	return &resolve.Resource{
		Data:        data,
		Annotations: annotations,
		Source: resolve.Source{
			URI:    objectURI(m.GroupVersionKind, namespace, obj),
			Digest: specDigest(obj, data),
		},
	}
}

// specDigest returns the digest of the spec, as Tekton documents it, so that labels and annotations may change. It covers the JSON of
// the spec with sorted keys and without spaces. An object without a spec has the digest of its content.
func specDigest(obj *unstructured.Unstructured, data []byte) map[string]string {
	if spec, ok := obj.Object["spec"]; ok {
		var text bytes.Buffer
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		// A value that came as JSON can be written as JSON.
		if err := enc.Encode(spec); err == nil {
			data = bytes.TrimSuffix(text.Bytes(), []byte("\n"))
		}
	}
	return resolve.SHA256(data)
}

// objectURI has Tekton's form. It has the kind in lower case where the API server has the plural.
func objectURI(gvk schema.GroupVersionKind, namespace string, obj *unstructured.Unstructured) string {
	root := "/apis/"
	if gvk.Group == "" {
		root = "/api/"
	}
	parts := []string{gvk.GroupVersion().String()}
	if namespace != "" {
		parts = append(parts, "namespaces", namespace)
	}
	parts = append(parts, strings.ToLower(gvk.Kind), obj.GetName())
	return root + strings.Join(parts, "/") + "@" + string(obj.GetUID())
}

// renderYAML returns the object as YAML with sorted keys. Its metadata has only the fields that authors write and Tekton reads: name,
// namespace, labels and annotations. So its digest changes only with the object.
func renderYAML(obj *unstructured.Unstructured, gvk schema.GroupVersionKind) ([]byte, error) {
	out := map[string]any{}
	for k, v := range obj.Object {
		if k != "status" && k != "metadata" {
			out[k] = v
		}
	}
	metadata := map[string]any{"name": obj.GetName()}
	if ns := obj.GetNamespace(); ns != "" {
		metadata["namespace"] = ns
	}
	if labels := obj.GetLabels(); len(labels) > 0 {
		metadata["labels"] = labels
	}
	annotations := obj.GetAnnotations()
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	out["metadata"] = metadata
	out["apiVersion"], out["kind"] = gvk.GroupVersion().String(), gvk.Kind
	return yaml.Marshal(out)
}

// describeObject names an object in errors, such as Task "build" in the namespace "ci".
func describeObject(m *meta.RESTMapping, namespace, name string) string {
	s := fmt.Sprintf("%s %q", m.GroupVersionKind.Kind, name)
	if namespace != "" {
		s += fmt.Sprintf(" in the namespace %q", namespace)
	}
	return s
}

// mayReadNamespace decides as Tekton does, in this order. A namespace that is blocked by name is refused. One that is allowed by
// name is allowed. Then * blocks all. Then a list of allowed namespaces excludes all others.
func mayReadNamespace(c resolve.Config, namespace string) error {
	allowed, blocked := resolve.SplitList(c[KeyAllowedNamespaces]), resolve.SplitList(c[KeyBlockedNamespaces])
	ok := false
	switch {
	case slices.Contains(blocked, namespace):
	case slices.Contains(allowed, namespace):
		ok = true
	case slices.Contains(blocked, "*"):
	default:
		ok = len(allowed) == 0 || slices.Contains(allowed, "*")
	}
	if !ok {
		return resolve.Errorf(resolve.ReasonForbidden, "the operator does not allow objects of the namespace %q to be read", namespace)
	}
	return nil
}

// checkName accepts what can be a part of a path in the API, since kinds have different rules for their names.
func checkName(s string) error {
	if len(s) > 253 {
		return errors.New("the name is longer than 253 bytes")
	}
	if reasons := content.IsPathSegmentName(s); s == "" || len(reasons) > 0 {
		return fmt.Errorf("the name %q is not that of an object: %s", s, strings.Join(append(reasons, "it must not be empty")[:1], ""))
	}
	return nil
}

// checkNamespace accepts the name of a namespace, and the empty text, which stands for the default.
func checkNamespace(s string) error {
	if s == "" {
		return nil
	}
	if reasons := validation.IsDNS1123Label(s); len(reasons) > 0 {
		return fmt.Errorf("the namespace %q is not valid", s)
	}
	return nil
}

// checkNamespaces accepts a list of namespaces, or *. A list without an entry is an error: it looks like a restriction and is none.
func checkNamespaces(s string) error {
	list := resolve.SplitList(s)
	if len(list) == 0 {
		return errors.New("it names no namespace; want names separated by commas, or *")
	}
	for _, n := range list {
		if n == "*" {
			continue
		}
		if err := checkNamespace(n); err != nil {
			return err
		}
	}
	return nil
}
