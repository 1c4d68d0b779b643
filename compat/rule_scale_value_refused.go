package compat

import (
	"context"
	"math"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

var scaleValueRefused = Rule{
	ID:    "scale-value-refused",
	Level: report.ObjectsStuck,
	Title: "A stored object can have a value that the scale subresource refuses",
	Why: `With the scale subresource the API server looks at the values at its paths in every update: replicas have to be an integer from 0 to 2147483647, ` +
		`and a label selector has to be a string. It does not ratchet here. An object that was stored with another value, for example replicas: -1, ` +
		`is refused whatever an update changes, until somebody corrects the value.`,
	Help: `Give the field type: integer with minimum: 0 in an earlier release, and correct the stored objects; then add the subresource. Let the path of the ` +
		`label selector lead to a string.`,
	Unsafe: Example{Old: `
versions:
- name: v1
  served: true
  storage: true
  schema:
    openAPIV3Schema:
      type: object
      properties:
        spec:
          type: object
          properties:
            replicas:
              type: integer
        status:
          type: object
          properties:
            replicas:
              type: integer
              minimum: 0
              format: int32
`, New: `
versions:
- name: v1
  served: true
  storage: true
  schema:
    openAPIV3Schema:
      type: object
      properties:
        spec:
          type: object
          properties:
            replicas:
              type: integer
        status:
          type: object
          properties:
            replicas:
              type: integer
              minimum: 0
              format: int32
  subresources:
    scale:
      specReplicasPath: .spec.replicas
      statusReplicasPath: .status.replicas
`},
	Safe: Example{Old: `
versions:
- name: v1
  served: true
  storage: true
  schema:
    openAPIV3Schema:
      type: object
      properties:
        spec:
          type: object
          properties:
            replicas:
              type: integer
              format: int32
              minimum: 0
`, New: `
versions:
- name: v1
  served: true
  storage: true
  schema:
    openAPIV3Schema:
      type: object
      properties:
        spec:
          type: object
          properties:
            replicas:
              type: integer
              format: int32
              minimum: 0
  subresources:
    scale:
      specReplicasPath: .spec.replicas
      statusReplicasPath: .status.replicas
`},
	whole: func(ctx context.Context, c *comparison) []report.Finding {
		if !c.both() {
			return nil
		}
		var out []report.Finding
		for _, to := range c.newParts {
			before := find(c.oldParts, to.Name)
			if !to.Served || scaleOf(to) == nil || before != nil && before.Served && reflect.DeepEqual(scaleOf(before), scaleOf(to)) {
				continue
			}
			seen := map[string]bool{}
			for _, from := range c.writers() {
				if from.Name != to.Name && converts(c.new) {
					continue
				}
				for _, path := range scalePaths(to) {
					if f, ok := c.scaleRefuses(ctx, pair{from, to}, path); ok && !seen[path.steps] {
						seen[path.steps] = true
						out = append(out, f)
					}
				}
			}
		}
		return out
	},
}

func scaleOf(p *part) *apiextensionsv1.CustomResourceSubresourceScale {
	if p.Subresources == nil {
		return nil
	}
	return p.Subresources.Scale
}

// scalePath is a path of the scale subresource, and what may stand there
// (customResourceValidator in k8s.io/apiextensions-apiserver/pkg/registry/customresource/validator.go).
type scalePath struct {
	name, steps string
	want        props
}

func scalePaths(p *part) []scalePath {
	s := scaleOf(p)
	if s == nil {
		return nil
	}
	zero, most := float64(0), float64(math.MaxInt32)
	number := props{Type: "integer", Minimum: &zero, Maximum: &most}
	out := []scalePath{{"specReplicasPath", s.SpecReplicasPath, number}, {"statusReplicasPath", s.StatusReplicasPath, number}}
	if s.LabelSelectorPath != nil {
		out = append(out, scalePath{"labelSelectorPath", *s.LabelSelectorPath, props{Type: "string"}})
	}
	return slices.DeleteFunc(out, func(p scalePath) bool { return p.steps == "" })
}

// scaled returns the schema of a version with what its scale subresource demands at the paths.
func scaled(p *part, paths []scalePath) *part {
	if p.props == nil || len(paths) == 0 {
		return p
	}
	out := *p.props
	out.AllOf = slices.Clone(out.AllOf)
	for _, path := range paths {
		branch := path.want
		for _, name := range slices.Backward(strings.Split(strings.TrimPrefix(path.steps, "."), ".")) {
			branch = props{Type: "object", Nullable: true, Properties: map[string]props{name: branch}}
		}
		branch.Nullable = false
		out.AllOf = append(out.AllOf, branch)
	}
	return &part{crdVersion: p.crdVersion, index: p.index, isOld: p.isOld, props: &out}
}

// scaleRefuses asks for an object of one version whose value at a path the scale subresource of the other one refuses.
func (c *comparison) scaleRefuses(ctx context.Context, p pair, path scalePath) (report.Finding, bool) {
	home := c.home(p.from)
	if home == nil {
		return report.Finding{}, false
	}
	from := p.from
	if p.from.Name != p.to.Name {
		from = c.settled(from, home)
	}
	from = scaled(from, scalePaths(p.from))
	to := *from // the same schema, so that nothing but the subresource differs
	to.isOld = false
	o := c.containOptions(p.from)
	o.Only = map[string]bool{"allOf": true}
	asked := scaled(&to, []scalePath{path})
	if from.props == nil || from.build() != nil || asked.build() != nil {
		return report.Finding{}, false
	}
	gaps := contain.Decide(ctx, from.side, asked.side, o).Gaps
	if len(gaps) == 0 {
		return report.Finding{}, false
	}
	f := report.Finding{
		Version: p.to.Name, Path: path.steps, SchemaPath: p.to.tokens("subresources", "scale", path.name), After: path.steps,
		Message: "the scale subresource refuses objects by what they have at " + path.name + " " + path.steps,
	}
	for i := range gaps {
		g := &gaps[i]
		if g.Witness == nil {
			continue
		}
		j, err := c.journey(ctx, p, g.Witness.Object)
		if err != nil {
			continue
		}
		if k := slices.IndexFunc(j.errors, func(e string) bool { return strings.HasPrefix(e, path.steps+":") }); k >= 0 {
			f.Witness = &report.Witness{Object: objectYAML(g.Witness.Object), Effect: brief.Clip(j.errors[k], maxEffect)}
			f.Message += ": " + brief.Clip(j.errors[k], maxInline)
			return f, true
		}
	}
	if gaps[0].Verdict == contain.NotContained {
		return f, false // the value never reaches this version
	}
	f.Outcome, f.Reason, f.Message = report.Undecided, gaps[0].Reason, Undetermined+": "+f.Message
	return f, true
}
