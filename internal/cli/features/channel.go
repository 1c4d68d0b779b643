package features

// Who loses data if the CRDs move to a narrower channel? A channel is a set of CRDs without the parts of some
// features: stable leaves out what is alpha or beta. Objects that use such parts lose them with the next write.
// The command counts these objects, and can print a policy that refuses the step while there are any. For example,
// sluice features channel --to stable before the experimental CRDs of Gateway API are replaced by the standard
// ones.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/life"
)

// channelFlags choose a channel.
type channelFlags struct {
	level string
	gates []string
}

// addTo adds the flag with the given name for the channel, and --gates.
func (f *channelFlags) addTo(cmd *cobra.Command, name, help string) {
	cmd.Flags().StringVar(&f.level, name, "", help)
	cmd.Flags().StringSliceVar(&f.gates, "gates", nil, "GATE=true or GATE=false: include or leave out a feature, whatever its stage")
	command.Complete(cmd, name, "stable", "beta", "alpha")
}

// chosenChannel returns the channel of the flags. Without any, it is the one that leaves nothing out. A value of
// --gates that is not GATE=true or GATE=false is an error; whether the gate exists is judged later.
func (f *channelFlags) chosenChannel() (life.Channel, error) {
	c := life.Channel{Level: v1alpha1.Level(f.level)}
	for _, g := range f.gates {
		name, value, _ := strings.Cut(g, "=")
		if value != "true" && value != "false" {
			return c, fmt.Errorf("--gates: %q has to be GATE=true or GATE=false", g)
		}
		if c.Gates == nil {
			c.Gates = map[string]bool{}
		}
		c.Gates[name] = value == "true"
	}
	return c, nil
}

// ChannelStep is the document for programs.
type ChannelStep struct {
	command.Document `json:",inline"`
	Channel          string `json:"channel"`
	Scanned          int64  `json:"scanned"`
	// Features are the features that the channel leaves out, with the stored objects that use them.
	Features []usageOf `json:"features"`
}

