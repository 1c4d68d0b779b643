package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/internal/controller/features"
	"sluice.dev/internal/controller/guard"
	"sluice.dev/internal/limit"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/clustertest/nodeless"
	"sluice.dev/tools/kube"
)

const (
	systemNamespace = "sluice-system"
	// patience bounds the wait for a condition.
	patience = time.Minute
)

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
	*nodeless.Process

	role, cache string
}

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
	if s.webhook, err = nodeless.FreeAddress(ctx); err != nil {
		return s, err
	}
	if s.guard, err = nodeless.FreeAddress(ctx); err != nil {
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
	objects, err := kube.Decode(out)
	if err != nil {
		return err
	}
	for _, u := range objects {
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
	return nil
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
		if err := r.Ready(ctx); err != nil {
			return nil, err
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
	address, err := nodeless.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(s.bin, "serve", "--roles="+name, "--kubeconfig="+config, "--listen="+address, //nolint:noctx // the binary that is measured; it is ended by Stop
		"--webhook-listen="+s.webhook, "--cache-dir="+cache)
	if name == guard.Role {
		cmd.Args = append(cmd.Args, "--guard-listen="+s.guard, "--guard-host=127.0.0.1")
	}
	if name == features.WebhookRole {
		address, err := nodeless.FreeAddress(ctx)
		if err != nil {
			return nil, err
		}
		cmd.Args = append(cmd.Args, "--feature-webhook-listen="+address, "--feature-webhook-url=https://"+address, "--feature-webhook-host=127.0.0.1")
	}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + s.dir, "POD_NAME=" + filepath.Base(cache)}
	cmd.Env = append(cmd.Env, extraEnv()...)
	r := &role{role: name, cache: cache}
	if r.Process, err = nodeless.Launch(filepath.Base(cache), address, cmd); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roles = append(s.roles, r)
	return r, nil
}

// kubeconfig writes one that authenticates as a ServiceAccount.
func (s *system) kubeconfig(ctx context.Context, account string) (string, error) {
	config, file := s.cluster.Config(), filepath.Join(s.dir, account+".kubeconfig")
	if proxy := s.through[account]; proxy != nil {
		config = proxy
	}
	return file, nodeless.Kubeconfig(ctx, s.kube, config, systemNamespace, account, file)
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

// complaints are what the processes have logged: warnings and errors only.
func (s *system) complaints() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, r := range s.roles {
		if r.Over() {
			for line := range strings.Lines(r.Log()) {
				b.WriteString(r.role + ": " + line)
			}
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
	return r.Stop()
}

// close ends everything that was started and removes its files.
func (s *system) close() error {
	var errs []error
	s.mu.Lock()
	roles := s.roles
	s.mu.Unlock()
	for _, r := range roles {
		errs = append(errs, r.Stop())
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
	return clustertest.Until(ctx, most, what, func(context.Context) error { return check() })
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
