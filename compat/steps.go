package compat

// What does each step of a journey make of the objects of a version? A journey begins with the objects that a version accepts, and goes on
// with what the API server does to them. After a step they are the objects of another schema, so a question about two journeys is one
// comparison of two schemas. For example, objects of v1beta1 that v1 has read are those of v1beta1 with each default of v1 filled in.
// journey.go makes the same steps with one object, by the API server's own code.

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
	"sluice.dev/schema/contain"
)

// stepKind is what happens in a step.
// Each kind is a function from the schema of the objects to another schema, see [comparison.schemaAfter].
type stepKind int

const (
	// stepRead fills in defaults: those of the version itself, which took the object, and those of the version by, which reads it from storage.
	stepRead stepKind = iota
	// stepConvert drops the fields that the version by does not know.
	stepConvert
	// stepConvertAndRead does both, and fills in what by alone declares.
	stepConvertAndRead
	// stepAccept leaves the objects that the version by accepts as they are, too.
	stepAccept
	// stepFill fills in the defaults of the version by in place of the version's own.
	stepFill
	// stepDropStatus drops the default of .status, as a creation does in the presence of the status subresource
	// (PrepareForCreate in k8s.io/apiextensions-apiserver/pkg/registry/customresource).
	stepDropStatus
	// stepKeepStatus fills in nothing in .status: a request that is not for the status takes over the stored one (PrepareForUpdate, ibidem).
	stepKeepStatus
	// stepWriteStatus leaves embedded resources in .status unchecked, as requests for the status do (statusStrategy, ibidem).
	stepWriteStatus
	// stepScale refuses what the paths of the scale subresource do not allow (customResourceValidator, ibidem).
	stepScale
	// stepNameVersion has rules see the apiVersion of the version, under which an object is validated.
	stepNameVersion
	// stepNameUnknown declares the fields that the version keeps unknown and that the version by, or another one, knows. Only what is dropped of
	// them is asked.
	stepNameUnknown
	// stepPruneUnknown drops unknown fields in spite of spec.preserveUnknownFields.
	stepPruneUnknown
	// stepUpdate leaves what updates make of objects: rules with optionalOldSelf have an old value.
	stepUpdate
)

// step is a step of a journey. by is the version that does it, nil if it is the one whose objects these are.
type step struct {
	kind stepKind
	by   *part
}

// journeyStep is a step of the objects of a version.
type journeyStep struct {
	from *part
	step step
}

// afterSteps returns the version whose objects are those of p after the steps; p itself if they change nothing. The same steps give the same
// version, so the prover answers each question once.
func (c *comparison) afterSteps(p *part, steps ...step) *part {
	for _, s := range steps {
		p = c.afterStep(p, s)
	}
	return p
}

// afterStep is [comparison.afterSteps] for one step. A version without a schema stays as it is, because nothing is
// known of its objects.
func (c *comparison) afterStep(p *part, s step) *part {
	if p.props == nil {
		return p
	}
	key := journeyStep{p, s}
	if out, ok := c.made[key]; ok {
		return out
	}
	out := p
	if after := c.schemaAfter(p, s); after != p.props || s.kind == stepWriteStatus && checksInStatus(p) {
		out = p.withSchema(after)
		out.unchecked = out.unchecked || s.kind == stepWriteStatus
		out.onlyLost = out.onlyLost || s.kind == stepNameUnknown
		if s.kind == stepRead || s.kind == stepAccept || s.kind == stepScale { // nothing is accepted that was not before
			out.within = cmp.Or(p.within, p)
		}
	}
	c.made[key] = out
	return out
}

// readBy returns the version whose objects are those of p that the version reader has read from storage, with the defaults of both. A field
// with a default is required there. nil for the reader means p.
func (c *comparison) readBy(p, reader *part) *part {
	return c.afterStep(p, step{stepRead, cmp.Or(reader, p)})
}

// asStored are the versions, made of p, whose objects together are what is stored of p and what reader fills in. What p says of a field may
// refuse what is filled in after p has taken the object, so the objects before that belong to them.
// If reader fills in nothing that p lacks, one part is all.
func (c *comparison) asStored(p, reader *part) []*part {
	filled := c.readBy(p, reader)
	if reader == p || reader == nil || !fillsMore(p.props, reader.props, 0) {
		return []*part{filled}
	}
	return []*part{filled, c.readBy(p, p)}
}

