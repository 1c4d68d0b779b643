package report

// How does a report become a page that people keep or send? The page needs no network and no server: style and
// script are in it, and a Content-Security-Policy with their hashes lets nothing else run. This file fills in
// what the template html.tmpl shows. For example, each finding has its witness before and after, with the part
// marked that the new CRD drops or refuses.

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // for the template and the style
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"sluice.dev/internal/brief"
)

// Limits of a page, unless everything is asked for.
const (
	htmlGroups    = 60  // of one CRD
	htmlAllGroups = 240 // of all CRDs
	htmlPlaces    = 20
	htmlWitness   = 40   // lines of one witness
	htmlWitnesses = 900  // lines of all witnesses
	htmlSheets    = 400  // CRDs in the overview
	htmlNodes     = 8000 // fields of all schemas; changed ones are shown up to twice as many
)

var (
	//go:embed html.tmpl
	htmlTemplate string
	//go:embed html.css
	htmlStyle string
	//go:embed html.js
	htmlScript string
)

// HTMLStyle and HTMLScript return the style sheet and the script of the page that the format html prints, for pages that hold [HTMLBody].
func HTMLStyle() string { return htmlStyle }

// HTMLScript is described at [HTMLStyle].
func HTMLScript() string { return htmlScript }

// HTMLBody writes the part of the page of the format html that is about the report, without head, title and footer.
func HTMLBody(w io.Writer, r *Report, o Options) error {
	return wholePrinter(func(b *bytes.Buffer, r *Report, o Options) error { return appendTemplate(b, "check", r, o) })(w, r, o)
}

// htmlPage is what the template shows. The template engine calls no methods, so that all texts are ready here.
// Strings that come from input are visible and bounded; the engine escapes them for HTML.
type htmlPage struct {
	Style          template.CSS
	StyleHash      string
	Script         template.JS
	ScriptHash     string
	Old, New, Kube string
	Mode, FailMode string
	Heading, Noun  string
	Result, Class  string
	Conclusion     string
	Tiles          []htmlTile
	Levels         []htmlLevel
	Sheets         []htmlSheet
	Quiet          []htmlSheet // CRDs without findings to show
	QuietTitle     string
	MoreSheets     string
	Skipped        string
	Remarks        []string
	Version, Date  string
	Filters        []htmlTile
	Told           bool // there are findings to show
}

// htmlTile is a count at the head of the page, or on a button.
type htmlTile struct{ Class, Label, Count string }

// htmlLevel is a cell of the picture of a CRD: one for each level, the worst first, and one for what is undecided. X
// and Middle are SVG units. Count is text, 99+ at most.
type htmlLevel struct {
	Index, Number string
	Name, Meaning string
	X, Middle     int
	Count         string
	Present       bool
}

// htmlSheet is one CRD. Class colours it by its worst finding. StripText says what the picture shows, for readers who
// do not see it. More counts the groups that are left out.
type htmlSheet struct {
	ID        int
	Name      string
	Verdict   string
	Class     string
	Told      string
	Objects   string
	Strip     []htmlLevel
	StripText string
	Groups    []htmlGroup
	More      string
	Trees     []htmlTree
}

// htmlTree is the schema of a version.
type htmlTree struct {
	ID, Version, Changes string
	Root                 *htmlNode
}

// htmlNode is a field of a schema, with the fields below it. Class is a [SchemaChange]. Open unfolds it: there are
// changes below.
type htmlNode struct {
	ID, Name, Path, Type, Class string
	Changes                     string // in fields below
	Keywords                    []KeywordChange
	Findings                    []htmlLink
	Children                    []*htmlNode
	Left                        string // what is not shown
	Open                        bool
}

// htmlLink leads from a field of a schema to a finding about it.
type htmlLink struct{ ID, Class, Text string }

// htmlGroup is a cause with its findings. The three Has fields say whether a column of the table of places has any
// content. Witness and Outcome are the object before and after, in runs that are marked; Outcome is nil if the effect
// names no place in the object.
type htmlGroup struct {
	ID              string
	Class, Word     string
	Rule, Message   string
	Open            bool
	Count           string
	Level, LevelID  string
	Who, Meaning    string
	Places          []htmlPlace
	MorePlaces      string
	HasBefore       bool
	HasAfter        bool
	HasAt           bool
	Reason          string
	Objects, Names  string
	Affected        bool
	Accepted        string
	Old             string
	Witness         []run
	Outcome         []run
	Fate            string // what becomes of the witness
	WitnessNote     string
	Effect          string
	Accepts, Judges string
	Title           string
	Why, Way        []string
}

