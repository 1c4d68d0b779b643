// Package features tests features as their users meet them: the roles features and feature-webhook as processes of their
// own, each with the rights that the manifests give it, and a real API server.
//
// docs/features-scenarios.md lists what must hold, and the tests that hold it, here and elsewhere; a test here checks that
// they exist.
package features
