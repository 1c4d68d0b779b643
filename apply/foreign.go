package apply

import (
	"fmt"
	"slices"
	"strings"
)

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
	const most = 5
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
	var parts []string
	for _, key := range keys[:min(len(keys), most)] {
		parts = append(parts, fmt.Sprintf("%s (%s)", key, first[key]))
	}
	if n := len(keys) - most; n > 0 {
		parts = append(parts, fmt.Sprintf("%d more", n))
	}
	return "annotations of other tools that have no effect here: " + strings.Join(parts, ", ") + "; an object with one that speaks of deletion is never deleted"
}

// sparedNote lists objects that the apply does not write because of an annotation; empty if there are none.
func (p *Plan) sparedNote() string {
	const most = 5
	var parts []string
	n := 0
	for i := range p.Items {
		if it := &p.Items[i]; it.Reason != "" {
			if n++; n <= most {
				parts = append(parts, fmt.Sprintf("%s: %s", it.ID, it.Reason))
			}
		}
	}
	if n > most {
		parts = append(parts, fmt.Sprintf("%d more", n-most))
	}
	if n == 0 {
		return ""
	}
	return "not written: " + strings.Join(parts, "; ")
}
