package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice.dev/internal/kapprules"
)

// Annotations on an object that say when it is written.
const (
	// AnnotationGroup has names of groups that the object is in, separated by commas.
	AnnotationGroup = "sluice.dev/group"
	// AnnotationAfter has names of groups: the object is written when all objects of them are written and ready.
	AnnotationAfter = "sluice.dev/after"

	// kapp's annotations; each may have a suffix after a dot, so that there can be several.
	kappGroup = "kapp.k14s.io/change-group"
	kappRule  = "kapp.k14s.io/change-rule"
)

// ordering is what an item says about when it is written.
type ordering struct {
	groups, after, before []string
}

// orderOf reads the order of an object, from its annotations and the bindings of kapp's configuration. notDone has what is not done.
func orderOf(content map[string]any, rules *kapprules.Rules) (o ordering, notDone []string, err error) {
	annotations, _ := metadataOf(content)["annotations"].(map[string]any)
	var texts []string
	for _, k := range slices.Sorted(maps.Keys(annotations)) {
		value, _ := annotations[k].(string)
		switch {
		case k == AnnotationGroup:
			o.groups = append(o.groups, names(value)...)
		case k == AnnotationAfter:
			o.after = append(o.after, names(value)...)
		case k == kappGroup || strings.HasPrefix(k, kappGroup+"."):
			o.groups = append(o.groups, filled(value, content))
		case k == kappRule || strings.HasPrefix(k, kappRule+"."):
			texts = append(texts, value)
		}
	}
	for _, g := range rules.Groups {
		if g.Matchers.Match(content) {
			o.groups = append(o.groups, filled(g.Name, content))
		}
	}
	for _, b := range rules.Orders {
		if b.Matchers.Match(content) {
			texts = append(texts, b.Rules...)
		}
	}
	for _, text := range texts {
		r, err := kapprules.ParseOrder(text)
		if err != nil {
			return o, nil, err
		}
		r.Group = filled(r.Group, content)
		if why := r.NotDone(); why != "" {
			notDone = append(notDone, why)
		} else if r.Before {
			o.before = append(o.before, r.Group)
		} else {
			o.after = append(o.after, r.Group)
		}
	}
	return o, notDone, nil
}

func names(text string) []string {
	var out []string
	for n := range strings.SplitSeq(text, ",") {
		if n = strings.TrimSpace(n); n != "" {
			out = append(out, n)
		}
	}
	return out
}

// filled expands {name}, {kind} and the like in a group's name (kapp pkg/kapp/diffgraph/change_group_name.go).
func filled(name string, content map[string]any) string {
	if !strings.Contains(name, "{") {
		return name
	}
	meta := metadataOf(content)
	text := func(m map[string]any, key string) string {
		s, _ := m[key].(string)
		return s
	}
	group, _, ok := strings.Cut(text(content, "apiVersion"), "/")
	if !ok {
		group = ""
	}
	spec, _ := content["spec"].(map[string]any)
	crd, _ := spec["names"].(map[string]any)
	return strings.NewReplacer(
		"{api-group}", group, "{kind}", text(content, "kind"), "{name}", text(meta, "name"), "{namespace}", text(meta, "namespace"),
		"{crd-group}", text(spec, "group"), "{crd-kind}", text(crd, "kind"),
	).Replace(name)
}

// arrange finds what each item is written after, and moves items behind that: into a later stage, or a later step of their own. Nothing
// moves namespaces and definitions, which all else needs.
func (p *Plan) arrange() error {
	members := map[string][]*Item{}
	some := false
	for i := range p.Items {
		it := &p.Items[i]
		some = some || len(it.order.after)+len(it.order.before) > 0
		for _, g := range it.order.groups {
			members[g] = append(members[g], it)
		}
	}
	if !some {
		return nil
	}
	// A group may be after itself as a whole; of one object that means nothing.
	after := map[*Item][]*Item{}
	link := func(it, other *Item) {
		if it != other && !slices.Contains(after[it], other) {
			after[it] = append(after[it], other)
			it.after = append(it.after, other.ID)
		}
	}
	for i := range p.Items {
		it := &p.Items[i]
		for _, g := range it.order.after {
			for _, other := range members[g] {
				link(it, other)
			}
		}
		for _, g := range it.order.before {
			for _, other := range members[g] {
				link(other, it)
			}
		}
	}
	const (
		open = 1 + iota
		done
	)
	state := map[*Item]int{}
	var place func(it *Item, way []string) error
	place = func(it *Item, way []string) error {
		way = append(way, it.String())
		switch state[it] {
		case done:
			return nil
		case open:
			first := slices.Index(way, it.String())
			return it.fail(fmt.Errorf("the order of objects is a circle: %s", strings.Join(way[first:], " after ")))
		}
		state[it] = open
		own := it.Stage
		for _, other := range after[it] {
			if err := place(other, way); err != nil {
				return err
			}
			if cmp.Or(cmp.Compare(it.Stage, other.Stage), cmp.Compare(it.step, other.step)) <= 0 {
				it.Stage, it.step = other.Stage, other.step+1
			}
		}
		if own == StageDefinitions && it.Stage != own {
			return it.fail(errors.New("is to be written after objects that need namespaces and definitions, and these come first"))
		}
		state[it] = done
		return nil
	}
	var errs []error
	for i := range p.Items {
		if err := place(&p.Items[i], nil); err != nil {
			errs = append(errs, err)
			break
		}
	}
	return errors.Join(errs...)
}

// steps gives the steps of a stage, in their order; at least one.
func (p *Plan) steps(s Stage) []int {
	out := []int{0}
	for i := range p.Items {
		if it := &p.Items[i]; it.Stage == s && !slices.Contains(out, it.step) {
			out = append(out, it.step)
		}
	}
	slices.Sort(out)
	return out
}

// awaited waits until what the items of a step are written after is ready.
func (a *Applier) awaited(ctx context.Context, p *Plan, s Stage, step int) error {
	ids := map[ID]bool{}
	for i := range p.Items {
		it := &p.Items[i]
		if it.Stage != s || it.step != step || it.Action == Unchanged {
			continue
		}
		for _, id := range it.after {
			ids[id] = true
		}
	}
	var list []*Item
	for i := range p.Items {
		if it := &p.Items[i]; ids[it.ID] && it.live != nil {
			list = append(list, it)
		}
	}
	if len(list) == 0 {
		return nil
	}
	ctx, cancel := a.patient(ctx, p)
	defer cancel()
	return impatient(ctx, a.waitFor(ctx, list))
}
