package process

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A process in a container is killed when it takes more memory than its limit. So the limit is divided at the start: between Go's
// heap and the processes of git, and within the heap between fetches, writes and the cache. For example, of 512 MiB a process with
// resolvers has 288 MiB for the heap and 160 MiB for git, and 64 MiB are left for what neither counts.

// defaultMemory is the limit of memory where the container has none, in bytes: that of the Deployments in package config.
const defaultMemory = 512 << 20

// MemoryShares divide the memory of a process that runs resolvers, in bytes.
type MemoryShares struct {
	// Heap is what Go may take before it collects garbage with all its might, Processes what git may take. They are
	// nearly all of the container's limit.
	Heap, Processes int64
	// Content is for fetches and what they have found, Writes for status writes, Cache for what is kept. They are parts of Heap.
	Content, Writes, Cache int64
}

// divideMemory divides the limit. Without a resolver there are no processes of git, and what they would have is for the heap.
func divideMemory(limit int64, resolvers bool) MemoryShares {
	heap, processes := limit*9/16, limit*5/16
	if !resolvers {
		heap, processes = limit*13/16, 0
	}
	return MemoryShares{
		Heap: heap, Processes: processes,
		Content: limit / 4, Writes: limit / 24, Cache: limit / 8,
	}
}

// leastMemory is less than what a process needs to do anything, in bytes.
const leastMemory = 64 << 20

// gcPercent is for a process that lives long and waits most of the time.
const gcPercent = 100

// ApplyMemoryLimits divides the memory that the container has, or that is given, and has Go keep to its part and collect garbage
// often, unless GOMEMLIMIT and GOGC say otherwise.
func ApplyMemoryLimits(getenv func(string) string, given string, resolvers bool) (MemoryShares, error) {
	out := divideMemory(defaultMemory, resolvers)
	// The limit of version 2 of control groups, and of version 1, which has a huge number for none.
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(file) //nolint:gosec // one of two names
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 && n < 1<<40 {
			out = divideMemory(n, resolvers)
		}
	}
	if given != "" {
		n, err := resource.ParseQuantity(given)
		if err != nil || n.Value() < leastMemory {
			return out, fmt.Errorf("--memory=%s: it is no quantity of memory of at least 64Mi; an example is 512Mi", given)
		}
		out = divideMemory(n.Value(), resolvers)
	}
	if getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(out.Heap)
	}
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	return out, nil
}
