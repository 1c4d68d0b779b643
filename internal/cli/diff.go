package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"sluice.dev/apply"
	"sluice.dev/report"
)

type diffFlags struct {
	sourceFlags
	clusterFlags

	app     string
	prune   bool
	force   bool
	timeout time.Duration
	output  string
	color   string
}

func newDiff(e *env) *cobra.Command {
	f := &diffFlags{}
	cmd := &cobra.Command{
		Use:   "diff -f SOURCE...",
		Short: "Show what an apply would change",
		Long: `Diff shows what sluice apply would change, as the server would store it: by dry runs, which change nothing. Values of
Secrets are not shown. Preflights are not run; sluice apply --dry-run=server runs them.

` + sourceHelp + `

Exit codes: 0 no difference, 1 differences, 2 could not do it.`,
		Example: `  sluice diff --app shop -f config/ --prune`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDiff(cmd.Context(), e, f) },
	}
	f.sourceFlags.add(cmd)
	f.clusterFlags.add(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&f.app, "app", "a", "", "name under which the objects are recorded in the cluster")
	fs.BoolVar(&f.prune, "prune", false, "show what --prune would delete as well")
	fs.BoolVar(&f.force, "force-conflicts", false, "as if fields that others own were taken over")
	fs.DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long it may take")
	fs.StringVarP(&f.output, "output", "o", "text", "text or json")
	fs.StringVar(&f.color, "color", "auto", "auto, always or never")
	complete(cmd, "output", "text", "json")
	complete(cmd, "color", "auto", "always", "never")
	return cmd
}

// diffResult is the differences for programs.
type diffResult struct {
	APIVersion  string           `json:"apiVersion"`
	Kind        string           `json:"kind"`
	App         string           `json:"app,omitempty"`
	Namespace   string           `json:"namespace"`
	Sources     []apply.Source   `json:"sources"`
	Differences []differenceJSON `json:"differences"`
}

type differenceJSON struct {
	apply.ID

	Action apply.Action `json:"action"`
	Before string       `json:"before,omitempty"`
	After  string       `json:"after,omitempty"`
	Note   string       `json:"note,omitempty"`
}

func runDiff(ctx context.Context, e *env, f *diffFlags) error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	color, err := e.wantsColor(f.color)
	if err != nil {
		return err
	}
	if f.prune && f.app == "" {
		return errors.New("--prune needs --app: the inventory of an app says what was applied before")
	}
	rest, namespace, err := f.connect()
	if err != nil {
		return err
	}
	loaded, err := e.load(ctx, &f.sourceFlags, rest)
	if err != nil {
		return err
	}
	applier, err := apply.New(rest, apply.Options{Namespace: namespace, Now: e.now})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("the time of --timeout %s is over", f.timeout))
	defer cancel()
	plan, err := applier.Plan(ctx, apply.Request{
		Objects: loaded.objects, App: f.app, Sources: loaded.sources, Prune: f.prune, Force: f.force,
	})
	if err != nil {
		return err
	}
	differences, err := applier.Try(ctx, plan, apply.TryOptions{Contents: true})
	if err != nil {
		return err
	}
	if f.output == "json" {
		out := diffResult{
			APIVersion: report.APIVersion, Kind: "Diff", App: f.app, Namespace: namespace, Sources: loaded.sources, Differences: []differenceJSON{},
		}
		for _, d := range differences {
			out.Differences = append(out.Differences, differenceJSON{d.ID, d.Action, d.Before, d.After, d.Note})
		}
		enc := json.NewEncoder(e.out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(out); err != nil {
			return err
		}
	} else if err := showDifferences(e, differences, color); err != nil {
		return err
	}
	if len(differences) > 0 {
		return errFindings
	}
	return nil
}

func showDifferences(e *env, differences []apply.Difference, color bool) error {
	counts := map[apply.Action]int{}
	for _, d := range differences {
		counts[d.Action]++
		if d.Note != "" {
			fmt.Fprintf(e.err, "note: %s: %s\n", d.ID, d.Note)
		}
		text := string(diff.Diff("cluster "+d.ID.String(), []byte(d.Before), "source "+d.ID.String(), []byte(d.After)))
		// Its first line says what stands in the two that follow.
		if _, rest, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(text, "diff ") {
			text = rest
		}
		if _, err := fmt.Fprint(e.out, paint(text, color)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(e.out, "%d to be created, %d to be updated, %d to be deleted\n", counts[apply.Create], counts[apply.Update], counts[apply.Delete])
	return err
}

// paint colours the lines of a diff.
func paint(text string, color bool) string {
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
