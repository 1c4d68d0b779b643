// Package contain decides whether one CRD schema accepts every object that another one accepts, keeps every field, and
// defaults alike. The answer is a proof, or an object that shows the contrary, or "unknown" with the construct that
// stopped the proof; docs/containment.md tells which rule is used for each keyword and why it is sound.
//
// The question is put as: is there an object that the old schema accepts and the new one does not? Both schemas, their
// validation rules included, are read as formulas about JSON values (package internal/logic). Subtrees with equal hashes
// are skipped; for every keyword of the new schema that remains, the solver looks for a value that the old schema
// accepts in that place and the keyword refuses. No value is a proof. A value is completed to a whole object and run
// through the API server's own code (package schema/upstream): what that code does not confirm is never reported as a
// counterexample.
//
// It does not decide what the difference means for users; package compat does.
package contain
