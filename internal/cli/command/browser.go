package command

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
)

// OpenInBrowser opens an address or a file with the program that the system has for it, and does not wait for that.
func OpenInBrowser(ctx context.Context, what string) error {
	name, args := "xdg-open", []string{what}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", what}
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), name, args...) //nolint:gosec // an address or a file of our own
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("no browser can be opened: %w", err)
	}
	go func() { _ = cmd.Wait() }() // so that no zombie stays
	return nil
}
