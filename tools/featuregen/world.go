package featuregen

// What do a component, its features and its objects look like? A world draws all of them, good ones and bad
// ones, from one source of randomness.

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/gate"
	"sluice.dev/feature/rules"
)

// World is a component with features of a custom resource, and some of a second one.
// The second resource is there for features that span resources, and for conditions between features of
// different ones.
type World struct {
	CRD       *apiextensionsv1.CustomResourceDefinition
	Second    *apiextensionsv1.CustomResourceDefinition
	Component *v1alpha1.Component
	Features  []v1alpha1.Feature
	Model     *feature.Model

	resources []feature.Resource
	spec      apiextensionsv1.JSONSchemaProps
}

// New draws a world.
// Half of the worlds have features that require others which do not exist, as after a release that
// removed one.
func New(r *rand.Rand) (*World, error) {
	g := &generator{Rand: r}
	spec := g.drawObject("spec", 3, nil)
	g.addTwins(&spec)
	w := &World{spec: spec, CRD: newCRD(Kind, Resource, spec), Second: newCRD("Gadget", SecondResource, apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": {Type: "string"}, "b": {Type: "string"}},
	})}
	for _, crd := range []*apiextensionsv1.CustomResourceDefinition{w.CRD, w.Second} {
		res, err := feature.ResourceOf(crd)
		if err != nil {
			return nil, err
		}
		w.resources = append(w.resources, res)
	}
	w.drawComponent(g)
	w.drawFeatures(g)
	w.wholeVersion(g)
	w.acrossResources(g)
	w.defineModel()
	if g.IntN(2) == 0 {
		w.requireDefined()
	}
	return w, nil
}

// requireDefined leaves out what features require of others that are not in the model, with which no process starts.
// The model leaves out features with errors, so a second feature may lose what it requires by that.
func (w *World) requireDefined() {
	unknown := func(gate string) bool { return w.Model.Feature(gate) == nil }
	for i := range w.Features {
		s := &w.Features[i].Spec
		s.Requires, s.ImpliedBy = slices.DeleteFunc(s.Requires, unknown), slices.DeleteFunc(s.ImpliedBy, unknown)
	}
	w.defineModel()
}

// drawComponent draws the settings of the component. A convention without levels has no default level,
// and features then follow none.
func (w *World) drawComponent(g *generator) {
	c := &v1alpha1.Component{ObjectMeta: metav1.ObjectMeta{Name: "gen"}}
	c.Spec = v1alpha1.ComponentSpec{
		Release:      "v1.5.0",
		ConfigMap:    &v1alpha1.ConfigMapReference{Namespace: "gen-system", Name: "feature-flags"},
		DefaultLevel: pickOne(g.Rand, "", v1alpha1.LevelStable, v1alpha1.LevelBeta),
		MaxLevel:     pickOne(g.Rand, "", "", "", v1alpha1.LevelBeta),
	}
	c.Spec.Convention = pickOne(g.Rand, "", "", v1alpha1.ConventionTekton, v1alpha1.ConventionKubernetes, v1alpha1.ConventionCertManager)
	if !c.Spec.Convention.HasLevel() {
		c.Spec.DefaultLevel = ""
	} else {
		for _, resource := range []string{Resource, SecondResource} {
			if g.IntN(4) == 0 {
				c.Spec.Resources = append(c.Spec.Resources, v1alpha1.ResourceStage{Group: Group, Resource: resource, HighestStage: v1alpha1.Beta})
			}
		}
	}
	if g.IntN(3) == 0 {
		c.Spec.OptIn = &v1alpha1.OptIn{NamespaceLabel: g.IntN(2) == 0, RBAC: g.IntN(2) == 0, OnlyAllowed: g.IntN(2) == 0}
	}
	w.Component = c
}

// mostFeatures of the first resource are drawn.
const mostFeatures = 20

