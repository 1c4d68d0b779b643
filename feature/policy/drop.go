package policy

// How does a policy remove what is closed? It writes a JSON patch, and a note into the object, which a second policy turns into a warning.
// For example, spec.timeout is removed, or gets back the stored value if only one of its values is gated.

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"sluice.dev/feature"
)

// dropPolicy adds a policy that removes closed parts, and one that warns about that. The first writes a note into the object, because a
// mutating policy cannot warn.
func (c *compiler) dropPolicy(name string, part int, d *draft) {
	note := NoteAnnotation(c.model.Component())
	if part > 1 {
		note += "-" + strconv.Itoa(part) // each writes its own anew
	}
	noted := "has(object.metadata) && type(object.metadata) == map && has(object.metadata.annotations) && type(object.metadata.annotations) == map && " +
		celString(note) + " in object.metadata.annotations"
	c.groupOf[name] = d.group
	mutation := d.writePatch(note, noted, nil, "")
	c.set.addMutating(c.objectMeta(name, d.group), admissionregistrationv1.MutatingAdmissionPolicySpec{
		FailurePolicy:      new(admissionregistrationv1.Fail),
		ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
		ParamKind:          c.paramKind(),
		MatchConstraints:   matchConstraints(d.group),
		MatchConditions:    d.matchConditions(noted),
		Variables:          d.apiVariables(),
		Mutations: []admissionregistrationv1.Mutation{{
			PatchType: admissionregistrationv1.PatchTypeJSONPatch,
			JSONPatch: &admissionregistrationv1.JSONPatch{Expression: mutation},
		}},
	}, c.paramRef())
	c.tellDropped(d.group, note)
}

// tellDropped adds a note to those that the warning policy of a resource reads. The first note also adds that policy.
func (c *compiler) tellDropped(g *group, note string) {
	const annotations = "object.metadata.annotations"
	name := c.policyName(&group{apiGroup: g.apiGroup, resource: g.resource, version: g.version, kind: "dropped"}, 1)
	at := slices.IndexFunc(c.set.Validating, func(p admissionregistrationv1.ValidatingAdmissionPolicy) bool { return p.Name == name })
	if at < 0 {
		at = len(c.set.Validating)
		m := c.objectMeta(name, g)
		m.Annotations[GatesAnnotation], m.Annotations[TellsAnnotation] = "", "true"
		c.set.addValidating(m, admissionregistrationv1.ValidatingAdmissionPolicySpec{FailurePolicy: new(admissionregistrationv1.Ignore), MatchConstraints: matchConstraints(g)},
			nil, admissionregistrationv1.Warn, admissionregistrationv1.Audit)
	}
	v := &c.set.Validating[at]
	there := celString(note) + " in " + annotations
	v.Spec.Validations = append(v.Spec.Validations, admissionregistrationv1.Validation{
		Expression:        "!(" + there + ")",
		Message:           "parts that need a feature which is off were dropped",
		MessageExpression: there + " ? 'dropped ' + " + annotations + "[" + celString(note) + "] : ''",
	})
	var ways []string
	for _, validation := range v.Spec.Validations {
		ways = append(ways, strings.TrimSuffix(strings.TrimPrefix(validation.Expression, "!("), ")"))
	}
	v.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "dropped", Expression: joinAnd(isMap("object"), "has(object.metadata)", isMap("object.metadata"),
		"has("+annotations+")", isMap(annotations), joinOr(ways...))}}
	gates := strings.Trim(v.Annotations[GatesAnnotation]+","+c.objectMeta(name, g).Annotations[GatesAnnotation], ",")
	v.Annotations[GatesAnnotation] = gates
	for i := range c.set.ValidatingBindings {
		if b := &c.set.ValidatingBindings[i]; b.Name == name {
			b.Annotations[GatesAnnotation] = gates
		}
	}
}

