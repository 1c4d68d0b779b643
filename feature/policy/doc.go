// Package policy makes admission policies of features, so that the API server itself enforces what is closed, with no
// process beside it.
//
// [Compile] takes a model and gives a [Set]: ValidatingAdmissionPolicies for Reject, Warn and whole versions,
// MutatingAdmissionPolicies for Drop, and their bindings. In live mode the policies read the component's ConfigMap as their
// parameter and hold the table of precedence, stage defaults included; in baked mode the settings are part of them.
//
// It promises:
//   - the policies say what [feature.Evaluator] says, for every pair of objects; what cannot be said in CEL, or would cost
//     more than the API server allows, is marked for the webhook with the reason, and nothing of it is in a policy;
//   - an expression costs time in proportion to the items that it looks at: 5,000 of them pass, and what a policy costs
//     then was measured with the API server's own interpreter (k8s.io/apiserver/pkg/cel) before it was made; features that
//     cost too much together are split over several policies;
//   - an object of whatever form is judged without an error, so that one which uses no gate is never refused; the schema is
//     asked for identities and types, never trusted for the form of a value;
//   - the parameter of a policy is a ConfigMap, never a custom resource: when the API server starts it refuses writes until
//     it knows those.
//
// It does not apply anything: that, and what becomes of the rest, is for the caller.
//
// # Where policies and evaluator part
//
// What is refused, warned of and dropped is the same, and so are places and features named. The text differs: places of one
// part come together, and what is too long is cut. Where users can opt in by RBAC a refusal may name parts that the user
// may use, beside those because of which it is one, as messages are written without asking the authorizer. Several policies
// of one resource tell only what the first of them refuses. Removed items of lists are gone in both.
package policy
