package regular

// The conversions below lose nothing. States, nodes, instructions and sets are numbered
// with int32 because tables of them are what takes the memory; their numbers are
// bounded by maxSteps, maxStates and the limits of Compile, all far below 1<<31.

// i32 narrows a number or an index of that kind.
func i32[T int | uint32](n T) int32 {
	return int32(n)
}

// u64 takes the bits of n for a hash or a generator of numbers.
func u64[T int | int32](n T) uint64 {
	return uint64(n)
}

// below returns a number from 0 to n-1 that depends on bits.
func below(bits uint64, n int) int {
	return int(bits % u64(n)) //nolint:gosec // less than n
}

// context reads the context bits from the key of a state.
func context(key []int32) uint8 {
	return uint8(key[0]) //nolint:gosec // there are three bits
}
