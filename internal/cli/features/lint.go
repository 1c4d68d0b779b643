package features

// Are the definitions of features right? Lint reads Components, Features, CRDs and ConfigMaps, and reports what a
// cluster would refuse, or what should change soon, with file and line. For example, features.yaml:12: error:
// TasksTimeout: spec.parts[0].field: the schema has no field spec.timout. withPlace, which finds the line, serves
// the other commands as well.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/rules"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/input"
	"sluice.dev/internal/settings"
)

// featureFinding is a finding with the place in the files, for programs.
type featureFinding struct {
	sourcePlace `json:",inline"`

	Severity  feature.Severity `json:"severity"`
	Code      feature.Code     `json:"code"`
	Component string           `json:"component,omitempty"`
	Gate      string           `json:"gate,omitempty"`
	// Where is a path in the object, or a key of the settings.
	Where   string `json:"where,omitempty"`
	Message string `json:"message"`
}

// String writes a finding in a line, as compilers do.
func (f *featureFinding) String() string {
	return f.placePrefix() + string(f.Severity) + ": " + (feature.Finding{Gate: f.Gate, Where: f.Where, Message: f.Message}).String()
}

// Findings is what lint found, for programs.
type Findings struct {
	command.Document `json:",inline"`
	Findings         []featureFinding `json:"findings"`
}

// codeNoComponent is the code of features whose component is not in the files.
const codeNoComponent feature.Code = "unknown-component"

// lintFlags are the flags of sluice features lint.
type lintFlags struct {
	files              []string
	component, release string
	output             string
	strict             bool
}

// newFeaturesLint returns the command features lint.
func newFeaturesLint(e *command.Env) *cobra.Command {
	var f lintFlags
	cmd := &cobra.Command{
		Use:   "lint -f FILE",
		Short: "Find errors in the definitions of features, with file and line",
		Long: `Find errors in the definitions of features: in Components, Features, the CRDs that they gate, and the ConfigMap of settings if the
files have it. A cluster would not accept a definition with an error, such as a path that the schema does not have, or the name of a
removed feature that is used again. A warning marks a definition to change soon, such as a gate past its time.

Without the CRDs, lint finds only errors that need no schema. Exit code 1 if there is an error; with --strict also for a warning.`,
		Example: `  sluice features lint -f config/features.yaml -f crds/
  sluice features lint -f config/ -o json --strict`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := readDefinitions(cmd.Context(), e, f.files)
			if err != nil {
				return err
			}
			list, err := d.lintComponents(e, &f)
			if err != nil {
				return err
			}
			if err := printFindings(e, f.output, list); err != nil {
				return err
			}
			return command.FindingsIf(slices.ContainsFunc(list, func(x featureFinding) bool { return f.strict || x.Severity == feature.Error }))
		},
	}
	fs := cmd.Flags()
	fs.StringSliceVarP(&f.files, "filename", "f", nil, "file or directory with Components, Features, CRDs and ConfigMaps, - for standard input")
	fs.StringVar(&f.component, "component", "", "only this component")
	fs.StringVar(&f.release, "release", "", "release of the component (default: the one in its manifest)")
	command.AddOutput(cmd, &f.output, "text", "json", "yaml")
	fs.BoolVar(&f.strict, "strict", false, "exit with 1 for warnings too")
	return cmd
}

