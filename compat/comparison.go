package compat

// What is known about the two CRDs while their rules run? A comparison holds both, their versions, the budget, and the answers of the
// prover so far. For example, the answer for v1 of both sides serves every rule about fields.

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
	"sluice.dev/schema/contain"
	"sluice.dev/schema/upstream"
)

// withSchema returns the version with another schema, for a question about it.
// Caches of the part are not taken over, because they are about the old schema.
func (p *part) withSchema(changed *props) *part {
	return &part{crdVersion: p.crdVersion, index: p.index, isOld: p.isOld, storedIn: p.storedIn, unchecked: p.unchecked, onlyLost: p.onlyLost, props: changed}
}

// newComparison prepares both CRDs, of which one may be nil. Literals such as defaults are written as the API server
// stores them, so that 1.0 and 1 are no change. Nothing is compared yet. A version is compared with itself if clients
// of the old CRD used it, or if objects may be stored in it.
func newComparison(old, new *crd, o Options) *comparison {
	old, new = schema.WithStoredLiterals(old), schema.WithStoredLiterals(new)
	c := &comparison{opts: o, rules: Rules(), old: old, new: new, gaps: map[pair][]contain.Gap{}, made: map[journeyStep]*part{}}
	c.work, c.checks = contain.NewWork(c.searchBudget()), contain.NewWork(max(c.workBudget()/validationShare, leastValidation))
	c.oldParts, c.newParts = partsOf(old, true), partsOf(new, false)
	c.oldConversions = webhookConversions(old, c.oldParts, c.storedVersions())
	c.newConversions = webhookConversions(new, c.newParts, c.storedVersions())
	for _, from := range c.oldParts {
		if to := findVersion(c.newParts, from.Name); to != nil && (from.Served || c.isStored(from.Name)) {
			c.pairs = append(c.pairs, pair{from, to})
		}
	}
	return c
}

func (c *comparison) workBudget() int64 { return cmp.Or(c.opts.Budget, DefaultBudget) }

// searchBudget is what is left of the budget for comparisons of schemas.
// A third goes to the API server's validation, which runs beside the comparison and must not take from it. If an API
// server has accepted the CRD already, nothing is validated, and the comparison has all.
func (c *comparison) searchBudget() int64 {
	if c.opts.Accepted {
		return c.workBudget()
	}
	return max(1, c.workBudget()-c.workBudget()/validationShare)
}

// partsOf returns the versions of a CRD in the order of the document; nil for a nil CRD. Under
// spec.preserveUnknownFields each schema is rewritten so that it keeps all fields, because the API server prunes
// nothing then (k8s.io/apiextensions-apiserver/pkg/apiserver, customresource_handler.go).
func partsOf(d *crd, isOld bool) []*part {
	if d == nil {
		return nil
	}
	ps := make([]*part, len(d.Spec.Versions))
	for i := range d.Spec.Versions {
		v := &d.Spec.Versions[i]
		ps[i] = &part{crdVersion: v, index: i, isOld: isOld, props: schemaProps(v)}
		if d.Spec.PreserveUnknownFields && ps[i].props != nil {
			ps[i].props = keepAll(ps[i].props)
		}
	}
	return ps
}

func schemaProps(v *crdVersion) *props {
	if v.Schema == nil {
		return nil
	}
	return v.Schema.OpenAPIV3Schema
}

// findVersion returns the version of a name; nil if there is none.
func findVersion(ps []*part, name string) *part {
	if i := slices.IndexFunc(ps, func(p *part) bool { return p.Name == name }); i >= 0 {
		return ps[i]
	}
	return nil
}

// partsByName returns the versions by their names; of several of one name the first, as [findVersion] does.
func partsByName(ps []*part) map[string]*part {
	out := make(map[string]*part, len(ps))
	for _, p := range slices.Backward(ps) {
		out[p.Name] = p
	}
	return out
}

// storageVersionOf returns the version that stores objects; nil for a CRD that is nil or names none, which no API
// server accepts.
func storageVersionOf(ps []*part) *part {
	if i := slices.IndexFunc(ps, func(p *part) bool { return p.Storage }); i >= 0 {
		return ps[i]
	}
	return nil
}

func servedVersionsOf(ps []*part) []*part {
	return slices.DeleteFunc(slices.Clone(ps), func(p *part) bool { return !p.Served })
}

// crdName returns the name of the CRD.
func (c *comparison) crdName() string {
	if c.new != nil {
		return c.new.Name
	}
	return c.old.Name
}

