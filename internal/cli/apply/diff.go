package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice.dev/apply"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/config"
	"sluice.dev/internal/preflight"
	"sluice.dev/report"
)

type diffFlags struct {
	sourceFlags
	command.ClusterFlags

	app     string
	prune   bool
	force   bool
	replace bool
	timeout time.Duration
	output  string
	color   string
	look    diffLook
	into    string
	over    []string

	configs, preflights []string
	report              string
}

// NewDiff returns the command diff.
func NewDiff(e *command.Env) *cobra.Command {
	f := &diffFlags{}
	cmd := &cobra.Command{
		Use:   "diff -f SOURCE...",
		Short: "Show what an apply would change",
		Long: `Diff shows the changes that sluice apply would make, as the server would store them. It sends dry runs, which change nothing, and
never shows values of Secrets. With --preflight or -c it also runs preflights and prints their findings.

` + sourceHelp + `

Exit codes: 0 no difference, 1 differences or a blocked apply, 2 error. Findings, fields of other owners, objects of another app, and
objects that --prune would keep block an apply.`,
		Example:     `  sluice diff --app shop -f config/ --prune`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{command.ResultKind: "Diff"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.preflights == nil && (cmd.Flags().Changed("preflight") || len(f.configs) == 0) {
				f.preflights = []string{} // none, and not those of a configuration
			}
			return runDiff(cmd.Context(), e, f)
		},
	}
	f.addSources(cmd)
	f.AddClusterNamespace(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&f.app, "app", "a", "", "name of the app: Sluice records its objects in the cluster under this name")
	fs.BoolVar(&f.prune, "prune", false, "also show the objects that --prune would delete")
	fs.BoolVar(&f.force, "force-conflicts", false, "show the changes as if apply took over fields of other owners")
	fs.BoolVar(&f.replace, "replace", false, "show the objects that --replace would delete and create again")
	fs.DurationVar(&f.timeout, "timeout", 5*time.Minute, "time limit for the whole command")
	command.AddOutput(cmd, &f.output, "text", "json")
	f.look.addTo(fs)
	addInto(fs, &f.into)
	addTakeOver(fs, &f.over)
	fs.StringVar(&f.color, "color", "auto", "auto, always or never")
	fs.StringArrayVarP(&f.configs, "config", "c", nil, "configuration file in Sluice's, kapp's or crdify's format, whose preflights run (may be repeated)")
	fs.StringSliceVar(&f.preflights, "preflight", nil, "preflights to run, separated by commas: "+strings.Join(config.Preflights(), ", "))
	fs.StringVar(&f.report, "report", "", "print the findings of the preflights in this format, and the differences on standard error: "+strings.Join(command.FormatNames(), ", "))
	command.Complete(cmd, "preflight", config.Preflights()...)
	command.Complete(cmd, "report", command.FormatNames()...)
	command.Complete(cmd, "color", "auto", "always", "never")
	return cmd
}

// DiffResult is the differences for programs.
type DiffResult struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	App        string           `json:"app,omitempty"`
	Namespace  string           `json:"namespace"`
	Sources    []apply.Source   `json:"sources"`
	Ran        []string         `json:"preflights,omitempty"`
	Report     json.RawMessage  `json:"report,omitempty"`
	Conflicts  []apply.Conflict `json:"conflicts,omitempty"`
	// Warnings are what the API server warns of.
	Warnings []apply.Warning `json:"warnings,omitempty"`
	// Error says which objects belong to other apps; then nothing was compared.
	Error       string       `json:"error,omitempty"`
	Differences []Difference `json:"differences"`
	// Kept is what --prune would leave, and say so with exit code 1.
	Kept []ObjectResult `json:"kept,omitempty"`
}

// Difference is what an apply would change in one object.
type Difference struct {
	apply.ID

	Action apply.Action `json:"action"`
	Before string       `json:"before,omitempty"`
	After  string       `json:"after,omitempty"`
	Note   string       `json:"note,omitempty"`
	// TakesOver are field managers of other appliers whose fields become ours.
	TakesOver []string `json:"takesOver,omitempty"`
}

// checkOwn judges the flags that apply does not have, and reports whether to print in colours.
func (f *diffFlags) checkOwn(e *command.Env) (color bool, err error) {
	if color, err = e.WantsColor(f.color); err != nil {
		return false, err
	}
	if f.prune && f.app == "" {
		return false, errors.New("--prune needs --app: the inventory of an app says what was applied before")
	}
	return color, f.look.checkFlags()
}

