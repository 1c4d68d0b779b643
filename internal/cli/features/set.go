package features

// How is a feature turned on or off? enable and disable write its key into the ConfigMap of the component, and
// nothing else of it. Before they write, they find out whether it would work: other features may be needed, a
// stage may be locked, and objects may use what is turned off. The plan is the same for both, and for --dry-run.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/feature"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/featureusage"
)

// maxConflicts is how often a write is retried because another client wrote the ConfigMap in the meantime.
const maxConflicts = 10

// setFlags are the flags of sluice features enable and disable.
type setFlags struct {
	featuresFlags

	dryRun, inUse, verbose bool
}

// Change is the document of enable and disable for programs.
type Change struct {
	command.Document `json:",inline"`
	Component        string `json:"component"`
	// ConfigMap is NAMESPACE/NAME.
	ConfigMap string `json:"configMap"`
	DryRun    bool   `json:"dryRun,omitempty"`
	// Written reports whether the ConfigMap was changed.
	Written bool `json:"written"`
	// Refused says why it was not changed.
	Refused  []string         `json:"refused,omitempty"`
	Keys     []keyChange      `json:"keys,omitempty"`
	Features []changedFeature `json:"features,omitempty"`
	// Unchanged are features that already have the wanted state.
	Unchanged []string `json:"unchanged,omitempty"`
}

// keyChange is a key of the ConfigMap.
type keyChange struct {
	Key string `json:"key"`
	// Before is nil if the key did not exist.
	Before *string `json:"before,omitempty"`
	After  string  `json:"after"`
}

// changedFeature is a feature that is turned on or off, by its name or because of another.
type changedFeature struct {
	Name    string `json:"name"`
	Enabled bool   `json:"enabled"`
	Why     string `json:"why"`
	// Needs says what the feature needs besides the settings.
	Needs string `json:"needs,omitempty"`
	// Usage counts the objects that use it; nil if they were not counted.
	Usage *usageOf `json:"usage,omitempty"`
	// Outcome says what will happen to these objects.
	Outcome string `json:"outcome,omitempty"`
}

// newFeaturesEnable returns the command features enable.
func newFeaturesEnable(e *command.Env) *cobra.Command {
	f := &setFlags{}
	cmd := &cobra.Command{
		Use:   "enable FEATURE...",
		Short: "Turn features on in the settings of their component",
		Long: `Turn features on in the settings of their component. The command writes only the feature's key in the ConfigMap of the component, and
keeps changes that others make at the same time. If a feature cannot be turned on, the command writes nothing and prints what to do
(exit code 1).`,
		Example: `  sluice features enable tasks-timeout
  sluice features enable demo.fast-path demo.cache --dry-run`,
		Args: command.OneArgOrMore("name one feature or more; sluice features list lists them"),
		RunE: func(cmd *cobra.Command, args []string) error { return setFeatures(cmd.Context(), e, f, args, true) },
	}
	f.addTo(e, cmd)
	return cmd
}

// newFeaturesDisable returns the command features disable.
func newFeaturesDisable(e *command.Env) *cobra.Command {
	f := &setFlags{}
	cmd := &cobra.Command{
		Use:   "disable FEATURE...",
		Short: "Turn features off in the settings of their component",
		Long: `Turn features off in the settings of their component. The command writes only the feature's key in the ConfigMap of the component, and
keeps changes that others make at the same time. If stored objects use a feature, the command writes nothing (exit code 1), unless you
give --even-if-in-use. --dry-run shows these objects and what happens to them.`,
		Example: `  sluice features disable tasks-timeout --dry-run -v
  sluice features disable tasks-timeout --even-if-in-use`,
		Args: command.OneArgOrMore("name one feature or more; sluice features list lists them"),
		RunE: func(cmd *cobra.Command, args []string) error { return setFeatures(cmd.Context(), e, f, args, false) },
	}
	f.addTo(e, cmd)
	cmd.Flags().BoolVar(&f.inUse, "even-if-in-use", false, "turn a feature off even if stored objects use it")
	return cmd
}

