package component

import "syscall"

// EndWithParent makes the kernel kill a child when the thread that started it ends. A busy child may not notice its closed stdin, so
// this matters when SIGKILL ends this process.
func EndWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
