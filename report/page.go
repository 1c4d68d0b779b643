package report

// What do all formats for people have in common? Texts of the input become visible and short, findings with one
// cause become a group, and the places of a group are told with what they share. For example, 30 fields under
// .spec.template that get a maxLength are one group with 30 places.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice.dev/internal/brief"
)

// Limits of one field, in bytes, unless everything is asked for.
const (
	nameWidth    = 160
	pathWidth    = 160
	messageWidth = 400
	valueWidth   = 160
	reasonWidth  = 400
	manyGroups   = 20
	manyExamples = 5
	manyRemarks  = 6
)

// crdNoun is the noun for the entries of a report that sets none.
const crdNoun = "CRD"

// page is a report made ready for reading: its strings are visible and bounded, and findings are grouped by cause. Every format but
// json and yaml prints a page, never the raw report.
type page struct {
	old, new, kube string
	mode, failMode string
	noun           string // the noun for a sheet, in the singular
	unreadable     int
	crds           []sheet // in the order of the report
	skipped        []string
	total          int // documents skipped
	remarks        []string
	sum            Summary
}

// sheet is one CRD of a page.
type sheet struct {
	name      string
	verdict   Verdict
	objects   *ObjectScan
	worst     class
	count     [classes]int
	undecided int     // among failing and warning
	groups    []group // shown: failing, warning, noting
	hidden    []group // suppressed and silent
	schemas   []SchemaTree
}

// group holds findings of one CRD that have one cause.
type group struct {
	entries []entry
	places  []place
	under   string // the common part of the paths of several places; may be empty
	message string // of the first finding, with a remark if those of the others differ
	varied  bool   // the places differ in their values
}

// entry is a finding with visible strings. Its Witness is nil, and the raw witness is separate.
type entry struct {
	Finding
	class   class
	witness *Witness
	id      string // its fingerprint
	cause   string // equal for findings of one cause
	// meaning and who are those of the level, which speak of CRDs: they are empty in a report about features.
	meaning, who string
}

// place is the place of a finding: one path in one version, or in several.
type place struct {
	versions []string
	path     string
	at       source
	before   string
	after    string
	noun     string // of the page
}

// source is the position of a place; both are empty if they are unknown.
type source struct {
	file string
	line string
}

// allGroups returns the groups that are shown, then those that are not.
func (s *sheet) allGroups() []group { return slices.Concat(s.groups, s.hidden) }

// verdictInWords is the verdict in words.
func (p *page) verdictInWords(s *sheet) string {
	switch {
	case s.verdict != IsNew:
		return string(s.verdict)
	case p.old == "":
		return "new: compared with nothing"
	}
	return "new: not in " + p.old + ", compared with nothing"
}

// namesOfNew lists the CRDs that were compared with nothing.
func (p *page) namesOfNew() []string {
	var out []string
	for i := range p.crds {
		if p.crds[i].verdict == IsNew {
			out = append(out, p.crds[i].name)
		}
	}
	return out
}

// newCRDs says how many CRDs were compared with nothing; empty if none was.
func (p *page) newCRDs() string {
	if p.sum.NewCRDs == 0 {
		return ""
	}
	return brief.Count(p.sum.NewCRDs, "new "+p.noun) + " compared with nothing"
}

func (g *group) leadEntry() *entry { return &g.entries[0] }

// witnessEntry returns the entry whose witness represents the group, or nil.
func (g *group) witnessEntry() *entry {
	for i := range g.entries {
		if g.entries[i].witness != nil {
			return &g.entries[i]
		}
	}
	return nil
}

// mostAffectedEntry returns the entry with the most affected objects, or nil if none were counted.
func (g *group) mostAffectedEntry() *entry {
	var most *entry
	for i := range g.entries {
		e := &g.entries[i]
		if e.Objects != nil && (most == nil || e.Objects.Affected > most.Objects.Affected) {
			most = e
		}
	}
	return most
}