// addTo adds the flags that enable and disable share.
func (f *setFlags) addTo(e *command.Env, cmd *cobra.Command) {
	f.addFlags(e, cmd, false, "json", "yaml", "name")
	fs := cmd.Flags()
	fs.BoolVar(&f.dryRun, "dry-run", false, "write nothing; show the change, the stored objects that use the features, and what happens to them")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "list the objects by name")
}

// setFeatures turns the named features on or off, and prints what changed. All of them must be of one component,
// because one write of one ConfigMap either happens or does not. It returns [command.ErrFindings] if the change is
// refused.
func setFeatures(ctx context.Context, e *command.Env, f *setFlags, names []string, on bool) error {
	w, err := readFeatures(ctx, e, &f.featuresFlags, names)
	if err != nil {
		return err
	}
	p := w.chosen[0].componentFeatures
	var gates []string
	for _, c := range w.chosen {
		switch {
		case c.componentFeatures != p:
			return errors.New("these are features of several components: their settings are apart, so set them one after the other")
		case c.state == nil:
			return fmt.Errorf("the definition of %s is wrong: %s", c.definition.Name, strings.Join(c.stateValue().Errors, "; "))
		}
		gates = append(gates, c.definition.Spec.Gate)
	}
	if p.component.Spec.ConfigMap == nil {
		return fmt.Errorf("component %s has no ConfigMap: its features are set where its processes are started, with --feature-gates", p.component.Name)
	}
	if p.hidden != nil {
		return p.hidden
	}
	s := &setter{Env: e, flags: f, world: w, part: p, gates: gates, on: on}
	change, err := s.planAndWrite(ctx)
	if err != nil {
		return err
	}
	if p.keepsLastSettings() {
		fmt.Fprintf(e.Err, "note: the settings of %s are wrong, and nothing of them is taken until they are mended: sluice features list tells what it is\n", p.component.Name)
	}
	if err := change.printChange(e, f); err != nil {
		return err
	}
	return command.FindingsIf(change.Refused != nil)
}

// setter is one run of the command.
type setter struct {
	*command.Env

	flags *setFlags
	world *featureWorld
	part  *componentFeatures
	gates []string
	on    bool
	usage *featureusage.Result // nil before the scan
}

// planAndWrite plans the change, and writes it unless it is refused, empty, or a dry run. If another client has
// changed the ConfigMap meanwhile, it plans again with the new content: what was right may be wrong now. Objects
// are counted once, since a scan can take minutes.
func (s *setter) planAndWrite(ctx context.Context) (*Change, error) {
	for range maxConflicts {
		c := s.planChange()
		if err := s.checkUses(ctx, c); err != nil {
			return nil, err
		}
		if c.Refused != nil || c.Keys == nil || s.flags.dryRun {
			return c, nil
		}
		err := s.writeKeys(ctx, c)
		if err == nil {
			c.Written = true
			return c, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("ConfigMap %s: %w", c.ConfigMap, err)
		}
		// Another client was faster: read the ConfigMap again.
		if err := s.part.readSettings(ctx, s.world); err != nil {
			return nil, err
		}
		if s.part.hidden != nil {
			return nil, s.part.hidden
		}
	}
	return nil, fmt.Errorf("ConfigMap %s was changed by others %d times while it was to be written: try again", s.part.configMapRef(), maxConflicts)
}

// configMapRef names the ConfigMap of the component, as NAMESPACE/NAME. The component must have one.
func (p *componentFeatures) configMapRef() string {
	return p.component.Spec.ConfigMap.Namespace + "/" + p.component.Spec.ConfigMap.Name
}

