package cli

import (
	"context"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"sluice.dev/internal/life"
	"sluice.dev/report"
)

func newFeaturesVerify(e *env) *cobra.Command {
	file, against, output := featuresFile, "", ""
	cmd := &cobra.Command{
		Use:   "verify --against git:REV",
		Short: "Tell which changes of features break the promises of their stages",
		Long: `Tell which changes of features break the promises of their stages: a stage that goes back, a feature that goes or a default that
flips before its window is over, a field that changes under its name, a value of an enum that is open at once. Compared are features.yaml,
markers and CRDs with those of a git revision or of another folder. The windows are those of the policy that features.yaml names, and are
computed from the releases and days that it records.

Exit code 1 if a rule is broken.`,
		Example: `  sluice features verify --against git:main
  sluice features verify --against git:v1.2.0 -o sarif`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return verifyFeatures(cmd.Context(), e, file, against, output)
		},
	}
	var formats []string
	for _, p := range report.Printers() {
		formats = append(formats, p.Name)
	}
	cmd.Flags().StringVarP(&file, "filename", "f", featuresFile, "the file with stages and settings")
	cmd.Flags().StringVar(&against, "against", "git:main", "what to compare with: git:REV or a folder")
	cmd.Flags().StringVarP(&output, "output", "o", formats[0], "format of the report")
	complete(cmd, "output", formats...)
	return cmd
}

func verifyFeatures(ctx context.Context, e *env, file, against, output string) error {
	p, err := loadProject(ctx, e, file)
	if err != nil {
		return err
	}
	old, err := life.LoadBase(ctx, p.File, against, e.now())
	if err != nil {
		return err
	}
	r, err := life.Verify(ctx, old, p.State(), e.now())
	if err != nil {
		return err
	}
	o := report.Options{Version: sluiceVersion, Rules: lawDoc}
	if e.outTTY {
		o.Width = e.width
	}
	if wd, err := os.Getwd(); err == nil {
		o.Root = wd
	}
	if err := report.Print(e.out, output, r, o); err != nil {
		return err
	}
	if r.Failing() > 0 {
		return errFindings
	}
	return nil
}

// lawDoc finds the documentation of a rule.
func lawDoc(id string) (report.RuleDoc, bool) {
	rules := life.Rules()
	i := slices.IndexFunc(rules, func(r life.Rule) bool { return r.ID == id })
	if i < 0 {
		return report.RuleDoc{}, false
	}
	return report.RuleDoc{ID: id, Title: id, Why: rules[i].Why, Help: rules[i].Help}, true
}