// drawFeatures gives each feature one part of the schema, in random order, so that what is gated lies
// anywhere. Conditions point to features with lower letters, so that there is no cycle.
func (w *World) drawFeatures(g *generator) {
	g.Shuffle(len(g.parts), func(i, j int) { g.parts[i], g.parts[j] = g.parts[j], g.parts[i] })
	for i := range min(mostFeatures, len(g.parts)) {
		s := w.drawFeature(g, fmt.Sprintf("Gate%c", 'A'+i), g.parts[i])
		if i > 0 && g.IntN(5) == 0 {
			s.Requires = []string{fmt.Sprintf("Gate%c", 'A'+g.IntN(i))}
		}
		if i > 0 && g.IntN(5) == 0 {
			s.ImpliedBy = []string{fmt.Sprintf("Gate%c", 'A'+g.IntN(i))}
		}
		w.addFeature(s)
	}
	// Features that differ in names only.
	g.Shuffle(len(g.twins), func(i, j int) { g.twins[i], g.twins[j] = g.twins[j], g.twins[i] })
	for n, twins := range g.twins[:min(2, len(g.twins))] {
		s := w.drawFeature(g, "", twins[0])
		for i, part := range twins {
			s.Gate, s.Parts = fmt.Sprintf("Twin%d%c", n, 'A'+i), []v1alpha1.Part{part}
			s.Parts[0].ResetTo = nil
			w.addFeature(s)
		}
	}
}

// drawFeature draws a feature of one part, which needs no other feature.
// The stages are of releases before and after that of the component, which makes some features removed
// and others not there yet.
func (w *World) drawFeature(g *generator, gate string, part v1alpha1.Part) v1alpha1.FeatureSpec {
	yes, no := true, false
	alpha, beta := v1alpha1.FeatureStage{Stage: v1alpha1.Alpha, Release: "v1.0.0"}, v1alpha1.FeatureStage{Stage: v1alpha1.Beta, Release: "v1.1.0"}
	deprecated := v1alpha1.FeatureStage{Stage: v1alpha1.Deprecated, Release: "v1.3.0"}
	on, off := beta, deprecated
	on.Default, off.Default = &yes, &no
	s := v1alpha1.FeatureSpec{
		Component: "gen", Gate: gate, Parts: []v1alpha1.Part{part},
		Stages: pickOne(g.Rand, []v1alpha1.FeatureStage{alpha}, []v1alpha1.FeatureStage{alpha}, []v1alpha1.FeatureStage{alpha, beta}, []v1alpha1.FeatureStage{alpha, on},
			[]v1alpha1.FeatureStage{alpha, on, deprecated}, []v1alpha1.FeatureStage{alpha, beta, deprecated}, []v1alpha1.FeatureStage{alpha, on, off},
			[]v1alpha1.FeatureStage{alpha, {Stage: v1alpha1.Removed, Release: "v1.2.0"}}),
		WhenDisabled:   pickOne(g.Rand, v1alpha1.Reject, v1alpha1.Reject, v1alpha1.Drop, v1alpha1.Drop, v1alpha1.Warn),
		Ratchet:        pickOne(g.Rand, v1alpha1.InUse, v1alpha1.InUse, v1alpha1.InObject, v1alpha1.Unchanged, v1alpha1.Unchanged),
		Inverted:       g.IntN(6) == 0,
		ImpliedByLevel: g.IntN(6) == 0,
		FollowsLevel:   pickOne(g.Rand, &yes, nil, &no),
	}
	if !w.Component.Spec.Convention.HasLevel() {
		s.ImpliedByLevel, s.FollowsLevel = false, nil
	}
	if s.WhenDisabled != v1alpha1.Drop {
		s.Parts[0].ResetTo = nil
	}
	return s
}

