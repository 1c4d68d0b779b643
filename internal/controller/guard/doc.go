// Package guard judges changes of CustomResourceDefinitions at admission, by every client. It refuses an update that package compat
// finds harmful, and a deletion that would delete stored objects with the CRD.
//
// It promises:
//
//   - It allows updates that do not change the spec, or only the CA bundle of a conversion webhook, without a check.
//   - If it could not decide, for instance for lack of time or permissions, the fail mode of the configuration decides.
//   - Refusals and warnings fit the limits of the API server and its clients.
//   - An operator with the permission can let one change through, and an event records it.
//
// It does not decide which changes do harm, and it changes no object.
package guard
