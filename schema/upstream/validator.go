package upstream

// What is prepared once for all objects of a version? For example, the validator of the schema, and the trees that decide simple cases.

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"sluice.dev/schema"
)

// Options say which resource a schema belongs to.
type Options struct {
	// Group, Version and Kind are the resource's. Version is one name of spec.versions.
	Group, Version, Kind string
	// Namespaced is true for scope Namespaced. An object of a namespaced resource without a namespace counts as written to "default".
	Namespaced bool
	// KubeVersion is the API server's version; nil stands for that of the linked libraries. It decides which formats are
	// checked and whether [Validator.Ratchets].
	KubeVersion *version.Version
	// StatusSubresource is true if the version has the status subresource. Then a creation drops .status, an update keeps the old one, and
	// only [Validator.UpdateStatus] changes it.
	StatusSubresource bool
	// StatusUnchecked leaves embedded resources in .status unchecked, as requests to the status subresource do.
	StatusUnchecked bool
	// Scale is the version's scale subresource; nil if there is none.
	Scale *apiextensionsv1.CustomResourceSubresourceScale
	// PreserveUnknownFields is spec.preserveUnknownFields of the CRD: nothing is pruned.
	PreserveUnknownFields bool
}

// Validator holds one version of a custom resource, ready to judge objects. It is safe for concurrent use.
type Validator struct {
	opts       Options
	apiVersion string
	props      *props
	structural *structuralschema.Structural // nil: the structure is not known, and nothing is pruned or defaulted
	schema     validation.SchemaValidator
	status     validation.SchemaValidator // nil without a schema for .status
	spec       *spec.Schema               // the schema that schema validates with

	problem error // why the API server cannot prune with the schema

	odd          lazy[oddRules]
	isStructural lazy[bool]
	trees        lazy[trees]
	types        lazy[typeConverter]
	compiled     *RuleCache
	node         *schema.Node // the whole schema of a projection, if it is known
	// rulesElsewhere is set if the schema is a projection of one with rules.
	rulesElsewhere bool
	exact          bool // leave everything to the API server's code
	// plain is what an exact validator was made of.
	plain *Validator
}

// trees are forms of the schema that decide the simple cases fast, without the API server's code.
type trees struct {
	shape *shapeNode // nil: nothing is pruned or defaulted
	value *valueNode // nil: the schema has keywords that are not modelled
	cel   *celSchema // nil without a structure
	rules *ruleNode  // nil: there are no rules, or odd ones
	// oddRules is set if the API server's own tree has to evaluate the rules.
	oddRules bool
}

// lazyTrees returns the trees. They are made on first use.
func (v *Validator) lazyTrees() *trees {
	return v.trees.getOrCreate(func() *trees {
		t := &trees{shape: newShapeNode(v.structural), oddRules: v.exact}
		if v.structural != nil {
			t.cel = newCELSchema(v.structural)
		}
		if v.exact {
			return t
		}
		t.value = newValueNode(v.spec)
		if v.structural != nil {
			m := ruleTreeMaker{cache: v.compiled, known: v.node != nil}
			root := m.makeNode(v.props, true, v.node, "")
			if t.oddRules = m.odd; root != nil && !m.odd {
				root.attachSchemas(t.cel)
				t.rules = root
			}
		}
		return t
	})
}

