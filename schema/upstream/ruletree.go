package upstream

import (
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
	"k8s.io/apiserver/pkg/cel/environment"

	"sluice.dev/schema"
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

// RuleCache keeps compiled rules. Schemas that are cut out of one schema share it: what a rule mentions is the same in all
// of them. So may schemas of which the nodes are known ([Projector.Share]). The zero value is ready for use, and safe for
// concurrent use.
type RuleCache struct {
	mu sync.Mutex
	at map[ruleKey]*compiledRules
	// affords, where not nil, is asked for the work before rules are compiled, in microseconds of one core.
	affords func(work int64) bool
}

// ruleKey says what rules are compiled: their own texts, and the schema that they stand at.
type ruleKey struct {
	path     string // where the schema is not known: their place in the one schema that the cache is for
	about    schema.Hash
	texts    [sha256.Size]byte // which are no part of the hash: those of messages
	resource bool
}

// Bound has affords asked before rules are compiled, for the work that it takes, in microseconds of one core. Rules that are not
// afforded are an error of every value; what a [Validator] says after affords has said no is to be thrown away. It is called before
// c is used, and once affords has said no, it says no to the end.
func (c *RuleCache) Bound(affords func(work int64) bool) { c.affords = affords }

func (c *RuleCache) get(key ruleKey) *compiledRules {
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

// keyOf returns the key of the rules of p, at the path of the whole schema, in which it is known as the node whole.
func keyOf(p *props, resource bool, whole *schema.Node, path string) (ruleKey, error) {
	if whole == nil {
		return ruleKey{path: path, resource: resource}, nil
	}
	texts, err := json.Marshal(p.XValidations)
	return ruleKey{about: whole.Hash(), texts: sha256.Sum256(texts), resource: resource}, err
}

// of compiles the rules of n.
func (c *compiledRules) of(n *ruleNode) *compilation {
	return c.get(func() *compilation {
		out := &compilation{}
		if c.cache.affords != nil && !c.cache.affords(rulesWork(n.rules)) {
			out.err = errNotAfforded
			return out
		}
		structural := *n.structural
		structural.XValidations = n.rules
		out.results, out.err = cel.Compile(&structural, common.SchemaDeclType(n.schema, n.resource), celconfig.PerCallLimit,
			environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()), cel.StoredExpressionsEnvLoader())
		for i := range out.results {
			out.usesOldSelf = out.usesOldSelf || out.results[i].UsesOldSelf
		}
		return out
	})
}

// ruleTreeMaker makes rule trees.
type ruleTreeMaker struct {
	cache *RuleCache
	// known: the schema's node is.
	known bool
	// odd: there are rules that only the API server's own tree does justice to. No valid CRD has them.
	odd bool
}

// node makes the tree of the schema p, without what [ruleNode.attach] adds. It returns nil where no rules are. p is cut out
// of what whole says, or whole is nil.
func (m *ruleTreeMaker) node(p *props, resource bool, whole *schema.Node, path string) *ruleNode {
	if rulesInJunctors(p) {
		m.odd = true
		return nil
	}
	n := &ruleNode{resource: resource}
	some := len(p.XValidations) > 0
	if some {
		key, err := keyOf(p, resource, whole, path)
		if n.compiled = m.cache.get(key); err != nil || m.known && whole == nil { // cannot be
			n.compiled = &compiledRules{cache: m.cache}
		}
		m.odd = m.odd || declares(p) == declaresNothing
	}
	var items, additional *schema.Node
	if whole != nil {
		items, additional = whole.Items, whole.Additional
	}
	if p.Items != nil && p.Items.Schema != nil {
		n.items = m.element(p.Items.Schema, declares(p) == declaresList, items, path+"/items")
	}
	if p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil {
		n.additional = m.element(p.AdditionalProperties.Schema, declares(p) == declaresMap, additional, path+"/additionalProperties")
	}
	for name := range p.Properties {
		child := p.Properties[name]
		node := m.node(&child, child.XEmbeddedResource, whole.Property(name), path+"/properties/"+name)
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
func (m *ruleTreeMaker) element(p *props, typed bool, whole *schema.Node, path string) *ruleNode {
	n := m.node(p, p.XEmbeddedResource, whole, path)
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

// plainMetadataRules reports whether the rules below metadata are those that CEL has a type for in any resource.
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
