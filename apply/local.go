package apply

import (
	"context"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// A user without the right to write still wants a diff. The server refuses such a user a dry run, so this file computes what an apply
// would make of an object. It does not know the schema of the kind: it merges lists by names or indexes, and fills in no
// defaults. For that reason each result comes with a note. The same estimate helps if a dry run fails for another reason;
// see [Applier.tryWithout].

// localNote says why the comparison of an item is done without the server.
const localNote = "this user may not have the server try it, so it is compared here: values that the server fills in or rewrites may differ"

// compareLocally computes on the client what an apply would change, for users who can read but not write. The result is an estimate.
// ok is false if the refusal is not about permissions: such a refusal stops every apply.
func (a *Applier) compareLocally(ctx context.Context, it *Item, refusal error) (got answer, ok bool, err error) {
	if !apierrors.IsForbidden(refusal) {
		return answer{}, false, nil
	}
	verbs := []string{"patch"}
	if it.now.live == nil {
		verbs = append(verbs, "create")
	}
	for _, verb := range verbs {
		no, err := a.client.reviewAccess(ctx, access{verb: verb, group: it.Group, resource: it.mapping.resource, namespace: it.Namespace, name: it.Name})
		if err != nil {
			return answer{}, false, err
		}
		ok = ok || no != nil
	}
	if !ok {
		return answer{}, false, nil
	}
	want, err := it.decodeContent()
	if err != nil {
		return answer{}, false, err
	}
	want = normalForm(want)
	got = answer{after: want, local: localNote}
	if it.now.live == nil {
		return got, true, nil
	}
	live, err := a.client.fetchObject(ctx, it.mapping.objectPath(&it.Object))
	if err != nil || live == nil {
		return got, true, err
	}
	got.after, err = it.estimateApply(live, want)
	return got, err == nil, err
}

// estimateApply returns the result of applying a manifest to a live object. It is an estimate, because the schema of the kind is not
// known.
func (it *Item) estimateApply(live, want map[string]any) (map[string]any, error) {
	mine := func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == Manager && e.Operation == metav1.ManagedFieldsOperationApply || slices.Contains(it.TakesOver, e.Manager)
	}
	next, err := withoutOwned(live, mine, func(path fieldpath.Path) bool { return hasValueAt(want, path) })
	if err != nil {
		return nil, err
	}
	out, _ := overlayByName(next, want).(map[string]any)
	return out, nil
}

// hasValueAt reports whether a path leads to a value.
func hasValueAt(v any, path fieldpath.Path) bool {
	_, there := locateField(v, path, mayLeadTo)
	return there
}

// mayLeadTo is like leadsTo for an item of a manifest, which may omit keys that have defaults.
func mayLeadTo(e fieldpath.PathElement, item any) bool {
	m, ok := item.(map[string]any)
	if e.Key == nil || !ok {
		return leadsTo(e, item)
	}
	some := false
	for _, f := range *e.Key {
		if v, there := m[f.Name]; there {
			if !equalJSON(v, f.Value.Unstructured()) {
				return false
			}
			some = true
		}
	}
	return some
}

// overlayByName lays the values of a manifest over live values. It matches items of lists by their names if they have some, and by
// their indexes otherwise.
func overlayByName(have, want any) any {
	return overlayOn(have, want, func(h, w []any, i int) any {
		if j := matchingListItem(h, w[i], i); j >= 0 {
			return overlayByName(h[j], w[i])
		}
		return w[i]
	})
}

// matchingListItem returns the index of the list item that another item updates; -1 for none.
func matchingListItem(list []any, item any, place int) int {
	m, ok := item.(map[string]any)
	if !ok {
		return -1
	}
	if name, _ := m["name"].(string); strings.TrimSpace(name) != "" {
		return slices.IndexFunc(list, func(v any) bool {
			other, ok := v.(map[string]any)
			return ok && other["name"] == name
		})
	}
	if place < len(list) {
		return place
	}
	return -1
}

// mayDelete reports whether a deletion failed for a reason other than missing permissions.
func (a *Applier) mayDelete(ctx context.Context, p *Plan, err error) (bool, error) {
	which, ok := errors.AsType[*Error](err)
	if !ok || !apierrors.IsForbidden(err) {
		return true, nil
	}
	i := slices.IndexFunc(p.Removals, func(r Removal) bool { return r.ID == which.ID })
	if i < 0 {
		return true, nil
	}
	r := &p.Removals[i]
	no, err := a.client.reviewAccess(ctx, access{verb: "delete", group: r.Group, resource: r.Resource, namespace: r.Namespace, name: r.Name})
	return no == nil, err
}