// schemaAfter returns the schema of the objects of p after a step; that of p if they stay as they are.
func (c *comparison) schemaAfter(p *part, s step) *props {
	switch s.kind {
	case stepRead:
		return requireDefaulted(p.props, s.by.props, 0)
	case stepConvert:
		return onTheWay(p.props, s.by.props, false, 0)
	case stepConvertAndRead:
		return onTheWay(p.props, s.by.props, true, 0)
	case stepAccept:
		return alsoAccepted(p.props, s.by.props)
	case stepFill:
		return defaultsOf(p.props, s.by.props, 0)
	case stepDropStatus:
		return withoutStatusDefault(p)
	case stepKeepStatus:
		return unfilledStatus(p)
	case stepScale:
		return withScaleDemands(p.props, scalePaths(p))
	case stepNameVersion:
		return withOwnVersion(p.props, c.groupVersionOf(p))
	case stepNameUnknown:
		return nameUnknownFields(p.props, c.schemasKnowing(s.by), 0)
	case stepPruneUnknown:
		return schemaProps(p.crdVersion)
	case stepUpdate:
		return withRulesOfUpdates(p.props)
	case stepWriteStatus:
	}
	return p.props
}

// requireDefaulted makes what has a default, in p or in the schema that reads the object, required instead.
// A field with a default is never missing in what was read, and the value may be any that the field accepts, not only
// the default: a client may have set it.
func requireDefaulted(p, reader *props, depth int) *props {
	if p == nil || depth > schema.MaxDepth {
		return p
	}
	var filled []string
	out := rewriteChildren(p, func(child *props, at contain.Step) *props {
		twin := schemaAt(reader, at)
		sub := requireDefaulted(child, twin, depth+1)
		switch {
		case at.Kind != contain.Field && fillsNull(twin):
			return withoutNull(sub, nil)
		case at.Kind != contain.Field || !fillsIn(child) && !fillsIn(twin):
			return sub
		}
		filled = append(filled, at.Name)
		return withDefault(sub, nil)
	})
	if len(filled) == 0 {
		return out
	}
	return withRequired(out, filled)
}

// withoutNull returns the schema of items or values among which no null is left, with a default for null or none.
// For items and values, null is what a default replaces; a missing one does not exist.
func withoutNull(p *props, value *apiextensionsv1.JSON) *props {
	out := withDefault(p, value)
	out.Nullable = false
	return out
}

// requireFilledByReader returns p with each property required that the reader fills in and p does not: what it refuses lacks one of them. If
// there is none, it returns p itself.
func requireFilledByReader(p, reader *props, depth int) *props {
	if p == nil || reader == nil || depth > schema.MaxDepth {
		return p
	}
	var lacking []string
	out := rewriteChildren(p, func(child *props, at contain.Step) *props {
		twin := schemaAt(reader, at)
		if at.Kind == contain.Field && fillsIn(twin) && !fillsIn(child) {
			lacking = append(lacking, at.Name)
		}
		return requireFilledByReader(child, twin, depth+1)
	})
	for name, twin := range reader.Properties {
		if _, declared := p.Properties[name]; declared {
			continue
		}
		if fillsIn(&twin) {
			lacking = append(lacking, name)
		}
		values := extraOf(p)
		if sub := requireFilledByReader(values, &twin, depth+1); sub != values {
			out = withFieldSchema(out, name, sub)
		}
	}
	if lacking = slices.DeleteFunc(lacking, func(name string) bool { return slices.Contains(p.Required, name) }); len(lacking) == 0 {
		return out
	}
	return withRequired(out, lacking)
}

// onTheWay returns p without the fields that q prunes and, if it reads, with those that q alone declares and fills in.
// A field that q drops stays declared but must be absent (not: {required: [...]}), because rules of p may name it,
// and a rule about an undeclared field does not compile.
func onTheWay(p, q *props, reads bool, depth int) *props {
	if p == nil || q == nil || depth > schema.MaxDepth || keepsUnknownFields(q) {
		return p
	}
	out := *rewriteChildren(p, func(child *props, at contain.Step) *props { return onTheWay(child, schemaAt(q, at), reads, depth+1) })
	out.AllOf, out.Required, out.Properties = slices.Clone(p.AllOf), slices.Clone(p.Required), maps.Clone(out.Properties)
	if out.Properties == nil {
		out.Properties = map[string]props{}
	}
	dropFields(&out, p, q, depth)
	var filled []string
	for name, twin := range q.Properties {
		if _, declared := p.Properties[name]; !declared && reads && len(p.Properties) > 0 && fillsIn(&twin) {
			twin.Enum, twin.Default = []apiextensionsv1.JSON{*twin.Default}, nil
			out.Properties[name], filled = twin, append(filled, name)
		}
	}
	slices.Sort(filled)
	out.Required = append(out.Required, filled...)
	if values := extraOf(p); extraOf(q) == nil && q.Type == "object" && (values != nil || keepsUnknownFields(p)) {
		nameKept(&out, q, values, reads, depth)
	}
	return &out
}

