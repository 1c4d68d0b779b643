package main_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// listening returns the TCP addresses, as /proc/net/tcp writes them, on which the processes listen.
func listening(t *testing.T, pids []int) []string {
	t.Helper()
	ours := map[string]bool{}
	for _, pid := range pids {
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil || len(fds) == 0 {
			t.Fatalf("no process %d (%v)", pid, err)
		}
		for _, fd := range fds {
			// Descriptors come and go meanwhile; listening ones do not.
			if target, err := os.Readlink(fd); err == nil {
				ours[target] = true
			}
		}
	}
	var out []string
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		content, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			const listen = "0A"
			if fields := strings.Fields(line); len(fields) > 9 && fields[3] == listen && ours["socket:["+fields[9]+"]"] {
				out = append(out, fields[1])
			}
		}
	}
	return out
}

func TestOnlyTheAPIServerListensAndOnLoopbackOnly(t *testing.T) {
	cluster := sharedCluster(t)
	server, err := url.Parse(cluster.Server)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(server.Port())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{fmt.Sprintf("0100007F:%04X", port)}
	if diff := cmp.Diff(want, listening(t, append(children(t, cluster.PID), cluster.PID))); diff != "" {
		t.Error(diff)
	}
}
