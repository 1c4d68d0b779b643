package features

// Which objects use a feature? In a cluster, usage reads every stored object of the gated resources and counts by
// namespace. With -f it reads manifests: then it says with file and line which features they use, and which
// setting opens those that are off, so that one knows before the deployment.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/rules"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/featureusage"
	"sluice.dev/internal/input"
)

// maxNames is the limit of objects that are named for each feature.
const maxNames = 1000

// usageFlags are the flags of sluice features usage.
type usageFlags struct {
	featuresFlags

	verbose, record bool
	definitions     []string // with files: more of them, with definitions alone
}

// Usage is the document for programs.
type Usage struct {
	command.Document `json:",inline"`
	Scanned          int64     `json:"scanned"`
	Features         []usageOf `json:"features"`
	// Level is, of files, the least level that opens the features that follow it and are off; empty if none is.
	Level v1alpha1.Level `json:"level,omitempty"`
}

// usageOf counts the objects that use a feature.
type usageOf struct {
	Name       string                   `json:"name"`
	Objects    int64                    `json:"objects"`
	Uses       int64                    `json:"uses"`
	Namespaces []featureusage.Namespace `json:"namespaces,omitempty"`
	// Named are at most 1000 of the objects, with --verbose, or all objects of files.
	Named []usedBy `json:"named,omitempty"`
	// On says of manifests in files whether the feature is on.
	On *bool `json:"on,omitempty"`
	// Fix says how to turn it on if it is off.
	Fix string `json:"fix,omitempty"`
}

// usedBy is an object that uses a feature. File and Line are set for objects of files.
type usedBy struct {
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	// Name is PREFIX* for an object in a file that has generateName.
	Name string `json:"name"`
	Uses int    `json:"uses"`
	// Path is the first place that uses the feature.
	Path string `json:"path"`

	sourcePlace `json:",inline"`
}

// newFeaturesUsage returns the command features usage.
func newFeaturesUsage(e *command.Env) *cobra.Command {
	f := &usageFlags{}
	cmd := &cobra.Command{
		Use:   "usage [FEATURE...]",
		Short: "Count the stored objects that use features, by namespace",
		Long: `Count the stored objects that use features, by namespace. The command reads every object of the gated resources, page by page, even
if the feature is off. With -v it lists at most 1000 objects for each feature, each with the place of its first use.

With --record it writes the counts into the status of the features, so that kubectl get features shows them.

With -f it reads manifests instead of a cluster, such as a folder before you deploy it. It says which features they use, with file and line,
and which setting or least level turns on those that are off. Exit code 1 if any is off, by the ConfigMap among the files or by default.`,
		Example: `  sluice features usage
  sluice features usage -f manifests/ --features config/features.yaml --features crds/
  sluice features usage tasks-timeout -n team-a -v`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(f.files) > 0 {
				if len(args) > 0 || f.record || f.Namespace != "" {
					return errors.New("with -f, all features of a component are looked for in all manifests: leave FEATURE, -n and --record out")
				}
				if err := f.RefuseUnused(noCluster); err != nil {
					return err
				}
				return printNeeds(cmd.Context(), e, f)
			}
			if f.record && f.Namespace != "" {
				return errors.New("--record counts all namespaces: leave -n out")
			}
			w, err := readFeatures(cmd.Context(), e, &f.featuresFlags, args)
			if err != nil {
				return err
			}
			// A scan may take minutes: what makes it pointless is found before.
			if err := w.canScan(cmd.Context(), f.Namespace); err != nil {
				return err
			}
			return w.printUsage(cmd.Context(), e, f, len(args) > 0)
		},
	}
	f.addFlags(e, cmd, false, "json", "yaml", "name")
	fs := cmd.Flags()
	fs.StringSliceVarP(&f.files, "filename", "f", nil, "file or directory with manifests to look at, instead of the cluster, - for standard input")
	fs.StringSliceVar(&f.definitions, "features", nil, "with -f: file or directory with the Component, its Features and CRDs")
	fs.StringVarP(&f.Namespace, "namespace", "n", "", "only objects of this namespace (default: all)")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "list the objects by name")
	fs.BoolVar(&f.record, "record", false, "write the counts into the status of the features")
	return cmd
}

