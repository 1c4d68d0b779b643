package upstream

// Which rules of a CRD does an older API server not understand? For example, the functions for semantic versions came with one version of
// Kubernetes. An update may keep a rule that the old CRD has.

import (
	"slices"

	celgo "github.com/google/cel-go/cel"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"

	"sluice.dev/schema"
)

// rulesTooNew returns errors for the rules of crd that an API server older than the linked libraries does not understand, because they
// use a newer part of the CEL library. Rules that old has too are not reported. nil stands for no old CRD.
func rulesTooNew(crd, old *apiextensionsv1.CustomResourceDefinition, kube *version.Version) (field.ErrorList, error) {
	library := LibraryVersion(kube)
	if !library.LessThan(environment.DefaultCompatibilityVersion()) {
		return nil, nil
	}
	c := ruleChecker{env: environment.MustBaseEnvSet(library), known: map[string]bool{}}
	if old != nil {
		for i := range old.Spec.Versions {
			if s := old.Spec.Versions[i].Schema; s != nil && s.OpenAPIV3Schema != nil {
				c.learnExpressions(s.OpenAPIV3Schema)
			}
		}
	}
	if !RatchetsIn(kube) && !c.optional {
		crd = withoutOptionalOldSelf(crd)
	}
	internal, err := internalCRD(crd)
	if err != nil {
		return nil, err
	}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		validator, err := New(v.Schema.OpenAPIV3Schema, Options{})
		if err != nil {
			return nil, err
		}
		c.checkRules(validator.lazyTrees().rules, schemaPath(internal, i))
	}
	return c.errs, nil
}

// withoutOptionalOldSelf returns a copy without optionalOldSelf, as an API server stores the CRD before the feature CRDValidationRatcheting is on by
// default, if the old CRD has none (dropOptionalOldSelfField in k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go of v0.29).
func withoutOptionalOldSelf(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	crd = crd.DeepCopy()
	for i := range crd.Spec.Versions {
		if s := crd.Spec.Versions[i].Schema; s != nil && s.OpenAPIV3Schema != nil {
			s.OpenAPIV3Schema = schema.Rewrite(s.OpenAPIV3Schema, schema.InStructure, func(p *props) {
				p.XValidations = slices.Clone(p.XValidations)
				for r := range p.XValidations {
					p.XValidations[r].OptionalOldSelf = nil
				}
			})
		}
	}
	return crd
}

// schemaPath is the path at which the API server reports the schema of a version. If all versions have the same schema, that is the top
// of the spec.
func schemaPath(crd *apiextensions.CustomResourceDefinition, version int) *field.Path {
	if crd.Spec.Validation != nil {
		return field.NewPath("spec", "validation", "openAPIV3Schema")
	}
	return field.NewPath("spec", "versions").Index(version).Child("schema", "openAPIV3Schema")
}

type ruleChecker struct {
	env   *environment.EnvSet
	known map[string]bool // expressions of the old CRD
	errs  field.ErrorList
	// optional is set if a rule of the old CRD has optionalOldSelf.
	optional bool
}

// learnExpressions records the expressions of a schema.
func (c *ruleChecker) learnExpressions(s *props) {
	for p := range schema.Walk(s, schema.InStructure) {
		for i := range p.XValidations {
			c.known[p.XValidations[i].Rule] = true
			c.known[p.XValidations[i].MessageExpression] = true
			c.optional = c.optional || p.XValidations[i].OptionalOldSelf != nil
		}
	}
}

// RuleEnv implements cel.EnvLoader.
func (c *ruleChecker) RuleEnv(env *environment.EnvSet, expression string) *celgo.Env {
	if c.known[expression] {
		return env.StoredExpressionsEnv()
	}
	return env.NewExpressionsEnv()
}

// MessageExpressionEnv implements cel.EnvLoader.
func (c *ruleChecker) MessageExpressionEnv(env *environment.EnvSet, expression string) *celgo.Env {
	return c.RuleEnv(env, expression)
}

// checkRules compiles the rules of a node that have an expression which the old CRD lacks, with the library of the
// older API server, and notes their errors. Then it goes through the nodes below. The paths are those of the API
// server's errors (ValidateCustomResourceDefinitionOpenAPISchema in
// k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation).
func (c *ruleChecker) checkRules(n *ruleNode, path *field.Path) {
	if n == nil {
		return
	}
	if slices.ContainsFunc(n.rules, func(r apiextensionsv1.ValidationRule) bool { return !c.known[r.Rule] || !c.known[r.MessageExpression] }) {
		results, err := cel.Compile(n.structural, common.SchemaDeclType(n.schema, n.resource), celconfig.PerCallLimit, c.env, c)
		rules := path.Child("x-kubernetes-validations")
		if err != nil {
			c.errs = append(c.errs, field.InternalError(rules, err))
		}
		for i := range results {
			if e := results[i].Error; e != nil {
				c.errs = append(c.errs, field.Invalid(rules.Index(i).Child("rule"), n.rules[i].Rule, e.Detail))
			}
			if e := results[i].MessageExpressionError; e != nil {
				c.errs = append(c.errs, field.Invalid(rules.Index(i).Child("messageExpression"), n.rules[i].MessageExpression, e.Detail))
			}
		}
	}
	c.checkRules(n.items, path.Child("items"))
	c.checkRules(n.additional, path.Child("additionalProperties"))
	for _, p := range n.props {
		c.checkRules(p.node, path.Child("properties").Key(p.name))
	}
}
