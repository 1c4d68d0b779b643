package features

// Does a change keep what the stages of features promise? verify compares features.yaml, markers and CRDs with an
// earlier revision, another folder, or a cluster, and reports promises that break. For example, a beta field that
// is renamed, or a feature that is removed before the window of its policy is over. Package life has the rules.

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/life"
	"sluice.dev/report"
)

// newFeaturesVerify returns the command features verify.
func newFeaturesVerify(e *command.Env) *cobra.Command {
	file, against, output := featuresFile, "", ""
	var connection command.ClusterFlags
	cmd := &cobra.Command{
		Use:   "verify --against git:REV",
		Short: "Find changes that break the promises of a feature's stage",
		Long: `Find changes that break the promises of a feature's stage. Examples: a stage moves back; a feature is removed, or its default changes,
before the window is over; a field changes under its name; a new enum value is open at once. The command compares features.yaml, markers
and CRDs with those of a git revision, of another folder, or of a cluster. It computes the windows from the policy that features.yaml names, and from
the releases and dates that it records.

If the base has no features.yaml, such as before the change that brings it, there is nothing to compare with: the command says so and
passes. Exit code 1 if a rule is broken.`,
		Example: `  sluice features verify --against git:main
  sluice features verify --against git:v1.2.0 -o sarif`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return verifyFeatures(cmd.Context(), e, file, against, output, &connection)
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", featuresFile, "file with stages and settings")
	cmd.Flags().StringVar(&against, "against", "git:main", "base of the comparison: git:REV, a folder, or cluster")
	connection.AddCluster(cmd.Flags())
	command.AddOutput(cmd, &output, command.FormatNames()...)
	return cmd
}

// verifyFeatures compares, and prints a report in the format output. It returns [command.ErrFindings] if a promise
// breaks. A base without features.yaml passes with a note, so that the change that brings the file can be merged.
func verifyFeatures(ctx context.Context, e *command.Env, file, against, output string, connection *command.ClusterFlags) error {
	if against != "cluster" {
		if err := connection.RefuseUnused("the base is no cluster; --against cluster compares with one"); err != nil {
			return err
		}
	}
	p, err := loadProject(ctx, e, file)
	if err != nil {
		return err
	}
	var old *life.State
	var lacks string
	if against == "cluster" {
		old, lacks, err = clusterBase(ctx, e, p, connection)
	} else {
		old, lacks, err = life.LoadBase(ctx, p.File, against, e.Now())
	}
	if err != nil {
		return err
	}
	r, err := life.Verify(ctx, old, p.State(), e.Now())
	if err != nil {
		return err
	}
	if old == nil {
		r.Old = against
		fmt.Fprintf(e.Err, "note: there is nothing to compare with in the base %s: %s\n", against, lacks)
	}
	o := e.ReportOptions()
	o.Rules = life.Doc
	if err := report.Print(e.Out, output, r, o); err != nil {
		return err
	}
	return command.FindingsIf(r.Failing() > 0)
}

// clusterBase is the state of the component in a cluster. If the cluster has no such Component, the state is nil,
// and lacks says so. It has the CRDs of the project and those that the features in the cluster gate, as far as
// they are installed.
func clusterBase(ctx context.Context, e *command.Env, p *life.Project, connection *command.ClusterFlags) (state *life.State, lacks string, err error) {
	c, err := connection.Cluster()
	if err != nil {
		return nil, "", err
	}
	var components []v1alpha1.Component
	if err := eachOf(ctx, c, "components", &components); err != nil {
		return nil, "", err
	}
	var all []v1alpha1.Feature
	if err := eachOf(ctx, c, "features", &all); err != nil {
		return nil, "", err
	}
	i := slices.IndexFunc(components, func(c v1alpha1.Component) bool { return c.Name == p.File.Component })
	if i < 0 {
		return nil, fmt.Sprintf("it has no Component %s", p.File.Component), nil
	}
	features := slices.DeleteFunc(all, func(f v1alpha1.Feature) bool { return f.Spec.Component != p.File.Component })
	var names []string
	for _, crd := range p.CRDs {
		names = append(names, crd.Name)
	}
	// A CRD that the new version no longer gates, or no longer has, is part of the promise too.
	for i := range features {
		for _, part := range features[i].Spec.Parts {
			names = append(names, part.Resource+"."+part.Group)
		}
	}
	slices.Sort(names)
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, name := range slices.Compact(names) {
		crd, err := c.CRD(ctx, name)
		if err != nil {
			return nil, "", fmt.Errorf("CRD %s: %w", name, err)
		}
		if crd != nil {
			crds = append(crds, crd)
		}
	}
	state, err = life.NewBase("cluster", &components[i], features, crds, e.Now())
	return state, "", err
}
