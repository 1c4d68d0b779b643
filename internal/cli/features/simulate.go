package features

// Would this object be refused? simulate compiles the policies of a component's features, and runs them on one
// request with the API server's own code, without a cluster. What policies cannot express, the webhook's evaluator
// judges. For example, in a CI job: does every manifest of the release pass with the defaults?

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	featurepolicy "sluice.dev/feature/policy"
	"sluice.dev/feature/policy/simulate"
	"sluice.dev/internal/cli/command"
)

// simulateFlags are the flags of sluice features simulate.
type simulateFlags struct {
	featureFlags
	object, old string
	labels      []string
	mayUse      []string
	noConfigMap bool
}

// Simulation is the document that the command prints.
type Simulation struct {
	command.Document `json:",inline"`
	Allowed          bool               `json:"allowed"`
	Refused          []simulate.Refusal `json:"refused,omitempty"`
	Warned           []simulate.Refusal `json:"warned,omitempty"`
	// Object is the object to be stored, if it differs from the given one.
	Object map[string]any `json:"object,omitempty"`
	// Converted are gates that judge the object in another version, which is not simulated.
	Converted []string `json:"converted,omitempty"`
	// Features says which features are open, and why.
	Features []simulatedFeature `json:"features"`
}

type simulatedFeature struct {
	Gate   string `json:"gate"`
	Open   bool   `json:"open"`
	Reason string `json:"reason"`
}

