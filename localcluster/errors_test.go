package main_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatCannotBeDoneIsSaidInOneLineWithExitCode2(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() //nolint:errcheck // nothing depends on it
	_, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(t.TempDir(), "config")
	content := []byte("apiVersion: v1\nkind: Config\nclusters: [{name: production, cluster: {server: https://example.test}}]\n")
	if err := os.WriteFile(foreign, content, 0o600); err != nil {
		t.Fatal(err)
	}
	blocked := fileBelowFile(t)

	for name, test := range map[string]struct {
		args []string
		want string // a part of the line
	}{
		"taken port":                 {[]string{"start", "--port", port}, "127.0.0.1:" + port + " is taken"},
		"port out of range":          {[]string{"start", "--port", "70000"}, "70000"},
		"unwritable folder":          {[]string{"start", "--dir", blocked}, blocked},
		"folder that is a file":      {[]string{"start", "--dir", filepath.Dir(blocked)}, filepath.Dir(blocked)},
		"unwritable kubeconfig":      {[]string{"start", "--kubeconfig", filepath.Join(blocked, "config")}, blocked},
		"kubeconfig of others":       {[]string{"start", "--kubeconfig", foreign}, foreign},
		"API server flag unknown":    {[]string{"start", "--apiserver-arg", "no-such-flag=1"}, "no-such-flag"},
		"API server flag refused":    {[]string{"start", "--apiserver-arg", "authorization-mode=Sometimes"}, "Sometimes"},
		"API server flag reserved":   {[]string{"start", "--apiserver-arg", "etcd-servers=http://127.0.0.1:1"}, "etcd-servers"},
		"API server flag empty":      {[]string{"start", "--apiserver-arg", "=1"}, "name=value"},
		"output unknown":             {[]string{"start", "-o", "yaml"}, "yaml"},
		"flag unknown":               {[]string{"start", "--no-such-flag"}, "no-such-flag"},
		"command unknown":            {[]string{"begin"}, "begin"},
		"component unknown":          {[]string{"component", "kubelet", "--", "--v=1"}, "kubelet"},
		"exec of nothing":            {[]string{"exec"}, "arg"},
		"exec of no command":         {[]string{"exec", "--", "no-such-command-anywhere"}, "no-such-command-anywhere"},
		"exec in an unusable folder": {[]string{"exec", "--dir", blocked, "--", "true"}, blocked},
		"no time to start":           {[]string{"start", "--timeout", "1ms"}, "1ms"},
		"negative time to start":     {[]string{"start", "--timeout", "-1s"}, "-1s"},
	} {
		t.Run(name, func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			code, stdout, stderr := call(t, test.args...)
			line, rest, _ := strings.Cut(stderr, "\n")
			if code != 2 || stdout != "" || rest != "" || !strings.Contains(line, test.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want 2, nothing, one line with %q", code, stdout, stderr, test.want)
			}
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("left in the temporary folder: %v (%v)", left, err)
			}
		})
	}
	if got, err := os.ReadFile(foreign); err != nil || !cmp.Equal(got, content) {
		t.Errorf("the foreign kubeconfig was touched: %q (%v)", got, err)
	}
}
