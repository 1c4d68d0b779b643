package clustertest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared is one cluster for all tests of a package. It is started by the first test that asks for it, so that a run of
// tests that need none does not pay for it. The zero value is ready for use.
//
//	var cluster clustertest.Shared
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }
//
//	func TestSomething(t *testing.T) {
//		config := cluster.Get(t).Config()
type Shared struct {
	// Options say how the cluster is started; nil means the defaults. To be set before Run.
	Options []Option

	once    sync.Once
	cluster *Cluster
	err     error
}

// Run runs the package's tests and then stops the cluster, if any test asked for it. It returns the exit code, which is
// 1 also when all tests passed but the cluster had ended by itself.
// Tests cannot stop the cluster themselves, because they do not know which of them is the last.
func (s *Shared) Run(m *testing.M) int {
	code := m.Run()
	if s.cluster == nil {
		return code
	}
	if err := s.cluster.Stop(); err != nil {
		fmt.Fprintf(os.Stderr, "clustertest: %v\n", err)
		return max(code, 1)
	}
	return code
}

// Get returns the cluster, and starts it at the first call. If that fails, every test that asks fails with the same message. The
// cluster outlives the test. A test must not stop it, and a test that crashes it must not run in parallel.
// The first call takes some seconds, and minutes where the binary has to be built.
func (s *Shared) Get(t testing.TB) *Cluster {
	t.Helper()
	skipWithoutControllers(t, s.Options)
	// The cluster is not the first test's alone, so that test's context is not its.
	s.once.Do(func() { s.cluster, s.err = Launch(context.WithoutCancel(t.Context()), s.Options...) })
	if s.err != nil {
		t.Fatalf("clustertest: %v", s.err)
	}
	return s.cluster
}
