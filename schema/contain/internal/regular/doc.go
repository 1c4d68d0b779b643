// Package regular decides containment between sets of strings that a schema can
// describe: patterns in RE2 syntax, lengths, enumerations, prefixes, and their
// intersections, unions and complements.
//
// It promises:
//
//   - Exactness. A pattern denotes the strings that regexp.MatchString accepts,
//     which is how Kubernetes checks `pattern` (k8s.io/kube-openapi,
//     pkg/validation/validate, function Pattern): an unanchored search over runes,
//     with `^`, `$`, `\b` and `\B`, (?m), (?i) and (?s) meaning what they mean there. A length is
//     a number of runes, as for minLength and maxLength.
//   - Three answers. Proved and Refuted are never guesses; what cannot be decided
//     within the Budget is Unknown, with a reason. A refutation carries a witness.
//   - The same input gives the same answer, on every run and every machine.
//   - No panic and no run-away: work and memory are bounded by the Budget, and the
//     size of what is compiled by fixed limits.
//
// The strings that it speaks about are those that JSON can carry into Go: sequences
// of Unicode scalar values, encoded as valid UTF-8. Surrogates do not occur in them.
//
// It does not decide what a string means (formats, CEL), and it does not know
// schemas; its callers translate keywords into sets.
//
// docs/containment-patterns.md explains the decision procedure and why it is sound.
package regular
