package compat

// Which rules about updates refuse a write because another version fills in the old value? Reading fills in defaults in oldSelf, and
// nothing fills them in in self. For example, v2 gives mode the default A, the rule is self.mode == oldSelf.mode, and the object was stored
// without mode by v1.

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/schema/contain"
	"sluice.dev/schema/upstream"
)

// crossUpdates adds the rules about updates of a version that refuse what its clients could write before, because other versions fill in
// other defaults in the old value than before. Reading fills in oldSelf, and nothing fills in self: whoever sets the field for the first
// time changes it, and whoever leaves it out removes it (docs/containment.md, Several versions without a webhook).
// A webhook on the old side ends the question, because what it made of old values is not known. A version with no
// rule about updates needs no question.
func (c *comparison) crossUpdates(ctx context.Context, to *part, known told, out *crossings) {
	if !to.Served || len(c.oldConversions) > 0 || !hasTransitions(to.props) || c.isOnlyVersion(to) { // what a webhook made of old values is not known
		return
	}
	before := findVersion(c.oldParts, to.Name)
	isNew := before == nil || !before.Served || before.buildSchema() != nil
	if isNew { // what clients of the old versions could do
		before = to
	}
	suspects := slices.DeleteFunc(c.suspectUpdates(before, to), func(g contain.Gap) bool { return known.hasGap(&g) })
	if len(suspects) > 0 {
		if x := c.refusedUpdate(ctx, to); x != nil {
			if !known.hasGap(&x.Gap) {
				known.addGaps(x.Gap)
				out.refused = append(out.refused, *x)
			}
			return
		}
	}
	if isNew { // it has no clients yet, but they will set labels
		suspects = slices.DeleteFunc(c.suspectLabels(to), func(g contain.Gap) bool {
			return known.hasGap(&g) || slices.ContainsFunc(out.refused, func(x crossing) bool {
				return x.to == to && x.Keyword == "default" && mayBeNested(x.Path, g.Path)
			})
		})
	}
	for _, g := range suspects {
		known.addGaps(g)
		out.refused = append(out.refused, crossing{pair: pair{c.writtenVersions()[0], to}, Gap: g, updates: true, labels: isNew})
	}
}

// suspectUpdates returns the rules about updates of a version that are not proven to allow what they allowed before, with the old values
// that the other versions leave behind.
// A reading is a pair of schemas of the old value: as it was read under the old CRD, and as it is read under the new
// one. If both are the same for all writers, updates meet what they met before.
func (c *comparison) suspectUpdates(before, to *part) []contain.Gap {
	var readings []contain.Reading
	held := []*props{before.props}
	for _, p := range c.writtenVersions() {
		if p.props != nil {
			held = append(held, p.props)
		}
	}
	for _, p := range c.fillerPairs() {
		if isUnchangedSchema(before, to) && isUnchangedSchema(p.from, p.to) {
			continue
		}
		if !c.work.Charge(unitsToCross * int64(len(held))) {
			return nil // some finding says so
		}
		was, err := contain.NewSide(filledBy(before.props, p.from.props, held, 0))
		if err != nil {
			continue // cannot be: it is a part of a schema that passed
		}
		now, err := contain.NewSide(filledBy(to.props, p.to.props, held, 0))
		if err != nil {
			continue
		}
		if was.Node.Hash() != now.Node.Hash() {
			readings = append(readings, contain.Reading{Old: was, New: now})
		}
	}
	if len(readings) == 0 && isUnchangedSchema(before, to) {
		return nil
	}
	return contain.DecideOldValues(before.side, to.side, readings, c.containOptions(to))
}

// isOnlyVersion reports whether no other version stores or reads objects: then the comparison of the version with itself has said everything.
func (c *comparison) isOnlyVersion(to *part) bool {
	other := func(p *part) bool { return !c.areAlike(p, to) }
	return !slices.ContainsFunc(c.writtenVersions(), other) &&
		!slices.ContainsFunc(c.fillerPairs(), func(p pair) bool { return other(p.from) || other(p.to) })
}

// fillerPairs are the versions that fill in defaults in what is stored, before and after: those that read it, and those in which clients of
// both CRDs write.
// Each pair is there once, the storage versions first.
func (c *comparison) fillerPairs() []pair {
	var out []pair
	add := func(o, n *part) {
		if o != nil && n != nil && o.buildSchema() == nil && n.buildSchema() == nil && !slices.Contains(out, pair{o, n}) {
			out = append(out, pair{o, n})
		}
	}
	add(storageVersionOf(c.oldParts), storageVersionOf(c.newParts))
	for _, n := range c.newParts {
		if o := findVersion(c.oldParts, n.Name); c.stillServed(n) || o != nil && c.isStored(o.Name) {
			add(o, n)
		}
	}
	return out
}

