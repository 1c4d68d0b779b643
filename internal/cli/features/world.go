package features

// What do commands know about features? A featureWorld: the Components and Features of a cluster or of files, the
// settings in force, the reports of processes, and the states that follow from them. A user with few rights gets
// as much as can be had: what cannot be read is noted, and the rest is shown. Definitions with errors stay in the
// world, so that list can show them.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/rules"
	"sluice.dev/feature/skew"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/cluster"
	"sluice.dev/internal/featureusage"
	"sluice.dev/internal/settings"
)

// featuresFlags select the source of features.
type featuresFlags struct {
	command.ClusterFlags

	files     []string
	component string
	output    string
}

// asTable is the format for people.
const asTable = "table"

// addFlags adds the flags, -o with the table and the given formats, and the completion of features. With files, it
// adds -f as well: other commands read objects of the cluster.
func (f *featuresFlags) addFlags(e *command.Env, cmd *cobra.Command, files bool, outputs ...string) {
	fs := cmd.Flags()
	f.AddCluster(fs)
	fs.StringVar(&f.component, "component", "", "only this component")
	command.AddOutput(cmd, &f.output, append([]string{asTable}, outputs...)...)
	command.CompleteWith(cmd, "component", func(string) ([]string, cobra.ShellCompDirective) { return componentsToComplete(cmd.Context(), e, f) })
	if files {
		fs.StringSliceVarP(&f.files, "filename", "f", nil, "file or directory with Components, Features, CRDs, ConfigMaps and FeatureReports, instead of the cluster")
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		var out []string
		for _, x := range definitionsToComplete(cmd.Context(), e, f).features {
			x.Name = cmp.Or(x.Name, feature.ObjectName(x.Spec.Component, x.Spec.Gate))
			named := func(arg string) bool { return isNamed(&x, strings.TrimPrefix(arg, featurePrefix)) }
			if !slices.ContainsFunc(args, named) && (f.component == "" || f.component == x.Spec.Component) {
				out = append(out, x.Name+"\t"+x.Spec.Description)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// completionTimeout is the time limit for the completion of names.
const completionTimeout = 3 * time.Second

// definitionsToComplete reads components and features, as far as they can be read: a shell waits for them, and
// shows no errors. It takes three seconds at most, and is empty after an error.
func definitionsToComplete(ctx context.Context, e *command.Env, f *featuresFlags) *definitions {
	d := &definitions{}
	if len(f.files) > 0 {
		quiet := *e
		quiet.In, quiet.Err = strings.NewReader(""), io.Discard
		if read, err := readDefinitions(ctx, &quiet, f.files); err == nil {
			d = read
		}
		return d
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	if c, err := f.Cluster(); err == nil {
		_ = eachOf(ctx, c, "features", &d.features)
		_ = eachOf(ctx, c, "components", &d.components)
	}
	return d
}

// componentsToComplete completes the name of a component.
func componentsToComplete(ctx context.Context, e *command.Env, f *featuresFlags) (names []string, _ cobra.ShellCompDirective) {
	for _, c := range definitionsToComplete(ctx, e, f).components {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

// featureWorld has the features of a cluster or of files.
type featureWorld struct {
	definitions

	parts   []*componentFeatures // sorted by component
	chosen  []chosenFeature      // the features that the command is about
	cluster *cluster.Cluster
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	scopes  []featureusage.Resource
	// unread says why the schemas of gated resources are not known, unreported why the reports of processes are not known; nil if they
	// are.
	unread, unreported error
}

// componentFeatures is one component of a world.
type componentFeatures struct {
	component *v1alpha1.Component
	features  []v1alpha1.Feature // its definitions, sorted by name, including wrong ones
	model     *feature.Model
	findings  feature.Findings
	config    *corev1.ConfigMap  // nil if there is none
	file      *settings.Settings // those of config if it comes from a file
	settings  *feature.Settings  // the settings in force
	wrong     feature.Findings   // errors of the settings in the ConfigMap
	skew      *skew.Result
	states    *feature.States // the states in effect
	places    *definitions    // the places of definitions from files
	hidden    error           // why the ConfigMap cannot be read; nil if it can
}

// noCluster says why a command does without a cluster.
const noCluster = "-f reads files instead of a cluster"

// readFeatures reads all features, or those of the component in the flag, and chooses those with the names;
// without names all. Problems that leave something to show are printed; the error is for those that leave nothing.
func readFeatures(ctx context.Context, e *command.Env, f *featuresFlags, chosen []string) (*featureWorld, error) {
	w := &featureWorld{definitions: definitions{kinds: map[string]string{}}}
	if len(f.files) > 0 {
		if err := f.RefuseUnused(noCluster); err != nil {
			return nil, err
		}
		d, err := readDefinitions(ctx, e, f.files)
		if err != nil {
			return nil, err
		}
		w.definitions = *d
	} else if err := w.readCluster(ctx, e, f); err != nil {
		return nil, err
	}
	names := w.joinComponents(f.component)
	switch {
	case f.component != "" && w.parts == nil:
		return nil, fmt.Errorf("there is no component %q%s", f.component, brief.Hint(f.component, names))
	case w.parts == nil && len(f.files) > 0:
		return nil, w.noComponent()
	case w.parts == nil:
		return nil, errors.New("there is no Component (sluice.dev/v1alpha1)")
	}
	if f.component == "" {
		w.tellStrays(e, names)
	}
	if w.cluster != nil {
		err := w.resourcesOf(ctx)
		if apierrors.IsForbidden(err) {
			fmt.Fprintf(e.Err, "note: it is not known if the definitions fit the schemas of the CRDs that they gate: %v\n", err)
			// Half of the schemas would make definitions look wrong that are right.
			w.unread, w.resources, w.scopes, err = err, nil, nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	for _, p := range w.parts {
		if err := p.defineStates(ctx, e, w); err != nil {
			return nil, err
		}
	}
	var err error
	w.chosen, err = w.findFeatures(chosen)
	return w, err
}

// joinComponents makes a part of each component with its features, sorted, or of the chosen one. It returns the names of all.
func (w *featureWorld) joinComponents(chosen string) (names []string) {
	for i := range w.components {
		c := &w.components[i]
		names = append(names, c.Name)
		if chosen != "" && c.Name != chosen {
			continue
		}
		p := &componentFeatures{component: c, places: &w.definitions}
		for _, x := range w.features {
			if x.Spec.Component == c.Name {
				x.Name = cmp.Or(x.Name, feature.ObjectName(x.Spec.Component, x.Spec.Gate))
				p.features = append(p.features, x)
			}
		}
		w.parts = append(w.parts, p)
	}
	slices.SortFunc(w.parts, func(a, b *componentFeatures) int { return strings.Compare(a.component.Name, b.component.Name) })
	return names
}

// tellStrays names the features whose component is not among those with the names.
func (w *featureWorld) tellStrays(e *command.Env, names []string) {
	for i := range w.features {
		if s := &w.features[i].Spec; !slices.Contains(names, s.Component) {
			fmt.Fprintf(e.Err, "warning: %s%s is left out: there is no Component %q%s\n",
				w.findFeature(s.Component, s.Gate, "spec", "component").placePrefix(), s.Gate, s.Component, brief.Hint(s.Component, names))
		}
	}
}

// readCluster reads the objects of a cluster. Reports that the user may not read, or whose kind is not installed,
// are noted in unreported.
func (w *featureWorld) readCluster(ctx context.Context, e *command.Env, f *featuresFlags) error {
	config, _, err := f.Connect()
	if err != nil {
		return err
	}
	if w.cluster, err = cluster.For(config); err != nil {
		return err
	}
	if w.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if w.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	if err := eachOf(ctx, w.cluster, "components", &w.components); err != nil {
		return err
	}
	if err := eachOf(ctx, w.cluster, "features", &w.features); err != nil {
		return err
	}
	err = eachOf(ctx, w.cluster, "featurereports", &w.reports)
	if apierrors.IsForbidden(err) || errors.Is(err, errNoKind) {
		// Reports are in the namespaces of components. A user who cannot read them still gets the rest.
		fmt.Fprintf(e.Err, "note: what processes report is not known: %v\n", err)
		w.unreported = err
		return nil
	}
	return err
}

// errNoKind says that the cluster lacks a kind of sluice.dev.
var errNoKind = errors.New("are the CRDs of features installed? (sluice manifests --roles=features)")

// eachOf reads all objects of a kind of sluice.dev.
func eachOf[T any](ctx context.Context, c *cluster.Cluster, resource string, to *[]T) error {
	path := "/apis/" + v1alpha1.SchemeGroupVersion.String() + "/" + resource
	err := c.Each(ctx, path, cluster.EachOptions{}, func(raw []byte) error {
		var v T
		if err := json.Unmarshal(raw, &v); err != nil {
			return err
		}
		*to = append(*to, v)
		return nil
	})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the cluster does not know %s.%s: %w", resource, v1alpha1.GroupName, errNoKind)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", resource, err)
	}
	return nil
}

// resourcesOf reads the resources that features gate. Each is read once, however many features gate it. The
// storage version is known only if it is served, since objects can be listed in no other.
func (w *featureWorld) resourcesOf(ctx context.Context) error {
	seen := map[string]bool{}
	var builtin []featureusage.Resource
	for _, p := range w.parts {
		for i := range p.features {
			for _, x := range p.features[i].Spec.Parts {
				name := x.Resource + "." + x.Group
				if seen[name] {
					continue
				}
				seen[name] = true
				crd, err := w.cluster.CRD(ctx, name)
				if err != nil {
					return fmt.Errorf("CRD %s: %w", name, err)
				}
				if crd == nil {
					builtin = append(builtin, featureusage.Resource{Group: x.Group, Resource: x.Resource})
					continue
				}
				r, err := feature.ResourceOf(crd)
				if err != nil {
					return err
				}
				w.resources = append(w.resources, r)
				s := featureusage.Resource{Group: x.Group, Resource: x.Resource, Namespaced: crd.Spec.Scope == "Namespaced"}
				for _, v := range crd.Spec.Versions {
					if v.Storage && v.Served {
						s.Storage = v.Name
					}
				}
				w.scopes = append(w.scopes, s)
			}
		}
	}
	if builtin == nil {
		return nil
	}
	return w.addBuiltins(builtin)
}

// addBuiltins asks the API server for resources that no CRD defines. It works with what discovery returns, even if
// some group does not answer.
func (w *featureWorld) addBuiltins(list []featureusage.Resource) error {
	_, all, err := w.kube.Discovery().ServerGroupsAndResources()
	if all == nil && err != nil {
		return err
	}
	for _, r := range list {
		known := feature.Resource{Group: r.Group, Resource: r.Resource}
		for _, l := range all {
			served, _ := schema.ParseGroupVersion(l.GroupVersion)
			for i := range l.APIResources {
				if x := &l.APIResources[i]; served.Group == r.Group && x.Name == r.Resource {
					known.Kind, r.Namespaced = x.Kind, x.Namespaced
					known.Versions = append(known.Versions, feature.Version{Name: served.Version})
				}
			}
		}
		if known.Versions != nil { // without a version, the definition is wrong, and gets an error
			w.resources = append(w.resources, known)
			w.scopes = append(w.scopes, r)
		}
	}
	return nil
}

// defineStates computes the states of a component's features from its definitions and settings.
func (p *componentFeatures) defineStates(ctx context.Context, e *command.Env, w *featureWorld) error {
	slices.SortFunc(p.features, func(a, b v1alpha1.Feature) int { return strings.Compare(a.Name, b.Name) })
	o := feature.Options{Resources: w.resources, Date: e.Now(), PartsMayWait: true}
	p.model, p.findings = rules.Define(p.component, p.features, o)
	p.findings = append(p.findings, p.model.SharedWith(w.components, w.features, o)...)
	if err := p.readSettings(ctx, w); err != nil {
		return err
	}
	p.judgeAgain(e.Now(), w.reports)
	return nil
}

// readSettings reads the ConfigMap. It is called again after a conflict, so it begins by forgetting what it read
// before.
func (p *componentFeatures) readSettings(ctx context.Context, w *featureWorld) error {
	p.config, p.hidden = nil, nil
	if ref := p.component.Spec.ConfigMap; ref != nil {
		if w.kube != nil {
			cm, err := w.kube.CoreV1().ConfigMaps(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
			switch {
			case err == nil:
				p.config = cm
			case apierrors.IsForbidden(err):
				// A user who cannot read it still gets the rest.
				p.hidden = fmt.Errorf("the settings of %s: %w", p.component.Name, err)
			case !apierrors.IsNotFound(err):
				return fmt.Errorf("the settings of %s: %w", p.component.Name, err)
			}
		}
		var err error
		if p.file, err = w.settingsOf(p.component); err != nil {
			return err
		}
		if p.file != nil {
			p.config = p.file.ConfigMap
		}
	}
	p.settings, p.wrong = p.model.ParseSettings(p.settingsData())
	if p.keepsLastSettings() {
		p.settings = nil
		// The controller notes the last good settings in the status; before there were any, the defaults are in
		// force.
		if kept := p.component.Status.Settings; kept != nil {
			p.settings, _ = p.model.ParseSettings(kept)
		}
	}
	return nil
}

// tellUnread prints the components of the chosen features whose settings cannot be read.
func (w *featureWorld) tellUnread(e *command.Env) {
	var told []*componentFeatures
	for _, c := range w.chosen {
		if p := c.componentFeatures; p.hidden != nil && !slices.Contains(told, p) {
			told = append(told, p)
			fmt.Fprintf(e.Err, "note: what is on is what the status of the features says: %v\n", p.hidden)
		}
	}
}

// settingPlace is the place of a finding about the settings.
func (p *componentFeatures) settingPlace(x *feature.Finding) sourcePlace {
	return settingPlace([]*settings.Settings{p.file}, x)
}

// keepsLastSettings reports whether the last good settings, or the defaults, are in force because those in the ConfigMap are wrong.
func (p *componentFeatures) keepsLastSettings() bool {
	return p.wrong.Err() != nil && p.model.Spec().Mode == v1alpha1.Baked
}

// settingsData returns the data of the ConfigMap. Nil means that there is no ConfigMap; an empty map is one
// without data.
func (p *componentFeatures) settingsData() map[string]string {
	if p.config == nil {
		return nil
	}
	if data := feature.SettingsOf(p.config.Data, p.config.BinaryData); data != nil {
		return data
	}
	return map[string]string{}
}

// configVersion is the resource version of the ConfigMap, which processes report with what they have read; empty
// if there is none.
func (p *componentFeatures) configVersion() string {
	if p.config == nil {
		return ""
	}
	return p.config.ResourceVersion
}

// chosenFeature is a feature that the user has named.
type chosenFeature struct {
	*componentFeatures

	definition *v1alpha1.Feature
	// state is nil if the definition is wrong.
	state  *feature.State
	access feature.Access
	// byDefault reports whether the feature is on while nothing is set.
	byDefault bool
}

// allFeatures returns all features. They are sorted by component and name.
func (w *featureWorld) allFeatures() (out []chosenFeature) {
	for _, p := range w.parts {
		defaults := p.model.Defaults()
		for i := range p.features {
			c := chosenFeature{componentFeatures: p, definition: &p.features[i]}
			if s, ok := p.states.State(c.definition.Spec.Gate); ok {
				c.state, c.access = &s, p.states.Access(s.Feature.Spec.Gate)
				unset, _ := defaults.State(s.Feature.Spec.Gate)
				c.byDefault = unset.Open
			}
			out = append(out, c)
		}
	}
	return out
}

// featurePrefix stands before the names of features with -o name.
const featurePrefix = "feature.sluice.dev/"

// isNamed reports whether a name means a feature.
func isNamed(f *v1alpha1.Feature, name string) bool {
	gate := f.Spec.Gate
	return name == f.Name || name == gate || name == feature.Kebab(gate) || name == f.Spec.Component+"."+gate
}

// findFeatures returns the features with these names: COMPONENT.GATE, or the gate alone if only one feature has it. Gates are in kebab-case or
// CamelCase, with or without the resource in front, as -o name prints it. Without names, it returns all features.
func (w *featureWorld) findFeatures(names []string) ([]chosenFeature, error) {
	all := w.allFeatures()
	if len(names) == 0 {
		return all, nil
	}
	var out []chosenFeature
	for _, name := range names {
		name = strings.TrimPrefix(name, featurePrefix)
		var found []chosenFeature
		var known, full []string
		for _, c := range all {
			known = append(known, c.definition.Name)
			if isNamed(c.definition, name) {
				found = append(found, c)
				full = append(full, c.definition.Name)
			}
		}
		switch len(found) {
		case 0:
			for _, c := range all {
				known = append(known, feature.Kebab(c.definition.Spec.Gate), c.definition.Spec.Gate)
			}
			return nil, fmt.Errorf("there is no feature %q%s", name, cmp.Or(brief.Hint(name, known), "; sluice features list names them"))
		case 1:
			if !slices.ContainsFunc(out, func(c chosenFeature) bool { return c.definition == found[0].definition }) {
				out = append(out, found[0])
			}
		default:
			return nil, fmt.Errorf("%q may be %s: say which", name, strings.Join(full, " or "))
		}
	}
	return out, nil
}
