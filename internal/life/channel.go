package life

// How does a CRD look without the features that a channel leaves out? Their fields, values and versions go,
// and so does what names them: required fields, rules, printer columns. The result is proven to be narrower
// than the whole CRD, so that an upgrade to the whole one is safe. For example, channel stable is without the
// fields of alpha and beta features.

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/compat"
	"sluice.dev/feature"
	"sluice.dev/internal/brief"
	"sluice.dev/report"
	"sluice.dev/schema"
	"sluice.dev/schema/upstream"
)

// ChannelAnnotation on a CRD names its channel.
const ChannelAnnotation = "sluice.dev/channel"

// Channel says for which features a CRD has the parts.
type Channel struct {
	// Level opens the features that are at least that stable. Empty stands for alpha, which opens all features that have begun.
	Level v1alpha1.Level `json:"channel,omitempty"`
	// Gates open and close single features, whatever their stage.
	Gates map[string]bool `json:"gates,omitempty"`
}

// isWhole reports whether no channel is named: then nothing is left out.
func (c *Channel) isWhole() bool { return c.Level == "" && len(c.Gates) == 0 }

// String names the channel.
func (c *Channel) String() string {
	parts := []string{string(c.Level)}
	if c.Level == "" {
		parts[0] = string(v1alpha1.LevelAlpha)
	}
	for _, g := range sortedKeys(c.Gates) {
		parts = append(parts, fmt.Sprintf("%s=%t", g, c.Gates[g]))
	}
	return strings.Join(parts, ",")
}

var channelLevels = []v1alpha1.Level{v1alpha1.LevelStable, v1alpha1.LevelBeta, v1alpha1.LevelAlpha}

// Closed returns the features of a model that a channel leaves out. The error names a channel or a gate that does not exist, or a
// gate that is open without one that it requires.
func (c *Channel) Closed(model *feature.Model) ([]*feature.Feature, error) {
	level := cmp.Or(c.Level, v1alpha1.LevelAlpha)
	names := []string{"stable", "beta", "alpha"}
	rank := slices.Index(channelLevels, level)
	if rank < 0 {
		return nil, fmt.Errorf("there is no channel %q%s; the channels are %s", level, brief.Hint(string(level), names), strings.Join(names, ", "))
	}
	var gates []string
	open := map[string]bool{}
	for _, f := range model.Features() {
		gates = append(gates, f.Spec.Gate)
		open[f.Spec.Gate] = f.Entry >= 0 && slices.Index(channelLevels, f.Level) <= rank
		if f.Stage == v1alpha1.Removed {
			open[f.Spec.Gate] = f.Default
		}
	}
	for _, g := range sortedKeys(c.Gates) {
		if !slices.Contains(gates, g) {
			return nil, fmt.Errorf("component %s has no feature %q%s", model.Component(), g, brief.Hint(g, gates))
		}
		open[g] = c.Gates[g]
	}
	// open has the state of each gate by itself. is adds the features that imply it and those that it requires. Definitions have no
	// cycles.
	var is func(gate string) bool
	closes := func(gate string) bool { return !is(gate) }
	is = func(gate string) bool {
		f := model.Feature(gate)
		return f != nil && (open[gate] || f.Entry >= 0 && !f.Locked && slices.ContainsFunc(f.Spec.ImpliedBy, is)) && !slices.ContainsFunc(f.Spec.Requires, closes)
	}
	var closed []*feature.Feature
	for _, f := range model.Features() {
		set, named := c.Gates[f.Spec.Gate]
		switch on := is(f.Spec.Gate); {
		case on && named && !set:
			by := f.Spec.ImpliedBy[slices.IndexFunc(f.Spec.ImpliedBy, is)]
			return nil, fmt.Errorf("%s=false, but %s, which implies it, is in the channel", f.Spec.Gate, by)
		case !on && set:
			other := f.Spec.Requires[slices.IndexFunc(f.Spec.Requires, closes)]
			return nil, fmt.Errorf("%s=true requires %s, which the channel leaves out", f.Spec.Gate, other)
		case !on:
			closed = append(closed, f)
		}
	}
	return closed, nil
}

