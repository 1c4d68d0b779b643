// Command build prints the path of the localcluster binary of this working tree, building it first when needed. With the argument
// kubectl it does so for the kubectl of the tests.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"sluice.dev/tools/clustertest/binary"
)

// main prints the path alone on stdout, for use in scripts; that it builds is told on stderr. It exits with 2 if it
// cannot.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	find := binary.Path
	if len(os.Args) > 1 && os.Args[1] == "kubectl" {
		find = binary.Kubectl
	}
	path, err := find(ctx, ".", os.Stderr)
	if err == nil {
		_, err = fmt.Fprintln(os.Stdout, path)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(2) //nolint:forbidigo // a command of its own, outside cmd
	}
}
