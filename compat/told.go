package compat

import "sluice.dev/schema/contain"

// gapKey identifies a gap, in whichever versions.
type gapKey struct {
	path, keyword, detail string
	harm                  contain.Harm
}

func keyOf(g *contain.Gap) gapKey { return gapKey{g.Path.String(), g.Keyword, g.Detail, g.Harm} }

// told are gaps that were reported already.
type told map[gapKey]bool

func (t told) add(gaps ...contain.Gap) {
	for i := range gaps {
		t[keyOf(&gaps[i])] = true
	}
}

func (t told) merge(o told) {
	for k := range o {
		t[k] = true
	}
}

// has reports whether the gap is known, or lies below something that is dropped.
func (t told) has(g *contain.Gap) bool {
	if t[keyOf(g)] || g.Harm != contain.Pruned {
		return t[keyOf(g)]
	}
	for i := range g.Path {
		if t[gapKey{path: g.Path[:i+1].String(), keyword: "properties", harm: contain.Pruned}] {
			return true
		}
	}
	return false
}

func gapKeys(gaps []contain.Gap) told {
	out := make(told, len(gaps))
	out.add(gaps...)
	return out
}
