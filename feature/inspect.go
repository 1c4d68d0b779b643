package feature

// Inspector tells which features objects use, whether they are open or not.
type Inspector struct{ evaluator *Evaluator }

// Use is what an object uses of one feature.
type Use struct {
	Feature *Feature
	// Count is how often.
	Count int
	// Path is the first place, fields and keys by name, items by index.
	Path string
}

// Inspector returns an inspector for all features of the model.
func (m *Model) Inspector() *Inspector {
	e := &Evaluator{states: m.Resolve(nil, Runtime{}), programs: map[resourceVersion]*program{}}
	e.compile(func(*State, *Target, bool) bool { return true })
	return &Inspector{evaluator: e}
}

// Uses returns what an object uses, in the order in which it is found there. A whole version is used by an object whose
// managed fields say that it was written in it.
func (in *Inspector) Uses(group, version, resource string, object map[string]any) []Use {
	p := in.evaluator.program(group, version, resource)
	if p == nil {
		return nil
	}
	s := &inspection{byFeature: map[*Feature]int{}}
	for _, g := range p.version {
		if g.target.writtenIn(object) {
			s.trail = []place{{name: "apiVersion"}}
			s.note(g)
		}
	}
	s.trail = nil
	for _, n := range []*node{&p.drop, &p.check} {
		if n.used(object) {
			s.walk(n, object)
		}
	}
	return s.uses
}

type inspection struct {
	uses      []Use
	byFeature map[*Feature]int
	trail     []place
}

func (s *inspection) note(g *gate) {
	f := g.state.Feature
	i, ok := s.byFeature[f]
	if !ok {
		i = len(s.uses)
		s.byFeature[f] = i
		s.uses = append(s.uses, Use{Feature: f, Path: pathOf(s.trail)})
	}
	s.uses[i].Count++
}

func (s *inspection) walk(n *node, v any) {
	if v == nil {
		return
	}
	for _, g := range n.gates {
		if g.target.uses(v) {
			s.note(g)
		}
	}
	for c, next := range n.children(v) {
		s.trail = append(s.trail, c.place)
		s.walk(next, c.value)
		s.trail = s.trail[:len(s.trail)-1]
	}
}
