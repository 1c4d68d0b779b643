// Package apply has the commands about apps: apply, diff, delete, ls, history and adopt. It reads their sources; package
// sluice.dev/apply plans and writes.
package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"sluice.dev/apply"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/config"
	"sluice.dev/internal/preflight"
	"sluice.dev/report"
)

// Values of --dry-run.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// applyGCPercent takes the place of [gcpercent.Command] during an apply. It is the default of Go: an apply waits
// for the API server far more than it computes, so collecting more often costs nothing that a user sees, and
// halves the memory for large sources.
const applyGCPercent = 100

// applyFlags are the flags of apply and of diff. Diff leaves those about writing at their zero values, and sets
// dryRun to the server's. preflights is nil if the configuration says which preflights run, and empty for none: a
// flag that is given with an empty value means that nothing runs.
type applyFlags struct {
	sourceFlags
	command.ClusterFlags

	app   string
	prune bool
	deleteFlagsOf
	takeOver       []string
	into           string
	revision       string
	maxDeletes     string
	force          bool
	replace        bool
	wait           bool
	timeout        time.Duration
	lockTimeout    time.Duration
	dryRun         string
	configs        []string
	preflights     []string
	mode, failMode string
	output, report string
	verbose        bool
}

// New returns the command apply.
func New(e *command.Env) *cobra.Command {
	f := &applyFlags{}
	cmd := &cobra.Command{
		Use:   "apply -f SOURCE...",
		Short: "Check objects, and deliver them to a cluster",
		Long: `Apply delivers objects from any source to a cluster by server-side apply. It applies Namespaces and CRDs first, and waits
until the API server serves them. Admission configuration comes last. Preflights run before anything changes. For example, they
stop the upgrade of a CRD that harms stored objects, writers or readers.

` + sourceHelp + `

With --app, Sluice records the objects in the cluster under that name. Then sluice ls lists them, and --prune deletes objects
that the source no longer has. If an apply is interrupted, run the same command again to resume it.

Exit codes: 0 applied, or nothing to do; 1 blocked; 2 error. A preflight, fields of other owners, objects of another app, or stored
objects of a CRD that --prune would delete can block an apply.`,
		Example: `  sluice apply --app shop -f config/
  sluice apply --app shop -f git+https://example.com/shop.git//deploy?ref=v1.2.0 --prune
  sluice apply --app operator -f oci://registry.example.com/operator/manifests:v2
  kustomize build . | sluice apply --app shop -f - --dry-run=server`,
		Args: cobra.NoArgs, Annotations: map[string]string{command.ResultKind: "ApplyResult"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("preflight") {
				f.preflights = nil
			} else if f.preflights == nil {
				f.preflights = []string{}
			}
			return (&deliverer{Env: e, flags: f}).runApply(cmd.Context())
		},
	}
	f.addTo(cmd)
	fs := cmd.Flags()
	fs.BoolVar(&f.prune, "prune", false, "delete objects of the app that the source no longer has")
	f.addDelete(fs, "let --prune delete ")
	fs.StringVar(&f.maxDeletes, "max-deletes", "", "most objects that --prune may delete at once, as a number or as a share of the app such as 30% (default: 50%, or 10 if that is more)")
	fs.BoolVar(&f.mayBeEmpty, "allow-empty", false, "accept an empty source among several")
	fs.BoolVar(&f.force, "force-conflicts", false, "take over fields of other owners, and objects of other apps")
	fs.StringVar(&f.revision, "revision", "", "instead of -f: go back to the revision of the app with this commit or digest, or a prefix of it; sluice history lists them")
	fs.BoolVar(&f.replace, "replace", false, "delete objects whose immutable fields differ, and create them again; objects that hold data are never replaced")
	fs.BoolVar(&f.wait, "wait", true, "wait until all objects are ready")
	fs.DurationVar(&f.timeout, "timeout", 10*time.Minute, "time limit for the whole command")
	addLockTimeout(fs, &f.lockTimeout)
	fs.StringVar(&f.dryRun, "dry-run", dryRunNone, "client: show the differences and write nothing; server: also send dry runs to the API server")
	fs.StringArrayVarP(&f.configs, "config", "c", nil, "configuration file in Sluice's, kapp's or crdify's format (may be repeated)")
	fs.StringSliceVar(&f.preflights, "preflight", nil, "preflights to run, separated by commas, instead of those in the configuration: "+strings.Join(config.Preflights(), ", ")+`; "" for none`)
	fs.StringVar(&f.mode, "mode", "", "for CRDUpgradeSafety; error: findings block; warn: findings are warnings; stored: a finding blocks only if a stored object shows it (default: from the configuration, or error)")
	fs.StringVar(&f.failMode, "fail-mode", "", "for CRDUpgradeSafety; closed: an undecided change blocks; open: it is a warning (default: from the configuration, or closed)")
	fs.StringVar(&f.report, "report", "", "print the findings of the preflights in this format: "+strings.Join(command.FormatNames(), ", "))
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "also print unchanged objects, and every finding of the preflights")
	command.Complete(cmd, "dry-run", dryRunNone, dryRunClient, dryRunServer)
	command.Complete(cmd, "preflight", config.Preflights()...)
	command.Complete(cmd, "mode", "error", "warn", "stored")
	command.Complete(cmd, "fail-mode", "closed", "open")
	command.Complete(cmd, "report", command.FormatNames()...)
	return cmd
}