// stage is an object under both CRDs, after the same writes.
// Both sides start from the same object and differ as soon as one CRD fills in a default that the other does not
// have.
type stage struct {
	old, new     map[string]any // as they are stored
	oldIn, newIn *part          // the versions that read them
}

// maxStages bounds the objects that updates are tried on, of each version.
const maxStages = 24

// unitsToTry is the work of making an object and writing it in one version.
const unitsToTry = 200

// refusedUpdate looks for an update in a version that the old CRD allows and a rule of the new one refuses, after writes that both allow:
// an object that lacks a default is created, a label is set in a version or not, and then it is updated to itself, or with one of the
// values that differ set, changed or left out.
// The objects are those that lack a default, because only these read differently. The bound on stages keeps CRDs with
// many defaults affordable; what it leaves out stays undecided.
func (c *comparison) refusedUpdate(ctx context.Context, to *part) *crossing {
	for _, from := range c.writtenVersions() {
		if from.buildSchema() != nil {
			continue
		}
		tried := map[string]bool{}
		for _, p := range c.fillerPairs() {
			for _, u := range []*part{p.to, p.from} {
				for _, g := range c.objectsLackingDefaults(ctx, from, u) {
					if g.Witness == nil {
						continue
					}
					// Several defaults often have the same object as their simplest one.
					key := compactJSON(g.Witness.Object)
					if tried[key] || len(tried) >= maxStages {
						continue
					}
					tried[key] = true
					if !c.work.Charge(unitsToTry * int64(1+len(c.newParts))) {
						return nil
					}
					for _, s := range c.labelStages(ctx, from, g.Witness.Object) {
						if x := c.refusedAt(ctx, from, to, s); x != nil {
							return x
						}
					}
				}
			}
		}
	}
	return nil
}

// labelStages creates an object under the old CRD, and then sets a label in each version.
// The first stage is the object as it was created. A stage follows for each version in which both CRDs allow a label
// to be set, and after it the storage versions read the object.
func (c *comparison) labelStages(ctx context.Context, from *part, obj map[string]any) []stage {
	home := c.storingVersion(from)
	stored, err := c.createObject(ctx, from, home, obj)
	if err != nil || c.readingVersion(from) == nil {
		return nil
	}
	ratchets := upstream.RatchetsIn(c.opts.KubeVersion)
	first := stage{stored, stored, home, c.readingVersion(from)}
	out := []stage{first}
	for _, w := range c.newParts {
		if !c.stillServed(w) {
			continue
		}
		old, err := c.updateObject(ctx, findVersion(c.oldParts, w.Name), first.oldIn, first.old, nil, ratchets)
		if err != nil || len(old.Errors) > 0 {
			continue
		}
		now, err := c.updateObject(ctx, w, first.newIn, first.new, nil, ratchets)
		if err != nil || len(now.Errors) > 0 {
			continue
		}
		next := stage{oldIn: storageVersionOf(c.oldParts), newIn: storageVersionOf(c.newParts)}
		if next.old, err = c.storeObject(next.oldIn, old.Stored); err != nil {
			continue
		}
		if next.new, err = c.storeObject(next.newIn, now.Stored); err != nil {
			continue
		}
		out = append(out, next)
	}
	return out
}

// refusedAt looks for an update of an object in the version that only the new CRD refuses.
// An error counts only if it comes of a rule: other errors have rules of their own to report them.
func (c *comparison) refusedAt(ctx context.Context, from, to *part, s stage) *crossing {
	in := findVersion(c.oldParts, to.Name)
	if in == nil || !in.Served {
		in = from
	}
	if !in.Served {
		return nil
	}
	was, err := c.readObject(in, s.oldIn, s.old)
	if err != nil {
		return nil
	}
	now, err := c.readObject(to, s.newIn, s.new)
	if err != nil {
		return nil
	}
	ratchets := upstream.RatchetsIn(c.opts.KubeVersion)
	for _, d := range differencesBetween(was, now, nil) {
		for _, next := range d.objectsToTry(was) {
			if !c.work.Charge(unitsToTry) {
				return nil
			}
			res, err := c.updateObject(ctx, in, s.oldIn, s.old, next, ratchets)
			if err != nil || res.Refused() {
				continue
			}
			next = maps.Clone(next)
			next["apiVersion"] = now["apiVersion"]
			if res, err = c.updateObject(ctx, to, s.newIn, s.new, next, ratchets); err != nil {
				continue
			}
			var errs []string
			for _, e := range res.Errors {
				if e.Origin == upstream.OriginRule {
					errs = append(errs, e.Error())
				}
			}
			if len(errs) == 0 {
				continue
			}
			path := d.schemaPath(to.props)
			return &crossing{pair: pair{from, to}, updates: true, filler: c.fillerOf(path, s.newIn), Gap: contain.Gap{
				Keyword: "default", Path: path, Harm: contain.RefusedTransition, Verdict: contain.NotContained, Rule: -1,
				Witness: &contain.Witness{Object: next, Old: s.new, WritersOnly: true, Errors: errs},
			}}
		}
	}
	return nil
}