// printUsage counts the uses of the chosen features, component by component, and prints them. With record, the
// counts are written into the status of the features. Features that gate no part of an object are left out, with a
// note if the user has named them.
func (w *featureWorld) printUsage(ctx context.Context, e *command.Env, f *usageFlags, named bool) error {
	out := Usage{Document: command.DocumentOf("FeatureUsage"), Features: []usageOf{}}
	for _, p := range w.parts {
		gates := []string{}
		for _, c := range w.chosen {
			switch {
			case c.componentFeatures != p:
			case c.state == nil:
				fmt.Fprintf(e.Err, "warning: the definition of %s is wrong, it is not counted\n", c.definition.Name)
			case len(c.state.Feature.Targets) == 0:
				if named {
					fmt.Fprintf(e.Err, "note: %s gates behaviour only: no object uses it\n", c.definition.Name)
				}
			default:
				gates = append(gates, c.definition.Spec.Gate)
			}
		}
		if len(gates) == 0 {
			continue
		}
		result, err := w.countUses(ctx, e, p, gates, f.Namespace, f.verbose)
		if err != nil {
			return err
		}
		out.Scanned += result.Scanned
		if f.record {
			if err := w.recordUsage(ctx, e, p, result); err != nil {
				return err
			}
		}
		for i := range result.Usage {
			out.Features = append(out.Features, *usageFor(p, &result.Usage[i]))
		}
	}
	return printInFormat(e, f.output, out, func() { out.printTable(e, f.verbose) }, func() { out.printNames(e) })
}

// printInFormat prints a result: by one of the functions, as a table or as names, or else as a document.
func printInFormat(e *command.Env, format string, document any, table, names func()) error {
	switch format {
	case asTable:
		table()
	case "name":
		names()
	default:
		return command.PrintDocument(e.Out, format, document)
	}
	return nil
}

// countUses counts the objects that use features of a component. On a terminal it shows the progress, and removes
// it at the end. With named, objects are listed by name, 1000 for each feature at most. An empty namespace is all.
func (w *featureWorld) countUses(ctx context.Context, e *command.Env, p *componentFeatures, gates []string, namespace string, named bool) (*featureusage.Result, error) {
	s := &featureusage.Scan{Cluster: w.cluster, Models: []*feature.Model{p.model}, Gates: gates, Resources: w.scopes, Namespace: namespace}
	if named {
		s.Names = maxNames
	}
	if e.ErrTTY {
		s.Progress = func(resource string, objects int64) { fmt.Fprintf(e.Err, "\r\033[K%d objects, %s", objects, resource) }
		defer fmt.Fprint(e.Err, "\r\033[K")
	}
	return s.Run(ctx)
}

// canScan returns why objects cannot be counted: the resources are not known, or the namespace does not exist.
func (w *featureWorld) canScan(ctx context.Context, namespace string) error {
	if w.unread != nil {
		return fmt.Errorf("the uses in objects are not known: %w", w.unread)
	}
	if namespace == "" {
		return nil
	}
	// A user who cannot read namespaces only needs the right to the objects.
	if _, err := w.kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no namespace %q", namespace)
	}
	return nil
}

// recordUsage writes counts into the status of features, and nothing else.
func (w *featureWorld) recordUsage(ctx context.Context, e *command.Env, p *componentFeatures, r *featureusage.Result) error {
	at := metav1.NewTime(e.Now())
	for _, u := range r.Usage {
		name := p.model.Feature(u.Gate).Name
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"inUse": u.Objects, "inUseTime": at}})
		if err != nil {
			return err
		}
		resource := w.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("features"))
		if _, err := resource.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "sluice"}, "status"); err != nil {
			return fmt.Errorf("the status of %s: %w", name, err)
		}
	}
	return nil
}

// usageFor is the count of a feature for programs.
func usageFor(p *componentFeatures, u *featureusage.Usage) *usageOf {
	out := &usageOf{Name: p.model.Feature(u.Gate).Name, Objects: u.Objects, Uses: u.Uses, Namespaces: u.Namespaces}
	for _, o := range u.Names {
		resource := schema.GroupResource{Group: o.Group, Resource: o.Resource}.String()
		out.Named = append(out.Named, usedBy{resource, o.Namespace, o.Name, o.Uses, o.Path, sourcePlace{}})
	}
	return out
}

// printNames prints the features that are used.
func (u *Usage) printNames(e *command.Env) {
	for i := range u.Features {
		if x := &u.Features[i]; x.Objects > 0 {
			fmt.Fprintln(e.Out, featurePrefix+x.Name)
		}
	}
}

