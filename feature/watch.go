package feature

// Watched returns the same states, which tell what is asked of them. Before [States.State], [States.All], [States.OpenFor] or
// an evaluator that is made of them answers, watch is called; what it returns, unless that is nil, is called with each gate
// that the answer depends on: a feature, and if it is open but for what it requires, that as well; of an evaluator, the
// features that the new object uses. A gate that there is not is told too. The states may be used by several goroutines at a
// time if watch may.
func (st *States) Watched(watch func() func(gate string)) *States {
	out := *st
	out.watch = watch
	return &out
}

// watching returns who is to be told what is asked; nil where nobody is.
func (st *States) watching() func(gate string) {
	if st.watch == nil {
		return nil
	}
	return st.watch()
}

// asked tells that a gate is asked for.
func (st *States) asked(gate string) {
	if tell := st.watching(); tell != nil {
		st.tell(gate, tell, map[string]bool{})
	}
}

func (st *States) tell(gate string, tell func(gate string), told map[string]bool) {
	if told[gate] {
		return
	}
	told[gate] = true
	tell(gate)
	s := st.byGate[gate]
	if s == nil || !s.Feature.Free() || !s.own && !s.ownLifted {
		return
	}
	for _, name := range s.Feature.Spec.Requires {
		st.tell(name, tell, told)
	}
}

// askedAll tells that all are asked for.
func (st *States) askedAll() {
	tell := st.watching()
	if tell == nil {
		return
	}
	told := map[string]bool{}
	for i := range st.list {
		st.tell(st.list[i].Feature.Spec.Gate, tell, told)
	}
}

// askedBy tells of the features that decide about a request.
func (st *States) askedBy(r *Request) {
	tell := st.watching()
	if tell == nil || r.Subresource != "" || r.Object == nil {
		return
	}
	told := map[string]bool{}
	for _, u := range st.model.Inspector().Uses(r.Group, r.Version, r.Resource, r.Object) {
		st.tell(u.Feature.Spec.Gate, tell, told)
	}
	for _, f := range st.model.features {
		for i := range f.Targets {
			if t := &f.Targets[i]; t.WholeVersion && t.Group == r.Group && t.Resource == r.Resource && t.Version == r.Version {
				st.tell(f.Spec.Gate, tell, told)
			}
		}
	}
}
