// Command sluice lets people change Kubernetes APIs without breaking those who use them.
package main

import (
	"os"

	"sluice.dev/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
