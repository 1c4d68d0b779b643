package conversion

// What has an object of a version to show? For example, a field that is set, one of the values of an enum, or a number at its maximum.

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"

	"sluice.dev/schema/contain"
)

type props = apiextensionsv1.JSONSchemaProps

// aim is the kind of a target, in the plural, as coverage names it.
type aim string

const (
	aimField   aim = "fields"
	aimValue   aim = "enum values"
	aimBranch  aim = "union branches"
	aimBound   aim = "bounds"
	aimDefault aim = "defaults"
	// aimZero is for zero values, which converters written in Go tend to drop.
	aimZero aim = "zero values"
	// aimItems is for lists and maps of several, and aimSpecial for values that converters tend to change: null, an integer that no float64 is,
	// and a text with spaces around it and a letter beyond ASCII.
	aimItems   aim = "lists and maps of two"
	aimSpecial aim = "special values"
)

// aims are all kinds, in the order of the report.
var aims = []aim{aimField, aimValue, aimBranch, aimBound, aimDefault, aimZero, aimItems, aimSpecial}

// isOptional reports whether a check that reaches none of them may pass.
func (a aim) isOptional() bool { return a == aimZero || a.isMade() }

// isMade reports whether the objects are made of those that the prover finds for other targets.
func (a aim) isMade() bool { return a == aimItems || a == aimSpecial }

// target is something that at least one object of a version has to show: a value at the path that meets the condition.
type target struct {
	path contain.Path
	aim  aim
	// what names the target at its path, such as maximum 5; empty for a field.
	what string
	// condition is a schema for the value at the path.
	condition props
	// special is the value itself, for aimSpecial.
	special any
	// missing is the property that has to be missing from the object at the path, for a default.
	missing string

	validator validation.SchemaCreateValidator // of the condition; nil until it is needed
	reached   bool
	// impossible is set if it is proven that no object meets the target; why says what stopped the search.
	impossible bool
	why        string
}

// String names the target for people.
func (t *target) String() string {
	if t.what == "" {
		return t.path.String()
	}
	return t.path.String() + " " + t.what
}

// maxLength and maxSize are the largest length of a text, and the largest size of a list or object, that objects are made to reach.
const maxLength, maxSize = 1000, 100

// targetsOf returns the targets of a schema, each place before those below it.
func targetsOf(p *props) []*target {
	var out []*target
	eachPlace(p, nil, func(at contain.Path, p *props) {
		add := func(a aim, what string, condition props) {
			out = append(out, &target{path: at, aim: a, what: what, condition: condition})
		}
		// Converters written in Go tend to drop zero values. So a field is shown by another value, and its zero value is a target too.
		zero := zeroOf(p)
		switch {
		case len(at) == 0:
		case zero == "":
			add(aimField, "", props{})
		default:
			zeros := props{Enum: []apiextensionsv1.JSON{{Raw: []byte(zero)}}}
			add(aimField, "", props{Not: &zeros})
			add(aimZero, "value "+zero, zeros)
		}
		if p.Items != nil && (p.MaxItems == nil || *p.MaxItems > 1) {
			add(aimItems, "with two items", props{MinItems: new(int64(2)), UniqueItems: true})
		}
		if p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil && (p.MaxProperties == nil || *p.MaxProperties > 1) {
			add(aimItems, "with two keys", props{MinProperties: new(int64(2))})
		}
		for _, v := range specialValues(p) {
			out = append(out, &target{path: at, aim: aimSpecial, what: "value " + jsonText(v), special: v})
		}
		for _, v := range p.Enum {
			add(aimValue, "value "+string(v.Raw), props{Enum: []apiextensionsv1.JSON{v}})
		}
		for i := range p.OneOf {
			add(aimBranch, fmt.Sprintf("branch %d of oneOf", i+1), p.OneOf[i])
		}
		for i := range p.AnyOf {
			add(aimBranch, fmt.Sprintf("branch %d of anyOf", i+1), p.AnyOf[i])
		}
		if p.XIntOrString && len(p.AnyOf) == 0 {
			add(aimBranch, "of type integer", props{Type: "integer"})
			add(aimBranch, "of type string", props{Type: "string"})
		}
		eachBound(p, func(what string, condition props) { add(aimBound, what, condition) })
		for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
			if d := p.Properties[name].Default; d != nil && string(d.Raw) != "null" {
				out = append(out, &target{path: at, aim: aimDefault, what: "default of " + name, missing: name})
			}
		}
	})
	return out
}

