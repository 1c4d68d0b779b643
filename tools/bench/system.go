package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"sluice.dev/internal/controller/features"
	"sluice.dev/internal/controller/guard"
	"sluice.dev/internal/limit"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/kube"
)

const (
	systemNamespace = "sluice-system"
	// patience bounds the wait for a process to be ready, and for one to end.
	patience = time.Minute
	// endAfter is how long a process has to end in order.
	endAfter = 20 * time.Second
)

// errNotYet is for what is waited for.
var errNotYet = errors.New("not yet")

// system is Sluice as its manifests install it, on a cluster of its own: each role is a process of the binary under its
// ServiceAccount.
type system struct {
	bin, dir string
	// webhook is where the conversion webhook listens.
	webhook string
	// guard is where the admission webhook for CRDs listens.
	guard string
	// through has, for accounts that do not speak to the API server directly, what they speak to.
	through map[string]*rest.Config
	// waves is how many have been measured.
	waves   int
	cluster *clustertest.Cluster
	kube    kubernetes.Interface
	objects *kube.Client
	admin   *http.Client

	mu    sync.Mutex
	roles []*role
}

// role is a running process of sluice serve.
type role struct {
	name, listen, cache string
	cmd                 *exec.Cmd
	log                 *bytes.Buffer
	ended               chan struct{}
}

func (r *role) pid() int { return r.cmd.Process.Pid }

// installRoles starts a cluster and puts the manifests of some roles into it; of all that stand for themselves if none are named.
func installRoles(ctx context.Context, sluice string, options []string) (s *system, err error) {
	s = &system{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.bin, err = filepath.Abs(sluice); err != nil {
		return s, err
	}
	if s.dir, err = os.MkdirTemp("", "sluice-bench"); err != nil {
		return s, err
	}
	if s.cluster, err = clustertest.Launch(ctx); err != nil {
		return s, err
	}
	config := s.cluster.Config()
	var errs [3]error
	s.kube, errs[0] = kubernetes.NewForConfig(config)
	s.objects, errs[1] = kube.New(config)
	s.admin, errs[2] = clientFor(config)
	if err = errors.Join(errs[:]...); err != nil {
		return s, err
	}
	if s.webhook, err = freeAddress(ctx); err != nil {
		return s, err
	}
	if s.guard, err = freeAddress(ctx); err != nil {
		return s, err
	}
	return s, s.applyManifests(ctx, options)
}

// install starts a cluster and puts the manifests and the configuration of the resolvers, by ConfigMap, into it.
func install(ctx context.Context, sluice string, configs map[string]map[string]string) (s *system, err error) {
	if s, err = installRoles(ctx, sluice, nil); err != nil {
		return s, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	for name, data := range configs {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: systemNamespace}, Data: data}
		if _, err = s.kube.CoreV1().ConfigMaps(systemNamespace).Create(ctx, m, metav1.CreateOptions{}); err != nil {
			return s, err
		}
	}
	return s, until(ctx, "the policies to be in force", func() error {
		if code, body, err := s.create(ctx, "default", []byte(`{"apiVersion": "`+requestVersion+`", "kind": "ResolutionRequest", "metadata": {"name": "no-label"}}`), true); err != nil || code < 400 {
			return fmt.Errorf("a request without a label was answered by %d %s (%w)", code, body, err)
		}
		return nil
	})
}