// wholeVersion adds a feature that gates a version, to two worlds of three.
// Such a feature cannot drop anything: a request in the version is refused, or warned of.
func (w *World) wholeVersion(g *generator) {
	if g.IntN(3) == 0 {
		return
	}
	s := v1alpha1.FeatureSpec{
		Component: "gen", Gate: "Whole",
		Parts:        []v1alpha1.Part{{Group: Group, Resource: Resource, Versions: pickOne(g.Rand, []string{"v2"}, []string{"v2"}, []string{"v1", "v2"}), WholeVersion: true}},
		Stages:       []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}},
		WhenDisabled: pickOne(g.Rand, v1alpha1.Reject, v1alpha1.Reject, v1alpha1.Warn),
		Ratchet:      pickOne(g.Rand, v1alpha1.InUse, v1alpha1.InObject, v1alpha1.Unchanged),
	}
	w.addFeature(s)
}

// acrossResources adds beta features of the second resource, of both resources and of behaviour, which may need each other.
// They follow the level or not, so that conditions between levels and gates are drawn too.
func (w *World) acrossResources(g *generator) {
	yes, no := true, false
	second := v1alpha1.Part{Group: Group, Resource: SecondResource, Field: "spec.b"}
	own := second
	own.Field = "spec.a"
	both := []v1alpha1.Part{second}
	if len(g.parts) > mostFeatures && g.parts[mostFeatures].ResetTo == nil {
		both = append(both, g.parts[mostFeatures])
	}
	stages := []v1alpha1.FeatureStage{{Stage: v1alpha1.Beta, Release: "v1.1.0"}}
	for i, s := range []v1alpha1.FeatureSpec{{Gate: "Both", Parts: both}, {Gate: "Behaviour"}, {Gate: "Second", Parts: []v1alpha1.Part{own}}} {
		s.Component, s.Stages, s.FollowsLevel = "gen", stages, pickOne(g.Rand, &yes, &yes, &no)
		if !w.Component.Spec.Convention.HasLevel() {
			s.FollowsLevel = nil
		}
		others := []string{"GateA", "GateB", "Both", "Behaviour"}[:2+i]
		switch g.IntN(4) {
		case 0:
			s.Requires = []string{pickOne(g.Rand, others...)}
		case 1:
			s.ImpliedBy = []string{pickOne(g.Rand, others...)}
		}
		w.addFeature(s)
	}
}

// addFeature adds a feature. The name of its object follows from component and gate, as users have to choose it.
func (w *World) addFeature(s v1alpha1.FeatureSpec) {
	w.Features = append(w.Features, v1alpha1.Feature{
		TypeMeta:   metav1.TypeMeta{APIVersion: "sluice.dev/v1alpha1", Kind: "Feature"},
		ObjectMeta: metav1.ObjectMeta{Name: feature.ObjectName("gen", s.Gate)}, Spec: s,
	})
}

// defineModel makes the model; features with errors are not in it.
func (w *World) defineModel() {
	w.Model, _ = rules.Define(w.Component, w.Features, feature.Options{Resources: w.resources})
}

// Without takes parts out of the features, by gate and index.
// Features keep their place, also without any part: then they gate behaviour alone.
func (w *World) Without(taken func(gate string, part int) bool) {
	for i := range w.Features {
		s := &w.Features[i].Spec
		var kept []v1alpha1.Part
		for j, p := range s.Parts {
			if !taken(s.Gate, j) {
				kept = append(kept, p)
			}
		}
		s.Parts = kept
	}
	w.defineModel()
}

// Process returns the gates of a process with the settings; nil if a mistake of the declaration ends the process, or if the settings are bad: these
// leave a process at the last good ones, and here there are none.
func (w *World) Process(settings map[string]string) (*gate.Gates, error) {
	d := gate.Declaration{Name: w.Component.Name, Spec: w.Component.Spec}
	for _, f := range w.Model.Features() {
		if slices.ContainsFunc(slices.Concat(f.Spec.Requires, f.Spec.ImpliedBy), func(name string) bool { return w.Model.Feature(name) == nil }) {
			return nil, nil
		}
		d.Features = append(d.Features, f.Spec)
	}
	_, findings := w.Model.ParseSettings(settings)
	if slices.ContainsFunc(findings, func(f feature.Finding) bool {
		return f.Severity == feature.Error && f.Code != feature.CodeUnknownKey && f.Code != feature.CodeUnknownGate && f.Code != feature.CodeLocked
	}) {
		return nil, nil
	}
	g, err := gate.New(d, gate.Options{Resources: w.resources})
	if err != nil {
		return nil, err
	}
	g.Set(gate.ConfigMap, settings, "1")
	return g, g.Begin()
}

