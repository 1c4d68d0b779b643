// Package delivery keeps in a cluster what stands in a source, as objects of the kind Delivery ask for.
//
// It promises:
//
//   - Nothing waits for a fetch: the source is asked for by a ResolutionRequest, and its end brings the delivery back.
//   - Everything that is delivered is read and written as the ServiceAccount that the delivery names, never as the
//     controller, which may do none of it.
//   - What the preflights stop stays stopped, without another look or another event, until the source, the spec or the
//     annotation changes. What runs is untouched by that.
//   - All that has to be remembered stands in the status and in the inventory: another process goes on where one has ended.
//
// How sources are fetched, what harms, and how objects are applied are for packages requester, compat and apply.
package delivery
