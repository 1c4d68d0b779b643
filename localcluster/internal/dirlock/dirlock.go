//go:build unix

// Package dirlock keeps two processes from working in one folder.
//
// The lock is the kernel's (flock), so it ends with the process that holds it, for whatever reason the process ends. A process ID
// would be no proof, because another process may have it by now. The ID in the file only serves to name the holder. The lock does
// not protect against processes that do not ask for it.
package dirlock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const fileName = "lock"

// HeldError means that another live process has the folder.
type HeldError struct {
	Dir string
	// PID is the holder's process ID; zero if the holder has not written it yet.
	PID int
}

// Error implements error.
func (e *HeldError) Error() string {
	if e.PID == 0 {
		return e.Dir + " is in use by another process"
	}
	return fmt.Sprintf("%s is in use by process %d", e.Dir, e.PID)
}

// Lock is a folder held by this process.
type Lock struct {
	file *os.File
	left int
}

// Acquire locks dir, which must exist, without waiting. The error is a *HeldError if another process has the lock.
func Acquire(dir string) (*Lock, error) {
	file, err := os.OpenFile(filepath.Join(dir, fileName), os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the folder that the user names
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = &HeldError{Dir: dir, PID: readPID(file)}
		} else {
			err = fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		return nil, errors.Join(err, file.Close())
	}
	lock := &Lock{file: file, left: readPID(file)}
	if err := lock.write(strconv.Itoa(os.Getpid()) + "\n"); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return lock, nil
}

// LeftBehindBy is the ID of the last process that held the folder and ended without releasing it; zero if there was none.
func (l *Lock) LeftBehindBy() int { return l.left }

// Release unlocks the folder. The empty lock file stays: if Release removed it, two processes could hold two files of the same
// name.
func (l *Lock) Release() error {
	return errors.Join(l.write(""), l.file.Close())
}

func (l *Lock) write(content string) error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt([]byte(content), 0)
	return err
}

// readPID reads the number in the lock file; 0 for an empty file or any other text.
func readPID(file *os.File) int {
	buffer := make([]byte, 32)
	n, err := file.ReadAt(buffer, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(buffer[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}
