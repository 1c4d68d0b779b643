package upstream

import (
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
)

// ruleNode is a schema with validation rules, or above one. It parallels cel.Validator of
// k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel, which compiles all rules of a schema at once; here a rule is
// compiled when a value meets it.
type ruleNode struct {
	structural *structuralschema.Structural
	schema     *celSchema
	resource   bool // the root of the object or of an embedded resource
	rules      apiextensionsv1.ValidationRules
	compiled   *compiledRules // nil without rules

	items, additional *ruleNode
	props             []ruleProperty // sorted by name
	correlatable      bool           // fields of an old object belong to fields of a new one
}

type ruleProperty struct {
	name string
	node *ruleNode
}

// compiledRules are the rules of one node, compiled on first use.
type compiledRules struct{ lazy[compilation] }

type compilation struct {
	results     []cel.CompilationResult
	err         error
	usesOldSelf bool
}

// ruleCache keeps compiled rules by the place of their node. Schemas that are cut out of one schema share it: what a rule
// mentions is the same in all of them.
type ruleCache struct {
	mu sync.Mutex
	at map[string]*compiledRules
}

func (c *ruleCache) get(path string) *compiledRules {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		c.at = map[string]*compiledRules{}
	}
	r, ok := c.at[path]
	if !ok {
		r = &compiledRules{}
		c.at[path] = r
	}
	return r
}

// of compiles the rules of n.
func (c *compiledRules) of(n *ruleNode) *compilation {
	return c.get(func() *compilation {
		out := &compilation{}
		schema := *n.structural
		schema.XValidations = n.rules
		out.results, out.err = cel.Compile(&schema, common.SchemaDeclType(n.schema, n.resource), celconfig.PerCallLimit,
			environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()), cel.StoredExpressionsEnvLoader())
		for i := range out.results {
			out.usesOldSelf = out.usesOldSelf || out.results[i].UsesOldSelf
		}
		return out
	})
}

// ruleTreeMaker makes rule trees.
type ruleTreeMaker struct {
	cache *ruleCache
	// odd: there are rules that only the API server's own tree does justice to. No valid CRD has them.
	odd bool
}

// node makes the tree of the schema p, without what [ruleNode.attach] adds. It returns nil where no rules are.
func (m *ruleTreeMaker) node(p *props, resource bool, path string) *ruleNode {
	if rulesInJunctors(p) {
		m.odd = true
		return nil
	}
	n := &ruleNode{resource: resource}
	some := len(p.XValidations) > 0
	if some {
		n.compiled = m.cache.get(path)
		m.odd = m.odd || declares(p) == declaresNothing
	}
	if p.Items != nil && p.Items.Schema != nil {
		n.items = m.element(p.Items.Schema, declares(p) == declaresList, path+"/items")
	}
	if p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil {
		n.additional = m.element(p.AdditionalProperties.Schema, declares(p) == declaresMap, path+"/additionalProperties")
	}
	for name := range p.Properties {
		child := p.Properties[name]
		node := m.node(&child, child.XEmbeddedResource, path+"/properties/"+name)
		if node == nil {
			continue
		}
		typed := declares(&child) != declaresNothing
		if _, ok := apiservercel.Escape(name); ok {
			typed = property(p, name, resource) != nil
		}
		if !typed {
			continue // CEL leaves out what it has no type for
		}
		if name == "metadata" && resource && !plainMetadataRules(node) {
			m.odd = true
		}
		n.props = append(n.props, ruleProperty{name, node})
	}
	if !some && n.items == nil && n.additional == nil && len(n.props) == 0 {
		return nil
	}
	slices.SortFunc(n.props, func(a, b ruleProperty) int { return strings.Compare(a.name, b.name) })
	return n
}

// element makes the tree of the items or values of a list or map; typed tells whether CEL knows it for one.
func (m *ruleTreeMaker) element(p *props, typed bool, path string) *ruleNode {
	n := m.node(p, p.XEmbeddedResource, path)
	if n != nil && !typed {
		m.odd = true // its rules cannot be compiled, and the API server says so of every value
	}
	return n
}

// attach gives the nodes of a tree their schemas.
func (n *ruleNode) attach(s common.Schema) {
	schema, ok := s.(*celSchema)
	if n == nil || !ok {
		return
	}
	n.schema, n.structural = schema, schema.Structural.Structural
	n.correlatable = cel.MapIsCorrelatable(n.structural.XMapType)
	n.rules = n.structural.XValidations
	if n.items != nil {
		n.items.attach(schema.Items())
	}
	if n.additional != nil {
		n.additional.attach(schema.AdditionalProperties().Schema())
	}
	for _, p := range n.props {
		p.node.attach(schema.Properties()[p.name])
	}
}

// plainMetadataRules tells whether the rules below metadata are those that CEL has a type for in any resource.
func plainMetadataRules(metadata *ruleNode) bool {
	if metadata.compiled != nil || metadata.items != nil || metadata.additional != nil {
		return false
	}
	for _, p := range metadata.props {
		if p.name != "name" && p.name != "generateName" {
			return false
		}
	}
	return true
}