// Cut returns a CRD without the parts of features and without references to them in required, branches of anyOf and oneOf, validation
// rules, printer columns and selectable fields. The result is valid, and the whole CRD accepts every object of it. An error says why
// that is not possible. Notes say what could not be proven.
func Cut(ctx context.Context, crd, whole *apiextensionsv1.CustomResourceDefinition, closed []*feature.Feature, name string) (out *apiextensionsv1.CustomResourceDefinition, notes []string, err error) {
	out = schema.CopyCRD(crd)
	var wrong Problems
	for _, f := range closed {
		cutFeature(out, f, &wrong)
	}
	if err := wrong.asError(); err != nil {
		return nil, nil, err
	}
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[ChannelAnnotation] = name
	if err := validateCRD(ctx, out, crd.Name+": the channel "+name); err != nil {
		return nil, nil, err
	}
	// Versions that the channel leaves out cannot be compared.
	wider := schema.CopyCRD(whole)
	wider.Spec.Versions = slices.DeleteFunc(wider.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return !slices.ContainsFunc(out.Spec.Versions, func(o apiextensionsv1.CustomResourceDefinitionVersion) bool { return o.Name == v.Name })
	})
	result, err := compat.Check(ctx, out, wider, compat.Options{})
	if err != nil {
		return nil, nil, err
	}
	for _, x := range result.Findings {
		switch {
		case x.Severity != report.Fail:
		case x.Outcome == report.Violation:
			wrong.addProblem("", 0, "%s: the channel %s accepts what the whole CRD refuses: %s: %s", crd.Name, name, x.Path, x.Message)
		default:
			notes = append(notes, fmt.Sprintf("%s: that the whole CRD accepts all objects of the channel %s could not be proven: %s: %s", crd.Name, name, x.Path, x.Message))
		}
	}
	if len(wrong)+len(notes) > 0 { // an error of the whole CRD is more useful
		if err := validateCRD(ctx, whole, crd.Name); err != nil {
			return nil, nil, err
		}
	}
	if err := wrong.asError(); err != nil {
		return nil, nil, err
	}
	return out, notes, nil
}

// cutFeature removes the parts of a feature.
func cutFeature(crd *apiextensionsv1.CustomResourceDefinition, f *feature.Feature, wrong *Problems) {
	for i := range f.Targets {
		t := &f.Targets[i]
		if t.Group != crd.Spec.Group || t.Resource != crd.Spec.Names.Plural {
			continue
		}
		if t.WholeVersion {
			if problem := cutVersion(crd, t.Version); problem != "" {
				wrong.addProblem("", 0, "%s: %s cannot be left out: %s", crd.Name, f.Spec.Gate, problem)
			}
			continue
		}
		for j := range crd.Spec.Versions {
			v := &crd.Spec.Versions[j]
			if t.Version != "" && t.Version != v.Name || v.Schema == nil {
				continue
			}
			for _, problem := range cutTarget(v, t) {
				wrong.addProblem("", 0, "%s, version %s: %s cannot be left out: %s", crd.Name, v.Name, f.Spec.Gate, problem)
			}
		}
	}
}

// validateCRD validates a CRD with the API server's code.
func validateCRD(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, what string) error {
	errs, err := upstream.ValidateCRD(ctx, crd, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if len(errs) > 0 {
		return fmt.Errorf("%s is no valid CRD: %w", what, errs.ToAggregate())
	}
	return nil
}

// cutVersion removes a version.
func cutVersion(crd *apiextensionsv1.CustomResourceDefinition, name string) (problem string) {
	i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == name })
	switch {
	case i < 0:
		return ""
	case crd.Spec.Versions[i].Storage:
		return fmt.Sprintf("%s is the storage version", name)
	}
	crd.Spec.Versions = slices.Delete(crd.Spec.Versions, i, i+1)
	if !slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served }) {
		return "no other version is served"
	}
	return ""
}

