package logic

// Has a scalar any value left? If it can be one of few, each is tried against all that is known. For example, an enum of a and b with a
// pattern ^c has none left. The search does not have to split anything to see that.

import "slices"

// manyCandidates bounds the remaining values of a scalar that are tried one by one.
const manyCandidates = 64

// scalarCandidates returns the remaining values of a scalar, if they are few.
func (s *Solver) scalarCandidates(st *state) ([]any, bool) {
	if st.triedAt == len(st.all)+1 {
		return st.tried, st.few
	}
	st.triedAt, st.tried, st.few = len(st.all)+1, nil, false
	var list []any
	switch st.kinds {
	case Bool:
		list = []any{true, false}
	case Int:
		if size := uint64(st.ints.Hi) - uint64(st.ints.Lo); size < manyCandidates { //nolint:gosec // two's complement makes the difference right
			for i := range int64(size) + 1 {
				list = append(list, st.ints.Lo+i)
			}
		}
	case String:
		for _, e := range st.enums {
			if !e.Neg && len(e.Values) <= manyCandidates {
				list = stringsOf(e.Values)
				if list == nil {
					list = []any{} // a string equals no other value
				}
				break
			}
		}
	case Null, Float, Array, Object, AnyKind, Number, NonNull:
	}
	if list != nil {
		st.tried, st.few = s.unrefusedValues(st, list), true
	}
	return st.tried, st.few
}

// stringsOf returns the strings among the values; nil if there are none.
func stringsOf(values []any) []any {
	var out []any
	for _, v := range values {
		if _, ok := v.(string); ok {
			out = append(out, v)
		}
	}
	return out
}

// unrefusedValues returns the values that no literal of st refuses.
func (s *Solver) unrefusedValues(st *state, list []any) []any {
	return slices.DeleteFunc(list, func(v any) bool { return s.isRefused(st, v) })
}

// knownScalar judges a statement about scalars by the few remaining values, or by the values that it names.
func (s *Solver) knownScalar(st *state, f Formula) (Truth, deps) {
	why := st.why | st.said[kindIndex(st.kinds)]
	if list, ok := s.scalarCandidates(st); ok {
		yes, no := true, true
		for _, v := range list {
			t := s.evalFormula(f, v)
			yes, no = yes && t == Yes, no && t == No
		}
		switch {
		case no:
			return No, why
		case yes:
			return Yes, 0
		}
		return Unsure, 0
	}
	if e, ok := f.(Enum); ok && st.kinds == String && len(e.Values) <= manyCandidates && len(s.unrefusedValues(st, stringsOf(e.Values))) == 0 {
		if e.Neg {
			return Yes, 0
		}
		return No, why
	}
	return Unsure, 0
}

// oneScalarLeft reports whether one kind of scalars is left.
func (st *state) oneScalarLeft() bool {
	return st.kinds == String || st.kinds == Bool || st.kinds == Int
}

// settleScalar checks whether a scalar has any remaining value.
func (s *Solver) settleScalar(st *state) bool {
	if !st.oneScalarLeft() {
		return true
	}
	if list, ok := s.scalarCandidates(st); ok && len(list) == 0 && !s.workSpent() {
		return s.recordClash(st.why | st.said[kindIndex(st.kinds)])
	}
	return true
}
