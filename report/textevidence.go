package report

// Where is a finding, and which object shows it? The places of a group, and the witness in a few lines or in one.

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"sluice.dev/internal/brief"
)

// densePlace is the end of a line about a group: its place, or the first one of several below the part that they share, its source and its values.
// The values are left out if the message has them, and the file if the header of the CRD has it.
func (t *textPrinter) densePlace(g *group) string {
	p := g.places[0]
	text := ", "
	if len(g.places) > 1 {
		t.cut = true
		text, p.path = ", first ", strings.TrimPrefix(p.path, g.under)
	}
	switch {
	case p.isWholeCRD():
		text = ""
	default:
		text += p.String()
	}
	switch at := p.at; {
	case at.file == "":
	case at.file == t.file && at.line != "":
		text += styleFaint + " (line " + at.line + ")" + styleEnd
	case at.file != t.file:
		text += styleFaint + " (" + at.String() + ")" + styleEnd
	}
	if change := p.changeText(); change != "" && !p.isToldIn(g.message) {
		text += ": " + change
	}
	return text
}

// isToldIn reports whether a message has both values of a place.
// A value without a message around it would be told twice otherwise, as in "maximum lowered from 10 to 5: 10 → 5".
func (p *place) isToldIn(message string) bool {
	for _, value := range []string{p.before, p.after} {
		word := strings.Trim(value, `"`)
		told := value == "" || strings.Contains(message, strconv.Quote(value)) || word == "" && strings.Contains(message, value) || replaceWord(message, word, "") != message
		if !told {
			return false
		}
	}
	return true
}

// printPlaces lists the places of a group, and their values.
// Values stand behind each place if they differ between places, and once at the end otherwise.
func (t *textPrinter) printPlaces(g *group, add func(indent, hang int, text string)) {
	sources := g.sourcePositions()
	for i := range g.places {
		if !t.Verbose && i == textPlaces && len(g.places) > textPlaces+1 {
			add(6, 2, fmt.Sprintf("… and %s", brief.Count(len(g.places)-i, "more place")))
			t.cut = true
			break
		}
		p, at := &g.places[i], sources[i]
		if len(g.places) == 1 && p.isWholeCRD() && at == "" {
			break
		}
		text := p.String()
		if g.varied && p.changeText() != "" {
			text += ": " + p.changeText()
		}
		if at != "" {
			text += styleFaint + " (" + at + ")" + styleEnd
		}
		add(6, 2, text)
	}
	if p := &g.places[0]; !g.varied && p.changeText() != "" {
		add(6, 2, p.changeText())
	}
}

// printEvidence prints the witness of a group, or with Verbose all witnesses. It returns the number of lines that these have.
// There are three amounts: all witnesses in full, one witness within the lines that are left, and a hint that there
// is one. A dense text writes a short witness in one line.
func (t *textPrinter) printEvidence(g *group, d detail) (int, []textLine) {
	first := g.witnessEntry()
	if first == nil {
		return 0, nil
	}
	if t.Verbose {
		var lines []textLine
		for i := range g.entries {
			if e := &g.entries[i]; e.witness != nil {
				_, more := t.printWitness(e, len(g.entries) > 1, 0)
				lines = append(lines, more...)
			}
		}
		return 0, lines
	}
	limit := min(t.each, t.witness)
	switch {
	case t.dense && d == inFull:
		if lines := first.witnessLines(); lines != nil {
			t.cut = true
			return 0, append(lines, t.effectLines(first, first == g.leadEntry())...)
		}
		fallthrough
	case d < inFull || limit < textSlack:
		t.cut = true
		return 0, append([]textLine{{indent: 6, text: styleFaint + "an object shows it (-v)" + styleEnd}}, t.effectLines(first, first == g.leadEntry())...)
	}
	return t.printWitness(first, first != g.leadEntry(), limit)
}

// witnessLines shows a witness in one line for each object, without the parts that all objects have; nil if the lines are long.
// Two lines are needed for rules about updates: the stored object, and the update of it.
func (e *entry) witnessLines() []textLine {
	accepting, _ := e.witness.sidesOf()
	titles := map[string]string{accepting + " accepts: ": e.witness.Object}
	order := []string{accepting + " accepts: "}
	if e.witness.Old != "" {
		order = []string{"a stored object: ", "an update of it: "}
		titles = map[string]string{order[0]: e.witness.Old, order[1]: e.witness.Object}
	}
	var lines []textLine
	for _, title := range order {
		text := contentInOneLine(titles[title])
		if text == "" || len(text) > textOneLine {
			return nil
		}
		lines = append(lines, textLine{indent: 6, hang: 2, text: title + text})
	}
	return lines
}

