package feature

// What do the objects Component and Feature mean at one release? The model has the stage that each feature has reached,
// and a target for each version that has a gated part, with the schema there. Features with errors are left out, so
// that one mistake does not stop the others.

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/schema"
)

// Options are inputs of [Define] in addition to the definitions.
type Options struct {
	// Release overrides the release of the component.
	Release string
	// Date chooses among stages that have no release, or of a component that has none; the zero value stands for a day
	// after all dates.
	Date time.Time
	// Resources are those of the cluster or of the given CRDs. With nil, paths are not checked, and no list has items with keys.
	// Otherwise, a part of an unknown resource is an error.
	Resources []Resource
	// PartsMayWait is for resources that can still come, as in a cluster: if a feature gates something that Resources lack, and something
	// that they have, the first waits for it, with a warning ([Finding.Waits]), and the second is in the model. Otherwise, all of it is an
	// error, and the feature is left out.
	PartsMayWait bool
	// OtherGroups is for Resources of files, which may hold no CRD of a group that a feature gates, such as one of Kubernetes itself: parts
	// of groups that Resources have nothing of are taken as they are, as without Resources.
	OtherGroups bool
	// Without are gates of features to leave out, as if they had errors. They are not checked.
	Without []string
	// RuleWithout returns the fate of a validation rule of an object when the field at the path is gone; with nil, rules are
	// ignored. Package feature/rules has one, and a Define that uses it.
	RuleWithout func(rule string, path Path) Fate
}

// Resource is a resource with its schemas.
type Resource struct {
	Group, Resource string
	// Kind is the kind of its objects; empty if it is not known.
	Kind     string
	Versions []Version
	// Stored is the version in which objects are stored; empty if it is not served, or not known.
	Stored string
	// Converted is set if a webhook, or the API server's own code, converts between the versions: a field may have another name in each.
	Converted bool
}

// Version is a version of a resource that is served.
type Version struct {
	Name string
	// Schema is that of the whole object; nil if it is not known.
	Schema *schema.Node
	// Scale are the names of the fields that lead to the replicas which the subresource scale writes; nil if there is none.
	Scale []string
}

// Model is a component with its features that have no error, at one release and day.
type Model struct {
	component v1alpha1.ComponentSpec // with defaults filled in
	name      string
	created   time.Time
	settings  map[string]plainSetting
	lifted    map[groupResource]bool // resources whose highest stage is Beta
	features  []*Feature             // sorted by gate
	byGate    map[string]*Feature
	byKey     map[string]*Feature
	left      map[string]bool // gates and keys of features that were left out
	resources []Resource
}

type groupResource struct{ group, resource string }

// Feature is a feature at one release and day. Its fields are read-only.
type Feature struct {
	// Name is that of the object.
	Name string
	// Spec is the definition, with defaults filled in.
	Spec v1alpha1.FeatureSpec
	// Stage is the one that has been reached; empty before the first: the feature is closed then and cannot be opened.
	Stage v1alpha1.Stage
	// Entry is the entry of Spec.Stages that has been reached, -1 before the first.
	Entry int
	// Default is the default of the stage.
	Default bool
	// Locked means that settings cannot change the default.
	Locked bool
	// Level is the one that opens the feature if it follows the level: that of the stage; at stage Deprecated, of the stage
	// before.
	Level v1alpha1.Level
	// FollowsLevel reports whether the level opens the feature.
	FollowsLevel bool
	// Targets are the parts, one for each version in which the part exists, in the order of Spec.Parts.
	Targets []Target

	model *Model
}

// Target is a part of a feature in one version of a resource.
type Target struct {
	Group, Resource string
	// Version is empty if the part has no versions and no schema is known: it stands for all.
	Version string
	// Part is the index in Spec.Parts.
	Part int
	// WholeVersion gates every write in the version; what follows is empty then.
	WholeVersion bool
	// Path leads to the values that are gated.
	Path Path
	// Values are the gated values; nil gates every value.
	Values []string
	// Pattern matches the gated strings; nil gates every value.
	Pattern *regexp.Regexp
	// Match holds for the gated objects; nil gates every value.
	Match []Condition
	// Beyond has the bounds outside of which values are gated; nil gates every value.
	Beyond *Bounds
	// Reset is the string, number or boolean that a value becomes that would be dropped; nil: it is dropped.
	Reset any
	// Schema is that of the values; nil if it is not known.
	Schema *schema.Node
	// MaxItems bounds the items and entries of the lists and maps on the path, those of the outer ones times those of the inner
	// ones; 0 means unknown.
	MaxItems int
	// Scale is the path that the subresource scale writes in the version; nil if there is none.
	Scale []string

	pattern *pattern
}

