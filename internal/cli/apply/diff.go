package apply

// What would an apply change? Diff plans as apply does, and sends each change to the API server as a dry run. What
// it prints is the difference between the live object and the answer, so it has the defaults that the server fills
// in, and what admission changes. Values of Secrets are never in the output; --mask hides more. For example,
// --mask /data/* hides all values of ConfigMaps.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"sluice.dev/apply"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/config"
)

// NewDiff returns the command diff.
func NewDiff(e *command.Env) *cobra.Command {
	f := &applyFlags{dryRun: dryRunServer}
	d := &differ{deliverer: &deliverer{Env: e, flags: f}, out: e.Out}
	color := ""
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
			return d.runDiff(cmd.Context(), color)
		},
	}
	f.addTo(cmd)
	d.look.addTo(cmd)
	fs := cmd.Flags()
	fs.BoolVar(&f.prune, "prune", false, "also show the objects that --prune would delete")
	fs.BoolVar(&f.force, "force-conflicts", false, "show the changes as if apply took over fields of other owners")
	fs.BoolVar(&f.replace, "replace", false, "show the objects that --replace would delete and create again")
	fs.DurationVar(&f.timeout, "timeout", 5*time.Minute, "time limit for the whole command")
	fs.StringVar(&color, "color", "auto", "auto, always or never")
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
	command.Document `json:",inline"`
	App              string           `json:"app,omitempty"`
	Namespace        string           `json:"namespace"`
	Sources          []apply.Source   `json:"sources"`
	Ran              []string         `json:"preflights,omitempty"`
	Report           json.RawMessage  `json:"report,omitempty"`
	Conflicts        []apply.Conflict `json:"conflicts,omitempty"`
	// Warnings are what the API server warns of.
	Warnings []apply.Warning `json:"warnings,omitempty"`
	// Error says which objects belong to other apps; then nothing was compared.
	Error       string             `json:"error,omitempty"`
	Differences []apply.Difference `json:"differences"`
	// Unowned are items of lists that are not in the source and stay, because nobody owns them.
	Unowned []string `json:"unowned,omitempty"`
	// Kept is what --prune would leave, and say so with exit code 1.
	Kept []ObjectResult `json:"kept,omitempty"`
}

// runDiff compares, and returns [command.ErrFindings] if anything differs or blocks an apply. Preflights run only
// if --preflight or a configuration names some: a diff is asked for often, and they can take long. Everything but
// the differences goes to standard error, so that the output can be piped.
func (d *differ) runDiff(ctx context.Context, color string) (err error) {
	f := d.flags
	if d.color, err = d.WantsColor(color); err != nil {
		return err
	}
	if err := d.look.checkFlags(); err != nil {
		return err
	}
	cfg, err := d.prepareRun(ctx, nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("the time of --timeout %s is over", f.timeout))
	defer cancel()
	d.result = DiffResult{
		Document: command.DocumentOf("Diff"), App: f.app, Namespace: d.applier.namespace, Sources: d.loaded.sources, Differences: []apply.Difference{},
	}
	if f.report != "" && f.report != "text" {
		d.out = d.Err // standard output is for the document
	}
	// Objects of other apps would block the apply: that is an answer, and no failure.
	err = d.makePlan(ctx, cfg)
	if errors.Is(err, apply.ErrOtherApp) {
		return d.otherApps(err)
	}
	if err != nil {
		return err
	}
	// What the plan tells on its way is not part of the differences.
	d.told = &teller{Env: d.Env, lines: d.Err, quiet: true}
	d.showNotes()
	blocked := false
	if f.preflights == nil || len(f.preflights) > 0 {
		if blocked, err = d.runPreflights(ctx, cfg); err != nil {
			return err
		}
	}
	differs, err := d.printDifferences(ctx)
	if err != nil {
		return err
	}
	d.showUnowned()
	return command.FindingsIf(differs || blocked)
}

// differ compares the objects of a plan with the live ones, and prints the differences.
type differ struct {
	*deliverer

	look   diffLook
	color  bool
	out    io.Writer
	result DiffResult
}

