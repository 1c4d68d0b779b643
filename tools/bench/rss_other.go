//go:build !linux

package main

import (
	"os"
	"time"
)

// ownCPU is not told on this system.
func ownCPU() time.Duration { return 0 }

// maxRSS is not told on this system.
func maxRSS(*os.ProcessState) int64 { return 0 }
