package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Difference is what an apply would change in one object.
type Difference struct {
	ID ID
	// Action is Create, Update or Delete.
	Action Action
	// Before and After are the object as YAML, without what the server notes about it; empty where there is none. Values of
	// Secrets are not shown, only whether they differ.
	Before, After string
	// Note says why After is the manifest and not what the server would make of it; empty where it is the server's.
	Note string
}

// TryOptions say how [Applier.Try] tries.
type TryOptions struct {
	// Contents asks for Before and After.
	Contents bool
}

// Try has the server try the plan by dry runs, which change nothing: what it would refuse is an error, as in
// [Applier.Apply]. The differences are in the order of the plan, deletions last; updates that the server finds to change
// nothing are left out, and become Unchanged in the plan. Objects of a kind or in a namespace that only comes with the source
// cannot be tried; their difference says so. Where fields are owned by others, and nothing else is wrong, the error is of type
// [*ConflictError], and the differences are those of the other objects.
func (a *Applier) Try(ctx context.Context, p *Plan, o TryOptions) ([]Difference, error) {
	if err := p.Err(); err != nil {
		return nil, err
	}
	var todo []*Item
	for i := range p.Items {
		if it := &p.Items[i]; it.Action != Unchanged {
			todo = append(todo, it)
		}
	}
	a.events.tell(Event{Phase: "trying", Total: len(todo)})
	found := make([]*Difference, len(todo))
	conflicts := make([][]Conflict, len(todo))
	failures := make([]error, len(todo))
	err := each(ctx, len(todo), cap(a.client.slots), func(ctx context.Context, i int) error {
		it := todo[i]
		d, err := a.try(ctx, p, it, o)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if conflicts[i] = conflictsOf(it, err); conflicts[i] == nil && err != nil {
			failures[i] = it.fail(err)
		}
		if err == nil && d == nil {
			it.Action = Unchanged
		}
		found[i] = d
		return nil
	})
	if err != nil {
		return nil, err
	}
	var conflict error
	if all := slices.Concat(conflicts...); len(all) > 0 {
		conflict = &ConflictError{all}
	}
	if err := errors.Join(failures...); err != nil {
		if conflict != nil {
			err = errors.Join(err, conflict)
		}
		return nil, err
	}
	var out []Difference
	for _, d := range found {
		if d != nil {
			out = append(out, *d)
		}
	}
	gone, err := a.tryRemovals(ctx, p, o)
	if err != nil {
		return nil, err
	}
	return append(out, gone...), conflict
}

// try asks the server about one item; nil means that nothing would change.
func (a *Applier) try(ctx context.Context, p *Plan, it *Item, o TryOptions) (*Difference, error) {
	d := &Difference{ID: it.ID, Action: it.Action}
	var before, after map[string]any
	var err error
	path := it.mapping.path(&it.Object)
	if it.live != nil {
		now := path
		if v := it.mapping.before; v != "" {
			now = listPath(it.Group, v, it.mapping.resource, it.Namespace) + "/" + it.Name
		}
		if before, err = a.client.get(ctx, now); err != nil {
			return nil, err
		}
	}
	switch {
	case it.mapping.pending:
		if err := a.tryIn(ctx, p, it, it.mapping.before); err != nil {
			return nil, err
		}
		d.Note = "its CRD is not served yet, so the server was not asked"
	case it.live != nil && it.live.terminating:
		d.Note = "it is being deleted; the server was not asked"
	default:
		after, err = a.client.patch(ctx, path, it.json, true, p.request.Force)
		if apierrors.IsNotFound(err) && p.brings(it.Namespace) {
			d.Note = "its namespace does not exist yet, so the server was not asked"
		} else if others := a.otherVersions(ctx, p, it, err); len(others) > 0 {
			for _, v := range others {
				if err := a.tryIn(ctx, p, it, v); err != nil {
					return nil, err
				}
			}
			d.Note = "the owners of its fields are still noted in " + strings.Join(others, ", ") + ", and the server cannot try it before that is changed"
		} else if err != nil {
			if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) || !p.changesCRDOf(it) {
				return nil, err
			}
			d.Note = "its CRD changes too, and the one that is served now refuses it: " + err.Error()
			after = nil
		}
	}
	if after == nil {
		if after, err = it.content(); err != nil {
			return nil, err
		}
	}
	if before != nil && d.Note == "" && equal(visible(before), visible(after)) {
		return nil, nil
	}
	if o.Contents {
		d.Before, d.After = shown(it.ID, before, after)
	}
	return d, nil
}

