//go:build unix

package input

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

// A named pipe that nobody writes to cannot hold up an interrupted command.
func TestPipeWithoutWriterIsGivenUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f, err := openFile(ctx, path)
	if f != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", f, err)
	}
}