// cutTarget removes a part from a version.
func cutTarget(v *apiextensionsv1.CustomResourceDefinitionVersion, t *feature.Target) (problems []string) {
	root, at, whole := v.Schema.OpenAPIV3Schema, t.Path, !t.Narrowed()
	if whole && at[len(at)-1].Kind == feature.Field {
		if problems = cutField(root, at); len(problems) == 0 {
			problems = cutNames(v, at)
		}
		return problems
	}
	if whole { // the list or map has nothing in it
		at = at[:len(at)-1]
	}
	if t.Values != nil {
		problems = cutRules(root, at, func(rule string, rest feature.Path) (string, string) { return withoutValues(rule, rest, t.Values) })
	}
	withSchemaAt(root, at, func(s *apiextensionsv1.JSONSchemaProps) {
		switch {
		case t.Values != nil:
			cutValues(s, t.Values)
		case t.Pattern != nil:
			forbidMatching(s, apiextensionsv1.JSONSchemaProps{Pattern: t.Pattern.String()})
		case t.Beyond != nil:
			forbidBeyond(s, t.Beyond)
		case t.Match != nil:
			forbidMatching(s, schemaMatching(t.Match))
		case s.Type == "array":
			s.MaxItems = new(int64(0))
		default:
			s.MaxProperties = new(int64(0))
		}
	})
	return problems
}

// cutRules rewrites the validation rules around a field, and leaves out those that then have no effect.
func cutRules(root *apiextensionsv1.JSONSchemaProps, path feature.Path, rewrite func(rule string, rest feature.Path) (out, problem string)) (problems []string) {
	for i := range path {
		withSchemaAt(root, path[:i], func(s *apiextensionsv1.JSONSchemaProps) {
			rest := path[i:]
			kept := s.XValidations[:0:0]
			for _, r := range s.XValidations {
				rule, problem := rewrite(r.Rule, rest)
				if problem == "" && r.MessageExpression != "" {
					r.MessageExpression, problem = rewrite(r.MessageExpression, rest)
				}
				switch {
				case problem != "":
					problems = append(problems, fmt.Sprintf("the rule %q at %s %s", r.Rule, placeName(path[:i]), problem))
				case rule == "true":
					continue
				}
				r.Rule = rule
				kept = append(kept, r)
			}
			s.XValidations = kept
			if len(kept) == 0 {
				s.XValidations = nil
			}
		})
	}
	return problems
}

// withSchemaAt calls f for the schema that a path leads to, if there is one.
func withSchemaAt(s *apiextensionsv1.JSONSchemaProps, path feature.Path, f func(*apiextensionsv1.JSONSchemaProps)) {
	if s == nil {
		return
	}
	if len(path) == 0 {
		f(s)
		return
	}
	step, rest := path[0], path[1:]
	if p, ok := s.Properties[step.Name]; ok && step.Kind == feature.Field {
		withSchemaAt(&p, rest, f)
		s.Properties[step.Name] = p
		return
	}
	if step.Kind != feature.Field && s.Items != nil {
		withSchemaAt(s.Items.Schema, rest, f)
	}
	if s.AdditionalProperties != nil {
		withSchemaAt(s.AdditionalProperties.Schema, rest, f)
	}
}

// forbidMatching makes a schema refuse the values that match another one.
func forbidMatching(s *apiextensionsv1.JSONSchemaProps, what apiextensionsv1.JSONSchemaProps) {
	s.AllOf = append(s.AllOf, apiextensionsv1.JSONSchemaProps{Not: &what})
}

