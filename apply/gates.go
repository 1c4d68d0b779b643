package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/rules"
	"sluice.dev/internal/cluster"
	"sluice.dev/internal/crdcheck"
	"sluice.dev/report"
)

// Which features are off in this cluster, as the apply will leave it? The preflight FeatureGates needs the answer. The source may
// bring a Component, a Feature, the settings, a label of a namespace or the CRD of a gated kind itself, so each is read from the
// cluster first, and then the source's form is put over it. For example, a source that opens the gate in its own ConfigMap may use
// the field that the gate guards.

// gateCheck is the data of the preflight FeatureGates.
type gateCheck struct {
	client *client
	plan   *Plan
	now    func() time.Time

	// components are those with features that gate a part of an object that the plan writes.
	components []*gated
	// doubts are findings about definitions and settings, by the name of their subject.
	doubts map[string][]report.Finding

	mu     sync.Mutex
	opted  map[optIn]bool
	labels map[string]map[string]string
}

// gated is a component with its closed features.
type gated struct {
	model     *feature.Model
	evaluator *feature.Evaluator
	// gates has the resources that the component's features gate.
	gates map[schema.GroupResource]bool
}

type optIn struct{ component, gate, namespace string }

// loadFeatures reads components, features and settings, and the schemas of the items' kinds.
func (g *gateCheck) loadFeatures(ctx context.Context, touched []*Item) error {
	g.doubts, g.opted, g.labels = map[string][]report.Finding{}, map[optIn]bool{}, map[string]map[string]string{}
	components, err := featureObjects[v1alpha1.Component](ctx, g, "components", "Component")
	if err != nil || len(components) == 0 {
		return err
	}
	features, err := featureObjects[v1alpha1.Feature](ctx, g, "features", "Feature")
	if err != nil {
		return err
	}
	items := map[schema.GroupResource][]*Item{}
	for _, it := range touched {
		gr := schema.GroupResource{Group: it.Group, Resource: it.mapping.resource}
		items[gr] = append(items[gr], it)
	}
	for _, name := range slices.Sorted(maps.Keys(components)) {
		c := components[name]
		var mine []v1alpha1.Feature
		named := map[schema.GroupResource]map[string]bool{}
		for _, f := range features {
			if f.Spec.Component != name {
				continue
			}
			mine = append(mine, f)
			for _, part := range f.Spec.Parts {
				gr := schema.GroupResource{Group: part.Group, Resource: part.Resource}
				if named[gr] == nil {
					named[gr] = map[string]bool{}
				}
				for _, v := range part.Versions {
					named[gr][v] = true
				}
			}
		}
		concerned := maps.Clone(named)
		maps.DeleteFunc(concerned, func(gr schema.GroupResource, _ map[string]bool) bool { return items[gr] == nil })
		if len(concerned) == 0 {
			continue
		}
		if err := g.addComponent(ctx, &c, mine, named, items); err != nil {
			return err
		}
	}
	return nil
}

// addComponent adds a component if its features gate a part of an object that the plan writes.
//
// named has the versions that the features name, by resource, and items the plan's items by resource. A wrong definition is told only
// if it concerns what the plan writes: other features of the component are not this user's business.
func (g *gateCheck) addComponent(ctx context.Context, c *v1alpha1.Component, features []v1alpha1.Feature, named map[schema.GroupResource]map[string]bool, items map[schema.GroupResource][]*Item) error {
	resources, err := g.gatedResources(ctx, named, items)
	if err != nil {
		return err
	}
	slices.SortFunc(features, func(a, b v1alpha1.Feature) int { return strings.Compare(a.Name, b.Name) })
	model, found := rules.Define(c, features, feature.Options{Date: g.now(), Resources: resources, PartsMayWait: true})
	for _, f := range found {
		if f.Severity == feature.Error && (f.Gate == "" || gatesAny(features, f.Gate, items)) {
			g.recordDoubt("features.sluice.dev", fmt.Sprintf("a definition of component %s is wrong: what it gates is not looked for", c.Name), f.String())
		}
	}
	before, data, err := g.settingsOf(ctx, c)
	if err != nil {
		return err
	}
	if ref := c.Spec.ConfigMap; ref != nil && data == nil && model.Spec().Mode == v1alpha1.Live {
		g.recordDoubt("components.sluice.dev", fmt.Sprintf("the settings of component %s are missing: there is no ConfigMap %s/%s", c.Name, ref.Namespace, ref.Name),
			"where policies read them, the API server refuses what these match until it is there")
	}
	settings, found := model.ParseSettings(data)
	for _, f := range found {
		if f.Severity == feature.Error {
			g.recordDoubt("components.sluice.dev", fmt.Sprintf("the settings of component %s are wrong there, which is taken as not set", c.Name), f.String())
		}
	}
	// The status has the reports of processes. They count as long as the status is about the settings that will hold.
	states := model.Resolve(settings, feature.Runtime{AssumeProcesses: true})
	if maps.Equal(before, data) {
		states = model.Resolve(settings, missingReportsOf(features, states))
	}
	gates := map[schema.GroupResource]bool{}
	for gr := range named {
		gates[gr] = true
	}
	g.components = append(g.components, &gated{model, states.Compile(), gates})
	return nil
}

