//go:build !linux

package main

import "os"

// maxRSS is not told on this system.
func maxRSS(*os.ProcessState) int64 { return 0 }
