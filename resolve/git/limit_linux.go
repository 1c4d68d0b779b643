package git

import "golang.org/x/sys/unix"

// limitProcess sets limits on a process that was just started.
func limitProcess(pid int, limits processLimits) {
	for resource, most := range map[int]uint64{unix.RLIMIT_AS: limits.memory, unix.RLIMIT_CPU: limits.cpu, unix.RLIMIT_FSIZE: limits.file} {
		if most > 0 {
			_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil)
		}
	}
}
