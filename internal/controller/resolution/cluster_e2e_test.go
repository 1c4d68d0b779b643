//go:build e2e

package resolution

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/client/versioned"
	"sluice.dev/config"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/kube"
)

var shared clustertest.Shared

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

var eventually = clustertest.Eventually

// installation is what is installed in the shared cluster once: our manifests, with the conversion webhook served by the
// test's process.
type installation struct {
	admin   *kubernetes.Clientset
	config  *rest.Config
	objects *kube.Client
}

var (
	installOnce sync.Once
	installed   *installation
	errInstall  error
)

func install(t *testing.T) *installation {
	t.Helper()
	c := shared.Get(t)
	installOnce.Do(func() { installed, errInstall = installAll(context.WithoutCancel(t.Context()), c.Config()) })
	if errInstall != nil {
		t.Fatal(errInstall)
	}
	return installed
}

func installAll(ctx context.Context, cfg *rest.Config) (*installation, error) {
	objects, err := kube.New(cfg)
	if err != nil {
		return nil, err
	}
	admin, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	webhook := httptest.NewTLSServer(NewConverter())
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw})
	manifests, err := config.Manifests(config.Options{Image: "example.test/sluice:v1", Writers: []string{
		"system:serviceaccount:custom:any", "system:serviceaccount:custom:demo=demo", "system:serviceaccount:custom:demo=bundle", "system:serviceaccount:custom:all=*",
	}})
	if err != nil {
		return nil, err
	}
	in := &installation{admin: admin, config: cfg, objects: objects}
	decoded, err := kube.Decode(manifests)
	if err != nil {
		return nil, err
	}
	for _, u := range decoded {
		switch u.GetKind() {
		case "Deployment":
			// Processes run in the test.
			continue
		case "CustomResourceDefinition":
			client := map[string]any{"url": webhook.URL + "/convert", "caBundle": ca}
			data, err := json.Marshal(client)
			if err != nil {
				return nil, err
			}
			var plain map[string]any
			if err := json.Unmarshal(data, &plain); err != nil {
				return nil, err
			}
			if err := unstructured.SetNestedMap(u.Object, plain, "spec", "conversion", "webhook", "clientConfig"); err != nil {
				return nil, err
			}
		case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			u.SetResourceVersion("")
		}
		if err := objects.ApplyObject(ctx, u, false); err != nil {
			return nil, err
		}
	}
	return in, in.policiesAct(ctx)
}

// policiesAct waits until the policies refuse what they should.
func (in *installation) policiesAct(ctx context.Context) error {
	client, err := versioned.NewForConfig(in.config)
	if err != nil {
		return err
	}
	probe := request("default", "probe", "git")
	requests := client.ResolutionV1beta1().ResolutionRequests("default")
	if _, err := requests.Create(ctx, probe, metav1.CreateOptions{}); err != nil {
		return err
	}
	defer requests.Delete(ctx, "probe", metav1.DeleteOptions{}) //nolint:errcheck // a test's rest
	return clustertest.Until(ctx, clustertest.Patience, "the policies to act", func(ctx context.Context) error {
		dry := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
		_, one := requests.Patch(ctx, "probe", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"resolution.tekton.dev/x":"y"}}}`), dry)
		_, two := requests.Patch(ctx, "probe", "application/merge-patch+json", []byte(`{"status":{"observedGeneration":1}}`), dry, "status")
		if one == nil || two == nil {
			return errors.New("they refuse nothing")
		}
		return nil
	})
}

// namespace makes a namespace for the test.
func (in *installation) namespace(t *testing.T) string {
	t.Helper()
	ns, err := in.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

// account returns a configuration that authenticates as a ServiceAccount, making it if it is not there.
func (in *installation) account(t *testing.T, namespace, name string) *rest.Config {
	t.Helper()
	accounts := in.admin.CoreV1().ServiceAccounts(namespace)
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := rest.AnonymousClientConfig(in.config)
	out.BearerToken = token.Status.Token
	out.QPS = -1
	return out
}

func client(t *testing.T, cfg *rest.Config) *versioned.Clientset {
	t.Helper()
	c, err := versioned.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
