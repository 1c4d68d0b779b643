// Package kubebuilder_test holds the generated files of the example against what controller-gen makes.
package kubebuilder_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestControllerGenMakesTheSameFiles runs the commands of the Makefile, into another folder. That sluice features generate changes
// nothing either, a test of internal/life holds.
func TestControllerGenMakesTheSameFiles(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "run", "sigs.k8s.io/controller-tools/cmd/controller-gen", "object:headerFile=hack/boilerplate.go.txt", "rbac:roleName=manager-role", "crd", "paths=./...", "output:dir="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for made, file := range map[string]string{"zz_generated.deepcopy.go": "api/v1/zz_generated.deepcopy.go", "role.yaml": "config/rbac/role.yaml"} {
		if diff := cmp.Diff(read(t, file), read(t, filepath.Join(dir, made))); diff != "" {
			t.Errorf("%s is not up to date (make generate manifests):\n%s", file, diff)
		}
	}
	const name = "book.example.dev_guestbooks.yaml"
	ours, theirs := crd(t, filepath.Join("config/crd/bases", name)), crd(t, filepath.Join(dir, name))
	spec := ours.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	if title := spec.Properties["title"].Description; !strings.Contains(title, "Beta since v1.1.0, off by default: feature BookTitle") {
		t.Errorf("the description of the title is %q", title)
	}
	// controller-gen knows neither features in descriptions nor a marker that holds in some channels.
	plain(ours.Spec.Versions[0].Schema.OpenAPIV3Schema)
	plain(theirs.Spec.Versions[0].Schema.OpenAPIV3Schema)
	entries := spec.Properties["entries"]
	if entries.MaxItems == nil || *entries.MaxItems != 1000 {
		t.Errorf("a book has %v entries at most", entries.MaxItems)
	}
	entries = ours.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["entries"]
	entries.MaxItems = nil
	ours.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["entries"] = entries
	if diff := cmp.Diff(theirs.Spec, ours.Spec); diff != "" {
		t.Errorf("controller-gen makes another CRD: %s", diff)
	}
}

func crd(t *testing.T, path string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	out := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(read(t, path)), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// plain takes descriptions out.
func plain(s *apiextensionsv1.JSONSchemaProps) {
	s.Description = ""
	for name, p := range s.Properties {
		plain(&p)
		s.Properties[name] = p
	}
	if s.Items != nil {
		plain(s.Items.Schema)
	}
}