// lintComponents checks all components of the files, or one. They are sorted by file and line. A Feature whose
// Component is not in the files is an error, unless one component was asked for. Files without any definition are
// an error.
func (d *definitions) lintComponents(e *command.Env, f *lintFlags) (out []featureFinding, err error) {
	components := make([]*v1alpha1.Component, 0, len(d.components))
	var names []string
	for i := range d.components {
		if c := &d.components[i]; f.component == "" || c.Name == f.component {
			components = append(components, c)
		}
		names = append(names, d.components[i].Name)
	}
	// The error says which components there are.
	if f.component != "" && len(components) == 0 || names == nil && len(d.features) == 0 {
		if _, err = d.componentNamed(f.component); err != nil {
			return nil, err
		}
	}
	for _, c := range components {
		o := feature.Options{Release: f.release, Date: e.Now(), Resources: d.resources, OtherGroups: true}
		model, findings := rules.Define(c, d.features, o)
		// First what a cluster refuses, then what should change soon, then what collides with other components.
		for _, x := range slices.Concat(findings, model.Lint(o.Date), model.SharedWith(d.components, d.features, o)) {
			out = append(out, d.withPlace(c, &x))
		}
		out = append(out, d.lintSettings(c, model)...)
	}
	for i := range d.features {
		s := &d.features[i].Spec
		if f.component == "" && !slices.Contains(names, s.Component) {
			x := feature.Finding{
				Severity: feature.Error, Code: codeNoComponent, Gate: s.Gate, Where: "spec.component",
				Message: fmt.Sprintf("the files hold no Component %q%s", s.Component, brief.Hint(s.Component, names)),
			}
			out = append(out, findingAt(d.findFeature(s.Component, s.Gate, "spec", "component"), s.Component, &x))
		}
	}
	slices.SortStableFunc(out, func(a, b featureFinding) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	return out, nil
}

// partsOfFeatures are the fields that a Feature has and a Component does not have.
var partsOfFeatures = []string{"gate", "stages", "parts", "requires", "whenDisabled", "ratchet", "key", "requiredProcesses"}

// withPlace adds the place to a finding about a definition. The place is that of the path of the finding, or of
// the nearest part around it. It changes the message of x for a gate that is defined twice: it names the first
// one.
func (d *definitions) withPlace(c *v1alpha1.Component, x *feature.Finding) featureFinding {
	path := input.Steps(x.Where)
	at := d.findComponent(c.Name, path...)
	if x.Gate != "" || len(path) > 1 && slices.Contains(partsOfFeatures, path[1]) { // a Feature may lack its gate
		at = d.findFeature(c.Name, x.Gate, path...)
	}
	if x.Code == feature.CodeDuplicate && x.Where == "spec.gate" {
		if first := d.firstFeature(c.Name, x.Gate, path...); first != at {
			x.Message += "; the first is at " + strings.TrimSuffix(first.placePrefix(), ": ")
		}
	}
	return findingAt(at, c.Name, x)
}

// findingAt is a finding of package feature with its place.
func findingAt(at sourcePlace, component string, x *feature.Finding) featureFinding {
	return featureFinding{at, x.Severity, x.Code, component, x.Gate, x.Where, x.Message}
}

// lintSettings checks the ConfigMap of a component, if the files have it. A ConfigMap that is immutable gets a
// finding, since nobody could turn a feature on or off in it.
func (d *definitions) lintSettings(c *v1alpha1.Component, model *feature.Model) (out []featureFinding) {
	for _, s := range d.configMaps {
		m := s.ConfigMap
		if !isOf(m, c) {
			continue
		}
		_, findings := model.ParseSettings(s.Data)
		if m.Immutable != nil && *m.Immutable {
			x := feature.Finding{Severity: feature.Error, Code: feature.CodeImmutable, Where: "immutable", Message: feature.Immutable + ": leave immutable out"}
			out = append(out, findingAt(lastPlace([]*input.Positions{s.Object.Positions}, "immutable"), c.Name, &x))
		}
		for _, x := range findings {
			out = append(out, findingAt(settingPlace([]*settings.Settings{s}, &x), c.Name, &x))
		}
	}
	return out
}

// printFindings prints findings, or that there are none.
func printFindings(e *command.Env, output string, list []featureFinding) error {
	if output != "text" {
		if list == nil {
			list = []featureFinding{}
		}
		return command.PrintDocument(e.Out, output, Findings{command.DocumentOf("FeatureFindings"), list})
	}
	for i := range list {
		fmt.Fprintln(e.Out, list[i].String())
	}
	if list == nil {
		fmt.Fprintln(e.Err, "no findings")
	}
	return nil
}