// storedVersions are those in which objects may be stored under the old CRD: a manifest carries no status, so that its
// storage version counts.
// The order is that of the status, then that of the caller.
func (c *comparison) storedVersions() []string {
	var out []string
	add := func(names ...string) {
		for _, n := range names {
			if n != "" && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	if c.old != nil {
		add(c.old.Status.StoredVersions...)
	}
	add(c.opts.Stored...)
	if s := storageVersionOf(c.oldParts); s != nil {
		add(s.Name)
	}
	return out
}

func (c *comparison) isStored(version string) bool {
	return slices.Contains(c.storedVersions(), version)
}

// onlyTextsDiffer tells, without looking at what schemas mean, whether both CRDs say the same but for texts in schemas.
// It comes before all other work: an update that only changes descriptions is proven safe by this comparison of words.
func (c *comparison) onlyTextsDiffer() bool {
	if c.old == nil || c.new == nil || !c.sameFrame() {
		return false
	}
	for i := range c.old.Spec.Versions {
		if !sameSchema(schemaProps(&c.old.Spec.Versions[i]), schemaProps(&c.new.Spec.Versions[i])) {
			return false
		}
	}
	return true
}

// sameFrame reports whether both CRDs are equal but for their schemas.
// Stored versions count too: without one of them in the new CRD the objects in it are lost, though both manifests are
// alike.
func (c *comparison) sameFrame() bool {
	if len(c.old.Spec.Versions) != len(c.new.Spec.Versions) ||
		c.old.Annotations[apiextensionsv1.KubeAPIApprovedAnnotation] != c.new.Annotations[apiextensionsv1.KubeAPIApprovedAnnotation] {
		return false
	}
	o, n := c.old.Spec, c.new.Spec
	o.Versions, n.Versions = nil, nil
	if !reflect.DeepEqual(o, n) {
		return false
	}
	for i := range c.old.Spec.Versions {
		a, b := c.old.Spec.Versions[i], c.new.Spec.Versions[i]
		if (schemaProps(&a) == nil) != (schemaProps(&b) == nil) {
			return false
		}
		a.Schema, b.Schema = nil, nil
		if !reflect.DeepEqual(a, b) {
			return false
		}
	}
	// A stored version that the new CRD lacks is harm, though both manifests are alike.
	return !slices.ContainsFunc(c.storedVersions(), func(v string) bool { return findVersion(c.newParts, v) == nil })
}

// sameHashes reports whether both CRDs mean the same, texts of validation rules aside.
// It needs the schemas in normal form, and comes last, when all rules have run.
func (c *comparison) sameHashes() bool {
	if !c.sameFrame() {
		return false
	}
	for i, o := range c.oldParts {
		n := c.newParts[i]
		if o.buildSchema() != nil || n.buildSchema() != nil || o.side.Node.Hash() != n.side.Node.Hash() {
			return false
		}
	}
	return true
}

// buildSchema normalises the schema, once.
func (p *part) buildSchema() error {
	if !p.built {
		p.built = true
		p.side, p.err = contain.NewSide(p.props)
		p.side.StatusUnchecked = p.unchecked
	}
	return p.err
}

func (p *part) schemaNode() *schema.Node { return p.side.Node }

// documentTokens leads to this version in the document, and on.
// For the first version and "schema" it is spec, versions, 0, schema, as [report.Finding] has it.
func (p *part) documentTokens(more ...string) []string {
	return append([]string{"spec", "versions", strconv.Itoa(p.index)}, more...)
}

// containOptions are what the prover has to know about the objects of a version. Group, kind and scope are those of
// the new CRD; changes of these have rules of their own.
func (c *comparison) containOptions(p *part) contain.Options {
	d := c.new
	if d == nil {
		d = c.old
	}
	return contain.Options{
		Group: d.Spec.Group, Version: p.Name, Kind: d.Spec.Names.Kind, Namespaced: d.Spec.Scope == apiextensionsv1.NamespaceScoped,
		KubeVersion: c.opts.KubeVersion, Budget: c.searchBudget(), Work: c.work, Shared: &c.shared,
	}
}

// groupVersionOf is the apiVersion of objects of a version.
func (c *comparison) groupVersionOf(p *part) string { return c.containOptions(p).Group + "/" + p.Name }

// keepAll returns the schema with unknown fields kept at every place, as spec.preserveUnknownFields has it.
// The status and metadata are no exceptions: spec.preserveUnknownFields is about the whole object.
func keepAll(p *props) *props {
	keep := true
	return schema.Rewrite(p, schema.InStructure, func(s *props) { s.XPreserveUnknownFields = &keep })
}

// otherVersion reports whether the rules are those of another Kubernetes version than the code that is run.
// Patch releases do not count: validation changes between minor releases.
func (c *comparison) otherVersion() bool {
	k := c.opts.KubeVersion
	return k != nil && (k.Major() != upstream.Newest.Major() || k.Minor() != upstream.Newest.Minor())
}

func indexToken(i int) string { return strconv.Itoa(i) }
