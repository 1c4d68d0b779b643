package cluster

import "syscall"

// endWithParent has the kernel kill the child when the thread that started it ends, so that not even SIGKILL of this
// process leaves a child that is too busy to notice its closed stdin.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