func runDiff(ctx context.Context, e *command.Env, f *diffFlags) error {
	color, err := f.checkOwn(e)
	if err != nil {
		return err
	}
	settings := config.Options{Files: f.configs, Rules: preflight.Rules(), Preflights: f.preflights}
	cfg, _, err := config.Load(settings)
	if err != nil {
		return err
	}
	run := &deliverer{Env: e, flags: &applyFlags{into: f.into, takeOver: f.over, report: f.report, output: f.output, app: f.app, timeout: f.timeout, dryRun: dryRunServer}}
	if err := run.checkFlags(); err != nil {
		return err
	}
	if err := missingSourcesError(f.sources); err != nil {
		return err
	}
	rest, namespace, err := f.Connect()
	if err != nil {
		return err
	}
	loaded, err := loadAllSources(ctx, e, &f.sourceFlags, rest)
	if err != nil {
		return err
	}
	run.loaded = loaded
	if cfg, err = run.withSourceConfigs(cfg, settings); err != nil {
		return err
	}
	applier, err := apply.New(rest, apply.Options{Namespace: namespace, Now: e.Now})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("the time of --timeout %s is over", f.timeout))
	defer cancel()
	plan, err := applier.Plan(ctx, apply.Request{
		Objects: loaded.objects, App: f.app, Sources: loaded.sources, Prune: f.prune, Force: f.force, Replace: f.replace, IntoNamespace: f.into, TakeOver: appsOf(f.over, namespace), Rules: cfg.ApplyRules(),
	})
	d := &differ{deliverer: run, look: f.look, color: color, prune: f.prune, out: e.Out, result: DiffResult{
		APIVersion: report.APIVersion, Kind: "Diff", App: f.app, Namespace: namespace, Sources: loaded.sources, Differences: []Difference{},
	}}
	if f.report != "" && f.report != "text" {
		d.out = e.Err // standard output is for the document
	}
	if errors.Is(err, apply.ErrOtherApp) {
		return d.otherApps(err)
	}
	if err != nil {
		return err
	}
	run.applier, run.plan, run.told = applier, plan, &teller{Env: e, lines: e.Err, quiet: true}
	run.showNotes()
	blocked := false
	if f.preflights == nil || len(f.preflights) > 0 {
		if blocked, err = run.runPreflights(ctx, cfg); err != nil {
			return err
		}
	}
	differs, err := d.printDifferences(ctx)
	if err != nil {
		return err
	}
	run.showUnowned()
	if differs || blocked {
		return command.ErrFindings
	}
	return nil
}

// differ compares the objects of a plan with the live ones, and prints the differences.
type differ struct {
	*deliverer

	look   diffLook
	color  bool
	prune  bool
	out    io.Writer
	result DiffResult
}

// otherApps tells which objects belong to other apps.
func (d *differ) otherApps(err error) error {
	d.told = &teller{Env: d.Env, lines: d.out}
	d.showOtherApps(err)
	if d.flags.output == "json" {
		d.result.Error = brief.OneLine(err.Error())
		return errors.Join(command.ErrFindings, command.Encode(d.Out, d.result))
	}
	return command.ErrFindings
}

// printDifferences prints the differences, and reports whether there are any, or conflicts.
func (d *differ) printDifferences(ctx context.Context) (bool, error) {
	differences, err := d.applier.Try(ctx, d.plan, apply.TryOptions{Contents: true, Local: true})
	d.told.printWarnings(d.plan.Warnings())
	conflict, ok := errors.AsType[*apply.ConflictError](err)
	if ok {
		d.told = &teller{Env: d.Env, lines: d.out, quiet: d.flags.output == "json"}
		d.showConflicts(conflict)
		d.result.Conflicts = conflict.Conflicts
	}
	if err != nil && (!ok || !onlyConflicts(err)) {
		return false, err
	}
	if err := d.look.maskDifferences(differences); err != nil {
		return false, err
	}
	if d.prune {
		d.result.Kept = keptByPrune(d.plan)
	}
	if d.flags.output == "json" {
		err = d.encodeDocument(differences)
	} else {
		err = showDifferences(d.Env, d.out, differences, d.result.Kept, d.look, d.color)
	}
	return ok || len(differences)+len(d.result.Kept) > 0, err
}

func (d *differ) encodeDocument(differences []apply.Difference) error {
	d.result.Ran, d.result.Report, d.result.Warnings = d.deliverer.result.Ran, d.deliverer.result.Report, d.plan.Warnings()
	for _, x := range differences {
		d.result.Differences = append(d.result.Differences, Difference{x.ID, x.Action, x.Before, x.After, x.Note, x.TakesOver})
	}
	return command.Encode(d.out, d.result)
}

func showDifferences(e *command.Env, out io.Writer, differences []apply.Difference, stay []ObjectResult, look diffLook, color bool) error {
	counts := map[apply.Action]int{}
	for _, d := range differences {
		counts[d.Action]++
		if d.Note != "" {
			fmt.Fprintf(e.Err, "note: %s: %s\n", d.ID, d.Note)
		}
		if len(d.TakesOver) > 0 {
			if _, err := fmt.Fprintf(out, "# %s is taken over from %s\n", d.ID, strings.Join(d.TakesOver, ", ")); err != nil {
				return err
			}
		}
		text, err := look.unifiedDiff(&d)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprint(out, paintDiff(text, color)); err != nil {
			return err
		}
	}
	for _, r := range stay {
		if _, err := fmt.Fprintf(out, "# %s would be kept: %s\n", r.ID, r.Reason); err != nil {
			return err
		}
	}
	replaced := ""
	if n := counts[apply.Replace]; n > 0 {
		replaced = fmt.Sprintf("%d to be replaced, ", n)
	}
	remain := ""
	if len(stay) > 0 {
		remain = fmt.Sprintf(", %d to be kept", len(stay))
	}
	_, err := fmt.Fprintf(out, "%d to be created, %d to be updated, %s%d to be deleted%s\n", counts[apply.Create], counts[apply.Update], replaced, counts[apply.Delete], remain)
	return err
}

// paintDiff colours the lines of a diff.
func paintDiff(text string, color bool) string {
	if !color {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		code := ""
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
			code = "\x1b[1m"
		case strings.HasPrefix(line, "+"):
			code = "\x1b[32m"
		case strings.HasPrefix(line, "-"):
			code = "\x1b[31m"
		}
		if code == "" {
			b.WriteString(line)
			continue
		}
		b.WriteString(code + strings.TrimSuffix(line, "\n") + "\x1b[0m\n")
	}
	return b.String()
}
