//go:build !linux

package git

// limitProcess does nothing: these systems have no way to limit another process.
func limitProcess(int, processLimits) {}
