package report

// What happens to a witness, and where? The effect of a finding names a place in words; this file finds the
// lines of that place in the YAML of the object. For example, for "spec.legacy is dropped" the page strikes out
// the lines of legacy.

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// run is a piece of a witness. Mark is the element that it is shown in: mark for the part that a finding is about, del for what is dropped, ins for what
// is filled in; empty for none.
type run struct{ Mark, Text string }

// effectForm takes an effect apart: a path, and what happens there.
var effectForm = regexp.MustCompile(`^(\.?[^ :]+)(: | is dropped| is left out| is filled in with (.*))`)

// markEffect shows on a witness, which is YAML, what becomes of it. fate says it in two words. It is empty if the effect names no place in
// the object; then nothing is marked.
func markEffect(witness, effect string) (fate string, accepted, outcome []run) {
	plain := []run{{"", witness}}
	m := effectForm.FindStringSubmatch(strings.SplitN(effect, "\n", 2)[0])
	var doc yaml.Node
	if m == nil || yaml.Unmarshal([]byte(witness), &doc) != nil || len(doc.Content) != 1 {
		return "", plain, nil
	}
	lines := strings.SplitAfter(witness, "\n")
	p := findPart(doc.Content[0], strings.Trim(m[1], "."), len(lines))
	switch {
	case m[3] != "" && p.missing != "":
		return "fills in another value", plain, withLine(lines, p, m[3])
	case m[3] != "" || m[2] == " is left out":
		return "leaves a default out", plain, plain
	case m[2] == " is dropped" && p.missing == "":
		return "drops data", markLines(lines, p, "mark"), markLines(lines, p, "del")
	case m[2] == ": " && p.missing == "":
		return "refuses it", plain, markLines(lines, p, "mark")
	case m[2] == ": " && p.first > 0:
		p.end = p.first + 1
		return "refuses it", plain, markLines(lines, p, "mark")
	}
	return "", plain, nil
}

// part is where a part of an object stands in its text: from the line first, which counts from 0, to before the line end. If the text lacks the
// part, its name is missing, and the lines are those of the part around it, whose fields have this indent.
type part struct {
	first, end, indent int
	missing            string
}

var pathStep = regexp.MustCompile(`[^.\[\]]+|\[[^\]]*\]`)

// findPart follows a path such as spec.tasks[0].name from a node that ends before the line end.
// A step that is a number is an item of a list, any other one a key. Text in flow style, such as {a: 1}, has all its
// parts in one line, so the whole line is marked.
func findPart(n *yaml.Node, path string, end int) part {
	p := part{end: end, indent: n.Column - 1}
	for _, step := range pathStep.FindAllString(path, -1) {
		name := strings.Trim(step, "[]")
		key, value, last := childOf(n, name, p.end)
		if value == nil {
			p.missing = name
			return p
		}
		n = value
		p = part{first: key.Line - 1, end: max(last, key.Line), indent: n.Column - 1}
		if n.Style&yaml.FlowStyle != 0 {
			p.indent = key.Column + 1
		}
	}
	return p
}

// childOf returns the key and the value of a part of n, and the line that it ends before; of an item of a list, both are the item.
// A key that occurs twice cannot be in a witness; the first would count. last is the line before that of the next
// part, and end for the last part.
func childOf(n *yaml.Node, name string, end int) (key, value *yaml.Node, last int) {
	step := 1
	switch n.Kind {
	case yaml.MappingNode:
		step = 2
	case yaml.SequenceNode:
	case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
		return nil, nil, 0
	}
	for i := 0; i+step <= len(n.Content); i += step {
		if step == 2 && n.Content[i].Value != name || step == 1 && strconv.Itoa(i) != name {
			continue
		}
		if i+step < len(n.Content) {
			end = n.Content[i+step].Line - 1
		}
		return n.Content[i], n.Content[i+step-1], end
	}
	return nil, nil, 0
}

// markLines splits the text of a witness in three: before the part, the part with the mark, and after it.
func markLines(lines []string, p part, mark string) []run {
	join := func(lines []string) string { return strings.Join(lines, "") }
	return []run{{"", join(lines[:p.first])}, {mark, join(lines[p.first:p.end])}, {"", join(lines[p.end:])}}
}

// withLine adds the missing field of a part at its end, with the value of an effect: VALUE, or VALUE instead of VALUE.
func withLine(lines []string, p part, effect string) []run {
	value, was, _ := strings.Cut(effect, " instead of ")
	line := strings.Repeat(" ", p.indent) + p.missing + ": " + value
	if was != "" {
		line += "  # was " + was
	}
	before, after := strings.TrimSuffix(strings.Join(lines[:p.end], ""), "\n"), strings.Join(lines[p.end:], "")
	if after != "" {
		after = "\n" + after
	}
	return []run{{"", before + "\n"}, {"ins", line}, {"", after}}
}
