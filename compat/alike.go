package compat

// Which versions have to be asked about at all? Versions that say the same share one answer of the prover, and a version whose texts for
// people alone changed needs none. For example, v1beta1 and v1 with equal schemas are compared once.

import (
	"cmp"
	"context"
	"hash/maphash"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
	"sluice.dev/schema/contain"
	"sluice.dev/schema/upstream"
)

// askProver asks the prover about two versions, once for all versions that say the same.
func (c *comparison) askProver(ctx context.Context, from, to *part) []contain.Gap {
	o := c.containOptions(from)
	o.StatusWrites = hasStatus(to) && !upstream.RatchetsStatusIn(c.opts.KubeVersion)
	key := question{pair{c.firstAlike(from), c.firstAlike(to)}, o.StatusWrites}
	known, ok := c.answers[key]
	if ok && c.opts.Trace == nil && (known.version == from.Name || !mindsVersion(from.props) && !mindsVersion(to.props)) {
		return known.gapsFor(c.groupVersionOf(from))
	}
	if from.onlyLost {
		o.Only = func(g *contain.Gap) bool { return g.Harm == contain.Pruned }
	}
	o.Converted = slices.ContainsFunc(c.newConversions, func(step conversion) bool { return step.request == to.Name })
	if from.within != nil && from.within.buildSchema() == nil {
		o.Within = &from.within.side
	}
	o.Draft = from.Name != to.Name // a journey follows, see [comparison.canTravel]
	if c.opts.Trace != nil {
		o.Trace = func(e contain.Event) {
			c.opts.Trace(Step{CRD: c.crdName(), From: from.Name, To: to.Name, Event: e})
		}
	}
	r := contain.Decide(ctx, from.side, to.side, o)
	if c.answers == nil {
		c.answers = map[question]answer{}
	}
	c.answers[key] = answer{r.Gaps, from.Name}
	return r.Gaps
}

// traceEqual tells that nothing has to be asked: only texts for people differ.
func (c *comparison) traceEqual() {
	for _, p := range c.pairs {
		if c.opts.Trace != nil {
			c.opts.Trace(Step{CRD: c.crdName(), From: p.from.Name, To: p.to.Name, Event: contain.Event{Keyword: "schema", Text: "proven: both schemas are equal but for texts", Below: true}})
		}
	}
}

// firstAlike returns the first part that was asked about and says the same as p, texts for people aside. p is built.
func (c *comparison) firstAlike(p *part) *part {
	hash := p.schemaNode().Hash()
	for _, q := range c.asked[hash] {
		if q == p || p.unchecked == q.unchecked && p.onlyLost == q.onlyLost && sameSchema(p.props, q.props) {
			return q
		}
	}
	if c.asked == nil {
		c.asked = map[schema.Hash][]*part{}
	}
	c.asked[hash] = append(c.asked[hash], p)
	return p
}

// areAlike reports whether two versions are one to every question: of the same name, or of names under which each of the CRDs has the same
// schema, the same subresources, and serves both or neither. An object of one of them is validated, filled in and pruned by the other as by
// its own.
func (c *comparison) areAlike(p, q *part) bool {
	return p.Name == q.Name || c.firstNameAlike(p.Name) == c.firstNameAlike(q.Name)
}

// firstNameAlike returns the name of the first version that is one with the version of a name.
func (c *comparison) firstNameAlike(name string) string {
	return cmp.Or(c.alikeNames.answerOf(c.findAlikeNames)[name], name)
}

// findAlikeNames asks both CRDs about all names of versions. A schema that may speak of apiVersion is alike to none,
// because the same rule says something else in each version. A name that one of the CRDs lacks is alike to none either.
// Only versions of one hash are compared: thousands of versions have millions of pairs, which no budget covers.
func (c *comparison) findAlikeNames() map[string]string {
	inOld, inNew := partsByName(c.oldParts), partsByName(c.newParts)
	first, seed, ofHash := map[string]string{}, maphash.MakeSeed(), map[uint64][]pair{}
	for _, o := range c.oldParts {
		n := inNew[o.Name]
		if n == nil || inOld[o.Name] != o || mindsVersion(o.props) || mindsVersion(n.props) {
			continue
		}
		hash := hashOfValues(seed, o.Served, o.Subresources, o.props, n.Served, n.Subresources, n.props)
		i := slices.IndexFunc(ofHash[hash], func(p pair) bool { return compareAlike(p.from, o) && compareAlike(p.to, n) })
		if i < 0 {
			i, ofHash[hash] = len(ofHash[hash]), append(ofHash[hash], pair{o, n})
		}
		first[o.Name] = ofHash[hash][i].from.Name
	}
	return first
}

// compareAlike reports whether one CRD says the same of two of its versions.
func compareAlike(a, b *part) bool {
	return a.Served == b.Served && reflect.DeepEqual(a.Subresources, b.Subresources) && sameSchema(a.props, b.props)
}

// gapsFor returns the gaps with objects of the given apiVersion.
func (a answer) gapsFor(apiVersion string) []contain.Gap {
	out := slices.Clone(a.gaps)
	for i := range out {
		if out[i].Witness == nil {
			continue
		}
		w := *out[i].Witness
		w.Object, w.Old = withVersion(w.Object, apiVersion), withVersion(w.Old, apiVersion)
		out[i].Witness = &w
	}
	return out
}

func withVersion(obj map[string]any, apiVersion string) map[string]any {
	if obj == nil || obj["apiVersion"] == apiVersion {
		return obj
	}
	obj = maps.Clone(obj)
	obj["apiVersion"] = apiVersion
	return obj
}

// inOwnWords undoes the step nameVersion in the texts of the gaps: they quote the rules of p as they stand in the CRD.
func inOwnWords(gaps []contain.Gap, asked, p *part) []contain.Gap {
	if asked.props == nil || asked.crdVersion != p.crdVersion || len(asked.props.XValidations) == 0 || &asked.props.XValidations[0] == &p.props.XValidations[0] {
		return gaps
	}
	gaps = slices.Clone(gaps)
	for i, r := range asked.props.XValidations {
		own := p.props.XValidations[i].Rule
		for k := range gaps {
			g := &gaps[k]
			if r.Rule == own || g.After != r.Rule {
				continue
			}
			g.Before, g.After, g.Detail = nil, own, strings.ReplaceAll(g.Detail, r.Rule, own)
			if g.Witness != nil {
				w := *g.Witness
				w.Errors = slices.Clone(w.Errors)
				for e := range w.Errors {
					w.Errors[e] = strings.ReplaceAll(w.Errors[e], r.Rule, own)
				}
				g.Witness = &w
			}
		}
	}
	return gaps
}

// mindsVersion tells whether the schema may say something about apiVersion, which every object has.
func mindsVersion(p *props) bool {
	if p == nil {
		return false
	}
	declared := p.Properties["apiVersion"]
	return !sameSchema(&declared, &props{}) && !sameSchema(&declared, &props{Type: "string"}) || len(p.Enum) > 0 || p.Not != nil ||
		len(p.AllOf)+len(p.AnyOf)+len(p.OneOf) > 0 ||
		slices.ContainsFunc(p.XValidations, func(r apiextensionsv1.ValidationRule) bool {
			return strings.Contains(r.Rule, "apiVersion") || strings.Contains(r.MessageExpression, "apiVersion")
		})
}
