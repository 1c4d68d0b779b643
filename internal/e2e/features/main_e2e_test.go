//go:build e2e

package features

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/config"
	"sluice.dev/internal/cli"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/clustertest/nodeless"
	"sluice.dev/tools/kube"
)

const (
	// asSluice has the test binary be the command sluice.
	asSluice        = "SLUICE_E2E_AS_COMMAND"
	systemNamespace = "sluice-system"
)

var shared clustertest.Shared

func TestMain(m *testing.M) {
	if os.Getenv(asSluice) != "" {
		os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	// They wait more than they work. A -parallel of the command line comes later and counts.
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	options, remove, err := audit()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	shared.Options = options
	code := shared.Run(m)
	stopAll()
	remove()
	if code != 0 {
		for _, p := range processes {
			fmt.Fprintf(os.Stderr, "%s logged: %s\n", p.Name, p.Log())
		}
	}
	os.Exit(code)
}

var eventually = clustertest.Eventually

// system is a cluster in which features are installed.
type system struct {
	cluster *clustertest.Cluster
	admin   *rest.Config
	kube    *kubernetes.Clientset
	dynamic *dynamic.DynamicClient
	objects *kube.Client
	unknown []string // kinds
	// hook is where the webhook listens.
	hook string
}

var (
	systemOnce   sync.Once
	sharedSystem *system
	errSystem    error
)

// installed is the cluster that the tests share, with the controller running.
func installed(t *testing.T) *system {
	t.Helper()
	cluster := shared.Get(t)
	systemOnce.Do(func() {
		sharedSystem, errSystem = install(context.WithoutCancel(t.Context()), cluster)
		if errSystem == nil {
			_, errSystem = sharedSystem.start(context.WithoutCancel(t.Context()), "features")
		}
	})
	if errSystem != nil {
		t.Fatal(errSystem)
	}
	return sharedSystem
}

// install applies the manifests, but for Deployments: processes run here. What is of kinds that the API server does not know is
// left out too: they are named.
func install(ctx context.Context, cluster *clustertest.Cluster, unknown ...string) (*system, error) {
	s := &system{cluster: cluster, admin: cluster.Config(), unknown: unknown}
	s.admin.WarningHandler = rest.NoWarnings{}
	var errs [4]error
	s.kube, errs[0] = kubernetes.NewForConfig(s.admin)
	s.dynamic, errs[1] = dynamic.NewForConfig(s.admin)
	s.objects, errs[2] = kube.New(s.admin)
	s.hook, errs[3] = nodeless.FreeAddress(ctx)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	manifests, err := config.Manifests(config.Options{Image: "example.test/sluice:v1", Roles: []string{config.FeaturesRole, config.FeatureWebhookRole}})
	if err != nil {
		return nil, err
	}
	return s, s.apply(ctx, string(manifests))
}

// apply applies the objects of a YAML stream, but for Deployments.
func (s *system) apply(ctx context.Context, text string) error {
	objects, err := kube.Decode([]byte(text))
	if err != nil {
		return err
	}
	for _, u := range objects {
		if slices.Contains(s.unknown, u.GetKind()) {
			continue
		}
		if err := s.objects.ApplyObject(ctx, u, u.GetKind() == "Deployment"); err != nil {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}

var (
	processesMu sync.Mutex
	processes   []*nodeless.Process
)

// stopAll ends what still runs.
func stopAll() {
	processesMu.Lock()
	defer processesMu.Unlock()
	for _, p := range processes {
		p.Kill()
		_ = os.RemoveAll(folderOf(p))
	}
}

// folderOf is the folder of a process for its files.
func folderOf(p *nodeless.Process) string { return filepath.Join(os.TempDir(), p.Name) }

// start starts the process of a role under its ServiceAccount and waits until it is ready.
func (s *system) start(ctx context.Context, role string) (*nodeless.Process, error) {
	listen, err := nodeless.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", role+"-")
	if err != nil {
		return nil, err
	}
	file, err := s.kubeconfig(ctx, dir, "sluice-"+role)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0], "serve", "--roles="+role, "--kubeconfig="+file, "--listen="+listen, "--verbose", "--feature-usage-interval=2s",
		"--feature-webhook-listen="+s.hook, "--feature-webhook-url=https://"+s.hook, "--feature-webhook-host=127.0.0.1")
	name := filepath.Base(dir)
	cmd.Env = []string{asSluice + "=1", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "POD_NAME=" + name}
	p, err := nodeless.Launch(name, listen, cmd)
	if err != nil {
		return nil, err
	}
	processesMu.Lock()
	processes = append(processes, p)
	processesMu.Unlock()
	return p, p.Ready(ctx)
}

// stop ends a process in order.
func stop(t *testing.T, p *nodeless.Process) {
	t.Helper()
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// kubeconfig writes one that authenticates as a ServiceAccount of Sluice.
func (s *system) kubeconfig(ctx context.Context, dir, account string) (string, error) {
	file := filepath.Join(dir, "kubeconfig")
	return file, nodeless.Kubeconfig(ctx, s.kube, s.admin, systemNamespace, account, file)
}
