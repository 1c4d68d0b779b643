package report

// How does a report fit on a screen? The default format shows the worst first, within a bound for any input,
// and ends with the result and the next step. This file has the page as a whole: what comes in which order, how
// lines are wrapped and coloured, the CRDs without findings, and the last line.

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sluice.dev/internal/brief"
)

// Limits of the short text. The bytes are those of the whole output, for any input.
// The limits keep a report of thousands of findings readable in a terminal and in the log of a CI system.
// -v lifts all of them.
const (
	textBytes         = 32_000
	textSheets        = 40 // CRDs shown in full
	textQuiet         = 5  // CRDs without findings that are named one by one
	textPlaces        = 3  // places of a group
	textWitness       = 25 // lines of one witness
	textShortWitness  = 12 // lines of one witness if there are many
	textWitnesses     = 60 // lines of all witnesses, and a few more if cutting would save nothing
	textSlack         = 4  // lines that are shown because a remark would save nothing
	textWitnessWidth  = 160
	textEffect        = 6 // lines of an effect
	textEffectWidth   = 400
	textOneLine       = 160
	textFullGroups    = 4 // groups of the whole text that show their witness as a manifest; if there are more, each is one line
	textRemarkReserve = 200
)

// Marks in the text stand for styles. At the end they become escape sequences, or disappear. Visible input never contains these
// bytes.
const (
	styleEnd    = "\x00"
	styleFail   = "\x01"
	styleWarn   = "\x02"
	styleOK     = "\x03"
	styleStrong = "\x04"
	styleFaint  = "\x05"
)

var (
	colored = strings.NewReplacer(styleEnd, "\x1b[0m", styleFail, "\x1b[1;31m", styleWarn, "\x1b[1;33m", styleOK, "\x1b[32m",
		styleStrong, "\x1b[1m", styleFaint, "\x1b[2m")
	uncolored = strings.NewReplacer(styleEnd, "", styleFail, "", styleWarn, "", styleOK, "", styleStrong, "", styleFaint, "")
)

func paintStyles(s string, color bool) string {
	if color {
		return colored.Replace(s)
	}
	return uncolored.Replace(s)
}

// appendText writes the text. Whether it is dense depends on the number of causes, not of findings: a hundred fields
// with one cause are one group.
func appendText(b *bytes.Buffer, r *Report, o Options) error {
	t := textPrinter{Options: o, page: newPage(r, o), witness: textWitnesses, told: map[string][]toldCause{}}
	t.dense = !o.Verbose && t.page.countCauses() > textFullGroups
	b.WriteString(t.printAll())
	return nil
}

// textPrinter prints one page.
type textPrinter struct {
	Options
	page    *page
	witness int  // lines of witnesses that still fit
	each    int  // lines that one witness may have
	cut     bool // the text omits something that Verbose shows
	dense   bool // there are many groups, so each takes few lines
	tight   bool // the CRD before took one line
	sheet   *sheet
	file    string   // the one of all places of the sheet, which its header names
	titled  []string // levels whose meaning was told, and who is hurt
	accepts bool     // a suppression was printed
	// told says where each cause was printed in full, by its key, and with which levels. The same cause in another CRD takes one line.
	told map[string][]toldCause
}

// toldCause is the CRD in which a cause was printed, and its level there.
type toldCause struct {
	crd   string
	level Level
}

// countCauses counts the groups of all CRDs that differ in their cause.
// Causes in several CRDs that tell the same count once, because they are told once.
func (p *page) countCauses() int {
	keys := map[string]bool{}
	for i := range p.crds {
		for j := range p.crds[i].groups {
			keys[p.crds[i].groups[j].repeatKey()] = true
		}
	}
	return len(keys)
}

// printAll prints the page: the head, the CRDs with findings, those without, and what to do next. Each CRD gets an
// equal share of the bytes that are left when its turn comes, so that one with thousands of findings does not push
// out the others.
func (t *textPrinter) printAll() string {
	loud, quiet := t.splitByAttention()
	if len(loud) > 0 && !t.Verbose && t.page.countsByVerdict() != "" { // the first line counts them
		quiet = slices.DeleteFunc(quiet, func(s sheet) bool { return s.verdict == IsUnchanged && s.plainSafe() })
	}
	head := t.finishLines(t.headLines())
	last := t.finishLines(t.quietLines(quiet))
	room := textBytes - len(head) - len(last) - len(t.finishLines(t.closingLines())) - 3*textRemarkReserve

	var body strings.Builder
	for i := range loud {
		if !t.Verbose && i == textSheets {
			t.cut = true
			body.WriteString(t.finishLines(t.countRemaining(loud[i:])))
			break
		}
		shown := len(loud)
		if !t.Verbose {
			shown = min(shown, textSheets)
		}
		s := t.printSheet(&loud[i], room/(shown-i))
		room -= len(s)
		body.WriteString(s)
	}
	if t.tight {
		body.WriteByte('\n')
	}
	return head + body.String() + last + t.finishLines(t.closingLines())
}

