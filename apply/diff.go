package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"

	"sigs.k8s.io/yaml"
)

// What would an apply change? The answer is the server's: a dry run of each write, compared with the object as it is. So the diff
// shows defaults and the work of webhooks too. For example, a Deployment that leaves out the protocol of a port shows no difference,
// because the server fills it in both times. Values of Secrets never appear.

// Difference is the change that an apply would make in one object.
type Difference struct {
	ID

	// Action is Create, Update, Replace or Delete.
	Action Action `json:"action"`
	// Before and After are the object as YAML, without fields that only the server writes. They are empty if there is no object.
	// Values of Secrets do not appear; the text only says whether they differ.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Note says why After is the manifest and not the server's result, or why the object is replaced; empty otherwise.
	Note string `json:"note,omitempty"`
	// TakesOver are field managers of other appliers whose fields become ours.
	TakesOver []string `json:"takesOver,omitempty"`
}

// TryOptions are the options of [Applier.Try].
type TryOptions struct {
	// Contents fills Before and After.
	Contents bool
	// Local compares on the client if this user can read an object but the server refuses a dry run. The difference says so.
	Local bool
}

// Try asks the server to try the plan by dry runs, which change nothing. A refusal is an error, as in [Applier.Apply]. The
// differences are in the order of the plan, deletions last. Try leaves out updates that change nothing, and marks them Unchanged in
// the plan. The server cannot try an object if its kind or namespace comes with the source; the difference says so. If the only
// obstacle is fields of other owners, the error is a [*ConflictError], and the differences are those of the other objects.
func (a *Applier) Try(ctx context.Context, p *Plan, o TryOptions) ([]Difference, error) {
	if err := p.Err(); err != nil {
		return nil, err
	}
	found, same := make([]*Difference, len(p.Items)), make([]bool, len(p.Items))
	index := map[*Item]int{}
	for i := range p.Items {
		index[&p.Items[i]] = i
	}
	err := a.rehearse(ctx, p, o.Local, func(it *Item, got answer) error {
		d, err := a.differenceOf(ctx, p, it, got, o)
		i := index[it]
		found[i], same[i] = d, err == nil && d == nil
		return err
	})
	for i := range p.Items {
		if same[i] {
			p.Items[i].Action = Unchanged
		}
	}
	if _, only := errors.AsType[*ConflictError](err); err != nil && (!only || isJoined(err)) {
		return nil, err
	}
	var out []Difference
	for _, d := range found {
		if d != nil {
			out = append(out, *d)
		}
	}
	gone, failed := a.tryRemovals(ctx, p, o)
	if failed != nil {
		return nil, failed
	}
	return append(out, gone...), err
}

// isJoined reports whether an error joins several errors.
func isJoined(err error) bool {
	_, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	return ok
}

// differenceOf compares a live object with the object after the apply; nil means that nothing would change.
func (a *Applier) differenceOf(ctx context.Context, p *Plan, it *Item, got answer, o TryOptions) (*Difference, error) {
	d := &Difference{ID: it.ID, Action: it.Action, Note: got.note, TakesOver: it.TakesOver}
	if got.replace != "" {
		d.Action, d.Note = Replace, "it is deleted and created again: "+got.replace
	}
	var before map[string]any
	var err error
	if it.now.live != nil {
		if before, err = a.client.fetchObject(ctx, it.livePath()); err != nil {
			return nil, err
		}
	}
	after := got.after
	if after == nil {
		if after, err = it.decodeContent(); err != nil {
			return nil, err
		}
	}
	same := d.Note == ""
	if got.local != "" {
		d.Note = got.local
	}
	if before != nil && same && len(it.TakesOver) == 0 && equalJSON(withoutServerFields(before), withoutServerFields(after)) {
		return nil, nil
	}
	if d.Note == "" && p.changesCRDOf(it) {
		d.Note = "compared by the CRD that is served now, which this source changes"
	}
	if o.Contents {
		d.Before, d.After = yamlOfBoth(it.ID, before, after)
	}
	return d, nil
}

// tryRemovals asks the server to try the deletions of a plan, and returns one difference for each. If this user may not delete, and
// the options allow a comparison on the client, the deletions are listed with a note instead.
func (a *Applier) tryRemovals(ctx context.Context, p *Plan, o TryOptions) ([]Difference, error) {
	if !p.request.Prune {
		return nil, nil
	}
	note := ""
	if err := a.deleteInTurns(ctx, p, true); err != nil {
		if may, failed := a.mayDelete(ctx, p, err); may || failed != nil || !o.Local {
			return nil, errors.Join(err, failed)
		}
		note = "this user may not have the server try to delete it"
	}
	var out []Difference
	for r := range eachOf(p.Removals) {
		if r.Action != Delete {
			continue
		}
		d := Difference{ID: r.ID, Action: Delete, Note: note}
		if o.Contents {
			obj, err := a.client.fetchObject(ctx, r.objectPath())
			if err != nil {
				return nil, err
			}
			d.Before, _ = yamlOfBoth(r.ID, obj, nil)
		}
		out = append(out, d)
	}
	return out, nil
}

// withoutServerFields removes fields that only the server writes, and fields that change by themselves.
func withoutServerFields(obj map[string]any) map[string]any {
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

// yamlOfBoth returns both sides as YAML.
func yamlOfBoth(id ID, before, after map[string]any) (string, string) {
	before, after = withoutServerFields(before), withoutServerFields(after)
	if id.isSecret() {
		before, after = hideValues(before, after, "before"), hideValues(after, before, "after")
	}
	return yamlTextOf(before), yamlTextOf(after)
}

// yamlTextOf returns an object as YAML; empty for nil. If it cannot be written, the text is a comment that says so, because a diff is
// only shown.
func yamlTextOf(obj map[string]any) string {
	if obj == nil {
		return ""
	}
	b, err := yaml.Marshal(obj)
	if err != nil {
		return fmt.Sprintf("# cannot be shown: %v\n", err)
	}
	return string(bytes.TrimLeft(b, "\n"))
}

// hideValues replaces the values of a Secret by words. The words say whether other has another value.
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
			if w, both := there[k]; both && !equalJSON(v, w) {
				hidden[k] = "(not shown, " + side + ")"
			}
		}
		out[field] = hidden
	}
	// The annotation of kubectl has the values as well.
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
