package features

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/feature/rules"
	"sluice.dev/feature/skew"
	"sluice.dev/internal/featureusage"
)

// A plan says what should be in the cluster for a component: its model, the settings in force, and the policies that follow from
// both. It takes time to make a model and policies, so both are kept with a key of all their inputs. The controller and the webhook
// plan in the same way, and so agree about what is open. Bad input does not end a plan: a bad definition is left out, or the webhook
// keeps its last good form, and bad settings leave the last good ones in force.

// rememberedOf returns the memory for a component, and makes one for a component that has none. Only the caller that plans for the
// component may use it.
func (p *planner) rememberedOf(component string) *remembered {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.known[component]
	if r == nil {
		r = &remembered{}
		if p.known == nil {
			p.known = map[string]*remembered{}
		}
		p.known[component] = r
	}
	return r
}

func (p *planner) forgetComponent(component string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, component)
}

// planComponent returns the wanted state for a component. The error means that the API server did not answer; errors of definitions
// and settings are not included.
//
// What the plan says of settings is copied from the memory, which the next plan may change. The order matters: the model says where
// the settings are, and the settings say which policies are needed.
func (p *planner) planComponent(ctx context.Context, c *v1alpha1.Component) (*plan, error) {
	r := p.rememberedOf(c.Name)
	out := &plan{component: c, features: p.featuresOf(c.Name)}
	if err := p.defineModel(ctx, r, out); err != nil {
		return nil, err
	}
	if !r.began {
		r.began, r.kept, r.version = true, c.Status.Settings, c.Status.SettingsVersion
	}
	spec := out.model.Spec()
	out.live = spec.Mode == v1alpha1.Live && spec.ConfigMap != nil
	if spec.ConfigMap != nil {
		out.current = p.settings.watchedState(ctx, c.Name, *spec.ConfigMap)
	}
	p.settings.keepOnly(c.Name, spec.ConfigMap)
	out.readSettings(r, spec.ConfigMap != nil)
	if r.current != out.current.version {
		r.current, r.since = out.current.version, p.Clock.Now()
	}
	out.kept, out.version, out.since = r.kept, r.version, r.since
	if out.current.exists && r.made == out.current.version {
		out.without = r.without
	}
	if !out.live || out.current.exists {
		r.detached = false
	}
	if r.detached {
		out.detachSettings(r)
	}
	return out, p.compilePolicies(ctx, r, out)
}

// detachSettings makes the last good settings part of the policies, or the defaults if there are none.
func (out *plan) detachSettings(r *remembered) {
	r.detached, out.detached = true, true
	out.settings, out.known = r.lastGood(out.model), true
}

// lastGood are the last good settings, read with a model; nil stands for defaults.
func (r *remembered) lastGood(m *feature.Model) *feature.Settings {
	if r.kept == nil {
		return nil
	}
	s, _ := m.ParseSettings(r.kept)
	return s
}

// readSettings finds the settings that are in force.
//
// A ConfigMap that cannot be read keeps the last good settings, and without any nothing is known. A missing one means the defaults in
// baked mode, and the last good settings in live mode, where it is made again. has is false for a component without a ConfigMap.
func (out *plan) readSettings(r *remembered, has bool) {
	var settings *feature.Settings
	if out.current.exists {
		settings, out.wrong = out.model.ParseSettings(out.current.data)
	}
	lastGood := func() *feature.Settings { return r.lastGood(out.model) }
	switch {
	case !has:
		out.known, r.kept, r.version = true, nil, ""
	case !out.current.known:
		out.settings, out.known = lastGood(), r.kept != nil
	case !out.current.exists && out.live:
		// They are restored.
		out.settings, out.known = lastGood(), true
	case !out.current.exists:
		out.known, r.kept, r.version = true, nil, ""
	case out.wrong.Err() == nil:
		out.settings, out.known = settings, true
		r.kept, r.version = out.current.data, out.current.version
		if r.kept == nil {
			r.kept = map[string]string{}
		}
	case out.live:
		// As the policies read them.
		out.settings, out.known = settings, true
	default:
		out.settings, out.known = lastGood(), true
	}
}