// addTo adds the flags that apply and diff share.
func (f *applyFlags) addTo(cmd *cobra.Command) {
	f.addSources(cmd)
	f.AddClusterNamespace(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&f.app, "app", "a", "", "name of the app: Sluice records its objects in the cluster under this name")
	fs.StringSliceVar(&f.takeOver, "take-over", nil, "app to take objects over from, if the source has them, as NAME or NAMESPACE/NAME (may be repeated)")
	fs.StringVar(&f.into, "into-namespace", "", "put all objects into this namespace, whatever namespace they name; references to these objects, such as subjects of role bindings and services of webhooks, change too")
	command.AddOutput(cmd, &f.output, "text", "json")
}

// minRevision is how much of a digest has to be given.
const minRevision = 7

// deliverer is one run of the command. It lives for one call. Its parts are filled in this order: flags, loaded
// and applier by prepareRun, plan by makePlan, result on the way.
type deliverer struct {
	*command.Env

	flags   *applyFlags
	applier *connection
	loaded  *loaded
	plan    *apply.Plan
	told    *teller
	result  Result
	// unowned is what showNotes has told of list items that stay.
	unowned string
	// ended is set when everything is done, except for objects that are kept.
	ended bool
}

// Result is the outcome for programs.
type Result struct {
	command.Document `json:",inline"`
	App              string           `json:"app,omitempty"`
	Namespace        string           `json:"namespace"`
	DryRun           string           `json:"dryRun,omitempty"`
	Outcome          string           `json:"outcome"`
	Error            string           `json:"error,omitempty"`
	Sources          []apply.Source   `json:"sources"`
	Ran              []string         `json:"preflights"`
	Report           json.RawMessage  `json:"report,omitempty"`
	Conflicts        []apply.Conflict `json:"conflicts,omitempty"`
	NotReady         []apply.NotReady `json:"notReady,omitempty"`
	// Written is what was created or updated by an apply that has not ended in order.
	Written []apply.ID `json:"written,omitempty"`
	// Untried is what the server could not be asked about before the first write.
	Untried []apply.Untried `json:"untried,omitempty"`
	// Unowned are items of lists that are not in the source and stay, because nobody owns them.
	Unowned []string `json:"unowned,omitempty"`
	// Warnings are what the API server warns of.
	Warnings []apply.Warning `json:"warnings,omitempty"`
	// LeftOut is what stands in the source and is not applied.
	LeftOut []apply.Hook   `json:"leftOut,omitempty"`
	Objects []ObjectResult `json:"objects"`
	Summary map[string]int `json:"summary"`
}

// ObjectResult is the outcome for one object.
type ObjectResult struct {
	apply.ID

	Action apply.Action `json:"action"`
	Reason string       `json:"reason,omitempty"`
	// TakesOver are field managers of other appliers whose fields become ours.
	TakesOver []string `json:"takesOver,omitempty"`
}

// Outcomes of an apply.
const (
	OutcomeApplied   = "applied"
	OutcomeUnchanged = "unchanged"
	outcomeTried     = "tried"
	OutcomeBlocked   = "blocked"
)