type htmlPlace struct {
	Versions, Path, At, Before, After string
	Node                              string // the ID of the field in the schema; empty if that is not shown
}

// undecidedMeaning stands where a level has its meaning.
const undecidedMeaning = "neither safety nor harm could be shown"

// Cells of the picture, in SVG units.
const (
	htmlCell  = 26
	htmlPitch = 30
)

func appendHTML(b *bytes.Buffer, r *Report, o Options) error {
	return appendTemplate(b, "report", r, o)
}

// appendTemplate executes a template of html.tmpl: report for a page of its own, check for the part that other pages
// show.
func appendTemplate(b *bytes.Buffer, name string, r *Report, o Options) error {
	t, err := template.New("report").Parse(htmlTemplate)
	if err != nil {
		return fmt.Errorf("cannot write HTML: %w", err)
	}
	if err := t.ExecuteTemplate(b, name, newHTMLPage(newPage(r, o), o)); err != nil {
		return fmt.Errorf("cannot write HTML: %w", err)
	}
	return nil
}

// hashOf is the hash of a style or script as a Content-Security-Policy has it, so that a page runs nothing else.
func hashOf(text string) string {
	hash := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(hash[:])
}

// newHTMLPage fills in a page. CRDs with findings to show come first, worst first, and share the room for groups,
// witnesses and nodes in that order. So what is left out concerns the least harmful ones.
func newHTMLPage(p *page, o Options) *htmlPage {
	h := &htmlPage{
		Style: template.CSS(htmlStyle), StyleHash: hashOf(htmlStyle), Script: template.JS(htmlScript), ScriptHash: hashOf(htmlScript), // embedded files, nothing of the report
		Old: p.old, New: p.new, Kube: p.kube, Mode: p.mode, FailMode: p.failMode,
		Version: visibleClip(o.Version, nameWidth), Date: visibleClip(o.Date, nameWidth),
		Remarks: p.remarks, Levels: htmlLevels(nil), Heading: "CRD upgrade report", Noun: p.noun,
	}
	if p.noun != crdNoun {
		h.Heading, h.Noun = "Preflight report", strings.ToUpper(p.noun[:1])+p.noun[1:]
	}
	h.Result, h.Class, h.Conclusion = p.htmlResult()
	h.Tiles = p.htmlTiles()
	if p.total > 0 {
		h.Skipped = fmt.Sprintf("Skipped %s of other kinds: %s.", brief.Count(p.total, "document"), strings.Join(p.skipped, ", "))
	}
	m := htmlMaker{Options: o, witness: htmlWitnesses, groups: htmlAllGroups, nodes: htmlNodes, ids: map[string]int{}, fields: map[string]string{}}
	t := textPrinter{Options: o, page: p}
	loud, quiet := t.splitByAttention()
	var shown [classes]int
	for i, s := range append(loud, quiet...) {
		if !o.Verbose && i == htmlSheets {
			h.MoreSheets = "… and " + brief.Count(len(p.crds)-i, "more "+p.noun)
			break
		}
		sheet := m.makeSheet(&s, i+1)
		if len(sheet.Groups) == 0 {
			h.Quiet = append(h.Quiet, sheet)
			continue
		}
		h.Sheets = append(h.Sheets, sheet)
		for c, n := range s.count {
			shown[c] += n
		}
	}
	h.QuietTitle = brief.Count(len(h.Quiet), p.noun) + " without anything to tell"
	h.Told = len(h.Sheets) > 0
	h.Filters = htmlFilters(shown, o.Verbose)
	return h
}

// htmlTiles has the counts at the head of the page.
func (p *page) htmlTiles() []htmlTile {
	safe := 0
	for i := range p.crds {
		if p.crds[i].worst > warning && p.crds[i].verdict != IsNew {
			safe++
		}
	}
	pass := " pass"
	if safe == 1 {
		pass = " passes"
	}
	tiles := []htmlTile{
		{Class: "fail", Label: brief.Count(p.sum.Fail, "failing finding")},
		{Class: "warn", Label: brief.Count(p.sum.Warn, "warning")},
		{Class: "undecided", Label: brief.Number(p.sum.Undecided) + " of them undecided"},
		{Class: "note", Label: brief.Count(p.sum.Notes, "note")},
		{Class: "suppressed", Label: brief.Number(p.sum.Suppressed) + " suppressed"},
		{Class: "ok", Label: brief.Count(safe, p.noun) + pass},
		{Class: "note", Label: brief.Number(p.sum.NewCRDs) + " new, compared with nothing"},
	}
	for i := range tiles {
		tiles[i].Count, tiles[i].Label, _ = strings.Cut(tiles[i].Label, " ")
		if tiles[i].Count == "0" {
			tiles[i].Class += " none"
		}
	}
	return tiles
}

