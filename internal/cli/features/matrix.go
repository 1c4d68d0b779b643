package features

// With which combinations of features should a project be tested? Package feature/matrix finds them; this file
// prints them: as a table, for programs, for the matrix of a GitHub workflow, as Go code for tests, or as one
// ConfigMap for each case. For example, ten independent features take a few dozen cases, and not 1024.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/format"
	"go/token"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/matrix"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/life"
)

// mostJobs is the limit of jobs that GitHub runs for one matrix.
const mostJobs = 256

// caseAnnotation names the case that a ConfigMap of the matrix sets.
const caseAnnotation = "feature.sluice.dev/case"

// matrixCase is a case in the document for programs.
type matrixCase struct {
	matrix.Case `json:",inline"`

	// Gates are the values in the form of --feature-gates.
	Gates string `json:"gates"`
	// Settings are the data of the component's ConfigMap.
	Settings map[string]string `json:"settings"`
}

// Matrix is the document for programs.
type Matrix struct {
	command.Document `json:",inline"`
	Component        string       `json:"component"`
	Cases            []matrixCase `json:"cases"`
}

// matrixFlags are the flags of the command.
type matrixFlags struct {
	file, output, name, pkg string
	kinds                   []string
}

// matrixFormats print a matrix.
var matrixFormats = map[string]func(e *command.Env, p *life.Project, m *Matrix, f *matrixFlags) error{
	"table": printMatrixTable, "json": printMatrixJSON, "github": printMatrixGitHub, "go": printMatrixGo, "configmaps": printMatrixConfigMaps,
}

