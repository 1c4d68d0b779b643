// Package policy makes admission policies of features, so that the API server itself enforces closed features, with no process
// beside it.
//
// [Compile] takes a model and returns a [Set]: ValidatingAdmissionPolicies for Reject, Warn and whole versions,
// MutatingAdmissionPolicies for Drop, and their bindings. In live mode the policies read the component's ConfigMap as their
// parameter and hold the table of precedence, stage defaults included; in baked mode the settings are part of them.
//
// It promises:
//   - the policies decide as [feature.Evaluator] does, for every pair of objects. Parts that CEL cannot express, or that would cost
//     more than the API server allows, are marked for the webhook with the reason, and no policy has them;
//   - an expression costs time in proportion to the items that it reads, and 5,000 of them pass. The API server's own interpreter
//     (k8s.io/apiserver/pkg/cel) has measured the cost of each policy at that size. Features that cost too much together are split
//     over several policies;
//   - an object of any form is judged without an error, so that an object without gated parts is never refused. The schema gives
//     identities and types; the form of a value is never assumed;
//   - the parameter of a policy is a ConfigMap, never a custom resource: an API server that starts refuses writes until it knows
//     those.
//
// It does not apply anything: the caller does, and cares for the rest.
//
// # Where policies and evaluator differ
//
// Refusals, warnings and drops are the same, and so are the places and features that they name. The text differs: the places of one
// part come together, and long texts are cut. If users can opt in by RBAC, a refusal may name parts that the user may use, in
// addition to its causes, because messages are written without asking the authorizer. If a resource has several policies, only the
// first refusal is shown. If two of them drop a value, the first reports it. Both remove items of lists.
package policy