// htmlFilters has a button for each class of findings that the page shows.
func htmlFilters(shown [classes]int, verbose bool) []htmlTile {
	var filters []htmlTile
	for _, x := range []struct {
		class class
		label string
	}{{failing, "failing"}, {warning, "warnings"}, {noting, "notes"}, {suppressed, "suppressed"}, {silent, "off"}} {
		if shown[x.class] > 0 && (x.class != silent || verbose) {
			filters = append(filters, htmlTile{x.class.String(), x.label, brief.Number(shown[x.class])})
		}
	}
	return filters
}

// htmlResult is the verdict on the report: in two words, as a class of the style, and in a sentence. It agrees with
// the last line of the text.
func (p *page) htmlResult() (result, class, conclusion string) {
	told := p.findingCounts()
	crds := brief.Count(p.sum.CRDs, p.noun)
	share := func(n int) string {
		if p.sum.CRDs == 1 {
			return crds
		}
		return brief.Number(n) + " of " + crds
	}
	switch {
	case p.sum.CRDs == 0 && p.noun != crdNoun:
		return "Pass", "ok", "Nothing was found."
	case p.sum.CRDs == 0:
		return "Nothing to check", "note", "No CRD was compared."
	case p.sum.Fail > 0:
		return "Fail", "fail", fmt.Sprintf("%s would do harm: %s.", share(p.sum.FailingCRDs), told)
	case p.sum.Warn > 0:
		return "Pass, with warnings", "warn", fmt.Sprintf("%s: %s.", share(p.sum.WarningCRDs), told)
	case p.allNew():
		return "New", "note", fmt.Sprintf("Nothing to compare with: %s.", told)
	case told != "":
		return "Pass", "ok", fmt.Sprintf("%s: %s.", crds, told)
	}
	return "Pass", "ok", fmt.Sprintf("%s, no findings.", crds)
}

// htmlLevels lists the levels, and what is undecided, as cells of a picture with the counts of n.
func htmlLevels(n map[Level]int) []htmlLevel {
	var all []htmlLevel
	infos := append(Levels(), LevelInfo{ID: Level(Undecided), Meaning: undecidedMeaning})
	for i, info := range infos {
		l := htmlLevel{
			Index: fmt.Sprint(i), Number: fmt.Sprint(i + 1), Name: string(info.ID), Meaning: info.Meaning,
			X: i*htmlPitch + 1, Middle: i*htmlPitch + 1 + htmlCell/2,
		}
		if info.Default == "" {
			l.Number = "?"
		}
		if k := n[info.ID]; k > 0 {
			l.Present = true
			l.Count = fmt.Sprint(k)
			if k > 99 {
				l.Count = "99+"
			}
		}
		all = append(all, l)
	}
	return all
}

// htmlMaker makes the parts of a page and counts the room that is left.
type htmlMaker struct {
	Options
	witness int
	groups  int
	nodes   int
	ids     map[string]int    // how often an ID of a finding was given
	fields  map[string]string // the IDs of fields with findings, by CRD, version and path
}

// makeSheet makes the part of one CRD, with the number id, and takes its share of the room. The first finding of the
// first CRD is unfolded.
func (m *htmlMaker) makeSheet(s *sheet, id int) htmlSheet {
	h := htmlSheet{ID: id, Name: s.name, Verdict: string(s.verdict), Class: "ok"}
	if s.verdict == IsNew {
		h.Class, h.Objects = "note", "compared with nothing"
	}
	switch s.worst {
	case failing, warning:
		h.Class = s.worst.String()
	case noting, suppressed, silent:
	}
	n := s.count
	if !m.Verbose {
		n[silent] = 0
	}
	h.Told = countsByClass(n, s.undecided)
	if s.objects != nil {
		h.Objects = s.objects.scanSummary()
	}
	h.Strip, h.StripText = s.htmlStrip()
	groups := s.allGroups()
	if !m.Verbose {
		groups = slices.DeleteFunc(groups, func(g group) bool { return g.leadEntry().class == silent })
	}
	for i := range groups {
		if !m.Verbose && (i == htmlGroups || m.groups == 0) {
			h.More = "… and " + countsOfLeft(groups[i:]) + " (-v shows them)"
			break
		}
		m.groups--
		g := m.makeGroup(&groups[i])
		g.Open = i == 0 && id == 1
		h.Groups = append(h.Groups, g)
	}
	m.addTrees(&h, s, groups)
	return h
}

