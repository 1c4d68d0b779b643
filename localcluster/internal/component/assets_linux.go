//go:build assets

package component

import "syscall"

// endWithParent has the kernel end the child when the thread that starts it ends, with this process at the latest.
func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
