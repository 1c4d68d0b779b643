// Package apply brings objects into a cluster: in order, by server-side apply, and checked before it changes anything. It records
// the objects, so that it can delete those that an app no longer has.
//
// It promises:
//
//   - It writes nothing before all preflights have run, and nothing at all if one of them fails.
//   - Namespaces and CustomResourceDefinitions come first. CRDs are served before the objects that follow. Admission configuration
//     comes last.
//   - An object that is up to date costs no write, and one list per kind and namespace. An object is up to date if our entry in
//     managedFields has the fields of the manifest and nobody has taken one of them.
//   - The inventory has every object before it is written, and until it is known to be gone. If an apply ends half-way, for
//     whatever reason, the same command resumes it.
//
// It does not fetch sources, read configuration or print; package internal/cli does. It does not decide whether a change of a CRD
// does harm; package compat does. It does not roll back.
package apply
