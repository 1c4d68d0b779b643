//go:build !linux

package git

// limitProcess does nothing where a process cannot be bounded from outside.
func limitProcess(int, processLimits) {}
