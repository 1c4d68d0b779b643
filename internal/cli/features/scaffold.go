package features

// How does a project get a new feature? scaffold writes all that belongs to it: the entry in features.yaml, the
// marker above the Go field, the generated files, and a test that runs with the feature on and off. What it cannot
// do, such as registering a new API version, it prints as the next step.

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/life"
)

// newFeaturesScaffold returns the command features scaffold. Nothing is written if anything is wrong, so that a
// half-made feature does not have to be cleaned up.
func newFeaturesScaffold(e *command.Env) *cobra.Command {
	var f life.NewFeature
	file, dryRun := featuresFile, false
	cmd := &cobra.Command{
		Use:   "scaffold FEATURE",
		Short: "Add a feature to a project, with a test for on and off",
		Long: `Add a feature at stage alpha to a project. The command writes the entry in features.yaml, the marker above the field that --field
names, the generated files, and a Go test that runs with the feature on and off. With --version, the feature gates a whole version of the API: the
marker stands above the package clause of its Go package. If no package has the version, the command makes one, as a copy of the version in which
objects are stored. Without either flag, the feature gates behaviour.

If features.yaml does not exist, the command begins one for the Go module, for the minor release after the newest git tag. It knows the layout
of kubebuilder. If there is an error, it prints all errors with file and line, and writes nothing. For a new version, the copy is in its folder while it
is compiled and read, with --dry-run too. At the end it prints what to run next.`,
		Example: `  sluice features scaffold FastPath
  sluice features scaffold Banner --field PageSpec.Banner --description "A page can have a banner." --dry-run
  sluice features scaffold BookV2 --version v2alpha1`,
		Args: command.OneArg("name one feature in CamelCase, such as FastPath"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Gate = args[0]
			// A variable of a script that is not set would make a feature that gates nothing.
			for _, flag := range []string{"version", "field"} {
				if value := cmd.Flags().Lookup(flag); value.Changed && value.Value.String() == "" {
					return fmt.Errorf("--%s is empty: name what the feature gates, or leave the flag out for a feature that gates behaviour", flag)
				}
			}
			out, err := life.Scaffold(cmd.Context(), file, f, e.Now())
			if err != nil {
				return err
			}
			newVersion := ""
			if err := out.Each(func(path string, old, _ []byte) {
				if folder := filepath.Dir(path); old == nil && f.Version != "" && filepath.Base(folder) == filepath.Base(f.Version) {
					newVersion = filepath.ToSlash(folder)
				}
			}); err != nil {
				return err
			}
			if err := writeOutputs(e, out, dryRun); err != nil || dryRun {
				return err
			}
			dir := filepath.Dir(file)
			if !out.ModulesSuffice(cmd.Context(), dir) {
				fmt.Fprintf(e.Err, "next: %s mod tidy  (the module lacks something that the new files import)\n", goCommandIn(dir))
			}
			if _, err := os.Stat(filepath.Join(dir, life.CRDsBesideBases)); err == nil {
				fmt.Fprintf(e.Err, "next: let %s name the CRDs of %s, because controller-gen writes over %s/\n",
					inFolder(dir, "config/crd/kustomization.yaml"), inFolder(dir, life.CRDsBesideBases), inFolder(dir, "config/crd/bases"))
			}
			if newVersion != "" {
				fmt.Fprintf(e.Err, "next: register the types of %s (AddToScheme) where the program registers those of the other versions. Once the schemas of two versions differ, a webhook has to convert\n", newVersion)
			}
			fmt.Fprintf(e.Err, "next: %s test ./... -run Test%s\n", goCommandIn(dir), f.Gate)
			return nil
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", featuresFile, "file with stages and settings")
	cmd.Flags().StringVar(&f.Field, "field", "", "Go field to gate, as TYPE.FIELD or PACKAGE.TYPE.FIELD")
	cmd.Flags().StringVar(&f.Version, "version", "", "API version to gate, such as v2alpha1 or book.example.dev/v2alpha1; a copy of the stored version if it is new")
	cmd.Flags().StringVar(&f.Description, "description", "", "what the feature does")
	cmd.Flags().StringVar(&f.Release, "release", "", "first release with the feature; default: spec.release of features.yaml")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "write nothing; show the differences")
	return cmd
}

// inFolder is a path below the folder of features.yaml, as the other paths are named.
func inFolder(dir, path string) string { return filepath.ToSlash(filepath.Join(dir, path)) }

// goCommandIn is the go command for a folder.
func goCommandIn(dir string) string {
	if dir == "." {
		return "go"
	}
	return "go -C " + filepath.ToSlash(dir)
}
