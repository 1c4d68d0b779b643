package migrate

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"sluice.dev/internal/cluster"
)

// The API server converts an object to each version that its managedFields name before it merges a server-side apply
// (merge.Updater in sigs.k8s.io/structured-merge-diff). For custom resources, a version that the CRD does not have is an error there
// (conversion.NewCRConverter in k8s.io/apiextensions-apiserver), so every apply is refused. The API server takes managedFields from an update if it
// can read them (fieldmanager in k8s.io/apimachinery/pkg/util/managedfields).

// isLeaving reports whether an apiVersion in managedFields may be removed, or is: the CRD does not have or serve it, says that it is deprecated,
// is about to lose it from status.storedVersions, or has a later one as the storage version.
func (r *run) isLeaving(apiVersion string) bool {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || gv.Group != r.crd.Spec.Group {
		return err == nil && apiVersion != ""
	}
	if gv.Version == r.StorageVersion {
		return false
	}
	for _, v := range r.crd.Spec.Versions {
		if v.Name == gv.Version {
			return !v.Served || v.Deprecated || slices.Contains(r.crd.Status.StoredVersions, v.Name) || version.CompareKubeAwareVersionStrings(v.Name, r.StorageVersion) < 0
		}
	}
	return true
}

func (r *run) namesLeaving(owners []metav1.ManagedFieldsEntry) bool {
	return slices.ContainsFunc(owners, func(e metav1.ManagedFieldsEntry) bool { return r.isLeaving(e.APIVersion) })
}

// ownersFor returns the managedFields of an object in the storage version. If a webhook converts the object, fields that it does not have there
// lose their owner: the next apply takes what they became without a conflict. (The API server shows an object in each version, but not which
// field became which.)
func (r *run) ownersFor(ctx context.Context, object *metav1.PartialObjectMetadata) ([]metav1.ManagedFieldsEntry, error) {
	keep := func(fieldpath.Path) bool { return true }
	if cluster.NamesWebhook(r.crd) {
		var in map[string]any
		if err := send(ctx, r.rest.Get().AbsPath(r.path(object.Namespace, object.Name)), &in); err != nil {
			return nil, err
		}
		keep = func(p fieldpath.Path) bool { return hasFields(in, p) }
	}
	return rewriteOwners(object.ManagedFields, r.isLeaving, r.crd.Spec.Group+"/"+r.StorageVersion, keep)
}

// hasFields reports whether an object has the fields that a path begins with. Items of a list are not looked for.
func hasFields(object map[string]any, p fieldpath.Path) bool {
	var names []string
	for _, e := range p {
		if e.FieldName == nil {
			break
		}
		names = append(names, *e.FieldName)
	}
	_, found, err := unstructured.NestedFieldNoCopy(object, names...)
	return found && err == nil
}

// rewriteOwners writes entries of versions that leave in the version to, with the fields to keep. Entries of the same owner become one, as the API server would keep only one of them.
func rewriteOwners(owners []metav1.ManagedFieldsEntry, leaving func(string) bool, to string, keep func(fieldpath.Path) bool) ([]metav1.ManagedFieldsEntry, error) {
	var out []metav1.ManagedFieldsEntry
	var sets []*fieldpath.Set
	for _, e := range owners {
		set := fieldpath.NewSet()
		if e.FieldsV1 != nil {
			if err := set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())); err != nil {
				return nil, fmt.Errorf("the managedFields of %s cannot be read: %w", e.Manager, err)
			}
		}
		if leaving(e.APIVersion) {
			kept := fieldpath.NewSet()
			set.Iterate(func(p fieldpath.Path) {
				if keep(p) {
					kept.Insert(p.Copy())
				}
			})
			set, e.APIVersion = kept, to
		}
		same := slices.IndexFunc(out, func(o metav1.ManagedFieldsEntry) bool {
			return o.Manager == e.Manager && o.Operation == e.Operation && o.Subresource == e.Subresource && o.APIVersion == e.APIVersion
		})
		if same < 0 {
			out, sets = append(out, e), append(sets, set)
			continue
		}
		sets[same] = sets[same].Union(set)
		if out[same].Time.Before(e.Time) {
			out[same].Time = e.Time
		}
	}
	for i, set := range sets {
		text, err := set.ToJSON()
		if err != nil {
			return nil, err
		}
		out[i].FieldsV1 = metav1.NewFieldsV1(string(text))
	}
	return out, nil
}
