//go:build e2e

package features

import (
	"os"
	"regexp"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
)

// TestE2ETheReferenceIsAccepted has the API server take each example of docs/features-reference.md, with no key that it does not know.
func TestE2ETheReferenceIsAccepted(t *testing.T) {
	t.Parallel()
	s := installed(t)
	page, err := os.ReadFile("../../../docs/features-reference.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(examples) < 2 {
		t.Fatalf("the page has %d examples", len(examples))
	}
	for _, m := range examples {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(m[1]), &u.Object); err != nil {
			t.Fatal(err)
		}
		resource := map[string]string{"Component": "components", "Feature": "features"}[u.GetKind()]
		_, err := s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(resource)).Create(t.Context(), u,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
		if err != nil {
			t.Errorf("%v: %s", err, m[1])
		}
	}
}
