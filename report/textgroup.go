package report

// How is a CRD shown, with its findings? Each cause is a group, with less detail the less room is left. A cause
// that another CRD has told already takes one line. For example, 40 CRDs of an operator that share a Pod
// template tell a change in it once.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"sluice.dev/internal/brief"
)

// detail is the amount of detail for a group.
// Groups are printed with the most detail that fits into the room of their CRD.
type detail int

const (
	oneLine detail = iota
	withoutWitness
	inFull
)

// printSheet prints one CRD in at most room bytes (Verbose: any). Groups that do not fit get less detail, and in the end only a count.
// A group that another CRD has told takes one line. If all groups of a CRD were told, the CRD takes one line.
func (t *textPrinter) printSheet(s *sheet, room int) string {
	var b strings.Builder
	groups, rest := s.groups, []group(nil)
	if t.Verbose {
		groups = s.allGroups()
	} else {
		room -= 2 * textRemarkReserve
		groups, rest = chooseGroups(groups, manyGroups)
	}
	t.sheet = s
	header := t.withoutBlanks(t.page.headerLines(s, t.Verbose))
	if in := t.repeatedSheet(s, groups); in != "" && len(rest) == 0 {
		t.cut, t.tight = true, true
		header[0].text += "; the same as in " + in
		return t.finishLines(slices.DeleteFunc(header, textLine.isBlank))
	}
	if t.tight {
		b.WriteByte('\n')
		t.tight = false
	}
	header[0].text += t.nameFile(s, groups)
	b.WriteString(t.finishLines(header))
	t.shareWitnessLines(groups)
	section, repeats := "", false // repeats: the group before took one line
	for i := range groups {
		g := &groups[i]
		title := ""
		if next := g.sectionName(); next != section {
			section = next
			title = t.finishLines(t.withoutBlanks([]textLine{{indent: 2, hang: 2, text: t.levelTitle(g)}, {}}))
		}
		text, ok := t.repeatedGroup(s, g), true
		repeated := text != ""
		if !repeated {
			text, ok = t.fitGroup(g, room-b.Len()-len(title))
		}
		t.told[g.repeatKey()] = append(t.told[g.repeatKey()], toldCause{s.name, g.leadEntry().Level})
		if !ok {
			rest = append(groups[i:len(groups):len(groups)], rest...)
			break
		}
		if repeats && !t.dense && (title != "" || !repeated) {
			b.WriteString("\n")
		}
		repeats = repeated
		b.WriteString(title)
		b.WriteString(text)
	}
	if repeats || t.dense {
		b.WriteString("\n")
	}
	if len(rest) > 0 {
		t.cut = true
		b.WriteString(t.finishLines([]textLine{{indent: 4, hang: 2, text: "… and " + countsOfLeft(rest) + " (-v shows them)"}}))
		if by := leftByLevel(rest); by != "" {
			b.WriteString(t.finishLines([]textLine{{indent: 6, hang: 2, text: by}}))
		}
		b.WriteString("\n")
	}
	if n := s.count[suppressed]; n > 0 && !t.Verbose {
		t.cut = true
	}
	return b.String()
}

// nameFile keeps the one file of all places of a CRD for a dense text, and returns it in brackets unless the CRD's name has it.
// Most CRDs have all their places in one file, whose name would stand in each line otherwise.
func (t *textPrinter) nameFile(s *sheet, groups []group) string {
	t.file = ""
	if t.dense {
		t.file = fileOfPlaces(groups)
	}
	if t.file == "" || strings.Contains(s.name, t.file) {
		return ""
	}
	return styleFaint + " (" + t.file + ")" + styleEnd
}

// fileOfPlaces returns the file of all places of several groups; empty if there are several files, or none.
func fileOfPlaces(groups []group) string {
	file := ""
	for i := range groups {
		for _, p := range groups[i].places {
			if file != "" && p.at.file != "" && p.at.file != file {
				return ""
			}
			file = cmp.Or(file, p.at.file)
		}
	}
	return file
}

