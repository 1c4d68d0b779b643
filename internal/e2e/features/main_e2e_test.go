//go:build e2e

package features

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"sluice.dev/config"
	"sluice.dev/internal/cli"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/kube"
)

const (
	// asSluice has the test binary be the command sluice.
	asSluice        = "SLUICE_E2E_AS_COMMAND"
	systemNamespace = "sluice-system"
	// patience is long because a busy machine is no failure.
	patience = 2 * time.Minute
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
			fmt.Fprintf(os.Stderr, "%s logged: %s\n", p.role, p.log)
		}
	}
	os.Exit(code)
}

// eventually calls check until it returns nil.
func eventually(t testing.TB, what string, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, err)
		case <-tick.C:
		}
	}
}

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
	s.hook, errs[3] = freeAddress()
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
	dec := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := dec.Decode(&u.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if u.Object == nil || slices.Contains(s.unknown, u.GetKind()) {
			continue
		}
		if err := s.objects.ApplyObject(ctx, u, u.GetKind() == "Deployment"); err != nil {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
}

// process is a process of sluice serve.
type process struct {
	role, listen string

	cmd   *exec.Cmd
	log   *lockedBuffer
	ended chan struct{}
	dir   string
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var (
	processesMu sync.Mutex
	processes   []*process
)

// stopAll ends what still runs.
func stopAll() {
	processesMu.Lock()
	defer processesMu.Unlock()
	for _, p := range processes {
		p.kill()
	}
}

// start starts the process of a role under its ServiceAccount and waits until it is ready.
func (s *system) start(ctx context.Context, role string) (*process, error) {
	listen, err := freeAddress()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "features-e2e-")
	if err != nil {
		return nil, err
	}
	file, err := s.kubeconfig(ctx, dir, "sluice-"+role)
	if err != nil {
		return nil, err
	}
	p := &process{role: role, listen: listen, log: &lockedBuffer{}, ended: make(chan struct{}), dir: dir}
	p.cmd = exec.Command(os.Args[0], "serve", "--roles="+role, "--kubeconfig="+file, "--listen="+listen, "--verbose", "--feature-usage-interval=2s",
		"--feature-webhook-listen="+s.hook, "--feature-webhook-url=https://"+s.hook, "--feature-webhook-host=127.0.0.1")
	p.cmd.Env = []string{asSluice + "=1", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "POD_NAME=" + fmt.Sprintf("%s-%d", role, time.Now().UnixNano())}
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		// How it ended stands in cmd.ProcessState.
		_ = p.cmd.Wait()
	}()
	processesMu.Lock()
	processes = append(processes, p)
	processesMu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		_, err := p.get(ctx, "/readyz")
		if err == nil {
			tick.Stop()
			return p, nil
		}
		select {
		case <-p.ended:
			return nil, fmt.Errorf("%s ended with %s: %s", role, p.cmd.ProcessState, p.log)
		case <-ctx.Done():
			return nil, fmt.Errorf("%s is not ready: %w: %s", role, err, p.log)
		case <-tick.C:
		}
	}
}

// kill ends the process by SIGKILL, if it still runs.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
	_ = os.RemoveAll(p.dir)
}

// stop ends it in order.
func (p *process) stop(t *testing.T) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Errorf("%s does not end", p.role)
		p.kill()
	}
}

func (p *process) get(ctx context.Context, path string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.listen+path, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(string(body))
	}
	return string(body), err
}

// kubeconfig writes one that authenticates as a ServiceAccount of Sluice.
func (s *system) kubeconfig(ctx context.Context, dir, account string) (string, error) {
	token, err := s.kube.CoreV1().ServiceAccounts(systemNamespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "kubeconfig")
	return file, clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "c", Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		Clusters:  map[string]*clientcmdapi.Cluster{"c": {Server: s.admin.Host, CertificateAuthorityData: s.admin.CAData, CertificateAuthority: s.admin.CAFile}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {Token: token.Status.Token}},
	}, file)
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
