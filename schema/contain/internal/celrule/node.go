package celrule

import (
	"slices"
	"strings"

	apiservercel "k8s.io/apiserver/pkg/cel"

	"sluice.dev/schema"
)

// How does CEL see a node of a schema? For example, a string of the format duration is a duration, and an object with additionalProperties is a map.

// isMap reports whether an object node is a map: has additionalProperties with a schema, and no properties.
func isMap(n *schema.Node) bool {
	return n.Type == "object" && len(n.Properties) == 0 && n.Additional != nil && !n.Embedded
}

// celTypeOfFormat returns the format that gives a string another type in CEL, or nothing
// (k8s.io/apiserver/pkg/cel/common, SchemaDeclType).
func celTypeOfFormat(n *schema.Node) string {
	if n.Type == "string" && !n.IntOrString {
		switch n.Format {
		case "byte":
			return "bytes"
		case "duration":
			return durationType
		case "date", "date-time":
			return "google.protobuf.Timestamp"
		}
	}
	return ""
}

// withMeta returns the node as CEL sees the root of a resource: with apiVersion, kind and the two visible fields of
// metadata (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model, WithTypeAndObjectMeta).
func withMeta(n *schema.Node) *schema.Node {
	str := func(c *schema.Node) bool { return c != nil && c.Type == "string" }
	meta := n.Property("metadata")
	if str(n.Property("kind")) && str(n.Property("apiVersion")) && meta != nil && meta.Type == "object" &&
		str(meta.Property("name")) && str(meta.Property("generateName")) {
		return n
	}
	// Whatever the schema says of these fields, CEL has these types. What it fills in counts.
	known := func(declared *schema.Node, typeName string) *schema.Node {
		out := &schema.Node{Type: typeName}
		if declared != nil {
			out.Default, out.HasDefault = declared.Default, declared.HasDefault
		}
		return out
	}
	seenMeta := known(meta, "object")
	for _, name := range []string{"generateName", "name"} {
		seenMeta.Properties = append(seenMeta.Properties, schema.Property{Name: name, Node: known(meta.Property(name), "string")})
	}
	out := &schema.Node{
		Type: n.Type, Nullable: n.Nullable, PreserveUnknown: n.PreserveUnknown, Embedded: n.Embedded,
		Default: n.Default, HasDefault: n.HasDefault, Additional: n.Additional, AdditionalBool: n.AdditionalBool,
		MapType: n.MapType,
		Properties: []schema.Property{
			{Name: "apiVersion", Node: known(n.Property("apiVersion"), "string")},
			{Name: "kind", Node: known(n.Property("kind"), "string")},
			{Name: "metadata", Node: seenMeta},
		},
	}
	for _, p := range n.Properties {
		if p.Name != "apiVersion" && p.Name != "kind" && p.Name != "metadata" {
			out.Properties = append(out.Properties, p)
		}
	}
	slices.SortFunc(out.Properties, func(a, b schema.Property) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// childNode returns the schema of a child and its name in JSON.
func childNode(n *schema.Node, name string) (*schema.Node, string, error) {
	if n.Type != "object" {
		return nil, "", errUnsupported
	}
	if isMap(n) {
		return n.Additional, name, nil
	}
	if n.Additional != nil { // with properties as well: upstream's views of it contradict each other
		return nil, "", errUnsupported
	}
	key, ok := apiservercel.Unescape(name)
	if !ok {
		return nil, "", errUnsupported
	}
	c := n.Property(key)
	if c == nil {
		return nil, "", errUnsupported
	}
	return c, key, nil
}
