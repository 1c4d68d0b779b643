package migrate

// How is an object changed so that a new CRD accepts it? Each value that a mapping names is replaced, the defaults
// of the new CRD are filled in, and the result is judged as the new CRD would judge it. What changed becomes a
// merge patch with the resourceVersion that it is for. Nothing is written until somebody sends the patch.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"sluice.dev/internal/cluster"
)

// Mapping replaces a value in stored objects.
type Mapping struct {
	// Hits is the number of values that the mapping replaced.
	Hits int

	path     []string
	from, to any
	text     string // of to
}

// ParseMapping reads PATH:OLD=NEW, such as .spec.engine:mariadb=mysql. The values are scalars of YAML; in place of
// a string, NEW is one as well. An empty OLD stands for a field that is not there. [*] after a field stands for
// all items of a list. Metadata cannot be mapped.
func ParseMapping(text string) (*Mapping, error) {
	path, values, found := strings.Cut(text, ":")
	from, to, has := strings.Cut(values, "=")
	if !found || !has || to == "" || !strings.HasPrefix(path, ".") || strings.Contains(path, "..") || len(path) < 2 || strings.HasPrefix(path, ".metadata") {
		return nil, fmt.Errorf("%q: a mapping is PATH:OLD=NEW below .spec, such as .spec.engine:mariadb=mysql or .spec.parts[*].size:=small for a field that is missing", text)
	}
	m := &Mapping{path: strings.Split(strings.ReplaceAll(path[1:], "[*]", ".[*]"), "."), text: to}
	if err := errors.Join(yaml.Unmarshal([]byte(from), &m.from), yaml.Unmarshal([]byte(to), &m.to)); err != nil {
		return nil, fmt.Errorf("%q: OLD or NEW is no value: %w", text, err)
	}
	return m, nil
}

// replaceIn applies the mapping below a value at the rest of its path. A path that the value does not have changes
// nothing.
func (m *Mapping) replaceIn(value any, path []string) {
	if path[0] == "[*]" {
		items, _ := value.([]any)
		for i := range items {
			if len(path) > 1 {
				m.replaceIn(items[i], path[1:])
			} else {
				items[i] = m.replacementOf(items[i])
			}
		}
		return
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return
	}
	if len(path) > 1 {
		m.replaceIn(fields[path[0]], path[1:])
	} else if now, has := fields[path[0]]; has || m.from == nil {
		fields[path[0]] = m.replacementOf(now)
	}
}

// replacementOf returns the value in place of another one, which is the same if the mapping is not about it. In
// place of a string, the text of NEW is used as it is: for a field that is a string, 5 means "5".
func (m *Mapping) replacementOf(value any) any {
	if !sameScalar(value, m.from) {
		return value
	}
	m.Hits++
	_, wasText := value.(string)
	if _, isText := m.to.(string); wasText && !isText && m.to != nil {
		return m.text
	}
	return m.to
}

// sameScalar compares a value of an object with one of a mapping by how they are written, so the number 1 matches
// the text "1". Nil matches only nil, and an object or a list matches nothing.
func sameScalar(a, b any) bool {
	return a == nil && b == nil || a != nil && b != nil && reflect.TypeOf(a).Comparable() && fmt.Sprint(a) == fmt.Sprint(b)
}

// Fix is what becomes of an object that a new CRD would harm.
type Fix struct {
	// Object is namespace/name.
	Object string
	// Patch is a merge patch (RFC 7386) for kubectl patch --type=merge, with the resourceVersion that it is for. It is nil if nothing would change.
	Patch map[string]any
	// Remains says what would still be wrong after the patch; empty if nothing.
	Remains string
}