// runApply is the whole command: it checks flags, reads the sources, plans, runs the preflights, applies, and
// tells the outcome. What is wrong with flags or sources is an error without a document. From then on every
// outcome, errors included, is in the document of -o json. The time of --timeout begins after the sources were
// read, because nobody can foresee how long standard input takes.
func (d *deliverer) runApply(ctx context.Context) error {
	f := d.flags
	if d.Getenv("GOGC") == "" {
		// An apply waits for the server far more than it computes: memory is worth more here.
		defer debug.SetGCPercent(debug.SetGCPercent(applyGCPercent))
	}
	// Where the lines go depends on who reads standard output: a person, or a program that wants one document.
	lines := d.Out
	if f.output == "json" || f.report != "" && f.report != "text" {
		lines = d.Err // standard output is for the document
	}
	d.told = &teller{Env: d.Env, lines: lines, quiet: f.output == "json"}
	cfg, err := d.prepareRun(ctx, d.told.showEvent)
	if err != nil {
		return err
	}
	d.result = Result{
		Document: command.DocumentOf("ApplyResult"), App: f.app, Namespace: d.applier.namespace, DryRun: f.dryRun, Sources: d.loaded.sources,
		Ran: []string{}, Objects: []ObjectResult{}, Summary: map[string]int{},
	}
	if f.dryRun == dryRunNone {
		// The document leaves the field out, rather than saying none.
		d.result.DryRun = ""
	}
	for _, s := range d.loaded.sources {
		d.told.printLine("source %s", sourceLine(s))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("the time of --timeout %s is over", f.timeout))
	defer cancel()
	if f.app != "" {
		tellKeeper(ctx, d.Env, d.applier, f.app, "put its own source back")
	}
	return d.reportOutcome(d.applyUnderLock(ctx, cfg))
}

// prepareRun checks the flags, connects, and reads configuration and sources. The configuration is read before the
// sources: a mistake in it shows at once. It is read again if the sources bring configuration of kapp with them.
func (d *deliverer) prepareRun(ctx context.Context, observe func(apply.Event)) (*config.Config, error) {
	f := d.flags
	if err := d.checkFlags(); err != nil {
		return nil, err
	}
	settings := config.Options{Files: f.configs, Mode: f.mode, FailMode: f.failMode, Rules: preflight.Rules(), Preflights: f.preflights}
	cfg, notes, err := config.Load(settings)
	if err != nil {
		return nil, err
	}
	if f.verbose {
		for _, n := range notes {
			fmt.Fprintln(d.Err, "note:", brief.OneLine(n))
		}
	}
	// All missing files in one error, before a connection or a fetch takes time.
	if err := missingSourcesError(f.sources); err != nil {
		return nil, err
	}
	if d.applier, err = connectApplier(&f.ClusterFlags, apply.Options{Now: d.Now, Observe: observe, LockTimeout: f.lockTimeout}); err != nil {
		return nil, err
	}
	if err := d.loadSources(ctx); err != nil {
		return nil, err
	}
	return d.withSourceConfigs(cfg, settings)
}

// loadSources reads the sources: those of the flags, or of the revision that the app goes back to.
func (d *deliverer) loadSources(ctx context.Context) (err error) {
	f := d.flags
	var back *apply.Revision
	if f.revision != "" {
		if back, err = d.goBack(ctx); err != nil {
			return err
		}
	}
	if d.loaded, err = loadAllSources(ctx, d.Env, &f.sourceFlags, d.applier.config); err != nil || back == nil {
		return err
	}
	if err := checkStillHolds(back, d.loaded.sources); err != nil {
		return err
	}
	d.loaded.sources = back.Sources // under the names that they had
	return nil
}

// withSourceConfigs is the configuration with those that came with the sources. It tells what of them is not done.
// For example, a source may hold a kapp Config with rebaseRules beside its objects.
func (d *deliverer) withSourceConfigs(cfg *config.Config, settings config.Options) (*config.Config, error) {
	if len(d.loaded.configs) > 0 {
		settings.Documents = d.loaded.configs
		var err error
		if cfg, _, err = config.Load(settings); err != nil {
			return nil, err
		}
	}
	for _, n := range cfg.NotDone() {
		fmt.Fprintln(d.Err, "note:", brief.OneLine(n))
	}
	return cfg, nil
}

