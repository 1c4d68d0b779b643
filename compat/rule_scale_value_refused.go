package compat

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

// scaleValueRefused looks for objects with a value that the validation of the subresource refuses
// (customResourceValidator in k8s.io/apiextensions-apiserver/pkg/registry/customresource/validator.go). It is asked
// only where the subresource is new or has other paths. Under the old paths such objects could not be stored.
var scaleValueRefused = Rule{
	ID:     "scale-value-refused",
	Level:  report.ObjectsStuck,
	Varies: true,
	Title:  "An object can have a value that the scale subresource refuses",
	Why: `With the scale subresource the API server validates the values at its paths in every update. Replicas have to be an integer ` +
		`from 0 to 2147483647, and a label selector has to be a string. The API server does not ratchet here. If an object is stored ` +
		`with another value, for example replicas: -1, every update is refused until a client corrects the value.

The stored version may replace the value when it reads the object, for example a null by a default. Then only requests with the value ` +
		`are refused, and the level is clients-broken.`,
	Help: `Add the subresource in two releases. In the first one, accept new values only from 0 up, and correct the stored objects. In the ` +
		`second one, set minimum: 0, and add the subresource. Make sure that the path of the label selector leads to a string.`,
	Unsafe: Example{
		Old: exampleVersions(storedVersion("v1", exampleSchema(specReplicas, statusReplicas))),
		New: exampleVersions(storedVersion("v1", exampleSchema(specReplicas, statusReplicas), scaleSubresource(".spec.replicas"))),
	},
	Instead: exampleVersions(storedVersion("v1", exampleSchema(exampleObject("spec", exampleField("replicas", "type: integer", `x-kubernetes-validations:
- rule: self >= 0 || oldSelf.hasValue() && self == oldSelf.value()
  optionalOldSelf: true
  message: replicas cannot be negative`)), statusReplicas))),
	whole: func(ctx context.Context, c *comparison) []report.Finding {
		if !c.hasBothCRDs() {
			return nil
		}
		var out []report.Finding
		for _, to := range c.newParts {
			before := findVersion(c.oldParts, to.Name)
			if !to.Served || scaleOf(to) == nil || before != nil && before.Served && reflect.DeepEqual(scaleOf(before), scaleOf(to)) {
				continue
			}
			seen := map[string]bool{}
			froms := c.writtenVersions()
			if len(c.newConversions) > 0 { // what a webhook makes of objects of other versions is not known, but they fitted this one
				froms = []*part{before}
			}
			for _, from := range froms {
				if from == nil || !from.Served && !c.isStored(from.Name) {
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

// The fields of the example. The status has always been what the scale subresource asks for, so that only the
// spec is at fault.
var (
	specReplicas   = exampleObject("spec", exampleField("replicas", "type: integer"))
	statusReplicas = exampleObject("status", exampleField("replicas", "type: integer", "minimum: 0", "format: int32"))
)

// scaleRefuses asks for an object of one version whose value at a path the scale subresource of the other one refuses.
func (c *comparison) scaleRefuses(ctx context.Context, p pair, path scalePath) (report.Finding, bool) {
	home := c.readingVersion(p.from)
	if home == nil {
		return report.Finding{}, false
	}
	if p.from.Name == p.to.Name {
		return c.scaleRefusesStored(ctx, p, p.from, home, path)
	}
	for _, stored := range c.asStored(p.from, home) {
		if f, ok := c.scaleRefusesStored(ctx, p, stored, home, path); ok {
			return f, true
		}
	}
	return report.Finding{}, false
}

// scaleRefusesStored asks among the objects of a schema that are stored of the version p.from.
func (c *comparison) scaleRefusesStored(ctx context.Context, p pair, stored, home *part, path scalePath) (report.Finding, bool) {
	from := c.afterStep(stored, step{kind: stepScale})
	to := from.withSchema(withScaleDemands(from.props, []scalePath{path})) // nothing but the subresource differs
	to.isOld = false
	o := c.containOptions(p.from)
	o.Only = func(g *contain.Gap) bool { return g.Keyword == "allOf" }
	if from.props == nil || from.buildSchema() != nil || to.buildSchema() != nil {
		return report.Finding{}, false
	}
	gaps := contain.Decide(ctx, from.side, to.side, o).Gaps
	if len(gaps) == 0 {
		return report.Finding{}, false
	}
	f := report.Finding{
		Version: p.to.Name, Path: path.steps, SchemaPath: p.to.documentTokens("subresources", "scale", path.name), After: path.steps,
		Message: "the scale subresource refuses objects with some values at " + path.name + " " + path.steps,
	}
	for i := range gaps {
		g := &gaps[i]
		if g.Witness == nil {
			continue
		}
		j, err := c.makeJourney(ctx, p, home, g.Witness.Object)
		if err != nil {
			continue
		}
		if k := slices.IndexFunc(j.errors, func(e string) bool { return strings.HasPrefix(e, path.steps+":") }); k >= 0 {
			f.Witness = &report.Witness{Object: objectYAML(g.Witness.Object), Effect: brief.Clip(j.errors[k], maxEffect)}
			f.Message += ": " + brief.Clip(j.errors[k], maxInline)
			return f, true
		}
	}
	if e, ok := c.requestRefused(ctx, p, path, gaps); ok {
		f.Level, f.Witness = report.ClientsBroken, e
		f.Message = "the scale subresource refuses requests with some values at " + path.name + " " + path.steps + ": " + brief.Clip(e.Effect, maxInline)
		return f, true
	}
	if gaps[0].Verdict == contain.NotContained {
		return f, false // the value never reaches this version
	}
	f.Outcome, f.Reason, f.Message = report.Undecided, gaps[0].Reason, Undetermined+": "+f.Message
	return f, true
}

// requestRefused looks for an object that clients of a version could create, and that the scale subresource refuses now. What is
// stored of it may be another value, as the stored version has a default in place of a null.
func (c *comparison) requestRefused(ctx context.Context, p pair, path scalePath, gaps []contain.Gap) (*report.Witness, bool) {
	now, err := c.validatorOf(p.to)
	if err != nil || p.from.Name != p.to.Name || !p.from.Served {
		return nil, false
	}
	for i := range gaps {
		if gaps[i].Witness == nil {
			continue
		}
		res, err := now.CreateWithStatus(ctx, gaps[i].Witness.Object)
		if err != nil {
			continue
		}
		for _, e := range res.Errors {
			if strings.HasPrefix(e.Error(), path.steps+":") {
				return &report.Witness{Object: objectYAML(gaps[i].Witness.Object), Effect: brief.Clip(e.Error(), maxEffect)}, true
			}
		}
	}
	return nil, false
}
