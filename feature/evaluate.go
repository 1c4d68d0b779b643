package feature

// May a request be written as it is? The evaluator first drops, as a mutating webhook does, and then judges the rest.
// For example, an update that adds spec.timeout while TaskTimeout is closed is refused, and an update of an object that
// had spec.timeout passes.

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/api/v1alpha1"
)

// Request is a write of an object as admission sees it. The objects are decoded JSON as Kubernetes decodes it: maps, slices,
// strings, int64, float64, booleans and nil. They are not modified.
type Request struct {
	// Group, Version and Resource are those in which the object is written: what the objects are in.
	Group, Version, Resource string
	// Subresource is empty for the object itself. Writes of subresources are always allowed, with one exception: a status write
	// cannot claim that the object was written in a closed version (see the package's documentation).
	Subresource string
	// Object is the new object; nil stands for a deletion, which is always allowed.
	Object map[string]any
	// Old is the stored object; nil stands for a creation.
	Old map[string]any
	// OptedIn reports whether the user or the namespace has opted in to a feature; nil means to none. It is called only for
	// features that are used and closed.
	OptedIn func(gate string) bool
}

// Decision is the decision about a request.
type Decision struct {
	// Rejected are the uses because of which the request is refused.
	Rejected Violations
	// Dropped are the uses that were taken out, or changes that were taken back.
	Dropped Violations
	// Warned are the uses that pass with a warning.
	Warned Violations
	// Object is the object to write instead; nil if nothing was dropped, or the request is refused. It may share parts with
	// the objects of the request.
	Object map[string]any
}

// Allowed reports whether the request passes, possibly with changes.
func (d *Decision) Allowed() bool { return d.Rejected.Count == 0 }

// maxDetails bounds the reported violations of each kind.
const maxDetails = 100

// Violations are uses of closed features, in their order in the object: fields and keys by name, items by index.
type Violations struct {
	// Count is their number.
	Count int
	// List holds the first 100.
	List []Violation
}

// Violation is one use of a closed feature.
type Violation struct {
	// Path is the path of the use, with indices of items and keys of maps: spec.tasks[3].timeout, spec.env["a.b"].secretRef.
	Path string
	// State is that of the feature.
	State *State
	// Target is the part that is used.
	Target *Target
	// Value is the value where one of Target.Values is used; clipped if it is long.
	Value string
}

// Evaluate judges a request.
func (e *Evaluator) Evaluate(r *Request) Decision {
	e.states.askedBy(r)
	if r.Object == nil {
		return Decision{}
	}
	p, versions := e.programFor(r.Group, r.Version, r.Resource), e.versions[groupResource{r.Group, r.Resource}]
	if r.Subresource != "" {
		p = nil
	}
	drop := p != nil && p.drops && p.drop.hasUse(r.Object)
	check := p != nil && p.checks && p.check.hasUse(r.Object)
	if !drop && !check && versions == nil && (p == nil || p.version == nil) {
		return Decision{}
	}
	w := &walker{evaluator: e, request: r}
	w.checkClaims(versions)
	if p == nil {
		return w.decision
	}
	object := r.Object
	if drop {
		w.dropping = true
		if out, change := w.dropUses(&p.drop, object); change == changed {
			// The root is never removed: the shortest path has one step.
			object, _ = out.(map[string]any)
			w.decision.Object = object
		}
		w.dropping = false
	}
	w.checkVersion(p, object)
	if p.checks && p.check.hasUse(object) {
		w.checkUses(&p.check, object)
	}
	if !w.decision.Allowed() {
		w.decision.Object = nil
	}
	return w.decision
}

// walker goes through one object.
type walker struct {
	evaluator *Evaluator
	request   *Request
	decision  Decision
	dropping  bool
	trail     []place // the steps from the root to the present value
	old       *stored
	question  *question
}

// place is one step of the way through an object.
type place struct {
	name  string // of a field or an entry
	index int    // of an item
	kind  StepKind
	item  any // the item
}

// checkUses looks for uses in v and records those that the ratchet does not allow.
func (w *walker) checkUses(n *node, v any) {
	n.visitUses(v, &w.trail, func(g *gate, v any) {
		if !w.allowsUse(g, v) {
			w.recordUse(g, v)
		}
	})
}

// visitUses calls do for each use of a gate in v, in their order in the object; the trail leads to it then.
func (n *node) visitUses(v any, trail *[]place, do func(g *gate, v any)) {
	if v == nil {
		return
	}
	for _, g := range n.gates {
		if g.target.countsAsUse(v) {
			do(g, v)
		}
	}
	for c, next := range n.childrenOf(v) {
		*trail = append(*trail, c.place)
		next.visitUses(c.value, trail, do)
		*trail = (*trail)[:len(*trail)-1]
	}
}

// child is a value in an object or array.
type child struct {
	place
	value any
}

// childrenOf visits the children of v for which the node has a way, in the order of fields, entries and items.
func (n *node) childrenOf(v any) func(yield func(child, *node) bool) {
	return func(yield func(child, *node) bool) {
		switch v := v.(type) {
		// Named fields come before entries of any name, which is the order of violations.
		case map[string]any:
			var names []string
			for name := range n.presentFields(v) {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				if !yield(child{place{name: name}, v[name]}, n.fields[name]) {
					return
				}
			}
			if n.ofEntries() {
				for _, name := range slices.Sorted(maps.Keys(v)) {
					if !yield(child{place{name: name, kind: Entries}, v[name]}, n.each) {
						return
					}
				}
			}
		case []any:
			if n.ofItems() {
				for i, x := range v {
					if !yield(child{place{index: i, kind: Items, item: x}, x}, n.each) {
						return
					}
				}
			}
		}
	}
}

