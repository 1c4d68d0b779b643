package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"sluice.dev/feature"
	"sluice.dev/feature/policy/simulate"
)

// simulateFlags are those of sluice features simulate.
type simulateFlags struct {
	featureFlags
	object, old string
	labels      []string
	mayUse      []string
}

// simulation is what the command prints.
type simulation struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Allowed    bool               `json:"allowed"`
	Refused    []simulate.Refusal `json:"refused,omitempty"`
	Warned     []simulate.Refusal `json:"warned,omitempty"`
	// Object is what would be written if it is not what was given.
	Object map[string]any `json:"object,omitempty"`
	// States says which features are open, and why.
	Features []simulatedFeature `json:"features"`
}

type simulatedFeature struct {
	Gate   string `json:"gate"`
	Open   bool   `json:"open"`
	Reason string `json:"reason"`
}

func newFeaturesSimulate(e *env) *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate -f OBJECT --features FILE",
		Short: "Say what would become of an object, with the API server's own code and no cluster",
		Long: `Say what would become of the creation of an object, or with --old of an update, under the policies of a component's
features. The policies run in the API server's own code; what takes the webhook is judged by the evaluator that it runs.

  sluice features simulate -f pipeline.yaml --features features.yaml --features crds/ --settings enable-api-fields=beta

No schema is applied: nothing is defaulted, pruned or validated. Exit code 1 if the object would be refused.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runSimulate(cmd.Context(), e, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.object, "filename", "f", "", "the new object, - for standard input")
	flags.StringVar(&f.old, "old", "", "the stored object; without it the object is created")
	flags.StringSliceVar(&f.files, "features", nil, "file or directory with the Component, its Features and CRDs")
	flags.StringSliceVar(&f.labels, "namespace-label", nil, "KEY=VALUE, a label of the object's namespace")
	flags.StringSliceVar(&f.mayUse, "may-use", nil, "the name of a Feature that the user may use")
	f.add(cmd, "yaml, json, or nothing for text")
	complete(cmd, "output", "yaml", "json")
	return cmd
}

func runSimulate(ctx context.Context, e *env, f *simulateFlags) error {
	switch {
	case f.object == "":
		return errors.New("no object: give it with -f")
	case !slices.Contains([]string{"", "yaml", "json"}, f.output):
		return fmt.Errorf("unknown output format %q: leave -o out, or give yaml or json", f.output)
	case len(f.files) == 0:
		return errors.New("no definitions: give files with --features")
	}
	d, err := readDefinitions(e, f.files)
	if err != nil {
		return err
	}
	c, err := d.compile(ctx, e, &f.featureFlags)
	if err != nil {
		return err
	}
	r, err := f.request(e, d, c)
	if err != nil {
		return err
	}
	s, err := simulate.New(c.set)
	if err != nil {
		return err
	}
	res, err := s.Run(ctx, r)
	if err != nil {
		return err
	}
	out := &simulation{APIVersion: "sluice.dev/v1alpha1", Kind: "FeatureSimulation", Refused: res.Refused, Warned: res.Warned, Object: res.Object}
	c.webhook(r, out)
	out.Allowed = len(out.Refused) == 0
	for _, st := range c.states.All() {
		out.Features = append(out.Features, simulatedFeature{st.Feature.Spec.Gate, st.Open, st.Reason})
	}
	if err := out.print(e, f.output); err != nil {
		return err
	}
	if !out.Allowed {
		return errFindings
	}
	return nil
}

// request makes the request of the flags.
func (f *simulateFlags) request(e *env, d *definitions, c *compiled) (*simulate.Request, error) {
	object, err := readObject(e, f.object)
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
		// Without its CRD the plural is a guess, as it is for kubectl without a cluster.
		r.Resource = strings.ToLower(gvk.Kind) + "s"
	}
	if r.Settings == nil {
		r.Settings = map[string]string{}
	}
	if f.old != "" {
		if r.Old, err = readObject(e, f.old); err != nil {
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
	r.MayUse = func(name string) bool { return slices.Contains(f.mayUse, name) }
	return r, nil
}

// webhook adds what the webhook would say of the parts that no policy enforces. What it would drop it does after the
// policies have.
func (c *compiled) webhook(r *simulate.Request, out *simulation) {
	if !c.set.Webhook {
		return
	}
	byWebhook := map[string]bool{}
	for _, e := range c.set.Enforced {
		if e.Kind == "" {
			byWebhook[e.Gate] = true
		}
	}
	object := r.Object
	if out.Object != nil {
		object = out.Object
	}
	in := c.model.Spec().OptIn
	decision := c.states.Compile().Evaluate(&feature.Request{
		Group: r.Group, Version: r.Version, Resource: r.Resource, Object: object, Old: r.Old,
		OptedIn: func(gate string) bool {
			return in != nil && (in.NamespaceLabel && r.NamespaceLabels[feature.OptInLabel(c.model.Component(), gate)] == feature.OptInValue ||
				in.RBAC && r.MayUse(feature.ObjectName(c.model.Component(), gate)))
		},
	})
	said := func(v feature.Violations, prefix string) (list []simulate.Refusal) {
		for i := range v.List {
			if byWebhook[v.List[i].State.Feature.Spec.Gate] {
				list = append(list, simulate.Refusal{Policy: "webhook", Message: prefix + v.List[i].String()})
			}
		}
		return list
	}
	out.Refused = append(out.Refused, said(decision.Rejected, "")...)
	out.Warned = append(out.Warned, slices.Concat(said(decision.Dropped, "dropped "), said(decision.Warned, ""))...)
	if decision.Object != nil {
		out.Object = decision.Object
	}
}

func (s *simulation) print(e *env, output string) error {
	switch output {
	case "json":
		enc := json.NewEncoder(e.out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(s)
	case "yaml":
		data, err := yaml.Marshal(s)
		if err == nil {
			_, err = e.out.Write(data)
		}
		return err
	}
	verdict := "allowed"
	if !s.Allowed {
		verdict = "refused"
	}
	fmt.Fprintln(e.out, verdict)
	for _, x := range s.Refused {
		fmt.Fprintf(e.out, "%s: %s\n", x.Policy, x.Message)
	}
	for _, x := range s.Warned {
		fmt.Fprintf(e.out, "warning: %s: %s\n", x.Policy, x.Message)
	}
	if s.Object != nil && s.Allowed {
		data, err := yaml.Marshal(s.Object)
		if err != nil {
			return err
		}
		fmt.Fprintf(e.out, "what would be written:\n%s", data)
	}
	return nil
}