// gatesAny reports whether the feature gates a part of an object that the plan writes.
func gatesAny(features []v1alpha1.Feature, gate string, items map[schema.GroupResource][]*Item) bool {
	return slices.ContainsFunc(features, func(f v1alpha1.Feature) bool {
		return f.Spec.Gate == gate && slices.ContainsFunc(f.Spec.Parts, func(p v1alpha1.Part) bool {
			return items[schema.GroupResource{Group: p.Group, Resource: p.Resource}] != nil
		})
	})
}

// missingReportsOf reads from the status of features which reports of processes are missing. A feature waits for them if the settings
// open it and it is not enabled yet.
func missingReportsOf(features []v1alpha1.Feature, assumed *feature.States) feature.Runtime {
	out := feature.Runtime{Processes: map[string]map[string]bool{}}
	for f := range eachOf(features) {
		s, ok := assumed.State(f.Spec.Gate)
		waits := ok && s.Open && f.Status.ObservedGeneration == f.Generation && f.Status.Enabled != nil && !*f.Status.Enabled
		for _, p := range f.Spec.RequiredProcesses {
			if out.Processes[p] == nil {
				out.Processes[p] = map[string]bool{}
			}
			out.Processes[p][f.Spec.Gate] = !waits
		}
	}
	return out
}

func (g *gateCheck) recordDoubt(subject, message, reason string) {
	g.doubts[subject] = append(g.doubts[subject], report.Finding{
		Rule: crdcheck.RuleFeature, Outcome: report.Undecided, Severity: report.Warn, CRD: subject, Message: message, Reason: reason,
	})
}

// featureObjects returns the objects of one of Sluice's own kinds, as they will be after the apply: those of the source, and the
// others from the cluster. The result is empty if the cluster does not know the kind.
func featureObjects[T any](ctx context.Context, g *gateCheck, resource, kind string) (map[string]T, error) {
	out := map[string]T{}
	add := func(name string, raw []byte) error {
		var o T
		if err := json.Unmarshal(raw, &o); err != nil {
			return fmt.Errorf("%s %s cannot be read: %w", kind, name, err)
		}
		out[name] = o
		return nil
	}
	gv := v1alpha1.SchemeGroupVersion
	err := g.client.reads.Each(ctx, listPath(gv.Group, gv.Version, resource, ""), cluster.EachOptions{}, func(raw []byte) error {
		name, err := nameOf(raw)
		if err != nil {
			return err
		}
		return add(name, raw)
	})
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("the right to list %s.%s is needed: %w", resource, gv.Group, err)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("which features there are: %w", err)
	}
	for it := range eachOf(g.plan.Items) {
		if it.Group == gv.Group && it.Kind == kind && it.Version == gv.Version {
			if err := add(it.Name, it.json); err != nil {
				return nil, it.wrapError(err)
			}
		}
	}
	return out, nil
}

// gatedResources returns the resources that features gate. Resources that the plan writes have their schemas, if this user can read
// the CRD.
func (g *gateCheck) gatedResources(ctx context.Context, named map[schema.GroupResource]map[string]bool, items map[schema.GroupResource][]*Item) ([]feature.Resource, error) {
	var out []feature.Resource
	for gr, versions := range named {
		if items[gr] != nil && strings.Contains(gr.Group, ".") {
			crd, err := g.crdAfterApply(ctx, gr.String())
			if err != nil {
				return nil, err
			}
			if crd != nil {
				r, err := feature.ResourceOf(crd)
				if err != nil {
					return nil, err
				}
				out = append(out, r)
				continue
			}
		}
		versions = maps.Clone(versions)
		for _, it := range items[gr] {
			versions[it.Version] = true
		}
		r := feature.Resource{Group: gr.Group, Resource: gr.Resource}
		for _, v := range slices.Sorted(maps.Keys(versions)) {
			r.Versions = append(r.Versions, feature.Version{Name: v})
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b feature.Resource) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource))
	})
	return out, nil
}