// Narrowed reports whether only some values at the path are gated.
func (t *Target) Narrowed() bool {
	return t.Values != nil || t.Pattern != nil || t.Match != nil || t.Beyond != nil
}

// Condition holds for an object with a gated value at the path: not null, and one of the values, or matching the pattern, or any
// value if there are neither.
type Condition struct {
	// Path has steps of kind Field only.
	Path    Path
	Values  []string
	Pattern *regexp.Regexp

	pattern *pattern
}

// Component returns the name of the component.
func (m *Model) Component() string { return m.name }

// Spec returns the component's definition, with defaults filled in. It is shared: do not change it.
func (m *Model) Spec() *v1alpha1.ComponentSpec { return &m.component }

// Features returns the features sorted by gate.
func (m *Model) Features() []*Feature { return slices.Clone(m.features) }

// Feature returns the feature of a gate, or nil.
func (m *Model) Feature(gate string) *Feature { return m.byGate[gate] }

// LeftOut returns the gates and keys of features that were left out because of errors, sorted: settings that name them are
// not unknown.
func (m *Model) LeftOut() []string { return slices.Sorted(maps.Keys(m.left)) }

// Resource returns a resource as [Options] have it; ok is false if it is not known.
func (m *Model) Resource(group, resource string) (r Resource, ok bool) {
	i := slices.IndexFunc(m.resources, func(r Resource) bool { return r.Group == group && r.Resource == resource })
	if i < 0 {
		return Resource{}, false
	}
	return m.resources[i], true
}

// GateOfStage returns the gate that sets all features at the feature's stage, AllAlpha or AllBeta; empty if none sets the feature.
func (f *Feature) GateOfStage() string {
	switch {
	case f.FollowsLevel && f.model.component.Convention == v1alpha1.ConventionTekton:
	case f.Stage == v1alpha1.Alpha:
		return AllAlpha
	case f.Stage == v1alpha1.Beta:
		return AllBeta
	}
	return ""
}

// IsLifted reports whether level stable opens the feature at stage beta, because the highest stage of all resources that it gates is Beta.
func (f *Feature) IsLifted() bool {
	return len(f.Spec.Parts) > 0 && !slices.ContainsFunc(f.Spec.Parts, func(p v1alpha1.Part) bool { return !f.model.liftsResource(&p) })
}

// liftsResource reports whether level stable opens what is beta in the resource of a part.
func (m *Model) liftsResource(p *v1alpha1.Part) bool {
	return m.lifted[groupResource{p.Group, p.Resource}]
}

// CanOptIn reports whether the component and the feature's stage let anybody open the feature by opting in.
func (f *Feature) CanOptIn() bool {
	o := f.model.component.OptIn
	return o != nil && (o.NamespaceLabel || o.RBAC) && !f.Locked && !f.isCapped()
}

// isCapped reports whether the feature is beyond maxLevel.
func (f *Feature) isCapped() bool { return levelRank(f.Level) > levelRank(f.model.component.MaxLevel) }

// Define checks a component and its features, and returns a model of the valid ones. It ignores features of other components. The model
// is never nil. The findings say which features were left out, and have warnings.
func Define(c *v1alpha1.Component, features []v1alpha1.Feature, o Options) (*Model, Findings) {
	d := &definer{options: o, model: &Model{
		name: c.Name, created: c.CreationTimestamp.Time, component: *c.Spec.DeepCopy(), settings: map[string]plainSetting{}, lifted: map[groupResource]bool{},
		byGate: map[string]*Feature{}, byKey: map[string]*Feature{}, left: map[string]bool{}, resources: o.Resources,
	}}
	d.defineComponent()
	var mine []*v1alpha1.Feature
	for i := range features {
		if features[i].Spec.Component == c.Name {
			mine = append(mine, &features[i])
		}
	}
	if len(mine) > maxFeatures {
		d.addError(CodeTooMany, "", "", "the component has %d features; %d are allowed", len(mine), maxFeatures)
		mine = mine[:maxFeatures]
	}
	for _, f := range mine {
		if slices.Contains(o.Without, f.Spec.Gate) {
			d.model.noteLeftOut(&f.Spec)
			continue
		}
		d.addFeature(f)
	}
	slices.SortStableFunc(d.model.features, func(a, b *Feature) int { return strings.Compare(a.Spec.Gate, b.Spec.Gate) })
	d.checkTogether()
	d.leaveOut()
	return d.model, d.sortedList()
}

