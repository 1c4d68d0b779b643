package git

import "golang.org/x/sys/unix"

// limitProcess bounds the memory in bytes and the CPU seconds, 0 for unbounded, of a process that has just been started.
func limitProcess(pid int, memory, cpu uint64) {
	_ = unix.Prlimit(pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: memory, Max: memory}, nil)
	if cpu > 0 {
		_ = unix.Prlimit(pid, unix.RLIMIT_CPU, &unix.Rlimit{Cur: cpu, Max: cpu}, nil)
	}
}
