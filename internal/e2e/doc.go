// Package e2e holds the tests of resolution as a whole: processes of sluice serve, each under the ServiceAccount that the
// manifests give it, with a real API server, real git, SSH, OCI and HTTP servers on loopback. They need the build tag e2e.
//
// It also keeps docs/resolution-security.md true, without a cluster.
package e2e
