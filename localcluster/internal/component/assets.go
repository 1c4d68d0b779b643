//go:build assets

package component

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// patience is how long a component that was told to end may take.
const patience = 20 * time.Second

func pathOf(name string) string { return filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), name) }

// Has reports whether the folder has the named component. That of setup-envtest has no controller manager.
func Has(name string) bool {
	info, err := os.Stat(pathOf(name))
	return err == nil && info.Mode().IsRegular()
}

// Version is that of Kubernetes, as the API server prints it.
func Version() (string, error) {
	out, err := exec.Command(pathOf(APIServer), "--version").Output() //nolint:gosec // the program that the user names
	if err != nil {
		return "", fmt.Errorf("KUBEBUILDER_ASSETS: %w", err)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "Kubernetes "), nil
}

// Run runs the named component with the given command-line flags until ctx is done or the component ends. The error has the last line
// that it wrote.
func Run(ctx context.Context, name string, args []string) error {
	if err := Known(name); err != nil {
		return err
	}
	if name == APIServer { // it listens by itself, at the port that this socket has kept so far
		if err := os.NewFile(ListenerFD, "listener").Close(); err != nil {
			return fmt.Errorf("the inherited listening socket: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, pathOf(name), args...) //nolint:gosec // the program that the user names
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	last := &lastLine{}
	cmd.Stdout, cmd.Stderr = os.Stdout, io.MultiWriter(os.Stderr, last)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	EndWithParent(cmd.SysProcAttr)
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		err = errors.New("it ended without being asked to")
	}
	return fmt.Errorf("%w: %s", err, last.text)
}

// lastLine keeps the last line that is not empty.
type lastLine struct {
	rest []byte
	text string
}

// Write implements io.Writer. A line that is not complete yet waits for its end.
func (l *lastLine) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		if text := strings.TrimSpace(string(line)); text != "" {
			l.text = text
		}
		l.rest = append([]byte(nil), rest...)
	}
}
