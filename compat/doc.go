// Package compat compares two versions of a CustomResourceDefinition and finds the harm of the step from one to the other: to
// stored objects, to writers, to readers, and to clients of the API.
//
// It promises that a finding of harm to objects has an object as witness, which the API server's own code has confirmed (packages
// contain and upstream). A change that was neither proven safe nor shown to be harmful is always reported, as undecided. The same
// input gives the same findings in the same order. Rules are data: [Rules] lists them with the reason for each and the way out, and
// docs/rules.md is generated from that list.
//
// It does not read files or clusters, and it does not decide which findings fail a check. Severities are the defaults of the
// levels; the caller adds configuration, suppressions and positions in files.
package compat

//go:generate go test . -run TestDocs -update