// withoutBlanks removes the empty lines if the text is dense.
func (t *textPrinter) withoutBlanks(lines []textLine) []textLine {
	if !t.dense {
		return lines
	}
	return slices.DeleteFunc(lines, textLine.isBlank)
}

// chooseGroups splits groups into at most limit that represent all, and the rest, both in order. It chooses the first group of each rule
// before the second of any.
// So a rule with hundreds of findings does not hide the one finding of another rule.
func chooseGroups(groups []group, limit int) (chosen, rest []group) {
	if len(groups) <= limit {
		return groups, nil
	}
	nth := make([]int, len(groups)) // number of earlier groups of the same rule
	seen := make(map[string]int)
	for i := range groups {
		rule := groups[i].leadEntry().Rule
		nth[i] = seen[rule]
		seen[rule]++
	}
	order := make([]int, len(groups))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(nth[a], nth[b]) })
	taken := order[:limit]
	slices.Sort(taken)
	for i := range groups {
		if _, ok := slices.BinarySearch(taken, i); ok {
			chosen = append(chosen, groups[i])
		} else {
			rest = append(rest, groups[i])
		}
	}
	return chosen, rest
}

// shareWitnessLines divides the lines for witnesses between groups, so that many of them get some.
// No witness gets less than a few lines: a shorter part of an object shows nothing. If there are too
// many, the last ones have none.
func (t *textPrinter) shareWitnessLines(groups []group) {
	n := 0
	for i := range groups {
		if groups[i].witnessEntry() != nil {
			n++
		}
	}
	t.each = min(max(t.witness/max(n, 1), textShortWitness), textWitness)
}

// repeatedSheet names the CRDs that have told all that groups tell; empty if something is new.
// It is for CRDs that share a type, such as a Pod template: a change of the type is told once in full.
func (t *textPrinter) repeatedSheet(s *sheet, groups []group) string {
	var in []string
	for i := range groups {
		other, ok := t.toldElsewhere(s, &groups[i])
		if !ok || other.level != groups[i].leadEntry().Level {
			return ""
		}
		if !slices.Contains(in, other.crd) {
			in = append(in, other.crd)
		}
	}
	return strings.Join(in, " and ")
}

// toldElsewhere returns where a group's cause was printed, if that was in another CRD: with the same level, or else with another one.
// With Verbose, or if objects were counted, nothing counts as told: then each CRD has figures of its own.
func (t *textPrinter) toldElsewhere(s *sheet, g *group) (toldCause, bool) {
	if t.Verbose || g.mostAffectedEntry() != nil {
		return toldCause{}, false
	}
	told := t.told[g.repeatKey()]
	i := slices.IndexFunc(told, func(c toldCause) bool { return c.level == g.leadEntry().Level && c.crd != s.name })
	if i < 0 {
		i = slices.IndexFunc(told, func(c toldCause) bool { return c.crd != s.name })
	}
	if i < 0 {
		return toldCause{}, false
	}
	return told[i], true
}

// repeatKey is equal for groups of several CRDs that tell the same. The level may differ: it depends on what is around the place.
// The places are not in it: the same field may be at another depth.
func (g *group) repeatKey() string {
	e := g.leadEntry()
	return strings.Join([]string{e.class.String(), string(e.Outcome), e.Rule, g.message, e.Reason}, "\x00")
}

// repeatedGroup prints a group in one line if another CRD has told the same; otherwise it returns an empty text.
// If the level differs, the line says so, and why, as far as the effect on the witness tells it.
func (t *textPrinter) repeatedGroup(s *sheet, g *group) string {
	in, ok := t.toldElsewhere(s, g)
	if !ok {
		return ""
	}
	t.cut = true
	head, as := t.groupHead(g), "as in "+in.crd
	if in.level != g.leadEntry().Level {
		as += fmt.Sprintf(", where it is %s", in.level)
		if e := g.witnessEntry(); e != nil {
			// Behind the error, the effect says why the level is what it is.
			if _, why, ok := strings.Cut(e.witness.Effect, "; "); ok {
				as += "; here " + clipVisible(why, textEffectWidth)
			}
		}
	}
	if len(g.places) == 1 {
		head += ", " + g.places[0].String()
	}
	return t.finishLines([]textLine{{indent: 4, hang: 2, text: head + styleFaint + " (" + as + ")" + styleEnd}})
}

