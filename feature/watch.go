package feature

// Which features does an answer depend on? Tests want to know, so that none changes its meaning when a default flips.
// For example, a test that asks for A, which requires B, depends on both while A is on.

// Watched returns the same states with an observer. Before [States.State], [States.All], [States.OpenFor] or an evaluator that is
// made of them answers, it calls watch. The function that watch returns, unless it is nil, is called with each gate that the answer
// depends on:
//
//   - a feature, even if it does not exist;
//   - the features that imply it, if it is not open by itself;
//   - the features that it requires, if it would be open without them;
//   - for an evaluator, the features that the new object uses.
//
// If watch is safe for concurrent use, the states are too.
func (st *States) Watched(watch func() func(gate string)) *States {
	out := *st
	out.watch = watch
	return &out
}

// currentWatcher returns who is to be told what is asked; nil if nobody is.
func (st *States) currentWatcher() func(gate string) {
	if st.watch == nil {
		return nil
	}
	return st.watch()
}

// tellAsked tells that a gate is asked for.
func (st *States) tellAsked(gate string) {
	if tell := st.currentWatcher(); tell != nil {
		st.tellGate(gate, tell, map[string]bool{})
	}
}

// tellGate tells of a gate and of those that its state depends on, each once. What a fixed feature requires does not
// matter.
func (st *States) tellGate(gate string, tell func(gate string), told map[string]bool) {
	if told[gate] {
		return
	}
	told[gate] = true
	tell(gate)
	s := st.byGate[gate]
	if s == nil || !s.Feature.Free() {
		return
	}
	implied := s.Feature.Spec.ImpliedBy
	if !s.own {
		for _, name := range implied {
			st.tellGate(name, tell, told)
		}
		if implied == nil {
			return
		}
	}
	for _, name := range s.Feature.Spec.Requires {
		st.tellGate(name, tell, told)
	}
}

// askedAll tells that all are asked for.
func (st *States) askedAll() {
	tell := st.currentWatcher()
	if tell == nil {
		return
	}
	told := map[string]bool{}
	for i := range st.list {
		st.tellGate(st.list[i].Feature.Spec.Gate, tell, told)
	}
}

// askedBy tells of the features that decide about a request.
func (st *States) askedBy(r *Request) {
	tell := st.currentWatcher()
	if tell == nil || r.Subresource != "" || r.Object == nil {
		return
	}
	told := map[string]bool{}
	for _, u := range st.model.Inspector().Uses(r.Group, r.Version, r.Resource, r.Object) {
		st.tellGate(u.Feature.Spec.Gate, tell, told)
	}
	for _, f := range st.model.features {
		for i := range f.Targets {
			if t := &f.Targets[i]; t.WholeVersion && t.Group == r.Group && t.Resource == r.Resource && t.Version == r.Version {
				st.tellGate(f.Spec.Gate, tell, told)
			}
		}
	}
}
