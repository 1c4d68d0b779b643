package cluster

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
)

const (
	logTail     = 64 << 10
	maxLastWord = 600
)

// final matches the beginnings of lines in which a component says why it ends: the last line of this binary, and fatal lines of
// klog and the runtime.
var final = regexp.MustCompile(`^(?:error: |F\d{4} \S+ +\d+ \S+\] |panic: |fatal error: )`)

// lastWords returns the reason in the log why its component ended, in one line; empty if the log has none.
func lastWords(log string) string {
	file, err := os.Open(log) //nolint:gosec // a file in the cluster's folder
	if err != nil {
		return ""
	}
	defer file.Close() //nolint:errcheck // it is only read
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	tail := make([]byte, min(info.Size(), logTail))
	n, err := file.ReadAt(tail, info.Size()-int64(len(tail)))
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	last := ""
	for line := range bytes.Lines(tail[:n]) {
		text := strings.TrimSpace(string(line))
		if match := final.FindString(text); match != "" {
			last = text[len(match):]
		}
	}
	if len(last) > maxLastWord {
		last = strings.ToValidUTF8(last[:maxLastWord], "") + "…"
	}
	return last
}
