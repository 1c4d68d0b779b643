package main

import (
	"os"
	"syscall"
)

// maxRSS returns the peak resident memory of a finished process in KiB.
func maxRSS(s *os.ProcessState) int64 {
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		return u.Maxrss
	}
	return 0
}