// Bounds of definitions.
const (
	maxFeatures = 5000
	maxParts    = 200
	maxValues   = 200
	maxPattern  = 1000
)

// definer makes a model.
type definer struct {
	findings
	options Options
	model   *Model
}

// leaveOut removes features with errors from the model.
func (d *definer) leaveOut() {
	m := d.model
	m.features = slices.DeleteFunc(m.features, func(f *Feature) bool {
		if !d.hasError(f.Spec.Gate) && (d.more == 0 || d.worst != Error) {
			return false
		}
		m.noteLeftOut(&f.Spec)
		return true
	})
	for _, f := range m.features {
		m.byGate[f.Spec.Gate], m.byKey[f.Spec.Key] = f, f
	}
	for gate := range m.byGate {
		delete(m.left, gate)
	}
	for key := range m.byKey {
		delete(m.left, key)
	}
}

// defineComponent fills in the defaults of the component and checks it. The convention is checked first, because it is
// about fields that the author has set.
func (d *definer) defineComponent() {
	c := &d.model.component
	d.checkConvention()
	fillDefault(&c.Mode, v1alpha1.Live)
	fillDefault(&c.DefaultLevel, v1alpha1.LevelStable)
	fillDefault(&c.MaxLevel, v1alpha1.LevelAlpha)
	fillDefault(&c.LevelKey, defaultLevelKey)
	fillDefault(&c.GatesKey, defaultGatesKey)
	if d.options.Release != "" {
		c.Release = d.options.Release
	}
	d.checkComponent()
}

// noteLeftOut records that a feature is left out.
func (m *Model) noteLeftOut(s *v1alpha1.FeatureSpec) {
	key := s.Key
	fillDefault(&key, Kebab(s.Gate))
	m.left[s.Gate], m.left[key] = true, true
}

// addFeature adds a feature, with the checks that need no other feature.
func (d *definer) addFeature(object *v1alpha1.Feature) {
	f := &Feature{Name: object.Name, Spec: *object.Spec.DeepCopy(), Entry: -1, model: d.model}
	s := &f.Spec
	fillDefault(&s.WhenDisabled, v1alpha1.Reject)
	fillDefault(&s.Ratchet, v1alpha1.InUse)
	fillDefault(&s.Key, Kebab(s.Gate))
	fillDefault(&f.Name, ObjectName(s.Component, s.Gate))
	d.checkFeature(f)
	d.checkStages(f)
	there, told := 0, len(d.list)
	for i := range s.Parts {
		if i == maxParts {
			d.addError(CodeTooMany, s.Gate, "spec.parts", "%d parts are allowed", maxParts)
			break
		}
		there += d.addPart(f, i)
	}
	if d.options.PartsMayWait && there > 0 {
		for i := range d.list[told:] {
			if x := &d.list[told+i]; x.Waits() {
				x.Severity = Warning
			}
		}
	}
	f.FollowsLevel = f.followsAtStage()
	d.checkConventionOf(f)
	d.checkLifts(f)
	d.model.features = append(d.model.features, f)
}

// followsAtStage reports whether the level opens the feature at its stage.
func (f *Feature) followsAtStage() bool {
	convention := f.model.component.Convention
	fields := slices.ContainsFunc(f.Spec.Parts, func(p v1alpha1.Part) bool { return !p.WholeVersion })
	on, _ := f.declaredDefault()
	return ptr.Deref(f.Spec.FollowsLevel, fields && convention.HasLevel() && (convention != "" || !on))
}

func fillDefault[T ~string](p *T, v T) {
	if *p == "" {
		*p = v
	}
}

