package contain

// What becomes of a stored object that the new schema refuses? For example, an update may pass as long as it leaves the field alone.

import (
	"slices"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/celrule"
	"sluice.dev/schema/contain/internal/logic"
	"sluice.dev/schema/upstream"
)

// storedCandidates returns candidates in their stored form, for a gap whose witness is spared. They have the defaults of the old schema, and a
// rule that sees the stored value refuses it unchanged. If it is proven that there are none, every object is spared.
func (s *search) storedCandidates(p *pending) []any {
	fs := s.formulasFor(p)
	if parsed, err := s.opts.sharedLibrary().parseRule(p.rule); p.rule != "" && (err != nil || parsed.UsesOldSelf()) {
		refuses, ok := s.refusesUnchanged(p)
		if !ok {
			return nil
		}
		fs = s.formulasFor(p, refuses)
	} else if s.opts.sharedLibrary().defaultsText(s.oldRoot.node) == "" {
		return nil
	}
	fs = append(fs, s.old.hasAllDefaults(s.oldRoot))
	if p.spared = s.provesNone(fs); p.spared {
		return nil
	}
	return s.solveBriefly(4, fs...)
}

// hasAllDefaults is true of the values at p that have all defaults of the old schema, as stored values do.
func (t *translator) hasAllDefaults(p place) logic.Formula {
	if p.kind != declared || p.whole || t.opts.sharedLibrary().defaultsText(p.node) == "" { // whole: in metadata
		return logic.True
	}
	var out logic.And
	for _, c := range p.node.Properties {
		if c.Node.HasDefault && (!p.hasMeta() || !isMeta(c.Name)) {
			out = append(out, logic.Has{Name: c.Name})
		}
	}
	return append(out, p.partsSatisfy(t.hasAllDefaults)...)
}

// worstFate returns the worst fate that is not ruled out for an object that the gap refuses. If it is proven that no object fares worse, it
// is the witness's own fate.
func (s *search) worstFate(p *pending, ratchets bool) Fate {
	fate := p.gap.Witness.Fate()
	switch {
	case p.gap.Harm != Refused && p.gap.Harm != RefusedTransition || fate == Lost || p.gap.OddAlone || p.asksForDefault():
		return fate
	case p.loses != nil && !s.provesNone(s.formulasFor(p, p.loses)):
		return Lost
	case fate == Stuck:
		return Stuck
	case fate == Spared && (p.spared || s.storedCandidates(p) == nil && p.spared):
		return Spared
	case ratchets && s.alwaysRatchets(p) && !s.mayFail(p):
		return Tolerated
	}
	return Stuck
}

// statusUnratcheted reports whether the API server ratchets updates, and does not ratchet writes of the status. Then a witness below .status, or of
// a rule, shows that such writes are refused: whatever else is wrong with an object, these errors stay.
func (s *search) statusUnratcheted() bool {
	k := s.opts.KubeVersion
	return s.opts.StatusWrites && upstream.RatchetsIn(k) && !upstream.RatchetsStatusIn(k)
}

// refusesUnchanged is for a rule that sees the stored value. It returns a formula that is true of the values that the rule refuses in
// every update that leaves them unchanged. It returns false if the rule does not see the stored value, or cannot be written in that
// way. Such refusals are not ratcheted.
func (s *search) refusesUnchanged(p *pending) (logic.Formula, bool) {
	_, n, correlated := s.placesAt(p.gap.Path)
	if p.gap.Rule < 0 || !correlated || n.dark {
		return nil, false
	}
	r := &n.node.Rules[p.gap.Rule]
	parsed, err := s.opts.sharedLibrary().parseRule(r.Rule)
	if err != nil || !parsed.UsesOldSelf() {
		return nil, false
	}
	if !hasOptionalOldSelf(r) && parsed.AllowsUnchanged(n.node) {
		return logic.False, true
	}
	unchanged, ok := parsed.Unchanged(hasOptionalOldSelf(r))
	if !ok {
		return nil, false
	}
	return logic.Not(celrule.Translate(unchanged, s.opts.scopeOf(n, false))), true
}

