package upstream

// Which part of a large schema do a few objects need? For example, for an object with .spec.a alone, the schema of .spec.b is left out, unless
// it has a default or a rule mentions it.

import (
	"maps"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"sluice.dev/schema"
)

// Projector makes validators for a few objects out of a large schema, at a cost that depends on the objects. The validators share the
// compiled validation rules. It is safe for concurrent use.
type Projector struct {
	schema   *props
	options  Options
	compiled *RuleCache
	node     *schema.Node // nil if the cache is not shared

	once      sync.Once
	hasRules  bool
	schemaErr error

	wholeOnce sync.Once
	whole     *Validator
	wholeErr  error
}

// NewProjector makes a Projector of a schema; the arguments are those of [New].
func NewProjector(props *apiextensionsv1.JSONSchemaProps, o Options) *Projector {
	return &Projector{schema: props, options: o, compiled: &RuleCache{}}
}

// Share makes the projector keep its compiled rules in c, for other projectors with the same [Options.KubeVersion]. node is its schema,
// from [schema.New]. Call it before p is used. It returns p.
func (p *Projector) Share(node *schema.Node, c *RuleCache) *Projector {
	p.node, p.compiled = node, c
	return p
}

// For returns a validator that gives the same results as [Projector.Whole] for requests made of the given objects, and may
// give others for any other. Errors are those of [New].
func (p *Projector) For(objects ...map[string]any) (v *Validator, err error) {
	defer recoverAsError(&err)
	if p.schema == nil {
		return p.Whole()
	}
	for _, o := range objects {
		if err := checkObject(o); err != nil {
			return nil, err
		}
	}
	p.once.Do(func() {
		if p.schemaErr = checkSchema(p.schema, 0); p.schemaErr == nil {
			p.hasRules = hasRules(p.schema, p.schema, true)
		}
	})
	if p.schemaErr != nil {
		return nil, p.schemaErr
	}
	out, ok := projectSchema(p.schema, objects)
	if !ok {
		return p.Whole()
	}
	if v, err = New(out, p.options); err != nil {
		return nil, err
	}
	v.compiled, v.node, v.rulesElsewhere = p.compiled, p.node, p.hasRules
	return v, nil
}

// Whole returns the validator of the whole schema. It is made on first use.
func (p *Projector) Whole() (*Validator, error) {
	p.wholeOnce.Do(func() {
		if p.whole, p.wholeErr = New(p.schema, p.options); p.whole != nil {
			p.whole.compiled, p.whole.node = p.compiled, p.node
		}
	})
	return p.whole, p.wholeErr
}

// projectSchema cuts schema down to what matters for objects; false if it cannot.
func projectSchema(schema *props, objects []map[string]any) (*props, bool) {
	values := make([]any, len(objects))
	for i, o := range objects {
		values[i] = o
	}
	var c cut
	out := c.cutSchema(schema, values, nil, true)
	return out, !c.impossible
}

// cut is the state of one projection.
type cut struct {
	impossible bool // a construct does not allow to leave anything out
}

// cutSchema projects the schema in, which applies to the given values. said has the words of the rules above it.
func (c *cut) cutSchema(in *props, values []any, said *words, root bool) *props {
	out := *in
	out.Description, out.Title, out.Example, out.ExternalDocs = "", "", nil, nil
	if unprojectable(in) {
		c.impossible = true
		return &out
	}

	if in.Default != nil {
		var value any
		if err := utiljson.Unmarshal(in.Default.Raw, &value); err != nil {
			c.impossible = true
			return &out
		}
		values = append(slices.Clip(values), value)
	}
	if len(in.XValidations) > 0 {
		if slices.ContainsFunc(values, func(v any) bool { return v != nil }) {
			said = said.withRules(in.XValidations)
		} else {
			out.XValidations = nil
		}
	}

	c.cutObject(in, &out, values, said, root)
	if in.Items != nil && in.Items.Schema != nil {
		var items []any
		for _, v := range values {
			if list, ok := v.([]any); ok {
				items = append(items, list...)
			}
		}
		out.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: c.cutSchema(in.Items.Schema, items, said, false)}
	}
	// Junctors stay whole: they judge values with the defaults of the schema around them, which are not known here.
	if rulesInJunctors(in) {
		c.impossible = true // such rules count only if there are rules outside of junctors; no valid CRD has them
	}
	return &out
}

// cutObject projects properties and additionalProperties.
func (c *cut) cutObject(in, out *props, values []any, said *words, root bool) {
	additional := in.AdditionalProperties != nil && in.AdditionalProperties.Schema != nil
	if len(in.Properties) == 0 && !additional {
		return
	}
	found, others := divideValues(in, values)
	if additional {
		out.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{
			Allows: in.AdditionalProperties.Allows,
			Schema: c.cutSchema(in.AdditionalProperties.Schema, others, said, false),
		}
	}
	if len(in.Properties) == 0 {
		return
	}

	out.Properties = make(map[string]props, len(found)+3)
	for name := range in.Properties {
		values, present := found[name]
		switch {
		case isMetaField(name) && (root || in.XEmbeddedResource):
			// What CEL knows of the metadata depends on all of it (model.WithTypeAndObjectMeta).
			out.Properties[name] = in.Properties[name]
		case present, in.Properties[name].Default != nil, said.mayMention(name):
			child := in.Properties[name]
			out.Properties[name] = *c.cutSchema(&child, values, said, false)
		}
	}
	if len(out.Properties) == 0 {
		// CEL distinguishes an object with properties from one without.
		name := slices.Min(slices.Collect(maps.Keys(in.Properties)))
		child := in.Properties[name]
		out.Properties[name] = *c.cutSchema(&child, nil, said, false)
	}
}

// divideValues returns the values of each property in the objects among values, and those of keys that the schema does not name.
func divideValues(in *props, values []any) (found map[string][]any, others []any) {
	found = map[string][]any{}
	for _, v := range values {
		object, _ := v.(map[string]any)
		for name, value := range object {
			if _, ok := in.Properties[name]; ok {
				found[name] = append(found[name], value)
			} else {
				others = append(others, value)
			}
		}
	}
	return found, others
}

// unprojectable reports whether a schema has a keyword that no structural schema has.
func unprojectable(s *props) bool {
	return s.ID != "" || s.Schema != "" || s.Ref != nil || s.AdditionalItems != nil ||
		len(s.PatternProperties) > 0 || len(s.Dependencies) > 0 || len(s.Definitions) > 0 ||
		(s.Items != nil && (s.Items.Schema == nil || len(s.Items.JSONSchemas) > 0))
}