// zeroOf is the value, in JSON, that Go's types have where a scalar is left out; empty for other schemas.
func zeroOf(p *props) string {
	switch p.Type {
	case "boolean":
		return "false"
	case "integer", "number":
		return "0"
	case "string":
		return `""`
	}
	return ""
}

// The special integer and text.
const largeInteger, specialText = int64(1<<53 + 1), " é "

// specialValues returns the special values that the type and bounds of a schema allow.
func specialValues(p *props) (out []any) {
	if p.Nullable {
		out = append(out, nil)
	}
	switch {
	case len(p.Enum) > 0:
	case p.Type == "integer" && (p.Format == "" || p.Format == "int64") && (p.Maximum == nil || *p.Maximum > 1<<53):
		out = append(out, largeInteger)
	case p.Type == "string" && p.Format == "" && p.Pattern == "" && (p.MaxLength == nil || *p.MaxLength >= int64(utf8.RuneCountInString(specialText))):
		out = append(out, specialText)
	}
	return out
}

// eachBound yields the bounds of a schema that values can be at.
func eachBound(p *props, yield func(what string, condition props)) {
	number := func(keyword string, bound *float64, exclusive bool, condition props) {
		if bound != nil && !exclusive {
			yield(fmt.Sprint(keyword, " ", *bound), condition)
		}
	}
	number("maximum", p.Maximum, p.ExclusiveMaximum, props{Minimum: p.Maximum})
	number("minimum", p.Minimum, p.ExclusiveMinimum, props{Maximum: p.Minimum})
	size := func(keyword string, bound *int64, limit int64, condition props) {
		if bound != nil && *bound <= limit {
			yield(fmt.Sprint(keyword, " ", *bound), condition)
		}
	}
	size("maxLength", p.MaxLength, maxLength, props{MinLength: p.MaxLength})
	size("minLength", p.MinLength, maxLength, props{MaxLength: p.MinLength})
	size("maxItems", p.MaxItems, maxSize, props{MinItems: p.MaxItems})
	size("minItems", p.MinItems, maxSize, props{MaxItems: p.MinItems})
	size("maxProperties", p.MaxProperties, maxSize, props{MinProperties: p.MaxProperties})
	size("minProperties", p.MinProperties, maxSize, props{MaxProperties: p.MinProperties})
}

// eachPlace calls visit for every place in objects of the schema whose content a version decides, parents first.
func eachPlace(p *props, at contain.Path, visit func(contain.Path, *props)) {
	visit(at, p)
	below := func(kind contain.StepKind, name string, child *props) {
		eachPlace(child, append(slices.Clip(at), contain.Step{Kind: kind, Name: name}), visit)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		if len(at) == 0 && slices.Contains([]string{"apiVersion", "kind", "metadata"}, name) {
			continue
		}
		child := p.Properties[name]
		below(contain.Field, name, &child)
	}
	if p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil {
		below(contain.AnyKey, "", p.AdditionalProperties.Schema)
	}
	if p.Items != nil && p.Items.Schema != nil {
		below(contain.AnyItem, "", p.Items.Schema)
	}
}

// isMetBy reports whether a request meets the target, for which the API server has the object stored.
func (t *target) isMetBy(request, stored map[string]any) bool {
	if t.missing != "" {
		return t.isMetAt(t.path, request)
	}
	return t.isMetAt(t.path, stored)
}

// isMetAt reports whether a value that the rest of a path leads to meets the target. If the path goes through
// a list or a map, one item or entry is enough.
func (t *target) isMetAt(at contain.Path, v any) bool {
	if len(at) == 0 {
		return t.isMetByValue(v)
	}
	switch v := v.(type) {
	case map[string]any:
		if at[0].Kind == contain.Field {
			child, ok := v[at[0].Name]
			return ok && t.isMetAt(at[1:], child)
		}
		for _, child := range v {
			if at[0].Kind == contain.AnyKey && t.isMetAt(at[1:], child) {
				return true
			}
		}
	case []any:
		return at[0].Kind == contain.AnyItem && slices.ContainsFunc(v, func(item any) bool { return t.isMetAt(at[1:], item) })
	}
	return false
}

