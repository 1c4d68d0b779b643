package life

// What does the documentation of a component say about its features? The content is collected as data, which a
// template turns into Markdown, and which -o json prints as it is. Release notes are the changes between two
// releases, by the history in features.yaml.

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"strconv"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/report"
)

// templates are those of documentation and release notes, which [Docs] fills in, of Go code and of a new features.yaml.
//
//go:embed *.tmpl
var templates embed.FS

// Docs is the content of the documentation of a component. Templates get it.
type Docs struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Component  string `json:"component"`
	Release    string `json:"release,omitempty"`
	// Header names the command that generates the file.
	Header   string       `json:"-"`
	Features []FeatureDoc `json:"features"`
	// CRDs are the CRDs with gated parts, and gated resources without a known CRD.
	CRDs []CRDDoc `json:"crds"`
	// Notes are nil unless two releases are compared.
	Notes *Notes `json:"notes,omitempty"`
}

// FeatureDoc is a feature.
type FeatureDoc struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Stage is in small letters; planned before the first release that has it. Since is the release, or the day, of the stage.
	Stage string `json:"stage"`
	Since string `json:"since"`
	// Default is what is in effect while nothing is set: on, off, always on or always off. Why says what decides that, if it is not the stage.
	Default string `json:"default"`
	Why     string `json:"why,omitempty"`
	// Change says, in Markdown, which setting gives the other value.
	Change        string     `json:"change"`
	Requires      []string   `json:"requires,omitempty"`
	ImpliedBy     []string   `json:"impliedBy,omitempty"`
	Documentation string     `json:"documentation,omitempty"`
	Parts         []PartDoc  `json:"parts,omitempty"`
	Stages        []StageDoc `json:"stages"`
}

// PartDoc is a part of an API that a feature gates.
type PartDoc struct {
	// CRD is the resource with its group, Versions are those that have the part, empty for all.
	CRD      string   `json:"crd"`
	Versions []string `json:"versions,omitempty"`
	// Text describes the gated part of the CRD, in Markdown.
	Text string `json:"text"`
}

// StageDoc is an entry of the history.
type StageDoc struct {
	Stage   string `json:"stage"`
	Since   string `json:"since"`
	Default string `json:"default"`
}

// CRDDoc is a CRD with the features that gate parts of it.
type CRDDoc struct {
	Name  string    `json:"name"`
	Kind  string    `json:"kind,omitempty"`
	Gates []GateDoc `json:"gates"`
}

// GateDoc is a part of a CRD with its feature.
type GateDoc struct {
	Feature *FeatureDoc `json:"-"`
	Name    string      `json:"feature"`
	PartDoc `json:",inline"`
}

// Notes are the changes after one release, up to another.
type Notes struct {
	From   string      `json:"from"`
	To     string      `json:"to"`
	Groups []NoteGroup `json:"groups"`
}

// NoteGroup is a heading with its lines.
type NoteGroup struct {
	Title string `json:"title"`
	Lines []Note `json:"lines"`
}

// Note is a change of a feature.
type Note struct {
	Feature string `json:"feature"`
	// Text is in Markdown, and contains the name.
	Text string `json:"text"`
}

