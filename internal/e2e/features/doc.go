// Package features tests features as their users meet them: the roles features and feature-webhook as processes of their
// own, each with the rights that the manifests give it, and a real API server.
package features