// checkFlags returns the first flag that is wrong by itself or contradicts another one. It does not look at files
// or the cluster. An unknown format of --report gets the error that the printers have for it, with the names of
// the formats.
func (d *deliverer) checkFlags() error {
	f := d.flags
	if f.report != "" && !slices.Contains(command.FormatNames(), f.report) {
		// It fails for an unknown format, and names those that there are.
		return report.Print(d.Out, f.report, &report.Report{}, report.Options{})
	}
	if f.report != "" && f.output == "json" {
		return errors.New("-o json holds what the preflights found already: leave --report out")
	}
	if !slices.Contains([]string{dryRunNone, dryRunClient, dryRunServer}, f.dryRun) {
		return fmt.Errorf("--dry-run %q: it is none, client or server", f.dryRun)
	}
	if f.prune && f.app == "" {
		return errors.New("--prune needs --app: the inventory of an app says what was applied before")
	}
	if err := f.checkNeedsPrune(f.prune); err != nil {
		return err
	}
	if _, err := apply.MostDeletes(f.maxDeletes, 0); err != nil {
		return fmt.Errorf("--max-deletes %w", err)
	}
	if f.into != "" {
		if problems := validation.IsDNS1123Label(f.into); len(problems) > 0 {
			return fmt.Errorf("--into-namespace %q is no name of a namespace: %s", f.into, strings.Join(problems, "; "))
		}
	}
	// The namespace does not matter for whether a name is one.
	for _, app := range f.takeOver {
		if _, _, err := appOf(app, ""); err != nil {
			return err
		}
	}
	if f.timeout <= 0 {
		return errors.New("--timeout must be more than 0")
	}
	return f.checkRevision()
}

// checkRevision judges --app, and --revision with it.
func (f *applyFlags) checkRevision() error {
	switch {
	case f.revision != "" && (f.app == "" || len(f.sources) > 0):
		return errors.New("--revision is for --app, and without -f: the revision has its sources")
	case f.revision != "" && len(f.revision) < minRevision:
		return fmt.Errorf("--revision %q: give at least %d characters", f.revision, minRevision)
	case f.app != "":
		return apply.CheckApp(f.app)
	}
	return nil
}

// sourceLine tells what was resolved. For example: git+https://example.com/shop.git//deploy?ref=v1 commit 0c4e1f0.
// A source without a digest, such as a folder that is not in a repository, is named alone.
func sourceLine(s apply.Source) string {
	if commit := s.Digest["sha1"]; commit != "" {
		return s.Name + " commit " + commit
	}
	if digest := s.Digest["sha256"]; digest != "" {
		return s.Name + " sha256:" + digest
	}
	return s.Name
}

// planAndApply plans, checks and applies, or shows what it would apply. Nothing is written before all checks have
// passed: the preflights, the plan itself, such as objects of other apps, and the limit of deletions. After an
// error of the applier the objects that were written stay, and the same command continues.
func (d *deliverer) planAndApply(ctx context.Context, cfg *config.Config) error {
	f := d.flags
	if err := d.makePlan(ctx, cfg); err != nil {
		return err
	}
	blocked, err := d.runPreflights(ctx, cfg)
	if err != nil {
		return err
	}
	if blocked {
		fmt.Fprintln(d.Err, "sluice: blocked by the preflights; nothing was changed")
		return command.ErrFindings
	}
	// After the preflights: their findings help more than the first object that stops the plan.
	if err := d.plan.Err(); err != nil {
		return err
	}
	d.result.LeftOut = d.plan.LeftOut
	d.showNotes()
	d.showRemovals()
	if err := d.mayPrune(); err != nil {
		return err
	}
	switch f.dryRun {
	case dryRunClient:
		d.showPlan()
	case dryRunServer:
		if _, err := d.applier.Try(ctx, d.plan, apply.TryOptions{}); err != nil {
			return err
		}
		d.showPlan()
		for _, u := range d.plan.Untried {
			fmt.Fprintf(d.Err, "note: %s: %s\n", u.ID, brief.OneLine(u.Reason))
		}
		d.showUnowned()
	default:
		if err := d.applier.Apply(ctx, d.plan); err != nil {
			return err
		}
		d.showUnowned()
	}
	d.ended = true
	return command.FindingsIf(f.prune && len(keptByPrune(d.plan)) > 0)
}

