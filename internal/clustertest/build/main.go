// Command build prints the path of the localcluster binary of this working tree, building it first when needed.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"sluice.dev/internal/clustertest/binary"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	path, err := binary.Path(ctx, ".", os.Stderr)
	if err == nil {
		_, err = fmt.Fprintln(os.Stdout, path)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(2) //nolint:forbidigo // a command of its own, outside cmd
	}
}
