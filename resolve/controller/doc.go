// Package controller runs resolvers of package resolve in a cluster. A program of its own needs one call:
//
//	func main() { controller.Main(myResolver{}) }
//
// The resolver then answers the ResolutionRequests that name it in a label. It has what Sluice's own resolvers have, which run by the same call:
//
//   - Requests end in time, are canceled when they are deleted, and wait in queues that are fair to namespaces.
//   - Equal requests share one fetch, and content that cannot change is cached.
//   - Replicas share the work by Leases. A process that ends leaves what is not finished to the others, or to its next start.
//   - ConfigMaps are read as they change, and the schema of the parameters is published in one.
//   - Health, metrics, events, traces and a log in JSON tell how it is.
//
// [Main] also prints the manifests, with the rights that the process needs and no more. Package controller decides nothing about
// what a resolver fetches. [FromTekton] and [FromTektonParams] take resolvers that were written for Tekton's framework.
package controller
