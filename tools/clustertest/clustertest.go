// Package clustertest gives a test a real Kubernetes API server: the localcluster binary of this working tree, built once and
// started for a test or shared by a package's tests.
//
// It promises that a cluster is ready when it returns it, and that nothing of it still runs when the test binary has ended, for
// whatever reason. It does not clean up between tests that share a cluster: each must use objects of its own.
package clustertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"sluice.dev/tools/clustertest/binary"
)

const (
	// startTimeout bounds the start of a built binary; it is long because a busy machine is no failure.
	startTimeout = 3 * time.Minute
	// stopTimeout bounds how long the API server may still listen after localcluster was killed.
	stopTimeout = time.Minute
	// buildTimeout bounds the build, and the waiting for another process that builds.
	buildTimeout = 30 * time.Minute

	maxDiagnostics = 16 << 10
)

// collectLess makes the processes of a test's cluster collect garbage less often. Garbage collection takes up to a third of their processor
// time. The environment of the test overrides these settings.
var collectLess = []string{"GOGC=400", "GOMEMLIMIT=2GiB"}

// Option changes how a cluster is started.
type Option func(*settings)

type settings struct{ args []string }

// APIServerArg passes a flag to the kube-apiserver, as name=value without leading dashes, for example
// "feature-gates=AllAlpha=true". Default: none. It may be given several times. A flag that localcluster sets itself is replaced; if
// the cluster depends on its value, the start fails.
// The Kubernetes version that the API server emulates is such a flag, too.
func APIServerArg(arg string) Option {
	return func(s *settings) { s.args = append(s.args, "--apiserver-arg", arg) }
}

// WithoutControllers leaves the kube-controller-manager out: no default service accounts, no garbage collection, and
// deleted namespaces stay in phase Terminating. Default: it runs.
func WithoutControllers() Option {
	return func(s *settings) { s.args = append(s.args, withoutControllers) }
}

const withoutControllers = "--without-controllers"

// Cluster is a running cluster. Its fields do not change while it exists, also not by Crash.
type Cluster struct {
	// Kubeconfig is the absolute path of the kubeconfig of an administrator with all rights.
	Kubeconfig string
	// Server is the API server's URL, https://127.0.0.1:PORT.
	Server string

	dir    string
	base   []string // what is the same with all options
	args   []string
	config *rest.Config

	mu      sync.Mutex
	process *process
}

// Start starts a cluster for one test and stops it when the test and its subtests have ended. It fails the test when
// the cluster cannot be started. The first call in a working tree builds the binary, which may take minutes.
func Start(t testing.TB, options ...Option) *Cluster {
	t.Helper()
	skipWithoutControllers(t, options)
	c, err := Launch(t.Context(), options...)
	if err != nil {
		t.Fatalf("clustertest: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("clustertest: %v", err)
		}
	})
	return c
}

// argumentsOf are the arguments of localcluster that options stand for.
func argumentsOf(options []Option) []string {
	var s settings
	for _, option := range options {
		option(&s)
	}
	return s.args
}

// skipWithoutControllers skips a test whose cluster is to have controllers, if KUBEBUILDER_ASSETS has none.
func skipWithoutControllers(t testing.TB, options []Option) {
	t.Helper()
	if !slices.Contains(argumentsOf(options), withoutControllers) && !binary.HasControllers() {
		t.Skip("KUBEBUILDER_ASSETS has no kube-controller-manager, which this test needs; without KUBEBUILDER_ASSETS the tests build one")
	}
}

// Config returns a configuration of its own for the administrator, without client-side throttling (QPS -1).
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// PID is the id of the process that supervises the cluster; zero after Stop.
func (c *Cluster) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return 0
	}
	return c.process.cmd.Process.Pid
}

// Crash kills all of the cluster at once and starts it again with the same data, keys, port and options. Watches and connections
// break. It fails the test when it cannot be done.
// Nothing is written in order: it is what happens when a machine loses power, but for the disk, whose writes are
// kept.
func (c *Cluster) Crash(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		t.Fatal("clustertest: Crash after Stop")
	}
	err := c.killAndWait()
	if err == nil {
		err = c.launchProcess(t.Context())
	}
	if err != nil {
		t.Fatalf("clustertest: crash: %v", err)
	}
}

// CrashWith is Crash with other options than before, for instance if the API server has another version afterwards. No options
// stand for the defaults.
func (c *Cluster) CrashWith(t testing.TB, options ...Option) {
	t.Helper()
	c.mu.Lock()
	c.args = slices.Concat(c.base, argumentsOf(options))
	c.mu.Unlock()
	c.Crash(t)
}

// awaitSilence waits until nobody listens at the API server's port: the kernel ends the parts of a cluster that was killed, but
// not before the kill returns.
// Without the wait a new API server could not take the port, and a client might still talk to the old one.
func (c *Cluster) awaitSilence() error {
	server, err := url.Parse(c.Server)
	if err != nil {
		return err
	}
	address, err := netip.ParseAddrPort(server.Host)
	if err != nil {
		return err
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for timeout := time.After(stopTimeout); ; {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(address))
		if err == nil {
			return l.Close()
		}
		select {
		case <-timeout:
			return fmt.Errorf("%s is still taken: %w", server.Host, err)
		case <-tick.C:
		}
	}
}

