//go:build e2e

package clustertest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/tools/clustertest"
)

const (
	patience = 3 * time.Minute
	// asHelper has this test binary start a cluster, say where, and wait to be killed.
	asHelper = "CLUSTERTEST_HELPER"
)

var shared clustertest.Shared

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

func client(t *testing.T, c *clustertest.Cluster) *kubernetes.Clientset {
	t.Helper()
	config := c.Config()
	if config.QPS >= 0 {
		t.Errorf("QPS is %v, so clients throttle", config.QPS)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestE2ETheSharedClusterIsOneForAllTests(t *testing.T) {
	first := shared.Get(t)
	t.Run("a subtest", func(t *testing.T) {
		if shared.Get(t) != first {
			t.Error("it got another")
		}
	})
	if _, err := client(t, first).CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestE2EConfigIsACopy(t *testing.T) {
	c := shared.Get(t)
	c.Config().Host = "changed"
	if got := c.Config().Host; got != c.Server {
		t.Errorf("host %q, want %q", got, c.Server)
	}
}

func TestE2ECrashKeepsDataAndPort(t *testing.T) {
	c := clustertest.Start(t)
	before, server, pid := client(t, c), c.Server, c.PID()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	if _, err := before.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Crash(t)
	if c.Server != server || c.PID() == pid {
		t.Errorf("server %s and process %d before, %s and %d after", server, pid, c.Server, c.PID())
	}
	// A client from before finds its way too, if not with its first request.
	for _, client := range []*kubernetes.Clientset{before, client(t, c)} {
		clustertest.Eventually(t, "the server to answer an old client", func(ctx context.Context) error {
			_, err := client.CoreV1().Namespaces().Get(ctx, "kept", metav1.GetOptions{})
			return err
		})
	}
}

func TestE2EOptionsReachTheCluster(t *testing.T) {
	c := clustertest.Start(t, clustertest.WithoutControllers(), clustertest.APIServerArg("authorization-mode=AlwaysDeny"))
	// The administrator's group passes all authorisation, so somebody else has to ask.
	config := c.Config()
	config.Impersonate.UserName = "somebody"
	somebody, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := somebody.Discovery().ServerVersion(); !apierrors.IsForbidden(err) {
		t.Errorf("with AlwaysDeny: %v", err)
	}
	if _, err := client(t, c).CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the default service account without controllers: %v", err)
	}
}

func TestE2EStopLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	c := clustertest.Start(t, clustertest.WithoutControllers())
	pid := c.PID()
	for range 2 {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d: %v", pid, err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left: %v (%v)", left, err)
	}
	if c.PID() != 0 {
		t.Errorf("a stopped cluster has process %d", c.PID())
	}
}

func TestE2EAClusterThatEndedByItselfIsToldByStop(t *testing.T) {
	c := clustertest.Start(t, clustertest.WithoutControllers())
	pid := c.PID()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, "the killed process to end", func(context.Context) error {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("process %d: %w", pid, err)
		}
		return nil
	})
	if err := c.Stop(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("error %v", err)
	}
}

func TestE2EAStartThatFailsTellsWhy(t *testing.T) {
	output := helper(t, "fail", nil)
	if !strings.Contains(output, "no-such-flag") {
		t.Errorf("the test said %q", output)
	}
}

// The test binary itself is what is killed here, so it runs once more as a process of its own.
func TestE2EAClusterEndsWithAKilledTestBinary(t *testing.T) {
	var dir string
	helper(t, "wait", func(line string) { dir = line })
	if dir == "" {
		t.Fatal("the helper started no cluster")
	}
	clustertest.Eventually(t, "the cluster to end", func(context.Context) error {
		// The supervising process empties this file when it has stopped everything in order.
		holder, err := os.ReadFile(filepath.Join(dir, "lock"))
		if err == nil && len(holder) > 0 {
			err = fmt.Errorf("process %s still runs", holder)
		}
		return err
	})
}

// helper runs TestHelper in a process of its own and returns its output. With onLine, that gets the line in which the
// helper says where its cluster's data is, and the helper is killed then.
func helper(t *testing.T, mode string, onLine func(string)) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHelper$", "-test.v")
	cmd.Env = append(os.Environ(), asHelper+"="+mode, "TMPDIR="+t.TempDir())
	var output bytes.Buffer
	both := writerFunc(func(p []byte) (int, error) {
		output.Write(p)
		if _, after, found := strings.Cut(output.String(), "cluster in "); found && onLine != nil && strings.Contains(after, "\n") {
			onLine(strings.Fields(after)[0])
			onLine = nil
			return len(p), cmd.Process.Kill()
		}
		return len(p), nil
	})
	// One writer for both is written to by one goroutine.
	cmd.Stdout, cmd.Stderr = &both, &both
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) {
		t.Fatalf("the helper: %v", err)
	}
	return output.String()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestHelper(t *testing.T) {
	switch os.Getenv(asHelper) {
	case "fail":
		clustertest.Start(t, clustertest.WithoutControllers(), clustertest.APIServerArg("no-such-flag=1"))
	case "wait":
		c := clustertest.Start(t, clustertest.WithoutControllers())
		t.Logf("cluster in %s", filepath.Dir(c.Kubeconfig))
		<-t.Context().Done()
	default:
		t.Skip("runs only as a process of its own")
	}
}
