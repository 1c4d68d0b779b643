// Package apply brings objects into a cluster: in order, by server-side apply, checked before anything is changed, and
// recorded so that what an app no longer has can be deleted.
//
// It promises:
//
//   - Nothing is written before all preflights have run, and nothing at all where one of them fails.
//   - Namespaces and CustomResourceDefinitions come first, and CRDs are served before what follows; admission configuration
//     comes last.
//   - What is as it should be costs a list per kind and namespace, and no write. Whether it is, ownership says: our entry
//     in managedFields has the manifest's fields and nobody has taken one of them.
//   - Everything that an app may have in the cluster stands in its inventory before it is written, and until it is known to
//     be gone. If an apply ends half-way, however it ends, the same command resumes it.
//
// It does not fetch sources, read configuration or print; package internal/cli does. It does not decide what a change of a
// CRD harms; package compat does. It does not roll back.
package apply
