package compat

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/tools/schemagen"
)

// unionPair is an upgrade of a CRD whose spec is a union, and values of spec that it is held against.
type unionPair struct {
	*schemagen.Gen
	seed     uint64
	old, new *crd
	domain   []any
}

func drawUnions(seed uint64) *unionPair {
	g := schemagen.New(seed)
	p := &unionPair{Gen: g, seed: seed}
	schema := g.Union()
	p.old = unionCRD(g, schema)
	p.new = unionCRD(g, g.ChangeUnion(schema))
	switch n := g.IntN(100); {
	case n < 12: // a version more
		p.new.Spec.Versions = append(p.new.Spec.Versions, unionVersion(g, "v2", g.ChangeUnion(schema)))
	case n < 24: // the same two versions
		second := g.ChangeUnion(schema)
		p.old.Spec.Versions = append(p.old.Spec.Versions, unionVersion(g, "v2", second))
		p.new.Spec.Versions = append(p.new.Spec.Versions, unionVersion(g, "v2", second.DeepCopy()))
		if g.IntN(2) == 0 {
			p.new.Spec.Versions[1].Schema.OpenAPIV3Schema = g.ChangeUnion(second)
			p.new.Spec.Versions[0].Schema.OpenAPIV3Schema = schema.DeepCopy()
		}
	case n < 30: // a version less that is served
		second := g.ChangeUnion(schema)
		p.old.Spec.Versions = append(p.old.Spec.Versions, unionVersion(g, "v2", second))
		p.new.Spec.Versions = append(p.new.Spec.Versions, unionVersion(g, "v2", second.DeepCopy()))
		p.new.Spec.Versions[1].Served = false
	}
	if vs := p.new.Spec.Versions; len(vs) > 1 && vs[1].Served && g.IntN(3) == 0 { // stored in the other one from now on
		vs[0].Storage, vs[1].Storage = false, true
	}
	p.drawValues()
	return p
}

// drawValues draws the values of spec, after all schemas.
func (p *unionPair) drawValues() {
	var sides []*props
	for _, d := range []*crd{p.old, p.new} {
		for i := range d.Spec.Versions {
			spec := d.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["spec"]
			sides = append(sides, &spec)
		}
	}
	p.domain = p.Values(240, sides...)
}

// drawFilled draws a union of two versions or more in which a version of the new CRD fills in a field that a constraint of all versions may
// refuse, and another one lacks a field.
func drawFilled(seed uint64) *unionPair {
	p := drawUnions(seed)
	if vs := p.new.Spec.Versions; len(vs) == 1 {
		second := vs[0]
		second.Name, second.Storage = "v2", p.IntN(3) == 0
		second.Schema = second.Schema.DeepCopy()
		p.new.Spec.Versions = append(vs, second)
		p.new.Spec.Versions[0].Storage = !second.Storage
		if p.IntN(3) == 0 { // the old CRD has it, too
			second.Storage = false
			p.old.Spec.Versions = append(p.old.Spec.Versions, *second.DeepCopy())
		}
	}
	only := p.IntN(3)
	each := func(change func(spec *props)) { // in all versions, in the first one alone, or in the old CRD alone
		for k, d := range []*crd{p.old, p.new} {
			for i := range d.Spec.Versions {
				if only == 1 && i > 0 || only == 2 && k > 0 {
					continue
				}
				root := d.Spec.Versions[i].Schema.OpenAPIV3Schema
				spec := root.Properties["spec"]
				change(&spec)
				root.Properties["spec"] = spec
			}
		}
	}
	first := p.old.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	names := slices.Sorted(maps.Keys(first.Properties))
	if len(names) < 2 {
		return p
	}
	x, y := names[p.IntN(len(names))], names[p.IntN(len(names))]
	constraint := p.IntN(7)
	each(func(spec *props) {
		switch constraint {
		case 0:
			spec.XValidations = append(slices.Clip(spec.XValidations), apiextensionsv1.ValidationRule{Rule: "!has(self." + x + ") || !has(self." + y + ")"})
		case 1:
			spec.XValidations = append(slices.Clip(spec.XValidations), apiextensionsv1.ValidationRule{Rule: "has(self." + x + ") != has(self." + y + ")"})
		case 2:
			spec.Not = &props{Required: []string{x}}
		case 3:
			n := int64(len(names) - 1)
			spec.MaxProperties = &n
		case 4:
			spec.OneOf = []props{{Required: []string{x}}, {Required: []string{y}}}
		case 5: // no value at all
			spec.Properties = maps.Clone(spec.Properties)
			if f, ok := spec.Properties[x]; ok {
				f.XValidations = append(slices.Clip(f.XValidations), apiextensionsv1.ValidationRule{Rule: "false"})
				spec.Properties[x] = f
			}
		case 6: // as case 0, in a form that the prover does not see through
			rule := "[has(self." + x + "), has(self." + y + ")].filter(z, z).size() * 3 != 6"
			spec.XValidations = append(slices.Clip(spec.XValidations), apiextensionsv1.ValidationRule{Rule: rule})
		}
	})
	vs := p.new.Spec.Versions
	editSpec(&vs[p.IntN(len(vs))], func(spec *props) {
		fields := spec.Properties
		f, ok := fields[x]
		if value, known := valueOf(f); ok && known {
			f.Default = value
			fields[x] = f
		}
	})
	if gone := names[p.IntN(len(names))]; p.IntN(2) == 0 {
		editSpec(&vs[p.IntN(len(vs))], func(spec *props) { delete(spec.Properties, gone) })
	}
	p.drawValues()
	return p
}

