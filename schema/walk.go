package schema

// Which schemas are below a schema? For example, those of properties and items, and on request those of allOf. All walks and rewrites go
// through this one list of keywords.

import (
	"iter"
	"maps"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Parts are the keywords whose schemas [Children], [Walk] and [Rewrite] look into.
type Parts uint8

// The groups of keywords that have schemas.
const (
	// InStructure is properties, additionalProperties, and items with one schema for all items.
	InStructure Parts = 1 << iota
	// InJunctors is allOf, anyOf, oneOf and not.
	InJunctors
	// InItemLists is items with a schema for each position. No structural schema has them, nor the keywords below.
	InItemLists
	// InOtherNames is patternProperties and definitions.
	InOtherNames
	// InOthers is dependencies and additionalItems.
	InOthers

	// Everywhere is all keywords that have schemas. A test compares them with the fields of [apiextensionsv1.JSONSchemaProps].
	Everywhere = InStructure | InJunctors | InItemLists | InOtherNames | InOthers
)

// Children yields the schemas directly below p, in no order. A yielded schema may be a copy that is used again for the next one: do not
// change or keep it. p may be nil.
func Children(p *apiextensionsv1.JSONSchemaProps, in Parts) iter.Seq[*apiextensionsv1.JSONSchemaProps] {
	return func(yield func(*props) bool) { visitor(yield).visitChildren(p, in) }
}

// Walk yields p and all schemas below it, parents first, as [Children] does. It looks at [MaxDepth] levels below p.
func Walk(p *apiextensionsv1.JSONSchemaProps, in Parts) iter.Seq[*apiextensionsv1.JSONSchemaProps] {
	return func(yield func(*props) bool) { visitor(yield).walkTree(p, in, 0) }
}

// visitor is called for schemas until it returns false. Its methods report whether it never did.
type visitor func(*props) bool

func (v visitor) walkTree(p *props, in Parts, depth int) bool {
	return v.visitOne(p) && (depth == MaxDepth || visitor(func(child *props) bool { return v.walkTree(child, in, depth+1) }).visitChildren(p, in))
}

// visitChildren visits the schemas directly below p in the chosen keywords. It reports whether it went through all of
// them.
func (v visitor) visitChildren(p *props, in Parts) bool {
	return p == nil || (in&InStructure == 0 || v.visitStructure(p)) &&
		(in&InJunctors == 0 || v.visitJunctors(p)) &&
		(in&InItemLists == 0 || p.Items == nil || v.visitList(p.Items.JSONSchemas)) &&
		(in&InOtherNames == 0 || v.visitNamed(p.PatternProperties) && v.visitNamed(p.Definitions)) &&
		(in&InOthers == 0 || v.visitSchemaOrBool(p.AdditionalItems) && v.visitDependencies(p.Dependencies))
}

// visitStructure visits the schemas that decide which fields exist.
func (v visitor) visitStructure(p *props) bool {
	return v.visitNamed(p.Properties) && v.visitSchemaOrBool(p.AdditionalProperties) && (p.Items == nil || v.visitOne(p.Items.Schema))
}

func (v visitor) visitJunctors(p *props) bool {
	return v.visitList(p.AllOf) && v.visitList(p.AnyOf) && v.visitList(p.OneOf) && v.visitOne(p.Not)
}

func (v visitor) visitOne(s *props) bool { return s == nil || v(s) }

func (v visitor) visitSchemaOrBool(s *apiextensionsv1.JSONSchemaPropsOrBool) bool {
	return s == nil || v.visitOne(s.Schema)
}

// visitList visits the branches of a junctor, or the items of a list of items.
func (v visitor) visitList(ss []props) bool {
	for i := range ss {
		if !v(&ss[i]) {
			return false
		}
	}
	return true
}

// copies are schemas for visitor.named, used again because a schema is large.
var copies sync.Pool

// visitNamed visits the schemas of a map by a copy, which is used again for each of them and by later calls: the
// values of a map have no address, and a copy for each would be most of the memory of a walk.
func (v visitor) visitNamed(m map[string]props) bool {
	if len(m) == 0 {
		return true
	}
	child, ok := copies.Get().(*props)
	if !ok {
		child = &props{}
	}
	defer copies.Put(child)
	for name := range m {
		if *child = m[name]; !v(child) {
			return false
		}
	}
	return true
}

// visitDependencies visits the dependencies that are schemas; others are lists of names.
func (v visitor) visitDependencies(m apiextensionsv1.JSONSchemaDependencies) bool {
	for name := range m {
		if !v.visitOne(m[name].Schema) {
			return false
		}
	}
	return true
}

// Rewrite returns a copy of p with change made to it and to the schemas below, parents first. change may set the fields of a schema. It must
// not write to what they point to, which p has too, nor keep the schema. Schemas more than [MaxDepth] levels below p stay as they are. A nil
// p stays nil.
func Rewrite(p *apiextensionsv1.JSONSchemaProps, in Parts, change func(*apiextensionsv1.JSONSchemaProps)) *apiextensionsv1.JSONSchemaProps {
	if p == nil {
		return nil
	}
	out := *p
	rewriteTree(&out, in, 0, change)
	return &out
}

// rewriteTree changes p, which is a copy, and copies of the schemas below it.
func rewriteTree(p *props, in Parts, depth int, change func(*props)) {
	change(p)
	if depth == MaxDepth {
		return
	}
	one := func(s *props) *props {
		if s != nil {
			s = new(*s)
			rewriteTree(s, in, depth+1, change)
		}
		return s
	}
	or := func(s *apiextensionsv1.JSONSchemaPropsOrBool) *apiextensionsv1.JSONSchemaPropsOrBool {
		if s != nil {
			s = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: s.Allows, Schema: one(s.Schema)}
		}
		return s
	}
	list := func(ss []props) []props {
		ss = slices.Clone(ss)
		for i := range ss {
			rewriteTree(&ss[i], in, depth+1, change)
		}
		return ss
	}
	named := func(m map[string]props) map[string]props {
		if len(m) == 0 {
			return m
		}
		out := make(map[string]props, len(m))
		var child props // one for all: a schema is large
		for name := range m {
			child = m[name]
			rewriteTree(&child, in, depth+1, change)
			out[name] = child
		}
		return out
	}
	if p.Items != nil {
		p.Items = new(*p.Items)
		if in&InStructure != 0 {
			p.Items.Schema = one(p.Items.Schema)
		}
		if in&InItemLists != 0 {
			p.Items.JSONSchemas = list(p.Items.JSONSchemas)
		}
	}
	if in&InStructure != 0 {
		p.Properties, p.AdditionalProperties = named(p.Properties), or(p.AdditionalProperties)
	}
	if in&InJunctors != 0 {
		p.AllOf, p.AnyOf, p.OneOf, p.Not = list(p.AllOf), list(p.AnyOf), list(p.OneOf), one(p.Not)
	}
	if in&InOtherNames != 0 {
		p.PatternProperties, p.Definitions = named(p.PatternProperties), named(p.Definitions)
	}
	if in&InOthers != 0 {
		p.AdditionalItems = or(p.AdditionalItems)
		p.Dependencies = maps.Clone(p.Dependencies)
		for name, d := range p.Dependencies {
			p.Dependencies[name] = apiextensionsv1.JSONSchemaPropsOrStringArray{Schema: one(d.Schema), Property: d.Property}
		}
	}
}
