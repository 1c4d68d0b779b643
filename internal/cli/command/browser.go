package command

import (
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// OpenSecretInBrowser opens an address that other users may not see, as they see the arguments of a program: the browser opens a file of this user
// that leads there. The caller calls remove when the address is of no more use.
func OpenSecretInBrowser(ctx context.Context, address string) (remove func(), err error) {
	dir, err := os.MkdirTemp("", "sluice-open-") // for this user only
	if err != nil {
		return func() {}, fmt.Errorf("no browser can be opened: %w", err)
	}
	remove = func() { _ = os.RemoveAll(dir) }
	file := filepath.Join(dir, "open.html")
	text := fmt.Sprintf("<!DOCTYPE html>\n<meta http-equiv=\"refresh\" content=\"0;url=%s\">\n<title>sluice</title>\n", html.EscapeString(address))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return remove, fmt.Errorf("no browser can be opened: %w", err)
	}
	return remove, OpenInBrowser(ctx, file)
}

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
