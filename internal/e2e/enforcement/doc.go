// Package enforcement tests what enforces features, policies and the webhook, on a real API server: that they say what the
// evaluator of package feature says, and what becomes of objects that are huge, hostile or forged.
//
// Policies are applied as package feature/policy makes them, with no controller beside them; the handler of the webhook runs in
// the test.
package enforcement