// printTable prints a row for each feature and one for each of its namespaces, and with verbose the objects below.
//
//	FEATURE         NAMESPACE  OBJECTS  USES
//	demo.fast-path  all        3        4
//	demo.fast-path  team-a     3        4
func (u *Usage) printTable(e *command.Env, verbose bool) {
	if len(u.Features) == 0 {
		fmt.Fprintln(e.Err, "no feature gates anything that is stored")
		return
	}
	t := command.Columns(e.Out)
	fmt.Fprintln(t, "FEATURE\tNAMESPACE\tOBJECTS\tUSES")
	for i := range u.Features {
		x := &u.Features[i]
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\n", x.Name, "all", x.Objects, x.Uses)
		for _, n := range x.Namespaces {
			fmt.Fprintf(t, "%s\t%s\t%d\t%d\n", x.Name, command.Dash(n.Name), n.Objects, n.Uses)
		}
	}
	t.Flush()
	for i := range u.Features {
		if x := &u.Features[i]; verbose && len(x.Named) > 0 {
			fmt.Fprintf(e.Out, "\n%s\n", x.Name)
			x.printNamed(t, "  ")
			t.Flush()
		}
	}
}

// printRows writes the counts by namespace, and with verbose the names.
func (x *usageOf) printRows(t io.Writer, indent string, verbose bool) {
	if verbose {
		x.printNamed(t, indent)
		return
	}
	for _, n := range x.Namespaces {
		fmt.Fprintf(t, "%s%s\t%s\n", indent, command.Dash(n.Name), objectCount(n.Objects))
	}
}

// printNamed writes a row for each object that is named, and how many more there are.
func (x *usageOf) printNamed(t io.Writer, indent string) {
	for _, o := range x.Named {
		fmt.Fprintf(t, "%s%s\t%s\t%s\t%s\n", indent, o.Resource, command.Dash(o.Namespace), o.Name, o.Path)
	}
	if more := x.Objects - int64(len(x.Named)); more > 0 {
		fmt.Fprintf(t, "%sand %d more\n", indent, more)
	}
}

// needs collects the features that the objects of files use.
type needs struct {
	*definitions

	model     *feature.Model
	states    *feature.States
	inspector *feature.Inspector
	usage     Usage
}

// printNeeds says which features the objects of files use, and what turns on those that are off. That any is off
// is a finding. A definition with an error stops it, since the answer would be wrong. Objects of kinds that no
// feature gates count as looked at.
func printNeeds(ctx context.Context, e *command.Env, f *usageFlags) error {
	var manifests []*input.Set
	d := &definitions{kinds: map[string]string{}}
	for i, name := range slices.Concat(f.definitions, f.files) {
		set, err := readManifests(ctx, e, name)
		if err == nil {
			err = d.addObjects(set)
		}
		if err != nil {
			return err
		}
		if i >= len(f.definitions) {
			manifests = append(manifests, set)
		}
	}
	c, err := d.componentNamed(f.component)
	if err != nil {
		return fmt.Errorf("%w; --features names the files with the definitions", err)
	}
	model, findings := rules.Define(c, d.features, feature.Options{Date: e.Now(), Resources: d.resources, PartsMayWait: true, OtherGroups: true})
	if i := slices.IndexFunc(findings, func(x feature.Finding) bool { return x.Severity == feature.Error && !x.Waits() }); i >= 0 {
		at := d.withPlace(c, &findings[i])
		return errors.New(at.String())
	}
	parsed, err := d.goodSettings(ctx, e, c, model)
	if err != nil {
		return err
	}
	n := &needs{d, model, model.Resolve(parsed, feature.Runtime{AssumeProcesses: true}), model.Inspector(), Usage{Document: command.DocumentOf("FeatureUsage"), Features: []usageOf{}}}
	var counted readObjects
	for _, set := range manifests {
		for i := range set.Objects {
			if counted.isAgain(set, &set.Objects[i]) {
				continue
			}
			if err := n.addObject(&set.Objects[i]); err != nil {
				return err
			}
		}
	}
	if n.usage.Scanned == 0 {
		return fmt.Errorf("%s: no object was found, so nothing was looked at: give files or folders with manifests", strings.Join(f.files, ", "))
	}
	if err := printInFormat(e, f.output, n.usage, func() { n.printTable(e) }, func() { n.usage.printNames(e) }); err != nil {
		return err
	}
	return command.FindingsIf(slices.ContainsFunc(n.usage.Features, func(u usageOf) bool { return !*u.On }))
}

// goodSettings are the settings of a component among the files. If they have errors, what is on with them is not
// known. Warnings are printed.
func (d *definitions) goodSettings(ctx context.Context, e *command.Env, c *v1alpha1.Component, model *feature.Model) (*feature.Settings, error) {
	data, from, err := d.settingsData(ctx, e, c, nil, "")
	if err != nil {
		return nil, err
	}
	parsed, findings := model.ParseSettings(data)
	var wrong []error
	for _, x := range findings {
		text := settingPlace(from, &x).placePrefix() + x.String()
		if x.Severity == feature.Error {
			wrong = append(wrong, errors.New(text))
			continue
		}
		fmt.Fprintln(e.Err, "warning: "+text)
	}
	return parsed, errors.Join(wrong...)
}