// otherApps tells which objects belong to other apps. An apply would be blocked by them, so nothing is compared.
// With -o json the document has the reason.
func (d *differ) otherApps(err error) error {
	d.told = &teller{Env: d.Env, lines: d.out}
	d.showOtherApps(err)
	if d.flags.output == "json" {
		d.result.Error = brief.OneLine(err.Error())
		return errors.Join(command.ErrFindings, command.Encode(d.Out, d.result))
	}
	return command.ErrFindings
}

// printDifferences prints the differences, and reports whether there are any, or conflicts. Fields of other owners
// are no error here: they are told as conflicts, and the differences are those of an apply that takes the fields
// over.
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
	if d.flags.prune {
		d.result.Kept = keptByPrune(d.plan)
	}
	if d.flags.output == "json" {
		err = d.encodeDocument(differences)
	} else {
		err = showDifferences(d.Env, d.out, differences, d.result.Kept, d.look, d.color)
	}
	return ok || len(differences)+len(d.result.Kept) > 0, err
}

// encodeDocument prints the document of -o json. Differences is empty and not null if there is none.
func (d *differ) encodeDocument(differences []apply.Difference) error {
	d.result.Ran, d.result.Report, d.result.Warnings = d.deliverer.result.Ran, d.deliverer.result.Report, d.plan.Warnings()
	d.result.Differences, d.result.Unowned = append(d.result.Differences, differences...), d.plan.Unowned()
	return command.Encode(d.out, d.result)
}

// showDifferences prints each difference as a unified diff, then what --prune would keep, then the counts. Notes
// about single objects go to standard error. An object that is taken over from another app has a line of its own,
// since the diff itself does not show that.
//
//	--- cluster ConfigMap default/prices
//	+++ source ConfigMap default/prices
//	@@ -2,3 +2,3 @@
//	 data:
//	-  apple: "2"
//	+  apple: "3"
//	0 to be created, 1 to be updated, 0 to be deleted
func showDifferences(e *command.Env, out io.Writer, differences []apply.Difference, stay []ObjectResult, look diffLook, color bool) error {
	counts := map[apply.Action]int{}
	for _, d := range differences {
		counts[d.Action]++
		if d.Note != "" {
			fmt.Fprintf(e.Err, "note: %s: %s\n", d.ID, d.Note)
		}
		if len(d.TakesOver) > 0 {
			fmt.Fprintf(out, "# %s is taken over from %s\n", d.ID, strings.Join(d.TakesOver, ", "))
		}
		text, err := look.unifiedDiff(&d)
		if err != nil {
			return err
		}
		fmt.Fprint(out, paintDiff(text, color))
	}
	for _, r := range stay {
		fmt.Fprintf(out, "# %s would be kept: %s\n", r.ID, r.Reason)
	}
	replaced := ""
	if n := counts[apply.Replace]; n > 0 {
		replaced = fmt.Sprintf("%d to be replaced, ", n)
	}
	remain := ""
	if len(stay) > 0 {
		remain = fmt.Sprintf(", %d to be kept", len(stay))
	}
	fmt.Fprintf(out, "%d to be created, %d to be updated, %s%d to be deleted%s\n", counts[apply.Create], counts[apply.Update], replaced, counts[apply.Delete], remain)
	return nil
}

// paintDiff colours the lines of a diff. Without color the text stays as it is. The head of a file (+++ and ---)
// is bold, so it is looked at before the changed lines.
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

// diffLook says how differences are shown.
type diffLook struct {
	context     int
	onlyChanges bool
	masks       []string
}

func (l *diffLook) addTo(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.IntVar(&l.context, "unified", 3, "number of unchanged lines around each change; -1 for all")
	fs.BoolVar(&l.onlyChanges, "only-changes", false, "show the content of changed objects, and only the names of created or deleted ones")
	fs.StringArrayVar(&l.masks, "mask", nil, "field with values to hide, as a JSON pointer such as /data/password; * stands for all keys or items (may be repeated). Diff never shows values of Secrets")
}

// checkFlags refuses a context below -1, and masks that are no JSON pointers (RFC 6901) below the root.
func (l *diffLook) checkFlags() error {
	if l.context < -1 {
		return fmt.Errorf("--unified %d: it is 0 or more, or -1 for all lines", l.context)
	}
	for _, m := range l.masks {
		if !strings.HasPrefix(m, "/") || m == "/" {
			return fmt.Errorf("--mask %q: it is a JSON pointer such as /data/password", m)
		}
	}
	return nil
}