// Settings draws the data of the component's ConfigMap; now and then something in it is bad.
// Half of the draws are good settings, which a process takes. The others have words, levels and entries
// that are wrong in every way that a person could write.
func (w *World) Settings(r *rand.Rand) map[string]string {
	out := map[string]string{}
	// With good settings nothing has to be decided about mistakes, so that every gate has a state of its
	// own.
	good := r.IntN(2) == 0
	word := func() string {
		if good {
			return pickOne(r, "true", "false", "True", "0")
		}
		return pickOne(r, "true", "true", "True", " t ", "1", "false", "false", "F", "0", "maybe", "", "allowed", " Allowed", "ALLOWED", "enabled", " Enabled", "disabled", "ENABLED")
	}
	if r.IntN(3) > 0 {
		out["enable-api-fields"] = pickOne(r, "stable", "stable", "stable", "stable", "beta", "alpha", " Alpha")
	}
	if !good && r.IntN(4) == 0 {
		out["enable-api-fields"] = "gamma"
	}
	var entries []string
	for _, f := range w.Features {
		byKey := r.IntN(5) == 0
		if byKey {
			out[feature.Kebab(f.Spec.Gate)] = word()
		}
		if r.IntN(5) == 0 && (!good || !byKey) { // good settings do not contradict themselves
			entries = append(entries, f.Spec.Gate+pickOne(r, "=", " = ", map[bool]string{true: "=", false: ""}[good])+word())
		}
	}
	if r.IntN(6) == 0 {
		out["nothing"] = word() // a key of another release
	}
	for _, all := range []string{"AllAlpha", "AllBeta", "Nobody"} {
		if r.IntN(6) == 0 {
			entries = append(entries, all+"="+word())
		}
	}
	if entries != nil || r.IntN(4) == 0 {
		out["feature-gates"] = strings.Join(entries, pickOne(r, ",", ", "))
	}
	return out
}

// Object draws an object. Odd objects sometimes have values that the schema does not allow, but no duplicates in a list that has
// keys or is a set.
// The version is v1 for two of three objects.
func (w *World) Object(r *rand.Rand, odd bool) map[string]any {
	d := &drawer{Rand: r, odd: odd}
	spec, ok := d.drawFor(&w.spec).(map[string]any)
	if !ok {
		spec = map[string]any{}
	}
	out := map[string]any{"apiVersion": Group + "/" + pickOne(r, "v1", "v1", "v2"), "kind": Kind, "spec": spec}
	out["metadata"] = d.drawMetadata()
	return out
}

// drawMetadata sometimes has managed fields, and these may differ from what an API server would write.
func (d *drawer) drawMetadata() map[string]any {
	out := map[string]any{"name": "x", "namespace": "default"}
	if !d.odd || d.IntN(2) == 0 {
		return out
	}
	var entries []any
	for range d.IntN(3) {
		entry := map[string]any{
			"manager": "somebody", "operation": "Update", "apiVersion": Group + "/" + pickOne(d.Rand, "v1", "v2"), "fieldsType": "FieldsV1",
			"fieldsV1": map[string]any{pickOne(d.Rand, "f:spec", "f:metadata", "f:status"): map[string]any{"f:a": map[string]any{}}},
		}
		if d.IntN(4) == 0 {
			entry["subresource"] = "status"
		}
		entries = append(entries, entry)
	}
	if entries != nil {
		out["managedFields"] = entries
	}
	return out
}