// addTrees adds the schemas of a CRD. Fields link to the findings about them.
// A place links back to the field of its first version. Places in versions whose tree is left out link nowhere.
func (m *htmlMaker) addTrees(h *htmlSheet, s *sheet, groups []group) {
	about := map[string][]htmlLink{} // by version and path
	for i := range h.Groups {
		g := &h.Groups[i]
		for _, e := range groups[i].entries {
			key := e.Version + " " + e.Path
			if links := about[key]; len(links) == 0 || links[len(links)-1].ID != g.ID {
				about[key] = append(links, htmlLink{g.ID, g.Class, g.Rule})
			}
		}
	}
	for i := range s.schemas {
		t := &s.schemas[i]
		if t.Root == nil || !m.Verbose && m.nodes <= -htmlNodes {
			continue
		}
		tree := htmlTree{ID: fmt.Sprintf("schema-%d-%d", h.ID, i), Version: visibleClip(t.Version, nameWidth), Changes: changeCount(t.Root)}
		tree.Root = m.makeNode(t.Root, treeOf{tree.ID, s.name, t.Version, about})
		tree.Root.Name = cmp.Or(tree.Root.Name, "the object")
		h.Trees = append(h.Trees, tree)
	}
	for i := range h.Groups {
		for j := range h.Groups[i].Places {
			p := &h.Groups[i].Places[j]
			first, _, _ := strings.Cut(p.Versions, ", ")
			p.Node = m.fields[s.name+" "+first+" "+p.Path]
		}
	}
}

// treeOf is the tree that nodes are made for: its ID, the CRD and version, and the findings by version and path.
type treeOf struct {
	id, crd, version string
	about            map[string][]htmlLink
}

// changeCount counts the changed fields of a schema in words; it is empty if there are none.
func changeCount(n *SchemaNode) string {
	changes := n.Changes
	if n.Change != "" {
		changes++
	}
	if changes == 0 {
		return ""
	}
	return brief.Count(changes, "change")
}

// makeNode makes a field and those below it. Fields without a change are left out where there are too many.
// The ID counts from the nodes that are left, so that it is unique in a page and the same in each run.
func (m *htmlMaker) makeNode(n *SchemaNode, t treeOf) *htmlNode {
	m.nodes--
	h := &htmlNode{
		ID: fmt.Sprintf("%s-%d", t.id, htmlNodes-m.nodes), Name: visibleClip(n.Name, nameWidth), Path: visibleClip(n.Path, pathWidth),
		Type: visibleClip(n.Type, nameWidth), Class: string(n.Change),
	}
	if h.Findings = t.about[t.version+" "+h.Path]; h.Findings != nil {
		m.fields[t.crd+" "+t.version+" "+h.Path] = h.ID
	}
	for _, k := range n.Keywords {
		h.Keywords = append(h.Keywords, KeywordChange{visibleClip(k.Keyword, nameWidth), visibleClip(k.Before, valueWidth), visibleClip(k.After, valueWidth)})
	}
	if n.Changes > 0 {
		h.Changes, h.Open = brief.Count(n.Changes, "change"), true
	}
	left := 0
	for _, c := range n.Children {
		same := c.Change == "" && c.Changes == 0
		if !m.Verbose && (same && m.nodes <= 0 || m.nodes <= -htmlNodes) {
			left++
			continue
		}
		h.Children = append(h.Children, m.makeNode(c, t))
	}
	if left > 0 {
		h.Left = "… and " + brief.Count(left, "more field") + " (-v shows them)"
	}
	return h
}