// newFeaturesChannel returns the command features channel.
func newFeaturesChannel(e *command.Env) *cobra.Command {
	f := &featuresFlags{}
	var channel channelFlags
	guard := false
	cmd := &cobra.Command{
		Use:   "channel --to CHANNEL",
		Short: "List the stored objects that would lose data in a narrower channel",
		Long: `List the stored objects that would lose data if the CRDs moved to a narrower channel. These are objects that use a feature which
the channel leaves out. After such a CRD is applied, every write of such an object destroys the data, even a write of its status.

Exit code 1 if there is such an object. --guard prints a policy that refuses the step. It refuses updates of the CRDs in use that carry the
annotation ` + life.ChannelAnnotation + ` of this channel or a narrower one. Delete the policy when no such object is left.`,
		Example: `  sluice features channel --to stable
  sluice features channel --to stable --guard | kubectl apply --server-side -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := channel.chosenChannel()
			if err != nil {
				return err
			}
			if channel.level == "" && len(channel.gates) == 0 {
				return errors.New("which channel? Give --to stable, --to beta or --gates")
			}
			return channelRun(cmd.Context(), e, f, &c, guard)
		},
	}
	f.addFlags(e, cmd, false, "json", "yaml")
	channel.addTo(cmd, "to", "the channel: stable, beta or alpha")
	cmd.Flags().BoolVar(&guard, "guard", false, "print a policy that refuses the step")
	return cmd
}

// channelRun counts the objects that use what the channel leaves out, and prints them, or the policy with --guard.
// It returns [command.ErrFindings] if there are any: not with --guard, because then the policy is the answer, and
// it is piped to kubectl. Components whose definitions are wrong are left out.
func channelRun(ctx context.Context, e *command.Env, f *featuresFlags, c *life.Channel, guard bool) error {
	w, err := readFeatures(ctx, e, f, nil)
	if err != nil {
		return err
	}
	if err := w.canScan(ctx, ""); err != nil {
		return err
	}
	out := ChannelStep{Document: command.DocumentOf("ChannelStep"), Channel: c.String(), Features: []usageOf{}}
	var crds []string
	affected := int64(0)
	for _, p := range w.parts {
		if p.model == nil {
			continue
		}
		closed, err := c.Closed(p.model)
		if err != nil {
			return err
		}
		var gates []string
		for _, x := range closed {
			// A feature that gates behaviour alone is used by no object.
			if len(x.Targets) > 0 {
				gates = append(gates, x.Spec.Gate)
			}
		}
		if gates == nil {
			continue
		}
		result, err := w.countUses(ctx, e, p, gates, "", true)
		if err != nil {
			return err
		}
		out.Scanned += result.Scanned
		for i := range result.Usage {
			u := usageFor(p, &result.Usage[i])
			out.Features = append(out.Features, *u)
			if u.Objects > 0 {
				affected += u.Objects
				crds = append(crds, gatedCRDs(p.model.Feature(result.Usage[i].Gate))...)
			}
		}
	}
	switch {
	case guard:
		err = printGuard(e, c, crds)
	case f.output != asTable:
		err = command.PrintDocument(e.Out, f.output, out)
	default:
		(&Usage{Features: out.Features}).printTable(e, true)
	}
	if err != nil || affected == 0 {
		if err == nil {
			fmt.Fprintf(e.Err, "no stored object uses what the channel %s leaves out\n", c)
		}
		return err
	}
	fmt.Fprintf(e.Err, "%s would lose data in the channel %s, with the next write of each, of its status as well\n", objectCount(affected), c)
	if guard {
		return nil // the policy is the answer
	}
	return command.ErrFindings
}

// gatedCRDs are the names of the CRDs with parts that a feature gates. Resources of the core group have no CRD.
func gatedCRDs(f *feature.Feature) (out []string) {
	for i := range f.Targets {
		if name := f.Targets[i].Resource + "." + f.Targets[i].Group; f.Targets[i].Group != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// printGuard prints the policy that refuses a step of CRDs to a channel, and its binding. It prints nothing if no
// CRD is meant. The policy lets updates pass that leave the channel of a CRD as it is.
func printGuard(e *command.Env, c *life.Channel, crds []string) error {
	slices.Sort(crds)
	crds = slices.Compact(crds)
	if len(crds) == 0 {
		return nil
	}
	name := "channel-guard.sluice.dev"
	// The channel itself, and all that are narrower: stable is within beta, and beta within alpha.
	narrow := []string{fmt.Sprintf("c == '%s'", c)}
	for _, l := range []v1alpha1.Level{v1alpha1.LevelStable, v1alpha1.LevelBeta, v1alpha1.LevelAlpha} {
		if c.Level == "" {
			break
		}
		narrow = append(narrow, fmt.Sprintf("c == '%s' || c.startsWith('%s,')", l, l))
		if l == c.Level {
			break
		}
	}
	// Gateway API and OpenShift name the sets of their CRDs with annotations of their own.
	annotation := func(of string) string {
		return fmt.Sprintf("!has(%[1]s) ? '' : '%[2]s' in %[1]s ? %[1]s['%[2]s']"+
			" : 'gateway.networking.k8s.io/channel' in %[1]s ? (%[1]s['gateway.networking.k8s.io/channel'] == 'standard' ? 'stable' : 'alpha')"+
			" : 'release.openshift.io/feature-set' in %[1]s ? ('Default' in %[1]s['release.openshift.io/feature-set'].split(',') ? 'stable' : 'alpha')"+
			" : ''", of+".metadata.annotations", life.ChannelAnnotation)
	}
	// If the policy cannot be evaluated, the step is refused: the data would be lost for good.
	fail, exact := admissionv1.Fail, admissionv1.Equivalent
	policy := &admissionv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{MatchPolicy: &exact, ResourceRules: []admissionv1.NamedRuleWithOperations{{
				ResourceNames: crds,
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{"apiextensions.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"customresourcedefinitions"}},
				},
			}}},
			Variables: []admissionv1.Variable{{Name: "channel", Expression: annotation("object")}, {Name: "before", Expression: annotation("oldObject")}},
			Validations: []admissionv1.Validation{{
				Expression: fmt.Sprintf("variables.channel == variables.before || ![variables.channel].exists(c, %s)", strings.Join(narrow, " || ")),
				Message:    fmt.Sprintf("stored objects use what the channel %s leaves out, and would lose it: sluice features channel --to %s names them", c, c),
			}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	return printObjects(e, "yaml", []runtime.Object{policy, binding})
}
