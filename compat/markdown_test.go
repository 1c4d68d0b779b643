package compat

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sluice.dev/report"
)

// markdown returns the documentation of all rules, the content of docs/rules.md. It searches the witnesses again; the error names
// the rule whose example failed.
func markdown(ctx context.Context) (string, error) {
	var b strings.Builder
	b.WriteString("# Rules of `sluice check`\n\n" +
		"This page lists every rule: whom a change harms, an example with its witness, and the way out with the YAML to write instead.\n" +
		"`sluice explain RULE` prints the same. `go generate ./compat` makes the page from the table of rules.\n\n" +
		"These are the levels of harm, most severe first:\n\n| level | meaning | by default |\n| --- | --- | --- |\n")
	for _, l := range report.Levels() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", l.ID, l.Meaning, l.Default)
	}
	b.WriteString("\nThe level of a rule marked with \\* follows from its [witness](glossary.md#witness): the object that shows the harm. If the API server refuses\n" +
		"the witness, its future once it is stored decides between `objects-stuck`, `objects-ratcheted` and `writers-refused`. If a field\n" +
		"is dropped, the level is `data-lost`. If a default is filled in differently, it is `meaning-changed`.\n\n" +
		"Sluice proves that no object fares worse. If it cannot, the finding says \"at least\", names the worse level (`mayBe`), and\n" +
		"counts as the stricter of the two. If Sluice can show neither safety nor harm, the change is undecided and has no level.\n\n" +
		"An update is [ratcheted](glossary.md#ratcheting) if the API server tolerates a stored value that the new schema refuses, as long\n" +
		"as the update leaves the value unchanged.\n\n" +
		"| rule | level | reports |\n| --- | --- | --- |\n")
	rules := Rules()
	for i := range rules {
		r := &rules[i]
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", r.ID, r.ID, levelName(r), r.Title)
	}
	for i := range rules {
		if err := rules[i].markdown(ctx, &b); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

func levelName(r *Rule) string {
	switch {
	case r.Level == "":
		return "note"
	case r.Varies:
		return string(r.Level) + " \\*"
	}
	return string(r.Level)
}

func (r *Rule) markdown(ctx context.Context, b *strings.Builder) error {
	f, err := r.demonstrate(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## %s\n\n%s. Level: %s.\n\n%s\n", r.ID, r.Title, levelName(r), r.Why)
	where := "the CRD's `spec`"
	if r.InSpec() {
		where = "the properties of the object's `spec`"
	}
	fmt.Fprintf(b, "\nAn example, in %s:\n", where)
	r.Unsafe.markdown(b)
	fmt.Fprintf(b, "\n> %s\n", strings.ReplaceAll(f.Message, "\n", "\n> "))
	if w := f.Witness; w != nil {
		if w.Old != "" {
			fmt.Fprintf(b, "\nThe witness is an update of this object:\n\n```yaml\n%s```\n\nto this one:\n\n```yaml\n%s```\n", w.Old, w.Object)
		} else {
			fmt.Fprintf(b, "\nThe witness:\n\n```yaml\n%s```\n", w.Object)
		}
		says := w.Effect
		if w.Reversed {
			says = "The old CRD: " + says
		}
		fmt.Fprintf(b, "\n> %s\n", says)
	}
	fmt.Fprintf(b, "\n**The way out.** %s\n", r.Help)
	if r.Instead == "" {
		return nil
	}
	left, err := r.remaining(ctx)
	if err != nil {
		return err
	}
	outcome := "passes"
	if left != "" {
		outcome = fmt.Sprintf("fails at the level `%s` only", left)
	}
	fmt.Fprintf(b, "\nWith this, the check %s:\n\n```yaml\n# instead\n%s```\n", outcome, strings.TrimPrefix(r.Instead, "\n"))
	return nil
}

func (e Example) markdown(b *strings.Builder) {
	for _, x := range []struct{ title, text string }{{"before", e.Old}, {"after", e.New}} {
		if x.text == "" {
			x.text = "\n# no such CRD\n"
		}
		fmt.Fprintf(b, "\n```yaml\n# %s\n%s```\n", x.title, strings.TrimPrefix(x.text, "\n"))
	}
}

// demonstrate checks the rule's unsafe example and returns what the rule finds in it, with the witness.
func (r *Rule) demonstrate(ctx context.Context) (report.Finding, error) {
	old, new, err := crdsOf(r, r.Unsafe)
	if err != nil {
		return report.Finding{}, err
	}
	result, err := Check(ctx, old, new, Options{})
	if err != nil {
		return report.Finding{}, err
	}
	i := slices.IndexFunc(result.Findings, func(f report.Finding) bool { return f.Rule == r.ID })
	if i < 0 {
		return report.Finding{}, fmt.Errorf("the example of rule %s is not reported", r.ID)
	}
	return result.Findings[i], nil
}

// remaining returns the worst level at which the change still fails if Instead takes the place of Unsafe.New; it is empty where
// nothing fails.
func (r *Rule) remaining(ctx context.Context) (report.Level, error) {
	old, new, err := crdsOf(r, Example{r.Unsafe.Old, r.Instead})
	if err != nil {
		return "", err
	}
	result, err := Check(ctx, old, new, Options{})
	if err != nil {
		return "", err
	}
	for _, l := range report.Levels() {
		if slices.ContainsFunc(result.Findings, func(f report.Finding) bool { return f.Severity == report.Fail && f.Level == l.ID }) {
			return l.ID, nil
		}
	}
	return "", nil
}