// groupHead is the first line of a group: the severity, the rule, how many places, the message.
// All formats that show text lines begin a group with it.
func (t *textPrinter) groupHead(g *group) string {
	e := g.leadEntry()
	head := e.severityWord() + " " + styleStrong + e.Rule + styleEnd
	if len(g.places) > 1 {
		head += ", " + brief.Count(len(g.places), "place")
		if g.under != "" {
			head += " under " + g.under
		}
	}
	return head + ": " + g.message
}

// fitGroup prints a group with as much detail as fits. It returns false if not even one line fits.
// Detail is taken away in steps: first the witness, then all but one line.
func (t *textPrinter) fitGroup(g *group, room int) (string, bool) {
	if t.Verbose {
		lines, _ := t.printGroup(g, inFull)
		return t.finishLines(lines), true
	}
	if room <= 0 {
		return "", false
	}
	for d := inFull; d >= oneLine; d-- {
		lines, witness := t.printGroup(g, d)
		if s := t.finishLines(lines); len(s) <= room {
			t.witness -= witness
			if d < inFull {
				t.cut = true
			}
			return s, true
		}
	}
	return "", false
}

// countsOfLeft counts findings that are not shown: "214 more findings: 200 fail, 14 warn".
// It counts findings, not groups, because the summary at the end counts these.
func countsOfLeft(groups []group) string {
	var n [classes]int
	var all int64
	for i := range groups {
		n[groups[i].leadEntry().class] += len(groups[i].entries)
		all += int64(len(groups[i].entries))
	}
	return brief.Count(all, "more finding") + ": " + countsByClass(n, 0)
}

// leftByLevel counts, by level, the findings that are not shown, worst first.
func leftByLevel(groups []group) string {
	n := make(map[Level]int64)
	for i := range groups {
		if e := groups[i].leadEntry(); e.Outcome == Undecided {
			n[Level(Undecided)] += int64(len(groups[i].entries))
		} else {
			n[e.Level] += int64(len(groups[i].entries))
		}
	}
	var parts []string
	for _, l := range append(Levels(), LevelInfo{ID: Level(Undecided)}) {
		if n[l.ID] > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", brief.Number(n[l.ID]), l.ID))
		}
	}
	return strings.Join(parts, ", ")
}

// headerLines names the CRD and its result.
// Findings that are off count only if they are shown.
func (p *page) headerLines(s *sheet, verbose bool) []textLine {
	word := strings.TrimSuffix(s.quietMark(), "  ")
	switch s.worst {
	case failing:
		word = styleFail + "FAIL" + styleEnd
	case warning:
		word = styleWarn + "WARN" + styleEnd
	case noting, suppressed, silent:
	}
	n := s.count
	if !verbose {
		n[silent] = 0
	}
	text := fmt.Sprintf("%s  %s%s%s  %s", word, styleStrong, s.name, styleEnd, p.verdictInWords(s))
	if told := countsByClass(n, s.undecided); told != "" {
		text += ": " + told
	}
	lines := []textLine{{text: text, hang: 6}}
	if s.objects != nil {
		lines = append(lines, textLine{indent: 6, hang: 2, text: s.objects.scanSummary()})
	}
	return append(lines, textLine{})
}

// sectionName is the name of the part of a CRD's findings that has a group.
func (g *group) sectionName() string {
	switch e := g.leadEntry(); {
	case e.class == suppressed:
		return "suppressed"
	case e.class == silent:
		return "off"
	case e.Outcome == Undecided:
		return string(Undecided)
	case e.Outcome == Note:
		return "notes"
	default:
		return string(e.Level)
	}
}