// addPart adds the targets of a part, and returns how many versions have all that it gates.
func (d *definer) addPart(f *Feature, i int) (there int) {
	gate, p := f.Spec.Gate, &f.Spec.Parts[i]
	where := fmt.Sprintf("spec.parts[%d]", i)
	t, ok := d.checkPart(f, i, where)
	if !ok {
		return 0
	}
	removed, told := f.Stage == v1alpha1.Removed, len(d.list)
	versions := d.partVersions(gate, where, p)
	if removed {
		d.list = d.list[:told] // a tombstone may name parts that are gone
	}
	found := len(f.Targets)
	var missing []string
	for _, v := range versions {
		before := len(d.list)
		target, problem := d.inVersion(f, t, &v, where)
		switch lacks := d.list[before:]; {
		case problem != "":
			missing = append(missing, problem)
			continue
		case d.options.PartsMayWait && slices.ContainsFunc(lacks, func(x Finding) bool { return x.Code == CodeUnknownField }):
			continue // its conditions read a field that the version does not have
		case !slices.ContainsFunc(lacks, Finding.Waits):
			there++
		}
		f.Targets = append(f.Targets, target)
	}
	d.sameData(f, i, t, where)
	if removed {
		return there
	}
	d.warnOfOtherPlaces(gate, where, p, versions)
	// A part without versions is in those that have its field; one that names versions must be in each of them.
	if len(p.Versions) > 0 || len(f.Targets) == found {
		for _, m := range missing {
			d.addError(CodeUnknownField, gate, where+".field", "%s", m)
		}
	}
	return there
}

// inVersion returns the target of a part in a version, or the problem if the version does not have its field.
func (d *definer) inVersion(f *Feature, t Target, v *Version, where string) (target Target, problem string) {
	target = t
	target.Version, target.Scale = v.Name, v.Scale
	if v.Schema != nil && !t.WholeVersion {
		if target.Path, target.Schema, problem = resolvePath(v.Schema, t.Path); problem != "" {
			return target, fmt.Sprintf("version %s: %s", v.Name, problem)
		}
		d.readReset(f, &target, where)
		if f.Stage != v1alpha1.Removed || !f.Default { // a part that is on for ever may be required, and have a default
			d.checkTarget(f, &target, v.Schema, where)
		}
	} else {
		d.readReset(f, &target, where)
		d.checkUnknown(f, &target, where)
	}
	target.MaxItems = target.itemBound(f.Spec.Parts[t.Part].MaxItems)
	return target, ""
}

// warnOfOtherPlaces warns of a part that may be elsewhere in another version.
func (d *definer) warnOfOtherPlaces(gate, where string, p *v1alpha1.Part, versions []Version) {
	r, _ := d.model.Resource(p.Group, p.Resource)
	if r.Converted && len(p.Versions) == 0 && len(versions) > 1 && versions[0].Schema == nil && !p.WholeVersion {
		d.addWarning(CodeOpenVersion, gate, where+".versions", "%s may be elsewhere in one of the versions %s, between which the API server converts, and stays open there. Name the versions that have it at this place",
			p.Field, strings.Join(versionNames(versions), ", "))
	}
}

// partVersions returns the versions of a part.
func (d *definer) partVersions(gate, where string, p *v1alpha1.Part) []Version {
	if len(d.options.Resources) == 0 || d.options.OtherGroups && !slices.ContainsFunc(d.options.Resources, func(r Resource) bool { return r.Group == p.Group }) {
		if len(p.Versions) == 0 {
			return []Version{{}}
		}
		out := make([]Version, len(p.Versions))
		for i, v := range p.Versions {
			out[i].Name = v
		}
		return out
	}
	var names []string
	for _, r := range d.options.Resources {
		if r.Group == p.Group && r.Resource == p.Resource {
			return d.servedVersions(gate, where, p, r.Versions)
		}
		names = append(names, qualifiedResource(r.Group, r.Resource))
	}
	d.addError(CodeUnknownResource, gate, where+".resource", "there is no resource %q%s", qualifiedResource(p.Group, p.Resource), nameHint(qualifiedResource(p.Group, p.Resource), names))
	return nil
}

// servedVersions returns those of a resource's versions that a part names, in the order of the part; all if it names
// none. A name that the resource does not serve is an error.
func (d *definer) servedVersions(gate, where string, p *v1alpha1.Part, all []Version) []Version {
	if len(p.Versions) == 0 {
		return all
	}
	names := versionNames(all)
	var out []Version
	for i, name := range p.Versions {
		if j := slices.Index(names, name); j >= 0 {
			out = append(out, all[j])
			continue
		}
		d.addError(CodeUnknownVersion, gate, fmt.Sprintf("%s.versions[%d]", where, i), "%s has no version %q%s; it has %s",
			qualifiedResource(p.Group, p.Resource), clipWord(name), nameHint(name, names), strings.Join(names, ", "))
	}
	return out
}

func versionNames(list []Version) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.Name
	}
	return out
}

// qualifiedResource names a resource as kubectl does.
func qualifiedResource(group, resource string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}
