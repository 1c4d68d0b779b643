package features

// What do users read about the features of a project? A table, the history of each feature, and what changed
// between two releases, all from features.yaml and the markers. The command prints it, writes it to a file, or
// verifies that the file is current. A project can bring a template of its own.

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/life"
)

// docsFlags are the flags of the command docs.
type docsFlags struct {
	file, output, template, from, to, write string
	verify                                  bool
}

// newFeaturesDocs returns the command features docs.
func newFeaturesDocs(e *command.Env) *cobra.Command {
	var f docsFlags
	cmd := &cobra.Command{
		Use:   "docs",
		Short: "Print the documentation of features, or what changed between two releases",
		Long: `Print the documentation of features: a table with stage, default, fields and the way to turn each feature on; the history of each
feature; and a section for each CRD. With --from, it prints release notes: what changed after that release, up to the one in --to.

--template takes a file for Go's text/template. The template gets the document that -o json prints, with Go names, such as .Features.
With --verify, the exit code is 1 if the file is not current.`,
		Example: `  sluice features docs
  sluice features docs --from v1.0.0 --to v1.1.0
  sluice features docs --template table.tmpl --write docs/features.md`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return featuresDocs(cmd.Context(), e, &f)
		},
	}
	cmd.Flags().StringVarP(&f.file, "filename", "f", featuresFile, "file with stages and settings")
	command.AddOutput(cmd, &f.output, "markdown", "json")
	cmd.Flags().StringVar(&f.template, "template", "", "file with a text/template to use instead of Sluice's own")
	cmd.Flags().StringVar(&f.from, "from", "", "print what changed after this release")
	cmd.Flags().StringVar(&f.to, "to", "", "last release of the notes; default: spec.release")
	cmd.Flags().StringVar(&f.write, "write", "", "file to write instead of standard output")
	cmd.Flags().BoolVar(&f.verify, "verify", false, "write nothing; show how the file differs (default: output.docs), and exit with 1 if it does")
	return cmd
}

// checkExclusive returns an error for flags that exclude each other.
func (f *docsFlags) checkExclusive() error {
	switch {
	case f.output == "json" && (f.template != "" || f.write != "" || f.verify):
		return errors.New("-o json goes to standard output: --template, --write and --verify are for Markdown")
	case f.to != "" && f.from == "":
		return errors.New("--to is the end of release notes: give their beginning with --from")
	}
	return nil
}

// featuresDocs prints, writes or verifies the documentation. Release notes use Sluice's own template, unless
// --template names another: the project's template is for the whole documentation. It never writes over a file
// that Sluice has not written.
func featuresDocs(ctx context.Context, e *command.Env, f *docsFlags) error {
	if err := f.checkExclusive(); err != nil {
		return err
	}
	p, err := loadProject(ctx, e, f.file)
	if err != nil {
		return err
	}
	d := p.Docs()
	if f.from != "" {
		if d.Notes, err = p.Notes(f.from, cmp.Or(f.to, p.File.Spec.Release)); err != nil {
			return err
		}
	}
	if f.output == "json" {
		return command.PrintDocument(e.Out, "json", d)
	}
	template, target := f.template, f.write
	// The template of the project is about the whole documentation, and knows no notes.
	if f.from == "" && template == "" {
		template = p.File.Template()
	}
	text, err := d.Markdown(template)
	if err != nil {
		return err
	}
	if f.verify && target == "" {
		if target = p.File.DocsFile(); target == "" {
			return errors.New("which file? Give --write FILE, or say output.docs in " + p.Name())
		}
	}
	switch {
	case f.verify:
		return verifyGenerated(e, life.NewOutputs(target, text))
	case target != "":
		// A text that people have written is not ours to replace.
		if what := p.DescribeForeign(target); what != "" {
			return fmt.Errorf("%s %s", target, what)
		}
		return writeOutputs(e, life.NewOutputs(target, text), false)
	}
	_, err = e.Out.Write(text)
	return err
}
