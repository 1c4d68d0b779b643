package apply

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A namespace that the app has created may be deleted with the app. One that was there before may not. So it matters who has created
// a namespace, even if the run dies between the creation and its record. A plain create answers that: it fails if the namespace
// exists, while an apply would not.

// makeNamespace creates the namespace of an item, without its content. If the namespace exists by now, somebody else has created
// it.
func (a *Applier) makeNamespace(ctx context.Context, p *Plan, it *Item) error {
	owner := p.ownerOf()
	if owner == "" {
		return nil
	}
	err := a.client.createObject(ctx, listPath("", "v1", "namespaces", ""), map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": it.Name, "annotations": map[string]any{annotationMadeBy: owner}},
	})
	if !apierrors.IsAlreadyExists(err) {
		it.now.made = err == nil
		return err
	}
	// It may have been this very request, whose first answer was lost.
	obj, err := a.client.fetchObject(ctx, it.mapping.objectPath(&it.Object))
	it.now.made = err == nil && madeBy(obj) == owner
	return err
}

// madeBy is the value of [annotationMadeBy]; empty if there is none.
func madeBy(obj map[string]any) string {
	owner, _ := annotationsOf(obj)[annotationMadeBy].(string)
	return owner
}

// hasCreatedNamespace reports whether the app has created a namespace that exists. Either the namespace says so, or an apply that is
// complete has recorded it, as older versions do. A recorded intention proves nothing: somebody else may have created the namespace
// first.
func (p *Plan) hasCreatedNamespace(id ID, obj map[string]any) bool {
	if owner := p.ownerOf(); owner != "" && madeBy(obj) == owner {
		return true
	}
	record := p.inventory.entryOf(id)
	return record != nil && record.Manifest != "" && !record.Found
}
