package apply

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestAProcessIsTakenForEndedOnlyWhenItSurelyHas(t *testing.T) {
	me := thisProcess()
	if me == "" {
		t.Skip("this system does not tell")
	}
	child := exec.CommandContext(t.Context(), "sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(me)
	_, began, _ := processStat(child.Process.Pid)
	describe := func(boot, namespace string, id int, began string) string {
		return fmt.Sprintf("%s %s %d %s", boot, namespace, id, began)
	}
	its := describe(fields[0], fields[1], child.Process.Pid, began)
	if hasEnded(me) || hasEnded(its) {
		t.Error("a process that lives is taken for ended")
	}
	if !hasEnded(describe(fields[0], fields[1], os.Getpid(), "1")) {
		t.Error("another process that had the id of this one is taken for living")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// It is a zombie until it is waited for, if it has died already.
	_ = child.Wait()
	if !hasEnded(its) {
		t.Error("a process that has ended is taken for living")
	}
	for _, unknown := range []string{
		"", "x", describe("another-boot", fields[1], child.Process.Pid, began), describe(fields[0], "pid:[1]", child.Process.Pid, began),
	} {
		if hasEnded(unknown) {
			t.Errorf("%q is taken for ended, and nothing is known of it", unknown)
		}
	}
}
