// Package migrate rewrites the stored objects of a CRD in its storage version, so that older versions can be removed from the CRD.
//
// It promises:
//
//   - A version is taken out of status.storedVersions only if every object was written after the API servers knew the storage version, and
//     if the spec of the CRD did not change meanwhile. If one object is refused, nothing is taken out.
//   - It changes nothing in an object but metadata.managedFields. What the API server does in every write it does here as well: it fills in
//     defaults, prunes, and runs admission.
//   - If it is killed, it continues where it was. The only state is a condition in the status of the CRD, which goes away in the write that
//     trims status.storedVersions.
//   - Its memory does not depend on the number of objects.
//
// It decides nothing about schemas, and it does not run conversion webhooks: the API server does.
package migrate
