package feature

// Which features does an object use, whether they are open or not? Commands that count uses in a cluster ask this, and
// processes that watch which features a request depends on.

// Inspector finds the features that objects use, open or not.
type Inspector struct {
	evaluator *Evaluator
	// versions has the parts that are whole versions, by resource. An object lists the versions of its writers, in whatever version it is
	// read.
	versions map[groupResource][]*gate
}

// Use is the use of one feature by an object.
type Use struct {
	Feature *Feature
	// Count is the number of uses.
	Count int
	// Path is the first place, fields and keys by name, items by index.
	Path string
}

// Inspector returns an inspector for all features of the model.
func (m *Model) Inspector() *Inspector {
	return m.InspectorFor(func(*Feature, *Target) bool { return true })
}

// InspectorFor returns an inspector that looks only for the targets for which take holds.
func (m *Model) InspectorFor(take func(*Feature, *Target) bool) *Inspector {
	in := &Inspector{versions: map[groupResource][]*gate{}}
	in.evaluator = &Evaluator{states: m.Resolve(nil, Runtime{}), programs: map[resourceVersion]*program{}}
	in.evaluator.compilePrograms(func(s *State, t *Target) bool {
		if !take(s.Feature, t) {
			return false
		}
		if t.WholeVersion {
			key := groupResource{t.Group, t.Resource}
			in.versions[key] = append(in.versions[key], &gate{state: s, target: t})
		}
		return !t.WholeVersion
	})
	return in
}

// Uses returns the features that an object uses, which was read in a version of a resource: whole versions first, the rest in their
// order in the object. An object uses a whole version if its managed fields say that it was written in it.
func (in *Inspector) Uses(group, version, resource string, object map[string]any) []Use {
	s := &inspection{byFeature: map[*Feature]int{}}
	for _, g := range in.versions[groupResource{group, resource}] {
		if g.target.writtenIn(object) {
			s.trail = []place{{name: "apiVersion"}}
			s.noteUse(g)
		}
	}
	s.trail = nil
	p := in.evaluator.programFor(group, version, resource)
	if p == nil {
		return s.uses
	}
	for _, n := range []*node{&p.drop, &p.check} {
		if n.hasUse(object) {
			n.visitUses(object, &s.trail, func(g *gate, _ any) { s.noteUse(g) })
		}
	}
	return s.uses
}

type inspection struct {
	uses      []Use
	byFeature map[*Feature]int
	trail     []place
}

// noteUse counts a use at the present place. The path is that of the first use of the feature.
func (s *inspection) noteUse(g *gate) {
	f := g.state.Feature
	i, ok := s.byFeature[f]
	if !ok {
		i = len(s.uses)
		s.byFeature[f] = i
		s.uses = append(s.uses, Use{Feature: f, Path: pathOf(s.trail)})
	}
	s.uses[i].Count++
}