// valueOf is a value that a schema of a common type may allow.
func valueOf(p props) (value *apiextensionsv1.JSON, known bool) {
	text, known := map[string]string{"integer": "1", "string": `"y"`, "boolean": "false", "object": "{}", "array": "[]"}[p.Type]
	if len(p.Enum) > 0 {
		text = string(p.Enum[0].Raw)
	}
	return &apiextensionsv1.JSON{Raw: []byte(text)}, known
}

// drawPruned draws unions in which the storage version of the old CRD lacks what another one requires, and a version that only the new CRD
// has a rule about it, or fills it in under a rule about updates.
func drawPruned(seed uint64) *unionPair {
	p := drawUnions(seed)
	first := p.old.Spec.Versions[0]
	names := slices.Sorted(maps.Keys(first.Schema.OpenAPIV3Schema.Properties["spec"].Properties))
	if len(names) < 2 {
		return p
	}
	x, y := names[p.IntN(len(names))], names[p.IntN(len(names))]
	version := func(name string, change func(spec *props)) crdVersion {
		v := *first.DeepCopy()
		v.Name, v.Storage = name, false
		editSpec(&v, change)
		return v
	}
	writer := version("v3", func(spec *props) { spec.Required = append(spec.Required, x) })
	reader := version("v4", func(spec *props) {
		rules := []string{"has(self.X) || !has(self.Y)", "has(self.X) || has(self.Y)", "!has(self.Y)"}
		if value, known := valueOf(spec.Properties[x]); known && p.IntN(2) == 0 {
			f := spec.Properties[x]
			f.Default = value
			spec.Properties[x] = f
			rules = []string{
				"!has(oldSelf.X) || self.X == oldSelf.X", "has(self.X) == has(oldSelf.X)", "!has(self.Y) || has(oldSelf.X)", "!has(self.Y) || self.X == oldSelf.X",
				"!has(oldSelf.X) || !has(self.Y) || self.X == oldSelf.X", "has(oldSelf.X) || !has(self.X) || !has(oldSelf.Y)",
			}
		}
		rule := strings.NewReplacer("X", x, "Y", y).Replace(rules[p.IntN(len(rules))])
		spec.XValidations = append(spec.XValidations, apiextensionsv1.ValidationRule{Rule: rule})
	})
	lacks, narrows := p.IntN(4) > 0, p.IntN(2) == 0
	for _, d := range []*crd{p.old, p.new} {
		for i := range d.Spec.Versions {
			if lacks && d.Spec.Versions[i].Name == "v1" {
				editSpec(&d.Spec.Versions[i], func(spec *props) {
					delete(spec.Properties, x)
					spec.XValidations = slices.DeleteFunc(spec.XValidations, func(r apiextensionsv1.ValidationRule) bool { return strings.Contains(r.Rule, "self."+x) })
					if narrows && x != y {
						spec.Required = append(spec.Required, y)
					}
				})
			}
		}
		d.Spec.Versions = append(d.Spec.Versions, *writer.DeepCopy())
	}
	if p.IntN(3) == 0 {
		p.old.Spec.Versions = append(p.old.Spec.Versions, version("v4", func(*props) {}))
	}
	p.new.Spec.Versions = append(p.new.Spec.Versions, reader)
	p.drawValues()
	return p
}

// editSpec changes the schema of spec of a version.
func editSpec(v *crdVersion, change func(spec *props)) {
	root := v.Schema.OpenAPIV3Schema
	old := root.Properties["spec"]
	spec := old.DeepCopy()
	change(spec)
	root.Properties["spec"] = *spec
}

func unionCRD(g *schemagen.Gen, schema *props) *crd {
	d := &crd{}
	d.Name = "widgets.example.com"
	d.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
		Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
		Versions: []crdVersion{unionVersion(g, "v1", schema)},
	}
	d.Spec.Versions[0].Storage = true
	return d
}

func unionVersion(g *schemagen.Gen, name string, schema *props) crdVersion {
	v := crdVersion{Name: name, Served: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema.DeepCopy()}}
	sub := &apiextensionsv1.CustomResourceSubresources{}
	if g.IntN(12) == 0 {
		sub.Scale = &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.b", StatusReplicasPath: ".status.b"}
	}
	if g.IntN(12) == 0 {
		sub.Status = &apiextensionsv1.CustomResourceSubresourceStatus{}
	}
	if *sub != (apiextensionsv1.CustomResourceSubresources{}) {
		v.Subresources = sub
	}
	if g.IntN(12) == 0 {
		v.Schema.OpenAPIV3Schema.Properties["status"] = props{Type: "object", Properties: map[string]props{"b": {Type: "integer"}}}
	}
	return v
}

func (p *unionPair) object(version string, spec any) map[string]any {
	return map[string]any{
		"apiVersion": "example.com/" + version, "kind": "Widget", "metadata": map[string]any{"name": "w", "namespace": "default"},
		"spec": runtime.DeepCopyJSONValue(spec),
	}
}

func (p *unionPair) String() string {
	return fmt.Sprintf("seed %d\nold:\n%snew:\n%s", p.seed, describeAll(p.old), describeAll(p.new))
}

func describeAll(d *crd) string {
	var b strings.Builder
	for _, v := range d.Spec.Versions {
		fmt.Fprintf(&b, "%s served=%t storage=%t sub=%s %s\n", v.Name, v.Served, v.Storage, compactJSON(v.Subresources), compactJSON(v.Schema.OpenAPIV3Schema))
	}
	return b.String()
}
