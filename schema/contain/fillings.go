package contain

// Which defaults differ at the place of the walk? For example, if both schemas fill in a list above it in different ways, an update finds other
// old values there than before.

import (
	"reflect"
	"slices"
)

// filledAt returns the defaults at a property of the walk's place, if the two schemas fill in different ones. If the new schema fills
// in nothing, an update finds no value, and no rule about updates is evaluated.
func (w *walker) filledAt(o, n place, name string) []filling {
	var out []filling
	for _, f := range w.fillings {
		if !w.opts.Work.Charge(weightOf(f.new) + weightOf(f.old)) { // the size of both values
			return out
		}
		if f.below {
			out = append(out, f)
			continue
		}
		after, _ := f.new.(map[string]any)
		before, _ := f.old.(map[string]any)
		f.new, f.old = after[name], before[name]
		_, filled := after[name]
		if _, f.had = before[name]; filled && !f.fillsSame() {
			out = append(out, f)
		}
	}
	if n.kind == declared && n.node.HasDefault {
		f := filling{from: len(w.path), new: w.opts.sharedLibrary().withDefault(n.node)}
		if f.had = o.kind == declared && o.node.HasDefault; f.had {
			f.old = w.opts.sharedLibrary().withDefault(o.node)
		}
		if !f.fillsSame() {
			out = append(out, f)
		}
	}
	return out
}

// eachPart goes with f to the properties that one side names, to all others, and to the items. Below, the walk knows which defaults differ above,
// and whether updates find the items in another way.
func (w *walker) eachPart(o, n place, f func(s Step, o, n place)) {
	before, names := w.fillings, declaredNames(o, n)
	defer func() { w.fillings = before }()
	for _, name := range names {
		s, a, b := Step{Field, name}, o.childPlace(name), n.childPlace(name)
		w.withStep(o, n, walkStep{Step: s}, func() {
			w.fillings = w.filledAt(a, b, name)
			f(s, a, b)
		})
		w.fillings = before
	}
	if correlatesDifferently(o, n) {
		w.moved++
		defer func() { w.moved-- }()
	}
	w.fillings = w.fillBelow()
	key, item := Step{Kind: AnyKey}, Step{Kind: AnyItem}
	w.withStep(o, n, walkStep{Step: key, except: names}, func() { f(key, o.restPlace(), n.restPlace()) })
	w.withStep(o, n, walkStep{Step: item}, func() { f(item, o.itemPlace(), n.itemPlace()) })
}

func (f filling) fillsSame() bool { return f.had && reflect.DeepEqual(f.old, f.new) }

// fillBelow returns the defaults at the items or values of the walk's place.
func (w *walker) fillBelow() []filling {
	out := slices.Clone(w.fillings)
	for i := range out {
		out[i].below = true
	}
	return out
}
