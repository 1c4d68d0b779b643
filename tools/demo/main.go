// Command demo shows the life of a CRD on a real API server. Its first version comes from a git repository, is resolved, checked
// and applied, and gets objects. The next one is unsafe, and stopped with a witness and the objects that it would break. A safe one
// is delivered. A guard at admission stops the unsafe one from any client, with a recorded way around.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sluice.dev/tools/clustertest/binary"
)

func main() {
	sluice := flag.String("sluice", "bin/sluice", "the sluice binary")
	examples := flag.String("examples", "examples/upgrade", "the folder with the manifests")
	keep := flag.Bool("keep", false, "keep the cluster, the repository and the guard running until interrupted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d := &demo{out: os.Stdout, sluice: *sluice, examples: *examples, keep: *keep}
	if err := d.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		stop()
		os.Exit(1)
	}
}

type demo struct {
	out              io.Writer
	sluice, examples string
	keep             bool
	step             int

	// dir has all files of the demo.
	dir, kubeconfig string
	// kubectl is the path of one.
	kubectl string
}

func (d *demo) say(what string) {
	d.step++
	fmt.Fprintf(d.out, "\n== %d. %s\n", d.step, what)
}

func (d *demo) run(ctx context.Context) error {
	bin, err := binary.Path(ctx, ".", os.Stderr)
	if err != nil {
		return err
	}
	if d.kubectl, err = binary.Kubectl(ctx, ".", os.Stderr); err != nil {
		return err
	}
	if d.sluice, err = filepath.Abs(d.sluice); err != nil {
		return err
	}
	if d.dir, err = os.MkdirTemp("", "sluice-demo"); err != nil {
		return err
	}
	defer os.RemoveAll(d.dir) //nolint:errcheck // a temporary folder
	d.kubeconfig = filepath.Join(d.dir, "kubeconfig")
	d.say("A real kube-apiserver with etcd is started")
	stopCluster, took, err := startCluster(ctx, bin, d.kubeconfig)
	if err != nil {
		return err
	}
	defer stopCluster()
	fmt.Fprintf(d.out, "ready after %.1f s\n", took.Seconds())
	return d.tell(ctx)
}

// sluiceWith shows a command of sluice, runs it in the demo's folder, shows what it says and wants an exit code.
func (d *demo) sluiceWith(ctx context.Context, want int, args ...string) error {
	out, err := d.command(ctx, want, d.sluice, args...)
	fmt.Fprint(d.out, out)
	if err == nil && want != 0 {
		fmt.Fprintf(d.out, "exit code %d\n", want)
	}
	return err
}

// command shows a command, runs it and returns what it says.
func (d *demo) command(ctx context.Context, want int, program string, args ...string) (string, error) {
	fmt.Fprintf(d.out, "$ %s %s\n", filepath.Base(program), strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = d.dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+d.kubeconfig, "KUBECACHEDIR="+filepath.Join(d.dir, "kubectl-cache"))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", err
	}
	if code := cmd.ProcessState.ExitCode(); code != want {
		return "", fmt.Errorf("%s %s ended with exit code %d, not %d: %s", filepath.Base(program), strings.Join(args, " "), code, want, out)
	}
	return string(out), nil
}

// startCluster starts the binary and waits for the line that says that the cluster is ready.
func startCluster(ctx context.Context, bin, kubeconfig string) (func(), time.Duration, error) {
	start := time.Now()
	cmd := exec.Command(bin, "start", "--kubeconfig", kubeconfig)
	var diagnostics strings.Builder
	cmd.Stderr = &diagnostics
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, 0, err
	}
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	stop := func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err == nil {
			_ = cmd.Wait() // it ends by the signal
		}
	}
	ready := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(out)
		ready <- lines.Scan() && strings.HasPrefix(lines.Text(), "ready ")
		_, _ = io.Copy(io.Discard, out)
	}()
	select {
	case ok := <-ready:
		if !ok {
			stop()
			return nil, 0, fmt.Errorf("the cluster did not start: %s", strings.TrimSpace(diagnostics.String()))
		}
		return stop, time.Since(start), nil
	case <-time.After(2 * time.Minute):
	case <-ctx.Done():
	}
	stop()
	return nil, 0, errors.New("the cluster did not become ready")
}
