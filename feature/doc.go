// Package feature decides which unstable parts of an API are open, and what happens to a request that uses a closed one.
//
// The steps: [Define] takes a component and its features (package api/v1alpha1) and the schemas of the resources that they gate,
// and returns a [Model]. [Model.ParseSettings] reads the component's ConfigMap. [Model.Resolve] decides for each feature whether it
// is open, and why. [States.Compile] turns that into an [Evaluator], and [Evaluator.Evaluate] judges one request. All of these
// values are immutable and safe for concurrent use.
//
// It promises:
//   - stored uses stay allowed (the ratchet), in every mode of disabling. An update that changes nothing, or metadata only, and a
//     write of a subresource, such as status and scale, are never refused or changed;
//   - dropping never removes or alters stored values;
//   - it reports all errors of a definition, of settings and of a request at once, with the setting that would help;
//   - work and memory are linear in the size of any object. It does not modify values that it gets.
//
// It does not decide where settings come from, or what follows from a decision: it knows no cluster, network or clock.
//
// # Uses
//
// A part is used if the field is present and not null; an empty string, list or object is a use. With values, a pattern or a match,
// only such values are uses. Every write in a version uses the whole version.
//
// # The ratchet
//
// The ratchet compares a use with the same place in the stored object: the same field, the same key of a map, the item with the
// same keys of a list of type map, the equal item of a list of type set. If items of a list have no identity, the place is the
// list: one use anywhere beneath it in the stored object allows all uses beneath it in the new one, because moved items look like
// new ones. Everywhere else the ratchet counts per use: a use beside an existing one, under another key, is a new use. So is one
// whose key was renamed, and one that was removed and comes back.
//
// With ratchet InUse the place must have used the part before. Then a field may change its value. An enum value must stay the same,
// because each value is a use of its own. A value that matched a pattern or a match may change to another one that matches. With
// InObject one use of any part of the feature in the stored object, in the version of the request, allows all uses. With Unchanged
// the value must equal the stored one (beneath a list without identities: one of them). A stored object uses a whole version if its
// managed fields say that more than metadata, status and scale was written in the version; with Unchanged, updates in a closed
// version may change only metadata.
//
// Clients can send managed fields (k8s.io/apimachinery/pkg/util/managedfields). So that nobody can claim a write that never
// happened, managed fields that add a write in a closed version are a new use of it. This holds for writes of the object in any
// version, and of its status. Users who can write the object can still remove managed fields: then the ratchet of the version is
// gone, and writes in it that passed before are refused.
package feature