// levelTitle is the heading for the groups of one level: its name, and its meaning in one phrase, which a dense text tells once.
// In other texts than dense ones each CRD has the meaning again, because a reader may look at one CRD
// only.
func (t *textPrinter) levelTitle(g *group) string {
	e, name := g.leadEntry(), g.sectionName()
	title := styleStrong + name + styleEnd
	if t.dense && slices.Contains(t.titled, name) {
		return title
	}
	t.titled = append(t.titled, name)
	switch {
	case e.class == suppressed:
		title += ": accepted in the configuration"
	case e.class == silent:
		title += ": not reported by default"
	case e.Outcome == Undecided && e.class == failing:
		title += ": neither safety nor harm could be shown, which fails unless failMode is open"
	case e.Outcome == Undecided:
		title += ": neither safety nor harm could be shown"
	case e.Outcome == Note || e.meaning == "":
	default:
		title += ": " + e.meaning
		if who := " (hurts " + e.who + ")"; !t.dense || !slices.Contains(t.titled, who) {
			t.titled = append(t.titled, who)
			title += who
		}
	}
	return title
}

// printGroup prints one group and returns the number of lines of witnesses in it.
// The order is the same at each detail: where, why undecided, which objects, accepted why, the witness,
// and the way out.
func (t *textPrinter) printGroup(g *group, d detail) (lines []textLine, witness int) {
	add := func(indent, hang int, text string) {
		lines = append(lines, textLine{indent: indent, hang: hang, text: text})
	}
	e := g.leadEntry()
	head := t.groupHead(g)
	if d == oneLine {
		if len(g.places) == 1 {
			head += ", " + g.places[0].String()
		}
		add(4, 2, clipVisible(head, textOneLine+40))
		return append(lines, t.withoutBlanks([]textLine{{}})...), 0
	}
	if t.dense {
		head += t.densePlace(g)
	}
	add(4, 2, head)
	if !t.dense {
		t.printPlaces(g, add)
	}
	if e.Reason != "" {
		add(6, 2, "not decided because: "+e.Reason)
	}
	if text := g.objectsText(t.exampleLimit()); text != "" {
		add(6, 2, text)
	}
	if e.Suppressed != nil {
		add(6, 2, "accepted: "+e.Suppressed.reasonText())
	}
	shown, lines2 := t.printEvidence(g, d)
	lines = append(lines, lines2...)
	t.printWaysOut(g, add)
	return append(lines, t.withoutBlanks([]textLine{{}})...), shown
}

// printWaysOut prints, for a group that fails, the way out that the rule knows, and the entry of suppressions or allowLoss to paste into sluice.yaml.
// The entry is ready to paste. Its reason is WHY, which the user has to replace.
func (t *textPrinter) printWaysOut(g *group, add func(indent, hang int, text string)) {
	e := g.leadEntry()
	if e.class != failing || t.page.noun != crdNoun {
		return
	}
	if t.Rules != nil && !t.dense {
		if doc, ok := t.Rules(e.Rule); ok && doc.Help != "" {
			help, _, _ := strings.Cut(strings.ReplaceAll(doc.Help, "\n", " "), ". ")
			add(6, 2, "way out: "+clipVisible(strings.TrimSuffix(help, "."), textEffectWidth))
		}
	}
	title := "or accept it in sluice.yaml (-c sluice.yaml):"
	list, addition := "suppressions", ""
	if e.isLoss() {
		list, addition = "allowLoss", " (allowLoss)"
	}
	crd := e.CRD
	if t.isSharedGroup(g) {
		crd = "" // one entry for all of them
	}
	for _, path := range t.pathsToAccept(g) {
		switch text := suppressionText(e, crd, path); {
		case text == "":
		case t.dense:
			where := "it"
			if len(g.places) > 1 && !t.Verbose && t.coversOthers(g) {
				where = "it, and the other " + e.Rule + " there"
			}
			if !t.accepts { // the first one says where
				t.accepts, where = true, where+" in sluice.yaml"
			}
			add(6, 2, "accept "+where+addition+": "+text)
		default:
			if title != "" {
				add(6, 2, title)
				add(10, 2, list+":")
				title = ""
			}
			add(10, 4, text)
		}
	}
}

