package feature

// How are closed parts found in an object without a look at each feature? The paths of all closed targets of a version
// become one tree, and an object is walked along it once. For example, 200 gated fields of spec cost one lookup for
// each field that spec has.

import (
	"iter"
	"slices"

	"sluice.dev/api/v1alpha1"
)

// Evaluator judges requests by the features that are closed.
type Evaluator struct {
	states   *States
	programs map[resourceVersion]*program
	// versions are the gates of whole versions that rely on managed fields.
	versions map[groupResource][]*gate
	// tells is set if all uses are reported, also those that would be dropped or refused.
	tells bool
}

type resourceVersion struct {
	groupResource
	version string // empty for parts of any version
}

// program has the closed parts of one version of a resource. It drops parts before it judges the rest, as the API server mutates
// before it validates.
type program struct {
	drop, check node
	drops       bool
	checks      bool
	version     []*gate // those that gate the whole version
}

// node is a place in objects: a trie of the paths of all closed parts.
type node struct {
	gates  []*gate          // for which a value here may be a use
	fields map[string]*node // to fields and keys
	each   *node            // to items and entries
	step   Step             // that leads to each
}

// gate is a target of a closed feature.
type gate struct {
	state  *State
	target *Target
}

// Compile returns an evaluator of the closed features.
func (st *States) Compile() *Evaluator {
	return st.CompileFor(func(*Feature, *Target) bool { return true })
}

// CompileFor returns an evaluator of those closed targets for which take returns true, for processes that enforce only a part.
func (st *States) CompileFor(take func(*Feature, *Target) bool) *Evaluator {
	e := &Evaluator{states: st, programs: map[resourceVersion]*program{}, versions: map[groupResource][]*gate{}}
	e.compilePrograms(func(s *State, t *Target) bool { return !s.Open && take(s.Feature, t) })
	return e
}

// compilePrograms makes programs of the targets for which take holds.
func (e *Evaluator) compilePrograms(take func(s *State, t *Target) bool) {
	anyVersion := map[groupResource][]*gate{}
	byVersion := map[resourceVersion][]*gate{}
	for i := range e.states.list {
		s := &e.states.list[i]
		for j := range s.Feature.Targets {
			t := &s.Feature.Targets[j]
			key := resourceVersion{groupResource{t.Group, t.Resource}, t.Version}
			if !take(s, t) {
				continue
			}
			g := &gate{state: s, target: t}
			if spec := &s.Feature.Spec; t.WholeVersion && spec.WhenDisabled == v1alpha1.Reject && spec.Ratchet != v1alpha1.Unchanged && e.versions != nil {
				e.versions[key.groupResource] = append(e.versions[key.groupResource], g)
			}
			if t.Version == "" {
				anyVersion[key.groupResource] = append(anyVersion[key.groupResource], g)
			} else {
				byVersion[key] = append(byVersion[key], g)
			}
		}
	}
	for key, gates := range byVersion {
		e.programs[key] = newProgram(slices.Concat(gates, anyVersion[key.groupResource]), e.tells)
	}
	for key, gates := range anyVersion {
		e.programs[resourceVersion{groupResource: key}] = newProgram(gates, e.tells)
	}
}

// programFor returns the closed parts of a version of a resource, nil if there are none.
func (e *Evaluator) programFor(group, version, resource string) *program {
	key := resourceVersion{groupResource{group, resource}, version}
	if p := e.programs[key]; p != nil {
		return p
	}
	key.version = ""
	return e.programs[key]
}

// newProgram makes the program of gates. With tells, dropped parts are only reported, and so belong to the tree
// that is checked.
func newProgram(gates []*gate, tells bool) *program {
	p := &program{}
	for _, g := range gates {
		switch {
		case g.target.WholeVersion:
			p.version = append(p.version, g)
		case g.state.Feature.Spec.WhenDisabled == v1alpha1.Drop && !tells:
			p.drop.addGate(g.target.Path, g)
			p.drops = true
		default:
			p.check.addGate(g.target.Path, g)
			p.checks = true
		}
	}
	return p
}

// addGate adds a gate at the end of a path.
func (n *node) addGate(path Path, g *gate) {
	for _, s := range path {
		if s.Kind != Field {
			if n.each == nil {
				n.each, n.step = &node{}, s
			}
			n = n.each
			continue
		}
		if n.fields == nil {
			n.fields = map[string]*node{}
		}
		next := n.fields[s.Name]
		if next == nil {
			next = &node{}
			n.fields[s.Name] = next
		}
		n = next
	}
	n.gates = append(n.gates, g)
}

// ofItems and ofEntries report what each stands for; without a schema, both are true.
func (n *node) ofItems() bool   { return n.each != nil && n.step.Kind != Entries }
func (n *node) ofEntries() bool { return n.each != nil && n.step.Kind != Items }

// presentFields visits the fields that an object has and the node has a way to, in no order. It goes through the shorter of both.
func (n *node) presentFields(v map[string]any) iter.Seq2[string, *node] {
	return func(yield func(string, *node) bool) {
		if len(v) < len(n.fields) {
			for name := range v {
				if to := n.fields[name]; to != nil && !yield(name, to) {
					return
				}
			}
			return
		}
		for name, to := range n.fields {
			if _, ok := v[name]; ok && !yield(name, to) {
				return
			}
		}
	}
}

// hasUse reports whether there is a use of any gate in v. It allocates nothing.
func (n *node) hasUse(v any) bool {
	if v == nil {
		return false
	}
	for _, g := range n.gates {
		if g.target.countsAsUse(v) {
			return true
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for name, to := range n.presentFields(v) {
			if to.hasUse(v[name]) {
				return true
			}
		}
		if n.ofEntries() {
			for _, x := range v {
				if n.each.hasUse(x) {
					return true
				}
			}
		}
	case []any:
		return n.ofItems() && slices.ContainsFunc(v, n.each.hasUse)
	}
	return false
}