// contentInOneLine writes a manifest as one line without its apiVersion and kind, and without metadata that has only a name; empty if it
// cannot, or if the line would be long.
// apiVersion and kind are the same for all objects of a CRD, and each has a name. What is left is what the
// finding is about.
func contentInOneLine(manifest string) string {
	var doc yaml.Node
	if len(manifest) > 20*textOneLine || yaml.Unmarshal([]byte(manifest), &doc) != nil || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return ""
	}
	root := doc.Content[0]
	var kept []*yaml.Node
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i].Value, root.Content[i+1]
		if key == "apiVersion" || key == "kind" || key == "metadata" && namesOnly(value) {
			continue
		}
		kept = append(kept, root.Content[i], value)
	}
	root.Content = kept
	setFlowStyle(root)
	return flowText(root)
}

// namesOnly reports whether metadata has nothing but a name and a namespace.
func namesOnly(metadata *yaml.Node) bool {
	for i := 0; i < len(metadata.Content); i += 2 {
		if key := metadata.Content[i].Value; key != "name" && key != "namespace" {
			return false
		}
	}
	return true
}

// setFlowStyle puts all of a value into one line. Texts of several lines become strings in quotes.
func setFlowStyle(n *yaml.Node) {
	if n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode {
		n.Style = yaml.FlowStyle
	}
	if n.Style == yaml.LiteralStyle || n.Style == yaml.FoldedStyle {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		setFlowStyle(child)
	}
}

// printWitness prints one witness, with about limit lines for each object (0: all), and the effect on it.
// named adds the place, because the witness is that of another finding of the group than the first.
func (t *textPrinter) printWitness(e *entry, named bool, limit int) (int, []textLine) {
	var lines []textLine
	of := ""
	if named {
		p := place{path: e.Path}
		if e.Version != "" {
			p.versions = []string{e.Version}
		}
		of = ", for " + p.String()
	}
	shown := 0
	accepting, _ := e.witness.sidesOf()
	block := func(title, raw string, limit int) {
		lines = append(lines, textLine{indent: 6, hang: 2, text: title})
		width := textWitnessWidth
		if t.Verbose {
			width = 0
		}
		if n := strings.Count(strings.TrimRight(raw, "\n"), "\n") + 1; n <= limit+textSlack {
			limit = 0
		}
		yaml, more := visibleLines(raw, limit, width)
		for _, s := range yaml {
			lines = append(lines, textLine{indent: 10, text: s, fixed: true})
		}
		shown += len(yaml)
		if more > 0 {
			t.cut = true
			lines = append(lines, textLine{indent: 10, text: fmt.Sprintf("%s… %s (-v)%s", styleFaint, brief.Count(more, "more line"), styleEnd)})
		}
	}
	if e.witness.Old != "" {
		block("a stored object"+of+":", e.witness.Old, limit)
		block("an update of it that "+accepting+" accepts:", e.witness.Object, limit)
	} else {
		block(accepting+" accepts"+of+":", e.witness.Object, limit)
	}
	return shown, append(lines, t.effectLines(e, false)...)
}

// effectLines describes what the CRD does to a witness, in the words of the code that confirmed it. placed says that the line above has the path.
// The first line begins with the CRD that judges the object, the others continue its text.
func (t *textPrinter) effectLines(e *entry, placed bool) []textLine {
	limit, width := textEffect, textEffectWidth
	if t.Verbose {
		limit, width = 0, 0
	}
	_, judging := e.witness.sidesOf()
	effect := e.witness.Effect
	if t.dense && placed {
		effect = e.withoutPath(effect)
	}
	said, more := visibleLines(effect, limit, width)
	var lines []textLine
	for i, s := range said {
		if i == 0 {
			lines = append(lines, textLine{indent: 6, hang: 2, text: judging + ": " + s})
		} else {
			lines = append(lines, textLine{indent: 8, hang: 2, text: s})
		}
	}
	if more > 0 {
		lines = append(lines, textLine{indent: 8, text: fmt.Sprintf("… %s (-v)", brief.Count(more, "more line"))})
	}
	return lines
}

// withoutPath puts a mark in place of the path of a finding in the words about its witness, where items have a number: spec.a[0].b for .spec.a[*].b.
// The effect of a witness has indexes where the path of a finding has [*], so the path becomes a pattern.
// Short paths stay, because a mark would hide more than it saves.
func (e *entry) withoutPath(effect string) string {
	path := strings.TrimPrefix(e.Path, ".")
	if strings.Count(path, ".") < 2 || len(path) > pathWidth {
		return effect // there is little to save
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(path), `\[\*\]`, `\[(?:\d+|\*)\]`)
	expression, err := regexp.Compile(`\.?\b` + pattern + `\b`)
	if err != nil {
		return effect
	}
	return expression.ReplaceAllString(effect, "…")
}