// splitByAttention returns the CRDs with something to show, worst first, and the others.
// With Verbose, a CRD with nothing but suppressed findings has something to show, too.
func (t *textPrinter) splitByAttention() (loud, quiet []sheet) {
	for _, s := range t.page.crds {
		if s.worst <= noting || (t.Verbose && len(s.hidden) > 0) {
			loud = append(loud, s)
		} else {
			quiet = append(quiet, s)
		}
	}
	slices.SortStableFunc(loud, func(a, b sheet) int { return a.compareHarm(&b) })
	// CRDs that are not simply safe come first, because readers look there.
	slices.SortStableFunc(quiet, func(a, b sheet) int { return compareBool(a.plainSafe(), b.plainSafe()) })
	return loud, quiet
}

// compareHarm orders CRDs by their worst finding: by severity, then by level.
func (s *sheet) compareHarm(other *sheet) int {
	rank := func(s *sheet) int {
		if len(s.groups) == 0 {
			return len(Levels())
		}
		return s.groups[0].leadEntry().Level.severityRank()
	}
	return cmp.Or(cmp.Compare(s.worst, other.worst), cmp.Compare(rank(s), rank(other)))
}

func (s *sheet) plainSafe() bool { return s.verdict.Proven() && len(s.hidden) == 0 }

// quietMark is the word before a CRD that neither fails nor warns.
func (s *sheet) quietMark() string {
	if s.verdict == IsNew {
		return styleStrong + "NEW" + styleEnd + "   "
	}
	return styleOK + "OK" + styleEnd + "    "
}