// defineModel makes the model, unless its inputs have not changed.
//
// The key has everything that the model depends on, also the day, because stages have dates. A resource that is missing is left out
// of the known ones, so that parts of it wait and are no errors.
func (p *planner) defineModel(ctx context.Context, r *remembered, out *plan) error {
	day, _ := p.today()
	resources, err := p.readResources(ctx, out.features)
	if err != nil {
		return err
	}
	out.gated = resources
	var key strings.Builder
	fmt.Fprintf(&key, "%s %d %s", out.component.UID, out.component.Generation, day)
	for i := range out.features {
		fmt.Fprintf(&key, " %s %d", out.features[i].UID, out.features[i].Generation)
	}
	for _, known := range resources.crds {
		fmt.Fprintf(&key, " %s %d %s", known.uid, known.generation, known.resource.Resource)
	}
	for _, b := range resources.others {
		fmt.Fprintf(&key, " %s/%s", b.Group, b.Resource)
		for _, v := range b.Versions {
			key.WriteString("," + v.Name)
		}
	}
	if r.model == nil || r.key != key.String() {
		o := feature.Options{Date: day, PartsMayWait: true}
		for _, known := range resources.crds {
			if known.err == nil {
				o.Resources = append(o.Resources, known.resource)
			}
		}
		o.Resources = append(o.Resources, resources.others...)
		if resources.missing != nil {
			for _, name := range p.crds.GetStore().ListKeys() {
				if slices.Contains(resources.missing, name) {
					continue // it is being deleted
				}
				plural, group, _ := strings.Cut(name, ".")
				o.Resources = append(o.Resources, feature.Resource{Group: group, Resource: plural})
			}
		}
		if p.sticky && r.model != nil {
			o.Resources = append(o.Resources, resources.lost(r.model)...)
		}
		if o.Resources == nil {
			// Without any known resource, all parts would be accepted unchecked.
			o.Resources = []feature.Resource{{Group: v1alpha1.GroupName}}
		}
		model, findings := rules.Define(out.component, out.features, o)
		r.definition, r.key = findings, key.String()
		if p.sticky && r.model != nil && out.losesFeature(r.model, model) {
			model = out.keepLastGood(r.model, model, o)
		}
		if model != r.model {
			r.model, r.setKey = model, ""
		}
	}
	out.model = r.model
	out.definition = slices.Concat(r.definition, p.findShared(r, out, resources))
	return nil
}

// losesFeature reports whether an existing good feature has become bad.
func (out *plan) losesFeature(before, after *feature.Model) bool {
	return slices.ContainsFunc(out.features, func(f v1alpha1.Feature) bool {
		return before.Feature(f.Spec.Gate) != nil && after.Feature(f.Spec.Gate) == nil
	})
}

// keepLastGood defines the component with the last good definitions of features that have become bad. It leaves out new features that
// are bad, too. If that is not enough, it leaves out all new features, because they may be the cause. It returns the earlier model if
// the last good definitions no longer fit, for example because the schema has changed.
func (out *plan) keepLastGood(before, after *feature.Model, o feature.Options) *feature.Model {
	features := make([]v1alpha1.Feature, 0, len(out.features))
	var bad, fresh []string
	for i := range out.features {
		f := out.features[i]
		gate := f.Spec.Gate
		good := before.Feature(gate)
		switch {
		case good == nil && after.Feature(gate) == nil:
			bad = append(bad, gate)
		case good == nil:
			fresh = append(fresh, gate)
		case after.Feature(gate) == nil && f.Name != good.Name:
			continue // a second one with its gate
		case after.Feature(gate) == nil:
			f.Spec = good.Spec
		}
		features = append(features, f)
	}
	for _, without := range [][]string{bad, slices.Concat(bad, fresh)} {
		o.Without = without
		if model, _ := rules.Define(out.component, features, o); !out.losesFeature(before, model) {
			return model
		}
	}
	return before
}

