package upstream

// Where in a schema are rules, and which are compiled? For example, of a schema with 200 rules, those of .spec.a alone are compiled for an
// object that has nothing else. Projections of one schema share what is compiled.

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"sluice.dev/schema"
)

// ruleNode is a schema with validation rules at it or below. It corresponds to cel.Validator of
// k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel, which compiles all rules of a schema at once. Here, a rule is compiled when
// a value needs it.
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

var errNotAfforded = errors.New("the rules take more work than there is")

// compiledRules are the rules of one node, compiled on first use.
type compiledRules struct {
	lazy[compilation]
	cache *RuleCache
}

type compilation struct {
	results     []cel.CompilationResult
	err         error
	usesOldSelf bool
}

// RuleCache keeps compiled rules. Projections of one schema share it, because the properties that a rule mentions are the same in all
// of them. Schemas with known nodes can share it, too ([Projector.Share]). The zero value is ready for use, and safe for concurrent
// use.
type RuleCache struct {
	mu sync.Mutex
	at map[ruleKey]*compiledRules
	// affords, if not nil, decides before rules are compiled whether the budget covers the work, in microseconds of one core.
	affords func(work int64) bool
}

// ruleKey identifies compiled rules: by their texts, and the schema that has them.
type ruleKey struct {
	path     string // if the schema is not known: their place in the one schema of the cache
	about    schema.Hash
	texts    [sha256.Size]byte // of messages, which are not part of the hash
	resource bool
}

// Bound limits the work of compiling and evaluating rules. affords gets the work in microseconds of one core, that of compiling before it
// is done, and returns false if the budget does not cover it. Every value then gets an error for these rules, and the results of the [Validator] must not be used.
// Call Bound before c is used. Once affords has returned false, it has to return false for ever.
func (c *RuleCache) Bound(affords func(work int64) bool) { c.affords = affords }

// chargeEvaluation charges for the evaluation of the rules of one object, after which so much of the API server's budget for it is left. A unit
// of that budget takes less than a tenth of a microsecond.
func (c *RuleCache) chargeEvaluation(left int64) {
	if c.affords != nil {
		c.affords((celconfig.RuntimeCELCostBudget - max(left, 0)) / 10)
	}
}

func (c *RuleCache) compiledFor(key ruleKey) *compiledRules {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		c.at = map[ruleKey]*compiledRules{}
	}
	r, ok := c.at[key]
	if !ok {
		r = &compiledRules{cache: c}
		c.at[key] = r
	}
	return r
}

// keyOf returns the key of the rules of p at a path of the whole schema. whole is the node there.
func keyOf(p *props, resource bool, whole *schema.Node, path string) (ruleKey, error) {
	if whole == nil {
		return ruleKey{path: path, resource: resource}, nil
	}
	texts, err := json.Marshal(p.XValidations)
	return ruleKey{about: whole.Hash(), texts: sha256.Sum256(texts), resource: resource}, err
}

// compileRules compiles the rules of n.
func (c *compiledRules) compileRules(n *ruleNode) *compilation {
	return c.getOrCreate(func() *compilation {
		out := &compilation{}
		if c.cache.affords != nil && !c.cache.affords(rulesWork(n.rules)) {
			out.err = errNotAfforded
			return out
		}
		structural := *n.structural
		structural.XValidations = n.rules
		env, err := boundedEnv()
		if err != nil {
			out.err = err
			return out
		}
		out.results, out.err = cel.Compile(&structural, common.SchemaDeclType(n.schema, n.resource), celconfig.PerCallLimit, env, cel.StoredExpressionsEnvLoader())
		for i := range out.results {
			out.usesOldSelf = out.usesOldSelf || out.results[i].UsesOldSelf
		}
		return out
	})
}

// ruleTreeMaker makes rule trees.
type ruleTreeMaker struct {
	cache *RuleCache
	// known is set if the schema's node is known.
	known bool
	// odd is set if there are rules that only the API server's own tree evaluates correctly. No valid CRD has them.
	odd bool
}