// newPage prepares a report, which is sorted, for all formats that people read. With Verbose nothing is shortened.
// Kinds of skipped documents come by their number, the most frequent first.
func newPage(r *Report, o Options) *page {
	m := pageMaker{whole: o.Verbose, noun: cmp.Or(r.Noun, crdNoun)}
	p := &page{
		noun: m.noun, unreadable: r.Unreadable,
		old: m.shortVisible(r.Old, nameWidth), new: m.shortVisible(r.New, nameWidth), kube: m.shortVisible(r.KubeVersion, nameWidth),
		mode: m.shortVisible(r.Mode, nameWidth), failMode: m.shortVisible(r.FailMode, nameWidth),
		sum: r.Summary(),
	}
	for _, c := range r.CRDs {
		p.crds = append(p.crds, m.makeSheet(c))
	}
	for i, text := range r.Remarks {
		if i == manyRemarks && !o.Verbose && len(r.Remarks) > manyRemarks+1 {
			p.remarks = append(p.remarks, brief.Count(len(r.Remarks)-i, "more note"))
			break
		}
		p.remarks = append(p.remarks, m.shortVisible(text, messageWidth))
	}
	kinds := slices.SortedFunc(maps.Keys(r.Skipped), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Skipped[b], r.Skipped[a]), cmp.Compare(a, b))
	})
	for i, kind := range kinds {
		p.total += r.Skipped[kind]
		if i < manyExamples || o.Verbose {
			p.skipped = append(p.skipped, fmt.Sprintf("%s %s", brief.Number(r.Skipped[kind]), m.shortVisible(kind, 40)))
		}
	}
	if left := len(kinds) - len(p.skipped); left > 0 {
		p.skipped = append(p.skipped, brief.Count(left, "more kind"))
	}
	return p
}

// pageMaker makes the parts of a page.
type pageMaker struct {
	whole bool // nothing is shortened
	noun  string
}

// shortVisible makes a text of the input fit to print: visible, in one line, and of at most width bytes unless the
// whole is asked for.
func (m pageMaker) shortVisible(s string, width int) string {
	if m.whole {
		width = 0
	}
	return visibleClip(s, width)
}

// makeSheet prepares a CRD. The fingerprint and the cause come of the finding as it is, before its texts are
// shortened, so that they do not depend on the options.
func (m pageMaker) makeSheet(c CRD) sheet {
	s := sheet{
		name: m.shortVisible(c.label(), nameWidth), verdict: Verdict(m.shortVisible(string(c.Verdict), nameWidth)),
		objects: c.Objects, worst: silent, schemas: c.Schemas,
	}
	if c.Objects != nil {
		scan := *c.Objects
		scan.Version = m.shortVisible(scan.Version, nameWidth)
		s.objects = &scan
	}
	entries := make([]entry, 0, len(c.Findings))
	for _, f := range c.Findings {
		e := m.makeEntry(f)
		e.id, e.cause = fingerprint(c.label(), &f), causeKeyOf(&f, e.class)
		s.count[e.class]++
		s.worst = min(s.worst, e.class)
		if e.Outcome == Undecided && e.class <= warning {
			s.undecided++
		}
		entries = append(entries, e)
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.class, b.class) })
	for _, g := range groupByCause(entries, m.noun) {
		if g.leadEntry().class <= noting {
			s.groups = append(s.groups, g)
		} else {
			s.hidden = append(s.hidden, g)
		}
	}
	return s
}

// makeEntry makes the strings of a finding visible and bounded. Pointers are replaced by copies, because the report
// belongs to the caller.
func (m pageMaker) makeEntry(f Finding) entry {
	e := entry{Finding: f, class: classOf(&f), witness: f.Witness}
	e.Witness = nil
	e.Rule = m.shortVisible(f.Rule, nameWidth)
	e.Level = Level(m.shortVisible(string(f.Level), nameWidth))
	e.Outcome = Outcome(m.shortVisible(string(f.Outcome), nameWidth))
	e.CRD = m.shortVisible(f.CRD, nameWidth)
	e.Version = m.shortVisible(f.Version, nameWidth)
	e.Path = m.shortVisible(f.Path, pathWidth)
	e.Message = m.shortVisible(f.Message, messageWidth)
	e.Before = m.shortVisible(f.Before, valueWidth)
	e.After = m.shortVisible(f.After, valueWidth)
	e.Reason = m.shortVisible(f.Reason, reasonWidth)
	if m.noun == crdNoun {
		for _, info := range Levels() {
			if info.ID == e.Level {
				e.meaning, e.who = info.Meaning, info.Who
			}
		}
	}
	if f.Position != nil {
		at := *f.Position
		at.File = m.shortVisible(at.File, nameWidth)
		e.Position = &at
	}
	if f.Suppressed != nil {
		e.Suppressed = &Suppression{Reason: m.shortVisible(f.Suppressed.Reason, reasonWidth), Expires: m.shortVisible(f.Suppressed.Expires, 40)}
	}
	if f.Objects != nil {
		counted := *f.Objects
		counted.Examples = nil
		for i, name := range f.Objects.Examples {
			if i == manyExamples && !m.whole {
				break
			}
			counted.Examples = append(counted.Examples, m.shortVisible(name, nameWidth))
		}
		e.Objects = &counted
	}
	return e
}