// lacks reports whether a resource that features gate does not exist.
func (g *gated) lacks(group, resource string) bool {
	return slices.Contains(g.missing, crdName(group, resource))
}

// lost are the resources that a model has and that no longer exist. They may come back, and have to be judged from then on at once.
func (g *gated) lost(m *feature.Model) (out []feature.Resource) {
	for _, name := range g.missing {
		plural, group, _ := strings.Cut(name, ".")
		if r, ok := m.Resource(group, plural); ok && r.Versions != nil {
			out = append(out, r)
		}
	}
	return out
}

// readResources finds the gated resources, each once, in the order of the features: those of CRDs with their schemas, others with
// their versions, and those that the cluster does not have.
func (p *planner) readResources(ctx context.Context, features []v1alpha1.Feature) (g gated, err error) {
	var seen []string
	for i := range features {
		for _, part := range features[i].Spec.Parts {
			name := crdName(part.Group, part.Resource)
			if slices.Contains(seen, name) {
				continue
			}
			seen = append(seen, name)
			known, err := p.readCRD(ctx, name)
			switch {
			case err != nil:
				return g, err
			case known != nil:
				g.crds = append(g.crds, known)
				continue
			}
			versions, err := p.withoutCRD(ctx, name, part.Group, part.Resource)
			if err != nil {
				return g, fmt.Errorf("looking for %s: %w", name, err)
			}
			if versions == nil {
				g.missing = append(g.missing, name)
				continue
			}
			g.others = append(g.others, feature.Resource{Group: part.Group, Resource: part.Resource, Versions: versions, Converted: len(versions) > 1})
		}
	}
	return g, nil
}

// withoutCRD returns the versions of a resource that no CRD defines; none if there is no such resource. Discovery has the resources of
// a CRD until the CRD is deleted, and a moment longer. Such a resource does not count.
func (p *planner) withoutCRD(ctx context.Context, name, group, resource string) ([]feature.Version, error) {
	_, there, err := p.crds.GetStore().GetByKey(name)
	if err != nil {
		return nil, err
	}
	now := p.Clock.Now()
	p.mu.Lock()
	p.dropDeletedCRDs()
	if there {
		p.noteDeletedCRD(name)
	}
	var since time.Time
	if gone, ok := p.gone[name]; ok {
		since = gone.Add(lookSoon)
	}
	p.mu.Unlock()
	if now.Before(since) {
		return nil, nil
	}
	return p.builtIns.findVersions(ctx, group, resource, since)
}

// noteDeletedCRD notes that a CRD is being deleted, or is deleted. The caller holds the lock.
func (p *planner) noteDeletedCRD(name string) {
	if p.gone == nil {
		p.gone = map[string]time.Time{}
	}
	p.gone[name] = p.Clock.Now()
	delete(p.crd, name)
}

// dropDeletedCRDs drops what is known of CRDs that are deleted, and after a while that they were: by then no answer of discovery is in
// use that is from before. The caller holds the lock.
func (p *planner) dropDeletedCRDs() {
	now := p.Clock.Now()
	maps.DeleteFunc(p.gone, func(_ string, at time.Time) bool { return now.Sub(at) > lookSoon+lookAgain })
	for name := range p.crd {
		if _, there, err := p.crds.GetStore().GetByKey(name); err == nil && !there {
			p.noteDeletedCRD(name)
		}
	}
}

// readCRD returns a CRD with its schemas, nil if there is none of that name.
func (p *planner) readCRD(ctx context.Context, name string) (*knownCRD, error) {
	o, ok, err := p.crds.GetStore().GetByKey(name)
	m, isMeta := o.(*metav1.PartialObjectMetadata)
	if err != nil || !ok || !isMeta || m.DeletionTimestamp != nil {
		return nil, err
	}
	p.mu.Lock()
	known := p.crd[name]
	p.mu.Unlock()
	if known != nil && known.uid == m.UID && known.generation >= m.Generation {
		return known, nil
	}
	crd, err := p.CRDs.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	known = &knownCRD{uid: crd.UID, generation: crd.Generation, usage: featureusage.Resource{
		Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural, Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
	}}
	for _, v := range crd.Spec.Versions {
		if v.Storage && v.Served {
			known.usage.Storage = v.Name
		}
	}
	known.resource, known.err = feature.ResourceOf(crd)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.crd == nil {
		p.crd = map[string]*knownCRD{}
	}
	p.dropDeletedCRDs()
	p.crd[name] = known
	return known, nil
}