// htmlStrip is the picture of a CRD: the levels of its findings, and the same in words.
func (s *sheet) htmlStrip() (strip []htmlLevel, text string) {
	told := make(map[Level]int)
	for _, g := range s.groups {
		if e := g.leadEntry(); e.Outcome == Undecided {
			told[Level(Undecided)] += len(g.entries)
		} else {
			told[e.Level] += len(g.entries)
		}
	}
	strip = htmlLevels(told)
	var said []string
	for _, l := range strip {
		if l.Present {
			said = append(said, l.Count+" "+l.Name)
		}
	}
	switch {
	case len(said) > 0:
		return strip, strings.Join(said, ", ")
	case s.verdict == IsNew:
		return strip, "not compared"
	}
	return strip, "no harm"
}

// makeGroup makes the part of one cause. Its ID is the fingerprint of the first finding, so that links to a page
// survive a new run; a number tells equal ones apart.
func (m *htmlMaker) makeGroup(g *group) htmlGroup {
	e := g.leadEntry()
	id := "f-" + e.id[:min(12, len(e.id))]
	if m.ids[id]++; m.ids[id] > 1 {
		id += fmt.Sprintf("-%d", m.ids[id])
	}
	h := htmlGroup{
		ID: id, Class: e.class.String(), Word: e.class.String(), Rule: e.Rule, Message: g.message, Reason: e.Reason,
		Level: string(e.Level), LevelID: fmt.Sprint(e.Level.severityRank()), Who: e.who, Meaning: e.meaning,
	}
	if e.Outcome == Undecided {
		h.Level, h.LevelID, h.Meaning = string(Undecided), fmt.Sprint(len(Levels())), undecidedMeaning
	}
	if h.Meaning == "" {
		h.LevelID = "x"
	}
	if n := len(g.places); n > 1 {
		h.Count = brief.Count(n, "place")
	}
	m.addPlaces(g, &h)
	if c := g.mostAffectedEntry(); c != nil {
		h.Objects, h.Affected = c.effectOnObjects(), c.Objects.Affected > 0
		h.Names = c.Objects.namesUpTo(m.exampleLimit())
	}
	if e.Suppressed != nil {
		h.Accepted = e.Suppressed.reasonText()
	}
	m.addEvidence(g, &h)
	if m.Rules != nil {
		if doc, ok := m.Rules(e.Rule); ok {
			h.Title, h.Why, h.Way = doc.Title, splitParagraphs(doc.Why), splitParagraphs(doc.Help)
		}
	}
	return h
}

// addPlaces lists the places of a group, up to a bound. A file is named once for places that follow each other in it.
func (m *htmlMaker) addPlaces(g *group, h *htmlGroup) {
	at := g.sourcePositions()
	for i, p := range g.places {
		if !m.Verbose && i == htmlPlaces && len(g.places) > htmlPlaces+1 {
			h.MorePlaces = "… and " + brief.Count(len(g.places)-i, "more place")
			break
		}
		path := cmp.Or(p.path, p.wholeText())
		h.Places = append(h.Places, htmlPlace{strings.Join(p.versions, ", "), path, at[i], p.before, p.after, ""})
		h.HasBefore = h.HasBefore || p.before != ""
		h.HasAfter = h.HasAfter || p.after != ""
		h.HasAt = h.HasAt || p.at.file != ""
	}
}

// addEvidence adds the witness that represents a group, while there is room for the lines of witnesses. Without room,
// only the effect is told. The object is there twice, before and after, so its lines count twice.
func (m *htmlMaker) addEvidence(g *group, h *htmlGroup) {
	e := g.witnessEntry()
	if e == nil {
		return
	}
	h.Accepts, h.Judges = e.witness.sidesOf()
	h.Effect = firstLines(e.witness.Effect, textEffect, textEffectWidth, m.Options)
	if !m.Verbose && m.witness < htmlWitness {
		h.WitnessNote = "An object shows it; -v prints it."
		return
	}
	object := firstLines(e.witness.Object, htmlWitness, textWitnessWidth, m.Options)
	h.Fate, h.Witness, h.Outcome = markEffect(object, e.witness.Effect)
	h.Old = firstLines(e.witness.Old, htmlWitness, textWitnessWidth, m.Options)
	m.witness -= 2*strings.Count(object, "\n") + strings.Count(h.Old, "\n") + 3
	if e != g.leadEntry() {
		p := e.placeOf()
		h.WitnessNote = "For " + p.String() + "."
	}
}

// splitParagraphs splits the text of a rule's documentation.
func splitParagraphs(s string) []string {
	var all []string
	for p := range strings.SplitSeq(s, "\n\n") {
		if p = strings.Join(strings.Fields(p), " "); p != "" {
			all = append(all, p)
		}
	}
	return all
}
