package compat

// Was this gap reported already? Several questions find the same gap, and a reader wants it once. For example, a removed field is a gap
// between v1 and v1, and again between v1beta1 and v1.

import "sluice.dev/schema/contain"

// gapKey identifies a gap, in whichever versions.
type gapKey struct {
	path, keyword, detail string
	harm                  contain.Harm
}

func keyOf(g *contain.Gap) gapKey { return gapKey{g.Path.String(), g.Keyword, g.Detail, g.Harm} }

// told are gaps that were reported already. The value is false if only odd objects meet the gap: others may still be reported.
// A gap of odd objects alone is one that only a spelling such as 1.0 for an integer meets. It must not hide the same
// gap of usual objects.
type told map[gapKey]bool

func (t told) addGaps(gaps ...contain.Gap) {
	for i := range gaps {
		k := keyOf(&gaps[i])
		t[k] = t[k] || !gaps[i].OddAlone
	}
}

func (t told) mergeKnown(o told) {
	for k, usual := range o {
		t[k] = t[k] || usual
	}
}

// hasGap reports whether the gap is known, or lies below something that is dropped.
func (t told) hasGap(g *contain.Gap) bool {
	usual, known := t[keyOf(g)]
	if known = usual || known && g.OddAlone; known || g.Harm != contain.Pruned {
		return known
	}
	for i := range g.Path {
		if t[gapKey{path: g.Path[:i+1].String(), keyword: "properties", harm: contain.Pruned}] {
			return true
		}
	}
	return false
}

// gapKeys returns the gaps as known ones. The result is empty, and not nil, for no gaps, so that others can be added.
func gapKeys(gaps []contain.Gap) told {
	out := make(told, len(gaps))
	out.addGaps(gaps...)
	return out
}