// makePlan plans what the flags ask for.
func (d *deliverer) makePlan(ctx context.Context, cfg *config.Config) (err error) {
	f := d.flags
	d.plan, err = d.applier.Plan(ctx, apply.Request{
		Objects: d.loaded.objects, App: f.app, Sources: d.loaded.sources, Prune: f.prune, AllowDeleteCRDs: f.allowDeleteCRDs, AllowDeleteNamespaces: f.allowDeleteNamespaces,
		Force: f.force, TakeOver: appsOf(f.takeOver, d.applier.namespace), IntoNamespace: f.into, Replace: f.replace, Wait: f.wait, Rules: cfg.ApplyRules(),
	})
	return err
}

// runPreflights runs the preflights and tells what they found. It returns whether that blocks. With -o json the
// report becomes part of the result. Otherwise it is printed if --report asks for it, or if there is anything to
// say.
func (d *deliverer) runPreflights(ctx context.Context, cfg *config.Config) (bool, error) {
	ran, err := d.applier.Preflight(ctx, d.plan, cfg.Enabled)
	d.told.wipeBar()
	if err != nil {
		return false, err
	}
	d.result.Ran = append(d.result.Ran, ran.Ran...)
	var names []string
	for _, s := range d.loaded.sources {
		names = append(names, s.Name)
	}
	r := preflight.Report(cfg, ran, "cluster "+d.applier.Host(), strings.Join(names, ", "), d.loaded.crds, d.Now())
	o := d.ReportOptions()
	o.Verbose, o.Rules = d.flags.verbose, preflight.Doc
	// apply has no flag for it, and auto is always understood.
	o.Color, _ = d.WantsColor("auto")
	s := r.Summary()
	switch {
	case d.flags.output == "json":
		var b bytes.Buffer
		if err := report.Print(&b, "json", r, o); err != nil {
			return false, err
		}
		d.result.Report = bytes.TrimSpace(b.Bytes())
	case d.flags.report != "":
		err = report.Print(d.Out, d.flags.report, r, o)
	case s.Fail+s.Warn+s.Notes > 0:
		err = report.Print(d.Out, "text", r, o)
	}
	return r.Failing() > 0, err
}

// showNotes tells of objects that are not treated as one may expect.
func (d *deliverer) showNotes() {
	for _, n := range d.plan.Notes() {
		fmt.Fprintln(d.Err, "note:", brief.OneLine(n))
	}
	d.unowned = d.plan.UnownedNote()
}

// showUnowned tells of list items that stay, if dry runs or writes have found others than were told of.
func (d *deliverer) showUnowned() {
	if n := d.plan.UnownedNote(); n != "" && n != d.unowned {
		fmt.Fprintln(d.Err, "note:", brief.OneLine(n))
		d.unowned = n
	}
}

// showPlan tells what a dry run found. Unchanged objects are left out without --verbose: most objects of most
// applies are unchanged.
//
//	would create ConfigMap default/prices
//	would update Deployment.apps default/frontend, taking it over from helm
func (d *deliverer) showPlan() {
	for i := range d.plan.Items {
		if it := &d.plan.Items[i]; it.Action != apply.Unchanged || d.flags.verbose {
			line := fmt.Sprintf("would %s %s", it.Action, it.ID)
			if it.Action == apply.Unchanged {
				line = "would leave unchanged " + it.String()
			}
			if it.Action == apply.Replace {
				line += ": " + it.Reason
			}
			if len(it.TakesOver) > 0 {
				line += ", taking it over from " + strings.Join(it.TakesOver, ", ")
			}
			d.told.printLine("%s", line)
		}
	}
}

// reportOutcome tells the outcome, whatever err says, and returns the error that the command ends with. In text,
// the line with the counts is printed only if something was done or all was tried: after a refusal, zero objects
// are no news.
func (d *deliverer) reportOutcome(err error) error {
	d.told.wipeBar()
	if d.plan != nil {
		d.recordObjects()
	}
	// Without a plan the run failed before it could write.
	changed := d.plan != nil && d.applier.Writes() > 0
	err = d.judgeOutcome(err, changed)
	if d.flags.output == "json" {
		return errors.Join(err, command.Encode(d.Out, d.result))
	}
	if err == nil || errors.Is(err, command.ErrFindings) && (changed || d.ended) {
		d.told.printLine("%s", d.summaryLine())
	}
	return err
}

