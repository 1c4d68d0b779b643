//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/client/versioned"
	"sluice.dev/config"
	"sluice.dev/resolve"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/clustertest/nodeless"
	"sluice.dev/tools/kube"
)

const systemNamespace = "sluice-system"

// system is Sluice as its manifests install it, in a cluster.
type system struct {
	cluster *clustertest.Cluster
	admin   *rest.Config
	kube    *kubernetes.Clientset
	client  *versioned.Clientset
	objects *kube.Client
	// webhook is where the conversion webhook listens.
	webhook string
	// configNamespace has the ConfigMaps of the resolvers.
	configNamespace string
}

var (
	aloneOnce sync.Once
	alone     *system
	errAlone  error
)

// standsAlone is Sluice in a cluster of its own, which the tests share.
func standsAlone(t *testing.T) *system {
	t.Helper()
	cluster := shared.Get(t)
	aloneOnce.Do(func() { alone, errAlone = install(context.WithoutCancel(t.Context()), cluster, config.Options{}) })
	if errAlone != nil {
		t.Fatal(errAlone)
	}
	return alone
}

// resolving are the roles for requests.
var resolving = []string{"resolution", "resolver-git", "resolver-bundles", "resolver-cluster", "resolver-http", "resolver-hub", "resolver-dir"}

// install applies the manifests, but for Deployments: processes run here.
func install(ctx context.Context, cluster *clustertest.Cluster, o config.Options) (*system, error) {
	s := &system{cluster: cluster, admin: cluster.Config(), configNamespace: systemNamespace}
	if o.BesideTekton {
		s.configNamespace = "tekton-pipelines-resolvers"
	}
	var errs [4]error
	s.kube, errs[0] = kubernetes.NewForConfig(s.admin)
	s.client, errs[1] = versioned.NewForConfig(s.admin)
	s.objects, errs[2] = kube.New(s.admin)
	s.webhook, errs[3] = nodeless.FreeAddress(ctx)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	o.Image = "example.test/sluice:v1"
	if o.Roles == nil { // no process answers for the guard
		o.Roles = resolving
	}
	manifests, err := config.Manifests(o)
	if err != nil {
		return nil, err
	}
	objects, err := kube.Decode(manifests)
	if err != nil {
		return nil, err
	}
	for _, u := range objects {
		if u.GetKind() == "Deployment" {
			continue
		}
		if err := s.reroute(u); err != nil {
			return nil, err
		}
		if err := s.objects.ApplyObject(ctx, u, false); err != nil {
			return nil, fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return s, s.policiesAct(ctx)
}

// reroute makes the API server find the conversion webhook, as the network of a cluster would.
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
	case "CustomResourceDefinition":
		return unstructured.SetNestedField(u.Object, n, "spec", "conversion", "webhook", "clientConfig", "service", "port")
	}
	return nil
}

// policiesAct waits until the policies are in force.
func (s *system) policiesAct(ctx context.Context) error {
	requests := s.client.ResolutionV1beta1().ResolutionRequests("default")
	return clustertest.Until(ctx, clustertest.Patience, "the policies to act", func(ctx context.Context) error {
		_, err := requests.Create(ctx, newRequest("unlabelled", ""), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsInvalid(err) {
			return nil
		}
		return fmt.Errorf("a request without a label is not refused: %w", err)
	})
}

// process is a process of sluice serve.
type process struct {
	*nodeless.Process

	cache string
}

// option changes how a process is started.
type option func(*options)

type options struct {
	id, cache string
	wrap      []string
	flags     []string
}

// flagged gives the process more flags.
func flagged(flags ...string) option { return func(o *options) { o.flags = flags } }

// named gives the process the name of its Pod, and a cache folder that outlives it, as a restarted container has them.
func named(id, cache string) option { return func(o *options) { o.id, o.cache = id, cache } }

// wrapped starts the process by another command.
func wrapped(command ...string) option { return func(o *options) { o.wrap = command } }

// start starts the process of a role under its ServiceAccount and waits until it is ready. It ends with the test.
func (s *system) start(t *testing.T, role string, opts ...option) *process {
	t.Helper()
	var o options
	for _, f := range opts {
		f(&o)
	}
	if o.cache == "" {
		o.cache = t.TempDir()
	}
	if o.id == "" {
		o.id = fmt.Sprintf("%s-%d", role, time.Now().UnixNano())
	}
	listen, err := nodeless.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	args := append(slices.Clip(o.wrap),
		os.Args[0], "serve", "--roles="+role, "--kubeconfig="+s.kubeconfig(t, systemNamespace, "sluice-"+role), "--listen="+listen,
		"--webhook-listen="+s.webhook, "--cache-dir="+o.cache, "--config-namespace="+s.configNamespace, "--defaults-namespace="+s.defaultsNamespace())
	if s.configNamespace != systemNamespace {
		args = append(args, "--content-kinds="+resolve.TektonKinds)
	}
	args = append(args, o.flags...)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = []string{asSluice + "=1", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir(), "POD_NAME=" + o.id}
	p := &process{cache: o.cache}
	if p.Process, err = nodeless.Launch(o.id, listen, cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() && p.Log() != "" {
			t.Logf("%s logged: %s", p.Name, p.Log())
		}
	})
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

// stop ends the process in order, if it still runs.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if p.Over() {
		return
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// kubeconfig writes one that authenticates as a ServiceAccount.
func (s *system) kubeconfig(t *testing.T, namespace, account string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := nodeless.Kubeconfig(t.Context(), s.kube, s.admin, namespace, account, file); err != nil {
		t.Fatal(err)
	}
	return file
}

func (s *system) token(t *testing.T, namespace, account string) string {
	t.Helper()
	token, err := s.kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// as is a configuration that authenticates as a ServiceAccount, which is made if it is not there.
func (s *system) as(t *testing.T, namespace, account string) *rest.Config {
	t.Helper()
	_, err := s.kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	c := rest.AnonymousClientConfig(s.admin)
	c.BearerToken, c.QPS = s.token(t, namespace, account), -1
	return c
}

// defaultsNamespace has the ConfigMap config-defaults: Tekton's own, where there is Tekton.
func (s *system) defaultsNamespace() string {
	if s.configNamespace != systemNamespace {
		return tektonNamespace
	}
	return s.configNamespace
}

// configure makes a ConfigMap of the resolvers, until the test ends. Processes must be started after it.
func (s *system) configure(t *testing.T, name string, data map[string]string) {
	t.Helper()
	namespace := s.configNamespace
	if name == "config-defaults" {
		namespace = s.defaultsNamespace()
	}
	maps := s.kube.CoreV1().ConfigMaps(namespace)
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
	_, err := maps.Create(t.Context(), m, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = maps.Update(t.Context(), m, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := maps.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

// namespace makes a namespace.
func (s *system) namespace(t *testing.T) string {
	t.Helper()
	ns, err := s.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

// secret makes a Secret.
func (s *system) secret(t *testing.T, namespace, name string, kind corev1.SecretType, data map[string][]byte) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind, Data: data}
	if _, err := s.kube.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// rolebinding does what the command in a message of a request asks for.
func (s *system) rolebinding(t *testing.T, message string) {
	t.Helper()
	_, command, ok := strings.Cut(message, "kubectl create rolebinding ")
	if !ok {
		t.Fatalf("the message has no command: %s", message)
	}
	words := strings.Fields(command)
	given := map[string]string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		given[k] = v
	}
	namespace, name, _ := strings.Cut(given["--serviceaccount"], ":")
	s.bind(t, given["--namespace"], words[0], given["--clusterrole"], namespace, name)
}
