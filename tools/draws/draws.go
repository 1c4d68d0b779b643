// Package draws says how many random cases a test draws. `make test` draws a tenth of them, `make test-long` all, and SLUICE_ROUNDS=20
// twenty times as many. SLUICE_SEED says with which seed a test begins, so that a failure can be seen again and new cases can be tried.
// The package does not draw anything itself.
package draws

import (
	"iter"
	"math"
	"os"
	"strconv"
)

// usualShare is the share of the cases that a test draws unless SLUICE_ROUNDS says otherwise.
const usualShare = 0.1

// Count returns how many of a test's n cases are drawn, at least one. It panics if SLUICE_ROUNDS is not a positive number, because a
// test that drew fewer cases than somebody asked for would say more than it knows.
func Count(n int) int {
	return max(1, int(math.Round(float64(n)*roundsFactor())))
}

// Seeds are the seeds of a test that has n cases: Count(n) of them, from First on.
func Seeds(n int) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for seed := First(); seed < First()+uint64(Count(n)); seed++ { //nolint:gosec // a count is positive
			if !yield(seed) {
				return
			}
		}
	}
}

// First is the seed that tests begin with: SLUICE_SEED, or 0.
// It panics for anything else: a run that was meant to repeat a failure must not run with other seeds.
func First() uint64 {
	text := os.Getenv("SLUICE_SEED")
	if text == "" {
		return 0
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic("SLUICE_SEED is " + strconv.Quote(text) + ": it must be a whole number, at least 0") //nolint:forbidigo // a wrong setting of a test run
	}
	return seed
}

// All reports whether a test tries all of its cases, for those that cannot be counted.
func All() bool { return roundsFactor() >= 1 }

// Takes reports whether a test that goes through a list tries the case at index i: each tenth, beginning with First, or all.
// With SLUICE_ROUNDS above 1 it takes all, as with 1.
func Takes(i int) bool {
	step := max(1, int(math.Round(1/roundsFactor())))
	return (uint64(i)+First())%uint64(step) == 0 //nolint:gosec // an index and a step are positive
}

// roundsFactor is the share of the cases that is drawn, by SLUICE_ROUNDS. It is read at each call,
// because tests set the variable.
func roundsFactor() float64 {
	text := os.Getenv("SLUICE_ROUNDS")
	if text == "" {
		return usualShare
	}
	r, err := strconv.ParseFloat(text, 64)
	if err != nil || !(r > 0) || math.IsInf(r, 0) {
		panic("SLUICE_ROUNDS is " + strconv.Quote(text) + ": it must be a number above 0, such as 1 for all random cases or 20 for twenty times as many") //nolint:forbidigo // a wrong setting of a test run
	}
	return r
}
