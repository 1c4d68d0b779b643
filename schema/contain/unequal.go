package contain

// Does ratcheting help an object that does not equal itself? For example, an object with a field that is kept and not declared is stuck.

import (
	"context"
	"maps"
)

// unknownField is a name that hardly any schema declares.
const unknownField = "unknownField"

// confirmUnequal returns a witness like w with a stuck object, if it finds one, or else w. It also returns whether only this change refuses
// the object. If an object has a field that its schema keeps and does not declare, ratcheting does not consider it equal to itself, and
// tolerates no error in it (CorrelatedObject in k8s.io/apiserver/pkg/cel/common): see [upstream.Validator.TouchUpdate].
func (c *confirmer) confirmUnequal(ctx context.Context, x *suspect, w *Witness, alone bool) (*Witness, bool) {
	for _, absent := range []bool{true, false} {
		v, changed := withUnknown(w.Object, c.s.sides[0].rootPlace(), c.s.sides[1].rootPlace(), absent)
		obj, ok := v.(map[string]any)
		if !changed || !ok {
			return w, alone
		}
		d, err := c.s.newConfirmer(ctx, []map[string]any{obj})
		if err != nil {
			return w, alone
		}
		if stuck, only, _ := d.confirmWitness(ctx, x, obj); stuck != nil && stuck.Stuck {
			return stuck, only
		}
	}
	return w, alone
}

// withUnknown returns v with an undeclared field in each object for which both schemas keep it. With absent, it also creates missing
// objects that can hold such a field. The second result is false if there is no place for one.
func withUnknown(v any, o, n place, absent bool) (any, bool) {
	if o.kind != declared || n.kind != declared {
		return v, false
	}
	switch v := v.(type) {
	case map[string]any:
		return objectWithUnknown(v, o, n, absent)
	case []any:
		changed := false
		out := make([]any, len(v))
		for i, x := range v {
			sub, ok := withUnknown(x, o.itemPlace(), n.itemPlace(), absent)
			out[i], changed = sub, changed || ok
		}
		return out, changed
	}
	return v, false
}

// objectWithUnknown is withUnknown for an object. With absent set, it also puts an empty object in the place of each
// declared one that is missing, and keeps it if it can hold the field; what it creates gets no such objects of its
// own. apiVersion, kind and metadata stay as they are.
func objectWithUnknown(v map[string]any, o, n place, absent bool) (any, bool) {
	out, changed := maps.Clone(v), false
	put := func(name string, x any, absent bool) {
		if o.hasMeta() && isMeta(name) {
			return
		}
		if sub, ok := withUnknown(x, o.childPlace(name), n.childPlace(name), absent); ok {
			out[name], changed = sub, true
		}
	}
	for k, x := range v {
		put(k, x, absent)
	}
	for _, c := range n.node.Properties {
		if _, ok := v[c.Name]; !ok && absent && c.Node.Type == "object" {
			put(c.Name, map[string]any{}, false)
		}
	}
	if o.childPlace(unknownField).kind == anything && n.childPlace(unknownField).kind == anything {
		out[unknownField], changed = "x", true
	}
	return out, changed
}
