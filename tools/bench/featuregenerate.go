package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// generated is a project of 10 Go packages with 10 kinds each, each of which has a gated field, for sluice features generate.
const (
	generatedPackages = 10
	generatedKinds    = 10
	generatedFields   = 20
)

// featureGenerate times sluice features generate as a process, the loading of Go packages included.
func featureGenerate(ctx context.Context, c *config) error {
	sluice, err := filepath.Abs(c.sluice)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sluice-generate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	if err := generatedProject(dir); err != nil {
		return err
	}
	rows := [][]string{{"sluice features generate, 100 CRDs with 2,000 fields", "seconds", "processor seconds", "peak MiB"}}
	for _, run := range []struct {
		what string
		args []string
	}{
		{"the first run: CRDs, channel stable, manifests, Go, docs", nil},
		{"a second run, which writes nothing", nil},
		{"--verify", []string{"--verify"}},
	} {
		cmd := exec.CommandContext(ctx, sluice, append([]string{"features", "generate"}, run.args...)...)
		cmd.Dir = dir
		start := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		took, state := time.Since(start), cmd.ProcessState
		rows = append(rows, []string{run.what, fmt.Sprintf("%.1f", took.Seconds()), fmt.Sprintf("%.1f", (state.UserTime() + state.SystemTime()).Seconds()), fmt.Sprintf("%d", maxRSS(state)>>10)})
	}
	files, err := filepath.Glob(filepath.Join(dir, "crd", "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) != generatedPackages*generatedKinds {
		return fmt.Errorf("%d CRDs were written", len(files))
	}
	c.table(rows...)
	return nil
}

// generatedProject writes the project, with the versions that this module has.
func generatedProject(dir string) error {
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("run it in the folder of the module: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Replace(string(data), "module sluice.dev\n", "module example.com/many\n", 1)), 0o600); err != nil { //nolint:gosec // a folder that was made for it
			return err
		}
	}
	var features strings.Builder
	features.WriteString("apiVersion: sluice.dev/v1alpha1\nkind: FeatureFile\ncomponent: many\nspec: {release: v1.0.0}\nsource: {packages: [./api/...]}\n" +
		"output:\n  manifests: features.yaml.out\n  go: features/features.go\n  docs: docs.md\n  crds:\n  - path: crd/\n  - {path: stable/, channel: stable}\nfeatures:\n")
	for p := range generatedPackages {
		var b strings.Builder
		fmt.Fprintf(&b, "// +groupName=g%d.example.com\npackage v1\n\nimport (\n\tcorev1 \"k8s.io/api/core/v1\"\n\tmetav1 \"k8s.io/apimachinery/pkg/apis/meta/v1\"\n)\n\n", p)
		for k := range generatedKinds {
			kind := fmt.Sprintf("Kind%d", p*generatedKinds+k)
			fmt.Fprintf(&b, "// %[1]sSpec is what is wanted.\ntype %[1]sSpec struct {\n", kind)
			for f := range generatedFields - 3 {
				fmt.Fprintf(&b, "\t// Field%[1]d is a field.\n\t// +kubebuilder:validation:MaxLength=100\n\t// +optional\n\tField%[1]d string `json:\"field%[1]d,omitempty\"`\n", f)
			}
			fmt.Fprintf(&b, "\t// Selector selects.\n\tSelector *metav1.LabelSelector `json:\"selector,omitempty\"`\n\t// Env are variables.\n\tEnv []corev1.EnvVar `json:\"env,omitempty\"`\n"+
				"\t// Gated is alpha.\n\t// +optional\n\t// +sluice:feature=%s\n\tGated *int32 `json:\"gated,omitempty\"`\n}\n\n", kind)
			fmt.Fprintf(&b, "// +kubebuilder:object:root=true\n\n// %[1]s is a kind.\ntype %[1]s struct {\n\tmetav1.TypeMeta `json:\",inline\"`\n\tmetav1.ObjectMeta `json:\"metadata,omitempty\"`\n\n\tSpec %[1]sSpec `json:\"spec,omitempty\"`\n}\n\n", kind)
			fmt.Fprintf(&features, "- {gate: %s, stages: [{stage: Alpha, release: v1.0.0}]}\n", kind)
		}
		folder := filepath.Join(dir, "api", fmt.Sprintf("g%d", p), "v1")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, "types.go"), []byte(b.String()), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "features.yaml"), []byte(features.String()), 0o600)
}
