//go:build !e2e

package cli

import "testing"

// runTests runs the tests; with the tag e2e a cluster belongs to them.
func runTests(m *testing.M) int { return m.Run() }
