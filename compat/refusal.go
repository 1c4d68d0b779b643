package compat

// Does the API server accept the new CRD? Its own validation answers, of a server if one is asked or has answered before, else in this
// process and within the budget. For example, a rule that could cost too much is refused, and so is a schema that is not structural.

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"sluice.dev/schema/upstream"
)

// validateByServer asks the API server, or runs its validation where there is none.
// The linked code runs even if a server is asked, because it alone says what a fresh installation would meet and what
// is wrong with the old CRD.
func (c *comparison) validateByServer(ctx context.Context) *refusal {
	if c.opts.Accepted {
		return &refusal{byServer: true}
	}
	r := c.validateHere(ctx)
	if c.opts.Server == nil || c.new == nil {
		return r
	}
	errs, err := c.opts.Server(ctx, c.old, c.new)
	if admission, ok := errors.AsType[*AdmissionError](err); ok {
		r.denied = admission.Says
		return r
	}
	r.byServer = true
	if err != nil || len(errs) > 0 || len(r.errs) > 0 || c.otherVersion() { // whether the server would take it anew is not known
		r.fresh = nil
	}
	r.errs, r.err = errs, err
	return r
}

// validateHere runs the API server's validation. It spares the costly validation of an update where a cheaper one shows
// that there is nothing to find: creation is stricter than an update about schemas, and the rest of the CRD is validated
// with schemas cut out.
func (c *comparison) validateHere(ctx context.Context) *refusal {
	r := &refusal{}
	if c.new == nil {
		return r
	}
	affords := func(d *crd) bool {
		units := upstream.ValidationWork(d)
		if c.otherVersion() {
			units *= 2 // the rules are compiled once more, with the library of that version
		}
		return c.checks.Charge(units)
	}
	if !affords(c.new) {
		r.err = errTooMuchToValidate
		return r
	}
	fresh, err := upstream.ValidateCRD(ctx, c.new, c.opts.KubeVersion)
	if err != nil || c.old == nil {
		r.errs, r.err = fresh, err
		return r
	}
	old, new := c.asInstalled()
	var frame field.ErrorList
	// An update of schemas alone needs one validation, that of the new CRD as if nothing were installed.
	if len(fresh) > 0 || !c.sameFrame() { // an update is held to no more than a creation is, but for what it changes
		if frame, err = upstream.ValidateCRDUpdate(ctx, withoutSchemas(new), withoutSchemas(old), c.opts.KubeVersion); err != nil {
			r.err = err
			return r
		}
	}
	if len(fresh) > 0 || len(frame) > 0 {
		if !affords(c.new) {
			r.err = errTooMuchToValidate
			return r
		}
		if r.errs, r.err = upstream.ValidateCRDUpdate(ctx, new, old, c.opts.KubeVersion); r.err != nil {
			return r
		}
	}
	if len(r.errs) == 0 {
		r.fresh = fresh
	}
	// The old CRD has less left to validate, the more it has in common with the new one.
	if len(fresh) == 0 { // what the new CRD has too is valid: look at the rest first
		rest := withoutEqualParts(c.old, c.new)
		if !affords(rest) {
			return r // the new CRD is what matters
		}
		if r.old, r.err = upstream.ValidateCRD(ctx, rest, c.opts.KubeVersion); r.err != nil || len(r.old) == 0 {
			return r
		}
	}
	if affords(c.old) {
		r.old, r.err = upstream.ValidateCRD(ctx, c.old, c.opts.KubeVersion)
	}
	return r
}

var errTooMuchToValidate = errors.New("its schemas and rules are too many or too long: the part of the budget that is for the API server's validation does not suffice; " +
	"a larger one (--budget) may decide this")

// frameAccepted reports whether the API server takes the update, schemas aside: metadata, names, and what else stands around
// them. What is equal on both sides is not asked about: it is installed, or both were refused.
// It decides whether the shortcut for unchanged CRDs is allowed: such a CRD may still be refused for a label or a
// finalizer.
func (c *comparison) frameAccepted(ctx context.Context) bool {
	if c.opts.Accepted {
		return true
	}
	if c.opts.Server != nil {
		errs, err := c.opts.Server(ctx, c.old, c.new)
		return err == nil && len(errs) == 0
	}
	if reflect.DeepEqual(ownMetadata(c.old.ObjectMeta), ownMetadata(c.new.ObjectMeta)) {
		return true
	}
	old, new := c.asInstalled()
	errs, err := upstream.ValidateCRDUpdate(ctx, withoutSchemas(new), withoutSchemas(old), c.opts.KubeVersion)
	return err == nil && len(errs) == 0
}

// asInstalled returns the two CRDs as they meet in the API server: the old one is established and names its stored
// versions; the new one gets that status, with its storage version added (PrepareForUpdate in
// k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go).
// Without the status, the validation would take both CRDs for new ones and miss that names must not change, and that
// a stored version must stay.
func (c *comparison) asInstalled() (old, new *crd) {
	o, n := *c.old, *c.new
	// A live CRD carries what the server has set (uid, generation and so on), a manifest does not; an update that leaves
	// them out keeps them.
	o.ObjectMeta, n.ObjectMeta = ownMetadata(o.ObjectMeta), ownMetadata(n.ObjectMeta)
	stored := c.storedVersions()
	o.Status = apiextensionsv1.CustomResourceDefinitionStatus{
		StoredVersions: stored,
		AcceptedNames:  o.Spec.Names,
		Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
			{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
		},
	}
	n.Status = o.Status
	if s := storageVersionOf(c.newParts); s != nil && !slices.Contains(stored, s.Name) {
		n.Status.StoredVersions = append(slices.Clone(stored), s.Name)
	}
	return &o, &n
}

