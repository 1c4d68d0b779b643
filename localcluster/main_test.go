package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// patience bounds every wait. It is long because a busy machine is no failure.
const patience = 3 * time.Minute

var binary string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	build := exec.Command("go", "run", "./tools/clustertest/build")
	build.Dir, build.Stderr = "..", os.Stderr
	output, err := build.Output()
	if err != nil {
		return 0, fmt.Errorf("build localcluster: %w", err)
	}
	binary = strings.TrimSpace(string(output))
	defer stopShared()
	return m.Run(), nil
}

// ready is the line that start prints with -o json.
type ready struct {
	APIVersion, Kind, Kubeconfig, Server, Dir, KubernetesVersion string
	PID                                                          int
}

// running is a localcluster process.
type running struct {
	ready
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr *buffer
	// stdout holds what came after the first line, once the process has ended.
	stdout bytes.Buffer
	ended  chan struct{}
}

// launch starts "localcluster start" and waits for its first line on stdout. It returns an error when the process ends
// without printing one.
func launch(args ...string) (*running, string, error) {
	r := &running{stderr: &buffer{}, ended: make(chan struct{})}
	r.cmd = exec.Command(binary, append([]string{"start", "--until-stdin-closes"}, args...)...)
	r.cmd.Stderr = r.stderr
	stdin, err := r.cmd.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	r.stdin = stdin
	stdout, writer, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	r.cmd.Stdout = writer
	err = errors.Join(r.cmd.Start(), writer.Close())
	if err != nil {
		return nil, "", err
	}
	first := make(chan string, 1)
	go func() {
		defer close(r.ended)
		defer stdout.Close() //nolint:errcheck // it was only read
		all := &firstLine{line: first, rest: &r.stdout}
		_, _ = io.Copy(all, stdout)
		_ = r.cmd.Wait()
	}()
	select {
	case line := <-first:
		return r, line, nil
	case <-r.ended:
		return r, "", fmt.Errorf("ended with %s: %s", r.cmd.ProcessState, r.stderr)
	case <-time.After(patience):
		_ = r.cmd.Process.Kill()
		return r, "", fmt.Errorf("not ready: %s", r.stderr)
	}
}

// start starts a cluster that is stopped when the test ends, if it has not been before.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	r, line, err := launch(append([]string{"-o", "json"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.stdin.Close()
		r.wait(t)
	})
	if err := json.Unmarshal([]byte(line), &r.ready); err != nil {
		t.Fatalf("%v in %q", err, line)
	}
	return r
}

// stop sends SIGTERM and returns the exit code.
func (r *running) stop(t *testing.T) int {
	t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	return r.wait(t)
}

func (r *running) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		_ = r.cmd.Process.Kill()
		t.Fatalf("localcluster did not end: %s", r.stderr)
	}
	return r.cmd.ProcessState.ExitCode()
}

func (r ready) config(t *testing.T) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}

var shared struct {
	once sync.Once
	*running
	err error
}

// sharedCluster returns the cluster for tests that only use the API; each works in objects of its own.
func sharedCluster(t *testing.T) *running {
	t.Helper()
	shared.once.Do(func() {
		var line string
		if shared.running, line, shared.err = launch("-o", "json"); shared.err == nil {
			shared.err = json.Unmarshal([]byte(line), &shared.ready)
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.running
}

func stopShared() {
	if shared.running != nil {
		_ = shared.stdin.Close()
		<-shared.ended
	}
}

// call runs localcluster to its end and returns the exit code and what it printed.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	var out, diagnostics bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &diagnostics
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%v: %s", err, diagnostics.String())
	}
	return cmd.ProcessState.ExitCode(), out.String(), diagnostics.String()
}

// eventually waits until the condition gives no error.
func eventually(t *testing.T, what string, condition func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := condition(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, err)
		case <-ticker.C:
		}
	}
}

// fileBelowFile returns a path that nobody can make a folder at, not even root: one below a regular file.
func fileBelowFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(file, "below")
}

// buffer is a bytes.Buffer that may be read while it is written to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// firstLine sends the first line on a channel and keeps the rest.
type firstLine struct {
	line chan<- string
	head []byte
	sent bool
	rest io.Writer
}

func (f *firstLine) Write(p []byte) (int, error) {
	if f.sent {
		return f.rest.Write(p)
	}
	f.head = append(f.head, p...)
	if line, rest, found := bytes.Cut(f.head, []byte("\n")); found {
		f.sent = true
		f.line <- string(line)
		if _, err := f.rest.Write(rest); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}
