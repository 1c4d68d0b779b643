package life

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/rules"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/input"
	"sluice.dev/report"
)

// changelog is the file, beside features.yaml, that gets a line.
const changelog = "CHANGELOG.md"

// Promote adds a stage to a feature, from a release on; with stage Removed it takes its markers away as well, and keeps its parts as a
// tombstone. The files are what is to be written. Where the law forbids it, there are none, and the report says why.
func (p *Project) Promote(ctx context.Context, gate string, stage v1alpha1.Stage, release string, day time.Time) (Outputs, *report.Report, error) {
	e, hint := p.File.entry(gate)
	if e == nil {
		return nil, nil, fmt.Errorf("%s has no feature %q%s", p.Name(), gate, hint)
	}
	if stageRank(stage) <= 0 {
		names := []string{"alpha", "beta", "stable", "deprecated"}
		return nil, nil, fmt.Errorf("there is no stage %q%s; the stages are %s", stage, brief.Hint(string(stage), names), strings.Join(names, ", "))
	}
	entry := v1alpha1.FeatureStage{Stage: stage, Release: release}
	next, err := p.with(gate, entry, release, day)
	if err != nil {
		return nil, nil, err
	}
	r, err := Verify(ctx, p.State(), next, day)
	if err != nil {
		return nil, nil, err
	}
	// Only what is said of this feature counts, not what was wrong before.
	r.CRDs = slices.DeleteFunc(r.CRDs, func(c report.CRD) bool { return c.Name != feature.ObjectName(p.File.Component, gate) })
	if r.Failing() > 0 {
		return nil, r, nil
	}
	out, err := p.edits(gate, entry)
	return out, r, err
}

// with is the state with another stage, in the release that is prepared.
func (p *Project) with(gate string, entry v1alpha1.FeatureStage, release string, day time.Time) (*State, error) {
	s := p.State()
	file := *p.File
	file.Features = slices.Clone(file.Features)
	s.File, s.Release = &file, release
	d := p.Declaration
	d.Spec.Release = release
	d.Features = slices.Clone(d.Features)
	for i := range d.Features {
		if d.Features[i].Gate == gate {
			d.Features[i].Stages = append(slices.Clone(d.Features[i].Stages), entry)
			file.Features[i].Stages = d.Features[i].Stages
		}
	}
	s.Features = d.Features
	var resources []feature.Resource
	for _, c := range p.CRDs {
		r, err := feature.ResourceOf(c)
		if err != nil {
			return nil, err
		}
		resources = append(resources, r)
	}
	component, features := d.Objects()
	model, findings := rules.Define(component, features, feature.Options{Date: day, Resources: resources})
	if err := findings.Of(gate).Err(); err != nil {
		return nil, err
	}
	s.Model = model
	return s, nil
}

// edits are the files that change: features.yaml, the Go files with markers of a feature that is removed, and the change log.
func (p *Project) edits(gate string, entry v1alpha1.FeatureStage) (Outputs, error) {
	name := p.Name()
	data, err := os.ReadFile(name) //nolint:gosec // the file that the user names
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(p.File.Features, func(e Entry) bool { return e.Gate == gate })
	lines := strings.SplitAfter(string(data), "\n")
	text := fmt.Sprintf("{stage: %s, release: %s}", entry.Stage, entry.Release)
	if lines, err = p.addStage(lines, i, text); err != nil {
		return nil, err
	}
	var out Outputs
	if entry.Stage == v1alpha1.Removed {
		if spec := p.State().spec(gate); len(p.File.Features[i].Parts) == 0 && len(spec.Parts) > 0 {
			parts, err := yaml.Marshal(spec.Parts)
			if err != nil {
				return nil, err
			}
			at, _ := p.File.at.Find(input.Steps(fmt.Sprintf("features[%d].gate", i))...)
			indent := strings.Repeat(" ", max(at.Column-1, 0))
			block := []string{indent + "parts: # what it gated: no field takes these names again\n"}
			for l := range strings.Lines(string(parts)) {
				block = append(block, indent+l)
			}
			lines = slices.Insert(lines, at.Line, block...) // behind the line of the gate
		}
		markers, err := p.withoutMarkers(gate)
		if err != nil {
			return nil, err
		}
		out = append(out, markers...)
	}
	out = append(out, outFile{name, []byte(strings.Join(lines, ""))})
	what := fmt.Sprintf("- Feature `%s` is %s from %s on.\n", gate, lower(entry.Stage), entry.Release)
	log := filepath.Join(p.File.dir, changelog)
	if data, err := os.ReadFile(log); err == nil { //nolint:gosec // beside the file that the user names
		out = append(out, outFile{log, []byte(addLine(string(data), what))})
	}
	return out, nil
}

// addStage writes a stage behind the last one, in a list of either style.
func (p *Project) addStage(lines []string, i int, text string) ([]string, error) {
	n := len(p.File.Features[i].Stages)
	list, _ := p.File.at.Find(input.Steps(fmt.Sprintf("features[%d].stages", i))...)
	last, _ := p.File.at.Find(input.Steps(fmt.Sprintf("features[%d].stages[%d]", i, n-1))...)
	if line := lines[last.Line-1]; last.Line == list.Line {
		end := strings.LastIndexByte(line, ']')
		if end < 0 {
			return nil, fmt.Errorf("%s:%d: the stages go over several lines in brackets: write them as a list of lines", p.Name(), last.Line)
		}
		lines[last.Line-1] = line[:end] + ", " + text + line[end:]
		return lines, nil
	}
	line := lines[last.Line-1]
	dash := len(line) - len(strings.TrimLeft(line, " "))
	if !strings.HasPrefix(line[dash:], "-") {
		return nil, fmt.Errorf("%s:%d: the stages are to be a list of lines that begin with -", p.Name(), last.Line)
	}
	end := last.Line
	for end < len(lines) && (len(lines[end])-len(strings.TrimLeft(lines[end], " ")) > dash) {
		end++
	}
	if !strings.HasSuffix(lines[end-1], "\n") {
		lines[end-1] += "\n"
	}
	return slices.Insert(lines, end, strings.Repeat(" ", dash)+"- "+text+"\n"), nil
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

// addLine puts a line at the end of the list below the first heading of the second level that has one, or at the end.
func addLine(text, line string) string {
	_, rest, ok := strings.Cut("\n"+text, "\n## ")
	if !ok {
		return text + line
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
