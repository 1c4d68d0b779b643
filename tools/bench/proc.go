package main

// What has a process used? Times and memory come from the kernel: from the exit of a child, or from /proc while
// a server goes on.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// usage is what a process has used: the median of several runs, and the most memory of them.
type usage struct {
	wall, cpu time.Duration
	// server is the time that the API server and etcd took meanwhile.
	server time.Duration
	// memory is in KiB.
	memory int64
}

func (u usage) cells() []string { return []string{millis(u.wall), millis(u.cpu), mebibytes(u.memory)} }

// measureRuns runs a program several times. Exit code 1 is a verdict and no failure. server is the process of the API server, 0 without one.
// change may set the folder or the environment of the command, nil leaves both as they are. Its output is dropped
// unless it fails.
func measureRuns(ctx context.Context, runs, server int, command []string, change func(*exec.Cmd)) (usage, error) {
	var wall, cpu, servers []time.Duration
	var most usage
	for range runs {
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Stdout, cmd.Stderr = &out, &out
		if change != nil {
			change(cmd)
		}
		before, start := cpuOfTree(server), time.Now()
		err := cmd.Run()
		wall, servers = append(wall, time.Since(start)), append(servers, cpuOfTree(server)-before)
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
			return usage{}, fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, lastPart(out.String()))
		}
		cpu = append(cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			most.memory = max(most.memory, r.Maxrss)
		}
	}
	return usage{quantile(wall, 0.5), quantile(cpu, 0.5), quantile(servers, 0.5), most.memory}, nil
}

// lastPart is the end of an output, which says what went wrong.
func lastPart(text string) string { return strings.TrimSpace(text[max(0, len(text)-2000):]) }

// cpuOf returns the processor time of this process (RUSAGE_SELF), or of its children that have ended (RUSAGE_CHILDREN).
// It has microseconds, where [cpuOfTree] has hundredths of a second.
func cpuOf(who int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuOfTree returns the processor time that a process, its children, and the children that it has waited for have taken; 0 if the
// system does not tell.
// The API server runs in a child of the process that supervises it, so one process would not do. Linux alone has
// these files; elsewhere the columns are 0.
func cpuOfTree(pid int) time.Duration {
	const ticksPerSecond = 100 // USER_HZ, the same on all platforms of Linux that Go knows
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name in parentheses may contain anything; utime, stime, cutime and cstime are the 12th to 15th field after it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var ticks [4]time.Duration
	_, err = fmt.Sscan(strings.Join(fields[11:15], " "), &ticks[0], &ticks[1], &ticks[2], &ticks[3])
	if err != nil {
		return 0
	}
	total := (ticks[0] + ticks[1] + ticks[2] + ticks[3]) * time.Second / ticksPerSecond
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is one
	for _, task := range tasks {
		children, _ := os.ReadFile(task) // a thread may have ended
		for child := range strings.FieldsSeq(string(children)) {
			var id int
			if _, err := fmt.Sscan(child, &id); err == nil {
				total += cpuOfTree(id)
			}
		}
	}
	return total
}

// memoryOf reads a line of /proc/PID/status in KiB: VmRSS, or VmHWM for the peak.
// VmHWM is the high-water mark since the process began.
func memoryOf(pid int, line string) (kib int64) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // 0 if the system does not tell
	_, rest, _ := strings.Cut(string(status), "\n"+line+":")
	_, _ = fmt.Sscan(rest, &kib)
	return kib
}
