package check

// What does a rule mean, and what does one do about a finding of it? sluice rules lists all rules with their
// levels, and sluice explain RULE tells why the rule exists, with an example before and after, and the way out.
// All texts come from the rules themselves (compat.Rule).

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sluice.dev/compat"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/crdcheck"
	"sluice.dev/internal/life"
	"sluice.dev/report"
)

// ruleJSON is a rule for programs. Level is empty for rules whose findings are notes.
type ruleJSON struct {
	ID    string       `json:"id"`
	Title string       `json:"title"`
	Level report.Level `json:"level,omitempty"`
	// Default is what findings of the level do: fail, warn, or nothing for notes.
	Default report.Severity `json:"default,omitempty"`
	Varies  bool            `json:"levelVaries,omitempty"`
	Why     string          `json:"why"`
	Help    string          `json:"help"`
}

// RuleList is the rules for programs.
type RuleList struct {
	command.Document `json:",inline"`
	Rules            []ruleJSON `json:"rules"`
}

// NewRules returns the command rules.
func NewRules(e *command.Env) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "List the rules of check, with their levels of harm",
		Example: `  sluice rules
  sluice rules -o json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			switch output {
			case "name":
				for _, r := range crdcheck.Rules() {
					fmt.Fprintln(e.Out, r.ID)
				}
			case "json":
				l := RuleList{Document: command.DocumentOf("RuleList")}
				for _, r := range crdcheck.Rules() {
					d, _ := r.Level.Default()
					l.Rules = append(l.Rules, ruleJSON{r.ID, r.Title, r.Level, d, r.Varies, r.Why, r.Help})
				}
				return command.Encode(e.Out, l)
			default:
				printRules(e)
			}
			return nil
		},
	}
	command.AddOutput(cmd, &output, "table", "json", "name")
	return cmd
}

// printRules prints the rules as a table, and the levels with their meaning below it.
func printRules(e *command.Env) {
	w := command.Columns(e.Out)
	fmt.Fprintln(w, "RULE\tLEVEL\tDEFAULT\tREPORTS")
	for _, r := range crdcheck.Rules() {
		level, def := string(r.Level), "note"
		if s, ok := r.Level.Default(); ok {
			def = string(s)
		}
		if r.Varies {
			level += " *"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.ID, level, def, r.Title)
	}
	w.Flush()
	fmt.Fprintln(e.Out, "\n* the level of a finding depends on what its witness shows\n\nLEVELS, most severe first")
	for _, l := range report.Levels() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", l.ID, l.Default, l.Meaning)
	}
	w.Flush()
}

// NewExplain returns the command explain. It also knows the rules of sluice features verify.
func NewExplain(e *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "explain RULE",
		Short:   "Explain why a rule matters, with an example and the way out",
		Example: `  sluice explain required-added`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var out []string
			for _, r := range crdcheck.Rules() {
				out = append(out, r.ID+"\t"+r.Title)
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
		Args: command.OneArg("name one rule; sluice rules lists them"),
		RunE: func(_ *cobra.Command, args []string) error {
			r, ok := crdcheck.Lookup(args[0])
			// The rules of features are printed here, because they have no level and no example.
			if law, found := life.Doc(args[0]); found && !ok {
				fmt.Fprintf(e.Out, "%s (sluice features verify)\n\nWhy\n%s\n\nThe way out\n%s\n", law.ID, indentLines(law.Why), indentLines(law.Help))
				return nil
			}
			if !ok {
				var ids []string
				for _, r := range crdcheck.Rules() {
					ids = append(ids, r.ID)
				}
				for _, r := range life.Rules() {
					ids = append(ids, r.ID)
				}
				return fmt.Errorf("there is no rule %q%s; sluice rules lists them", args[0], brief.Hint(args[0], ids))
			}
			fmt.Fprint(e.Out, explainRule(r))
			return nil
		},
	}
}

// explainRule is all that a rule says, in sections. Sections without a text are left out; rules that need a
// cluster have no example.
//
//	required-added: ...
//	Level writers-refused (fail by default).
//
//	Why
//	  ...
//
//	Example: before (properties of the object's spec)
//	  ...
func explainRule(r compat.Rule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.ID, r.Title)
	if s, ok := r.Level.Default(); ok {
		fmt.Fprintf(&b, "Level %s (%s by default)", r.Level, s)
		if r.Varies {
			b.WriteString(", or another level if the witness shows more or less harm")
		}
		b.WriteString(".\n")
	}
	section := func(head, text string) {
		if text = strings.TrimSpace(text); text != "" {
			fmt.Fprintf(&b, "\n%s\n%s\n", head, indentLines(text))
		}
	}
	section("Why", r.Why)
	what := "part of the CRD's spec"
	if r.InSpec() {
		what = "properties of the object's spec"
	}
	if r.Unsafe.Old != "" || r.Unsafe.New != "" {
		section("Example: before ("+what+")", r.Unsafe.Old)
		section("Example: after", r.Unsafe.New)
	}
	section("The way out", r.Help)
	section("Example: instead", r.Instead)
	return b.String()
}

// indentLines indents each line of a text by two spaces. Empty lines stay empty.
func indentLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if l != "" {
			lines[i] = "  " + l
		}
	}
	return strings.Join(lines, "\n")
}
