// Package guard judges changes of CustomResourceDefinitions at admission, whoever makes them: an update that package compat
// finds harmful is refused, and so is a deletion that would delete stored objects with the CRD.
//
// It promises that an update which leaves the spec alone, or changes no more of it than the CA bundle of a conversion
// webhook, is let through without being looked at; that what could not be decided follows the fail mode of the configuration,
// the lack of time and of permissions included; that refusals and warnings fit what the API server and its clients pass on;
// and that an operator with the permission for it can let one change through, which is recorded. It does not decide what is
// harmful, and it changes no object.
package guard