// withoutSchemas returns d with schemas that say nothing, and without what needs them.
// What is left is cheap to validate, whatever the size of the schemas.
func withoutSchemas(d *crd) *crd {
	out := *d
	out.Spec.Versions = slices.Clone(d.Spec.Versions)
	for i := range out.Spec.Versions {
		out.Spec.Versions[i].Schema = anySchema()
		out.Spec.Versions[i].SelectableFields = nil
	}
	return &out
}

func anySchema() *apiextensionsv1.CustomResourceValidation {
	keep := true
	return &apiextensionsv1.CustomResourceValidation{
		OpenAPIV3Schema: &props{Type: "object", XPreserveUnknownFields: &keep},
	}
}

// withoutEqualParts returns d without properties that other has too, where nothing around them needs them in order to be
// valid: rules, defaults, list keys and junctors depend on the schemas below them.
func withoutEqualParts(d, other *crd) *crd {
	out := *d
	out.Spec.Versions = slices.Clone(d.Spec.Versions)
	for i := range out.Spec.Versions {
		v := &out.Spec.Versions[i]
		p := schemaProps(v)
		j := slices.IndexFunc(other.Spec.Versions, func(w crdVersion) bool { return w.Name == v.Name })
		if p == nil || j < 0 || len(v.SelectableFields) > 0 {
			continue
		}
		if rest, same := cutEqual(p, schemaProps(&other.Spec.Versions[j]), 0); same {
			v.Schema = anySchema()
		} else {
			v.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: rest}
		}
	}
	return &out
}

// cutEqual returns p without properties that q has too, and whether q is p but for texts. It looks at every schema once.
// It goes at most 100 levels deep. Below that, and below each schema whose keywords depend on the schemas in it, it
// leaves out nothing.
func cutEqual(p, q *props, depth int) (rest *props, same bool) {
	if q == nil || depth > 100 || len(p.XValidations) > 0 || p.Default != nil || p.Not != nil || p.XEmbeddedResource ||
		len(p.AllOf)+len(p.AnyOf)+len(p.OneOf)+len(p.XListMapKeys) > 0 {
		return p, sameSchema(p, q)
	}
	out, own, other := *p, *p, *q // own and other are compared without what is cut
	out.Properties, same = cutProperties(p.Properties, q.Properties, depth+1)
	own.Properties, other.Properties = nil, nil
	cut := func(a, b *props) *props {
		left, equal := cutEqual(a, b, depth+1)
		same = same && equal
		return left
	}
	if hasOneItem(p) && hasOneItem(q) && p.XListType == nil {
		out.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: cut(p.Items.Schema, q.Items.Schema)}
		own.Items, other.Items = nil, nil
	}
	if ap, aq := p.AdditionalProperties, q.AdditionalProperties; ap != nil && ap.Schema != nil && aq != nil && aq.Schema != nil && ap.Allows == aq.Allows {
		out.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: ap.Allows, Schema: cut(ap.Schema, aq.Schema)}
		own.AdditionalProperties, other.AdditionalProperties = nil, nil
	}
	return &out, same && sameSchema(&own, &other)
}

// cutProperties is cutEqual for properties.
func cutProperties(p, q map[string]props, depth int) (rest map[string]props, same bool) {
	same = len(p) == len(q)
	for name, sub := range p {
		left, equal := &sub, false
		if other, ok := q[name]; ok {
			left, equal = cutEqual(&sub, &other, depth)
		}
		if same = same && equal; equal {
			continue
		}
		if rest == nil {
			rest = make(map[string]props, len(p))
		}
		rest[name] = *left
	}
	return rest, same
}

// hasOneItem reports whether one schema holds for all items.
func hasOneItem(p *props) bool {
	return p.Items != nil && p.Items.Schema != nil && len(p.Items.JSONSchemas) == 0
}

// ownMetadata is what the author of a manifest decides of its metadata.
// A controller or the API server sets all other fields.
func ownMetadata(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, Labels: m.Labels, Annotations: m.Annotations, Finalizers: m.Finalizers, OwnerReferences: m.OwnerReferences,
	}
}

// isErrorAbout reports whether the error is about the field of the CRD, or something in it.
// spec.names is about spec.names.kind, and not about spec.namesX.
func isErrorAbout(e *field.Error, path string) bool {
	rest, ok := strings.CutPrefix(e.Field, path)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// refusalWords returns the words with which the API server refuses the field of the CRD, or an empty string.
func (c *comparison) refusalWords(path string) string {
	for _, e := range c.refusal().errs {
		if isErrorAbout(e, path) {
			return e.Error()
		}
	}
	return ""
}