// planChange returns the change to write, or why it is refused. The states are those with all processes reporting:
// which processes run decides when a feature is in effect, and not whether the settings open it.
func (s *setter) planChange() *Change {
	p := s.part
	c := &Change{Document: command.DocumentOf("FeatureChange"), Component: p.component.Name, ConfigMap: p.configMapRef(), DryRun: s.flags.dryRun}
	// Reports come and go, and the plan is about settings.
	all := feature.Runtime{AssumeProcesses: true}
	// Compare with the data of the ConfigMap. If they are wrong, other settings are in force.
	written, _ := p.model.ParseSettings(p.settingsData())
	before := p.model.Resolve(written, all)
	data := map[string]string{}
	maps.Copy(data, p.settingsData())
	for _, gate := range s.gates {
		f := p.model.Feature(gate)
		// It may be open for another reason than its key, such as the level; then there is nothing to write.
		if is, _ := before.State(gate); is.Open == s.on {
			c.Unchanged = append(c.Unchanged, fmt.Sprintf("%s is %s: %s", f.Name, feature.OnOff(s.on), is.Reason))
			continue
		}
		for key, value := range editedKeys(f, p.model.Spec().GatesKey, data, s.on) {
			k := keyChange{Key: key, After: value}
			if old, ok := p.settingsData()[key]; ok {
				k.Before = &old
			}
			// Two features may share a key, such as the list of gates: its last value counts.
			c.Keys = slices.DeleteFunc(c.Keys, func(k keyChange) bool { return k.Key == key })
			c.Keys = append(c.Keys, k)
			data[key] = value
		}
	}
	if c.Keys == nil {
		return c
	}
	c.Refused = append(c.Refused, p.immutableRefusal()...)
	slices.SortFunc(c.Keys, func(a, b keyChange) int { return strings.Compare(a.Key, b.Key) })
	settings, findings := p.model.ParseSettings(data)
	for _, x := range findings {
		// What was wrong before is not the fault of this change.
		if x.Severity == feature.Error && !slices.ContainsFunc(p.wrong, func(o feature.Finding) bool { return o == x }) {
			c.Refused = append(c.Refused, s.refusalMessage(&x))
		}
	}
	after := p.model.Resolve(settings, all)
	for _, state := range after.All() {
		f := state.Feature
		was, _ := before.State(f.Spec.Gate)
		wanted := slices.Contains(s.gates, f.Spec.Gate)
		if wanted && state.Open != s.on && c.Refused == nil {
			c.Refused = append(c.Refused, whyItStays(p.model, &state, s.on))
		}
		if was.Open == state.Open {
			continue
		}
		c.Features = append(c.Features, changedFeature{Name: f.Name, Enabled: state.Open, Why: state.Reason, Needs: untilInEffect(&state, findings.Err() != nil)})
	}
	return c
}

// immutableRefusal says why a ConfigMap that is immutable cannot be changed; nil for others.
func (p *componentFeatures) immutableRefusal() []string {
	if p.config == nil || p.config.Immutable == nil || !*p.config.Immutable {
		return nil
	}
	ref := p.component.Spec.ConfigMap
	return []string{fmt.Sprintf("%s: delete it first, with kubectl delete configmap %s --namespace %s", feature.Immutable, ref.Name, ref.Namespace)}
}

// untilInEffect says what has to happen until a new state is in effect; wrong says that the settings have errors.
// Empty: nothing. Several parts are joined by semicolons.
func untilInEffect(state *feature.State, wrong bool) string {
	var out []string
	spec := state.Feature.Spec
	if spec.NeedsRestart {
		out = append(out, "processes take it in when they are restarted")
	}
	if wrong {
		out = append(out, "it is taken in when what else is wrong with the settings is mended: sluice features list tells")
	}
	if state.Open && len(spec.RequiredProcesses) > 0 {
		out = append(out, "it is in effect when "+strings.Join(spec.RequiredProcesses, " and ")+" report it")
	}
	return strings.Join(out, "; ")
}