// groupByCause groups findings with one cause, in the order of their first ones. noun is that of the page.
// The entries are sorted, so the first of a group is its worst. It leads the group: message, level and rule are its.
func groupByCause(entries []entry, noun string) []group {
	index := make(map[string]int)
	var groups []group
	for _, e := range entries {
		i, ok := index[e.cause]
		if !ok {
			i = len(groups)
			index[e.cause] = i
			groups = append(groups, group{})
		}
		groups[i].entries = append(groups[i].entries, e)
	}
	for i := range groups {
		groups[i].fillPlaces(noun)
	}
	return groups
}

// fillPlaces fills in the places of a group.
// Findings at one path in several versions with the same values are one place. If their messages differ, that of the
// first gets a remark.
func (g *group) fillPlaces(noun string) {
	type where struct{ path, before, after string }
	index := make(map[where]int)
	for i := range g.entries {
		e := &g.entries[i]
		w := where{e.Path, e.Before, e.After}
		j, ok := index[w]
		if !ok {
			j = len(g.places)
			index[w] = j
			g.places = append(g.places, place{path: e.Path, before: e.Before, after: e.After, noun: noun})
		}
		p := &g.places[j]
		if e.Version != "" && !slices.Contains(p.versions, e.Version) {
			p.versions = append(p.versions, e.Version)
		}
		if p.at.file == "" {
			p.at = e.sourceOf()
		}
		g.varied = g.varied || p.before != g.places[0].before || p.after != g.places[0].after
	}
	g.under = commonPath(g.places)
	g.message = g.leadEntry().Message
	if slices.ContainsFunc(g.entries, func(e entry) bool { return e.Message != g.message }) {
		g.message += " (and others like it)"
	}
}

// sourceOf is the position of a finding as text; empty without a file. Columns are left out: people look for lines.
func (e *entry) sourceOf() source {
	if e.Position == nil || e.Position.File == "" {
		return source{}
	}
	at := source{file: e.Position.File}
	if e.Position.Line > 0 {
		at.line = fmt.Sprint(e.Position.Line)
	}
	return at
}

// String writes a position as file:line.
func (s source) String() string {
	if s.line == "" {
		return s.file
	}
	return s.file + ":" + s.line
}

// sourcePositions writes the position of each place. It names a file once if several places follow each other in it.
func (g *group) sourcePositions() []string {
	var all []string
	file := ""
	for i := range g.places {
		at := g.places[i].at
		if at.line != "" && at.file == file {
			all = append(all, "line "+at.line)
		} else {
			all = append(all, at.String())
		}
		file = at.file
	}
	return all
}

// isWholeCRD reports whether a place is the CRD as a whole.
func (p *place) isWholeCRD() bool { return len(p.versions) == 0 && p.path == "" }

// wholeText names a CRD as a whole. A report about other resources has findings about single objects.
func (p *place) wholeText() string {
	if p.noun == "" || p.noun == crdNoun {
		return "the CRD as a whole"
	}
	return "the object"
}

// String returns the versions and the path of a place.
func (p *place) String() string {
	switch versions := strings.Join(p.versions, ", "); {
	case p.isWholeCRD():
		return p.wholeText()
	case p.path == "":
		return versions
	case versions == "":
		return p.path
	default:
		return versions + " " + p.path
	}
}

// changeText describes the change: "old → new", or one of them if there is only one.
func (p *place) changeText() string {
	switch {
	case p.before != "" && p.after != "":
		return p.before + " → " + p.after
	case p.before != "":
		return "was " + p.before
	case p.after != "":
		return "now " + p.after
	}
	return ""
}