// newFeaturesMatrix returns the command features matrix.
func newFeaturesMatrix(e *command.Env) *cobra.Command {
	var f matrixFlags
	var kinds []string
	for _, k := range matrix.Kinds() {
		kinds = append(kinds, k.Name)
	}
	formats := []string{"table", "json", "github", "go", "configmaps"}
	cmd := &cobra.Command{
		Use:   "matrix",
		Short: "Print the combinations of features to test",
		Long: `Print the combinations of features to test: all off, the defaults, each level, all on, each feature alone, and pairs. The pairs combine
every two features in every way that their requirements allow, in few cases. It prints each combination once.

There are formats (-o) for people, for programs, for the matrix of a GitHub workflow, for package sluice.dev/feature/featuretest, and
for a cluster: one ConfigMap for each case.`,
		Example: `  sluice features matrix
  sluice features matrix --kinds off,on,pairs -o github
  sluice features matrix -o configmaps --case "all on" | kubectl apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return featuresMatrix(cmd.Context(), e, &f, kinds)
		},
	}
	cmd.Flags().StringVarP(&f.file, "filename", "f", featuresFile, "file with stages and settings")
	cmd.Flags().StringSliceVar(&f.kinds, "kinds", kinds, "kinds of combinations")
	cmd.Flags().StringVar(&f.name, "case", "", "print only the case with this name")
	cmd.Flags().StringVar(&f.pkg, "package", "features", "name of the package, with -o go")
	command.AddOutput(cmd, &f.output, formats...)
	command.Complete(cmd, "kinds", kinds...)
	return cmd
}

// featuresMatrix prints the cases of the given kinds, in the order in which package matrix has them. A kind or a
// case that does not exist is an error with the most similar name.
func featuresMatrix(ctx context.Context, e *command.Env, f *matrixFlags, kinds []string) error {
	printer := matrixFormats[f.output]
	for _, k := range f.kinds {
		if !slices.Contains(kinds, k) {
			return fmt.Errorf("--kinds: there is no kind %q%s; the kinds are %s", k, brief.Hint(k, kinds), strings.Join(kinds, ", "))
		}
	}
	if !token.IsIdentifier(f.pkg) {
		return fmt.Errorf("--package: %q is no name of a Go package", f.pkg)
	}
	p, err := loadProject(ctx, e, f.file)
	if err != nil {
		return err
	}
	out := &Matrix{Document: command.DocumentOf("FeatureMatrix"), Component: p.File.Component, Cases: []matrixCase{}}
	var names []string
	for _, c := range matrix.All(p.Model, f.kinds...) {
		names = append(names, c.Name)
		if f.name == "" || f.name == c.Name {
			out.Cases = append(out.Cases, matrixCase{c, c.Gates(), c.Settings(p.Model.Spec())})
		}
	}
	if len(out.Cases) == 0 {
		return fmt.Errorf("--case: there is no case %q%s; sluice features matrix lists them", f.name, brief.Hint(f.name, names))
	}
	return printer(e, p, out, f)
}

// printMatrixTable prints the name of each case with the features that are on, sorted; a dash is none.
//
//	CASE      ON
//	defaults  FastPath
//	all on    Cache, FastPath
func printMatrixTable(e *command.Env, _ *life.Project, m *Matrix, _ *matrixFlags) error {
	t := command.Columns(e.Out)
	fmt.Fprintln(t, "CASE\tON")
	for i := range m.Cases {
		var on []string
		for gate, is := range m.Cases[i].Values {
			if is {
				on = append(on, gate)
			}
		}
		slices.Sort(on)
		fmt.Fprintf(t, "%s\t%s\n", m.Cases[i].Name, command.Dash(strings.Join(on, ", ")))
	}
	t.Flush()
	return nil
}

func printMatrixJSON(e *command.Env, _ *life.Project, m *Matrix, _ *matrixFlags) error {
	return command.PrintDocument(e.Out, "json", m)
}

// printMatrixGitHub prints one line, which a job writes to GITHUB_OUTPUT. GitHub refuses a matrix that is too
// large, so a warning says that it will.
func printMatrixGitHub(e *command.Env, _ *life.Project, m *Matrix, _ *matrixFlags) error {
	if len(m.Cases) > mostJobs {
		fmt.Fprintf(e.Err, "warning: these are %d cases, and GitHub runs %d jobs of a matrix: choose with --kinds\n", len(m.Cases), mostJobs)
	}
	type job struct {
		Name  string         `json:"name"`
		Gates string         `json:"gates"`
		Level v1alpha1.Level `json:"level,omitempty"`
	}
	var include []job
	for i := range m.Cases {
		include = append(include, job{m.Cases[i].Name, m.Cases[i].Gates, m.Cases[i].Level})
	}
	return json.NewEncoder(e.Out).Encode(map[string]any{"include": include})
}

// printMatrixGo prints a file with a function that returns the cases.
func printMatrixGo(e *command.Env, p *life.Project, m *Matrix, f *matrixFlags) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Code generated by sluice features matrix from %s. DO NOT EDIT.\n\npackage %s\n\nimport \"sluice.dev/feature/featuretest\"\n\n", p.Name(), f.pkg)
	fmt.Fprintf(&b, "// Cases are the combinations of features of component %s to test.\nfunc Cases() []featuretest.Case {\nreturn []featuretest.Case{\n", m.Component)
	for i := range m.Cases {
		fmt.Fprintf(&b, "{Name: %q, Level: %q, Values: %#v},\n", m.Cases[i].Name, m.Cases[i].Level, m.Cases[i].Values)
	}
	b.WriteString("}\n}\n")
	// %#v writes the type as Go calls it; the file uses the name that featuretest exports.
	data, err := format.Source(bytes.ReplaceAll(b.Bytes(), []byte("Values: map[string]bool{"), []byte("Values: featuretest.Values{")))
	if err != nil {
		return err
	}
	_, err = e.Out.Write(data)
	return err
}

// printMatrixConfigMaps prints the component's ConfigMap once for each case.
func printMatrixConfigMaps(e *command.Env, p *life.Project, m *Matrix, _ *matrixFlags) error {
	ref := p.File.Spec.ConfigMap
	if ref == nil {
		return errors.New(p.Name() + ": spec.configMap is missing, so that no ConfigMap sets features of this component")
	}
	for i := range m.Cases {
		c := &m.Cases[i]
		err := printManifest(e, &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, Annotations: map[string]string{caseAnnotation: c.Name}},
			Data:       c.Settings,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
