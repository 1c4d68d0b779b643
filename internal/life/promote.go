package life

// How does a feature get its next stage? The law is asked first. Then the entry is added to the text of
// features.yaml, which keeps its form and its comments, and the change log gets a line. For example, promote
// Banner --stage beta adds {stage: Beta, release: v1.3.0}.

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/input"
	"sluice.dev/report"
)

// changelog is the file, beside features.yaml, that gets a line.
const changelog = "CHANGELOG.md"

// Promote adds a stage to a feature, changes its default or locks its gate, from a release on. Without a stage, the present one stays. With stage Removed it
// also deletes the feature's markers. If the feature is off then, it keeps its parts as a tombstone; if it is on, only the gate goes. It returns the files to write. If the law forbids the step, there are none, and the report says why.
func (p *Project) Promote(ctx context.Context, gate string, entry v1alpha1.FeatureStage, day time.Time) (Outputs, *report.Report, error) {
	e, hint := p.File.entryOf(gate)
	if e == nil {
		return nil, nil, fmt.Errorf("%s has no feature %q%s", p.Name(), gate, hint)
	}
	last := &e.Stages[len(e.Stages)-1]
	entry.Stage = cmp.Or(entry.Stage, last.Stage)
	if entry.LockToDefault && entry.Stage == last.Stage && entry.Default == nil {
		entry.Default = last.Default
	}
	stage, before := entry.Stage, feature.Feature{Spec: e.FeatureSpec}
	flips := entry.Default != nil && *entry.Default != before.Defaults()[len(e.Stages)-1]
	if stageRank(stage) <= 0 {
		names := []string{"alpha", "beta", "stable", "deprecated"}
		return nil, nil, fmt.Errorf("there is no stage %q%s; the stages are %s", stage, brief.Hint(string(stage), names), strings.Join(names, ", "))
	}
	if last.Stage == stage && !flips && (last.LockToDefault || !entry.LockToDefault) {
		i := slices.IndexFunc(p.File.Features, func(o Entry) bool { return o.Gate == gate })
		where := fmt.Sprintf("features[%d].stages[%d]", i, len(e.Stages)-1)
		is := lowerStage(stage)
		if entry.Default != nil {
			is += ", and " + feature.OnOff(*entry.Default) + " by default,"
		}
		if entry.LockToDefault {
			is += " and locked"
		}
		return nil, nil, p.File.problemAt(where, "%s is %s from %s on already: there is no step to write", gate, is, feature.Since(last))
	}
	next, err := p.stateWithStage(gate, entry, day)
	if err != nil {
		return nil, nil, err
	}
	r, err := Verify(ctx, p.State(), next, day)
	if err != nil {
		return nil, nil, err
	}
	// Only findings about this feature count, not earlier ones.
	r.CRDs = slices.DeleteFunc(r.CRDs, func(c report.CRD) bool { return c.Name != feature.ObjectName(p.File.Component, gate) })
	if r.Failing() > 0 {
		return nil, r, nil
	}
	out, err := p.editsFor(ctx, next.Model.Feature(gate), entry)
	return out, r, err
}

// stateWithStage is the state with another stage, in the release in preparation.
func (p *Project) stateWithStage(gate string, entry v1alpha1.FeatureStage, day time.Time) (*State, error) {
	s := p.State()
	file := *p.File
	file.Features = slices.Clone(file.Features)
	s.File, s.Release = &file, entry.Release
	d := p.Declaration
	d.Spec.Release = entry.Release
	d.Features = slices.Clone(d.Features)
	for i := range d.Features {
		if d.Features[i].Gate == gate {
			d.Features[i].Stages = append(slices.Clone(d.Features[i].Stages), entry)
			file.Features[i].Stages = d.Features[i].Stages
		}
	}
	s.Features = d.Features
	component, features := d.Objects()
	model, findings, err := defineFor(component, features, p.CRDs, day)
	if err != nil {
		return nil, err
	}
	if wrong := p.problemsOfStage(gate, findings.Of(gate)); wrong != nil {
		return nil, wrong
	}
	s.Model = model
	return s, nil
}

// problemsOfStage are the errors of a feature with another stage, at the stage that is the last one now; nil if there are none.
func (p *Project) problemsOfStage(gate string, findings feature.Findings) error {
	i := slices.IndexFunc(p.File.Features, func(e Entry) bool { return e.Gate == gate })
	var wrong Problems
	for _, x := range findings {
		if x.Severity == feature.Error {
			wrong = append(wrong, p.File.problemAt(fmt.Sprintf("features[%d].stages[%d]", i, len(p.File.Features[i].Stages)-1), "%s: %s", gate, x.Message)...)
		}
	}
	return wrong.asError()
}