// finishLines lays out raw lines: it wraps, paints, and defuses lines that CI systems would read as commands.
func (t *textPrinter) finishLines(lines []textLine) string {
	var b strings.Builder
	for _, l := range lines {
		for _, s := range l.wrapLine(t.Width) {
			b.WriteString(defuse(paintStyles(strings.TrimRight(s, " "), t.Color)))
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// textLine is a line before wrapping. Continuation lines are indented hang columns more.
type textLine struct {
	indent int
	hang   int
	text   string
	fixed  bool // a line of a witness: not wrapped
}

func (l textLine) isBlank() bool { return l.text == "" }

// wrapLine breaks a line at spaces. A word that is longer than the line stays whole, because paths and commands are
// copied from a terminal.
func (l textLine) wrapLine(width int) []string {
	pad := strings.Repeat(" ", l.indent)
	if l.text == "" {
		return []string{""}
	}
	if width < 40 || l.fixed || l.indent+textColumns(l.text) <= width {
		return []string{pad + l.text}
	}
	var lines []string
	line, used := pad, l.indent
	empty := true
	for word := range strings.SplitSeq(l.text, " ") {
		n := textColumns(word)
		if !empty && used+1+n > width {
			lines = append(lines, line)
			line = pad + strings.Repeat(" ", l.hang)
			used, empty = l.indent+l.hang, true
		}
		if !empty {
			line += " "
			used++
		}
		line += word
		used += n
		empty = false
	}
	return append(lines, line)
}

// textColumns counts runes, which is close enough to columns. Style marks have no width.
// A terminal shows some runes in two columns, such as those of Chinese. A line may then be a little too
// long.
func textColumns(s string) int {
	n := 0
	for _, r := range s {
		if r >= ' ' {
			n++
		}
	}
	return n
}

// headLines say what was compared, and by whose rules; none if neither side has a name.
func (t *textPrinter) headLines() []textLine {
	var lines []textLine
	if t.page.old != "" || t.page.new != "" {
		s := fmt.Sprintf("%s → %s", cmp.Or(t.page.old, "nothing"), cmp.Or(t.page.new, "nothing"))
		if t.page.kube != "" {
			s += ", by the rules of Kubernetes " + t.page.kube
		}
		if told := t.page.countsByVerdict(); told != "" {
			s += ": " + told
		}
		lines = append(lines, textLine{text: styleFaint + s + styleEnd, hang: 2}, textLine{})
	}
	return lines
}

// countsByVerdict counts the CRDs that were compared, those among them that are new, removed or unchanged, and the files that cannot be read;
// empty for one CRD and no such file.
func (p *page) countsByVerdict() string {
	if len(p.crds) < 2 && p.unreadable == 0 || p.noun != crdNoun {
		return ""
	}
	parts := []string{brief.Count(len(p.crds), p.noun)}
	for _, v := range []Verdict{IsNew, IsRemoved, IsUnchanged} {
		n := 0
		for i := range p.crds {
			if p.crds[i].verdict == v {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, brief.Number(n)+" "+string(v))
		}
	}
	if p.unreadable > 0 {
		parts = append(parts, brief.Count(p.unreadable, "unreadable file"))
	}
	return strings.Join(parts, ", ")
}

// quietLines lists CRDs that need no attention: one line each, or a count if there are many.
// CRDs that are new or have hidden findings come before plainly safe ones, see
// [textPrinter.splitByAttention].
func (t *textPrinter) quietLines(sheets []sheet) []textLine {
	var lines []textLine
	var rest []sheet
	if !t.Verbose && len(sheets) > textQuiet+1 {
		t.cut = true
		sheets, rest = sheets[:textQuiet], sheets[textQuiet:]
	}
	for i := range sheets {
		s := &sheets[i]
		lines = append(lines, textLine{text: s.quietMark() + s.name + "  " + t.page.mildSummary(s), hang: 6})
	}
	lines = append(lines, t.countQuiet(rest)...)
	if len(lines) > 0 {
		lines = append(lines, textLine{})
	}
	return lines
}

// countQuiet counts such CRDs: those that were compared with nothing, and the others.
// Unchanged CRDs are counted among the others and named again, because a reader who updated them wants to
// know.
func (t *textPrinter) countQuiet(sheets []sheet) []textLine {
	var lines []textLine
	safe, unchanged, fresh := true, 0, 0
	for i := range sheets {
		s := &sheets[i]
		if s.verdict == IsNew {
			fresh++
			continue
		}
		if s.verdict == IsUnchanged {
			unchanged++
		}
		safe = safe && s.plainSafe()
	}
	if fresh > 0 {
		one := sheet{verdict: IsNew}
		lines = append(lines, textLine{text: one.quietMark() + brief.Count(fresh, "more new "+t.page.noun) + ", compared with nothing", hang: 6})
	}
	if n := len(sheets) - fresh; n > 0 {
		one := sheet{}
		text := one.quietMark() + brief.Count(n, "more "+t.page.noun) + " with nothing that fails or warns"
		if safe {
			text = one.quietMark() + brief.Count(n, "more safe "+t.page.noun)
		}
		if unchanged > 0 {
			text += fmt.Sprintf(", %s unchanged", brief.Number(unchanged))
		}
		lines = append(lines, textLine{text: text, hang: 6})
	}
	return lines
}

// mildSummary describes a CRD without findings to show.
// It is the verdict, then what is hidden, then the stored objects, each only if there is something to
// say.
func (p *page) mildSummary(s *sheet) string {
	var text strings.Builder
	text.WriteString(p.verdictInWords(s))
	for _, c := range []class{suppressed, silent} {
		if n := s.count[c]; n > 0 {
			fmt.Fprintf(&text, "; %s %s", brief.Count(n, "finding"), c)
		}
	}
	if s.objects != nil {
		text.WriteString("; " + s.objects.scanSummary())
	}
	return text.String()
}

// countRemaining counts CRDs that do not fit.
func (t *textPrinter) countRemaining(sheets []sheet) []textLine {
	var n [classes]int
	for i := range sheets {
		n[sheets[i].worst]++
	}
	return []textLine{
		{text: fmt.Sprintf("… and %s: %s (-v shows them)", brief.Count(len(sheets), "more "+t.page.noun), countsByClass(n, 0)), hang: 2},
		{},
	}
}

// closingLines sums up and gives the next steps.
// The last line is what people read in a log first, so it has the result and one command to go on with.
func (t *textPrinter) closingLines() []textLine {
	p := t.page
	var lines []textLine
	for _, text := range p.remarks {
		lines = append(lines, textLine{hang: 2, text: "note: " + text})
	}
	if p.total > 0 {
		lines = append(lines, textLine{hang: 2, text: fmt.Sprintf("skipped %s of other kinds: %s",
			brief.Count(p.total, "document"), strings.Join(p.skipped, ", "))})
	}
	lines = append(lines, textLine{text: p.conclusionLine(), hang: 2})
	var next []string
	if rule := p.worstRule(); rule != "" {
		next = append(next, fmt.Sprintf("sluice explain %s: why it matters and the way out", rule))
	}
	switch {
	case t.cut && t.dense && len(next) > 0:
		next[0] += "; -v shows the rest"
	case t.cut:
		next = append(next, "-v: everything that is left out above")
	}
	for i, s := range next {
		label := "next: "
		if i > 0 {
			label = "      "
		}
		lines = append(lines, textLine{text: label + s, hang: 6})
	}
	return lines
}

// conclusionLine is the last line of a report.
// It begins with FAIL only if a finding fails, which is when the command exits with 1.
func (p *page) conclusionLine() string {
	told := p.findingCounts()
	switch {
	case p.sum.CRDs == 0 && p.noun != crdNoun:
		return fmt.Sprintf("%sPASS%s  nothing was found", styleOK, styleEnd)
	case p.sum.CRDs == 0:
		return styleStrong + "nothing to check:" + styleEnd + " no CRD was compared"
	case p.sum.Fail > 0:
		return fmt.Sprintf("%sFAIL%s  %s of %s: %s", styleFail, styleEnd,
			brief.Number(p.sum.FailingCRDs), brief.Count(p.sum.CRDs, p.noun), told)
	case p.sum.Warn > 0:
		return fmt.Sprintf("%sPASS%s  with warnings, %s of %s: %s", styleWarn, styleEnd,
			brief.Number(p.sum.WarningCRDs), brief.Count(p.sum.CRDs, p.noun), told)
	case p.allNew():
		return fmt.Sprintf("%sNEW%s   nothing to compare with: %s", styleStrong, styleEnd, told)
	case p.sum.Notes+p.sum.Suppressed+p.sum.Off > 0:
		return fmt.Sprintf("%sPASS%s  %s: %s", styleOK, styleEnd, brief.Count(p.sum.CRDs, p.noun), told)
	}
	safe := brief.Count(p.sum.CRDs-p.sum.NewCRDs, "safe "+p.noun)
	return fmt.Sprintf("%sPASS%s  %s", styleOK, styleEnd, joinNonEmpty(safe, told))
}

// allNew reports whether every CRD was compared with nothing.
func (p *page) allNew() bool { return p.sum.CRDs > 0 && p.sum.CRDs == p.sum.NewCRDs }

// findingCounts counts the findings, and the CRDs that were compared with nothing; empty if there is neither.
func (p *page) findingCounts() string {
	return joinNonEmpty(countsByClass([classes]int{p.sum.Fail, p.sum.Warn, p.sum.Notes, p.sum.Suppressed, p.sum.Off}, p.sum.Undecided), p.newCRDs())
}

// joinNonEmpty lists two parts of a sentence, of which one may be empty.
func joinNonEmpty(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ", " + b
}

// countsByClass lists the number of findings of each class: "4 fail, 2 warn (1 undecided), 1 note, 3 suppressed".
// undecided counts findings among those that fail or warn; it stands behind the last of these that are
// there.
func countsByClass(n [classes]int, undecided int) string {
	var parts []string
	for c, k := range n {
		if k > 0 {
			s := fmt.Sprintf("%s %s", brief.Number(k), class(c))
			if class(c) == noting && k > 1 {
				s += "s"
			}
			parts = append(parts, s)
		}
		if class(c) == warning && undecided > 0 && len(parts) > 0 {
			parts[len(parts)-1] += fmt.Sprintf(" (%s undecided)", brief.Number(undecided))
		}
	}
	return strings.Join(parts, ", ")
}

// worstRule returns the rule of the first finding of the worst CRD that fails or warns, or an empty string.
// It is the rule that the next step explains.
func (p *page) worstRule() string {
	worst := -1
	for i := range p.crds {
		if s := &p.crds[i]; s.worst <= warning && (worst < 0 || s.compareHarm(&p.crds[worst]) < 0) {
			worst = i
		}
	}
	if worst < 0 {
		return ""
	}
	return p.crds[worst].groups[0].leadEntry().Rule
}
