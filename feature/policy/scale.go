package policy

// Who judges a write of the subresource scale? The policies of a resource do not see it, so it has policies of its own. For example,
// kubectl scale --replicas=100 where more than 50 replicas need a feature.

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// scaled are the fields that the subresource scale of Kubernetes' own resources writes; other resources have them in their CRD.
var scaled = []struct{ group, resource string }{{"apps", "deployments"}, {"apps", "replicasets"}, {"apps", "statefulsets"}, {"", "replicationcontrollers"}}

// writtenByScale reports whether the subresource scale writes the gated part of a target: the replicas, or an object around them, which it
// creates if it is missing.
func writtenByScale(t *feature.Target) bool {
	names := t.Scale
	for _, s := range scaled {
		if s.group == t.Group && s.resource == t.Resource {
			names = []string{"spec", "replicas"}
		}
	}
	if t.WholeVersion || len(t.Path) > len(names) || len(t.Path) < len(names) && t.Narrowed() {
		return false
	}
	return slices.EqualFunc(t.Path, names[:len(t.Path)], func(s feature.Step, name string) bool { return s.Kind == feature.Field && s.Name == name })
}

// addScalePolicies adds policies for writes of the subresource scale that can set a gated part. The API server asks no policy of the resource
// about such a write. Its object has only the replicas, and lacks them if they are 0 or not set, so a stored 0 counts as no use. For a CRD,
// the write sets replicas that were not set, also to 0. Kubernetes' own kinds always have replicas.
func (c *compiler) addScalePolicies() {
	if c.minor < validatingSince || c.options.WithoutValidating {
		return
	}
	var order []*group
	for _, f := range c.model.Features() {
		state, _ := c.states.State(f.Spec.Gate)
		for i := range f.Targets {
			t := &f.Targets[i]
			if !writtenByScale(t) || c.leavesOut(t) {
				continue
			}
			k := kindOf(f)
			if k == drops {
				k = rejects // there is nothing else that could be written
			}
			order = c.addToGroup(order, k, unit{feature: f, target: t, state: state, shape: shapeOf(f, t)})
		}
	}
	for _, g := range order {
		c.addScalePolicy(g)
	}
}

// addScalePolicy adds the policy for the subresource scale of one version. The object of such a write has the replicas and nothing else to
// judge by, so a part around them is judged by the replicas too. It adds nothing if all features of the group are open for good.
func (c *compiler) addScalePolicy(g *group) {
	e := newEmitter(c.minor)
	gs := c.newGates(e)
	replicas := func(object string) string {
		return e.addVariable(object+"Replicas", fmt.Sprintf("has(%[1]s.spec) && has(%[1]s.spec.replicas) ? %[1]s.spec.replicas : 0", object))
	}
	now, before := replicas("object"), replicas("oldObject")
	g.units = slices.DeleteFunc(g.units, func(u unit) bool { return gs.isOpen(u.feature.Spec.Gate, true) == "true" })
	if len(g.units) == 0 {
		return
	}
	var valid, texts []string
	for i := range g.units {
		u := &g.units[i]
		open := gs.isOpen(u.feature.Spec.Gate, true)
		used, same, stored := isUseOf(u.target, now), before+" == "+now, isUseOf(u.target, before)
		if u.target.Scale != nil {
			same = before + " != 0 && " + same
		}
		stored = joinAnd(before+" != 0", stored)
		if u.shape.exact {
			stored = same
		}
		valid = append(valid, joinOr("!("+used+")", same, stored, open))
		texts = append(texts, joinOr("!("+used+")", same, stored, gs.isOpen(u.feature.Spec.Gate, false))+" ? '' : "+celString(u.target.Path.String()+c.problemOf(u)))
	}
	fail, actions := g.kind.failureAndActions()
	name := c.policyName(&group{apiGroup: g.apiGroup, resource: g.resource, version: g.version, kind: g.kind + "-scale"}, 1)
	c.groupOf[name] = g
	match := matchConstraints(g)
	match.ResourceRules[0].Resources = []string{g.resource + "/scale"}
	for i := range g.units {
		part := g.units[i].enforcedBy("ValidatingAdmissionPolicy", name)
		part.Undropped = g.units[i].feature.Spec.WhenDisabled == v1alpha1.Drop
		c.set.Enforced = append(c.set.Enforced, part)
	}
	c.set.addValidating(c.objectMeta(name, g), admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: fail, ParamKind: c.paramKind(), MatchConstraints: match, Variables: (&draft{emitter: e}).apiVariables(),
		Validations: []admissionregistrationv1.Validation{{
			Expression: "(" + strings.Join(valid, ") && (") + ")", Message: "the replicas need a feature that is off", MessageExpression: nonEmptyTexts(texts) + ".join('; also ')",
			Reason: new(metav1.StatusReasonInvalid),
		}},
	}, c.paramRef(), actions...)
}