// refusalMessage is the message for an error of the settings, with the way out. If a feature needs others, the way
// out is the command that turns all of them on.
func (s *setter) refusalMessage(x *feature.Finding) string {
	text := x.Message
	if x.Code != feature.CodeNeedsAnother {
		return text
	}
	f := s.part.model.Feature(x.Gate)
	if s.on {
		var names []string
		for _, gate := range s.gates {
			names = append(names, s.part.model.Feature(gate).Name)
		}
		for _, gate := range f.Spec.Requires {
			if r := s.part.model.Feature(gate); r != nil && !slices.Contains(names, r.Name) && strings.Contains(text, gate) {
				names = append(names, r.Name)
			}
		}
		return text + ": sluice features enable " + strings.Join(names, " ")
	}
	return text + " then: turn " + f.Name + " off as well"
}

// whyItStays says why a feature would not get the wanted state, and what to do. state is the one that the feature
// would have after the write.
func whyItStays(m *feature.Model, state *feature.State, on bool) string {
	f := state.Feature
	if on {
		return fmt.Sprintf("%s stays off: %s; %s", f.Name, state.Reason, state.Fix)
	}
	text := fmt.Sprintf("%s stays on: %s", f.Name, state.Reason)
	switch state.Why { //nolint:exhaustive // the others say all
	case feature.WhyImplied:
		text += fmt.Sprintf(", and that opens it whatever its key says: set %s to less", m.Spec().LevelKey)
	case feature.WhyImpliedBy:
		text += ", and that opens it whatever its key says: turn that off as well"
	}
	return text
}

// editedKeys returns the keys that turn a feature on or off: its entry among the gates if it has one, and its own
// key if that exists or if there is no entry. If both are there, both are written, so that they do not contradict
// each other.
func editedKeys(f *feature.Feature, gatesKey string, data map[string]string, on bool) map[string]string {
	out := map[string]string{}
	gates, found := editGates(data[gatesKey], f.Spec.Gate, on)
	if found {
		out[gatesKey] = gates
	}
	if _, own := data[f.Spec.Key]; own || !found {
		out[f.Spec.Key] = fmt.Sprint(on != f.Spec.Inverted)
	}
	return out
}

// editGates sets the entries of a gate in a list like A=true,B=false and leaves everything else as it is, white
// space included. found is false if the gate has no entry; then nothing is changed, and the caller writes the key
// of the feature instead.
func editGates(text, gate string, on bool) (out string, found bool) {
	entries := strings.Split(text, ",")
	for i, entry := range entries {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || strings.TrimSpace(name) != gate {
			continue
		}
		found = true
		word := strings.TrimSpace(value)
		before, after := value, ""
		if word != "" {
			before, after, _ = strings.Cut(value, word)
		}
		entries[i] = name + "=" + before + fmt.Sprint(on) + after
	}
	return strings.Join(entries, ","), found
}

// checkUses counts the objects that use the features, if that is needed, and refuses to turn off a feature that is
// in use. A dry run counts for features that are turned on as well, and its refusal says how many objects there
// are.
func (s *setter) checkUses(ctx context.Context, c *Change) error {
	var gates []string
	for _, x := range c.Features {
		// Nobody stores a feature that gates behaviour alone. To turn one on harms no object, so it is counted for
		// a dry run only.
		if m := s.part.gateOf(x.Name); len(m.Targets) > 0 && (s.flags.dryRun || !x.Enabled && !s.flags.inUse) {
			gates = append(gates, m.Spec.Gate)
		}
	}
	if gates != nil && c.Refused == nil && s.usage == nil {
		if err := s.world.canScan(ctx, ""); err != nil {
			return fmt.Errorf("whether the features are in use: %w", err)
		}
		var err error
		if s.usage, err = s.world.countUses(ctx, s.Env, s.part, gates, "", s.flags.verbose); err != nil {
			return fmt.Errorf("whether the features are in use: %w", err)
		}
	}
	if s.usage == nil {
		return nil
	}
	for i := range c.Features {
		x := &c.Features[i]
		f := s.part.gateOf(x.Name)
		u := s.usage.Of(s.part.component.Name, f.Spec.Gate)
		if u == nil {
			continue
		}
		x.Usage = usageFor(s.part, u)
		x.Outcome = "from now on everybody may use it"
		if x.Enabled {
			continue
		}
		x.Outcome = whenOff(f.Spec.WhenDisabled, f.Spec.Ratchet)
		if u.Objects > 0 && !s.flags.inUse {
			text := fmt.Sprintf("%s is in use by %s", x.Name, objectCount(u.Objects))
			if !s.flags.dryRun {
				text += ": --dry-run -v shows them, --even-if-in-use turns it off all the same"
			}
			c.Refused = append(c.Refused, text)
		}
	}
	return nil
}

