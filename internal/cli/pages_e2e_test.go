//go:build e2e

package cli

import (
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/clustertest/binary"
)

// TestE2EThePagesShowWhatIsPrinted runs the pages that need a cluster: tutorials and some others in a cluster of their own, the rest one after
// another in one.
func TestE2EThePagesShowWhatIsPrinted(t *testing.T) {
	others := clustertest.Start(t)
	pages := slices.Sorted(maps.Keys(pagePlans))
	slices.Reverse(pages) // README.md needs a namespace that docs/features.md creates
	for _, page := range pages {
		plan := pagePlans[page]
		if !plan.cluster || plan.skip[everyBlock] != "" {
			continue
		}
		t.Run(page, func(t *testing.T) {
			cluster := others
			if plan.alone || strings.HasPrefix(page, tutorials) {
				t.Parallel()
				cluster = clustertest.Start(t)
			} else {
				t.Cleanup(func() { leaveNothing(t, cluster) })
			}
			ports := strings.NewReplacer("9443", freePort(t), "8080", freePort(t))
			runPage(t, page, ports, clusterEnv(t, cluster)...)
		})
	}
}

// clusterEnv is the environment of a shell with kubectl and a cluster.
func clusterEnv(t *testing.T, cluster *clustertest.Cluster) []string {
	t.Helper()
	kubectl, err := binary.Kubectl(t.Context(), ".", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(kubectl, filepath.Join(bin, "kubectl")); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(pageEnv), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+cluster.Kubeconfig,
		"KUBECACHEDIR="+filepath.Join(bin, "cache"), "KUBERC=off", "SLUICE="+root)
}

// leaveNothing removes what would act on the pages after this one.
func leaveNothing(t *testing.T, cluster *clustertest.Cluster) {
	t.Helper()
	ctx := context.Background() //nolint:usetesting // that of the test is done
	client := dynamic.NewForConfigOrDie(cluster.Config())
	for _, resource := range []schema.GroupVersionResource{
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	} {
		if err := client.Resource(resource).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	}
	gone := func(context.Context) (bool, error) {
		crds, err := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).List(ctx, metav1.ListOptions{})
		return err == nil && len(crds.Items) == 0, err
	}
	if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, pagePatience, true, gone); err != nil {
		t.Error(err)
	}
}

// TestE2EDocumentsFitTheirSchemas runs the commands that print documents about a cluster.
func TestE2EDocumentsFitTheirSchemas(t *testing.T) {
	fits := schemasOfDocuments(t)
	cluster := clustertest.Start(t)
	project := exampleProject(t)
	s := startShell(t, clusterEnv(t, cluster)...)
	t.Chdir(project)
	s.succeed(t, "the cluster", `cd "`+project+`"
kubectl create namespace pages-system
sluice manifests --roles=resolution,resolver-git,features --feature-settings=pages-system/feature-flags --image=sluice:test > sluice.yaml
kubectl apply --server-side -f sluice.yaml
kubectl wait --for=condition=Established crd --all
kubectl create configmap feature-flags -n pages-system
kubectl apply -f config/crd.yaml -f config/features.yaml
printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: default}\ndata: {a: b}\n' > settings.yaml
printf 'apiVersion: resolution.tekton.dev/v1beta1\nkind: ResolutionRequest\nmetadata: {name: build, labels: {resolution.tekton.dev/type: git}}\nspec: {params: [{name: url, value: x}]}\n' | kubectl create -f -
`)
	t.Setenv("KUBECONFIG", cluster.Kubeconfig)
	for _, p := range printed {
		if p.cluster {
			printsDocument(t, fits, p.command, p.kind)
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}
