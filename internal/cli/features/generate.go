package features

// How do markers and features.yaml become manifests, code, CRDs and documentation? Package life generates; this
// file loads the project, prints its warnings, and writes the files or shows how they differ. loadProject is where
// all commands about a project begin.

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/life"
)

// featuresFile is the default path of features.yaml.
const featuresFile = "features.yaml"

// newFeaturesGenerate returns the command features generate.
func newFeaturesGenerate(e *command.Env) *cobra.Command {
	file, verify := featuresFile, false
	var channel channelFlags
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Write manifests, Go code, CRDs and documentation of features from markers and features.yaml",
		Long: `Write files from features.yaml and from the markers in Go types. The field output in features.yaml selects them: Feature manifests;
Go constants with the declaration for feature/gate; CRDs whose descriptions name stage and gate; and documentation. The markers say
which fields, values and versions a feature gates:

  // +sluice:feature=TasksTimeout
  TasksTimeout *metav1.Duration ` + "`json:\"tasksTimeout,omitempty\"`" + `

It reads the Go types as controller-gen does. If there are errors, it prints all of them with file and line, and writes nothing.
With --verify, the exit code is 1 if a file is not current.`,
		Example: `  sluice features generate
  sluice features generate --verify`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, err := generateOutputs(cmd.Context(), e, file, &channel)
			if err != nil {
				return err
			}
			if verify {
				return verifyGenerated(e, out)
			}
			return writeOutputs(e, out, false)
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", featuresFile, "file with stages and settings")
	channel.addTo(cmd, "channel", "write the CRDs of this channel, stable, beta or alpha, where output names none")
	cmd.Flags().BoolVar(&verify, "verify", false, "write nothing; show the differences, and exit with 1 if there are any")
	return cmd
}

// loadProject reads features.yaml and its API, and prints warnings.
func loadProject(ctx context.Context, e *command.Env, file string) (*life.Project, error) {
	f, err := life.Read(ctx, file)
	if err != nil {
		return nil, err
	}
	p, err := life.Load(ctx, f, e.Now())
	if p != nil {
		for _, w := range p.Warnings {
			fmt.Fprintf(e.Err, "warning: %s\n", w)
		}
	}
	return p, err
}

// generateOutputs returns the files of the project as they should be, by their paths. Warnings that arise on the
// way are printed. A project whose output is empty is an error: the command would do nothing, and look as if all
// were current.
func generateOutputs(ctx context.Context, e *command.Env, file string, channel *channelFlags) (life.Outputs, error) {
	c, err := channel.chosenChannel()
	if err != nil {
		return nil, err
	}
	p, err := loadProject(ctx, e, file)
	if err != nil {
		return nil, err
	}
	told := len(p.Warnings)
	out, err := p.Outputs(ctx, c)
	for _, w := range p.Warnings[told:] {
		fmt.Fprintf(e.Err, "warning: %s\n", w)
	}
	if err == nil && len(out) == 0 {
		err = errors.New(p.Name() + ": output is missing: say there which files are to be written, for example output: {manifests: config/features.yaml}")
	}
	return out, err
}

// verifyGenerated shows the files that are not current. It returns [command.ErrFindings] if there are any.
func verifyGenerated(e *command.Env, out life.Outputs) error {
	if changed, err := showChanges(e, out, " (generated)"); err != nil || !changed {
		return err
	}
	fmt.Fprintln(e.Err, "the files are not as they would be generated: run sluice features generate")
	return command.ErrFindings
}
