package apply

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/feature"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/crdcheck"
	"sluice.dev/report"
)

// This file looks for the uses of closed features in the objects of a plan. The evaluator that the policies and the webhook follow
// decides, so a plan that passes here is not refused by them later, unless something changes meanwhile.

// featureGates finds gated parts of APIs that the source uses while their features are off. Definitions, settings and schemas are
// those of the cluster after the apply. A stored object may keep using a part, as far as the ratchets of the features allow. So may
// users who have opted in.
func featureGates(ctx context.Context, p *PreflightInput) ([]report.CRD, error) {
	touched := selectFrom(p.Plan.Items, func(it *Item) bool { return it.Action != Unchanged })
	if len(touched) == 0 {
		return nil, nil
	}
	p.Progress(Event{Phase: "looking for features that are off", Total: len(touched)})
	g := &gateCheck{client: p.Applier.client, plan: p.Plan, now: p.Applier.opts.Now}
	if err := g.loadFeatures(ctx, touched); err != nil || len(g.components) == 0 {
		return nil, err
	}
	uses := make([][]gatedUse, len(touched))
	err := forEachIndex(ctx, len(touched), cap(g.client.slots), func(ctx context.Context, i int) error {
		var err error
		uses[i], err = g.usesInItem(ctx, touched[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	return g.findingsOfUses(slices.Concat(uses...)), nil
}

// gatedUse is a use of a feature that is off.
type gatedUse struct {
	item *Item
	// path is the path in the object; what is the problem there.
	path, what string
	severity   report.Severity
}

// usesInItem finds the uses in one object. It reads the stored object only if the manifest has a use that the stored object could
// excuse.
func (g *gateCheck) usesInItem(ctx context.Context, it *Item) ([]gatedUse, error) {
	var out []gatedUse
	for _, c := range g.components {
		r := feature.Request{Group: it.Group, Version: it.Version, Resource: it.mapping.resource}
		if !c.gates[schema.GroupResource{Group: r.Group, Resource: r.Resource}] {
			continue
		}
		var err error
		if r.Object, err = it.decodeContent(); err != nil {
			return nil, err
		}
		if d := c.evaluator.Evaluate(&r); d.Rejected.Count+d.Dropped.Count+d.Warned.Count == 0 {
			continue
		}
		if it.now.live != nil && !it.now.live.terminating {
			if r.Old, err = g.client.fetchObject(ctx, it.mapping.objectPath(&it.Object)); err != nil {
				return nil, err
			}
			// An apply does not change fields that the manifest omits.
			r.Object, _ = overlayOnStored(r.Old, r.Object).(map[string]any)
		}
		var asking error
		r.OptedIn = func(gate string) bool {
			ok, err := g.optedIn(ctx, c, gate, it.Namespace)
			asking = cmp.Or(asking, err)
			return ok
		}
		d := c.evaluator.Evaluate(&r)
		if asking != nil {
			return nil, asking
		}
		out = append(out, usesOf(it, &d)...)
	}
	return out, nil
}

// usesOf lists the uses of features in a decision about an object.
func usesOf(it *Item, d *feature.Decision) []gatedUse {
	var out []gatedUse
	for _, kind := range []struct {
		violations *feature.Violations
		severity   report.Severity
		then       string
	}{
		{&d.Rejected, report.Fail, ""},
		{&d.Dropped, report.Warn, "; it is left out until then"},
		{&d.Warned, report.Warn, "; it passes with a warning"},
	} {
		for v := range eachOf(kind.violations.List) {
			out = append(out, gatedUse{item: it, path: v.Path, what: v.What() + kind.then, severity: kind.severity})
		}
		if more := kind.violations.Count - len(kind.violations.List); more > 0 {
			out = append(out, gatedUse{item: it, what: fmt.Sprintf("%d more uses of features that are off", more), severity: kind.severity})
		}
	}
	return out
}

// overlayOnStored lays a manifest over the stored object, so that the result has the fields that the manifest leaves to the server and
// to others. A list item whose fields all equal those of a stored item becomes that stored item. The manifest replaces all other
// items.
func overlayOnStored(stored, manifest any) any {
	return overlayOn(stored, manifest, func(s, m []any, i int) any { return storedItem(s, i, m[i], len(s)*len(m) <= maxSearched) })
}

// maxSearched bounds the pairs of items that storedItem compares to find items that have moved.
const maxSearched = 100_000

// storedItem returns the stored item that has all fields of the item, first at the same index; the item itself if there is none.
func storedItem(stored []any, i int, item any, search bool) any {
	if i < len(stored) && isContainedIn(item, stored[i]) {
		return stored[i]
	}
	if search {
		if j := slices.IndexFunc(stored, func(s any) bool { return isContainedIn(item, s) }); j >= 0 {
			return stored[j]
		}
	}
	return item
}

// isContainedIn reports whether another value has all fields of a value.
func isContainedIn(part, whole any) bool {
	switch p := part.(type) {
	case map[string]any:
		w, ok := whole.(map[string]any)
		if !ok {
			return false
		}
		for k, v := range p {
			have, there := w[k]
			if !there || !isContainedIn(v, have) {
				return false
			}
		}
		return true
	case []any:
		w, ok := whole.([]any)
		return ok && slices.EqualFunc(p, w, isContainedIn)
	}
	return equalJSON(part, whole)
}

// maxUsers is the number of objects that a finding names after the first.
const maxUsers = 5

// findingsOfUses makes one finding of all equal uses in one version of a resource.
//
// A source may use the same part in many objects, for which one finding is enough: it names the first object with its position, and
// some more by name.
func (g *gateCheck) findingsOfUses(uses []gatedUse) []report.CRD {
	type key struct{ crd, version, what string }
	by := map[key][]gatedUse{}
	var order []key
	for _, u := range uses {
		k := key{schema.GroupResource{Group: u.item.Group, Resource: u.item.mapping.resource}.String(), u.item.Version, u.what}
		if by[k] == nil {
			order = append(order, k)
		}
		by[k] = append(by[k], u)
	}
	crds := map[string][]report.Finding{}
	for _, k := range order {
		list := by[k]
		first := list[0]
		f := report.Finding{
			Rule: crdcheck.RuleFeature, Outcome: report.Violation, Severity: first.severity, CRD: k.crd, Version: k.version,
			Message: first.item.String() + ": " + k.what,
		}
		if first.path != "" {
			f.Path = "." + first.path
		}
		if first.item.File != "" {
			f.Position = &report.Position{File: first.item.File, Line: first.item.Line}
		}
		if len(list) > 1 {
			f.After = "also " + brief.First(list[1:], maxUsers, ", ", func(u gatedUse) string { return strings.TrimSpace(u.item.String() + " " + u.path) })
		}
		crds[k.crd] = append(crds[k.crd], f)
	}
	for name, list := range g.doubts {
		crds[name] = append(crds[name], list...)
	}
	var out []report.CRD
	for _, name := range slices.Sorted(maps.Keys(crds)) {
		verdict := report.IsUndecided
		if slices.ContainsFunc(crds[name], func(f report.Finding) bool { return f.Outcome == report.Violation }) {
			verdict = report.Unsafe
		}
		out = append(out, report.CRD{Name: name, Verdict: verdict, Findings: crds[name]})
	}
	return out
}