// compilePolicies makes the policies, unless their inputs have not changed.
//
// In live mode the policies read the settings themselves, so a change of the settings alone needs no new ones. In baked mode the key
// has the state of each feature.
func (p *planner) compilePolicies(ctx context.Context, r *remembered, out *plan) error {
	rt := skew.Runtime(skew.Live(out.model, p.reportsOf(out.model.Component()), p.Clock.Now()))
	out.states = out.model.Resolve(out.settings, rt)
	baked := !out.live || out.detached
	p.mu.Lock()
	s := p.server
	p.mu.Unlock()
	var key strings.Builder
	fmt.Fprintf(&key, "%s %t %t", s, out.detached, out.guardedElsewhere())
	for _, st := range out.states.All() {
		fmt.Fprintf(&key, " %t", st.Reported())
		for _, process := range st.Feature.Spec.RequiredProcesses {
			fmt.Fprintf(&key, "%t", rt.Processes[process][st.Feature.Spec.Gate])
		}
		if baked {
			fmt.Fprintf(&key, "%t%s", st.Alone(), st.Fix)
		}
	}
	if r.set == nil || r.setKey != key.String() {
		p.compiling.Lock()
		defer p.compiling.Unlock()
		set, err := policy.Compile(ctx, out.model, policy.Options{
			Kubernetes: s.version, Settings: out.settings, Runtime: rt, WithoutValidating: !s.validating, WithoutMutating: !s.mutating,
			SettingsMissing: out.detached, Unguarded: out.guardedElsewhere(),
		})
		if err != nil {
			return err
		}
		r.set, r.setKey = set, key.String()
	}
	out.set = r.set
	return nil
}

// untilReread is the time until resources without a watch have to be read again.
func (g *gated) untilReread() time.Duration {
	switch {
	case g.missing != nil:
		return lookSoon
	case len(g.others) > 0:
		return lookAgain
	}
	return 0
}

// isLeftOut reports whether a feature was left out of the model because of errors.
func (out *plan) isLeftOut(gate string) bool { return out.model.Feature(gate) == nil }

// linesAbout is a text of those findings about a gate for which something holds; empty if there are none.
func linesAbout(findings feature.Findings, gate string, holds func(feature.Finding) bool) string {
	var lines []string
	for _, f := range findings.Of(gate) {
		if holds(f) {
			lines = append(lines, strings.TrimPrefix(f.Where+": "+f.Message, ": "))
		}
	}
	return strings.Join(lines, "; ")
}

// errorsAbout is a text of the errors among findings about a gate; empty if there are none.
func errorsAbout(findings feature.Findings, gate string) string {
	return linesAbout(findings, gate, func(f feature.Finding) bool { return f.Severity == feature.Error })
}

// waits says what of a feature waits, because the cluster does not have it; empty if nothing does.
func (out *plan) waits(gate string) string {
	return linesAbout(out.definition, gate, func(f feature.Finding) bool { return f.Severity != feature.Error && f.Waits() })
}

// waiting are the gates of which something waits.
func (out *plan) waiting() (gates []string) {
	for i := range out.features {
		if gate := out.features[i].Spec.Gate; out.waits(gate) != "" {
			gates = append(gates, gate)
		}
	}
	return gates
}

// settingsSource describes the source of the settings.
func (out *plan) settingsSource() string {
	ref := out.model.Spec().ConfigMap
	return cmp.Or(ref.Namespace, "?") + "/" + cmp.Or(ref.Name, "?")
}