// maskDifferences masks values in the differences.
func (l *diffLook) maskDifferences(list []apply.Difference) error {
	if len(l.masks) == 0 {
		return nil
	}
	for i := range list {
		d := &list[i]
		before, after, err := bothDecoded(d.Before, d.After)
		if err != nil {
			return fmt.Errorf("%s: %w", d.ID, err)
		}
		for _, m := range l.masks {
			keys := strings.Split(m[1:], "/")
			for k := range keys {
				// The escapes of RFC 6901.
				keys[k] = strings.NewReplacer("~1", "/", "~0", "~").Replace(keys[k])
			}
			maskBoth(before, after, keys)
		}
		if d.Before, err = yamlOf(before); err == nil {
			d.After, err = yamlOf(after)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", d.ID, err)
		}
	}
	return nil
}

// bothDecoded reads both sides of a difference, which are YAML. The side of an object that does not exist is
// empty, and becomes nil.
func bothDecoded(before, after string) (b, a any, err error) {
	return b, a, errors.Join(yaml.Unmarshal([]byte(before), &b), yaml.Unmarshal([]byte(after), &a))
}

// yamlOf writes one side of a difference again; nil, for an object that does not exist, is empty.
func yamlOf(v any) (string, error) {
	if v == nil {
		return "", nil
	}
	text, err := yaml.Marshal(v)
	return string(text), err
}

// maskBoth replaces what stands at a path in both, so that whether it differs is still to be seen. The text that
// stands for a value says so if the other side has another one. keys is what is left of the path; it is never
// empty.
func maskBoth(before, after any, keys []string) {
	for _, key := range keysOf(before, after, keys[0]) {
		b, putBefore := partAt(before, key)
		a, putAfter := partAt(after, key)
		if len(keys) > 1 {
			maskBoth(b, a, keys[1:])
			continue
		}
		// Values are compared as JSON, so that the order of keys does not count as a difference.
		x, errB := json.Marshal(b)
		y, errA := json.Marshal(a)
		hidden := "(hidden)"
		if putBefore != nil && putAfter != nil && (errB != nil || errA != nil || string(x) != string(y)) {
			hidden = "(hidden, another value)"
		}
		if putBefore != nil {
			putBefore("(hidden)")
		}
		if putAfter != nil {
			putAfter(hidden)
		}
	}
}

// keysOf are the keys, or indexes as numbers, that a part of a path means.
func keysOf(before, after any, key string) []string {
	if key != "*" {
		return []string{key}
	}
	var out []string
	for _, v := range []any{before, after} {
		switch v := v.(type) {
		case map[string]any:
			for k := range v {
				out = append(out, k)
			}
		case []any:
			for i := range v {
				out = append(out, fmt.Sprint(i))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// partAt returns the value at a key or an index, and what puts a text in its place; nil if there is none. Writing
// into the value changes the object that v is part of.
func partAt(v any, key string) (value any, put func(text string)) {
	switch v := v.(type) {
	case map[string]any:
		if value, ok := v[key]; ok {
			return value, func(text string) { v[key] = text }
		}
	case []any:
		for i := range v {
			if fmt.Sprint(i) == key {
				return v[i], func(text string) { v[i] = text }
			}
		}
	}
	return nil, nil
}

// unifiedDiff is a difference as a unified diff. With --only-changes, an object that is created or deleted is one
// line.
func (l *diffLook) unifiedDiff(d *apply.Difference) (string, error) {
	if l.onlyChanges && (d.Before == "" || d.After == "") {
		word := "created"
		if d.After == "" {
			word = "deleted"
		}
		return fmt.Sprintf("# %s will be %s\n", d.ID, word), nil
	}
	context := l.context
	if context < 0 {
		// All lines: no change is farther from the next than both texts are long.
		context = strings.Count(d.Before, "\n") + strings.Count(d.After, "\n")
	}
	lines := func(text string) []string {
		if text == "" {
			return nil
		}
		return difflib.SplitLines(strings.TrimSuffix(text, "\n"))
	}
	return difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: lines(d.Before), B: lines(d.After), FromFile: "cluster " + d.String(), ToFile: "source " + d.String(), Context: context})
}