// Fixes finds the stored objects that next would harm, and returns a fix for each of the first 1000, with the
// number of all. It writes nothing. A CRD that the cluster does not have harms no object. Objects that are deleted
// meanwhile are left out.
func (m *Migrator) Fixes(ctx context.Context, next *apiextensionsv1.CustomResourceDefinition, mappings []*Mapping) (fixes []Fix, harmed int64, err error) {
	kube, err := m.reads.Version(ctx)
	if err != nil {
		return nil, 0, err
	}
	live, err := m.reads.CRD(ctx, next.Name)
	if err != nil || live == nil {
		return nil, 0, err
	}
	scan, err := m.reads.Scan(ctx, live, next, cluster.ScanOptions{KubeVersion: kube, Keep: maxRefused})
	if err == nil && scan.Note != "" {
		err = errors.New(scan.Note)
	}
	if err != nil {
		return nil, 0, err
	}
	mender, err := m.reads.NewMender(live, next, kube)
	if err != nil {
		return nil, 0, err
	}
	for _, f := range scan.Fates {
		if problemOf(f) == "" {
			continue
		}
		before, after, fate, err := mender.Mend(ctx, f.Name, func(obj map[string]any) {
			for _, mapping := range mappings {
				mapping.replaceIn(obj, mapping.path)
			}
		})
		if apierrors.IsNotFound(err) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", f.Name, err)
		}
		patch, err := patchFor(before, after)
		if err != nil {
			return nil, 0, err
		}
		fixes = append(fixes, Fix{f.Name, patch, problemOf(fate)})
	}
	return fixes, max(int64(len(fixes)), scan.Strict, scan.Refused, scan.Dropped), nil
}

// problemOf says in which way an object is harmed; empty if in none that a patch could mend.
func problemOf(f cluster.Fate) string {
	parts := f.Refused
	if len(parts) == 0 {
		parts = f.Strict
	}
	parts = append(slices.Clone(parts), f.Unappliable, f.StatusRefused)
	for _, field := range f.Dropped {
		parts = append(parts, "loses "+field)
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

// patchFor returns the merge patch that makes an object what it is after a change; nil if that is the same. It has
// what identifies the object, for kubectl patch and for [Migrator.ApplyFix].
func patchFor(before, after map[string]any) (map[string]any, error) {
	was, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	is, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	text, err := jsonpatch.CreateMergePatch(was, is)
	if err != nil || string(text) == "{}" {
		return nil, err
	}
	var patch map[string]any
	if err := json.Unmarshal(text, &patch); err != nil {
		return nil, err
	}
	u := unstructured.Unstructured{Object: before}
	meta := map[string]any{"name": u.GetName(), "resourceVersion": u.GetResourceVersion(), "uid": string(u.GetUID())}
	if u.GetNamespace() != "" {
		meta["namespace"] = u.GetNamespace()
	}
	patch["apiVersion"], patch["kind"], patch["metadata"] = u.GetAPIVersion(), u.GetKind(), meta
	return patch, nil
}

// ApplyFix sends the patch of a [Fix] to an object of a resource, such as widgets. It is a conflict if the object was changed since, and an
// error of the API server if the live CRD lacks a field. Where the CRD has the status subresource, the status is a write of its own.
func (m *Migrator) ApplyFix(ctx context.Context, resource string, patch map[string]any) error {
	u := unstructured.Unstructured{Object: patch}
	if u.GetName() == "" || u.GetResourceVersion() == "" || u.GetAPIVersion() == "" {
		return fmt.Errorf("it is no patch of sluice fix: apiVersion, metadata.name and metadata.resourceVersion are needed")
	}
	var written unstructured.Unstructured
	if err := m.sendFix(ctx, resource, "", u, &written); err != nil || patch["status"] == nil {
		return err
	}
	status := unstructured.Unstructured{Object: map[string]any{"apiVersion": patch["apiVersion"], "kind": patch["kind"], "metadata": patch["metadata"], "status": patch["status"]}}
	status = *status.DeepCopy()
	status.SetResourceVersion(written.GetResourceVersion())
	err := m.sendFix(ctx, resource, "status", status, nil)
	if apierrors.IsNotFound(err) { // there is no such subresource: the first write has done it
		return nil
	}
	return err
}

// sendFix sends a patch to an object, or to one of its subresources, and reads the answer into written unless that
// is nil. The API server refuses fields that the CRD does not have (fieldValidation=Strict), instead of dropping
// them without a word.
func (m *Migrator) sendFix(ctx context.Context, resource, subresource string, u unstructured.Unstructured, written *unstructured.Unstructured) error {
	body, err := u.MarshalJSON()
	if err != nil {
		return err
	}
	request := m.rest.Patch(types.MergePatchType).AbsPath("/apis", u.GetAPIVersion()).NamespaceIfScoped(u.GetNamespace(), u.GetNamespace() != "").
		Resource(resource).Name(u.GetName()).SubResource(subresource).Param("fieldManager", "sluice-fix").Param("fieldValidation", metav1.FieldValidationStrict).Body(body)
	if written == nil {
		return send(ctx, request, nil)
	}
	return send(ctx, request, &written.Object)
}