// editsFor are the files that change: features.yaml, the Go files with markers of a feature that is removed, and the change log, which is made if
// it is missing.
func (p *Project) editsFor(ctx context.Context, f *feature.Feature, entry v1alpha1.FeatureStage) (Outputs, error) {
	name, gate := p.Name(), f.Spec.Gate
	data, err := os.ReadFile(name) //nolint:gosec // the file that the user names
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(p.File.Features, func(e Entry) bool { return e.Gate == gate })
	var out Outputs
	var parts []v1alpha1.Part
	if entry.Stage == v1alpha1.Removed {
		if spec := p.State().specOf(gate); len(p.File.Features[i].Parts) == 0 && !f.GateGone() {
			parts = spec.Parts
		}
		markers, err := p.withoutMarkers(gate)
		if err != nil {
			return nil, err
		}
		out = append(out, markers...)
	}
	text, err := p.withStage(ctx, data, i, entry, parts)
	if err != nil {
		return nil, err
	}
	out = append(out, outFile{name, text})
	log := filepath.Join(p.File.dir, changelog)
	data, err = os.ReadFile(log) //nolint:gosec // beside the file that the user names
	if errors.Is(err, os.ErrNotExist) {
		data, err = fmt.Appendf(nil, "# Changelog\n\n## %s\n", entry.Release), nil
	}
	if err != nil {
		return nil, err
	}
	plain, restore := unixLines(data)
	return append(out, outFile{log, restore(addLine(plain, entry.Release, changeLine(f, &entry)))}), nil
}

// changeLine describes a new stage of a feature in the change log.
func changeLine(f *feature.Feature, entry *v1alpha1.FeatureStage) string {
	gate := f.Spec.Gate
	switch {
	case f.GateGone():
		return fmt.Sprintf("- The gate `%s` is removed from %s on: the feature is always on.\n", gate, entry.Release)
	case entry.Stage == v1alpha1.Removed:
		return fmt.Sprintf("- Feature `%s` is withdrawn from %s on: it is always off, and what it gated can no longer be used.\n", gate, entry.Release)
	case entry.LockToDefault:
		return fmt.Sprintf("- Feature `%s` (%s) is always %s from %s on: its gate is locked.\n", gate, lowerStage(entry.Stage), feature.OnOff(f.Default), entry.Release)
	}
	byDefault := ""
	if entry.Default != nil {
		byDefault = ", and " + feature.OnOff(*entry.Default) + " by default,"
	}
	return fmt.Sprintf("- Feature `%s` is %s%s from %s on.\n", gate, lowerStage(entry.Stage), byDefault, entry.Release)
}

// withStage is features.yaml with another stage of a feature, and with its parts if there are any. It reads the new text again, to
// check that it has the stage and that nothing else has changed.
func (p *Project) withStage(ctx context.Context, data []byte, i int, entry v1alpha1.FeatureStage, parts []v1alpha1.Part) ([]byte, error) {
	want := slices.Clone(p.File.Features)
	want[i].Stages = append(slices.Clone(want[i].Stages), entry)
	if len(parts) > 0 {
		want[i].Parts = parts
	}
	plain, restore := unixLines(data)
	ways, err := p.waysToAdd(strings.SplitAfter(plain, "\n"), i, stageLine(&entry), parts)
	if err != nil {
		return nil, err
	}
	for _, way := range ways {
		if next, err := parseFile(ctx, p.Name(), []byte(way)); err == nil && equality.Semantic.DeepEqual(next.Features, want) {
			return restore(way), nil
		}
	}
	return nil, p.File.problemAt(fmt.Sprintf("features[%d].stages", i), "the stages are to be a list of lines that begin with -, or a list in brackets on one line")
}

// stageLine is a stage as it stands in features.yaml.
func stageLine(s *v1alpha1.FeatureStage) string {
	more := ""
	if s.Default != nil {
		more += fmt.Sprintf(", default: %t", *s.Default)
	}
	if s.LockToDefault {
		more += ", lockToDefault: true"
	}
	release := s.Release
	if release != "" && release[0] != 'v' { // a number, for example
		release = strconv.Quote(release)
	}
	return fmt.Sprintf("{stage: %s, release: %s%s}", s.Stage, release, more)
}