// alwaysRatchets reports whether ratcheting tolerates the errors of the gap in every stored object. It does if an update finds the value, or
// one around it, again, and the value always equals itself (RatchetingSchemaValidator in
// k8s.io/apiextensions-apiserver/pkg/apiserver/validation; ratchetingOptions in pkg/apiserver/schema/cel).
func (s *search) alwaysRatchets(p *pending) bool {
	g := &p.gap
	parsed, err := s.opts.sharedLibrary().parseRule(p.rule)
	if p.rule != "" && (err != nil || parsed.UsesOldSelf()) {
		return false
	}
	switch g.Keyword {
	case "x-kubernetes-list-type", "x-kubernetes-list-map-keys": // checked only if the stored object satisfies them
		return true
	case "x-kubernetes-embedded-resource": // always checked
		return false
	}
	if s.sides[1].rootPlace().childPlace("metadata").namesObject(lastName(g.Path)) && len(g.Path) == 2 {
		return g.Path[0].Name == "metadata" // the name of a stored object never changes
	}
	if len(g.Path) == 0 || g.Path[0].Kind != Field || isMeta(g.Path[0].Name) {
		return false
	}
	return s.foundAgain(p)
}

// lastName is the name of the last step of a path; empty if that is no field.
func lastName(path Path) string {
	if len(path) == 0 {
		return ""
	}
	return path[len(path)-1].Name
}

// failing returns a formula that is true of the values that no ratcheting helps: the evaluation of the gap's rule is an error (Validator in
// k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel), or the value is of a type with which no apply can be merged. It returns false if
// that is not known, as of a rule that does not see the value alone.
func (s *search) failing(p *pending) (logic.Formula, bool) {
	n := placeAtPath(s.sides[1].rootPlace(), p.gap.Path)
	switch p.gap.Keyword {
	case "x-kubernetes-list-type":
		if n.isSetOfCompounds() {
			return someCompound, true
		}
		return logic.False, true
	case "type":
		if n.kind != declared || p.whole != nil || p.deeper {
			return nil, false
		}
		if n.node.IntOrString { // an apply merges any value there
			return logic.False, true
		}
		kinds, _ := typeKinds(n.node)
		return logic.AnyKinds(logic.AnyKind &^ (kinds | logic.Null)), true
	}
	if p.gap.Rule < 0 || n.kind != declared || p.gap.Rule >= len(n.node.Rules) {
		return nil, false
	}
	r := &n.node.Rules[p.gap.Rule]
	parsed, err := s.opts.sharedLibrary().parseRule(r.Rule)
	if err != nil || parsed.UsesOldSelf() || !s.opts.Work.Charge(int64(len(r.Rule))*unitsToTranslate) {
		return nil, false
	}
	return celrule.Failing(parsed, s.opts.scopeOf(n, hasOptionalOldSelf(r))), true
}

// someCompound is true of lists in which some item is an object, a list or null.
var someCompound = logic.Not(logic.Items{F: logic.Kinds(logic.String | logic.Number | logic.Bool)})

// isSetOfCompounds reports whether the values are sets whose items can be objects or lists. The API server takes such a CRD and such sets, but
// nothing can be applied to them: an apply finds the items of a set by their values, which must be scalars (structured-merge-diff, typed/helpers.go).
func (p place) isSetOfCompounds() bool {
	if p.kind != declared || p.node.ListType != "set" || p.node.Items == nil {
		return false
	}
	items := p.node.Items
	return items.Type == "object" || items.Type == "array" || items.Type == "" && !items.IntOrString
}

// mayFail reports whether it is not proven that failing is true of no object.
func (s *search) mayFail(p *pending) bool {
	fails, ok := s.failing(p)
	asked := p.rule != "" || p.gap.Keyword == "type" || p.gap.Keyword == "x-kubernetes-list-type"
	return asked && (!ok || !s.provesNone(s.formulasFor(p, fails)))
}

// failures returns candidates for a gap whose witness is tolerated: objects of which failing is true, so that they are stuck.
func (s *search) failures(p *pending) []any {
	if p.gap.Witness.Fate() != Tolerated || p.gap.OddAlone {
		return nil
	}
	fails, ok := s.failing(p)
	if !ok {
		return nil
	}
	return s.solveBriefly(8, s.formulasFor(p, fails)...)
}