// isMetByValue reports whether a value at the end of the path meets the target: it lacks a field, is a special
// value, or is valid by the condition, which the API server's own validator judges.
func (t *target) isMetByValue(v any) bool {
	if t.missing != "" {
		fields, ok := v.(map[string]any)
		_, there := fields[t.missing]
		return ok && !there
	}
	if t.aim == aimSpecial {
		return v == t.special
	}
	if t.validator == nil {
		var internal apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&t.condition, &internal, nil); err != nil {
			return false
		}
		var err error
		if t.validator, _, err = validation.NewSchemaValidator(&internal); err != nil {
			return false
		}
	}
	return t.validator.Validate(v).IsValid()
}

// question returns two schemas: an object that the first accepts and the second refuses meets the target. Both share parts with p.
func (t *target) question(p *props) (accepts, refuses *props) {
	if t.missing == "" {
		return p, changedAt(p, t.path, func(p *props) { p.AllOf = append(slices.Clip(p.AllOf), props{Not: &t.condition}) })
	}
	accepts = changedAt(p, t.path, func(p *props) {
		child := p.Properties[t.missing]
		child.Default = nil
		p.Properties = maps.Clone(p.Properties)
		p.Properties[t.missing] = child
		p.Required = slices.DeleteFunc(slices.Clone(p.Required), func(name string) bool { return name == t.missing })
	})
	return accepts, changedAt(accepts, t.path, func(p *props) { p.Required = append(slices.Clip(p.Required), t.missing) })
}

// changedAt returns a copy of p in which the schema at the path is changed. It shares the other schemas with p.
func changedAt(p *props, at contain.Path, change func(*props)) *props {
	return changedOn(p, at, func(p *props, left contain.Path) {
		if len(left) == 0 {
			change(p)
		}
	})
}

// changedOn returns a copy of p in which the schemas on the path are changed, each of which gets the rest of the path. It shares the
// other schemas with p.
func changedOn(p *props, at contain.Path, change func(p *props, left contain.Path)) *props {
	out := *p
	if len(at) > 0 {
		switch step := at[0]; step.Kind {
		case contain.Field:
			child := p.Properties[step.Name]
			out.Properties = maps.Clone(p.Properties)
			out.Properties[step.Name] = *changedOn(&child, at[1:], change)
		case contain.AnyKey:
			out.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: changedOn(p.AdditionalProperties.Schema, at[1:], change)}
		case contain.AnyItem:
			out.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: changedOn(p.Items.Schema, at[1:], change)}
		}
	}
	change(&out, at)
	return &out
}

// aroundPath returns the schema without the optional fields beside the path, as far as nothing else speaks of them. The search in it is much
// faster, and what it finds mostly holds for the whole schema. If exact is true, it always does: the path meets the target in an object of
// one schema exactly if it does in one of the other.
func aroundPath(p *props, at contain.Path) (cut *props, exact bool) {
	exact = true
	return changedOn(p, at, func(p *props, left contain.Path) {
		if len(left) > 0 && !isPlain(p) {
			exact = false
		}
		next := ""
		if len(left) > 0 && left[0].Kind == contain.Field {
			next = left[0].Name
		}
		*p = *requiredPart(p, next)
	}), exact
}

// requiredPart returns the schema without its optional fields but one, which stays as it is.
func requiredPart(p *props, but string) *props {
	if !isPlain(p) {
		return p
	}
	out := *p
	out.Properties = map[string]props{}
	for name := range p.Properties {
		switch child := p.Properties[name]; {
		case name == but:
			out.Properties[name] = child
		case slices.Contains(p.Required, name):
			out.Properties[name] = *requiredPart(&child, "")
		}
	}
	return &out
}

// isPlain reports whether nothing in a schema speaks of its properties but their own schemas.
func isPlain(p *props) bool {
	return len(p.XValidations)+len(p.AllOf)+len(p.AnyOf)+len(p.OneOf) == 0 && p.Not == nil && p.MinProperties == nil
}
