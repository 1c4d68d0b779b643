//go:build e2e && linux

package cli

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice.dev/internal/cli/command"
)

// pseudoTerminal gives both ends of a pseudo terminal.
func pseudoTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = person.Close() })
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}

// asked runs sluice on a terminal and answers once the question is there; an empty question must not come.
func (w *world) asked(want int, question, answer string, args ...string) string {
	w.t.Helper()
	person, program := pseudoTerminal(w.t)
	var mu sync.Mutex
	var shown bytes.Buffer
	answered := false
	go func() {
		b := make([]byte, 1024)
		for {
			n, err := person.Read(b)
			if err != nil {
				return
			}
			mu.Lock()
			shown.Write(b[:n])
			if !answered && strings.Contains(shown.String(), "[y/N] ") {
				answered = true
				_, _ = person.WriteString(answer)
			}
			mu.Unlock()
		}
	}()
	var out bytes.Buffer
	e := &command.Env{In: program, Out: &out, Err: program, ErrTTY: true, Now: time.Now, Getenv: func(string) string { return "" }}
	code := runCommand(w.t.Context(), append(args, "--kubeconfig", w.Kubeconfig, "-n", w.namespace), e)
	mu.Lock()
	defer mu.Unlock()
	if code != want || answered != (question != "") || !strings.Contains(shown.String(), question) {
		w.t.Errorf("sluice %v: exit code %d, want %d; shown %q, want %q", args, code, want, shown.String(), question)
	}
	return out.String()
}

func TestE2EOnATerminalDeletionsAreAskedFor(t *testing.T) {
	w := newWorld(t)
	both, one := w.file("both.yaml", configMap("a")+configMap("b")), w.file("one.yaml", configMap("a"))
	const enter = "\n"
	w.asked(ExitOK, "", "", "apply", "--app", "x", "-f", both)
	prune := []string{"apply", "--app", "x", "-f", one, "--prune"}
	question := "delete 1 object of app x? [y/N] "
	for _, no := range []string{enter, "n" + enter, "maybe" + enter, "\x04"} { // the last one ends the input
		w.asked(ExitFailed, question, no, prune...)
		if !w.exists(w.namespace + "/b") {
			t.Fatalf("the answer %q has deleted it", no)
		}
	}
	w.asked(ExitOK, "", "", append(prune, "--dry-run=server")...)
	w.asked(ExitOK, question, "y"+enter, prune...)
	if w.exists(w.namespace + "/b") {
		t.Error("it is still there")
	}
	w.asked(ExitOK, "", "", prune...)
	question = "delete 1 object of app " + w.namespace + "/x? [y/N] "
	w.asked(ExitFailed, question, "no"+enter, "delete", "x")
	if !w.exists(w.namespace + "/a") {
		t.Fatal("it is gone without a yes")
	}
	w.asked(ExitOK, question, "Yes"+enter, "delete", "x")
	w.run(ExitOK, "apply", "--app", "x", "-f", both)
	w.asked(ExitOK, "", "", "delete", "x", "--yes")
}
