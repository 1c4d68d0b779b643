package process

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// mapping matches a line of /proc/PID/smaps that begins a mapping: its addresses, its permissions and its file.
var mapping = regexp.MustCompile(`\A([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+\s*(.*)\z`)

// releaseProgramPages takes the pages of the program's file out of the process: the start needs most of them, an idle process few. The
// system maps them again when they are needed, from its cache of files. It leaves alone what can be written, and what was changed, as
// a loader does.
func releaseProgramPages() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return err
	}
	var from, to uint64
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if m := mapping.FindStringSubmatch(line); m != nil {
			from, to = 0, 0
			if m[4] == program && !strings.Contains(m[3], "w") {
				from, _ = strconv.ParseUint(m[1], 16, 64)
				to, _ = strconv.ParseUint(m[2], 16, 64)
			}
			continue
		}
		// Only pages that equal the file's are there again afterwards.
		if f := strings.Fields(line); to == 0 || len(f) < 2 || f[0] != "Anonymous:" || f[1] != "0" {
			continue
		}
		if _, _, failure := syscall.Syscall(syscall.SYS_MADVISE, uintptr(from), uintptr(to-from), syscall.MADV_DONTNEED); failure != 0 {
			return failure
		}
	}
	return nil
}
