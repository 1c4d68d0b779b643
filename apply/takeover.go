package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smdvalue "sigs.k8s.io/structured-merge-diff/v6/value"

	"sluice.dev/apply/kapprules"
	"sluice.dev/internal/brief"
)

// Fields that another tool has applied stay when Sluice applies an object without them: kubectl apply and Helm are managers of their
// own. To manage such an object, Sluice takes their fields over, in managedFields, and the apply that follows removes those that the
// manifest does not have. For example, an environment variable that an old chart had set goes when the new source, applied with
// --app, no longer has it.

// formers is in the order of the documentation.
var formers = []former{
	{"kubectl-client-side-apply", metav1.ManagedFieldsOperationUpdate, false},
	{"before-first-apply", metav1.ManagedFieldsOperationUpdate, false},
	{"helm", metav1.ManagedFieldsOperationUpdate, false},
	{"helm", metav1.ManagedFieldsOperationApply, false},
	{"kapp", metav1.ManagedFieldsOperationUpdate, false},
	{"kubectl", metav1.ManagedFieldsOperationApply, true},
	// Flux and Argo CD write an object again as long as they know of it.
	{"kustomize-controller", metav1.ManagedFieldsOperationApply, true},
	{"helm-controller", metav1.ManagedFieldsOperationUpdate, true},
	{"helm-controller", metav1.ManagedFieldsOperationApply, true},
	{"argocd-controller", metav1.ManagedFieldsOperationUpdate, true},
	{"argocd-controller", metav1.ManagedFieldsOperationApply, true},
}

// formersOf returns the former managers of an object. mine is our entry, nil for none. csaupgrade moves fields only into an entry
// of the same version.
func formersOf(entries []managedEntry, mine *managedEntry) []former {
	var out []former
	for _, f := range formers {
		if slices.ContainsFunc(entries, func(e managedEntry) bool {
			return e.subresource == "" && e.manager == f.manager && e.operation == string(f.operation) && (mine == nil || mine.apiVersion == e.apiVersion)
		}) {
			out = append(out, f)
		}
	}
	return out
}

// takesOver returns the managers whose fields the plan takes over from a live object; nil for none. A plan without an app takes
// fields over only if it is forced, because it may describe only a part of the object.
func (p *Plan) takesOver(l *live) []string {
	if p.inventory == nil && !p.request.Force || l.terminating {
		return nil
	}
	var out []string
	for _, f := range l.formers {
		if (p.request.Force || !f.forced) && !slices.Contains(out, f.manager) {
			out = append(out, f.manager)
		}
	}
	return out
}

// takeOverFields returns the managedFields of an object after the fields of some managers have become ours.
//
// Only metadata of obj is looked at. obj itself is not changed.
func takeOverFields(obj map[string]any, from []string) ([]metav1.ManagedFieldsEntry, error) {
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": maps.Clone(metadataOf(obj))}}
	names := sets.New(from...)
	// The package moves only updates. A second pass moves applies, as updates of the same manager.
	for range 2 {
		if err := csaupgrade.UpgradeManagedFields(u, names, Manager); err != nil {
			return nil, err
		}
		list := u.GetManagedFields()
		for e := range eachOf(list) {
			if names.Has(e.Manager) && e.Subresource == "" {
				e.Operation = metav1.ManagedFieldsOperationUpdate
			}
		}
		u.SetManagedFields(list)
	}
	return u.GetManagedFields(), nil
}

// takeOver makes the fields of the item's former managers ours. The following apply removes those that the manifest does not have.
// If somebody has written the object since the dry run, takeOver looks for conflicts again first.
func (a *Applier) takeOver(ctx context.Context, p *Plan, it *Item) error {
	path := it.mapping.objectPath(&it.Object)
	for try := 1; ; try++ {
		obj, err := a.client.fetchObject(ctx, path)
		if err != nil || obj == nil {
			return err
		}
		if version, _ := metadataOf(obj)["resourceVersion"].(string); version != it.now.live.version {
			if _, err := a.client.applyPatch(ctx, path, it.json, true, p.request.Force); err != nil && !aboutSchema(err) {
				return err
			}
		}
		list, err := takeOverFields(obj, it.TakesOver)
		if err != nil {
			return fmt.Errorf("its managedFields cannot be read: %w", err)
		}
		body, err := json.Marshal([]map[string]any{
			{"op": "replace", "path": "/metadata/managedFields", "value": list},
			// If the object has another resourceVersion, the server answers with a conflict.
			{"op": "replace", "path": "/metadata/resourceVersion", "value": metadataOf(obj)["resourceVersion"]},
		})
		if err != nil {
			return err
		}
		if _, err = a.client.jsonPatch(ctx, path, body, false); !apierrors.IsConflict(err) || try == maxTries {
			return err
		}
	}
}

