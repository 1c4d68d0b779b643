package report

// How does a report fit into a comment on a pull request? It has a table with a row for each cause and a folded
// section with the details, within GitHub's limit. Text of the input is written so that it mentions nobody,
// closes no block and gives no command to a bot.

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"unicode"

	"sluice.dev/internal/brief"
)

// Limits of a comment. GitHub refuses comments over 65,536 characters. This code counts bytes, which are never fewer than
// characters.
const (
	markdownBytes    = 58_000
	markdownRows     = 60
	markdownReserve  = 600
	markdownWitness  = 25
	markdownRowWidth = 200
	markdownPlaces   = 10
	markdownQuiet    = 20
)

// markdownMark lets a bot find its earlier comment.
const markdownMark = "<!-- sluice check -->\n"

// appendMarkdown writes a table of all causes, then one folded section for each with its places and its witness. It stays within
// GitHub's limit for a comment even if everything is asked for.
// Verbose is not passed on: the limit is GitHub's. Rows come before details, because a reader who sees only a part
// should know of every cause.
func appendMarkdown(b *bytes.Buffer, r *Report, o Options) error {
	p := newPage(r, Options{Root: o.Root})
	b.WriteString(markdownMark)
	b.WriteString("### " + p.markdownTitle() + "\n\n")
	if p.old != "" || p.new != "" {
		fmt.Fprintf(b, "%s → %s", mdCode(cmp.Or(p.old, "nothing")), mdCode(cmp.Or(p.new, "nothing")))
		if p.kube != "" {
			fmt.Fprintf(b, ", by the rules of Kubernetes %s", mdText(p.kube))
		}
		if told := p.countsByVerdict(); told != "" {
			b.WriteString(": " + mdText(told))
		}
		b.WriteString("\n\n")
	}
	last := p.markdownRest()
	room := func() int { return markdownBytes - markdownReserve - len(last) - b.Len() }

	var groups []annotation
	for _, c := range []class{failing, warning, noting} {
		groups = append(groups, annotationsOf(p, c)...)
	}
	if len(groups) > 0 {
		b.WriteString("| | CRD | Rule | Where | What |\n| --- | --- | --- | --- | --- |\n")
	}
	// The table may take half of the room, the details take the rest.
	half := room() / 2
	rows := 0
	for _, g := range groups {
		row := g.markdownRow()
		if rows == markdownRows || len(row) > room()-half {
			break
		}
		b.WriteString(row)
		rows++
	}
	if rows > 0 {
		b.WriteString("\n")
	}
	if rows < len(groups) {
		b.WriteString("… and " + leftIn(groups[rows:]) + "\n\n")
	}
	told := 0
	for _, g := range groups {
		text := g.markdownDetails()
		if told == rows || len(text) > room() {
			break
		}
		b.WriteString(text)
		told++
	}
	if told < rows {
		fmt.Fprintf(b, "Details of %s are left out here; `sluice check -v` has them.\n\n", brief.Count(rows-told, "row"))
	}
	b.WriteString(last)
	return nil
}

func leftIn(items []annotation) string {
	groups := make([]group, 0, len(items))
	for _, x := range items {
		groups = append(groups, *x.group)
	}
	return countsOfLeft(groups)
}

// markdownTitle is the last line of the text, with a sign that tells the result where colours are missing.
func (p *page) markdownTitle() string {
	mark := "✅"
	switch {
	case p.allNew() && p.sum.Fail+p.sum.Warn == 0:
		mark = "ℹ️"
	case p.sum.Fail > 0:
		mark = "❌"
	case p.sum.Warn > 0:
		mark = "⚠️"
	}
	return mark + " sluice check: " + mdText(strings.Join(strings.Fields(paintStyles(p.conclusionLine(), false)), " "))
}

// markdownLabel is the word of a class with a sign, for columns that people scan.
func (c class) markdownLabel() string {
	switch c {
	case failing:
		return "❌ fail"
	case warning:
		return "⚠️ warn"
	case noting:
		return "ℹ️ note"
	case suppressed, silent:
	}
	return c.String()
}