// newFeaturesSimulate returns the command features simulate.
func newFeaturesSimulate(e *command.Env) *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate -f OBJECT --features FILE",
		Short: "Judge an object by the policies of features, without a cluster",
		Long: `Judge the creation of an object, or with --old an update, by the policies of a component's features. The API server's own code runs
the policies, without a cluster. If a part needs the webhook, the webhook's own evaluator judges it.

  sluice features simulate -f pipeline.yaml --features features.yaml --features crds/ --settings enable-api-fields=beta

The command applies no schema: it sets no defaults, and prunes and validates nothing. Exit code 1 if the object would be refused,
2 if there is no verdict, such as with wrong definitions.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runSimulate(cmd.Context(), e, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.object, "filename", "f", "", "the new object, - for standard input")
	flags.StringVar(&f.old, "old", "", "the stored object that -f updates; without it, -f is created")
	flags.StringSliceVar(&f.files, "features", nil, "file or directory with the Component, its Features and CRDs")
	flags.StringSliceVar(&f.labels, "namespace-label", nil, "label of the object's namespace, as KEY=VALUE")
	flags.StringSliceVar(&f.mayUse, "may-use", nil, "name of a Feature that the user has the right to use")
	flags.BoolVar(&f.noConfigMap, "no-configmap", false, "as if the ConfigMap with the settings did not exist: the defaults apply")
	f.addTo(e, cmd, "text", "yaml", "json")
	cmd.MarkFlagsMutuallyExclusive("settings", "no-configmap")
	return cmd
}

// runSimulate judges the request of the flags, and prints the verdict. It returns [command.ErrFindings] if the
// object would be refused. Only the policies for the resource of the object are compiled, unless the object is a
// ConfigMap, which the policies about settings judge.
func runSimulate(ctx context.Context, e *command.Env, f *simulateFlags) error {
	switch {
	case f.object == "":
		return errors.New("no object: give it with -f")
	case len(f.files) == 0:
		return errors.New("no definitions: give files with --features")
	}
	d, err := readDefinitions(ctx, e, f.files)
	if err != nil {
		return err
	}
	if f.noConfigMap {
		d.configMaps, f.missing = nil, true
	}
	var r *simulate.Request
	c, err := d.compilePolicies(ctx, e, &f.featureFlags, func(c *compiled, o *featurepolicy.Options) (err error) {
		if r, err = f.requestOf(ctx, e, d, c); err != nil {
			return err
		}
		// The other policies never see this request, and to compile all of them takes seconds.
		if of := (schema.GroupResource{Group: r.Group, Resource: r.Resource}); of != (schema.GroupResource{Resource: "configmaps"}) {
			o.Only, o.Unguarded, o.Object, o.SettingsData = &of, true, r.Object, r.Settings
		}
		return nil
	})
	if err != nil {
		return err
	}
	s := simulate.NewLazy(c.set)
	res, err := s.Run(ctx, r)
	if err != nil {
		return err
	}
	out := &Simulation{Document: command.DocumentOf("FeatureSimulation"), Refused: res.Refused, Warned: res.Warned, Object: res.Object}
	refused, dropped := c.addWebhookVerdict(r, out)
	if dropped {
		// Validating policies see the object without the parts that the webhook has dropped.
		again := *r
		again.Object = out.Object
		if res, err = s.Run(ctx, &again); err != nil {
			return err
		}
		out.Refused = res.Refused
	}
	out.Refused = append(out.Refused, refused...)
	out.Allowed = len(out.Refused) == 0
	out.Converted = c.model.Converted(r.Group, r.Resource, r.Version)
	for _, st := range c.states.All() {
		out.Features = append(out.Features, simulatedFeature{st.Feature.Spec.Gate, st.Open, st.Reason})
	}
	if err := out.printVerdict(e, f.output); err != nil {
		return err
	}
	return command.FindingsIf(!out.Allowed)
}

// requestOf makes the request of the flags. The resource of a kind comes from its CRD, or is guessed. Settings
// that are nil mean that there is no ConfigMap.
func (f *simulateFlags) requestOf(ctx context.Context, e *command.Env, d *definitions, c *compiled) (*simulate.Request, error) {
	object, err := readObject(ctx, e, f.object)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: object}
	gvk := u.GroupVersionKind()
	if gvk.Kind == "" || gvk.Version == "" {
		return nil, fmt.Errorf("%s: apiVersion or kind is missing", f.object)
	}
	r := &simulate.Request{Group: gvk.Group, Version: gvk.Version, Resource: d.kinds[gvk.Group+"/"+gvk.Kind], Object: object, Settings: c.data}
	if r.Resource == "" {
		if r.Resource, err = d.guessResource(c.model, gvk); err != nil {
			return nil, err
		}
	}
	if r.Settings == nil && !f.noConfigMap {
		r.Settings = map[string]string{}
	}
	if f.old != "" {
		if r.Old, err = readObject(ctx, e, f.old); err != nil {
			return nil, err
		}
		if err := sameObject(u, &unstructured.Unstructured{Object: r.Old}); err != nil {
			return nil, err
		}
	}
	for _, l := range f.labels {
		key, value, ok := strings.Cut(l, "=")
		if !ok {
			return nil, fmt.Errorf("--namespace-label %q: it is written KEY=VALUE", l)
		}
		if r.NamespaceLabels == nil {
			r.NamespaceLabels = map[string]string{}
		}
		r.NamespaceLabels[key] = value
	}
	r.MayUse = func(name string) bool {
		return slices.ContainsFunc(f.mayUse, func(n string) bool { return n == name || feature.Kebab(n) == name })
	}
	return r, nil
}

// sameObject returns an error if an object cannot be the stored state of another one. The API server compares them
// in one version. Fields that one of them leaves out, such as the namespace, are not compared.
func sameObject(object, old *unstructured.Unstructured) error {
	for _, x := range []struct{ what, new, old string }{
		{"apiVersion", object.GetAPIVersion(), old.GetAPIVersion()},
		{"kind", object.GetKind(), old.GetKind()},
		{"name", object.GetName(), old.GetName()},
		{"namespace", object.GetNamespace(), old.GetNamespace()},
	} {
		if x.new != "" && x.old != "" && x.new != x.old {
			return fmt.Errorf("--old has the %s %s, and -f has %s: give the stored state of the same object, in the same version", x.what, x.old, x.new)
		}
	}
	return nil
}

// guessResource finds the resource of a kind whose CRD is not given, as kubectl does without a cluster. If a wrong
// guess could hide a use, it returns an error. A guess is safe for kinds of Kubernetes itself, and if no feature
// gates another resource of the same group.
func (d *definitions) guessResource(model *feature.Model, gvk schema.GroupVersionKind) (string, error) {
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	if scheme.Scheme.Recognizes(gvk) {
		return plural.Resource, nil
	}
	judges := slices.ContainsFunc(model.Features(), func(f *feature.Feature) bool {
		return slices.ContainsFunc(f.Targets, func(t feature.Target) bool { return t.Group == gvk.Group && t.Resource == plural.Resource })
	})
	var others, waiting []string
	for i := range d.features {
		spec := &d.features[i].Spec
		if f := model.Feature(spec.Gate); spec.Component != model.Component() || f != nil && f.Stage == v1alpha1.Removed {
			continue
		}
		for _, part := range spec.Parts {
			switch {
			case part.Group != gvk.Group:
			case part.Resource == plural.Resource:
				waiting = append(waiting, spec.Gate)
			default:
				others = append(others, part.Resource)
			}
		}
	}
	slices.Sort(others)
	unknown := fmt.Sprintf("which resource has the kind %s of %s is not known without its CRD: ", gvk.Kind, gvk.Group)
	switch {
	case judges || waiting == nil && others == nil:
		return plural.Resource, nil
	case waiting != nil:
		return "", fmt.Errorf("%s%s gates %s; give the CRD with --features", unknown, strings.Join(slices.Compact(waiting), " and "), plural.Resource)
	}
	return "", fmt.Errorf("%sno feature gates %s, but of the same group %s are gated; give the CRD with --features", unknown, plural.Resource, strings.Join(slices.Compact(others), ", "))
}

// addWebhookVerdict adds the verdict of the webhook about the parts that no policy enforces. The webhook drops parts after the policies have done
// so. It returns the uses that it refuses, and whether it drops anything.
func (c *compiled) addWebhookVerdict(r *simulate.Request, out *Simulation) (refused []simulate.Refusal, dropped bool) {
	if !c.set.Webhook && c.set.Told == nil {
		return nil, false
	}
	mine, told := c.set.WebhookParts()
	object := r.Object
	if out.Object != nil {
		object = out.Object
	}
	in := c.model.Spec().OptIn
	decision := c.states.CompileFor(mine).Evaluate(&feature.Request{
		Group: r.Group, Version: r.Version, Resource: r.Resource, Object: object, Old: r.Old,
		OptedIn: func(gate string) bool {
			return in != nil && (in.NamespaceLabel && feature.OptedIn(r.NamespaceLabels, c.model.Component(), gate) ||
				in.RBAC && r.MayUse(feature.ObjectName(c.model.Component(), gate)))
		},
	})
	said := func(v feature.Violations, prefix string) (list []simulate.Refusal) {
		for i := range v.List {
			list = append(list, simulate.Refusal{Policy: "webhook", Message: prefix + v.List[i].String()})
		}
		return list
	}
	out.Warned = append(out.Warned, slices.Concat(said(decision.Dropped, "dropped "), said(decision.Warned, ""))...)
	if decision.Object != nil {
		object, out.Object = decision.Object, decision.Object
	}
	found := c.model.TellerFor(told).Tell(&feature.Request{Group: r.Group, Version: r.Version, Resource: r.Resource, Object: object, Old: r.Old})
	for _, text := range found.Told() {
		out.Warned = append(out.Warned, simulate.Refusal{Policy: "webhook", Message: text})
	}
	return said(decision.Rejected, ""), decision.Object != nil
}

// printVerdict prints the verdict, and below it the refusals, warnings, and the object as it would be written if
// policies change it.
//
//	refused
//	features.demo.policies.demo.dev.reject.v1: spec.alpha: alpha; needs feature "Both" of component "demo": ...
func (s *Simulation) printVerdict(e *command.Env, output string) error {
	if output != "text" {
		return command.PrintDocument(e.Out, output, s)
	}
	verdict := "allowed"
	if !s.Allowed {
		verdict = "refused"
	}
	fmt.Fprintln(e.Out, verdict)
	for _, x := range s.Refused {
		fmt.Fprintf(e.Out, "%s: %s\n", x.Policy, x.Message)
	}
	for _, x := range s.Warned {
		fmt.Fprintf(e.Out, "warning: %s: %s\n", x.Policy, x.Message)
	}
	if s.Converted != nil {
		fmt.Fprintf(e.Out, "not simulated: the API server converts the object to another version to judge it by %s; give the object in that version\n", strings.Join(s.Converted, ", "))
	}
	if s.Object != nil && s.Allowed {
		data, err := yaml.Marshal(s.Object)
		if err != nil {
			return err
		}
		fmt.Fprintf(e.Out, "what would be written:\n%s", data)
	}
	return nil
}