// forbidBeyond makes a schema refuse values beyond bounds.
func forbidBeyond(s *apiextensionsv1.JSONSchemaProps, b *feature.Bounds) {
	least := func(had *int64, n *int64) *int64 {
		if n == nil || had != nil && *had <= *n {
			return had
		}
		return new(*n)
	}
	if b.Minimum != nil && (s.Minimum == nil || *s.Minimum < float64(*b.Minimum)) {
		s.Minimum, s.ExclusiveMinimum = new(float64(*b.Minimum)), false
	}
	if b.Maximum != nil && (s.Maximum == nil || *s.Maximum > float64(*b.Maximum)) {
		s.Maximum, s.ExclusiveMaximum = new(float64(*b.Maximum)), false
	}
	s.MaxLength = least(s.MaxLength, b.MaxLength)
	if s.Type == "array" {
		s.MaxItems = least(s.MaxItems, b.MaxItems)
	} else {
		s.MaxProperties = least(s.MaxProperties, b.MaxItems)
	}
	if b.Pattern != "" {
		s.AllOf = append(s.AllOf, apiextensionsv1.JSONSchemaProps{Pattern: b.Pattern})
	}
	switch {
	case b.Values == nil:
	case s.Enum != nil:
		s.Enum = slices.DeleteFunc(s.Enum, func(j apiextensionsv1.JSON) bool { return !slices.Contains(b.Values, plainScalar(string(j.Raw))) })
	default:
		s.Enum = enumOf(s, b.Values)
	}
}

// cutValues removes values from an enum, or forbids them if there is no enum.
func cutValues(s *apiextensionsv1.JSONSchemaProps, values []string) {
	is := func(j apiextensionsv1.JSON) bool { return slices.Contains(values, plainScalar(string(j.Raw))) }
	if s.Enum != nil {
		s.Enum = slices.DeleteFunc(s.Enum, is)
		return
	}
	forbidMatching(s, apiextensionsv1.JSONSchemaProps{Enum: enumOf(s, values)})
}

// enumOf writes values in the type of a schema.
func enumOf(s *apiextensionsv1.JSONSchemaProps, values []string) (out []apiextensionsv1.JSON) {
	for _, v := range values {
		text := v
		if s.Type == "string" || s.Type == "" || s.XIntOrString {
			text = quoteJSON(v)
		}
		out = append(out, apiextensionsv1.JSON{Raw: []byte(text)})
	}
	return out
}

// schemaMatching is a schema of the objects for which conditions hold.
func schemaMatching(list []feature.Condition) (out apiextensionsv1.JSONSchemaProps) {
	for i := range list {
		c := &list[i]
		var inner apiextensionsv1.JSONSchemaProps
		if c.Pattern != nil {
			inner.Pattern = c.Pattern.String()
		}
		for _, v := range c.Values {
			inner.Enum = append(inner.Enum, apiextensionsv1.JSON{Raw: []byte(quoteJSON(v))})
		}
		for _, step := range slices.Backward(c.Path) {
			inner = apiextensionsv1.JSONSchemaProps{Required: []string{step.Name}, Properties: map[string]apiextensionsv1.JSONSchemaProps{step.Name: inner}}
		}
		out.AllOf = append(out.AllOf, inner)
	}
	return out
}

// cutField removes a field from its object, and from everything around it that names the field.
func cutField(root *apiextensionsv1.JSONSchemaProps, path feature.Path) (problems []string) {
	name := path[len(path)-1].Name
	withSchemaAt(root, path[:len(path)-1], func(parent *apiextensionsv1.JSONSchemaProps) {
		// Without its declaration the field would be one of any name there, and clients could still write it.
		open := parent.AdditionalProperties != nil || parent.XPreserveUnknownFields != nil && *parent.XPreserveUnknownFields || parent.XEmbeddedResource
		if open {
			problems = append(problems, fmt.Sprintf("%s takes fields of any name, so that it could still be written", placeName(path[:len(path)-1])))
		}
		delete(parent.Properties, name)
		if slices.Contains(parent.XListMapKeys, name) {
			problems = append(problems, "it identifies the items of a list")
		}
		parent.Required = slices.DeleteFunc(parent.Required, func(r string) bool { return r == name })
		if len(parent.Required) == 0 {
			parent.Required = nil
		}
	})
	for i := range path {
		withSchemaAt(root, path[:i], func(s *apiextensionsv1.JSONSchemaProps) {
			rest := path[i:]
			if pruneField(s, rest, false) {
				problems = append(problems, fmt.Sprintf("a condition (allOf, anyOf or oneOf) at %s cannot hold without it", placeName(path[:i])))
			}
			for j := range s.XValidations {
				if field := strings.TrimPrefix(s.XValidations[j].FieldPath, "."); field == rest.String() || strings.HasPrefix(field, rest.String()+".") {
					s.XValidations[j].FieldPath = ""
				}
			}
		})
	}
	return append(problems, cutRules(root, path, withoutField)...)
}

