// Package feature decides which unstable parts of an API are open, and what becomes of a request that uses a closed one.
//
// The way through it: [Define] takes a component and its features (package api/v1alpha1) and the schemas of what they gate,
// and gives a [Model]; [Model.ParseSettings] reads the component's ConfigMap; [Model.Resolve] says of each feature whether
// it is open and why; [States.Compile] makes an [Evaluator] of that, and [Evaluator.Evaluate] judges one request. Each of
// the values is immutable and may be used by any number of goroutines.
//
// It promises:
//   - what a stored object already uses stays allowed (the ratchet), in every mode of disabling; an update that changes
//     nothing, or metadata only, and a write of a subresource, status and scale among them, are never refused or changed;
//   - dropping never removes or alters what is stored;
//   - all errors of a definition, of settings and of a request are told at once, with what to set;
//   - work and memory are linear in the size of the object, whatever is in it; values given to it are not modified.
//
// It does not decide how settings get here, or what is done with a decision: it knows no cluster, network or clock.
//
// # What is a use
//
// A part is used where the field is present and not null; an empty string, list or object is a use. Narrowed down by
// values, pattern or match, it is used where the value is such a one. A whole version is used by every write in it.
//
// # What the ratchet lets pass
//
// A use is compared with the same place in the stored object: the same field, the same key of a map, the item with the
// same keys of a list of type map, the equal item of a list of type set. Beneath a list whose items have no identity the
// place is that list: one use anywhere beneath it in the stored object lets pass all uses beneath it in the new one,
// because moved items cannot be told from new ones. Everywhere else the rule is per use: a use beside an existing one,
// under another key, is a new use, and so is one whose key was renamed, and one that is put back after it was removed.
//
// With ratchet InUse the place must have used the part before: a field may change its value then; an enum value must be
// the same one, because each value is a use of its own; what matched a pattern or a match may change to what matches it.
// With Unchanged the value must be equal to the one that stood there (beneath a list without identities: to one of them).
// A whole version is used by a stored object whose managed fields say that more of it than metadata, status and scale was
// written in the version; with Unchanged, updates in a closed version may change metadata only.
//
// Managed fields are what a client sends, if it sends any (k8s.io/apimachinery/pkg/util/managedfields). So that nobody can
// claim a write that never was, managed fields that say of a closed version what the stored ones did not are a new use of it,
// in writes of the object in whatever version and of its status. Who may write the object can still take from managed fields
// what they say: the ratchet of the version is gone then, and writes in it are refused that passed before.
package feature
