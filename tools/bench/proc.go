package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// sampleEvery is the interval between samples of the memory of a process and its children.
const sampleEvery = 50 * time.Millisecond

// procStat has the CPU time of a process from /proc; zero if the system does not report it.
type procStat struct {
	own time.Duration
	// children is the time of those that it has waited for.
	children time.Duration
}

func readStat(pid int) procStat {
	const ticksPerSecond = 100 // USER_HZ, the same on all platforms of Linux that Go knows
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}
	}
	// The name in parentheses may contain anything; utime, stime, cutime and cstime are the 12th to 15th field after it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 15 {
		return procStat{}
	}
	ticks := make([]time.Duration, 4)
	for i := range ticks {
		var n int64
		if _, err := fmt.Sscan(fields[11+i], &n); err != nil {
			return procStat{}
		}
		ticks[i] = time.Duration(n) * time.Second / ticksPerSecond
	}
	return procStat{own: ticks[0] + ticks[1], children: ticks[2] + ticks[3]}
}

// childrenOf lists the processes that a process has started and not waited for.
func childrenOf(pid int) []int {
	var out []int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		children, err := os.ReadFile(task)
		if err != nil {
			continue
		}
		for child := range strings.FieldsSeq(string(children)) {
			var id int
			if _, err := fmt.Sscan(child, &id); err == nil {
				out = append(out, id)
			}
		}
	}
	return out
}

// cpuOfTree returns the processor time that a process and the children that it has now have taken.
func cpuOfTree(pid int) time.Duration {
	total := readStat(pid).own
	for _, id := range childrenOf(pid) {
		total += cpuOfTree(id)
	}
	return total
}

// cpuOfChildren returns the processor time of all children that a process has ever had.
func cpuOfChildren(pid int) time.Duration {
	total := readStat(pid).children
	for _, id := range childrenOf(pid) {
		total += readStat(id).own + cpuOfChildren(id)
	}
	return total
}

// memoryOf reads a line of /proc/PID/status in KiB: VmRSS, VmHWM.
func memoryOf(pid int, line string) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for l := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(l, line+":"); ok {
			var kb int
			if _, err := fmt.Sscan(rest, &kb); err == nil {
				return kb
			}
		}
	}
	return 0
}

// forgetPeak makes VmHWM begin again.
func forgetPeak(pid int) {
	// If that is not possible the peak is that of the whole life.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o600)
}

// peakOfChildren looks at the children of a process until the function is called, which returns the most memory that they
// had at once, in KiB. Shared pages count for each; what lives shorter than between two looks may be missed.
func peakOfChildren(ctx context.Context, pid int) func() int {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	peak := 0
	wg.Go(func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			sum := 0
			for _, id := range childrenOf(pid) {
				sum += memoryOf(id, "VmRSS")
			}
			peak = max(peak, sum)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return func() int {
		cancel()
		wg.Wait()
		return peak
	}
}