// Docs collects the content of the documentation.
func (p *Project) Docs() *Docs {
	d := &Docs{
		APIVersion: report.APIVersion, Kind: "FeatureDocs", Component: p.File.Component, Release: p.File.Spec.Release,
		Header: sentenceCase(p.generatedHeader()), Features: []FeatureDoc{}, CRDs: []CRDDoc{},
	}
	states := p.Model.Defaults()
	for _, f := range p.Model.Features() {
		x := FeatureDoc{
			Name: f.Spec.Gate, Description: strings.TrimSpace(f.Spec.Description), Change: p.howTo(f, states), Requires: f.Spec.Requires, ImpliedBy: f.Spec.ImpliedBy, Parts: partsDoc(f),
		}
		x.Stage, x.Since = stageOf(f)
		x.Default, x.Why = defaultOf(f, states)
		if e, _ := p.File.entryOf(f.Spec.Gate); e != nil {
			x.Documentation = e.Documentation
		}
		defaults := f.DefaultsInEffect()
		for i := range f.Spec.Stages {
			s := &f.Spec.Stages[i]
			x.Stages = append(x.Stages, StageDoc{lowerStage(s.Stage), feature.Since(s), onOff(defaults[i], s.LockToDefault || s.Stage == v1alpha1.Removed)})
		}
		// The present entry shows what is in effect with the level and the other features, which its history alone does not tell.
		if f.Entry >= 0 {
			x.Stages[f.Entry].Default = x.Default
		}
		d.Features = append(d.Features, x)
	}
	for i := range d.Features {
		for _, part := range d.Features[i].Parts {
			c := d.docOf(part.CRD)
			for _, known := range p.CRDs {
				if known.Name == part.CRD {
					c.Kind = known.Spec.Names.Kind
				}
			}
			c.Gates = append(c.Gates, GateDoc{&d.Features[i], d.Features[i].Name, part})
		}
	}
	return d
}

// docOf finds a CRD by name, or adds it.
func (d *Docs) docOf(name string) *CRDDoc {
	for i := range d.CRDs {
		if d.CRDs[i].Name == name {
			return &d.CRDs[i]
		}
	}
	d.CRDs = append(d.CRDs, CRDDoc{Name: name})
	return &d.CRDs[len(d.CRDs)-1]
}

// onOff is a default in words.
func onOff(on, fixed bool) string {
	if fixed {
		return "always " + feature.OnOff(on)
	}
	return feature.OnOff(on)
}

