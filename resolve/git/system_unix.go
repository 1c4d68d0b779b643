//go:build unix

package git

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// diskSpaceOf returns how many bytes of a folder's file system this process may still write, and how many it has.
func diskSpaceOf(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), nil //nolint:gosec,unconvert // sizes of file systems; their types differ by system
}

// killGroup makes the command the leader of a process group, which ends as a whole.
func killGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
