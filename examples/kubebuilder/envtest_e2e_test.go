//go:build e2e

package kubebuilder_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"sluice.dev/tools/clustertest"
)

// TestE2EEnvtestRuns runs the test of the example that needs an API server, as somebody who has a cluster for tests.
func TestE2EEnvtestRuns(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-run", "TestAgainstAnAPIServer", "./internal/controller")
	cmd.Env = append(os.Environ(), "USE_EXISTING_CLUSTER=true", "KUBECONFIG="+clustertest.Start(t).Kubeconfig)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"TestAgainstAnAPIServer/the_CRD_upgrades_safely", "TestAgainstAnAPIServer/the_API_server_holds_the_gates"} {
		if !strings.Contains(string(out), "--- PASS: "+name) {
			t.Errorf("%s did not run:\n%s", name, out)
		}
	}
}
