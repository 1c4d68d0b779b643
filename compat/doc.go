// Package compat compares two versions of a CustomResourceDefinition and tells what harm the step from one to the other
// does: to stored objects, to those who write, to those who read, and to clients of the API as such.
//
// It promises that a finding of harm to objects carries an object as witness, confirmed by the API server's own code
// (packages contain and upstream); that what was neither proven safe nor shown to be harmful is told as undecided, never
// left out; and that the same input gives the same findings in the same order. Rules are data: [Rules] lists them with
// the reason for each and the way out, and docs/rules.md is made from that list.
//
// It does not read files or clusters, and it does not decide what fails a check: severities are the defaults of the
// levels; configuration, suppressions and positions in files are put in by the caller.
package compat

//go:generate go test . -run TestDocs -update
