// Package features has the commands about features. What a feature means, packages feature and internal/life say.
package features

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	featurepolicy "sluice.dev/feature/policy"
	"sluice.dev/feature/rules"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/settings"
)

// featureFlags are the flags of all commands about features.
type featureFlags struct {
	files      []string
	component  string
	release    string
	kubernetes string
	mode       string
	settings   []string
	output     string
	processes  bool
	missing    bool // the ConfigMap with the settings is missing
}

// addTo adds the flags of commands that make policies out of files, and -o with the given formats. The flag that
// names the files differs, so each command adds its own.
func (f *featureFlags) addTo(e *command.Env, cmd *cobra.Command, outputs ...string) {
	flags := cmd.Flags()
	flags.StringVar(&f.component, "component", "", "component to use if the files have several")
	flags.StringVar(&f.release, "release", "", "release of the component (default: the one in its manifest)")
	flags.StringVar(&f.kubernetes, "kube-version", "", "oldest API server that has to accept the policies, such as 1.35; default: "+featurepolicy.Newest)
	flags.StringVar(&f.mode, "mode", "", "live: policies read the ConfigMap; baked: the policies contain the settings; default: from the component")
	flags.StringArrayVar(&f.settings, "settings", nil, "file with the ConfigMap or with a mapping of keys, folder in which it is mounted, or KEY=VALUE (may be repeated)")
	flags.BoolVar(&f.processes, "assume-processes", false, "assume that required processes (requiredProcesses) report their features on; otherwise such features are off")
	command.AddOutput(cmd, &f.output, outputs...)
	command.Complete(cmd, "mode", "live", "baked")
	command.CompleteWith(cmd, "component", func(string) ([]string, cobra.ShellCompDirective) {
		if len(f.files) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return componentsToComplete(cmd.Context(), e, &featuresFlags{files: f.files})
	})
}

// New returns the command features.
func New(e *command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "features",
		Short: "Gate unstable parts of stable APIs",
		Args:  command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	cmd.AddCommand(newFeaturesList(e), newFeaturesGet(e), newFeaturesEnable(e), newFeaturesDisable(e), newFeaturesUsage(e), newFeaturesSkew(e), newFeaturesReport(e),
		newFeaturesLint(e), newFeaturesCompile(e), newFeaturesSimulate(e), newFeaturesGenerate(e), newFeaturesChannel(e), newFeaturesVerify(e), newFeaturesPromote(e), newFeaturesRemove(e),
		newFeaturesDocs(e), newFeaturesMatrix(e), newFeaturesScaffold(e))
	return cmd
}

// compileGCPercent takes the place of [gcpercent.Command] while policies are made: a fifth less memory for a tenth more time.
const compileGCPercent = 225

