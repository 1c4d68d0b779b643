//go:build e2e

package e2e

import (
	"os"
	"testing"

	"sluice.dev/internal/cli"
	"sluice.dev/tools/clustertest"
)

// asSluice has the test binary be the command sluice.
const asSluice = "SLUICE_E2E_AS_COMMAND"

var shared clustertest.Shared

func TestMain(m *testing.M) {
	if os.Getenv(asSluice) != "" {
		os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(shared.Run(m))
}

var eventually = clustertest.Eventually