// makeNode makes the tree of the schema p, without what [ruleNode.attachSchemas] adds. It returns nil if there are no rules. p is a projection of
// whole, or whole is nil.
func (m *ruleTreeMaker) makeNode(p *props, resource bool, whole *schema.Node, path string) *ruleNode {
	if rulesInJunctors(p) {
		m.odd = true
		return nil
	}
	n := &ruleNode{resource: resource}
	some := len(p.XValidations) > 0
	if some {
		key, err := keyOf(p, resource, whole, path)
		if n.compiled = m.cache.compiledFor(key); err != nil || m.known && whole == nil { // cannot be
			n.compiled = &compiledRules{cache: m.cache}
		}
		m.odd = m.odd || declaredKind(p) == declaresNothing
	}
	n.items, n.additional = m.makeElements(p, whole, path)
	n.props = m.makeProperties(p, resource, whole, path)
	if !some && n.items == nil && n.additional == nil && len(n.props) == 0 {
		return nil
	}
	return n
}

// makeProperties makes the trees of the properties, sorted by their names. CEL leaves out properties without a type.
func (m *ruleTreeMaker) makeProperties(p *props, resource bool, whole *schema.Node, path string) (out []ruleProperty) {
	for name := range p.Properties {
		child := p.Properties[name]
		node := m.makeNode(&child, child.XEmbeddedResource, whole.Property(name), path+"/properties/"+name)
		if node == nil {
			continue
		}
		typed := declaredKind(&child) != declaresNothing
		if _, ok := apiservercel.Escape(name); ok {
			typed = propertySchema(p, name, resource) != nil
		}
		if !typed {
			continue
		}
		if name == "metadata" && resource && !plainMetadataRules(node) {
			m.odd = true
		}
		out = append(out, ruleProperty{name, node})
	}
	slices.SortFunc(out, func(a, b ruleProperty) int { return strings.Compare(a.name, b.name) })
	return out
}

// makeElements makes the trees of the items and of the values of keys.
func (m *ruleTreeMaker) makeElements(p *props, whole *schema.Node, path string) (items, additional *ruleNode) {
	whole = cmp.Or(whole, &schema.Node{})
	if p.Items != nil && p.Items.Schema != nil {
		items = m.makeElement(p.Items.Schema, declaredKind(p) == declaresList, whole.Items, path+"/items")
	}
	if p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil {
		additional = m.makeElement(p.AdditionalProperties.Schema, declaredKind(p) == declaresMap, whole.Additional, path+"/additionalProperties")
	}
	return items, additional
}

// makeElement makes the tree of the items or values of a list or map; typed reports whether CEL has a type for it.
func (m *ruleTreeMaker) makeElement(p *props, typed bool, whole *schema.Node, path string) *ruleNode {
	n := m.makeNode(p, p.XEmbeddedResource, whole, path)
	if n != nil && !typed {
		m.odd = true // its rules cannot be compiled, which the API server reports for every value
	}
	return n
}

// attachSchemas gives the nodes of a tree their schemas.
func (n *ruleNode) attachSchemas(s common.Schema) {
	schema, ok := s.(*celSchema)
	if n == nil || !ok {
		return
	}
	n.schema, n.structural = schema, schema.Structural.Structural
	n.correlatable = cel.MapIsCorrelatable(n.structural.XMapType)
	n.rules = n.structural.XValidations
	if n.items != nil {
		n.items.attachSchemas(schema.Items())
	}
	if n.additional != nil {
		n.additional.attachSchemas(schema.AdditionalProperties().Schema())
	}
	for _, p := range n.props {
		p.node.attachSchemas(schema.Properties()[p.name])
	}
}

// plainMetadataRules reports whether there are rules below metadata only at fields that have a CEL type in every resource.
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
