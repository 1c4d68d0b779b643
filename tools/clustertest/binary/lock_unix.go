//go:build unix

package binary

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the file's lock if nobody has it. The kernel gives it back when the process ends.
func tryLock(file *os.File) (bool, error) {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