// brings tells whether a namespace comes with the source.
func (p *Plan) brings(namespace string) bool {
	return slices.ContainsFunc(p.Items, func(i Item) bool { return isNamespace(i.ID) && i.Name == namespace && i.Action == Create })
}

// changesCRDOf tells whether the CRD of an item is changed by the plan.
func (p *Plan) changesCRDOf(it *Item) bool {
	return slices.ContainsFunc(p.Items, func(d Item) bool {
		return d.isCRD() && d.Action != Unchanged && d.Name == schema.GroupResource{Group: it.Group, Resource: it.mapping.resource}.String()
	})
}

func (a *Applier) tryRemovals(ctx context.Context, p *Plan, o TryOptions) ([]Difference, error) {
	if !p.request.Prune {
		return nil, nil
	}
	if err := a.remove(ctx, p, true); err != nil {
		return nil, err
	}
	var out []Difference
	for i := range p.Removals {
		r := &p.Removals[i]
		if r.Action != Delete {
			continue
		}
		d := Difference{ID: r.ID, Action: Delete}
		if o.Contents {
			obj, err := a.client.get(ctx, r.path())
			if err != nil {
				return nil, err
			}
			d.Before, _ = shown(r.ID, obj, nil)
		}
		out = append(out, d)
	}
	return out, nil
}

// visible leaves out what the server notes about an object and what changes by itself.
func visible(obj map[string]any) map[string]any {
	if obj == nil {
		return nil
	}
	out := maps.Clone(obj)
	delete(out, "status")
	if meta, ok := out["metadata"].(map[string]any); ok {
		meta = maps.Clone(meta)
		for _, f := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"} {
			delete(meta, f)
		}
		out["metadata"] = meta
	}
	return out
}

// shown gives both sides as YAML.
func shown(id ID, before, after map[string]any) (string, string) {
	before, after = visible(before), visible(after)
	if id.isSecret() {
		before, after = hideValues(before, after, "before"), hideValues(after, before, "after")
	}
	return text(before), text(after)
}

func text(obj map[string]any) string {
	if obj == nil {
		return ""
	}
	b, err := yaml.Marshal(obj)
	if err != nil {
		return fmt.Sprintf("# cannot be shown: %v\n", err)
	}
	return string(bytes.TrimLeft(b, "\n"))
}

// hideValues puts words in place of the values of a Secret; of a value that other has differently they say so.
func hideValues(obj, other map[string]any, side string) map[string]any {
	if obj == nil {
		return nil
	}
	out := maps.Clone(obj)
	for _, field := range []string{"data", "stringData"} {
		data, ok := out[field].(map[string]any)
		if !ok {
			continue
		}
		there, _ := other[field].(map[string]any)
		hidden := map[string]any{}
		for k, v := range data {
			hidden[k] = "(not shown)"
			if w, both := there[k]; both && !equal(v, w) {
				hidden[k] = "(not shown, " + side + ")"
			}
		}
		out[field] = hidden
	}
	// What kubectl notes has the values as well.
	if meta, ok := out["metadata"].(map[string]any); ok {
		if annotations, ok := meta["annotations"].(map[string]any); ok && annotations["kubectl.kubernetes.io/last-applied-configuration"] != nil {
			annotations = maps.Clone(annotations)
			annotations["kubectl.kubernetes.io/last-applied-configuration"] = "(not shown)"
			meta = maps.Clone(meta)
			meta["annotations"] = annotations
			out["metadata"] = meta
		}
	}
	return out
}
