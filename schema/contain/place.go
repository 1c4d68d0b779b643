package contain

// Where in an object is a value, and what does that decide? For example, null is dropped from an object for a property that is not
// nullable, but not from a list.

import (
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"sluice.dev/schema"
)

// position is the position of a value. It decides what happens to null.
type position uint8

const (
	// atProperty: a null is dropped, or replaced by the default, unless the schema says nullable.
	atProperty position = iota
	// atItem: a null is replaced by the default, unless the schema says nullable. Without a default it stays and is validated.
	atItem
	// atRoot: the object itself.
	atRoot
)

// place is a node of the structural schema together with facts about its surroundings. Two places with the same key accept the same
// values.
type place struct {
	node *schema.Node
	kind placeKind
	pos  position
	// keep is set if the surroundings keep unknown fields: the node is the item of a list that keeps them.
	keep bool
	// whole is set in the metadata of a resource, where nothing is pruned at any depth.
	whole bool
	// dark is set if rules are not evaluated, because CEL has no type for a value here or above.
	dark bool
	// unchecked is set at the root and in the status if embedded resources in the status are not checked ([Side.StatusUnchecked]).
	unchecked bool
	// meta is set at the metadata of the object itself, of which the API server checks the name.
	meta bool
}

type placeKind uint8

const (
	// declared: node is its schema.
	declared placeKind = iota
	// anything: below x-kubernetes-preserve-unknown-fields and not declared; kept whole.
	anything
	// emptied: kept without a schema, so that the fields of objects in it are pruned (additionalProperties: true).
	emptied
	// gone: pruned.
	gone
)

// placeKey identifies what a place accepts.
type placeKey struct {
	hash                         schema.Hash
	kind                         placeKind
	pos                          position
	keep, whole, dark, unchecked bool
}

// cacheKey returns what decides which values the place accepts. Of a place without a schema only its kind and
// position count. The flag meta is left out: the names that it checks stand in the envelope of each candidate.
func (p place) cacheKey() placeKey {
	if p.kind != declared {
		return placeKey{kind: p.kind, pos: p.pos}
	}
	return placeKey{p.node.Hash(), p.kind, p.pos, p.keep, p.whole, p.dark, p.unchecked}
}

// preservesUnknown reports whether unknown fields of the object here are kept.
func (p place) preservesUnknown() bool {
	return p.kind == anything || p.kind == declared && (p.keep || p.whole || p.node.PreserveUnknown)
}

// metaFields are never pruned from the root and from embedded resources
// (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning).
var metaFields = []string{"apiVersion", "kind", "metadata"}

// hasMeta reports whether the object here has the fields of a resource, which are never pruned: at the root, and in
// embedded resources.
func (p place) hasMeta() bool {
	return p.kind == declared && (p.pos == atRoot || p.node.Embedded)
}

// isMeta reports whether a field is one of metaFields.
func isMeta(name string) bool {
	return name == metaFields[0] || name == metaFields[1] || name == metaFields[2]
}

// childPlace returns the place of the property name.
func (p place) childPlace(name string) place {
	switch p.kind {
	case anything:
		return place{kind: anything}
	case emptied, gone:
		return place{kind: gone}
	case declared:
	}
	meta := p.hasMeta() && isMeta(name)
	ofObject := p.pos == atRoot && name == "metadata"
	if c := p.node.Property(name); c != nil { // metadata is validated, but never pruned
		return place{node: c, whole: p.whole || meta, dark: p.dark || p.hidesRules(name, c), unchecked: p.unchecked && (p.pos != atRoot || name == "status"), meta: ofObject}
	}
	switch {
	case ofObject:
		return place{node: checkedNodes()["object"], whole: true, meta: true}
	case meta:
		return place{kind: anything}
	case p.namesObject(name):
		return place{node: checkedNodes()["string"]}
	}
	return p.restPlace()
}

