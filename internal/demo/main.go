// Command demo tells the main job of sluice on a real API server: a CRD is installed and has objects, an unsafe next
// version is stopped with a witness and the objects that it would break, a safe one passes and is installed.
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

	"k8s.io/client-go/tools/clientcmd"

	"sluice.dev/internal/clustertest/binary"
	"sluice.dev/internal/kube"
)

func main() {
	sluice := flag.String("sluice", "bin/sluice", "the sluice binary")
	examples := flag.String("examples", "examples/upgrade", "the folder with the manifests")
	keep := flag.Bool("keep", false, "keep the cluster running until interrupted")
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
}

func (d *demo) say(format string, args ...any) {
	d.step++
	fmt.Fprintf(d.out, "\n== %d. %s\n", d.step, fmt.Sprintf(format, args...))
}

func (d *demo) run(ctx context.Context) error {
	bin, err := binary.Path(ctx, ".", os.Stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sluice-demo")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	kubeconfig := filepath.Join(dir, "kubeconfig")
	d.say("Starting a real kube-apiserver with etcd")
	stopCluster, took, err := startCluster(ctx, bin, kubeconfig)
	if err != nil {
		return err
	}
	defer stopCluster()
	fmt.Fprintf(d.out, "ready after %.1f s: export KUBECONFIG=%s\n", took.Seconds(), kubeconfig)
	if err := d.tell(ctx, kubeconfig); err != nil {
		return err
	}
	if d.keep {
		fmt.Fprintln(d.out, "\nThe cluster runs until you press Ctrl-C.")
		<-ctx.Done()
	}
	return nil
}

// tell plays the story on the cluster of the kubeconfig.
func (d *demo) tell(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	k, err := kube.New(config)
	if err != nil {
		return err
	}
	v1, unsafe, safe := d.file("v1.yaml"), d.file("v2-unsafe.yaml"), d.file("v3-safe.yaml")
	d.say("Installing the CRD %s and storing objects under it", v1)
	for _, f := range []string{v1, d.file("objects.yaml")} {
		if err := k.Apply(ctx, f, false); err != nil {
			return err
		}
		fmt.Fprintf(d.out, "applied %s\n", f)
	}
	d.say("A next version, %s, looks harmless", unsafe)
	code, err := d.check(ctx, kubeconfig, unsafe)
	if err != nil {
		return err
	}
	if code != 1 {
		return fmt.Errorf("the check of %s ended with exit code %d, want 1", unsafe, code)
	}
	d.say("Another one, %s, is safe", safe)
	if code, err = d.check(ctx, kubeconfig, safe); err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("the check of %s ended with exit code %d, want 0", safe, code)
	}
	if err := k.Apply(ctx, safe, false); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "applied %s\n", safe)
	d.say("How to go on")
	fmt.Fprintf(d.out, `With a cluster of your own:
  kubectl get crd NAME -o yaml > old.yaml && %[1]s check old.yaml new.yaml
  %[1]s check new.yaml                     # against the live CRDs and their stored objects
  %[1]s check --git origin/main..HEAD .    # in a pull request, with -o markdown, github or sarif
With this one: go run ./internal/demo --keep, then in another shell export KUBECONFIG as shown, and
  kubectl get databases -A
  kubectl apply --server-side -f %[2]s --dry-run=server
`, d.sluice, unsafe)
	return nil
}

func (d *demo) file(name string) string { return filepath.Join(d.examples, name) }

// check runs sluice check against the cluster and returns its exit code.
func (d *demo) check(ctx context.Context, kubeconfig, file string) (int, error) {
	args := []string{"check", "--kubeconfig", kubeconfig, file}
	fmt.Fprintf(d.out, "$ %s %s\n", d.sluice, strings.Join(args, " "))
	bin, err := filepath.Abs(d.sluice)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Stdout, cmd.Stderr = d.out, d.out
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	code := cmd.ProcessState.ExitCode()
	fmt.Fprintf(d.out, "exit code %d\n", code)
	if code != 0 && code != 1 {
		return code, fmt.Errorf("%s could not check %s", d.sluice, file)
	}
	return code, nil
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