// placeName names a place in messages.
func placeName(p feature.Path) string {
	if len(p) == 0 {
		return "the object"
	}
	return p.String()
}

// pruneField removes a field from the conditions of a schema, and reports whether they cannot hold without it. It treats a condition below a
// condition as a whole, and removes branches that cannot hold.
func pruneField(s *apiextensionsv1.JSONSchemaProps, path feature.Path, condition bool) (dead bool) {
	step := path[0]
	if condition && step.Kind == feature.Field {
		if len(path) == 1 {
			dead = slices.Contains(s.Required, step.Name)
			delete(s.Properties, step.Name)
		} else if p, ok := s.Properties[step.Name]; ok {
			dead = pruneField(&p, path[1:], true)
			s.Properties[step.Name] = p
		}
	}
	if condition && step.Kind != feature.Field && len(path) > 1 && s.Items != nil && s.Items.Schema != nil {
		dead = pruneField(s.Items.Schema, path[1:], true)
	}
	for i := range s.AllOf {
		dead = pruneField(&s.AllOf[i], path, true) || dead
	}
	for _, list := range []*[]apiextensionsv1.JSONSchemaProps{&s.AnyOf, &s.OneOf} {
		before := len(*list)
		kept := (*list)[:0:0]
		for _, branch := range *list {
			if !pruneField(&branch, path, true) {
				kept = append(kept, branch)
			}
		}
		if before > 0 {
			*list = kept
			dead = dead || len(kept) == 0
		}
	}
	// What cannot hold any more is never forbidden.
	if s.Not != nil && pruneField(s.Not, path, true) {
		s.Not = nil
	}
	return dead
}

// cutNames removes printer columns and selectable fields that name a field, and reports other places that name it.
func cutNames(v *apiextensionsv1.CustomResourceDefinitionVersion, path feature.Path) (problems []string) {
	names := func(jsonPath string) bool {
		text := quotedName.ReplaceAllString(jsonPath, ".$1")
		text = jsonPathTail.ReplaceAllString(strings.TrimPrefix(text, "."), "[*]")
		want := path.String()
		return text == want || strings.HasPrefix(text, want+".") || strings.HasPrefix(text, want+"[")
	}
	v.AdditionalPrinterColumns = slices.DeleteFunc(v.AdditionalPrinterColumns, func(c apiextensionsv1.CustomResourceColumnDefinition) bool { return names(c.JSONPath) })
	v.SelectableFields = slices.DeleteFunc(v.SelectableFields, func(f apiextensionsv1.SelectableField) bool { return names(f.JSONPath) })
	if len(v.AdditionalPrinterColumns) == 0 {
		v.AdditionalPrinterColumns = nil
	}
	if len(v.SelectableFields) == 0 {
		v.SelectableFields = nil
	}
	if v.Subresources != nil && v.Subresources.Scale != nil {
		s := v.Subresources.Scale
		for _, p := range []*string{&s.SpecReplicasPath, &s.StatusReplicasPath, s.LabelSelectorPath} {
			if p != nil && names(*p) {
				problems = append(problems, "the subresource scale reads "+*p)
			}
		}
	}
	return problems
}