// sentenceCase begins a text with a capital. The text must not be empty.
func sentenceCase(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// Notes collects the changes after release from, up to release to.
func (p *Project) Notes(from, to string) (*Notes, error) {
	for _, r := range []string{from, to} {
		if _, err := semver.NewVersion(r); err != nil {
			return nil, fmt.Errorf("%q is no version such as v1.2.0", r)
		}
	}
	if !isNewerRelease(to, from) {
		return nil, fmt.Errorf("%s does not come after %s, so there is nothing between them", to, from)
	}
	n := &Notes{From: from, To: to, Groups: []NoteGroup{}}
	lines := map[string][]Note{} // by title
	for _, f := range p.Model.Features() {
		gate, defaults := f.Spec.Gate, f.DefaultsInEffect()
		for i := range f.Spec.Stages {
			s := &f.Spec.Stages[i]
			in, err := p.File.beganBetween(s, from, to)
			if err != nil {
				return nil, fmt.Errorf("stage %s of %s: %w", lowerStage(s.Stage), gate, err)
			}
			if !in {
				continue
			}
			title, text := noteOf(f, i, defaults)
			lines[title] = append(lines[title], Note{gate, text})
		}
		e, _ := p.File.entryOf(gate)
		for _, what := range sortedKeys(e.Announced) {
			if r := e.Announced[what]; isNewerRelease(r, from) && !isNewerRelease(r, to) {
				lines["Announced"] = append(lines["Announced"], Note{gate, fmt.Sprintf(announcements[what], gate, r) + howToKeep(f, defaultIn(f, r), what == "Default")})
			}
		}
	}
	for _, title := range []string{"New features", "Promoted", "Changed defaults", "Deprecated", "Removed", "Announced"} {
		if lines[title] != nil {
			n.Groups = append(n.Groups, NoteGroup{title, lines[title]})
		}
	}
	return n, nil
}

// noteOf describes the change of an entry of the history, and returns the title above it.
func noteOf(f *feature.Feature, i int, defaults []bool) (title, text string) {
	s, gate, on := &f.Spec.Stages[i], f.Spec.Gate, defaults[i]
	value := onOff(on, s.LockToDefault)
	keep := ""
	if i > 0 && s.Stage != v1alpha1.Removed {
		keep = howToKeep(f, defaults[i-1], on != defaults[i-1] && !s.LockToDefault)
	}
	switch {
	case s.Stage == v1alpha1.Removed && on:
		return "Removed", fmt.Sprintf("The gate `%s` is removed in %s: the feature is always on.", gate, feature.Since(s))
	case s.Stage == v1alpha1.Removed:
		return "Removed", fmt.Sprintf("`%s` is withdrawn in %s, and is always off.", gate, feature.Since(s))
	case i == 0:
		return "New features", strings.TrimSpace(fmt.Sprintf("`%s` (%s since %s, %s). %s", gate, lowerStage(s.Stage), feature.Since(s), value, strings.TrimSpace(f.Spec.Description)))
	case s.Stage == v1alpha1.Deprecated:
		return "Deprecated", fmt.Sprintf("`%s` is deprecated since %s, and %s.", gate, feature.Since(s), value) + keep
	case s.Stage != f.Spec.Stages[i-1].Stage:
		return "Promoted", fmt.Sprintf("`%s` is %s since %s, and %s. It was %s.", gate, lowerStage(s.Stage), feature.Since(s), value, lowerStage(f.Spec.Stages[i-1].Stage)) + keep
	}
	return "Changed defaults", fmt.Sprintf("`%s` is %s since %s.", gate, value, feature.Since(s)) + keep
}

// defaultIn is the default of a feature in a release.
func defaultIn(f *feature.Feature, release string) (on bool) {
	for i, d := range f.DefaultsInEffect() {
		if !isNewerRelease(f.Spec.Stages[i].Release, release) {
			on = d
		}
	}
	return on
}

// howToKeep says, if the default changes, which setting keeps the former behaviour.
func howToKeep(f *feature.Feature, was, changes bool) string {
	if !changes || !was && f.Spec.ImpliedByLevel { // a level that opens it wins over its key
		return ""
	}
	return fmt.Sprintf(" To keep it %s, set `%s: \"%t\"`.", feature.OnOff(was), f.Spec.Key, was != f.Spec.Inverted)
}

// announcements has a sentence for each kind of announcement in features.yaml.
var announcements = map[string]string{
	"Removed": "`%s` will be removed. It was announced in %s.",
	"Default": "The default of `%s` will change. It was announced in %s.",
}

// beganBetween reports whether a stage began after a release, up to another.
func (f *File) beganBetween(s *v1alpha1.FeatureStage, from, to string) (bool, error) {
	if s.Release != "" {
		return isNewerRelease(s.Release, from) && !isNewerRelease(s.Release, to), nil
	}
	after, okA := f.dayOfRelease(from)
	until, okB := f.dayOfRelease(to)
	if !okA || !okB {
		return false, fmt.Errorf("it begins on a day (%s), and releases does not record the days of %s and %s", s.Date, from, to)
	}
	return s.Date > after && s.Date <= until, nil
}

// dayOfRelease is the recorded day of a release.
func (f *File) dayOfRelease(release string) (string, bool) {
	for _, r := range f.Releases {
		if sameRelease(r.Release, release) {
			return r.Date, true
		}
	}
	return "", false
}

// Markdown executes the template in the file. Without a file, it uses the built-in template for documentation or for notes.
func (d *Docs) Markdown(file string) ([]byte, error) {
	switch {
	case file != "":
		text, err := os.ReadFile(file) //nolint:gosec // the file that the user names
		if err != nil {
			return nil, err
		}
		return fillTemplate(file, text, d)
	case d.Notes != nil:
		return fillBuiltIn("notes.md.tmpl", d)
	}
	return fillBuiltIn("docs.md.tmpl", d)
}

// fillBuiltIn fills in one of [templates].
func fillBuiltIn(name string, data any) ([]byte, error) {
	text, err := templates.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return fillTemplate(name, text, data)
}

// fillTemplate executes a template with the functions cell, which keeps a text within a cell of a table, and
// join.
func fillTemplate(name string, text []byte, data any) ([]byte, error) {
	t, err := template.New(name).Funcs(template.FuncMap{"cell": escapeCell, "join": strings.Join}).Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("the template cannot be read: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, fmt.Errorf("the template cannot be filled in: %w", err)
	}
	return b.Bytes(), nil
}

// partsDoc says what a feature gates.
func partsDoc(f *feature.Feature) (out []PartDoc) {
	for i := range f.Spec.Parts {
		p := &f.Spec.Parts[i]
		text := "`" + p.Field + "`"
		if p.WholeVersion {
			text = "version " + strings.Join(p.Versions, ", ")
		}
		if p.Values != nil {
			text += ": `" + strings.Join(p.Values, "`, `") + "`"
		}
		if p.Pattern != "" {
			text += " that matches `" + p.Pattern + "`"
		}
		if b := boundsOf(p); b != "" {
			text += " beyond " + b
		}
		if p.Match != nil {
			text += " of some items"
		}
		crd := schema.GroupResource{Group: p.Group, Resource: p.Resource}.String()
		out = append(out, PartDoc{crd, p.Versions, text})
	}
	return out
}

// howTo describes the settings that change a feature from what is in effect while nothing is set.
func (p *Project) howTo(f *feature.Feature, defaults *feature.States) string {
	switch {
	case f.Entry < 0:
		return "it comes with " + feature.Since(&f.Spec.Stages[0])
	case f.Locked || f.Stage == v1alpha1.Removed:
		return "it cannot be changed"
	case !f.Free():
		return f.HowToOpen()
	}
	s, _ := defaults.State(f.Spec.Gate)
	var ways []string
	for _, way := range p.waysToChange(f, !s.Open) {
		if p.hasEffect(f, way, !s.Open) {
			ways = append(ways, settingsText(way))
		}
	}
	if ways == nil {
		return "no setting changes it"
	}
	return strings.Join(ways, " or ")
}

// waysToChange are settings that may turn a feature on or off: the level, or its key, with those of the features that it requires or that imply it.
func (p *Project) waysToChange(f *feature.Feature, on bool) (ways []map[string]string) {
	level := f.Level
	// To turn a feature off by the level, it takes the next narrower one.
	if !on {
		level = map[v1alpha1.Level]v1alpha1.Level{v1alpha1.LevelAlpha: v1alpha1.LevelBeta, v1alpha1.LevelBeta: v1alpha1.LevelStable}[level]
	}
	if level != "" && (f.FollowsLevel || f.Spec.ImpliedByLevel) {
		ways = append(ways, map[string]string{p.Model.Spec().LevelKey: string(level)})
	}
	alone, all := map[string]string{}, map[string]string{}
	var add func(f *feature.Feature, to map[string]string, along bool)
	add = func(f *feature.Feature, to map[string]string, along bool) {
		if _, there := to[f.Spec.Key]; there || !f.Free() {
			return
		}
		to[f.Spec.Key] = fmt.Sprint(on != f.Spec.Inverted)
		others := f.Spec.Requires
		if !on {
			others = f.Spec.ImpliedBy
		}
		for _, gate := range others {
			if o := p.Model.Feature(gate); along && o != nil {
				add(o, to, true)
			}
		}
	}
	add(f, alone, false)
	add(f, all, true)
	if p.hasEffect(f, alone, on) {
		return append(ways, alone)
	}
	return append(ways, all)
}

// hasEffect reports whether settings, and nothing else, turn a feature on or off.
func (p *Project) hasEffect(f *feature.Feature, data map[string]string, on bool) bool {
	settings, findings := p.Model.ParseSettings(data)
	s, _ := p.Model.Resolve(settings, feature.Runtime{AssumeProcesses: true}).State(f.Spec.Gate)
	return findings.Err() == nil && s.Open == on
}

// settingsText writes settings in Markdown. The values of features are quoted, as ConfigMaps hold no booleans.
func settingsText(data map[string]string) string {
	var out []string
	for _, key := range sortedKeys(data) {
		value := data[key]
		if value == "true" || value == "false" {
			value = strconv.Quote(value)
		}
		out = append(out, fmt.Sprintf("`%s: %s`", key, value))
	}
	return strings.Join(out, " with ")
}

// escapeCell keeps text inside a cell of a table.
func escapeCell(s string) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s) }