// dropFields leaves out of out, the schema of p after a conversion, the fields that q prunes or drops if they are null.
func dropFields(out, p, q *props, depth int) {
	drop := func(name string) {
		out.Required = slices.DeleteFunc(out.Required, func(r string) bool { return r == name })
	}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		twin := fieldOf(q, name)
		switch child := out.Properties[name]; {
		case twin == nil && prunesUndeclared(q, name, depth): // a rule may name it, so it stays declared
			out.AllOf = append(out.AllOf, props{Not: &props{Required: []string{name}}})
			drop(name)
		case twin != nil && child.Nullable && dropsNull(q, name):
			child.Nullable = false
			out.Properties[name] = child
			drop(name)
		}
	}
}

// dropsNull reports whether reading by p drops a field that is null (PruneNonNullableNullsWithoutDefaults in
// k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting).
// A field with a default has it in place of the null, and is not dropped.
func dropsNull(p *props, name string) bool {
	field, declared := p.Properties[name]
	if values := extraOf(p); !declared && values != nil {
		field, declared = *values, true
	}
	return declared && !field.Nullable && !fillsIn(&field)
}

// nameKept declares the fields of q in p, which keeps unknown fields or has additionalProperties: q prunes all other fields.
func nameKept(p, q, values *props, reads bool, depth int) {
	if values == nil {
		values = &props{XPreserveUnknownFields: p.XPreserveUnknownFields}
	}
	p.AdditionalProperties, p.XPreserveUnknownFields = nil, nil
	for name, twin := range q.Properties {
		if _, declared := p.Properties[name]; !declared && prunesUndeclared(q, name, depth) {
			p.Properties[name] = *onTheWay(values, &twin, reads, depth+1)
		}
	}
}

// alsoAccepted returns the objects of p that q accepts as they are: no defaults of q, and nothing about pruning.
// The keywords that say how values are stored are taken out of q, because a structural schema forbids them below
// allOf.
func alsoAccepted(p, q *props) *props {
	if q == nil {
		return p
	}
	out := *p
	out.AllOf = append(slices.Clip(p.AllOf), *schema.Rewrite(q, schema.InStructure, func(s *props) {
		s.Default, s.XPreserveUnknownFields, s.XEmbeddedResource, s.XListType, s.XListMapKeys, s.XMapType = nil, nil, false, nil, nil, nil
	}))
	return &out
}

// defaultsOf returns p with the defaults of the version that reads the object, where that has any.
func defaultsOf(p, reader *props, depth int) *props {
	if p == nil || reader == nil || depth > schema.MaxDepth {
		return p
	}
	out := rewriteChildren(p, func(child *props, at contain.Step) *props {
		twin := schemaAt(reader, at)
		own := defaultsOf(child, twin, depth+1)
		switch {
		case at.Kind == contain.Field && fillsIn(twin):
			return withDefault(own, twin.Default)
		case at.Kind != contain.Field && fillsNull(twin):
			return withoutNull(own, twin.Default)
		}
		return own
	})
	for name, twin := range reader.Properties {
		kept := fieldOf(p, name)
		if _, declared := p.Properties[name]; declared || kept == nil {
			continue
		}
		own := defaultsOf(kept, &twin, depth+1) // p keeps it without a declaration
		if fillsIn(&twin) {
			own = withDefault(own, twin.Default)
		}
		out = withFieldSchema(out, name, own)
	}
	return out
}

