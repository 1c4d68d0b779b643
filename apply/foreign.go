package apply

import (
	"fmt"
	"slices"
	"strings"

	"sluice.dev/internal/brief"
)

// This file says what the annotations of other tools, as [marksOf] reads them, mean for a plan: which objects it spares, and which
// annotations it has to tell the user about. For example, an object with kustomize.toolkit.fluxcd.io/reconcile: disabled is left
// alone, and a note names it.

// keptReason says why an object is not deleted.
func (m *marks) keptReason() string {
	return fmt.Sprintf("its annotation %s says that it stays", m.keptBy)
}

// reasonToSpare says why the apply does not write an item; empty if it does. l is the object in the cluster, nil for none.
func (m *marks) reasonToSpare(l *live) string {
	switch {
	case m.alone:
		return fmt.Sprintf("its annotation %s says that it is left alone", m.aloneBy)
	case l != nil && m.once:
		return fmt.Sprintf("its annotation %s says that it is not changed once it exists", m.onceBy)
	case l != nil && l.alone && slices.ContainsFunc(foreignLive, func(key string) bool { return strings.HasPrefix(l.aloneBy, key) }):
		return fmt.Sprintf("the annotation %s of the object in the cluster says that it is left alone", l.aloneBy)
	}
	return ""
}

// foreignNote lists annotations that Sluice does not understand; empty if there are none.
func (p *Plan) foreignNote() string {
	var keys []string
	first := map[string]ID{}
	for i := range p.Items {
		for _, key := range p.Items[i].marks.unknown {
			if _, told := first[key]; !told {
				first[key] = p.Items[i].ID
				keys = append(keys, key)
			}
		}
	}
	if len(keys) == 0 {
		return ""
	}
	parts := brief.First(keys, 5, ", ", func(key string) string { return fmt.Sprintf("%s (%s)", key, first[key]) })
	return "annotations of other tools that have no effect here: " + parts + "; an object with one that speaks of deletion is never deleted"
}

// sparedNote lists objects that the apply does not write because of an annotation; empty if there are none.
func (p *Plan) sparedNote() string {
	spared := slices.DeleteFunc(slices.Clone(p.Items), func(it Item) bool { return it.Reason == "" })
	if len(spared) == 0 {
		return ""
	}
	return "not written: " + brief.First(spared, 5, "; ", func(it Item) string { return fmt.Sprintf("%s: %s", it.ID, it.Reason) })
}
