package life

import (
	"bytes"
	"fmt"
	"strings"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// docs writes the features as Markdown: a table, and a section for each.
func (p *Project) docs() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!-- %s -->\n# Features of %s\n\n", strings.ToUpper(p.header()[:1])+p.header()[1:], p.File.Component)
	b.WriteString("| feature | stage | what it gates | how to change it |\n| --- | --- | --- | --- |\n")
	for _, f := range p.Model.Features() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.Spec.Gate, stageText(f), cell(strings.Join(gates(f), "<br>")), cell(p.howTo(f)))
	}
	for _, f := range p.Model.Features() {
		fmt.Fprintf(&b, "\n## %s\n\n", f.Spec.Gate)
		if f.Spec.Description != "" {
			b.WriteString(strings.TrimSpace(f.Spec.Description) + "\n\n")
		}
		b.WriteString("| stage | from | default |\n| --- | --- | --- |\n")
		defaults := f.Defaults()
		for i := range f.Spec.Stages {
			s := &f.Spec.Stages[i]
			text := map[bool]string{true: "on", false: "off"}[defaults[i]]
			if s.LockToDefault || s.Stage == v1alpha1.Removed {
				text += ", cannot be changed"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", strings.ToLower(string(s.Stage)), begins(s), text)
		}
		if len(f.Spec.Requires) > 0 {
			fmt.Fprintf(&b, "\nIt requires %s.\n", strings.Join(f.Spec.Requires, " and "))
		}
	}
	return b.Bytes()
}

// gates says what a feature gates, a line for each part.
func gates(f *feature.Feature) (out []string) {
	if len(f.Spec.Parts) == 0 {
		return []string{"behaviour"}
	}
	for i := range f.Spec.Parts {
		p := &f.Spec.Parts[i]
		text := "`" + p.Resource
		if p.Group != "" {
			text += "." + p.Group
		}
		text += "` "
		switch {
		case p.WholeVersion:
			text += "version " + strings.Join(p.Versions, ", ")
		default:
			text += "`" + p.Field + "`"
		}
		if p.Values != nil {
			text += ": `" + strings.Join(p.Values, "`, `") + "`"
		}
		if p.Pattern != "" {
			text += " that matches `" + p.Pattern + "`"
		}
		out = append(out, text)
	}
	return out
}

// howTo says what to set.
func (p *Project) howTo(f *feature.Feature) string {
	if f.Locked {
		return "it cannot be changed"
	}
	key := f.Spec.Key
	value := map[bool]string{true: "false", false: "true"}[f.Default]
	if f.Spec.Inverted {
		value = map[bool]string{true: "true", false: "false"}[f.Default]
	}
	text := fmt.Sprintf("`%s: \"%s\"`", key, value)
	if f.FollowsLevel && !f.Default {
		text = fmt.Sprintf("`%s: %s` or %s", p.Model.Spec().LevelKey, f.Level, text)
	}
	return text
}

// cell keeps text inside a cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