// New prepares the schema props. Nil props stand for a version without a schema: everything is kept and accepted.
//
// A schema that is not structural (old CRDs) is used as far as possible: if it has no readable structure, the validator only validates.
// [Validator.Structural] reports that. The error says why the schema cannot validate: it holds JSON that cannot be decoded, or a $ref
// that is not a reference; or it is [ErrTooDeep].
//
// New does not copy props. Do not change them afterwards.
func New(props *apiextensionsv1.JSONSchemaProps, o Options) (v *Validator, err error) {
	defer recoverAsError(&err)
	if err := checkSchema(props, 0); err != nil {
		return nil, err
	}
	library := LibraryVersion(o.KubeVersion)
	if !ChecksNumbers(o.KubeVersion) {
		props = withoutNumberChecks(props)
	}
	v = &Validator{opts: o, props: props, apiVersion: o.Group + "/" + o.Version, compiled: &RuleCache{}}
	var internal *apiextensions.JSONSchemaProps
	if props != nil {
		internal = &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, internal, nil); err != nil {
			return nil, fmt.Errorf("schema: %w", err)
		}
	}
	if v.schema, v.spec, err = validation.NewSchemaValidatorForVersion(internal, library); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if internal == nil {
		return v, nil
	}
	if status, ok := internal.Properties["status"]; ok {
		if v.status, _, err = validation.NewSchemaValidatorForVersion(&status, library); err != nil {
			return nil, fmt.Errorf("schema of status: %w", err)
		}
	}
	v.structural, v.problem = structuralOf(internal)
	return v, nil
}

// Exact returns a validator with the same schema that leaves every step to the API server's own code. v decides the simple steps with
// code that is shorter and gives the same results, as tests show. An exact validator takes several times as long: it compiles all rules
// of the schema at once, see [Validator.Costs].
func (v *Validator) Exact() *Validator {
	return &Validator{
		opts: v.opts, apiVersion: v.apiVersion, props: v.props, structural: v.structural, schema: v.schema, status: v.status, spec: v.spec,
		problem: v.problem, compiled: v.compiled, node: v.node, rulesElsewhere: v.rulesElsewhere, exact: true, plain: v,
	}
}

// structuralOf reads the structural part of a schema, with its defaults pruned. Only the defaults are changed in place, because they were
// decoded for this schema alone.
func structuralOf(internal *apiextensions.JSONSchemaProps) (*structuralschema.Structural, error) {
	s, err := structuralschema.NewStructural(internal)
	if err != nil {
		return nil, err
	}
	if err := structuraldefaulting.PruneDefaults(s); err != nil {
		return nil, err
	}
	return s, nil
}

// Structural reports whether the schema is structural, as apiextensions.k8s.io/v1 demands of new CRDs. If it is not, pruning and
// defaulting follow the structure that can be read.
func (v *Validator) Structural() bool {
	var err error
	defer recoverAsError(&err)
	return *v.isStructural.getOrCreate(func() *bool {
		yes := v.problem == nil &&
			(v.structural == nil || len(structuralschema.ValidateStructural(field.NewPath("schema"), v.structural)) == 0)
		return &yes
	})
}

// Ratchets reports whether an API server of [Options.KubeVersion] tolerates errors in values that an update does not change (on by
// default since 1.30), in requests that are not for the status subresource.
func (v *Validator) Ratchets() bool { return RatchetsIn(v.opts.KubeVersion) }

// LibraryVersion is the version whose formats and CEL library an API server accepts in new definitions. It is the previous version, so
// that the API server can be rolled back (environment.DefaultCompatibilityVersion). nil stands for the linked libraries.
func LibraryVersion(kube *version.Version) *version.Version {
	if kube == nil || kube.Minor() == 0 {
		return environment.DefaultCompatibilityVersion()
	}
	return version.MajorMinor(kube.Major(), kube.Minor()-1)
}

// oddRules are the validation rules as the API server compiles them; nil without any.
type oddRules struct{ validator *cel.Validator }

// oddRules returns the rules of schemas that a ruleNode cannot evaluate correctly.
func (v *Validator) oddRules() *cel.Validator {
	return v.odd.getOrCreate(func() *oddRules {
		if v.structural == nil {
			return &oddRules{}
		}
		return &oddRules{cel.NewValidator(v.structural, true, celconfig.PerCallLimit)}
	}).validator
}

// typeConverter has the types of a schema, as an apply needs them.
type typeConverter struct {
	managedfields.TypeConverter

	err error
}

// how describes an update.
type how struct {
	from    *Validator // of the version that the object is stored in; nil: this one
	ratchet bool       // tolerate errors in unchanged values
	status  bool       // through the status subresource
	touch   bool       // nothing but a label differs from the stored object
	plain   bool       // the metadata are certainly valid, and differ from those of the stored object at most in a label
}
