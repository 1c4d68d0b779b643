package apply

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
)

// Has the process that holds a lock ended? A run that was killed leaves its lock behind, and the next one would wait until the lock
// is stale. Processes of one machine can tell sooner: the lock has an identity of its holder that no later process has, made of boot,
// PID namespace, PID and start time.

// thisProcess identifies this process for other processes: boot of the machine, PID namespace, process ID and start time. It is
// empty if the system does not provide these; then nobody assumes that the process has ended.
var thisProcess = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	// If /proc belongs to another PID namespace, it has this process under another ID.
	own, err := os.Readlink("/proc/self")
	if err != nil || own != fmt.Sprint(os.Getpid()) {
		return ""
	}
	began := ""
	if _, began, _ = processStat(os.Getpid()); began == "" {
		return ""
	}
	return fmt.Sprintf("%s %s %d %s", bytes.TrimSpace(boot), namespace, os.Getpid(), began)
})

// hasEnded reports whether a process has certainly ended. process is the result of thisProcess in that process.
func hasEnded(process string) bool {
	var boot, namespace, began, myBoot, myNamespace, myBegan string
	var id, mine int
	if _, err := fmt.Sscanf(process, "%s %s %d %s", &boot, &namespace, &id, &began); err != nil {
		return false
	}
	if _, err := fmt.Sscanf(thisProcess(), "%s %s %d %s", &myBoot, &myNamespace, &mine, &myBegan); err != nil || boot != myBoot || namespace != myNamespace {
		return false
	}
	p, err := os.FindProcess(id)
	if err != nil {
		return errors.Is(err, os.ErrProcessDone)
	}
	defer p.Release() //nolint:errcheck // nothing was done to it
	if err := p.Signal(syscall.Signal(0)); errors.Is(err, os.ErrProcessDone) {
		return true
	}
	state, since, ok := processStat(id)
	return ok && (since != began || state == "Z" || state == "X")
}

// processStat reads the state of a process, and its start time in ticks since boot (proc_pid_stat(5), fields 3 and 22).
func processStat(id int) (state, began string, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return "", "", false
	}
	// The name, which comes first, may have spaces and parentheses.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return "", "", false
	}
	return fields[0], fields[19], true
}
