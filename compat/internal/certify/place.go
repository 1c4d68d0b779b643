package certify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

type props = apiextensionsv1.JSONSchemaProps

// id identifies a schema: equal schemas have the same.
type id [32]byte

// node is a schema without texts.
type node struct {
	props
	id          id
	kids        map[string]*node
	item, extra *node
	all         []*node
	any, one    []*node
	no          *node
	def         any // the default
}

// newNode copies a schema; nil stands for one that keeps everything.
func newNode(s *props) *node {
	if s == nil {
		keep := true
		s = &props{XPreserveUnknownFields: &keep}
	}
	n := &node{props: *s, kids: map[string]*node{}}
	own := *s
	own.Description, own.Title, own.Example, own.ExternalDocs = "", "", nil, nil
	own.Properties, own.Items, own.Not = nil, nil, nil
	own.Required = slices.Compact(slices.Sorted(slices.Values(s.Required)))
	own.Enum, own.Default = nil, nil
	own.AllOf, own.AnyOf, own.OneOf, own.XValidations = nil, nil, nil, nil
	said := []any{} // all that the id depends on
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		c := s.Properties[name]
		n.kids[name] = newNode(&c)
		said = append(said, name, n.kids[name].id)
	}
	child := func(s *props) *node {
		if s == nil {
			said = append(said, nil)
			return nil
		}
		c := newNode(s)
		said = append(said, c.id)
		return c
	}
	branches := func(list []props) []*node {
		out := make([]*node, len(list))
		ids := make([]string, len(list))
		for i := range list {
			out[i] = newNode(&list[i])
			ids[i] = hex.EncodeToString(out[i].id[:])
		}
		slices.Sort(ids) // their order means nothing
		said = append(said, ids)
		return out
	}
	if s.Items != nil && s.Items.Schema != nil {
		n.item = child(s.Items.Schema)
	} else {
		said = append(said, s.Items)
	}
	if a := s.AdditionalProperties; a != nil && a.Schema != nil {
		own.AdditionalProperties, n.extra = nil, child(a.Schema)
	} else {
		said = append(said, nil)
	}
	n.all, n.any, n.one, n.no = branches(s.AllOf), branches(s.AnyOf), branches(s.OneOf), child(s.Not)
	for _, e := range s.Enum {
		said = append(said, key(decoded(e.Raw)))
	}
	if s.Default != nil {
		if n.def = decoded(s.Default.Raw); n.def != nil {
			said = append(said, "default", key(n.def))
		}
	}
	for _, r := range s.XValidations {
		said = append(said, "rule", r.Rule, r.OptionalOldSelf)
	}
	b, err := json.Marshal([]any{own, said})
	if err != nil { // cannot be: schemas are read from JSON; it is equal to no other
		b = fmt.Appendf(nil, "%p", n)
	}
	n.id = sha256.Sum256(b)
	return n
}

// shape says how pruning treats a place.
type shape uint8

const (
	declared shape = iota
	free           // not declared, and kept as it is
	hollow         // kept, but objects in it lose their fields
	gone           // pruned
)

// place is a schema with its surroundings.
type place struct {
	*node
	shape shape
	// item and root are places that validate null instead of dropping it.
	item, root bool
	// keeps is set for an item of a list that keeps unknown fields, whole in metadata, dark if rules are not evaluated.
	keeps, whole, dark bool
	// unchecked is set at the root and in the status if embedded resources in the status are only read, and not checked.
	unchecked bool
}

// sameAround reports whether the surroundings of both are the same.
func (p place) sameAround(q place) bool {
	return p.shape == q.shape && p.item == q.item && p.root == q.root && p.keeps == q.keeps && p.whole == q.whole && p.dark == q.dark && p.unchecked == q.unchecked
}

func (p place) keepsUnknown() bool {
	return p.keeps || p.whole || p.XPreserveUnknownFields != nil && *p.XPreserveUnknownFields
}

func (p place) hasMeta() bool { return p.shape == declared && (p.root || p.XEmbeddedResource) }

var metaNames = []string{"apiVersion", "kind", "metadata"}

// field is the place of a property.
func (p place) field(name string) place {
	switch p.shape {
	case free:
		return place{shape: free}
	case hollow, gone:
		return place{shape: gone}
	case declared:
	}
	meta := p.hasMeta() && slices.Contains(metaNames, name)
	if c, ok := p.kids[name]; ok {
		return place{node: c, whole: p.whole || meta, dark: p.dark || p.hides(name, c), unchecked: p.unchecked && (!p.root || name == "status")}
	}
	if meta {
		return place{shape: free}
	}
	return p.others()
}

// others is the place of properties that are not declared
// (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning).
func (p place) others() place {
	switch {
	case p.shape == free:
		return place{shape: free}
	case p.shape != declared:
		return place{shape: gone}
	case p.extra != nil:
		return place{node: p.extra, whole: p.whole, dark: p.dark, unchecked: p.unchecked && !p.root}
	case p.AdditionalProperties != nil && !p.AdditionalProperties.Allows:
		return place{shape: gone}
	case p.whole:
		return place{shape: free}
	case p.AdditionalProperties != nil:
		return place{shape: hollow}
	case p.keepsUnknown():
		return place{shape: free}
	}
	return place{shape: gone}
}

// items is the place of the items of a list.
func (p place) items() place {
	switch {
	case p.shape == free:
		return place{shape: free, item: true}
	case p.shape == declared && p.node.item != nil:
		return place{node: p.node.item, item: true, keeps: p.keepsUnknown(), whole: p.whole, dark: p.dark, unchecked: p.unchecked && !p.root}
	case p.shape == declared && p.keepsUnknown():
		return place{shape: free, item: true}
	}
	return place{shape: hollow, item: true}
}

// hides reports whether CEL does not know a property (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel).
func (p place) hides(name string, c *node) bool {
	if !typedInCEL(c) {
		return true
	}
	if _, ok := apiservercel.Escape(name); !ok {
		return false
	}
	return p.Type != "object" || p.XIntOrString || p.extra != nil
}

func typedInCEL(s *node) bool {
	for s != nil {
		switch {
		case s.XIntOrString:
			return true
		case s.Type == "array":
			s = s.item
		case s.Type == "object" && s.extra != nil:
			s = s.extra
		default:
			return s.Type != ""
		}
	}
	return false
}

// step writes a step of a path in the form of findings.
func step(name string) string {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-$", r) {
			return "[" + strconv.Quote(name) + "]"
		}
	}
	if name == "" {
		return `[""]`
	}
	return "." + name
}