// fillerOf is the version that fills in the default at the path: the one that reads the object, or else one in which it was written; nil if
// none does any more.
func (c *comparison) fillerOf(path contain.Path, reader *part) *part {
	for _, p := range append([]*part{reader}, c.newParts...) {
		for i := range path {
			if at := propsAt(p.props, path[:i+1]); at != nil && fillsIn(at) {
				return p
			}
		}
	}
	return nil
}

// difference is a place at which two objects differ, and the value of the second one there, if it has one.
type difference struct {
	at    []any // names of fields, and indexes of items
	value any
}

// differencesBetween are the places at which two objects differ, metadata aside, the outer ones first.
// A field that only one side has is a difference, and so is each field of an object that one side lacks, so that an
// update may set or leave out a part of it.
func differencesBetween(a, b any, at []any) []difference {
	if reflect.DeepEqual(a, b) {
		return nil
	}
	var out []difference
	x, isObject := a.(map[string]any)
	y, alsoObject := b.(map[string]any)
	if isObject && alsoObject {
		names := maps.Clone(x)
		maps.Copy(names, y)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if len(at) == 0 && (name == "metadata" || name == "apiVersion") {
				continue
			}
			here := append(slices.Clip(at), name)
			_, inA := x[name]
			value, inB := y[name]
			if inA && inB {
				out = append(out, differencesBetween(x[name], value, here)...)
				continue
			}
			if !inB {
				value = x[name]
			}
			out = append(out, difference{here, value})
			if inner, ok := value.(map[string]any); ok { // fields of an object that one of them lacks
				out = append(out, differencesBetween(map[string]any{}, inner, here)...)
			}
		}
		return out
	}
	l, isList := a.([]any)
	m, alsoList := b.([]any)
	if isList && alsoList && len(l) == len(m) {
		for i := range l {
			out = append(out, differencesBetween(l[i], m[i], append(slices.Clip(at), i))...)
		}
		return out
	}
	return []difference{{at, b}}
}

// schemaPath is the place as one of the schema.
// A number becomes the step of any item, and a name that only additionalProperties knows the step of any
// key.
func (d *difference) schemaPath(p *props) contain.Path {
	var out contain.Path
	for _, s := range d.at {
		step := contain.Step{Kind: contain.AnyItem}
		if name, ok := s.(string); ok {
			step = contain.Step{Kind: contain.Field, Name: name}
			if p != nil && extraOf(p) != nil {
				step = contain.Step{Kind: contain.AnyKey}
			}
		}
		out = append(out, step)
		p = propsAt(p, contain.Path{step})
	}
	return out
}

// objectsToTry are objects like the given one: itself, without what stands at the place, and with other values there.
// The object itself comes first: an update that changes nothing and is refused is the worst that can happen.
func (d *difference) objectsToTry(obj map[string]any) []map[string]any {
	out := []map[string]any{obj}
	for _, value := range append([]any{nil, d.value}, otherValues(d.value)...) {
		next := runtime.DeepCopyJSON(obj)
		if setAt(next, d.at, value) {
			out = append(out, next)
		}
	}
	return out
}

// setAt sets the value at the place, or removes it for nil, and makes the objects around it.
// It returns false if the place cannot be reached, such as a field of a text or an item behind the end of a list.
// Items are never removed, because the indexes of others would move.
func setAt(at any, path []any, value any) bool {
	for i, s := range path {
		last := i == len(path)-1
		switch s := s.(type) {
		case string:
			m, ok := at.(map[string]any)
			switch {
			case !ok:
				return false
			case last && value == nil:
				delete(m, s)
				return true
			case last:
				m[s] = runtime.DeepCopyJSONValue(value)
				return true
			case m[s] == nil:
				m[s] = map[string]any{}
			}
			at = m[s]
		case int:
			l, ok := at.([]any)
			switch {
			case !ok || s >= len(l):
				return false
			case last && value == nil:
				return false
			case last:
				l[s] = runtime.DeepCopyJSONValue(value)
				return true
			}
			at = l[s]
		}
	}
	return false
}

// otherValues are a few values like v.
// They are tried blindly: most are refused for another reason under both CRDs, which costs one update each.
func otherValues(v any) []any {
	switch v := v.(type) {
	case string:
		return []any{v + "x", "a", "b"}
	case int64:
		return []any{v + 1, v - 1}
	case float64:
		return []any{v + 1, v / 2}
	case bool:
		return []any{!v}
	case []any:
		return []any{[]any{}}
	case map[string]any:
		return []any{map[string]any{}}
	}
	return nil
}
