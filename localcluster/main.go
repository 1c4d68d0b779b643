// Command localcluster runs a small, real Kubernetes control plane on this machine for demonstrations and tests.
package main

import (
	"os"

	"sluice.dev/localcluster/internal/cli"
)

func main() {
	os.Exit(cli.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) //nolint:forbidigo // the one place that exits
}
