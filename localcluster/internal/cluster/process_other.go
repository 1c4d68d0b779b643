//go:build unix && !linux

package cluster

import "syscall"

// endWithParent does nothing. On these systems only the closed stdin ends the child.
func endWithParent(*syscall.SysProcAttr) {}
