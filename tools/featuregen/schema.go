// Package featuregen draws components, features, schemas, settings and pairs of objects from a seed. It compares the results of
// package feature's evaluator with those of policies. It is for tests and benchmarks of both.
//
// It promises that the same seed draws the same world, and that the worlds cover every form of part: fields, values, patterns,
// matches, items and entries, beneath lists with and without identities and maps, in two versions, and whole versions. If both
// differ, it does not decide which is right.
package featuregen

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// names of fields: ordinary ones and those that need care in expressions and patches.
// Some are reserved words of CEL, some need escapes in JSON pointers or in expressions.
var names = []string{
	"mode", "tasks", "in", "a-b", "x.y", "namespace", "t~e", "size", "type", "object", `q"t`, "it's", `b\s`, "s/h", "é", "__in__", "a__b", "variables", "9",
}

// generator draws.
// It collects what can be gated while it draws, because a part must fit the schema at its place.
type generator struct {
	*rand.Rand
	// parts can be gated. They are found while the schema is drawn.
	parts []v1alpha1.Part
	// twins are parts of fields with one schema, which policies may judge by one expression.
	twins [][]v1alpha1.Part
}

// addTwins gives spec two more fields with the schema of one that it has, of a list or a map if there is one.
// Features whose parts differ in the name of one field alone are what components with many kinds have.
// The compiler folds such features into one expression, and the trials show that this changes no answer.
func (g *generator) addTwins(spec *apiextensionsv1.JSONSchemaProps) {
	names := slices.Sorted(maps.Keys(spec.Properties))
	of := pickOne(g.Rand, names...)
	for _, name := range names {
		if p := spec.Properties[name]; p.Items != nil || p.AdditionalProperties != nil {
			of = name
		}
	}
	// The parts below the field are parts of its twins as well, each under the other name.
	prefix := joinPath("spec", of)
	for _, part := range g.parts {
		if rest, ok := strings.CutPrefix(part.Field, prefix); ok && (rest == "" || strings.ContainsAny(rest[:1], ".[")) {
			twins := []v1alpha1.Part{part}
			for _, name := range twinNames {
				part.Field = joinPath("spec", name) + rest
				twins = append(twins, part)
			}
			g.twins = append(g.twins, twins)
		}
	}
	for _, name := range twinNames {
		spec.Properties[name] = spec.Properties[of]
	}
}

var twinNames = []string{"twinA", "twinB"}

func pickOne[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// drawSchema draws the schema of a value at a path, and notes what could be gated there.
func (g *generator) drawSchema(path string, depth int) apiextensionsv1.JSONSchemaProps {
	p := g.drawValue(path, depth)
	g.noteGates(path, &p)
	return p
}

// drawValue draws a type, with what is below it down to a depth. Lists with keys come often, because they
// take the most code on both sides.
func (g *generator) drawValue(path string, depth int) (p apiextensionsv1.JSONSchemaProps) {
	kinds := []string{"string", "string", "enum", "integer", "boolean", "int-or-string"}
	if depth > 0 {
		kinds = append(kinds, "object", "object", "map", "map", "keyed", "keyed", "keyed", "keyed", "atomic", "atomic", "set", "free", "embedded")
	}
	yes := true
	list := func(items apiextensionsv1.JSONSchemaProps, kind string) {
		p.Type = "array"
		p.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}
		if kind != "" {
			p.XListType = &kind
		}
	}
	// Null is tried at each kind of value, because CEL treats a null unlike a field that is missing.
	defer func() { p.Nullable = p.Enum == nil && g.IntN(8) == 0 }() // an enum would have to name null
	switch kind := pickOne(g.Rand, kinds...); kind {
	case "int-or-string":
		p.XIntOrString = true
	case "free":
		p.Type, p.XPreserveUnknownFields = "object", &yes
		// The content of "a" and "each" may be a list, a map or neither.
		for _, inner := range []string{"a", "b.c", "a[*].b", "each[*]", "each[*].a[*].b"} {
			g.noteGates(path+"."+inner, &apiextensionsv1.JSONSchemaProps{Type: "string"})
		}
	case "embedded":
		p.Type, p.XPreserveUnknownFields, p.XEmbeddedResource = "object", &yes, true
		p.Required = []string{"apiVersion", "kind", "metadata"}
		g.noteGates(path+".a", &apiextensionsv1.JSONSchemaProps{Type: "string"})
	case "enum":
		p.Type = "string"
		for _, v := range []string{"A", "B", "C"} {
			p.Enum = append(p.Enum, apiextensionsv1.JSON{Raw: []byte(`"` + v + `"`)})
		}
	case "object":
		p = g.drawObject(path, depth-1, nil)
	case "map":
		p.Type = "object"
		item := g.drawSchema(path+"[*]", depth-1)
		p.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &item}
	case "keyed":
		keys := pickOne(g.Rand, []string{"name"}, []string{"name"}, []string{"name", "port"})
		item := g.drawObject(path+"[*]", depth-1, keys)
		g.noteGates(path+"[*]", &item)
		list(item, "map")
		p.XListMapKeys = keys
	case "atomic":
		list(g.drawSchema(path+"[*]", depth-1), pickOne(g.Rand, "", "atomic"))
	case "set":
		item := apiextensionsv1.JSONSchemaProps{Type: pickOne(g.Rand, "string", "integer")}
		g.noteGates(path+"[*]", &item)
		list(item, "set")
	default:
		p.Type = kind
		if kind == "integer" && g.IntN(2) == 0 {
			p.Format = "int32"
		}
	}
	return p
}

