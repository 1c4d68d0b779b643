package clustertest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sluice.dev/tools/clustertest/binary"
)

// findKubectl finds kubectl once for a test binary.
var findKubectl = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	return binary.Kubectl(ctx, ".", os.Stderr)
})

// Kubectl runs a kubectl of the cluster's version as the administrator, and returns its output; err is an [*exec.ExitError] if the
// exit code is not 0. It neither reads nor writes the user's own configuration of kubectl. It fails the test if there is no
// kubectl. The first call in a working tree builds it, which may take minutes.
// stdin is what -f - reads; empty for none. Each call has a cache of its own, so that discovery is never
// old.
func (c *Cluster) Kubectl(t testing.TB, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	path, err := findKubectl()
	if err != nil {
		t.Fatalf("clustertest: %v", err)
	}
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), path, append([]string{"--kubeconfig", c.Kubeconfig, "--cache-dir", filepath.Join(home, "cache")}, args...)...) //nolint:gosec // the binary that was built for this
	cmd.Env = append(os.Environ(), "HOME="+home, "KUBERC=off")
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}