// crdAfterApply returns a CRD as it will be after the apply; nil if there is none, or if this user cannot read it.
func (g *gateCheck) crdAfterApply(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	if crd := g.plan.crds[name]; crd != nil {
		return crd, nil
	}
	crd, err := g.client.reads.CRD(ctx, name)
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	return crd, err
}

// settingsOf returns the data of a component's ConfigMap, as it is and as it will be after the apply; nil stands for a missing one.
//
// The apply keeps keys that others have set, and removes those that an earlier apply of ours has set and the manifest no longer has.
// So neither the live data nor the manifest alone is the answer.
func (g *gateCheck) settingsOf(ctx context.Context, c *v1alpha1.Component) (before, after map[string]string, err error) {
	ref := c.Spec.ConfigMap
	if ref == nil {
		return nil, nil, nil
	}
	live, err := g.client.fetchObject(ctx, listPath("", "v1", "configmaps", ref.Namespace)+"/"+ref.Name)
	if err != nil {
		return nil, nil, fmt.Errorf("the settings of component %s: %w", c.Name, err)
	}
	before = configMapDataOf(live)
	i := slices.IndexFunc(g.plan.Items, func(it Item) bool {
		return it.ID == ID{Kind: "ConfigMap", Namespace: ref.Namespace, Name: ref.Name}
	})
	if i < 0 {
		return before, before, nil
	}
	manifest, err := g.plan.Items[i].decodeContent()
	if err != nil {
		return nil, nil, err
	}
	after = maps.Clone(before)
	if after == nil {
		after = map[string]string{}
	}
	// The apply removes fields that it applied before and that are no longer in the manifest.
	if mine := entryOfOwnApplies(managedEntriesOf(live)); mine != nil {
		fields, _ := mine.fields["f:data"].(map[string]any)
		for key := range fields {
			delete(after, strings.TrimPrefix(key, "f:"))
		}
	}
	maps.Copy(after, configMapDataOf(manifest))
	return before, after, nil
}

// configMapDataOf returns the data of a ConfigMap, as [feature.SettingsOf] has it; nil if there is no object.
func configMapDataOf(obj map[string]any) map[string]string {
	if obj == nil {
		return nil
	}
	out := map[string]string{}
	copyTexts(out, obj["data"])
	binary, _ := obj["binaryData"].(map[string]any)
	return feature.SettingsOf(out, binary)
}

// optedIn reports whether the namespace or this user has opted in to a feature, in one of the ways that its component allows.
//
// Answers are kept, because an app may have hundreds of objects in one namespace. The lock is held while the server is asked, so each
// question is asked once.
func (g *gateCheck) optedIn(ctx context.Context, c *gated, gate, namespace string) (bool, error) {
	ways := c.model.Spec().OptIn
	if ways == nil {
		return false, nil
	}
	component := c.model.Component()
	g.mu.Lock()
	defer g.mu.Unlock()
	key := optIn{component, gate, namespace}
	if answer, asked := g.opted[key]; asked {
		return answer, nil
	}
	answer := false
	if ways.NamespaceLabel && namespace != "" {
		labels, err := g.namespaceLabels(ctx, namespace)
		if err != nil {
			return false, err
		}
		answer = feature.OptedIn(labels, component, gate)
	}
	if !answer && ways.RBAC {
		no, err := g.client.reviewAccess(ctx, access{feature.OptInVerb, v1alpha1.SchemeGroupVersion.Group, "features", namespace, feature.ObjectName(component, gate)})
		if err != nil {
			return false, err
		}
		answer = no == nil
	}
	g.opted[key] = answer
	return answer, nil
}

// namespaceLabels returns the labels of a namespace as they will be after the apply.
func (g *gateCheck) namespaceLabels(ctx context.Context, namespace string) (map[string]string, error) {
	if labels, known := g.labels[namespace]; known {
		return labels, nil
	}
	labels := map[string]string{}
	live, err := g.client.fetchObject(ctx, listPath("", "v1", "namespaces", "")+"/"+namespace)
	if err != nil && !apierrors.IsForbidden(err) { // if the user cannot read the Namespace, its opt-in does not count
		return nil, err
	}
	copyTexts(labels, metadataOf(live)["labels"])
	for it := range eachOf(g.plan.Items) {
		if isNamespace(it.ID) && it.Name == namespace {
			content, err := it.decodeContent()
			if err != nil {
				return nil, err
			}
			copyTexts(labels, metadataOf(content)["labels"])
		}
	}
	g.labels[namespace] = labels
	return labels, nil
}
