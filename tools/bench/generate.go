package main

// How long does a large project take to generate its CRDs? The project is made up here: types with markers, and
// a file that names its features.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A generated project has so many Go packages with so many kinds, each of which has so many fields and a gated one.
const (
	generatedPackages = 10
	generatedKinds    = 10
	generatedFields   = 17
)

// measureGenerating times sluice features generate as a process, the loading of Go packages included.
// It runs once, with Go's build cache as it is.
func measureGenerating(ctx context.Context, b bench) error {
	if err := generateProject(b.dir); err != nil {
		return err
	}
	u, err := measureRuns(ctx, 1, 0, []string{b.sluice, "features", "generate"}, func(cmd *exec.Cmd) { cmd.Dir = b.dir })
	if err != nil {
		return err
	}
	if files, err := filepath.Glob(filepath.Join(b.dir, "crd", "*.yaml")); err != nil || len(files) != generatedPackages*generatedKinds {
		return fmt.Errorf("%d CRDs were written (%w)", len(files), err)
	}
	printTable([]string{"sluice features generate", "wall", "CPU", "peak memory"}, append([]string{"100 CRDs with 2,000 fields, and their channel stable"}, u.cells()...))
	return nil
}

// featureFile is the head of the file of features. The channel stable makes the command generate each CRD
// twice: with all fields, and without those that are gated.
const featureFile = `apiVersion: sluice.dev/v1alpha1
kind: FeatureFile
component: many
spec: {release: v1.0.0}
source: {packages: [./api/...]}
output:
  manifests: features.yaml.out
  go: features/features.go
  docs: docs.md
  crds:
  - path: crd/
  - {path: stable/, channel: stable}
features:
`

const kindTypes = `
// %[1]sSpec is what is wanted.
type %[1]sSpec struct {
%[2]s	// Selector selects.
	Selector *metav1.LabelSelector ` + "`json:\"selector,omitempty\"`" + `
	// Env are variables.
	Env []corev1.EnvVar ` + "`json:\"env,omitempty\"`" + `
	// Gated is alpha.
	// +optional
	// +sluice:feature=%[1]s
	Gated *int32 ` + "`json:\"gated,omitempty\"`" + `
}

// +kubebuilder:object:root=true

// %[1]s is a kind.
type %[1]s struct {
	metav1.TypeMeta ` + "`json:\",inline\"`" + `
	metav1.ObjectMeta ` + "`json:\"metadata,omitempty\"`" + `

	Spec %[1]sSpec ` + "`json:\"spec,omitempty\"`" + `
}
`

// generateProject writes the project, with the versions that this module has.
// go.mod and go.sum are copied, so that nothing has to be downloaded.
func generateProject(dir string) error {
	files := map[string]string{}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("run it in the folder of the module: %w", err)
		}
		files[name] = strings.Replace(string(data), "module sluice.dev\n", "module example.com/many\n", 1)
	}
	var fields strings.Builder
	for f := range generatedFields {
		fmt.Fprintf(&fields, "\t// Field%[1]d is a field.\n\t// +kubebuilder:validation:MaxLength=100\n\t// +optional\n\tField%[1]d string `json:\"field%[1]d,omitempty\"`\n", f)
	}
	var features strings.Builder
	features.WriteString(featureFile)
	for p := range generatedPackages {
		var text strings.Builder
		fmt.Fprintf(&text, "// +groupName=g%d.example.com\npackage v1\n\nimport (\n\tcorev1 \"k8s.io/api/core/v1\"\n\tmetav1 \"k8s.io/apimachinery/pkg/apis/meta/v1\"\n)\n", p)
		for k := range generatedKinds {
			kind := fmt.Sprintf("Kind%d", p*generatedKinds+k)
			fmt.Fprintf(&text, kindTypes, kind, fields.String())
			fmt.Fprintf(&features, "- {gate: %s, stages: [{stage: Alpha, release: v1.0.0}]}\n", kind)
		}
		files[fmt.Sprintf("api/g%d/v1/types.go", p)] = text.String()
	}
	files["features.yaml"] = features.String()
	var errs []error
	for name, text := range files {
		path := filepath.Join(dir, name)
		errs = append(errs, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
	}
	return errors.Join(errs...)
}
