package regular

// interner numbers distinct sequences of int32 from 0, in the order in which they
// are first seen.
type interner struct {
	data  []int32
	start []int32 // data[start[id]:start[id+1]] is the sequence of id
	table []int32 // open addressing; id+1, 0 is free
}

// add returns the number of key and whether it is new. The key is copied.
func (t *interner) add(key []int32) (id int32, fresh bool) {
	if t.start == nil {
		t.start = make([]int32, 1, 64)
		t.table = make([]int32, 128)
	}
	mask := u64(len(t.table) - 1)
	slot := hash(key) & mask
	for ; t.table[slot] != 0; slot = (slot + 1) & mask {
		id := t.table[slot] - 1
		if equal(t.get(id), key) {
			return id, false
		}
	}
	id = i32(len(t.start) - 1)
	t.table[slot] = id + 1
	t.data = append(t.data, key...)
	t.start = append(t.start, i32(len(t.data)))
	if 2*len(t.start) > len(t.table) {
		t.grow()
	}
	return id, true
}

// get returns the sequence of id, which the caller must not change.
func (t *interner) get(id int32) []int32 {
	return t.data[t.start[id]:t.start[id+1]:t.start[id+1]]
}

func (t *interner) len() int { return max(0, len(t.start)-1) }

func (t *interner) grow() {
	t.table = make([]int32, 2*len(t.table))
	mask := u64(len(t.table) - 1)
	for id := range i32(t.len()) {
		slot := hash(t.get(id)) & mask
		for t.table[slot] != 0 {
			slot = (slot + 1) & mask
		}
		t.table[slot] = id + 1
	}
}

func hash(key []int32) uint64 {
	h := u64(len(key)) + 0x9e3779b97f4a7c15
	for _, v := range key {
		h = (h ^ u64(v)) * 0xff51afd7ed558ccd
		h ^= h >> 32
	}
	return h
}

// equal is slices.Equal, which is not inlined.
func equal(a, b []int32) bool {
	if len(a) != len(b) {
		return false
	}
	for i, v := range a {
		if v != b[i] {
			return false
		}
	}
	return true
}
