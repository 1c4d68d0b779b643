package apply

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// annotationMadeBy on a namespace says which app has made it, as NAMESPACE/NAME. It comes with the creation, which server-side apply cannot
// tell from a change: the API has no apply that only creates. So it holds whatever happens to the run, or to the inventory.
const annotationMadeBy = "sluice.dev/made-by"

// makeNamespace creates the namespace of an item, without its content. One that is there by now is somebody else's.
func (a *Applier) makeNamespace(ctx context.Context, p *Plan, it *Item) error {
	owner := p.ownerOf()
	if owner == "" {
		return nil
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": it.Name, "annotations": map[string]any{annotationMadeBy: owner}},
	})
	if err != nil {
		return err
	}
	_, err = a.client.do(ctx, request{verb: http.MethodPost, path: listPath("", "v1", "namespaces", ""), query: url.Values{"fieldManager": {Manager}}, body: body})
	if !apierrors.IsAlreadyExists(err) {
		it.made = err == nil
		return err
	}
	// Perhaps it was this very request, of which the first answer was lost.
	obj, err := a.client.get(ctx, it.mapping.path(&it.Object))
	it.made = err == nil && madeBy(obj) == owner
	return err
}

// madeBy is the value of [annotationMadeBy]; empty where there is none.
func madeBy(obj map[string]any) string {
	meta, _ := obj["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	owner, _ := annotations[annotationMadeBy].(string)
	return owner
}

// made tells whether the app has made a namespace that is there: the namespace says so, or an apply that ended in order has recorded it,
// as older versions have. A recorded intention proves nothing: somebody else may have created it first.
func (p *Plan) made(id ID, obj map[string]any) bool {
	if owner := p.ownerOf(); owner != "" && madeBy(obj) == owner {
		return true
	}
	record := p.inventory.entry(id)
	return record != nil && record.Manifest != "" && !record.Found
}
