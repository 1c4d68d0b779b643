package cluster

import "syscall"

// endWithParent makes the kernel kill the child when the thread that started it ends. A busy child may not notice its closed stdin,
// so this matters when SIGKILL ends this process.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
