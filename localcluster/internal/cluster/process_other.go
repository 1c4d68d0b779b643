//go:build unix && !linux

package cluster

import "syscall"

// endWithParent does nothing: on these systems the child ends by its closed stdin alone.
func endWithParent(*syscall.SysProcAttr) {}
