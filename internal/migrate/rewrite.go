package migrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/cluster"
)

// fate says what became of an object.
type fate struct {
	written, owners, gone bool
	refused               string
}

// rewriteObjects reads the metadata of all objects page by page, and writes those that were not written since the migration began, or whose
// managedFields name a version that may be removed. A page is read in full before its objects are written: the API server gives up on a
// client that reads slowly.
func (r *run) rewriteObjects(ctx context.Context) error {
	var page []*metav1.PartialObjectMetadata
	o := cluster.EachOptions{PageSize: pageSize, Metadata: true, Page: func(remaining int64) error {
		err := r.rewritePage(ctx, page, remaining)
		page = page[:0]
		return err
	}}
	err := r.reads.Each(ctx, r.path("", ""), o, func(raw []byte) error {
		object := &metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(raw, object); err != nil {
			return fmt.Errorf("an object that the server sent cannot be read: %w", err)
		}
		page = append(page, object)
		return nil
	})
	if err != nil {
		return fmt.Errorf("objects of %s: %w", r.CRD, err)
	}
	return nil
}

// rewritePage writes the objects of a page, several at once. The first error ends the migration, but writes that
// are under way are finished.
func (r *run) rewritePage(ctx context.Context, page []*metav1.PartialObjectMetadata, remaining int64) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	fates := make([]fate, len(page))
	for i, object := range page {
		group.Go(func() (err error) {
			fates[i], err = r.rewriteObject(ctx, object)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	r.Objects += int64(len(page))
	for i, f := range fates {
		r.countFate(page[i], f)
	}
	r.tell(r.Objects, remaining)
	return nil
}

// countFate counts what became of an object, and names it if it was refused, up to maxRefused.
func (r *run) countFate(object *metav1.PartialObjectMetadata, f fate) {
	switch {
	case f.refused != "":
		if r.Refused++; len(r.Refusals) < maxRefused {
			r.Refusals = append(r.Refusals, Refusal{strings.TrimPrefix(object.Namespace+"/"+object.Name, "/"), f.refused})
		}
	case f.gone:
		r.Gone++
	case f.written:
		r.Written++
	default:
		r.Earlier++
	}
	if f.owners {
		r.Owners++
	}
}

// maxConflicts bounds the attempts to write an object that others write at the same time.
const maxConflicts = 20

// rewriteObject writes an object, unless that is not needed. An error means that the migration cannot go on. If
// somebody else writes the object at the same time, it is read again: with its new content it may need no write
// any more.
func (r *run) rewriteObject(ctx context.Context, object *metav1.PartialObjectMetadata) (f fate, err error) {
	for try := 1; ; try++ {
		body := map[string]any{}
		if f.owners = r.namesLeaving(object.ManagedFields); f.owners {
			owners, err := r.ownersFor(ctx, object)
			if err != nil {
				return settleFate(f, err)
			}
			body["metadata"] = map[string]any{"resourceVersion": object.ResourceVersion, "uid": object.UID, "managedFields": owners}
		} else if !r.isDue(object) {
			return f, nil
		}
		err := r.patchObject(ctx, object, body)
		if !apierrors.IsConflict(err) || try == maxConflicts {
			f.written = err == nil
			return settleFate(f, err)
		}
		now, err := r.readObject(ctx, object)
		if err != nil {
			return settleFate(f, err)
		}
		if now.UID != object.UID {
			return fate{gone: true}, nil // another object has its name, which was written after the migration began
		}
		object = now
	}
}

// isDue reports whether the object was not written since the migration began. Resource versions that cannot be
// compared count as older, since one write too many does no harm.
func (r *run) isDue(object *metav1.PartialObjectMetadata) bool {
	if r.ByServer || len(r.Trimmed) == 0 {
		return false
	}
	if r.since == "" {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(object.ResourceVersion, r.since)
	return err != nil || order <= 0
}

// settleFate tells what an error means for one object, and returns it if it means that the migration cannot go on.
// A refusal by the API server is the fate of the object. Lost rights and a server that does not answer end the
// migration.
func settleFate(f fate, err error) (fate, error) {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return f, nil
	case apierrors.IsNotFound(err):
		return fate{gone: true}, nil
	case apierrors.IsUnauthorized(err) || !errors.As(err, &status) || isTransient(err):
		return f, err
	}
	return fate{owners: f.owners, refused: brief.Clip(brief.OneLine(err.Error()), maxReason)}, nil
}

// maxReason bounds the words about a refused object.
const maxReason = 1000

// path is that of the objects in the storage version, or of one.
func (r *run) path(namespace, name string) string {
	if namespace != "" {
		namespace = "namespaces/" + namespace
	}
	return path.Join("/apis", r.crd.Spec.Group, r.StorageVersion, namespace, r.crd.Spec.Names.Plural, name)
}

const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// patchObject sends a merge patch to an object, in the storage version. An empty patch is a write all the same:
// the API server stores the object in the storage version if it was stored in another one
// (k8s.io/apiserver/pkg/storage/etcd3/store.go, GuaranteedUpdate).
func (r *run) patchObject(ctx context.Context, object *metav1.PartialObjectMetadata, body map[string]any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request := r.rest.Patch(types.MergePatchType).AbsPath(r.path(object.Namespace, object.Name)).SetHeader("Accept", metadataOnly).
		Param("fieldManager", Manager).Body(text)
	if r.o.DryRun {
		request.Param("dryRun", metav1.DryRunAll)
	}
	return send(ctx, request, nil)
}

// readObject reads the metadata of an object as it is now.
func (r *run) readObject(ctx context.Context, object *metav1.PartialObjectMetadata) (*metav1.PartialObjectMetadata, error) {
	out := &metav1.PartialObjectMetadata{}
	return out, send(ctx, r.rest.Get().AbsPath(r.path(object.Namespace, object.Name)).SetHeader("Accept", metadataOnly), out)
}

const (
	// maxPatience bounds the time for which a request is repeated, if the server asks to come back later or does not answer, and longestPause
	// the time between two attempts.
	maxPatience  = 2 * time.Minute
	longestPause = 5 * time.Second
	// maxFaults bounds the attempts if the server answers with an error of its own, such as a webhook that fails.
	maxFaults = 3
)

// send sends a request and reads the answer into out, where that is not nil. It repeats the request if that can help: every request of this
// package can be repeated.
func send(ctx context.Context, request *rest.Request, out any) error {
	patience, cancel := context.WithTimeout(ctx, maxPatience)
	defer cancel()
	pause := 100 * time.Millisecond
	for try := 1; ; try++ {
		err := sendOnce(ctx, request, out)
		fault := apierrors.IsInternalError(err) && try < maxFaults
		if err == nil || !isTransient(err) && !fault || patience.Err() != nil {
			return err
		}
		wait := pause
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			wait = max(wait, time.Duration(seconds)*time.Second)
		}
		if cluster.Sleep(patience, wait) != nil {
			return err
		}
		pause = min(2*pause, longestPause)
	}
}

// sendOnce sends a request once, and reads the answer into out, where that is not nil. A server that does not
// answer in time is a [cluster.ErrSlow].
func sendOnce(ctx context.Context, request *rest.Request, out any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cluster.RequestTimeout, cluster.ErrSlow)
	defer cancel()
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return err
	}
	raw, err := result.Raw()
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(raw, out)
}

// isTransient reports whether the same request may succeed in a moment, whatever its object is.
func isTransient(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		codes := []int32{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
		return slices.Contains(codes, status.Status().Code)
	}
	for _, broken := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.EPIPE, cluster.ErrSlow} {
		if errors.Is(err, broken) {
			return true
		}
	}
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout() && !errors.Is(err, context.Canceled)
}

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

// namesLeaving reports whether an entry of managedFields has a version that may be removed.
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
// An empty path is there.
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
