//go:build e2e

package life

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/tools/clustertest"
)

// TestE2EChannelsAreAccepted has a real API server judge channels of random schemas, and, if SLUICE_CORPUS names a folder, of every
// twelfth CRD of it. It creates them in a dry run, so that nothing is stored.
func TestE2EChannelsAreAccepted(t *testing.T) {
	client, err := apiextensions.NewForConfig(clustertest.Start(t, clustertest.WithoutControllers()).Config())
	if err != nil {
		t.Fatal(err)
	}
	var all tally
	accepted := 0
	judge := func(name string, crd *apiextensionsv1.CustomResourceDefinition) {
		t.Helper()
		crd = crd.DeepCopy()
		crd.Status, crd.ResourceVersion, crd.UID = apiextensionsv1.CustomResourceDefinitionStatus{}, "", ""
		crd.CreationTimestamp, crd.Generation, crd.ManagedFields = metav1.Time{}, 0, nil
		if _, err := client.CustomResourceDefinitions().Create(t.Context(), crd, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		accepted++
	}
	for seed := range triesOf(40) {
		crd, g := generatedCRD(t, seed)
		if crd == nil {
			continue
		}
		name := fmt.Sprintf("seed %d", seed)
		for _, out := range all.cutEach(t, name, crd, randomParts(g, crd)) {
			judge(name, out)
		}
	}
	if os.Getenv("SLUICE_CORPUS") != "" {
		crds := corpus(t)
		for i, name := range slices.Sorted(maps.Keys(crds)) {
			if i%12 > 0 {
				continue
			}
			if out := all.cutTogether(t, name, crds[name], randomParts(random(name, 0), crds[name])); out != nil {
				judge(name, out)
			}
		}
	}
	all.log(t)
	t.Logf("the API server accepts %d channels", accepted)
	if accepted == 0 || accepted != all.cuts {
		t.Errorf("the API server accepts %d of %d channels", accepted, all.cuts)
	}
}
