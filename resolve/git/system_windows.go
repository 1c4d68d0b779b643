package git

import (
	"os/exec"

	"golang.org/x/sys/windows"
)

// diskSpaceOf returns how many bytes of a folder's file system this process may still write, and how many it has.
func diskSpaceOf(dir string) (free, total int64, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, err
	}
	var available, size, all uint64
	if err := windows.GetDiskFreeSpaceEx(name, &available, &size, &all); err != nil {
		return 0, 0, err
	}
	return int64(available), int64(size), nil //nolint:gosec // sizes of file systems
}

// killGroup changes nothing: Windows has no process groups, and the command alone is killed.
func killGroup(*exec.Cmd) {}
