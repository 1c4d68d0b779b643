// Package delivery keeps the objects of a source in a cluster, as objects of the kind Delivery ask for.
//
// It promises:
//
//   - Nothing waits for a fetch: a ResolutionRequest asks for the source, and its end queues the delivery again.
//   - The controller reads and writes delivered objects as the ServiceAccount that the delivery names, never as itself. Its own
//     account has none of these rights.
//   - A delivery that the preflights stop stays stopped, without another check or another event, until the source, the spec or the
//     annotation changes. The running objects stay as they are.
//   - The status and the inventory have everything that must be remembered, so that another process can continue.
//
// Packages requester, compat and apply decide how to fetch sources, which changes do harm, and how to apply objects.
package delivery
