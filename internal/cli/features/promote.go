package features

// How does a feature get to its next stage? promote and remove write the step into features.yaml and CHANGELOG.md,
// if the policy of the project allows it. For example, a beta feature may have to stay beta for two releases
// before it is stable; too early a step is refused with the rule that is against it.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/life"
	"sluice.dev/report"
)

// promoteFlags are the flags of promote and remove.
type promoteFlags struct {
	file, release string
	dryRun        bool
}

// addTo adds the flags that both commands share. Both take one feature.
func (f *promoteFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.file, "filename", "f", featuresFile, "file with stages and settings")
	cmd.Flags().StringVar(&f.release, "release", "", "first release with the change")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "write nothing; show the differences")
	cmd.Args = command.OneArg("name one feature, as features.yaml does")
}

// newFeaturesPromote returns the command features promote.
func newFeaturesPromote(e *command.Env) *cobra.Command {
	var f promoteFlags
	to, byDefault, lock := "", "", false
	cmd := &cobra.Command{
		Use:   "promote FEATURE --to beta --release v1.4.0",
		Short: "Promote a feature to its next stage, or lock it, if the policy allows it",
		Long: `Promote a feature to its next stage. The command writes the stage into features.yaml, and a line into CHANGELOG.md beside it. If the
policy forbids the step, it writes nothing and prints the reason (exit code 1). Run sluice features generate afterwards.

With --default, the feature is on or off from then on if no setting says otherwise. With --lock, users can no longer change the feature: it keeps its
default for good. The stage stays as it is if --to is left out.`,
		Example: `  sluice features promote Banner --to beta --release v1.4.0 --dry-run
  sluice features promote Banner --default on --release v1.5.0
  sluice features promote Banner --lock --release v1.6.0`,
		RunE: func(cmd *cobra.Command, args []string) error {
			stage := v1alpha1.Stage("")
			if to != "" {
				// Stages are written beta in commands, and Beta in objects.
				stage = v1alpha1.Stage(strings.ToUpper(to[:1]) + strings.ToLower(to[1:]))
			}
			if to == "" && byDefault == "" && !lock {
				return errors.New("to which stage? Give --to, or --default or --lock to stay at the stage")
			}
			entry := v1alpha1.FeatureStage{Stage: stage, LockToDefault: lock}
			switch byDefault {
			case "":
			case "on", "off":
				entry.Default = new(byDefault == "on")
			default:
				return fmt.Errorf("--default is on or off, not %q", byDefault)
			}
			if stage == v1alpha1.Removed {
				return errors.New("sluice features remove removes a feature")
			}
			return promoteFeature(cmd.Context(), e, &f, args[0], entry)
		},
	}
	f.addTo(cmd)
	cmd.Flags().StringVar(&to, "to", "", "new stage: alpha, beta, stable or deprecated")
	cmd.Flags().StringVar(&byDefault, "default", "", "new default: on or off")
	cmd.Flags().BoolVar(&lock, "lock", false, "lock the gate: the feature keeps its default")
	command.Complete(cmd, "to", "alpha", "beta", "stable", "deprecated")
	command.Complete(cmd, "default", "on", "off")
	return cmd
}

// newFeaturesRemove returns the command features remove.
func newFeaturesRemove(e *command.Env) *cobra.Command {
	var f promoteFlags
	cmd := &cobra.Command{
		Use:   "remove FEATURE --release v1.6.0",
		Short: "Remove a feature, or its gate alone, if the policy allows it",
		Long: `Remove a feature. The command writes the stage Removed into features.yaml, deletes the feature's markers from the Go types, and writes
a line into CHANGELOG.md beside features.yaml. If the policy forbids the step, it writes nothing and prints the reason (exit code 1).

A feature that is on by default has graduated: only its gate goes, and its fields stay. A feature that is off is withdrawn: features.yaml
keeps the gated parts, so that nobody reuses their names, and kubectl explain says that the field is removed. Delete the field itself a
release later.`,
		Example: `  sluice features remove Banner --release v1.6.0 --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return promoteFeature(cmd.Context(), e, &f, args[0], v1alpha1.FeatureStage{Stage: v1alpha1.Removed})
		},
	}
	f.addTo(cmd)
	return cmd
}

// promoteFeature writes an entry of the history, or shows what it would write. If the policy forbids it, it prints
// the rules that are against it, and returns [command.ErrFindings]. What is left to do by hand, and the command to
// run next, are told on standard error.
func promoteFeature(ctx context.Context, e *command.Env, f *promoteFlags, gate string, entry v1alpha1.FeatureStage) error {
	if f.release == "" {
		return errors.New("from which release on? Give --release")
	}
	p, err := loadProject(ctx, e, f.file)
	if err != nil {
		return err
	}
	entry.Release = f.release
	out, why, err := p.Promote(ctx, gate, entry, e.Now())
	if err != nil {
		return err
	}
	if out == nil {
		if err := report.Print(e.Out, report.Printers()[0].Name, why, report.Options{Rules: life.Doc}); err != nil {
			return err
		}
		return command.ErrFindings
	}
	if err := writeOutputs(e, out, f.dryRun); err != nil || f.dryRun {
		return err
	}
	// The step is for a later release: generated files say it only once that release is the present one.
	if now := p.File.Spec.Release; now != "" && now != f.release {
		fmt.Fprintf(e.Err, "next: write spec.release: %s into %s when you prepare that release; it is %s\n", f.release, p.Name(), now)
	}
	// scaffold has written a test that runs with the gate on and off.
	if test := p.File.TestOf(gate); entry.LockToDefault || entry.Stage == v1alpha1.Removed {
		if _, err := os.Stat(test); err == nil {
			fmt.Fprintf(e.Err, "next: delete %s, or what it does with the other value: the gate has none any more\n", filepath.ToSlash(test))
		}
	}
	given := ""
	if f.file != featuresFile {
		given = " -f " + filepath.ToSlash(f.file)
	}
	fmt.Fprintln(e.Err, "next: sluice features generate"+given)
	return nil
}

// showChanges shows how files would change, and reports whether any would. The label stands behind the names of
// the new ones. They are unified diffs.
func showChanges(e *command.Env, out life.Outputs, label string) (changed bool, err error) {
	err = out.Each(func(path string, old, want []byte) {
		changed = true
		name := filepath.ToSlash(path)
		fmt.Fprintf(e.Out, "%s", diff.Diff(name, old, name+label, want))
	})
	return changed, err
}

// writeOutputs writes files and prints their names; a dry run only shows the changes.
func writeOutputs(e *command.Env, out life.Outputs, dryRun bool) error {
	if dryRun {
		_, err := showChanges(e, out, "")
		return err
	}
	changed, err := out.Write()
	for _, path := range changed {
		fmt.Fprintf(e.Err, "wrote %s\n", filepath.ToSlash(path))
	}
	if err == nil && changed == nil {
		fmt.Fprintln(e.Err, "all files are up to date")
	}
	return err
}