// allowsUse reports whether a use is allowed: to those who opted in, or because the stored object has it.
func (w *walker) allowsUse(g *gate, v any) bool {
	if w.optedIn(g) {
		return true
	}
	if w.request.Old == nil {
		return false
	}
	if f := g.state.Feature; f.Spec.Ratchet == v1alpha1.InObject {
		return w.storedObject().usedBy(f, w.request)
	}
	return w.storedObject().hasUseAt(g, w.trail, v)
}

// optedIn reports whether the gate is open to those who opted in.
func (w *walker) optedIn(g *gate) bool {
	if w.request.OptedIn == nil {
		return false
	}
	if w.question == nil {
		w.question = &question{states: w.evaluator.states, optedIn: w.request.OptedIn}
	}
	return w.question.isOpenFor(g.state)
}

func (w *walker) storedObject() *stored {
	if w.old == nil {
		w.old = &stored{root: w.request.Old}
	}
	return w.old
}

// recordUse adds a use that is not allowed.
func (w *walker) recordUse(g *gate, v any) {
	list := &w.decision.Rejected
	switch {
	case w.dropping:
		list = &w.decision.Dropped
	case g.state.Feature.Spec.WhenDisabled == v1alpha1.Warn || w.evaluator.tells:
		list = &w.decision.Warned
	}
	list.Count++
	if len(list.List) >= maxDetails {
		return
	}
	x := Violation{Path: "apiVersion", State: g.state, Target: g.target}
	if len(w.trail) > 0 {
		x.Path = pathOf(w.trail)
	}
	if g.target.Values != nil {
		s, _ := scalarText(v)
		x.Value = clipWord(s)
	}
	list.List = append(list.List, x)
}

// checkVersion judges gates of the whole version, by the object without its dropped parts.
func (w *walker) checkVersion(p *program, object map[string]any) {
	asked, unchanged := false, false
	for _, g := range p.version {
		if r := w.request; r.Old != nil {
			if !asked {
				asked, unchanged = true, onlyMetadata(object, r.Old)
			}
			inUse := g.state.Feature.Spec.Ratchet != v1alpha1.Unchanged
			switch {
			case inUse && g.target.writtenIn(r.Old):
				continue
			case unchanged && (!inUse || !g.target.writtenIn(r.Object)):
				// A server-side apply of existing values makes the client their owner in this version. The next request could then write them.
				continue
			}
		}
		if !w.optedIn(g) {
			w.recordUse(g, nil)
		}
	}
}

// checkClaims judges managed fields of closed versions. A client can send any managed fields, with writes of the status as well. A new entry
// is true only after a write in the version, which is judged by itself.
func (w *walker) checkClaims(gates []*gate) {
	r := w.request
	if r.Subresource != "" && r.Subresource != statusSubresource {
		return
	}
	for _, g := range gates {
		t := g.target
		if r.Subresource == "" && r.Version == t.Version || !t.writtenIn(r.Object) || t.writtenIn(r.Old) {
			continue
		}
		if !w.optedIn(g) {
			w.trail = append(w.trail[:0], place{name: "metadata"}, place{name: "managedFields"})
			w.recordUse(g, nil)
			w.trail = w.trail[:0]
		}
	}
}

const statusSubresource = "status"

// onlyMetadata reports whether two objects differ in metadata and status at most.
func onlyMetadata(a, b map[string]any) bool {
	for _, p := range [][2]map[string]any{{a, b}, {b, a}} {
		for name, v := range p[0] {
			if name != "metadata" && name != "status" && v != nil {
				if o, ok := p[1][name]; !ok || !equalToNull(v, o) {
					return false
				}
			}
		}
	}
	return true
}

// writtenIn reports whether managed fields have an entry of the target's version with more than metadata, status and scale.
func (t *Target) writtenIn(object map[string]any) bool {
	version := schema.GroupVersion{Group: t.Group, Version: t.Version}.String()
	metadata, _ := object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	return slices.ContainsFunc(entries, func(f any) bool {
		entry, _ := f.(map[string]any)
		sub, _ := entry["subresource"].(string)
		if entry["apiVersion"] != any(version) || sub != "" {
			return false
		}
		owned, _ := entry["fieldsV1"].(map[string]any)
		for name, v := range owned {
			if !slices.Contains(unowned, name) && !t.onlyScale(name, v) {
				return true
			}
		}
		return false
	})
}

// unowned are the fields that do not count as a write of the object in a version.
var unowned = []string{"f:metadata", "f:status", "."}

// onlyScale reports whether the entry owns nothing of a field but the replicas of the scale: a write of the scale can become an entry
// of the object.
func (t *Target) onlyScale(name string, v any) bool {
	for i, step := range t.Scale {
		if name != "f:"+step {
			return false
		}
		owned, _ := v.(map[string]any)
		switch {
		case len(owned) == 0:
			return true // nothing, after another manager has taken it over
		case len(owned) > 1 || i+1 == len(t.Scale):
			return false
		}
		for only, inner := range owned {
			name, v = only, inner
		}
	}
	return false
}