// filledBy returns p with the defaults of another version in place of its own, and without the fields that are neither filled in nor in any
// of the versions that wrote what is stored. A field is required if all of these require it, and then nothing fills it in.
// It describes old values as rules see them: converted from what other versions wrote, and filled in by the reader
// alone.
func filledBy(p, reader *props, held []*props, depth int) *props {
	if p == nil || depth > schema.MaxDepth {
		return p
	}
	required := slices.DeleteFunc(slices.Clone(p.Required), func(name string) bool {
		return slices.ContainsFunc(held, func(s *props) bool { return !slices.Contains(s.Required, name) })
	})
	out := *rewriteChildren(p, func(child *props, at contain.Step) *props {
		other, below := schemaAt(reader, at), schemasAt(held, at)
		own := filledBy(child, other, below, depth+1)
		asked := slices.Contains(required, at.Name) && !slices.ContainsFunc(below, fillsIn) // then no object lacks it
		switch {
		case at.Kind != contain.Field:
			return own
		case len(below) == 0 && !fillsIn(other):
			return nil
		case fillsIn(other) && !asked:
			return withDefault(own, other.Default)
		}
		return withDefault(own, nil)
	})
	out.Required = required
	return &out
}

// withoutStatusDefault returns the schema of p without the default of .status, if p has one and the status subresource.
// A new object is stored without a status, and the next read fills in the default.
func withoutStatusDefault(p *part) *props {
	status, declared := p.props.Properties["status"]
	if !declared || !hasStatus(p) || !fillsIn(&status) {
		return p.props
	}
	return withFieldSchema(p.props, "status", withDefault(&status, nil))
}

// unfilledStatus returns the schema of p without the defaults in .status, if p has any and the status subresource.
// Such a request has the status of the stored object, in which another version has filled in its own
// defaults.
func unfilledStatus(p *part) *props {
	status, declared := p.props.Properties["status"]
	if !declared || !hasStatus(p) || !fillsBelow(&status) {
		return p.props
	}
	return withFieldSchema(p.props, "status", schema.Rewrite(&status, schema.InStructure, func(s *props) { s.Default = nil }))
}

// checksInStatus reports whether p has the status subresource, and in .status embedded resources.
func checksInStatus(p *part) bool {
	status := p.props.Properties["status"]
	return hasStatus(p) && anyBelow(&status, func(s *props) bool { return s.XEmbeddedResource })
}

// fillsBelow reports whether p, or something in it, has a default.
func fillsBelow(p *props) bool { return anyBelow(p, fillsIn) }

func scaleOf(p *part) *apiextensionsv1.CustomResourceSubresourceScale {
	if p.Subresources == nil {
		return nil
	}
	return p.Subresources.Scale
}

// scalePath is a path of the scale subresource, and what may stand there
// (customResourceValidator in k8s.io/apiextensions-apiserver/pkg/registry/customresource/validator.go).
type scalePath struct {
	name, steps string
	want        props
}

// scalePaths lists the paths that a version sets, with what the API server demands of the value at each. It is nil
// without the subresource.
func scalePaths(p *part) []scalePath {
	s := scaleOf(p)
	if s == nil {
		return nil
	}
	zero, most := float64(0), float64(math.MaxInt32)
	number := props{Type: "integer", Minimum: &zero, Maximum: &most}
	out := []scalePath{{"specReplicasPath", s.SpecReplicasPath, number}, {"statusReplicasPath", s.StatusReplicasPath, number}}
	if s.LabelSelectorPath != nil {
		out = append(out, scalePath{"labelSelectorPath", *s.LabelSelectorPath, props{Type: "string"}})
	}
	return slices.DeleteFunc(out, func(p scalePath) bool { return p.steps == "" })
}

// withScaleDemands returns p with what the scale subresource demands at the paths.
// An absent value passes, and so does an object on the way that is null: the API server takes a missing number for 0.
func withScaleDemands(p *props, paths []scalePath) *props {
	if len(paths) == 0 {
		return p
	}
	out := *p
	out.AllOf = slices.Clone(out.AllOf)
	for _, path := range paths {
		branch := path.want
		for _, name := range slices.Backward(strings.Split(strings.TrimPrefix(path.steps, "."), ".")) {
			branch = props{Type: "object", Nullable: true, Properties: map[string]props{name: branch}}
		}
		branch.Nullable = false
		out.AllOf = append(out.AllOf, branch)
	}
	return &out
}

// readsVersion matches the places where a rule reads the apiVersion of the resource.
var readsVersion = regexp.MustCompile(`\b(has\(\s*)?(self|oldSelf)\.apiVersion\b(\s*\))?`)