// takenOver returns the object without those fields of the former managers that the manifest does not have. The server computes it
// by a dry run. applied is the result of the apply's dry run.
//
// Without it the diff would show fields of the former manager that the write removes.
func (a *Applier) takenOver(ctx context.Context, it *Item, applied map[string]any) (map[string]any, error) {
	next, err := withoutOwned(applied, func(e metav1.ManagedFieldsEntry) bool { return slices.Contains(it.TakesOver, e.Manager) }, func(fieldpath.Path) bool { return false })
	if err != nil {
		return nil, err
	}
	live, err := a.client.fetchObject(ctx, it.mapping.objectPath(&it.Object))
	if err != nil || live == nil {
		return applied, err
	}
	return a.tryAs(ctx, it, live, next)
}

// withoutOwned removes the fields of some managers from an object. Fields that stay, or that others own, are not removed. A map or
// list around removed fields, of which nothing stays, is removed as a whole, with values that the server has filled in:
// structured-merge-diff counts the fields around those that an apply has named as its own (fieldpath.Set.EnsureNamedFieldsAreMembers).
func withoutOwned(obj map[string]any, from func(e metav1.ManagedFieldsEntry) bool, stays func(fieldpath.Path) bool) (map[string]any, error) {
	gone, kept := &fieldpath.Set{}, &fieldpath.Set{}
	for _, e := range (&unstructured.Unstructured{Object: obj}).GetManagedFields() {
		set := &fieldpath.Set{}
		if e.FieldsV1 == nil {
			continue
		}
		if err := set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())); err != nil {
			return nil, fmt.Errorf("its managedFields cannot be read: %w", err)
		}
		if e.Subresource == "" && from(e) {
			gone = gone.Union(set)
		} else {
			kept = kept.Union(set)
		}
	}
	isKept := func(path fieldpath.Path) bool {
		below := kept
		for _, element := range path {
			below = below.WithPrefix(element)
		}
		return !below.Empty() || kept.Has(path) || stays(path)
	}
	next := obj
	for path := range gone.Difference(kept).All() {
		for n := range path {
			// The parts that name nothing by themselves are metadata, without which there is no object, and items of lists.
			around := path[:n+1]
			isField := around[n].FieldName != nil && (n > 0 || *around[n].FieldName != "metadata")
			if (n+1 == len(path) || isField) && !isKept(around) {
				next, _ = withoutFieldAt(next, around).(map[string]any)
				break
			}
		}
	}
	return next, nil
}

// takenOverNote says how the server has tried an item that is taken over.
const takenOverNote = "the server could not try it together with fields of another applier that will be gone by then, so it was tried as it would be without them"

// tryWithout asks the server to try an item without the fields of its former managers. Only a write removes these fields, and until
// then they may contradict the manifest. Examples are the kind of a probe or a volume, and the number of a port that keeps its
// name.
func (a *Applier) tryWithout(ctx context.Context, it *Item) (answer, error) {
	want, err := it.decodeContent()
	if err != nil {
		return answer{}, err
	}
	live, err := a.client.fetchObject(ctx, it.mapping.objectPath(&it.Object))
	if err != nil || live == nil {
		return answer{}, err
	}
	next, err := it.estimateApply(live, want)
	if err != nil {
		return answer{}, err
	}
	after, err := a.tryAs(ctx, it, live, next)
	return answer{after: after, local: takenOverNote}, err
}