// applyManifests applies what sluice manifests prints. Nothing here runs Deployments.
func (s *system) applyManifests(ctx context.Context, options []string) error {
	out, err := exec.CommandContext(ctx, s.bin, append([]string{"manifests", "--image=example.test/sluice"}, options...)...).Output()
	if err != nil {
		return fmt.Errorf("%s manifests: %w (make build)", s.bin, err)
	}
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := dec.Decode(&u.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if u.GetKind() == "Deployment" {
			continue
		}
		if err := s.reroute(u); err != nil {
			return err
		}
		if err := s.objects.ApplyObject(ctx, u, false); err != nil {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
}

// reroute makes the API server find the webhooks, as a cluster's network would: nothing routes to a Service here.
func (s *system) reroute(u *unstructured.Unstructured) error {
	host, port, err := net.SplitHostPort(s.webhook)
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(port, 10, 64)
	if err != nil {
		return err
	}
	switch u.GetKind() {
	case "Service":
		return unstructured.SetNestedMap(u.Object, map[string]any{"type": "ExternalName", "externalName": host}, "spec")
	case "ValidatingWebhookConfiguration":
		hooks, _, err := unstructured.NestedSlice(u.Object, "webhooks")
		if err != nil {
			return err
		}
		for _, h := range hooks {
			if hook, ok := h.(map[string]any); ok {
				hook["clientConfig"] = map[string]any{"url": "https://" + s.guard + guard.Path}
				// What takes long on a busy machine is to be measured, not cut off.
				hook["timeoutSeconds"] = int64(30)
			}
		}
		return unstructured.SetNestedSlice(u.Object, hooks, "webhooks")
	case "CustomResourceDefinition":
		if _, converted, err := unstructured.NestedMap(u.Object, "spec", "conversion"); err != nil || !converted {
			return err
		}
		return unstructured.SetNestedField(u.Object, n, "spec", "conversion", "webhook", "clientConfig", "service", "port")
	}
	return nil
}

// start starts roles, each a process, and waits until all are ready.
func (s *system) start(ctx context.Context, names ...string) ([]*role, error) {
	var out []*role
	for _, name := range names {
		r, err := s.launch(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	for _, r := range out {
		if err := until(ctx, r.name+" to be ready", func() error { return r.ready(ctx) }); err != nil {
			return nil, fmt.Errorf("%w: %s", err, r.log)
		}
	}
	return out, nil
}

func (s *system) launch(ctx context.Context, name string) (*role, error) {
	account := "sluice-" + name
	config, err := s.kubeconfig(ctx, account)
	if err != nil {
		return nil, err
	}
	cache, err := os.MkdirTemp(s.dir, name+"-")
	if err != nil {
		return nil, err
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	r := &role{name: name, listen: address, cache: cache, log: &bytes.Buffer{}, ended: make(chan struct{})}
	r.cmd = exec.Command(s.bin, "serve", "--roles="+name, "--kubeconfig="+config, "--listen="+address, //nolint:noctx // the binary that is measured; it is ended by stop
		"--webhook-listen="+s.webhook, "--cache-dir="+cache)
	if name == guard.Role {
		r.cmd.Args = append(r.cmd.Args, "--guard-listen="+s.guard, "--guard-host=127.0.0.1")
	}
	if name == features.WebhookRole {
		address, err := freeAddress(ctx)
		if err != nil {
			return nil, err
		}
		r.cmd.Args = append(r.cmd.Args, "--feature-webhook-listen="+address, "--feature-webhook-url=https://"+address, "--feature-webhook-host=127.0.0.1")
	}
	r.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + s.dir, "POD_NAME=" + filepath.Base(cache)}
	r.cmd.Env = append(r.cmd.Env, extraEnv()...)
	r.cmd.Stderr = r.log
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(r.ended)
		// How it ended stands in cmd.ProcessState.
		_ = r.cmd.Wait()
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roles = append(s.roles, r)
	return r, nil
}

// kubeconfig writes one that authenticates as a ServiceAccount.
func (s *system) kubeconfig(ctx context.Context, account string) (string, error) {
	token, err := s.kube.CoreV1().ServiceAccounts(systemNamespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	config, file := s.cluster.Config(), filepath.Join(s.dir, account+".kubeconfig")
	if proxy := s.through[account]; proxy != nil {
		config = proxy
	}
	return file, clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "c", Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		Clusters:  map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, CertificateAuthorityData: config.CAData, CertificateAuthority: config.CAFile}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {Token: token.Status.Token}},
	}, file)
}

// namespace makes a namespace in which the resolvers may read credentials, as its owner would allow them.
func (s *system) namespace(ctx context.Context, name string) error {
	_, err := s.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "credentials"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "sluice-resolver-credentials"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "sluice-resolver-bundles", Namespace: systemNamespace}},
	}
	if _, err := s.kube.RbacV1().RoleBindings(name).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	return until(ctx, "the default ServiceAccount", func() error {
		_, err := s.kube.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func (r *role) ready(ctx context.Context) error {
	select {
	case <-r.ended:
		return errors.New("it has ended")
	default:
	}
	code, body, err := fetch(ctx, http.DefaultClient, "http://"+r.listen+"/readyz")
	if err == nil && code != http.StatusOK {
		err = errors.New(string(body))
	}
	return err
}

// stop ends the process in order, and by force if it does not.
func (r *role) stop() error {
	// Should it have ended by itself, its exit code tells.
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(endAfter)
	defer timer.Stop()
	select {
	case <-r.ended:
	case <-timer.C:
		_ = r.cmd.Process.Kill()
		<-r.ended
		return fmt.Errorf("%s did not end within %s", r.name, endAfter)
	}
	if code := r.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s ended with %s: %s", r.name, r.cmd.ProcessState, strings.TrimSpace(r.log.String()))
	}
	return nil
}

// complaints are what the processes have logged: warnings and errors only.
func (s *system) complaints() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, r := range s.roles {
		select {
		case <-r.ended:
			for line := range strings.Lines(r.log.String()) {
				b.WriteString(r.name + ": " + line)
			}
		default:
		}
	}
	return b.String()
}

// end stops one process.
func (s *system) end(r *role) error {
	s.mu.Lock()
	for i, o := range s.roles {
		if o == r {
			s.roles = append(s.roles[:i:i], s.roles[i+1:]...)
		}
	}
	s.mu.Unlock()
	return r.stop()
}

// close ends everything that was started and removes its files.
func (s *system) close() error {
	var errs []error
	s.mu.Lock()
	roles := s.roles
	s.mu.Unlock()
	for _, r := range roles {
		errs = append(errs, r.stop())
	}
	if s.cluster != nil {
		errs = append(errs, s.cluster.Stop())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// extraEnv hands settings of the Go runtime on.
func extraEnv() []string {
	var out []string
	for _, name := range []string{"GODEBUG", "GOGC", "GOMEMLIMIT", "GOMAXPROCS"} {
		if v := os.Getenv(name); v != "" {
			out = append(out, name+"="+v)
		}
	}
	return out
}

// until waits for a condition.
func until(ctx context.Context, what string, check func() error) error {
	return untilAfter(ctx, patience, what, check)
}

// untilAfter waits for a condition, and no longer than the time given.
func untilAfter(ctx context.Context, most time.Duration, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, cmp.Or(err, ctx.Err()))
		case <-tick.C:
		}
	}
}

func freeAddress(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// fetch reads an address, at most 64 MiB of it.
func fetch(ctx context.Context, client *http.Client, url string) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	body, err := limit.ReadAll(response.Body, 64<<20)
	return response.StatusCode, body, err
}
