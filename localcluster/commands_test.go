package main_test

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func TestStartPrintsOneLineOfText(t *testing.T) {
	r, line, err := launch("--without-controllers")
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`^ready kubeconfig=(\S+) server=(https://127\.0\.0\.1:\d+)$`).FindStringSubmatch(line)
	if match == nil {
		t.Errorf("printed %q", line)
	} else if config, err := clientcmd.BuildConfigFromFlags("", match[1]); err != nil || config.Host != match[2] {
		t.Errorf("the kubeconfig leads to %v (%v), the line says %s", config, err, match[2])
	}
	if err := r.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if code := r.wait(t); code != 0 || r.stdout.Len() > 0 {
		t.Errorf("exit code %d, more on stdout: %q", code, r.stdout.String())
	}
}

func TestExecGivesTheCommandAClusterAndPassesItsExitCodeOn(t *testing.T) {
	seen := filepath.Join(t.TempDir(), "seen")
	code, stdout, stderr := call(t, "exec", "--without-controllers", "--",
		"sh", "-c", `cp "$KUBECONFIG" "$1" && echo "$KUBECONFIG" && exit 7`, "sh", seen)
	if code != 7 || stderr != "" {
		t.Fatalf("exit code %d, stderr %q; want 7 and nothing", code, stderr)
	}
	mustNotBeThere := strings.TrimSpace(stdout)
	if _, err := os.Stat(mustNotBeThere); mustNotBeThere == "" || err == nil {
		t.Errorf("the kubeconfig %q is still there", mustNotBeThere)
	}
	config, err := clientcmd.BuildConfigFromFlags("", seen)
	if err != nil {
		t.Fatal(err)
	}
	if connection, err := net.Dial("tcp", strings.TrimPrefix(config.Host, "https://")); err == nil {
		_ = connection.Close()
		t.Errorf("%s still answers", config.Host)
	}
}

func TestExecReportsASignalAsShellsDo(t *testing.T) {
	if code, _, stderr := call(t, "exec", "--without-controllers", "sh", "-c", "kill -TERM $$"); code != 128+15 {
		t.Errorf("exit code %d, want 143: %s", code, stderr)
	}
}

func TestVersionNamesKubernetesAndEtcd(t *testing.T) {
	code, stdout, stderr := call(t, "version")
	if code != 0 || !strings.Contains(stdout, "kubernetes v1.36.3\n") || !regexp.MustCompile(`etcd v3\.\d+\.\d+\n`).MatchString(stdout) {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

// If the kernel does not end children with their parent, the end of their stdin does.
func TestAComponentEndsWhenItsStdinIsClosed(t *testing.T) {
	// A server that accepts and never answers keeps the controller manager waiting.
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close() //nolint:errcheck // nothing depends on it
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	content := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c}}]\n" +
		"clusters: [{name: c, cluster: {server: 'http://" + server.Addr().String() + "'}}]\n"
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "component", "kube-controller-manager", "--",
		"--kubeconfig="+kubeconfig, "--leader-elect=false", "--secure-port=0", "--controllers=namespace-controller")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.Contains(lines.Text(), "Starting") {
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if _, err := io.Copy(io.Discard, stderr); err != nil {
		t.Log(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it did not end in order: %v", err)
	}
}
