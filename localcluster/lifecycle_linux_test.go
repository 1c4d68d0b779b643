package main_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// children returns the process ids of the children of a process.
func children(t *testing.T, pid int) []int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(lists) == 0 {
		t.Fatalf("no process %d (%v)", pid, err)
	}
	var out []int
	for _, list := range lists {
		content, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for field := range strings.FieldsSeq(string(content)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, child)
		}
	}
	return out
}

// runs reports whether a process exists and has not ended; one that only waits to be reaped has.
func runs(pid int) bool {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(content), ") ")
	return !strings.HasPrefix(after, "Z")
}

func nothingLeft(t *testing.T, pids []int, server string) {
	t.Helper()
	eventually(t, "all processes to be gone", func(context.Context) error {
		if i := slices.IndexFunc(pids, runs); i >= 0 {
			return fmt.Errorf("process %d still runs", pids[i])
		}
		return nil
	})
	eventually(t, "the port to be free", func(context.Context) error {
		listener, err := net.Listen("tcp", strings.TrimPrefix(server, "https://"))
		if err != nil {
			return err
		}
		return listener.Close()
	})
}

func mustNotExist(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there (%v)", path, err)
	}
}

func TestSIGTERMStopsEverythingAndRemovesTheTemporary(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "new folder", "kubeconfig")
	r := start(t, "--kubeconfig", kubeconfig)
	if r.Kubeconfig != kubeconfig || r.PID != r.cmd.Process.Pid {
		t.Errorf("reported kubeconfig %s and process %d, want %s and %d", r.Kubeconfig, r.PID, kubeconfig, r.cmd.Process.Pid)
	}
	pids := children(t, r.PID)
	if len(pids) != 2 {
		t.Errorf("%d children, want the API server and the controller manager", len(pids))
	}
	if code := r.stop(t); code != 0 {
		t.Errorf("exit code %d: %s", code, r.stderr)
	}
	nothingLeft(t, pids, r.Server)
	mustNotExist(t, r.Dir)
	mustNotExist(t, kubeconfig)
	if r.stdout.Len() > 0 || r.stderr.String() != "" {
		t.Errorf("more than one line was printed: %q on stdout, %q on stderr", r.stdout.String(), r.stderr)
	}
}

func TestSIGTERMDuringTheStartLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	cmd := exec.CommandContext(t.Context(), binary, "start")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the API server to be started", func(context.Context) error {
		logs, err := filepath.Glob(filepath.Join(temp, "*", "logs", "kube-apiserver.log"))
		if err == nil && len(logs) == 0 {
			err = errors.New("no log of it")
		}
		return err
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || stdout.Len()+stderr.Len() > 0 {
		t.Errorf("%v, %q on stdout, %q on stderr", err, stdout.String(), stderr.String())
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left: %v (%v)", left, err)
	}
}

func TestWhenAComponentEndsAllOfItStops(t *testing.T) {
	r := start(t)
	pids := children(t, r.PID)
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := r.wait(t); code != 2 || !oneLineWith(r.stderr.String(), "kube-", "killed") {
		t.Errorf("exit code %d: %s", code, r.stderr)
	}
	nothingLeft(t, pids, r.Server)
	mustNotExist(t, r.Dir)
}

func TestAClosedStdinStopsEverything(t *testing.T) {
	r := start(t, "--without-controllers", "--apiserver-arg", "anonymous-auth=false")
	pids := children(t, r.PID)
	if len(pids) != 1 {
		t.Errorf("%d children, want the API server alone", len(pids))
	}
	if user, err := whoAmI(t, r.config(t)); err != nil || user != "admin" {
		t.Errorf("the administrator is %q (%v)", user, err)
	}
	anonymous := r.config(t)
	anonymous.CertData, anonymous.KeyData, anonymous.CertFile, anonymous.KeyFile = nil, nil, "", ""
	if _, err := clientset(t, anonymous).Discovery().ServerVersion(); err == nil {
		t.Error("--apiserver-arg anonymous-auth=false had no effect")
	}
	if err := r.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if code := r.wait(t); code != 0 {
		t.Errorf("exit code %d: %s", code, r.stderr)
	}
	nothingLeft(t, pids, r.Server)
	mustNotExist(t, r.Dir)
}

