//go:build !linux

package process

// releaseProgramPages does nothing: these systems have their own ways.
func releaseProgramPages() error { return nil }