// checkVersion refuses a version that the CRD among the files lacks.
func (d *definitions) checkVersion(o *input.Object, in schema.GroupVersionResource) error {
	i := slices.IndexFunc(d.resources, func(r feature.Resource) bool { return r.Group == in.Group && r.Resource == in.Resource })
	if i < 0 {
		return nil
	}
	var names []string
	for _, v := range d.resources[i].Versions {
		names = append(names, v.Name)
	}
	if slices.Contains(names, in.Version) {
		return nil
	}
	return o.WrongAt(fmt.Sprintf("the CRD of %s has no version %q; its versions are %s", in.GroupResource(), in.Version, strings.Join(names, ", ")), "apiVersion")
}

// addObject adds the features that an object uses. Besides the parts that it has, an object uses the feature that
// gates its whole version.
func (n *needs) addObject(o *input.Object) (err error) {
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(o.JSON, &u.Object); err != nil {
		return o.Wrong(err)
	}
	gvk := u.GroupVersionKind()
	resource := n.kinds[gvk.Group+"/"+gvk.Kind]
	if resource == "" {
		if resource, err = n.guessResource(n.model, gvk); err != nil {
			return o.Wrong(err)
		}
	}
	if err := n.checkVersion(o, schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: resource}); err != nil {
		return err
	}
	n.usage.Scanned++
	uses := n.inspector.Uses(gvk.Group, gvk.Version, resource, u.Object)
	for _, f := range n.model.Features() {
		// To create the object is a write in its version.
		if slices.ContainsFunc(f.Targets, func(t feature.Target) bool {
			return t.WholeVersion && t.Group == gvk.Group && t.Resource == resource && t.Version == gvk.Version
		}) {
			uses = append(uses, feature.Use{Feature: f, Count: 1, Path: "apiVersion"})
		}
	}
	name := u.GetName()
	// As kubectl shows it: the API server chooses the rest of the name.
	if prefix := u.GetGenerateName(); name == "" && prefix != "" {
		name = prefix + "*"
	}
	for _, use := range uses {
		x := n.usageOf(use.Feature)
		x.Objects, x.Uses = x.Objects+1, x.Uses+int64(use.Count)
		x.Named = append(x.Named, usedBy{
			schema.GroupResource{Group: gvk.Group, Resource: resource}.String(), u.GetNamespace(), name, use.Count, use.Path,
			lastPlace([]*input.Positions{o.Positions}, input.Steps(use.Path)...),
		})
	}
	return nil
}

// usageOf returns the entry of a feature, which it adds if there is none. The pointer is valid until the next
// entry is added.
func (n *needs) usageOf(f *feature.Feature) *usageOf {
	i := slices.IndexFunc(n.usage.Features, func(u usageOf) bool { return u.Name == f.Name })
	if i >= 0 {
		return &n.usage.Features[i]
	}
	s, _ := n.states.State(f.Spec.Gate)
	x := usageOf{Name: f.Name, On: &s.Open}
	if !s.Open {
		x.Fix = s.Fix
		if f.FollowsLevel && s.Why != feature.WhyKey && (n.usage.Level == "" || f.Level == v1alpha1.LevelAlpha) {
			n.usage.Level = f.Level
		}
	}
	n.usage.Features = append(n.usage.Features, x)
	return &n.usage.Features[len(n.usage.Features)-1]
}

// printTable prints each feature with the places that use it, and what turns it on, and at the end the level that
// opens all that follow one.
//
//	demo.cache: off
//	  manifests/page.yaml:7: pages.example.dev front: spec.cache
//	  to turn it on: set cache: "true", ...
//	the least level that opens what follows it: alpha
func (n *needs) printTable(e *command.Env) {
	if len(n.usage.Features) == 0 {
		verb := "use"
		if n.usage.Scanned == 1 {
			verb = "uses"
		}
		fmt.Fprintf(e.Err, "%s, which %s no feature\n", objectCount(n.usage.Scanned), verb)
		return
	}
	for i := range n.usage.Features {
		x := &n.usage.Features[i]
		fmt.Fprintf(e.Out, "%s: %s\n", x.Name, feature.OnOff(*x.On))
		for _, u := range x.Named {
			fmt.Fprintf(e.Out, "  %s%s %s: %s\n", u.placePrefix(), u.Resource, command.Dash(u.Name), u.Path)
		}
		if x.Fix != "" {
			fmt.Fprintf(e.Out, "  to turn it on: %s\n", x.Fix)
		}
	}
	if n.usage.Level != "" {
		fmt.Fprintf(e.Out, "the least level that opens what follows it: %s\n", n.usage.Level)
	}
}