// tryAs asks the server to try to turn a live object into another one.
func (a *Applier) tryAs(ctx context.Context, it *Item, live, next map[string]any) (map[string]any, error) {
	var ops []map[string]any
	change := func(at string, before, after map[string]any, leave ...string) {
		for k, v := range after {
			if !slices.Contains(leave, k) && !equalJSON(before[k], v) {
				ops = append(ops, map[string]any{"op": "add", "path": at + escapePointer(k), "value": v})
			}
		}
		for k := range before {
			if _, there := after[k]; !there && !slices.Contains(leave, k) {
				ops = append(ops, map[string]any{"op": "remove", "path": at + escapePointer(k)})
			}
		}
	}
	change("/", live, next, "apiVersion", "kind", "metadata", "status")
	change("/metadata/", metadataOf(live), metadataOf(next), serverFields...)
	if len(ops) == 0 {
		return next, nil
	}
	body, err := json.Marshal(ops)
	if err != nil {
		return nil, err
	}
	return a.client.jsonPatch(ctx, it.mapping.objectPath(&it.Object), body, true)
}

// escapePointer escapes a name for a JSON pointer (RFC 6901).
func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// withoutFieldAt returns a value without the field at a path. It copies maps and lists on the way.
func withoutFieldAt(v any, path fieldpath.Path) any {
	if steps, there := locateField(v, path, leadsTo); there {
		return kapprules.Set(v, steps, nil, true)
	}
	return v
}

// locateField returns the keys and indexes by which a path leads to a value, as [kapprules.Set] takes them; false if it does not.
// leads reports whether an element of the path identifies an item of a list.
func locateField(v any, path fieldpath.Path, leads func(e fieldpath.PathElement, item any) bool) ([]any, bool) {
	if len(path) == 0 {
		return nil, true
	}
	switch x := v.(type) {
	case map[string]any:
		if name := path[0].FieldName; name != nil {
			inner, there := x[*name]
			steps, leadsOn := locateField(inner, path[1:], leads)
			return append([]any{*name}, steps...), there && leadsOn
		}
	case []any:
		for i, item := range x {
			if !leads(path[0], item) {
				continue
			}
			if steps, leadsOn := locateField(item, path[1:], leads); leadsOn {
				return append([]any{i}, steps...), true
			}
		}
	}
	return nil, false
}

// leadsTo reports whether an element of a path identifies an item of a list.
func leadsTo(e fieldpath.PathElement, item any) bool {
	switch {
	case e.Key != nil:
		m, ok := item.(map[string]any)
		return ok && !slices.ContainsFunc(*e.Key, func(f smdvalue.Field) bool { return !equalJSON(m[f.Name], f.Value.Unstructured()) })
	case e.Value != nil:
		return equalJSON((*e.Value).Unstructured(), item)
	}
	return false
}

// takenFrom names the former managers; empty if there were none.
func takenFrom(managers []string) string {
	if len(managers) == 0 {
		return ""
	}
	return "taken over from " + strings.Join(managers, ", ")
}

// sharedNotes names the former managers that keep their fields because the plan has no app.
func (p *Plan) sharedNotes() []string {
	if p.inventory != nil || p.request.Force {
		return nil
	}
	var names []string
	n := 0
	for i := range p.Items {
		if l := p.Items[i].now.live; l != nil && len(l.formers) > 0 {
			n++
			for _, f := range l.formers {
				if !slices.Contains(names, f.manager) {
					names = append(names, f.manager)
				}
			}
		}
	}
	if n == 0 {
		return nil
	}
	slices.Sort(names)
	return []string{fmt.Sprintf("fields of %s in %s stay where the source does not have them; --app or --force-conflicts takes them over", strings.Join(names, ", "), brief.Count(n, "object"))}
}

// aboutSchema reports whether the schema of a kind may be the cause of an error. The server answers with code 500 and no reason if an
// apply has a field that the schema does not have, or a value of another type (k8s.io/apimachinery/pkg/util/managedfields).
func aboutSchema(err error) bool {
	var status apierrors.APIStatus
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return true
	}
	return errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError && status.Status().Reason == metav1.StatusReasonUnknown
}
