package cli

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// defaultMemory is the limit of memory where the container has none, in bytes: that of the Deployments in package config.
const defaultMemory = 512 << 20

// memoryShares divide the memory of a process that runs resolvers, in bytes.
type memoryShares struct {
	// limit is that of the container.
	limit int64
	// heap is what Go may take before it collects garbage with all its might, processes what git may take. They are
	// nearly all of it.
	heap, processes int64
	// content is for fetches and what they have found, writes for status writes, cache for what is kept. They are parts of heap.
	content, writes, cache int64
}

// divideMemory divides the limit. Without a resolver there are no processes of git, and what they would have is for the heap.
func divideMemory(limit int64, resolvers bool) memoryShares {
	heap, processes := limit*9/16, limit*5/16
	if !resolvers {
		heap, processes = limit*13/16, 0
	}
	return memoryShares{
		limit: limit, heap: heap, processes: processes,
		content: limit / 4, writes: limit / 24, cache: limit / 8,
	}
}

// leastMemory is less than what a process needs to do anything, in bytes.
const leastMemory = 64 << 20

// serveGCPercent takes the place of [GCPercent] in a server, which lives long and waits most of the time.
const serveGCPercent = 100

// applyMemoryLimits divides the memory that the container has, or that is given, and has Go keep to its part and collect garbage often,
// unless GOMEMLIMIT and GOGC say otherwise.
func applyMemoryLimits(getenv func(string) string, given string, resolvers bool) (memoryShares, error) {
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
		debug.SetMemoryLimit(out.heap)
	}
	if getenv("GOGC") == "" {
		debug.SetGCPercent(serveGCPercent)
	}
	return out, nil
}