// recordObjects takes what became of each object into the result. Deletions are recorded with --prune only, since
// without it nothing of the inventory was looked at.
func (d *deliverer) recordObjects() {
	r := &d.result
	for i := range d.plan.Items {
		it := &d.plan.Items[i]
		r.Objects = append(r.Objects, ObjectResult{it.ID, it.Action, it.Reason, it.TakesOver})
		r.Summary[string(it.Action)]++
	}
	r.Untried, r.Unowned, r.Warnings = d.plan.Untried, d.plan.Unowned(), d.plan.Warnings()
	d.showUnowned()
	d.told.printWarnings(r.Warnings)
	if !d.flags.prune {
		return
	}
	for i := range d.plan.Removals {
		it := &d.plan.Removals[i]
		r.Objects = append(r.Objects, ObjectResult{ID: it.ID, Action: it.Action, Reason: it.Reason})
		r.Summary[string(it.Action)]++
	}
}

// judgeOutcome takes the outcome into the result, and returns the error that the command ends with:
// [command.ErrFindings] (exit code 1) if fields or objects of others are in the way, or a preflight said no, and
// the error itself (exit code 2) if something broke. changed tells whether anything was written. If an error comes
// after writes, a note says what was written and that the command can be repeated.
func (d *deliverer) judgeOutcome(err error, changed bool) error {
	r := &d.result
	var conflict *apply.ConflictError
	switch {
	case err == nil && d.flags.dryRun != dryRunNone:
		r.Outcome = outcomeTried
	case err == nil && !changed:
		r.Outcome = OutcomeUnchanged
	case err == nil:
		r.Outcome = OutcomeApplied
	case errors.Is(err, command.ErrFindings):
		r.Outcome = OutcomeBlocked
	case errors.As(err, &conflict):
		r.Outcome, r.Conflicts, r.Error = OutcomeBlocked, conflict.Conflicts, err.Error()
		d.showConflicts(conflict)
		if !onlyConflicts(err) {
			// Taking the fields over would not help what else went wrong.
			r.Outcome, r.Error = command.OutcomeFailed, brief.OneLine(err.Error())
			break
		}
		err = command.ErrFindings
	case errors.Is(err, apply.ErrOtherApp):
		r.Outcome, r.Error = OutcomeBlocked, brief.OneLine(err.Error())
		d.showOtherApps(err)
		err = command.ErrFindings
	default:
		r.Outcome, r.Error = command.OutcomeFailed, brief.OneLine(err.Error())
		if unready, ok := errors.AsType[*apply.NotReadyError](err); ok {
			r.NotReady = unready.Objects
		}
	}
	if blocked := errors.Is(err, command.ErrFindings) && conflict == nil; err != nil && !blocked && d.applier.Writes() > 0 {
		r.Written = d.told.written
		fmt.Fprintln(d.Err, "note: "+leftBehind(r.Written))
	}
	return err
}

// summaryLine counts what was done. For example: app shop: 2 created, 1 updated, 5 unchanged. In a dry run the
// words are "to be created" and so on.
func (d *deliverer) summaryLine() string {
	var parts []string
	words := map[apply.Action]string{
		apply.Create: "created", apply.Update: "updated", apply.Replace: "replaced", apply.Unchanged: "unchanged", apply.Delete: "deleted", apply.Keep: "kept", apply.Forget: "forgotten",
	}
	for _, a := range []apply.Action{apply.Create, apply.Update, apply.Replace, apply.Unchanged, apply.Delete, apply.Keep, apply.Forget} {
		if n := d.result.Summary[string(a)]; n > 0 {
			word := words[a]
			if d.flags.dryRun != dryRunNone && a != apply.Unchanged {
				word = "to be " + word
			}
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	head := "done"
	if d.flags.app != "" {
		head = "app " + d.flags.app
	}
	if d.flags.dryRun != dryRunNone {
		head += " (dry run)"
	}
	return head + ": " + strings.Join(parts, ", ")
}