// withOwnVersion replaces self.apiVersion in the rules of p. An object has the apiVersion of the version that reads it, so the same rule says
// something else in each version.
// has(self.apiVersion) becomes true, and self.apiVersion the name itself, for example "example.com/v1" ==
// "example.com/v1".
func withOwnVersion(p *props, apiVersion string) *props {
	if !slices.ContainsFunc(p.XValidations, func(r apiextensionsv1.ValidationRule) bool { return readsVersion.MatchString(r.Rule) }) {
		return p
	}
	out := *p
	out.XValidations = slices.Clone(p.XValidations)
	for i := range out.XValidations {
		r := &out.XValidations[i]
		r.Rule = readsVersion.ReplaceAllStringFunc(r.Rule, func(read string) string {
			if strings.HasPrefix(read, "has") {
				return "true"
			}
			name, _ := strings.CutSuffix(read, ")")
			return strconv.Quote(apiVersion) + read[len(strings.TrimRight(name, " ")):]
		})
	}
	return &out
}

// schemasKnowing are those of the versions that know fields of objects which are on their way to a version of the new CRD.
func (c *comparison) schemasKnowing(to *part) []*props {
	var out []*props
	for _, q := range []*part{storageVersionOf(c.oldParts), findVersion(c.oldParts, to.Name), to} {
		if q != nil && q.props != nil {
			out = append(out, q.props)
		}
	}
	return out
}

// nameUnknownFields declares the fields that p keeps unknown, and that some of the others declare and not all of them alike. Around such
// fields it takes only the type that the others have, so it takes no object that p does not. If there is none, it returns p itself.
// It leaves out fields that all others declare alike, because all versions treat those in the same way.
func nameUnknownFields(p *props, others []*props, depth int) *props {
	if p == nil || depth > schema.MaxDepth {
		return p
	}
	out := rewriteChildren(p, func(child *props, at contain.Step) *props {
		return nameUnknownFields(child, declaredAt(others, at), depth+1)
	})
	if !keepsUnknownFields(p) {
		return out
	}
	for name, says := range fieldsOf(others) {
		if _, declared := p.Properties[name]; !declared && !alikeIn(says, len(others)) && prunesUndeclared(p, name, depth) {
			out = withFieldSchema(out, name, shapeOf(says, depth+1))
		}
	}
	return out
}

// shapeOf is the shape of values that the schemas, which are not alike, know more of: the objects, lists and maps around those
// fields that not all of them declare alike, which may have any value.
// A place that the schemas know nothing more of accepts anything, null included, because p accepted anything there.
func shapeOf(schemas []*props, depth int) *props {
	yes := true
	anything := props{XPreserveUnknownFields: &yes, Nullable: true}
	items, values := declaredAt(schemas, contain.Step{Kind: contain.AnyItem}), declaredAt(schemas, contain.Step{Kind: contain.AnyKey})
	below := fieldsOf(schemas)
	maps.DeleteFunc(below, func(_ string, of []*props) bool { return alikeIn(of, len(schemas)) })
	switch {
	case depth > schema.MaxDepth:
		return &anything
	case len(below) > 0:
		out := props{Type: "object", XPreserveUnknownFields: &yes, Properties: map[string]props{}}
		for name, of := range below {
			out.Properties[name] = *shapeOf(of, depth+1)
		}
		return &out
	case len(items) > 0 && !alikeIn(items, len(schemas)):
		return &props{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: shapeOf(items, depth+1)}}
	case len(values) > 0 && !alikeIn(values, len(schemas)):
		return &props{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: shapeOf(values, depth+1)}}
	}
	return &anything
}

// fieldsOf are the fields that the schemas declare, each with what they say of it.
func fieldsOf(schemas []*props) map[string][]*props {
	out := map[string][]*props{}
	for _, s := range schemas {
		for name, child := range s.Properties {
			out[name] = append(out[name], &child)
		}
	}
	return out
}

// declaredAt are what the schemas declare at a place.
func declaredAt(schemas []*props, at contain.Step) []*props {
	var out []*props
	for _, s := range schemas {
		if sub := propsAt(s, contain.Path{at}); sub != nil {
			out = append(out, sub)
		}
	}
	return out
}

// alikeIn reports whether there are n schemas and all say the same.
func alikeIn(schemas []*props, n int) bool {
	return len(schemas) == n && !slices.ContainsFunc(schemas, func(s *props) bool { return !sameSchema(s, schemas[0]) })
}