// killAndWait kills the process and what it supervises, and waits until nothing of it listens.
func (c *Cluster) killAndWait() error {
	err := c.process.endRunning()
	c.process = nil
	return errors.Join(err, c.awaitSilence())
}

// Stop kills the cluster and removes its data. An orderly stop of an API server that clients watch would take 15 seconds. Further calls do
// nothing. The error tells that the cluster had ended before.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return nil
	}
	return errors.Join(c.killAndWait(), os.RemoveAll(c.dir))
}

// Launch starts a cluster for a program that is no test. The caller stops it; it also ends with the program. ctx bounds the
// start.
// The first call builds the binary. The folder of the cluster is removed if the start fails.
func Launch(ctx context.Context, options ...Option) (*Cluster, error) {
	building, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	path, err := binary.Path(building, ".", os.Stderr)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "clustertest-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, base: []string{
		path, "start", "-o", "json", "--until-stdin-closes",
		"--dir", filepath.Join(dir, "cluster"), "--no-fsync", "--timeout", startTimeout.String(),
	}}
	c.args = slices.Concat(c.base, argumentsOf(options))
	if err := c.launchProcess(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	c.config.QPS = -1
	return c, nil
}

// launchProcess starts the process and waits until it reports that it is ready. It asks for the port that the cluster had
// before, if any.
func (c *Cluster) launchProcess(ctx context.Context) error {
	args := c.args
	if c.Server != "" {
		server, err := url.Parse(c.Server)
		if err != nil {
			return err
		}
		args = append(slices.Clip(args), "--port", server.Port())
	}
	p, err := spawnProcess(args)
	if err != nil {
		return err
	}
	ready, err := p.awaitReady(ctx)
	if err != nil {
		return errors.Join(err, p.kill())
	}
	c.process, c.Kubeconfig, c.Server = p, ready.Kubeconfig, ready.Server
	return nil
}

// process is a running localcluster. It stops when its stdin is closed, which the kernel does when the test binary ends
// without having stopped it.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr *Output
	// line receives the first line on stdout; it is closed when there is none.
	line  chan []byte
	ended chan struct{}
}

// spawnProcess starts localcluster with a pipe as its stdin, and reads the first line of stdout in the background. In
// a test the settings for garbage collection are put before the environment, whose own values win.
func spawnProcess(args []string) (*process, error) {
	p := &process{stderr: &Output{Most: maxDiagnostics}, line: make(chan []byte, 1), ended: make(chan struct{})}
	p.cmd = exec.Command(args[0], args[1:]...) //nolint:gosec // the binary that was built for this
	p.cmd.Stderr = p.stderr
	// Benchmarks measure the processes as they are.
	if testing.Testing() {
		p.cmd.Env = append(slices.Clip(collectLess), os.Environ()...)
	}
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		if line, err := bufio.NewReader(io.LimitReader(stdout, maxDiagnostics)).ReadBytes('\n'); err == nil {
			p.line <- line
		}
		close(p.line)
		// cmd.ProcessState has the result.
		_ = p.cmd.Wait()
	}()
	return p, nil
}

type readyLine struct{ Kubeconfig, Server string }

// awaitReady waits for the line that says where the cluster is. An error has the end of stderr, because localcluster
// says there why it ended.
func (p *process) awaitReady(ctx context.Context) (readyLine, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout+stopTimeout)
	defer cancel()
	var ready readyLine
	select {
	case <-ctx.Done():
		return ready, fmt.Errorf("localcluster is not ready: %w: %s", context.Cause(ctx), p.stderr)
	case line, ok := <-p.line:
		if !ok {
			<-p.ended
			return ready, fmt.Errorf("localcluster ended with %s: %s", p.cmd.ProcessState, p.stderr)
		}
		if err := json.Unmarshal(line, &ready); err != nil {
			return ready, fmt.Errorf("localcluster printed %q: %w", line, err)
		}
		return ready, nil
	}
}

// endRunning kills the process. The error tells when it had ended before.
func (p *process) endRunning() error {
	select {
	case <-p.ended:
		return fmt.Errorf("localcluster had ended with %s: %s", p.cmd.ProcessState, p.stderr)
	default:
		return p.kill()
	}
}

// kill ends the process at once; its children end with it.
func (p *process) kill() error {
	err := p.cmd.Process.Kill()
	<-p.ended
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Output keeps what a process writes, while others read it. The zero value is ready for use.
type Output struct {
	// Most is the number of bytes that are kept of the end; 0 keeps everything.
	Most int

	mu   sync.Mutex
	kept []byte
}

// Write implements io.Writer; it never fails.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = append(o.kept, p...)
	if over := len(o.kept) - o.Most; o.Most > 0 && over > 0 {
		o.kept = append(o.kept[:0], o.kept[over:]...)
	}
	return len(p), nil
}

// String returns what is kept.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.kept)
}
