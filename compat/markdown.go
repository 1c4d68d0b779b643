package compat

import (
	"context"
	"fmt"
	"strings"

	"sluice.dev/report"
)

// Markdown returns the documentation of all rules, as it stands in docs/rules.md. Witnesses are looked for anew; the error
// says which rule's example failed.
func Markdown(ctx context.Context) (string, error) {
	var b strings.Builder
	b.WriteString("# Rules of `sluice check`\n\n" +
		"This page is made from the table of rules (`go generate ./compat`); `sluice explain RULE` prints the same.\n" +
		"Levels, most severe first:\n\n| level | meaning | by default |\n| --- | --- | --- |\n")
	for _, l := range report.Levels() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", l.ID, l.Meaning, l.Default)
	}
	b.WriteString("\nThe level of a rule marked with \\* follows from the witness: what becomes of the object once it is stored decides\n" +
		"between `objects-stuck`, `objects-ratcheted` and `writers-refused`; what is dropped is `data-lost`; what is filled in\n" +
		"differently is `meaning-changed`. It is proven that no object fares worse, or the finding says\n" +
		"\"at least\", names the worse level (`mayBe`), and counts as the stricter of both. A change of which neither safety nor\n" +
		"harm could be shown is undecided, and has no level.\n\n" +
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
	f, err := r.Demonstrate(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## %s\n\n%s. Level: %s.\n\n%s\n\n**Ways out.** %s\n", r.ID, r.Title, levelName(r), r.Why, r.Help)
	where := "the CRD's `spec`"
	if r.InSpec() {
		where = "the properties of the object's `spec`"
	}
	fmt.Fprintf(b, "\nReported, in %s:\n", where)
	r.Unsafe.markdown(b)
	fmt.Fprintf(b, "\n> %s\n", strings.ReplaceAll(f.Message, "\n", "\n> "))
	if w := f.Witness; w != nil {
		if w.Old != "" {
			fmt.Fprintf(b, "\nWitness, an update of this object:\n\n```yaml\n%s```\n\nto this one:\n\n```yaml\n%s```\n", w.Old, w.Object)
		} else {
			fmt.Fprintf(b, "\nWitness:\n\n```yaml\n%s```\n", w.Object)
		}
		says := w.Effect
		if w.Reversed {
			says = "the old CRD says: " + says
		}
		fmt.Fprintf(b, "\n> %s\n", says)
	}
	b.WriteString("\nNot reported:\n")
	r.Safe.markdown(b)
	return nil
}

func (e Example) markdown(b *strings.Builder) {
	for _, x := range []struct{ title, text string }{{"before", e.Old}, {"after", e.New}} {
		if x.text == "" {
			x.text = "\n# there is none\n"
		}
		fmt.Fprintf(b, "\n```yaml\n# %s\n%s```\n", x.title, strings.TrimPrefix(x.text, "\n"))
	}
}
