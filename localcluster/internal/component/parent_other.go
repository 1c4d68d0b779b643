//go:build unix && !linux

package component

import "syscall"

// EndWithParent does nothing. On these systems only the closed stdin ends the child.
func EndWithParent(*syscall.SysProcAttr) {}