// newFeaturesCompile returns the command features compile. Standard output has the policies alone; notes on what
// policies cannot enforce, and on what waits for a CRD, go to standard error.
func newFeaturesCompile(e *command.Env) *cobra.Command {
	var f featureFlags
	var strict bool
	cmd := &cobra.Command{
		Use:   "compile -f FILE",
		Short: "Print the admission policies that enforce features, without a process beside the API server",
		Long: `Print the admission policies that enforce the features of a component. Give the files with its Component, its Features, and the
CRDs that the features gate:

  sluice features compile -f features.yaml -f crds/ | kubectl apply --server-side -f -

If policies cannot enforce a part, standard error says why: the part needs the webhook. If the CRDs lack what a part gates, the part waits: the
command prints what can be enforced, and standard error names what waits. With --strict the exit code is 1 in both cases.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{command.ResultKind: command.NoDocument},
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := readDefinitions(cmd.Context(), e, f.files)
			if err != nil {
				return err
			}
			if e.Getenv("GOGC") == "" {
				defer debug.SetGCPercent(debug.SetGCPercent(compileGCPercent))
			}
			c, err := d.compilePolicies(cmd.Context(), e, &f, nil)
			if err != nil {
				return err
			}
			for _, w := range c.set.Enforced {
				if w.Kind == "" {
					fmt.Fprintf(e.Err, "note: %s needs the webhook: %s\n", partName(&w), w.Reason)
				}
			}
			for _, w := range c.set.Told {
				fmt.Fprintf(e.Err, "note: warnings about uses of %s need the webhook: %s\n", partName(&w), w.Reason)
			}
			if why := c.set.SettingsReason; why != "" {
				fmt.Fprintf(e.Err, "note: bad settings are refused by the webhook only: %s\n", why)
			}
			objects := c.set.Objects()
			if objects == nil && c.waits {
				return errors.New("there is nothing to enforce yet: give the CRDs that the waiting parts gate")
			}
			if ref := c.model.Spec().ConfigMap; c.set.Mode == v1alpha1.Live && ref != nil && objects != nil {
				fmt.Fprintf(e.Err, "note: the policies read ConfigMap %s/%s: while it is not there they let every write pass, so let it be there first\n", ref.Namespace, ref.Name)
			}
			if err := printObjects(e, f.output, objects); err != nil {
				return err
			}
			return command.FindingsIf(strict && (c.waits || c.set.Webhook || c.set.SettingsReason != "" || c.set.Told != nil))
		},
	}
	cmd.Flags().StringSliceVarP(&f.files, "filename", "f", nil, "file or directory with the Component, its Features and CRDs, - for standard input")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with 1 if a part needs the webhook, or waits for a CRD")
	f.addTo(e, cmd, "yaml", "json", "name")
	return cmd
}

// partName names a part for messages: its gate, its place in the definition, and the resource with the version if
// only one is meant.
func partName(w *featurepolicy.Enforced) string {
	resource := schema.GroupResource{Group: w.Group, Resource: w.Resource}.String()
	if w.Version != "" {
		resource += " " + w.Version
	}
	return fmt.Sprintf("%s (spec.parts[%d], %s)", w.Gate, w.Part, resource)
}

// compiled is a component with the policies of its features. states are the states of the features with these
// settings.
type compiled struct {
	model  *feature.Model
	states *feature.States
	data   map[string]string // the settings; nil if there are none
	set    *featurepolicy.Set
	waits  bool // the CRDs lack what a part gates
}

// compilePolicies checks the definitions and the settings, and makes the policies: all of them, or those that a
// function chooses. Findings are printed. If a definition has an error, all errors are returned together, and
// nothing is made: half of the policies would let pass what the other half should refuse.
func (d *definitions) compilePolicies(ctx context.Context, e *command.Env, f *featureFlags, choose func(*compiled, *featurepolicy.Options) error) (*compiled, error) {
	component, err := d.componentNamed(f.component)
	if err != nil {
		return nil, err
	}
	model, findings := rules.Define(component, d.features, feature.Options{Release: f.release, Date: e.Now(), Resources: d.resources, PartsMayWait: true, OtherGroups: true})
	c := &compiled{model: model, waits: slices.ContainsFunc(findings, feature.Finding.Waits)}
	if err := d.judgeFindings(e, component, c, findings); err != nil {
		return nil, err
	}
	// Other components in the files may gate the same parts.
	for _, x := range model.SharedWith(d.components, d.features, feature.Options{Date: e.Now(), Resources: d.resources}) {
		at := d.withPlace(component, &x)
		fmt.Fprintln(e.Err, at.String())
	}
	var from []*settings.Settings
	if c.data, from, err = d.settingsData(ctx, e, component, f.settings, model.Spec().GatesKey); err != nil {
		return nil, err
	}
	mode, err := policyMode(f.mode)
	if err != nil {
		return nil, err
	}
	// In live mode without a ConfigMap, policies have nothing to read. Bad settings are not baked in.
	baked := cmp.Or(mode, model.Spec().Mode) == v1alpha1.Baked || component.Spec.ConfigMap == nil
	parsed, err := parseSettings(e, model, c.data, from, baked)
	if err != nil {
		return nil, err
	}
	o := featurepolicy.Options{Mode: mode, Kubernetes: f.kubernetes, Settings: parsed, SettingsMissing: f.missing, Runtime: feature.Runtime{AssumeProcesses: f.processes}}
	if choose != nil {
		if err := choose(c, &o); err != nil {
			return nil, err
		}
	}
	if c.set, err = featurepolicy.Compile(ctx, model, o); err != nil {
		return nil, err
	}
	// What the policies say, and the states that are printed, rest on the same settings.
	c.states = model.Resolve(parsed, o.Runtime)
	for _, x := range model.Features() {
		if list := x.Spec.RequiredProcesses; len(list) > 0 && !f.processes {
			fmt.Fprintf(e.Err, "note: %s is closed, whatever the settings say: nobody reports here that %s has it on (--assume-processes)\n", x.Spec.Gate, strings.Join(list, " and "))
		}
	}
	return c, nil
}

// judgeFindings prints the findings about the definitions of a component. If one is an error, it returns all errors
// instead.
func (d *definitions) judgeFindings(e *command.Env, component *v1alpha1.Component, c *compiled, findings feature.Findings) error {
	// A part that waits for its CRD is no error, unless nothing else is left.
	wrong := len(c.model.Features()) == 0 && c.waits || slices.ContainsFunc(findings, func(x feature.Finding) bool { return x.Severity == feature.Error && !x.Waits() })
	var errs []error
	for _, x := range findings {
		at := d.withPlace(component, &x)
		switch {
		case wrong && x.Severity == feature.Error:
			errs = append(errs, errors.New(at.String()))
			continue
		case x.Waits():
			at.Severity = "waiting"
		}
		fmt.Fprintln(e.Err, at.String())
	}
	if wrong {
		what := "correct them"
		if c.waits {
			what += ", or give the CRDs that they gate,"
		}
		return errors.Join(append(errs, errors.New("the definitions have errors: "+what+" and run the command again"))...)
	}
	return nil
}

// parseSettings reads settings. It prints what is wrong with them, and returns the errors instead if the settings
// have to be good. With good, it is for policies that contain the settings; policies that read the ConfigMap meet
// bad settings at run time anyway.
func parseSettings(e *command.Env, model *feature.Model, data map[string]string, from []*settings.Settings, good bool) (*feature.Settings, error) {
	parsed, findings := model.ParseSettings(data)
	var errs []error
	for _, x := range findings {
		text := fmt.Sprintf("%s%s: settings: %s", settingPlace(from, &x).placePrefix(), x.Severity, x)
		if good && x.Severity == feature.Error {
			errs = append(errs, errors.New(text))
			continue
		}
		fmt.Fprintln(e.Err, text)
	}
	if errs != nil {
		return nil, errors.Join(append(errs, errors.New("the settings have errors: correct them and run the command again"))...)
	}
	return parsed, nil
}

// policyMode returns the mode of policies for the value of --mode; empty means that of the component. Any case of
// letters is taken.
func policyMode(flag string) (v1alpha1.Mode, error) {
	switch strings.ToLower(flag) {
	case "":
		return "", nil
	case "live":
		return v1alpha1.Live, nil
	case "baked":
		return v1alpha1.Baked, nil
	}
	return "", fmt.Errorf("unknown mode %q: the modes are live, baked", flag)
}

// printObjects prints manifests, a List of them, or their names. The names are those that kubectl apply -o name
// prints. No object at all is an error.
func printObjects(e *command.Env, output string, objects []runtime.Object) error {
	if len(objects) == 0 {
		return errors.New("there is nothing to enforce: no feature of the component gates a part of a resource that policies can enforce, or all are open")
	}
	if output == "json" {
		return command.PrintDocument(e.Out, output, map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	}
	for _, o := range objects {
		if output == "name" {
			m, err := meta.Accessor(o)
			if err != nil {
				return err
			}
			// As kubectl does.
			fmt.Fprintf(e.Out, "%s/%s\n", strings.ToLower(o.GetObjectKind().GroupVersionKind().GroupKind().String()), m.GetName())
			continue
		}
		if err := printManifest(e, o); err != nil {
			return err
		}
	}
	return nil
}

// printManifest prints an object as a document of a YAML stream.
func printManifest(e *command.Env, o any) error {
	fmt.Fprintln(e.Out, "---")
	return command.PrintDocument(e.Out, "yaml", o)
}