// foundAgain reports whether an update finds the value of the gap, or one around it, again, and the value always equals itself.
func (s *search) foundAgain(p *pending) bool {
	g := &p.gap
	unreadable := g.Keyword == "type" || g.Keyword == "format" // a rule that reads the value is an error
	if unreadable && len(s.sides[1].Node.Rules) > 0 {
		return false
	}
	for i := range g.Path {
		o, n, correlated := s.placesAt(g.Path[:i+1])
		if !correlated {
			return false
		}
		otherType := i == len(g.Path)-1 && g.Keyword == "type" && p.whole == nil && !p.deeper
		if equalsItself(o, n, 0) || otherType && comparesOtherType(n) {
			return !unreadable || !s.seenByUpdates(g.Path)
		}
		if unreadable && len(n.node.Rules) > 0 {
			return false
		}
	}
	return false
}

// comparesOtherType reports whether ratcheting considers a value of another type than the declared one equal to itself.
func comparesOtherType(n place) bool {
	return n.node.Type == "object" || !n.preservesUnknown() && n.node.AdditionalBool == nil
}

// seenByUpdates reports whether a rule at the path or around it sees the stored value. Its refusals are not ratcheted.
func (s *search) seenByUpdates(path Path) bool {
	for i := range len(path) + 1 {
		_, n, _ := s.placesAt(path[:i])
		if n.kind == declared && slices.ContainsFunc(n.node.Rules, func(r schema.Rule) bool {
			parsed, err := s.opts.sharedLibrary().parseRule(r.Rule)
			return err != nil || parsed.UsesOldSelf()
		}) {
			return true
		}
	}
	return false
}

// placesAt returns both places at the path, and whether an update finds the old value there
// (CorrelatedObject in k8s.io/apiserver/pkg/cel/common).
func (s *search) placesAt(path Path) (o, n place, correlated bool) {
	o, n = s.oldRoot, s.sides[1].rootPlace()
	for _, step := range path {
		if n.kind != declared || step.Kind == AnyItem && !itemsFoundByKeys(o, n) {
			return o, n, false
		}
		o, n = o.stepPlace(step), n.stepPlace(step)
	}
	return o, n, n.kind == declared
}

// equalsItself reports whether ratcheting considers every value that is stored at o and read as n equal to itself. It does not if the
// value may have a field that n does not declare, or an item that is not found by its keys.
func equalsItself(o, n place, depth int) bool {
	if n.kind != declared || depth > schema.MaxDepth || n.preservesUnknown() || n.node.Embedded || n.node.AdditionalBool != nil {
		return false
	}
	for _, c := range n.node.Properties {
		if !equalsItself(o.childPlace(c.Name), n.childPlace(c.Name), depth+1) {
			return false
		}
	}
	if n.node.Additional != nil && !equalsItself(o.restPlace(), n.restPlace(), depth+1) {
		return false
	}
	if n.node.ListType != "map" {
		return true // a list is compared as a whole
	}
	return itemsFoundByKeys(o, n) && equalsItself(o.itemPlace(), n.itemPlace(), depth+1)
}

// itemsFoundByKeys reports whether each item of every list that is stored at o and read as n is found by its keys.
func itemsFoundByKeys(o, n place) bool {
	if o.kind != declared || n.kind != declared || n.node.Items == nil || o.node.Items == nil || !sameKeyNames(o.node, n.node) {
		return false
	}
	items := o.node.Items
	return items.Type == "object" && !items.Nullable && !slices.ContainsFunc(n.node.ListMapKeys, func(key string) bool {
		a, b := items.Property(key), n.node.Items.Property(key)
		return a == nil || b == nil || !findsItems(a, b) || !a.HasDefault && !items.IsRequired(key)
	})
}

// sameKeyNames reports whether both lists are of type map and have the same keys.
func sameKeyNames(o, n *schema.Node) bool {
	return o.ListType == "map" && n.ListType == "map" &&
		slices.Equal(slices.Sorted(slices.Values(o.ListMapKeys)), slices.Sorted(slices.Values(n.ListMapKeys)))
}

// findsItems reports whether a key, stored as a and read as b, is the same scalar on both sides.
func findsItems(a, b *schema.Node) bool {
	return !a.Nullable && !a.IntOrString && a.Type == b.Type && schema.SameDefault(a, b) && slices.Contains([]string{"string", "integer", "boolean"}, a.Type)
}