// commonPath returns the whole segments that the paths of several places begin with.
// For .spec.a.b and .spec.a.c it is .spec.a, and for .spec.ab and .spec.ac it is .spec. Patterns for suppressions end
// with it, so it must not cut a name.
func commonPath(places []place) string {
	if len(places) < 2 {
		return ""
	}
	common, whole := places[0].path, true
	for _, p := range places[1:] {
		n := 0
		for n < len(common) && n < len(p.path) && common[n] == p.path[n] {
			n++
		}
		whole = whole && n == len(common) && (n == len(p.path) || p.path[n] == '.' || p.path[n] == '[')
		common = common[:n]
	}
	if whole {
		return common
	}
	return common[:max(strings.LastIndexAny(common, ".["), 0)]
}

// sidesOf names the CRD that accepts a witness, and the CRD that has the effect on it.
func (w *Witness) sidesOf() (accepting, judging string) {
	switch {
	case w.AcceptedBy != "" && w.JudgedBy != "":
		return w.AcceptedBy, w.JudgedBy
	case w.Reversed:
		return "the new CRD", "the old CRD"
	}
	return "the old CRD", "the new CRD"
}

// harmSentence says in one sentence whom findings of the level hurt, and how; it is empty if there is no such level.
func (e *entry) harmSentence() string {
	if e.who == "" {
		return ""
	}
	return "hurts " + e.who + ": " + e.meaning
}

// effectOnObjects says in one sentence how many stored objects a finding affects.
// Zero affected objects are worth a sentence: the finding then is about objects that nobody has stored.
func (e *entry) effectOnObjects() string {
	if e.Objects.Affected == 0 {
		return fmt.Sprintf("none of the %s is affected", brief.Count(e.Objects.Checked, "stored object"))
	}
	verb := "would be affected"
	if e.Outcome == Undecided {
		verb = "could not be judged"
	}
	switch e.Level {
	case DataLost:
		verb = "would lose data"
	case ObjectsStuck:
		verb = "could no longer be updated or applied"
	case ObjectsRatcheted:
		if verb = "hold what is now refused"; e.Objects.Affected == 1 {
			verb = "holds what is now refused"
		}
	case MeaningChanged, ReadersSurprised:
		verb = "would read differently"
	case RefusedByAPIServer, WritersRefused, ClientsBroken, Cosmetic:
	}
	return fmt.Sprintf("%s of %s %s", brief.Number(e.Objects.Affected), brief.Count(e.Objects.Checked, "stored object"), verb)
}

// objectsText says how many stored objects findings of the group affect, and names at most limit of them (0: all known
// ones); empty if none were counted.
func (g *group) objectsText(limit int) string {
	e := g.mostAffectedEntry()
	if e == nil {
		return ""
	}
	return e.objectsText(limit)
}

func (e *entry) objectsText(limit int) string {
	text := e.effectOnObjects()
	if names := e.Objects.namesUpTo(limit); names != "" {
		text += ": " + names
	}
	return text
}

// namesUpTo lists affected objects: at most limit (0: all known ones).
func (o *Objects) namesUpTo(limit int) string {
	names := o.Examples
	if limit > 0 && len(names) > limit {
		names = names[:limit]
	}
	s := strings.Join(names, ", ")
	if s != "" && int64(len(names)) < o.Affected {
		s += ", …"
	}
	return s
}

// scanSummary describes the result of reading the stored objects.
func (s *ObjectScan) scanSummary() string {
	var parts []string
	for _, x := range []struct {
		n    int64
		what string
	}{{s.Refused, "would be refused"}, {s.Pruned, "would lose data"}, {s.Unappliable, "would refuse every apply"}, {s.Changed, "would read differently"}, {s.Unjudged, "could not be judged"}} {
		if x.n > 0 {
			parts = append(parts, brief.Number(x.n)+" "+x.what)
		}
	}
	result := cmp.Or(strings.Join(parts, ", "), "all fine")
	read := brief.Count(s.Checked, "stored object") + " read"
	if s.Version != "" {
		read += " in " + s.Version
	}
	return read + ": " + result
}