// markdownRow is the row of a cause: the class, the CRD, the rule with its level, the first place and the number of
// others, and the message.
func (a annotation) markdownRow() string {
	e := a.group.leadEntry()
	rule := mdCode(e.Rule)
	switch {
	case e.Outcome == Undecided:
		rule += "<br>undecided"
	case e.Level != "":
		rule += "<br>" + mdText(string(e.Level))
	}
	p := a.group.places[0]
	where := mdCode(clipVisible(p.String(), markdownRowWidth))
	if p.at.file != "" {
		where += "<br>" + mdCode(clipVisible(p.at.String(), markdownRowWidth))
	}
	if n := len(a.group.places); n > 1 {
		where += fmt.Sprintf("<br>and %s", brief.Count(n-1, "more place"))
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |\n", e.class.markdownLabel(), mdCode(a.sheet.name), rule, where,
		mdText(clipVisible(a.group.message, markdownRowWidth)))
}

// markdownDetails is the folded section of a cause: its places, whom it hurts, the objects that were counted, and the
// witness.
func (a annotation) markdownDetails() string {
	var b strings.Builder
	e := a.group.leadEntry()
	fmt.Fprintf(&b, "<details><summary>%s %s in %s: %s</summary>\n\n", e.class.markdownLabel(), mdCode(e.Rule), mdCode(a.sheet.name),
		mdText(clipVisible(a.group.message, markdownRowWidth)))
	a.group.writeMarkdownPlaces(&b)
	b.WriteString("\n")
	if harm := e.harmSentence(); harm != "" {
		fmt.Fprintf(&b, "**%s** %s\n\n", mdText(string(e.Level)), mdText(harm))
	}
	if e.Reason != "" {
		fmt.Fprintf(&b, "Not decided because: %s\n\n", mdText(e.Reason))
	}
	if c := a.group.mostAffectedEntry(); c != nil {
		b.WriteString(mdText(c.effectOnObjects()))
		if names := c.Objects.namesUpTo(manyExamples); names != "" {
			b.WriteString(": " + mdCode(names))
		}
		b.WriteString("\n\n")
	}
	if w := a.group.witnessEntry(); w != nil {
		w.witness.writeMarkdown(&b)
	}
	fmt.Fprintf(&b, "%s: what to do\n\n</details>\n\n", mdCode("sluice explain "+e.Rule))
	return b.String()
}

// writeMarkdownPlaces writes the places of a group as a list.
func (g *group) writeMarkdownPlaces(b *strings.Builder) {
	for i := range g.places {
		if i == markdownPlaces && len(g.places) > markdownPlaces+1 {
			fmt.Fprintf(b, "- … and %s\n", brief.Count(len(g.places)-i, "more place"))
			break
		}
		p := &g.places[i]
		if len(g.places) == 1 && p.isWholeCRD() && p.at.file == "" && p.changeText() == "" {
			break
		}
		b.WriteString("- " + mdCode(p.String()))
		if v := p.changeText(); v != "" {
			b.WriteString(": " + mdCode(v))
		}
		if p.at.file != "" {
			b.WriteString(" (" + mdCode(p.at.String()) + ")")
		}
		b.WriteString("\n")
	}
}

// writeMarkdown writes the object of a witness, and what happens to it.
func (w *Witness) writeMarkdown(b *strings.Builder) {
	accepting, judging := w.sidesOf()
	if w.Old != "" {
		b.WriteString("A stored object:\n\n" + mdBlock(w.Old))
		fmt.Fprintf(b, "An update of it that %s accepts:\n\n", accepting)
	} else {
		fmt.Fprintf(b, "%s accepts:\n\n", capitalizeFirst(accepting))
	}
	b.WriteString(mdBlock(w.Object))
	if said := firstLines(w.Effect, textEffect, textEffectWidth, Options{}); said != "" {
		b.WriteString(capitalizeFirst(judging) + ": " + strings.ReplaceAll(mdCode(said), "\n", "<br>") + "\n\n")
	}
}

func capitalizeFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// markdownRest lists the CRDs that are not in the table, and counts suppressed findings.
func (p *page) markdownRest() string {
	var b strings.Builder
	var quiet, fresh markdownNames
	accepted := 0
	for i := range p.crds {
		s := &p.crds[i]
		accepted += s.count[suppressed]
		switch {
		case s.verdict == IsNew:
			fresh.addName(s.name)
		case s.worst > noting:
			quiet.addName(s.name)
		}
	}
	if quiet.count > 0 {
		fmt.Fprintf(&b, "✅ %s with nothing that fails or warns: %s\n\n", brief.Count(quiet.count, p.noun), &quiet)
	}
	if fresh.count > 0 {
		fmt.Fprintf(&b, "ℹ️ %s: %s\n\n", mdText(p.newCRDs()), &fresh)
	}
	for _, text := range p.remarks {
		fmt.Fprintf(&b, "ℹ️ %s\n\n", mdText(text))
	}
	if accepted > 0 {
		fmt.Fprintf(&b, "%s suppressed in the configuration.\n\n", brief.Count(accepted, "finding"))
	}
	if rule := p.worstRule(); rule != "" {
		fmt.Fprintf(&b, "%s says why it matters and the way out.\n", mdCode("sluice explain "+rule))
	}
	return b.String()
}

// markdownNames lists the first names.
type markdownNames struct {
	shown []string
	count int
}

func (n *markdownNames) addName(name string) {
	if n.count++; n.count <= markdownQuiet {
		n.shown = append(n.shown, mdCode(name))
	}
}

// String returns the names, and how many others there are.
func (n *markdownNames) String() string {
	text := strings.Join(n.shown, ", ")
	if left := n.count - len(n.shown); left > 0 {
		text += " and " + brief.Count(left, "other")
	}
	return text
}

// mdText writes visible text into Markdown. Some words mean something to Markdown, or to GitHub and GitLab in comments: mentions,
// issue numbers, links, quick actions, emoji. These become code, where they mean nothing.
// Code neutralises mentions and issue numbers in GitHub and GitLab alike. Words in a row
// become one piece of code.
func mdText(s string) string {
	var b strings.Builder
	var code []string
	flush := func() {
		if len(code) > 0 {
			b.WriteString(mdCode(strings.Join(code, " ")) + " ")
			code = code[:0]
		}
	}
	for word := range strings.SplitSeq(s, " ") {
		if !mdPlain(word) {
			code = append(code, word)
			continue
		}
		flush()
		b.WriteString(word + " ")
	}
	flush()
	return strings.TrimRight(b.String(), " ")
}

// mdPlain reports whether a word has no special meaning.
// A number with points, such as a version, is plain; a number after # or ! is a reference and is not.
func mdPlain(word string) bool {
	word = strings.TrimRight(word, ".:,;")
	number := true
	for _, r := range word {
		number = number && (unicode.IsDigit(r) || r == '.')
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(`,;()"'%+-=→…`, r) && !number {
			return false
		}
	}
	return true
}

// mdReferences has the characters that have a meaning in Markdown or HTML inside of <code>, and the beginnings of automatic links.
var mdReferences = strings.NewReplacer(
	"&", "&amp;", "<", "&lt;", ">", "&gt;", "*", "&#42;", "_", "&#95;", "`", "&#96;", "[", "&#91;", "]", "&#93;",
	"|", "&#124;", `\`, "&#92;", "~", "&#126;", "@", "&#64;", "$", "&#36;", "://", "&#58;//", "www.", "www&#46;", "WWW.", "WWW&#46;",
)

// mdCode writes visible text as code. It uses character references and not backticks: backticks cannot hold every text, and not in
// a table.
func mdCode(s string) string {
	return "<code>" + mdReferences.Replace(s) + "</code>"
}

var htmlText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// mdBlock writes the first lines of raw text as a block of YAML. It uses HTML, because text could close a fence. Bots that look for
// commands at the beginning of a line find none.
func mdBlock(raw string) string {
	lines, more := visibleLines(raw, markdownWitness, textWitnessWidth)
	for i, s := range lines {
		s = htmlText.Replace(s)
		if rest := strings.TrimLeft(s, " "); strings.HasPrefix(rest, "/") {
			s = s[:len(s)-len(rest)] + "&#47;" + rest[1:]
		}
		lines[i] = s
	}
	if more > 0 {
		lines = append(lines, "… "+brief.Count(more, "more line"))
	}
	return "<pre lang=\"yaml\">\n" + strings.Join(lines, "\n") + "\n</pre>\n\n"
}