// checkedNodes are what the API server demands of the metadata of an object and of its name, whatever the schema says.
var checkedNodes = sync.OnceValue(func() map[string]*schema.Node {
	out := map[string]*schema.Node{}
	for _, typ := range []string{"object", "string"} {
		if n, err := schema.New(&apiextensionsv1.JSONSchemaProps{Type: typ}); err == nil { // always
			out[typ] = n
		}
	}
	return out
})

// namesObject reports whether a field of this metadata is the name of the object, or the beginning of a name that the API server completes. A
// CRD can restrict no other field of metadata.
func (p place) namesObject(field string) bool {
	return p.meta && (field == "name" || field == "generateName")
}

// restPlace returns the place of the properties that are not declared.
func (p place) restPlace() place {
	switch {
	case p.kind == anything:
		return place{kind: anything}
	case p.kind != declared:
		return place{kind: gone}
	case p.node.Additional != nil:
		return place{node: p.node.Additional, whole: p.whole, dark: p.dark, unchecked: p.unchecked && p.pos != atRoot}
	case p.node.AdditionalBool != nil && !*p.node.AdditionalBool: // refused, to be exact
		return place{kind: gone}
	case p.whole:
		return place{kind: anything}
	case p.node.AdditionalBool != nil: // even where unknown fields are kept
		return place{kind: emptied}
	case p.preservesUnknown():
		return place{kind: anything}
	}
	return place{kind: gone}
}

// itemPlace returns the place of the items of the list here.
func (p place) itemPlace() place {
	switch {
	case p.kind == anything:
		return place{kind: anything, pos: atItem}
	case p.kind != declared:
		return place{kind: emptied, pos: atItem}
	case p.node.Items != nil:
		return place{node: p.node.Items, pos: atItem, keep: p.preservesUnknown(), whole: p.whole, dark: p.dark, unchecked: p.unchecked && p.pos != atRoot}
	case p.preservesUnknown():
		return place{kind: anything, pos: atItem}
	}
	return place{kind: emptied, pos: atItem}
}

// stepPlace returns the place of a part.
func (p place) stepPlace(s Step) place {
	switch s.Kind {
	case AnyKey:
		return p.restPlace()
	case AnyItem:
		return p.itemPlace()
	case Field:
	}
	return p.childPlace(s.Name)
}

// placeAtPath returns the place at the path.
func placeAtPath(p place, path Path) place {
	for _, s := range path {
		p = p.stepPlace(s)
	}
	return p
}

// losesNull reports whether a null here is dropped, or replaced by the default (PruneNonNullableNullsWithoutDefaults and Default in
// k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting).
func (p place) losesNull() bool {
	return p.kind == declared && !p.node.Nullable && (p.pos == atProperty || p.pos == atItem && p.node.HasDefault)
}

// isOfType reports whether each value here but null is of the JSON type.
func (p place) isOfType(typeName string) bool {
	return p.kind == declared && p.node.Type == typeName && !p.node.IntOrString
}

// mayBeType reports whether a value here can be of the JSON type.
func (p place) mayBeType(typeName string) bool {
	return p.kind != declared || p.node.Type == "" && !p.node.IntOrString || p.node.Type == typeName && !p.node.IntOrString
}

// hidesRules reports whether the rules of the property c of the node, and of what is below, are not evaluated, because CEL does
// not know the property (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel, validator).
func (p place) hidesRules(name string, c *schema.Node) bool {
	if !typedInCEL(c) {
		return true
	}
	if _, ok := apiservercel.Escape(name); !ok {
		return false // such a property gets a type of its own
	}
	return p.node.Type != "object" || p.node.IntOrString || p.node.Additional != nil
}

// typedInCEL reports whether CEL has a type for the values of a node (SchemaDeclType in k8s.io/apiserver/pkg/cel/common).
func typedInCEL(n *schema.Node) bool {
	for n != nil {
		if n.IntOrString {
			return true
		}
		switch n.Type {
		case "array":
			n = n.Items
		case "object":
			if n.Additional == nil {
				return true
			}
			n = n.Additional
		case "string", "boolean", "number", "integer":
			return true
		default:
			return false
		}
	}
	return false
}