// isSharedGroup reports whether other CRDs have the same group at the same places, and no other finding of its rule at these places.
// Then one entry without a CRD accepts all of them, which is what users write for a change in a common type.
func (t *textPrinter) isSharedGroup(g *group) bool {
	samePlaces := func(o *group) bool {
		return o.under == g.under && slices.EqualFunc(o.places, g.places, func(a, b place) bool { return a.path == b.path })
	}
	shared := false
	for i := range t.page.crds {
		s := &t.page.crds[i]
		for j := range s.groups {
			o := &s.groups[j]
			switch {
			case s.name == t.sheet.name || o.leadEntry().Rule != g.leadEntry().Rule:
			case o.repeatKey() == g.repeatKey() && samePlaces(o):
				shared = true
			default:
				return false
			}
		}
	}
	return shared
}

// coversOthers reports whether the pattern for the places of a group covers another group of its rule too.
// A pattern that ends with ** would accept them unseen.
func (t *textPrinter) coversOthers(g *group) bool {
	return slices.ContainsFunc(t.sheet.groups, func(other group) bool {
		return other.leadEntry().Rule == g.leadEntry().Rule && other.leadEntry().id != g.leadEntry().id &&
			slices.ContainsFunc(other.places, func(p place) bool { return strings.HasPrefix(p.path, g.under) })
	})
}

// pathsToAccept returns the paths of suppressions that accept a group: the paths of a few places that have nothing in common, or one pattern. If
// that covers something else of the rule, and everything is asked for, each place has its own. An empty path stands for the whole CRD.
// With a pattern that is too wide, nothing is proposed, and -v shows the single places.
func (t *textPrinter) pathsToAccept(g *group) (paths []string) {
	for i := range g.places {
		paths = append(paths, g.places[i].path)
	}
	const few = 3
	if len(g.places) == 1 || g.under == "" && len(g.places) <= few {
		return paths
	}
	const deep = 3 // steps, as .spec.template.spec: a pattern that is less deep would accept too much
	switch {
	case !t.coversOthers(g):
	case t.Verbose:
		return paths
	case !t.dense || strings.Count(g.under, ".") < deep:
		t.cut = true
		return nil
	}
	return []string{g.under + "**"}
}

// isLoss reports whether allowLoss accepts the finding.
func (e *entry) isLoss() bool { return strings.HasPrefix(e.Rule, "conversion-loses-") }

// suppressionText is an entry for the suppressions or allowLoss of sluice.yaml in one line, for a CRD or, if crd is empty, for all; empty if it
// takes more.
// It is written by the YAML encoder, so that paths with special characters are quoted as the configuration reads
// them.
func suppressionText(e *entry, crd, path string) string {
	entry := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	rule := e.Rule
	if e.isLoss() {
		rule = ""
	}
	for _, kv := range [][2]string{{"rule", rule}, {"crd", crd}, {"path", path}, {"reason", "WHY"}} {
		if kv[1] != "" {
			entry.Content = append(entry.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: kv[0]}, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: kv[1]})
		}
	}
	return flowText(&yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{entry}})
}

// flowText writes a document in one visible line; empty if it takes more.
func flowText(n *yaml.Node) string {
	raw, err := yaml.Marshal(n)
	if text := strings.TrimSuffix(string(raw), "\n"); err == nil && !strings.Contains(text, "\n") {
		return visibleLine(text)
	}
	return ""
}

// severityWord is the word that readers scan for.
func (e *entry) severityWord() string {
	switch e.class {
	case failing:
		return styleFail + "FAIL" + styleEnd
	case warning:
		return styleWarn + "WARN" + styleEnd
	case noting:
		return "NOTE"
	case suppressed, silent:
	}
	return "----"
}
