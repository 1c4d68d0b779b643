// Package contain decides whether one CRD schema accepts every object that another one accepts, keeps every field, and fills in the
// same defaults. The answer is a proof, or an object that shows the contrary, or "unknown" with the construct that stopped the
// proof. docs/containment.md has the rule for each keyword and the reason why it is sound.
//
// The question is: is there an object that the old schema accepts and the new one does not? The package reads both schemas, with
// their validation rules, as formulas about JSON values (package internal/logic). It skips subtrees with equal hashes. For every
// keyword of the new schema that remains, the solver looks for a value that the old schema accepts in that place and the keyword
// refuses. If there is none, that is a proof. Otherwise the package completes the value to a whole object and runs it through the
// API server's own code (package schema/upstream). It never reports a witness that this code does not confirm.
//
// It does not decide what the difference means for users; package compat does.
package contain