// gateOf returns the feature with the name of an object. It is nil if there is none.
func (p *componentFeatures) gateOf(name string) *feature.Feature {
	for _, f := range p.model.Features() {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// writeKeys writes only these keys. It fails with a conflict if the ConfigMap has changed since it was read. A
// ConfigMap that does not exist is created. The resource version in the patch makes the API server refuse it if
// another client was faster.
func (s *setter) writeKeys(ctx context.Context, c *Change) error {
	ref := s.part.component.Spec.ConfigMap
	maps := s.world.kube.CoreV1().ConfigMaps(ref.Namespace)
	data := map[string]string{}
	for _, k := range c.Keys {
		data[k.Key] = k.After
	}
	if s.part.config == nil {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}, Data: data}
		_, err := maps.Create(ctx, cm, metav1.CreateOptions{FieldManager: "sluice"})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace %s: %s", ref.Namespace, err.Error()) // a retry would not help
		}
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]string{"resourceVersion": s.part.config.ResourceVersion}, "data": data})
	if err != nil {
		return err
	}
	_, err = maps.Patch(ctx, ref.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "sluice"})
	return err
}

// printChange prints the change in the format of the flags. Reasons for a refusal go to standard error; the
// documents have them, too.
func (c *Change) printChange(e *command.Env, f *setFlags) error {
	switch f.output {
	case "name":
		for _, x := range c.Features {
			if c.Refused == nil {
				fmt.Fprintln(e.Out, featurePrefix+x.Name)
			}
		}
	case asTable:
		c.printText(e, f)
	default:
		return command.PrintDocument(e.Out, f.output, c)
	}
	for _, r := range c.Refused {
		fmt.Fprintln(e.Err, "refused: "+r)
	}
	return nil
}

// printText prints the change for people: keys, then features with what becomes of the objects that use them.
// After a refusal nothing was written, so keys and features are printed only in a dry run.
//
//	ConfigMap default/demo-features: cache: "true" written (not set before)
//	demo.cache: on, ...
//	  in use by no object; from now on everybody may use it
func (c *Change) printText(e *command.Env, f *setFlags) {
	for _, u := range c.Unchanged {
		fmt.Fprintln(e.Out, u)
	}
	verb := map[bool]string{true: "would be written", false: "written"}[c.DryRun]
	for _, k := range c.Keys {
		if c.Refused != nil && !c.DryRun {
			break
		}
		before := "not set"
		if k.Before != nil {
			before = fmt.Sprintf("%q", *k.Before)
		}
		fmt.Fprintf(e.Out, "ConfigMap %s: %s: %q %s (%s before)\n", c.ConfigMap, k.Key, k.After, verb, before)
	}
	for i := range c.Features {
		x := &c.Features[i]
		if c.Refused != nil && !c.DryRun {
			break
		}
		fmt.Fprintf(e.Out, "%s: %s, %s\n", x.Name, feature.OnOff(x.Enabled), x.Why)
		if x.Needs != "" {
			fmt.Fprintf(e.Out, "  %s\n", x.Needs)
		}
		if x.Usage == nil {
			continue
		}
		fmt.Fprintf(e.Out, "  in use by %s; %s\n", objectCount(x.Usage.Objects), x.Outcome)
		t := command.Columns(e.Out)
		x.Usage.printRows(t, "  ", f.verbose)
		t.Flush()
	}
}

// objectCount is a number of objects in a sentence.
func objectCount(n int64) string {
	switch n {
	case 0:
		return "no object"
	case 1:
		return "1 object"
	}
	return fmt.Sprintf("%d objects", n)
}