// waysToAdd are the possible texts with the new stage behind the last one. In a list of lines there is one way. In brackets there is
// one for each bracket of the line that closes a list, and only one of them is right. A feature in braces has its parts there, too.
func (p *Project) waysToAdd(lines []string, i int, stage string, parts []v1alpha1.Part) (ways []string, err error) {
	n := len(p.File.Features[i].Stages)
	find := func(where string, args ...any) report.Position {
		at, _ := p.File.at.Find(input.Steps(fmt.Sprintf("features[%d].", i) + fmt.Sprintf(where, args...))...)
		return at
	}
	gate, last := find("gate"), find("stages[%d]", n-1)
	// A feature in braces stands on one line, or begins with the brace in front of its gate.
	braces := strings.HasSuffix(strings.TrimRight(lines[gate.Line-1][:max(gate.Column-1, 0)], " "), "{") || gate.Line == last.Line
	inBraces, inLines, err := partsText(parts, max(gate.Column-1, 0))
	if err != nil {
		return nil, err
	}
	write := func(from, to int, text ...string) {
		out := slices.Concat(lines[:from], text, lines[to:])
		if !braces { // behind the line of the gate
			at := gate.Line
			if at > from {
				at += len(text) - (to - from)
			}
			out = slices.Insert(out, at, inLines...)
		}
		ways = append(ways, strings.Join(out, ""))
	}
	// The last stage tells the form of the list: its line begins with - in a list of lines.
	line := lines[last.Line-1]
	if indent := len(line) - len(strings.TrimLeft(line, " ")); last.Line != find("stages").Line && strings.HasPrefix(line[indent:], "-") {
		end := last.Line
		for end < len(lines) && len(lines[end])-len(strings.TrimLeft(lines[end], " ")) > indent {
			end++
		}
		added := strings.Repeat(" ", indent) + "- " + stage + "\n"
		if before := lines[end-1]; strings.HasSuffix(before, "\n") {
			write(end, end, added)
		} else {
			write(end-1, end, before+"\n", added)
		}
		return ways, nil
	}
	for k := range line {
		if line[k] != ']' {
			continue
		}
		after := line[k:]
		if braces && inBraces != "" {
			after = "], parts: " + inBraces + line[k+1:]
		}
		write(last.Line-1, last.Line, line[:k]+", "+stage+after)
	}
	return ways, nil
}

// partsText writes the parts of a feature as a list in braces, and as lines with an indent.
func partsText(parts []v1alpha1.Part, indent int) (inBraces string, inLines []string, err error) {
	if len(parts) == 0 {
		return "", nil, nil
	}
	short, err := json.Marshal(parts)
	if err != nil {
		return "", nil, err
	}
	long, err := yaml.Marshal(parts)
	if err != nil {
		return "", nil, err
	}
	space := strings.Repeat(" ", indent)
	inLines = []string{space + "parts: # what it gated: no field takes these names again\n"}
	for l := range strings.Lines(string(long)) {
		inLines = append(inLines, space+l)
	}
	return string(short), inLines, nil
}

// unixLines returns a text with \n at the end of its lines, and a function that restores \r\n if the text had it.
func unixLines(data []byte) (text string, restore func(string) []byte) {
	if !bytes.Contains(data, []byte("\r\n")) {
		return string(data), func(s string) []byte { return []byte(s) }
	}
	return strings.ReplaceAll(string(data), "\r\n", "\n"), func(s string) []byte { return []byte(strings.ReplaceAll(s, "\n", "\r\n")) }
}

// withoutMarkers are the Go files without the markers of a feature.
func (p *Project) withoutMarkers(gate string) (out Outputs, err error) {
	byFile := map[string][]int{}
	for i := range p.api.marks {
		if m := &p.api.marks[i]; m.gate == gate && m.loosen == nil && !slices.Contains(byFile[m.file], m.line) {
			byFile[m.file] = append(byFile[m.file], m.line)
		}
	}
	for _, file := range sortedKeys(byFile) {
		data, err := os.ReadFile(file) //nolint:gosec // a file of the package
		if err != nil {
			return nil, err
		}
		lines := strings.SplitAfter(string(data), "\n")
		for _, n := range slices.Backward(slices.Sorted(slices.Values(byFile[file]))) {
			if n <= len(lines) && strings.HasPrefix(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(lines[n-1]), "//")), markerPrefix) {
				lines = slices.Delete(lines, n-1, n)
			}
		}
		out = append(out, outFile{file, []byte(strings.Join(lines, ""))})
	}
	return out, nil
}

// anyVersion matches a version in a heading, such as 1.3 or v1.3.0.
var anyVersion = regexp.MustCompile(`[0-9]+\.[0-9]+`)

// addLine puts a line at the end of the list below the first heading of the second level, or at the end if there is none. If that heading
// names another version, which is out, the release gets a heading of its own before it.
func addLine(text, release, line string) string {
	_, rest, ok := strings.Cut("\n"+text, "\n## ")
	if !ok {
		return text + line
	}
	title, _, _ := strings.Cut(rest, "\n")
	if anyVersion.MatchString(title) && !strings.Contains(title, strings.TrimPrefix(release, "v")) {
		at := len(text) - len(rest) - len("## ")
		return text[:at] + "## " + release + "\n\n" + line + "\n" + text[at:]
	}
	head := len(text) - len(rest)
	section, after, more := strings.Cut(rest, "\n## ")
	section = strings.TrimRight(section, "\n") + "\n"
	if !strings.Contains(section, "\n- ") {
		section += "\n"
	}
	section += line
	if more {
		section += "\n## " + after
	}
	return text[:head] + section
}
