package features

// Which features are there, and why are they on or off? list prints a line for each, get all that is known about
// one. Both come from the same states, in a cluster or from files. If the user may not read the settings, the
// status of the features says what is on. For example, the reason of a feature may be that the key
// enable-api-fields of the ConfigMap is beta.

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
)

// featureState is a feature for programs.
type featureState struct {
	Name      string         `json:"name"`
	Component string         `json:"component"`
	Gate      string         `json:"gate"`
	Stage     v1alpha1.Stage `json:"stage,omitempty"`
	// Default reports whether the feature is in effect while nothing is set, with the reports of processes that it needs.
	Default *bool `json:"default,omitempty"`
	// Enabled reports whether the feature is in effect; nil if the definition is wrong.
	Enabled *bool `json:"enabled,omitempty"`
	// Access says for whom it is in effect: nobody, those who opt in, everybody.
	Access feature.Access `json:"access,omitempty"`
	Why    string         `json:"why,omitempty"`
	// Fix says what would turn it on.
	Fix string `json:"fix,omitempty"`
	// InUse is the last count in the cluster; nil if there is none.
	InUse *int64 `json:"inUse,omitempty"`
	// Errors and Warnings are about the definition. If it comes from a file, they begin with FILE:LINE.
	Errors   []string `json:"errors,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// States is the features of the components, for programs.
type States struct {
	command.Document `json:",inline"`
	Features         []featureState `json:"features"`

	worldErrors `json:",inline"`
}

// worldErrors are errors that are not those of one feature, by component. If they come from a file, they begin with FILE:LINE.
type worldErrors struct {
	// Settings are the errors of the settings.
	Settings map[string][]string `json:"settingsErrors,omitempty"`
	// Components are the errors of the definitions of components.
	Components map[string][]string `json:"componentErrors,omitempty"`
}

// stateValue is a feature for programs. If its definition is wrong, it has the errors and no state. If the
// settings cannot be read, whether it is on is what its status says, and nothing says how to turn it on.
func (c *chosenFeature) stateValue() featureState {
	d := c.definition
	out := featureState{Name: d.Name, Component: d.Spec.Component, Gate: d.Spec.Gate, InUse: d.Status.InUse}
	for _, x := range c.findings.Of(d.Spec.Gate) {
		text := c.places.withPlace(c.component, &x).placePrefix() + x.String()
		if x.Severity == feature.Error {
			out.Errors = append(out.Errors, text)
		} else {
			out.Warnings = append(out.Warnings, text)
		}
	}
	if s := c.state; s != nil {
		out.Stage, out.Default, out.Enabled, out.Why, out.Fix = s.Feature.Stage, &c.byDefault, &s.Open, s.Reason, s.Fix
		out.Access = c.access
		if c.hidden != nil {
			out.Enabled, out.Why, out.Fix = d.Status.Enabled, d.Status.Why, ""
			out.Access = ""
		}
	}
	return out
}

// newFeaturesList returns the command features list.
func newFeaturesList(e *command.Env) *cobra.Command {
	f := &featuresFlags{}
	cmd := &cobra.Command{
		Use:   "list [FEATURE...]",
		Short: "List features, their state and the reason",
		Example: `  sluice features list
  sluice features list --component demo -o name`,
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := readFeatures(cmd.Context(), e, f, args)
			if err != nil {
				return err
			}
			return w.printList(e, f.output, len(args) > 0)
		},
	}
	f.addFlags(e, cmd, true, "json", "yaml", "name")
	return cmd
}

// partsToTell are the components whose problems concern a command: all, or those of the features that are named.
func (w *featureWorld) partsToTell(named bool) (out []*componentFeatures) {
	for _, p := range w.parts {
		if !named || slices.ContainsFunc(w.chosen, func(c chosenFeature) bool { return c.componentFeatures == p }) {
			out = append(out, p)
		}
	}
	return out
}

// errorsToTell returns the errors for programs. Both maps are never nil, and have no entry for a component without
// an error.
func (w *featureWorld) errorsToTell(named bool) worldErrors {
	out := worldErrors{map[string][]string{}, map[string][]string{}}
	for _, p := range w.partsToTell(named) {
		name := p.component.Name
		for _, x := range p.findings.Of("") {
			if x.Severity == feature.Error {
				out.Components[name] = append(out.Components[name], p.places.withPlace(p.component, &x).placePrefix()+x.String())
			}
		}
		for _, x := range p.wrong {
			if x.Severity == feature.Error {
				out.Settings[name] = append(out.Settings[name], p.settingPlace(&x).placePrefix()+x.String())
			}
		}
	}
	return out
}

// tellProblems prints what is wrong with components and their settings.
func (w *featureWorld) tellProblems(e *command.Env, named bool) {
	for _, p := range w.partsToTell(named) {
		for _, x := range p.findings.Of("") {
			fmt.Fprintf(e.Err, "%s%s: component %s: %s\n", p.places.withPlace(p.component, &x).placePrefix(), x.Severity, p.component.Name, x)
		}
		for _, x := range p.wrong {
			fmt.Fprintf(e.Err, "%s%s: settings of %s: %s\n", p.settingPlace(&x).placePrefix(), x.Severity, p.component.Name, x)
		}
		if p.keepsLastSettings() {
			fmt.Fprintf(e.Err, "note: until they hold no error the last good settings of %s stay in force, or the defaults where there never were any\n", p.component.Name)
		}
	}
}

// printList prints the chosen features in a format. named tells that the user has named them: then only the
// problems of their components are told. In the table, problems go to standard error; the documents contain them.
//
//	COMPONENT  GATE      STAGE  DEFAULT  ENABLED  IN USE  WHY
//	demo       Cache     Alpha  false    false    -       that is the default at stage Alpha
//	demo       Plain     Beta   true     true     3       that is the default at stage Beta
func (w *featureWorld) printList(e *command.Env, output string, named bool) error {
	if output == "name" {
		w.printNames(e)
		return nil
	}
	w.tellUnread(e)
	values := make([]featureState, len(w.chosen))
	for i := range w.chosen {
		values[i] = w.chosen[i].stateValue()
	}
	if output != asTable {
		return command.PrintDocument(e.Out, output, States{command.DocumentOf("FeatureStates"), values, w.errorsToTell(named)})
	}
	w.tellProblems(e, named)
	for _, p := range w.partsToTell(named) {
		for _, text := range p.immutableRefusal() {
			fmt.Fprintf(e.Err, "warning: settings of %s: %s\n", p.component.Name, text)
		}
	}
	for i := range values {
		for _, text := range values[i].Warnings {
			fmt.Fprintf(e.Err, "warning: %s: %s\n", values[i].Component, text)
		}
	}
	if len(values) == 0 {
		fmt.Fprintln(e.Err, "no feature")
		return nil
	}
	t := command.Columns(e.Out)
	defer t.Flush()
	fmt.Fprintln(t, "COMPONENT\tGATE\tSTAGE\tDEFAULT\tENABLED\tIN USE\tWHY")
	for i := range values {
		v := &values[i]
		used := "-"
		if v.InUse != nil {
			used = fmt.Sprint(*v.InUse)
		}
		if len(v.Errors) > 0 {
			// The table has no column for errors, and a wrong definition is why nothing else is known.
			v.Why = "wrong definition: " + strings.Join(v.Errors, "; ")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", v.Component, v.Gate, command.Dash(string(v.Stage)), boolText(v.Default), enabledText(v), used, v.Why)
	}
	return nil
}

// printNames prints the names of the chosen features, as the other commands accept them.
func (w *featureWorld) printNames(e *command.Env) {
	for _, c := range w.chosen {
		fmt.Fprintln(e.Out, featurePrefix+c.definition.Name)
	}
}

// enabledText says whether a feature is on. If it is off, it says whether users who opt in can use it.
func enabledText(v *featureState) string {
	if v.Access == feature.Allowed {
		return string(feature.Allowed)
	}
	return boolText(v.Enabled)
}

// boolText is a state in a table; a dash is an unknown one.
func boolText(b *bool) string {
	if b == nil {
		return "-"
	}
	return fmt.Sprint(*b)
}

// Details has everything that is known about a feature.
type Details struct {
	featureState `json:",inline"`

	Description       string                  `json:"description,omitempty"`
	Stages            []v1alpha1.FeatureStage `json:"stages"`
	Parts             []v1alpha1.Part         `json:"parts,omitempty"`
	WhenDisabled      v1alpha1.WhenDisabled   `json:"whenDisabled,omitempty"`
	Ratchet           v1alpha1.Ratchet        `json:"ratchet,omitempty"`
	Requires          []string                `json:"requires,omitempty"`
	ImpliedBy         []string                `json:"impliedBy,omitempty"`
	RequiredBy        []string                `json:"requiredBy,omitempty"`
	RequiredProcesses []string                `json:"requiredProcesses,omitempty"`
	NeedsRestart      bool                    `json:"needsRestart,omitempty"`
	Key               string                  `json:"key,omitempty"`
	EnforcedBy        []v1alpha1.Enforcer     `json:"enforcedBy,omitempty"`
	// Skew says which processes disagree; empty if none does.
	Skew string `json:"skew,omitempty"`
}

// DetailsList has the details of the requested features, for programs.
type DetailsList struct {
	command.Document `json:",inline"`
	Features         []Details `json:"features"`

	worldErrors `json:",inline"`
}

// newFeaturesGet returns the command features get.
func newFeaturesGet(e *command.Env) *cobra.Command {
	f := &featuresFlags{}
	cmd := &cobra.Command{
		Use:   "get FEATURE...",
		Short: "Show a feature: history, gated parts, state and reason",
		Example: `  sluice features get tasks-timeout
  sluice features get tekton-pipelines.tasks-timeout -o yaml`,
		Args: command.OneArgOrMore("name one feature or more; sluice features list lists them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := readFeatures(cmd.Context(), e, f, args)
			if err != nil {
				return err
			}
			if f.output == "name" {
				w.printNames(e)
				return nil
			}
			w.tellUnread(e)
			details := make([]Details, len(w.chosen))
			for i := range w.chosen {
				details[i] = w.chosen[i].detailsOf()
			}
			if f.output != asTable {
				return command.PrintDocument(e.Out, f.output, DetailsList{command.DocumentOf("FeatureDetails"), details, w.errorsToTell(true)})
			}
			w.tellProblems(e, true)
			for i := range details {
				if i > 0 {
					fmt.Fprintln(e.Out)
				}
				details[i].printTable(e.Out)
			}
			return nil
		},
	}
	f.addFlags(e, cmd, true, "json", "yaml", "name")
	return cmd
}

// detailsOf is all that is known about a feature. Stages and parts are those of the definition with its defaults
// filled in, or as they were written if the definition is wrong. WhenDisabled and Ratchet are left out for a
// feature that gates nothing.
func (c *chosenFeature) detailsOf() Details {
	s := &c.definition.Spec
	if c.state != nil {
		s = &c.state.Feature.Spec // with defaults filled in
	}
	d := Details{
		featureState: c.stateValue(), Description: s.Description, Stages: s.Stages, Parts: s.Parts, WhenDisabled: s.WhenDisabled, Ratchet: s.Ratchet,
		Requires: s.Requires, ImpliedBy: s.ImpliedBy, RequiredProcesses: s.RequiredProcesses, NeedsRestart: s.NeedsRestart, Key: s.Key, EnforcedBy: c.definition.Status.EnforcedBy,
	}
	d.Warnings = append(d.Warnings, c.immutableRefusal()...)
	if len(d.Parts) == 0 {
		d.WhenDisabled, d.Ratchet = "", ""
	}
	for _, other := range c.features {
		if slices.Contains(other.Spec.Requires, s.Gate) {
			d.RequiredBy = append(d.RequiredBy, other.Spec.Gate)
		}
	}
	if c.hidden != nil {
		// Without the settings the reports cannot be judged here; the controller has judged them.
		if is := meta.FindStatusCondition(c.definition.Status.Conditions, v1alpha1.ConditionSkew); is != nil && is.Status == metav1.ConditionTrue {
			d.Skew = is.Message
		}
		return d
	}
	for i := range c.skew.Disagreements {
		if x := &c.skew.Disagreements[i]; x.Gate == s.Gate {
			d.Skew = x.String()
		}
	}
	return d
}

// printTable prints the details for people, a row for each. Rows without a value are left out; further values of
// one row stand below each other.
//
//	Name:         demo.tasks-timeout
//	Gate:         TasksTimeout
//	About:        Ends tasks that take too long.
//	Enabled:      false: webhook does not report it as on
//	Stages:       Alpha since v1.0.0
//	              Beta since v1.6.0, default true
//	Gates:        pipelines.demo.dev: spec.tasksTimeout
func (d *Details) printTable(out io.Writer) {
	t := command.Columns(out)
	defer t.Flush()
	row := func(name string, values ...string) {
		for _, v := range values {
			if v != "" {
				// The name stands before the first value only.
				fmt.Fprintf(t, "%s\t%s\n", name, v)
				name = ""
			}
		}
	}
	row("Name:", d.Name)
	row("Gate:", d.Gate)
	row("About:", d.Description)
	for _, e := range d.Errors {
		row("Wrong:", e)
	}
	for _, w := range d.Warnings {
		row("Warning:", w)
	}
	if d.Enabled != nil {
		row("Enabled:", fmt.Sprintf("%t: %s", *d.Enabled, d.Why))
		row("To enable:", d.Fix)
	} else {
		row("Enabled:", d.Why)
	}
	row("Key:", d.Key)
	var stages []string
	for _, s := range d.Stages {
		stages = append(stages, stageText(&s))
	}
	row("Stages:", stages...)
	var parts []string
	for _, p := range d.Parts {
		parts = append(parts, partText(&p))
	}
	row("Gates:", parts...)
	if len(parts) == 0 {
		row("Gates:", "behaviour only")
	}
	row("When off:", whenOff(d.WhenDisabled, d.Ratchet))
	row("Requires:", strings.Join(d.Requires, ", "))
	row("Required by:", strings.Join(d.RequiredBy, ", "))
	row("Implied by:", strings.Join(d.ImpliedBy, ", "))
	row("Processes:", strings.Join(d.RequiredProcesses, ", "))
	if d.NeedsRestart {
		row("Restart:", "a change takes a restart of the processes")
	}
	var enforcers []string
	for _, e := range d.EnforcedBy {
		enforcers = append(enforcers, e.Kind+" "+e.Name)
	}
	row("Enforced by:", enforcers...)
	if d.InUse != nil {
		row("In use:", brief.Count(*d.InUse, "object")+" when they were last counted")
	}
	row("Skew:", d.Skew)
}

// stageText is an entry of the history: Beta since v1.4.0, 2025-03-01, default true.
func stageText(s *v1alpha1.FeatureStage) string {
	text := string(s.Stage) + " since "
	switch {
	case s.Release != "" && s.Date != "":
		text += s.Release + ", " + s.Date
	default:
		text += s.Release + s.Date
	}
	if s.Default != nil {
		text += fmt.Sprintf(", default %t", *s.Default)
	}
	if s.LockToDefault {
		text += ", locked"
	}
	return text
}

// partText says what a part gates: tasks.tekton.dev v1: spec.timeout.
func partText(p *v1alpha1.Part) string {
	text := strings.TrimSuffix(p.Resource+"."+p.Group, ".")
	if len(p.Versions) > 0 {
		text += " " + strings.Join(p.Versions, ", ")
	}
	switch {
	case p.WholeVersion:
		text += ": all of it"
	case len(p.Values) > 0:
		text += ": " + p.Field + " being " + strings.Join(p.Values, " or ")
	case p.Pattern != "":
		text += ": " + p.Field + " that matches " + p.Pattern
	case len(p.Match) > 0:
		var conditions []string
		for _, m := range p.Match {
			conditions = append(conditions, m.Field)
		}
		text += ": " + p.Field + " by its " + strings.Join(conditions, " and ")
	case p.Beyond != nil:
		text += ": " + p.Field + " beyond " + feature.BoundsText(p.Beyond)
	default:
		text += ": " + p.Field
	}
	if p.ResetTo != nil {
		text += ", reset to " + *p.ResetTo
	}
	return text
}

// whenOff says what happens to uses while a feature is off. It is empty for a feature that gates nothing.
func whenOff(w v1alpha1.WhenDisabled, r v1alpha1.Ratchet) string {
	var what string
	switch w {
	case v1alpha1.Reject:
		what = "new uses are refused"
	case v1alpha1.Drop:
		what = "new uses are dropped"
	case v1alpha1.Warn:
		what = "new uses get a warning"
	default:
		return ""
	}
	switch r {
	case v1alpha1.Unchanged:
		return what + "; what is stored may stay as it is, or go"
	case v1alpha1.InObject:
		return what + "; an object that uses the feature anywhere may use it everywhere"
	case v1alpha1.InUse:
	}
	return what + "; what is stored stays, and may change"
}
