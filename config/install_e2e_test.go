//go:build e2e

package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/config"
	"sluice.dev/tools/clustertest"
)

var shared clustertest.Shared

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// TestE2EInstallationsAreTaken applies each kustomize base and values of the chart to a real API server, and creates the Pods that the
// Deployments ask for, as their ServiceAccounts, in a namespace that takes only what the standard "restricted" allows.
func TestE2EInstallationsAreTaken(t *testing.T) {
	c := shared.Get(t)
	kube, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tekton-pipelines", "tekton-pipelines-resolvers", "a", "c"} {
		if _, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pods := func(what string, want int) {
		t.Helper()
		deployments, err := kube.AppsV1().Deployments("sluice-system").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(deployments.Items) != want {
			t.Errorf("%s: %d Deployments, want %d", what, len(deployments.Items), want)
		}
		for _, d := range deployments.Items {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: d.Name, Labels: d.Spec.Template.Labels}, Spec: d.Spec.Template.Spec}
			if _, err := kube.CoreV1().Pods("sluice-system").Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
				t.Errorf("%s: the Pod of %s: %v", what, d.Name, err)
			}
		}
	}
	for _, base := range []struct {
		name        string
		deployments int
	}{{"crd-guard", 1}, {"default", 8}, {"beside-tekton", 8}, {"all", 11}} {
		if _, errs, err := c.Kubectl(t, "", "apply", "--server-side", "-k", withImage(t, base.name, testImage)); err != nil {
			t.Fatalf("%s: %v\n%s", base.name, err, errs)
		}
		pods(base.name, base.deployments)
	}
	for name, values := range map[string]string{
		"writers": "writers: ['system:serviceaccount:a:b', 'system:serviceaccount:a:c=mine', 'system:serviceaccount:d:e=*']",
		"store":   "{compress: true, store: {repository: 'registry.test:5000/a', credentials: c, plainHTTP: true}}",
		"roles":   "{roles: [all], features: {settings: [a/b, c/d], usage: [widgets.example.com, pods]}, guard: {reads: [example.com]}}",
		"Tekton":  "{besideTekton: {enabled: true}, wideCredentials: true, wideAddresses: true}",
		"pods": "{networkPolicies: false, priorityClassName: system-node-critical, imagePullPolicy: Always, imagePullSecrets: [a], tolerations: [{operator: Exists}], " +
			"affinity: {podAntiAffinity: {}}, workloads: {resolver-git: {replicas: 3, resources: {limits: {memory: 1Gi}}, nodeSelector: {a: b}}}}",
	} {
		text, err := config.Manifests(config.Options{Image: testImage, Values: []byte(values)})
		if err != nil {
			t.Fatal(err)
		}
		if _, errs, err := c.Kubectl(t, string(text), "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
			t.Errorf("%s: %v\n%s", name, err, errs)
		}
		pods(name, 11)
	}
}

// withImage is a folder with the kustomization of a user, who names the image of a base.
func withImage(t *testing.T, base, image string) string {
	t.Helper()
	dir, err := os.MkdirTemp("kustomize", "user-") //nolint:usetesting // kustomize takes no folder by an absolute path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // another run is not disturbed by it
	text := fmt.Sprintf(`
resources: [../%s]
patches:
  - target: {kind: Deployment, labelSelector: app.kubernetes.io/part-of=sluice}
    patch: |-
      - {op: add, path: /spec/template/spec/containers/0/image, value: %q}
`, base, image)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestE2EABaseWithoutAnImageChangesNoProgram: whoever applies a base as it is gets an error, and what runs stays.
func TestE2EABaseWithoutAnImageChangesNoProgram(t *testing.T) {
	c := clustertest.Start(t)
	kube, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, side := range []string{"--server-side=false", "--server-side"} {
		if _, errs, err := c.Kubectl(t, "", "apply", side, "-k", withImage(t, "crd-guard", testImage)); err != nil {
			t.Fatalf("%s: %v\n%s", side, err, errs)
		}
		before, err := kube.AppsV1().Deployments("sluice-system").Get(t.Context(), "sluice-crd-guard", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := before.Spec.Template.Spec.Containers[0].Image; got != testImage {
			t.Fatalf("%s: the image is %q", side, got)
		}
		_, errs, err := c.Kubectl(t, "", "apply", side, "-k", "kustomize/crd-guard")
		if err == nil || !strings.Contains(errs, "containers[0].image: Required value") {
			t.Errorf("%s: %v\n%s", side, err, errs)
		}
		after, err := kube.AppsV1().Deployments("sluice-system").Get(t.Context(), "sluice-crd-guard", metav1.GetOptions{})
		if err != nil || after.Generation != before.Generation {
			t.Errorf("%s: the Deployment has changed: %v", side, err)
		}
	}
}

// TestE2EClientSideAndServerSideApplyMix applies each release over the one before as a client and as the server, as people do: neither
// finds a conflict. Fields that the API server takes as a whole, such as fieldRef, would be one with defaults that they do not name.
func TestE2EClientSideAndServerSideApplyMix(t *testing.T) {
	c := clustertest.Start(t)
	kube, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	for release, args := range [][]string{nil, {"--server-side"}, nil, {"--server-side"}} {
		image := fmt.Sprintf("i.test/sluice:%d", release)
		text, err := config.Manifests(config.Options{Image: image, Roles: []string{"all"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, errs, err := c.Kubectl(t, string(text), append([]string{"apply", "-f", "-"}, args...)...); err != nil {
			t.Fatalf("%s %v: %v\n%s", image, args, err, errs)
		}
		d, err := kube.AppsV1().Deployments("sluice-system").Get(t.Context(), "sluice-features", metav1.GetOptions{})
		if err != nil || d.Spec.Template.Spec.Containers[0].Image != image {
			t.Errorf("%s %v: %v %v", image, args, err, d.Spec.Template.Spec.Containers)
		}
	}
}