// writePatch writes the patch: deeper places first, and later items before earlier ones, so that the places stay valid. Targets with the
// same path remove the same value, once. It is about all units, or some of them; a suffix distinguishes its variables from others.
func (d *draft) writePatch(note, noted string, some []int, suffix string) string {
	type spot struct {
		path  feature.Path
		reset any
		units []int
	}
	var spots []*spot
	for i := range d.group.units {
		if some != nil && !slices.Contains(some, i) {
			continue
		}
		path, reset := d.group.units[i].target.Path, d.group.units[i].target.Reset
		at := slices.IndexFunc(spots, func(s *spot) bool { return s.path.String() == path.String() && s.reset == reset })
		if at < 0 {
			at = len(spots)
			spots = append(spots, &spot{path: path, reset: reset})
		}
		spots[at].units = append(spots[at].units, i)
	}
	slices.SortStableFunc(spots, func(a, b *spot) int { return cmp.Compare(len(a.path), len(b.path)) })
	var lists, puts []string
	name := func() string { return fmt.Sprintf("d%d%s", len(lists)+len(puts), suffix) }
	spots = slices.DeleteFunc(spots, func(s *spot) bool {
		if s.reset != nil {
			taken := d.addTaken(name(), s.units)
			puts = append(puts, d.patchPerPointer(taken, "JSONPatch{op: 'replace', path: p, value: "+celLiteral(s.reset)+"}"))
			return true
		}
		put := d.storedReplacement(s.units)
		if put != "" {
			// The path is one of fields: there is one place or none.
			taken := d.addTaken(name(), s.units)
			puts = append(puts, fmt.Sprintf("(%s.size() == 0 ? [] : %s == null ? [JSONPatch{op: 'remove', path: %s[0]}] : [JSONPatch{op: 'replace', path: %s[0], value: %s}])", taken, put, taken, taken, put))
		}
		return put != ""
	})
	for _, s := range spots {
		lists = append(lists, d.addTaken(name(), s.units))
	}
	// Stored values are restored in fields first. Removals from lists do not move fields, and the objects around them still exist.
	puts = append(puts, "")
	removed := d.addVariable("removed"+suffix, "["+strings.Join(lists, ", ")+"].flatten().reverse()")
	ops := strings.Join(puts, " + ") + d.patchPerPointer(removed, "JSONPatch{op: 'remove', path: p}")
	at := celString("/metadata/annotations/" + strings.ReplaceAll(strings.ReplaceAll(note, "~", "~0"), "/", "~1"))
	text := clippedText(variableRef("message"), 2000)
	ops += " + (" + variableRef("message") + " != '' ? (has(object.metadata.annotations) ? [] : [JSONPatch{op: 'add', path: '/metadata/annotations', value: {}}]) + [JSONPatch{op: 'add', path: " + at + ", value: " + text + "}]" +
		" : " + noted + " ? [JSONPatch{op: 'remove', path: " + at + "}] : [])"
	return ops
}

// patchPerPointer lists a patch for each of some pointers, which it has as p.
func (d *draft) patchPerPointer(pointers, one string) string {
	each := ".map(p, " + one + ")"
	if d.pieces {
		return d.overEntries(pointers, feature.Items, 0) + ".map(c, c" + each + ").flatten()"
	}
	return pointers + each
}

// addTaken adds the variable of what units of one path take out, as JSON pointers. Several lists of them are variables too.
func (d *draft) addTaken(name string, units []int) string {
	var parts []string
	for _, n := range units {
		u := &d.group.units[n]
		for i, s := range u.ways {
			w := &walker{shape: s, emitter: d.emitter, id: strconv.Itoa(n), pointer: true, limit: d.limits[n]}
			if i > 0 {
				w.id += "_" + strconv.Itoa(i)
			}
			parts = append(parts, "("+d.valid[n]+") ? [] : ("+w.usePlaces()+")")
		}
	}
	if len(parts) == 1 {
		return d.addVariable(name, parts[0])
	}
	for i, part := range parts {
		parts[i] = d.addVariable(fmt.Sprintf("%sw%d", name, i), part)
	}
	all := "[" + strings.Join(parts, ", ") + "].flatten()"
	if len(units) > 1 { // no two forms of a unit find the same place, and what distinct costs grows with the square of the number
		all += ".distinct()"
	}
	return d.addVariable(name, all)
}

// storedReplacement writes the stored value that replaces the closed value at the path of some units. It is empty if none of them restores one.
func (d *draft) storedReplacement(units []int) string {
	for _, n := range units {
		t, s := d.group.units[n].target, &d.group.units[n].shape
		if !t.Narrowed() && !s.exact || s.loop < len(t.Path) {
			continue
		}
		return d.valueAt(true, t.Path)
	}
	return ""
}
