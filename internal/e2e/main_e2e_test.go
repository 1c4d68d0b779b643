//go:build e2e

package e2e

import (
	"context"
	"os"
	"testing"
	"time"

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

// patience is long because a busy machine is no failure.
const patience = 6 * time.Minute

// eventually calls check until it returns nil.
func eventually(t testing.TB, what string, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, err)
		case <-tick.C:
		}
	}
}