func TestARestartKeepsDataAndTokens(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	first := start(t, "--dir", dir)
	namespace := newNamespace(t, clientset(t, first.config(t)))
	newConfigMap(t, clientset(t, first.config(t)), namespace, "kept")
	token := tokenFor(t, first.config(t), "default", "default").BearerToken
	if code := first.stop(t); code != 0 {
		t.Fatalf("exit code %d: %s", code, first.stderr)
	}

	second := start(t, "--dir", dir)
	got, err := clientset(t, second.config(t)).CoreV1().ConfigMaps(namespace).Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil || got.Data["key"] != "value" {
		t.Errorf("the object after the restart: %v (%v)", got, err)
	}
	account := second.config(t)
	account.CertData, account.KeyData = nil, nil
	account.BearerToken = token
	if user, err := whoAmI(t, account); err != nil || user != "system:serviceaccount:default:default" {
		t.Errorf("the token from before the restart is good for %q (%v)", user, err)
	}
	if second.stderr.String() != "" {
		t.Errorf("a folder that was left in order is spoken of: %s", second.stderr)
	}
}

func TestSIGKILLLeavesNothingRunningAndItsFolderCanBeTakenOver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	first := start(t, "--dir", dir)
	namespace := newNamespace(t, clientset(t, first.config(t)))

	// While it lives, nobody else gets its folder.
	code, stdout, stderr := call(t, "start", "--dir", dir)
	if code != 2 || stdout != "" || !oneLineWith(stderr, dir, strconv.Itoa(first.PID)) {
		t.Errorf("a second start in a used folder: exit code %d, %q on stdout, %q on stderr", code, stdout, stderr)
	}

	pids := children(t, first.PID)
	if err := first.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	first.wait(t)
	nothingLeft(t, pids, first.Server)

	second := start(t, "--dir", dir)
	if !oneLineWith(second.stderr.String(), dir, strconv.Itoa(first.PID)) {
		t.Errorf("the folder of a killed process is taken over without a note: %q", second.stderr)
	}
	if _, err := clientset(t, second.config(t)).CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); err != nil {
		t.Errorf("what was stored before the kill: %v", err)
	}
}

func TestTheTemporaryFolderOfAKilledClusterIsRemovedByTheNext(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	first := start(t, "--without-controllers")
	if err := first.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	first.wait(t)
	if _, err := os.Stat(first.Dir); err != nil {
		t.Fatal(err)
	}
	second := start(t, "--without-controllers")
	mustNotExist(t, first.Dir)
	if !oneLineWith(second.stderr.String(), first.Dir, strconv.Itoa(first.PID)) {
		t.Errorf("said %q", second.stderr)
	}
}

func TestTwoClustersAtOnceAreApart(t *testing.T) {
	one, other := sharedCluster(t), start(t)
	if one.Server == other.Server || one.Dir == other.Dir {
		t.Fatalf("both are at %s in %s", one.Server, one.Dir)
	}
	namespace := newNamespace(t, clientset(t, one.config(t)))
	_, err := clientset(t, other.config(t)).CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	if err := gone(err); err != nil {
		t.Errorf("an object of one cluster in the other: %v", err)
	}
	crossed := one.config(t)
	crossed.Host = other.Server
	if _, err := whoAmI(t, crossed); err == nil {
		t.Error("the credentials of one cluster are good for the other")
	}
}

func TestAVeryLongFolderNameWorks(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	r := start(t, "--dir", dir, "--without-controllers", "--no-fsync")
	if code := r.stop(t); code != 0 {
		t.Errorf("exit code %d: %s", code, r.stderr)
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v (%v)", left, err)
	}
}

// oneLineWith reports whether text is a single line that holds every one of the parts.
func oneLineWith(text string, parts ...string) bool {
	line, rest, found := strings.Cut(text, "\n")
	return found && rest == "" && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
}