type drawer struct {
	*rand.Rand
	odd bool
}

// drawFor draws a value for a schema. One in sixty of an odd drawer's values has any type, at any depth.
func (d *drawer) drawFor(p *apiextensionsv1.JSONSchemaProps) any {
	if d.odd && d.IntN(60) == 0 {
		return pickOne[any](d.Rand, nil, "odd", int64(7), 1.5, 7.0, true, []any{"x", nil, map[string]any{"name": "a"}}, map[string]any{"name": "a"}, map[string]any{})
	}
	if p.Nullable && d.IntN(6) == 0 {
		return nil
	}
	switch p.Type {
	case "":
		return pickOne[any](d.Rand, "7", "x", "zx", int64(7), int64(8))
	case "string":
		if p.Enum != nil {
			return pickOne[any](d.Rand, "A", "B", "C")
		}
		return pickOne[any](d.Rand, "", "x", "y", "zx", " #!x")
	case "integer":
		return pickOne[any](d.Rand, int64(1), int64(7), int64(8))
	case "boolean":
		return d.IntN(2) == 0
	case "array":
		return d.drawList(p)
	}
	out := map[string]any{}
	if p.XPreserveUnknownFields != nil {
		out = d.drawFree()
	}
	if p.XEmbeddedResource {
		out["apiVersion"], out["kind"], out["metadata"] = "v1", "ConfigMap", map[string]any{"name": "x"}
		return out
	}
	if p.AdditionalProperties != nil {
		for _, k := range []string{"a", "b/c", `d"e.f`, "t~1", "in", "seven, eight"} {
			if d.IntN(5) < 2 {
				out[k] = d.drawFor(p.AdditionalProperties.Schema)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		s := p.Properties[name]
		if slices.Contains(p.Required, name) && (!d.odd || d.IntN(40) > 0) || d.IntN(2) == 0 {
			out[name] = d.drawFor(&s)
		}
	}
	return out
}

// drawFree is an object that no schema describes.
// It has the fields that the paths of features speak of, with values of any type.
func (d *drawer) drawFree() map[string]any {
	out := map[string]any{}
	for _, k := range []string{"a", "b"} {
		if d.IntN(2) == 0 {
			out[k] = pickOne[any](d.Rand, "x", "y", int64(7), nil, map[string]any{"c": "x"}, map[string]any{"c": nil}, []any{"x"}, d.drawLoose(1))
		}
	}
	if d.IntN(2) == 0 {
		out["each"] = d.drawLoose(2)
	}
	return out
}

// drawLoose is a list or a map whose items are again such, or objects and scalars.
func (d *drawer) drawLoose(depth int) any {
	item := func() any {
		if depth > 0 && d.IntN(2) == 0 {
			return map[string]any{"a": d.drawLoose(depth - 1), "b": "x"}
		}
		return pickOne[any](d.Rand, "x", "y", nil, map[string]any{"b": "y"}, map[string]any{"a": "x"}, []any{map[string]any{"b": "x"}})
	}
	if d.IntN(2) == 0 {
		list := []any{}
		for range d.IntN(3) {
			list = append(list, item())
		}
		return list
	}
	out := map[string]any{}
	for _, k := range []string{"k", "l m"} {
		if d.IntN(3) > 0 {
			out[k] = item()
		}
	}
	return out
}

// drawList draws up to three items. Keys come from a few values, so that lists of two draws have items in
// common; an item with a key that is taken is left out.
func (d *drawer) drawList(p *apiextensionsv1.JSONSchemaProps) any {
	out := []any{}
	seen := map[string]bool{}
	for range d.IntN(4) {
		item := d.drawFor(p.Items.Schema)
		if object, ok := item.(map[string]any); ok && len(p.XListMapKeys) > 0 {
			for _, k := range p.XListMapKeys {
				if _, there := object[k]; there && object[k] != nil {
					object[k] = pickOne[any](d.Rand, "a", "b", "c", "d/e")
					if k == "port" {
						object[k] = pickOne[any](d.Rand, int64(1), int64(2))
					}
				}
			}
		}
		id := identityOf(p, item)
		if id != "" && seen[id] {
			continue
		}
		seen[id] = true
		out = append(out, item)
	}
	return out
}

// identityOf is what tells an item of a list from others: its keys, or the value in a set. It is empty
// for a list whose items have none.
func identityOf(p *apiextensionsv1.JSONSchemaProps, item any) string {
	switch {
	case p.XListType == nil:
		return ""
	case *p.XListType == "set":
		return Show(item)
	case *p.XListType == "map":
		object, ok := item.(map[string]any)
		if !ok {
			return "?"
		}
		keys := make([]any, len(p.XListMapKeys))
		for i, k := range p.XListMapKeys {
			keys[i] = object[k]
		}
		return Show(keys)
	}
	return ""
}

// Change draws a new object that has much of an old one.
// Status and version stay those of the old object; metadata change now and then if the objects may be
// odd.
func (w *World) Change(r *rand.Rand, old map[string]any, odd bool) map[string]any {
	other := w.Object(r, odd)
	d := &drawer{Rand: r, odd: odd}
	out := maps.Clone(old)
	out["spec"] = d.mixValues(&w.spec, old["spec"], other["spec"])
	if odd && r.IntN(2) == 0 {
		out["metadata"] = other["metadata"]
	}
	return out
}

// mixValues makes a value of two, of which the first is kept mostly.
// Mixing is what makes ratcheting worth testing: most of the old object stays, and a part of it changes.
func (d *drawer) mixValues(p *apiextensionsv1.JSONSchemaProps, a, b any) any {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || p == nil {
			return a
		}
		return d.mixObjects(p, x, y)
	case []any:
		y, ok := b.([]any)
		if !ok || p == nil || p.Items == nil {
			return a
		}
		return d.mixLists(p, x, y)
	}
	if d.IntN(2) == 0 {
		return a
	}
	return b
}

// mixObjects keeps most fields of x, and takes some of y. Required fields stay those of x, so that the
// result is as valid as x.
func (d *drawer) mixObjects(p *apiextensionsv1.JSONSchemaProps, x, y map[string]any) any {
	out := map[string]any{}
	child := func(k string) *apiextensionsv1.JSONSchemaProps {
		if s, ok := p.Properties[k]; ok {
			return &s
		}
		if p.AdditionalProperties != nil {
			return p.AdditionalProperties.Schema
		}
		return nil
	}
	must := func(k string) bool { return slices.Contains(p.Required, k) }
	for _, k := range slices.Sorted(maps.Keys(x)) {
		if must(k) || d.IntN(8) > 0 {
			out[k] = x[k]
		}
	}
	for _, k := range slices.Sorted(maps.Keys(y)) {
		if must(k) {
			continue
		}
		switch d.IntN(4) {
		case 0:
			out[k] = y[k]
		case 1, 2:
			if _, ok := out[k]; ok {
				out[k] = d.mixValues(child(k), out[k], y[k])
			}
		}
	}
	return out
}

// mixLists takes items of both lists in random order, some of them mixed. Odd drawers may leave
// duplicates, which an API server refuses.
func (d *drawer) mixLists(p *apiextensionsv1.JSONSchemaProps, x, y []any) any {
	var out []any
	seen := map[string]bool{}
	all := slices.Concat(x, y)
	d.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, v := range all[:d.IntN(len(all)+1)] {
		if len(y) > 0 && d.IntN(3) == 0 {
			v = d.mixValues(p.Items.Schema, v, y[d.IntN(len(y))])
		}
		id := identityOf(p, v)
		if id != "" && seen[id] && (!d.odd || d.IntN(3) > 0) {
			continue
		}
		seen[id] = true
		out = append(out, v)
	}
	if out == nil {
		out = []any{}
	}
	return out
}