// drawObject draws an object with two or three fields. Fields that are keys of the list around it are
// required and scalars.
func (g *generator) drawObject(path string, depth int, keys []string) apiextensionsv1.JSONSchemaProps {
	p := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}, Required: keys}
	for _, k := range keys {
		s := apiextensionsv1.JSONSchemaProps{Type: "string"}
		if k == "port" {
			s.Type = "integer"
		}
		p.Properties[k] = s
	}
	for _, i := range g.Perm(len(names))[:2+g.IntN(2)] {
		p.Properties[names[i]] = g.drawSchema(joinPath(path, names[i]), depth)
	}
	return p
}

// joinPath adds a field to a path. A name that is no identifier is quoted as the paths of features have it.
func joinPath(path, name string) string {
	return path + strings.TrimPrefix(feature.Path{{Name: "x"}, {Name: name}}.String(), "x")
}

// noteGates notes the ways to gate a value.
// It draws in a fixed order, whether or not a way is taken, so that a change of one world leaves others
// as they are.
func (g *generator) noteGates(path string, p *apiextensionsv1.JSONSchemaProps) {
	add := func(part v1alpha1.Part) {
		part.Group, part.Resource, part.Field = Group, Resource, path
		if to := resetValues(p); part.Values != nil && len(to) > 0 || part.Beyond != nil && len(part.Beyond.Values) == 0 {
			for _, v := range to {
				if !slices.Contains(part.Values, v) && g.IntN(2) == 0 {
					part.ResetTo = &v
				}
			}
		}
		part.Versions = pickOne(g.Rand, nil, nil, []string{"v1"}, []string{"v2"}, []string{"v1", "v2"})
		g.parts = append(g.parts, part)
	}
	add(v1alpha1.Part{})
	if b := g.drawBounds(p); b != nil && g.IntN(2) == 0 {
		add(v1alpha1.Part{Beyond: b})
	}
	switch {
	case p.Enum != nil:
		add(v1alpha1.Part{Values: pickOne(g.Rand, []string{"A"}, []string{"B", "C"})})
	case p.Type == "string":
		add(v1alpha1.Part{Pattern: pickOne(g.Rand, `^\s*#!`, "x$", "[yz]")})
		add(v1alpha1.Part{Values: []string{pickOne(g.Rand, "x", "y", "")}})
	case p.XIntOrString:
		add(v1alpha1.Part{Values: []string{pickOne(g.Rand, "7", "x")}})
		add(v1alpha1.Part{Pattern: "x$"})
	case p.Type == "integer":
		add(v1alpha1.Part{Values: []string{"7"}})
	case p.Type == "boolean":
		add(v1alpha1.Part{Values: []string{pickOne(g.Rand, "true", "false")}})
	}
	var match []v1alpha1.Match
	for _, name := range names {
		c, ok := p.Properties[name]
		if !ok || match != nil {
			continue
		}
		field := strings.TrimPrefix(joinPath("", name), ".")
		switch {
		case c.Enum != nil:
			match = []v1alpha1.Match{{Field: field, Values: []string{"A"}}}
		case c.Type == "string":
			match = []v1alpha1.Match{{Field: field, Pattern: "x"}}
		default:
			match = []v1alpha1.Match{{Field: field}}
		}
	}
	if match != nil {
		add(v1alpha1.Part{Match: match})
	}
}

// resetValues are values of a type, of which gated ones may become one.
// The part of a feature that drops resets a gated value to one of these, which must not be gated itself.
func resetValues(p *apiextensionsv1.JSONSchemaProps) []string {
	switch {
	case p.Enum != nil:
		return []string{"A", "C"}
	case p.XIntOrString:
		return []string{"7", "x"}
	case p.Type == "string":
		return []string{"", "y"}
	case p.Type == "integer":
		return []string{"5"}
	case p.Type == "boolean":
		return []string{"true", "false"}
	}
	return nil
}

// drawBounds draws bounds that go with a type; nil if none do.
// Bounds gate what lies beyond them, such as a number of replicas above 5.
func (g *generator) drawBounds(p *apiextensionsv1.JSONSchemaProps) *v1alpha1.Bounds {
	n := func(values ...int64) *int64 { return new(pickOne(g.Rand, values...)) }
	switch {
	case p.Enum != nil:
		return &v1alpha1.Bounds{Values: []string{"A", "B"}}
	case p.XIntOrString:
		return &v1alpha1.Bounds{Values: []string{"7", "x"}}
	case p.Type == "string":
		return pickOne(g.Rand, &v1alpha1.Bounds{Pattern: "[xy]$"}, &v1alpha1.Bounds{MaxLength: n(0, 1)}, &v1alpha1.Bounds{Values: []string{"x"}, MaxLength: n(0)})
	case p.Type == "integer":
		return pickOne(g.Rand, &v1alpha1.Bounds{Minimum: n(0, 2), Maximum: n(5, 7)}, &v1alpha1.Bounds{Values: []string{"7"}})
	case p.Type == "object" && p.XPreserveUnknownFields == nil:
		return &v1alpha1.Bounds{MaxItems: n(0, 1, 2)}
	}
	return nil
}

// Names in worlds.
const (
	Group    = "gen.sluice.dev"
	Resource = "things"
	Kind     = "Thing"
	// SecondResource is the plural name of the second resource of a world.
	SecondResource = "gadgets"
)

// newCRD wraps a schema of spec, which both of its versions have.
// The schema is the same in both versions, which makes v2 a version to gate. The status keeps unknown
// fields, so that nothing in it is pruned.
func newCRD(kind, plural string, spec apiextensionsv1.JSONSchemaProps) *apiextensionsv1.CustomResourceDefinition {
	yes := true
	root := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": spec, "status": {Type: "object", XPreserveUnknownFields: &yes},
	}}
	version := func(name string) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: name == "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root},
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: Group, Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural, Singular: strings.ToLower(kind)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1"), version("v2")},
		},
	}
}

// Show writes a value as JSON, for people.
func Show(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}
