package policy

// What can policies not express, so that the webhook has to judge it? For example, a part of a resource that the API server exempts from
// policies, or a pattern that is too long.

import (
	"fmt"
	"slices"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/schema"
)

// unasked are groups of resources that the API server exempts from policies (k8s.io/apiserver/pkg/admission/plugin/policy/generic).
var unasked = []string{"admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io"}

// webhookReason says why a target needs the webhook; empty if it does not.
func (c *compiler) webhookReason(u *unit) string {
	t, drop := u.target, u.feature.Spec.WhenDisabled == v1alpha1.Drop && !u.remains
	switch {
	case c.minor < validatingSince:
		return fmt.Sprintf("Kubernetes 1.%d has no ValidatingAdmissionPolicy v1, which came with 1.%d", c.minor, validatingSince)
	case drop && c.minor < mutatingSince:
		return fmt.Sprintf("Kubernetes 1.%d has no MutatingAdmissionPolicy v1, which came with 1.%d", c.minor, mutatingSince)
	case c.options.WithoutValidating:
		return "the API server does not serve ValidatingAdmissionPolicy v1"
	case drop && c.options.WithoutMutating:
		return "the API server does not serve MutatingAdmissionPolicy v1"
	case slices.Contains(unasked, t.Group):
		return "the API server asks no policy about resources of " + t.Group
	case t.WholeVersion:
		return ""
	}
	for i := range u.ways {
		if reason := c.unsaidOf(t, &u.ways[i]); reason != "" {
			return reason
		}
	}
	if reason := longPattern(t); reason != "" {
		return reason
	}
	if drop {
		return putBack(&u.shape)
	}
	return ""
}

// unsaidOf says why one way to find the values of a target needs the webhook.
func (c *compiler) unsaidOf(t *feature.Target, s *shape) string {
	if s.lists && c.minor < listsSince {
		return fmt.Sprintf("items of lists take functions that API servers take since Kubernetes 1.%d", listsSince)
	}
	if s.index && s.countLoops() > 1 && c.minor < nestedSince {
		return fmt.Sprintf("lists within lists take functions that API servers take since Kubernetes 1.%d", nestedSince)
	}
	for i, step := range t.Path {
		switch {
		case step.Kind == feature.Each && c.minor < nestedSince:
			return fmt.Sprintf("the schema does not say whether %s is a list or a map, which takes functions that API servers take since Kubernetes 1.%d", t.Path[:i], nestedSince)
		case step.Set && (i+1 < len(t.Path) || !isScalar(t.Schema)):
			return fmt.Sprintf("the items of the set %s are not all strings, numbers or booleans", t.Path[:i])
		}
	}
	if !s.exact || t.Values != nil {
		return ""
	}
	if s.open < len(t.Path) {
		return "any of the values beneath a list whose items have no identity may be the stored one, which takes too long to find out"
	}
	if t.Pattern == nil && !isScalar(t.Schema) {
		switch {
		case s.index:
			return "objects and arrays in a list cannot be compared with those that are stored in time proportional to their number"
		case mayHoldNull(t.Schema, 0):
			return "the value may hold null, which compares as another value than none"
		}
	}
	return ""
}

// longPattern says why a pattern costs too much; empty if it does not. A pattern costs the length of the string times that of the
// pattern (k8s.io/apiserver/pkg/cel/library, cost.go), for the new object and for the stored one.
func longPattern(t *feature.Target) string {
	cost := func(pattern string, n *schema.Node) string {
		longest := int64(maxText)
		if n != nil && n.MaxLength != nil {
			longest = min(longest, *n.MaxLength)
		}
		if total := 2 * (longest/10 + 1) * int64(len(pattern)/4+1); total > maxExpressionCost {
			return fmt.Sprintf("with a string of %d characters the pattern could cost %d, of 1000000 that an expression may cost; a maxLength in the schema would help", longest, total)
		}
		return ""
	}
	if t.Pattern != nil {
		return cost(t.Pattern.String(), t.Schema)
	}
	if t.Beyond != nil && t.Beyond.Pattern != "" {
		return cost(t.Beyond.Pattern, t.Schema)
	}
	for _, c := range t.Match {
		if c.Pattern != nil {
			if reason := cost(c.Pattern.String(), nil); reason != "" {
				return reason
			}
		}
	}
	return ""
}

// putBack says why a stored value cannot be restored when a new one is dropped; empty if it can, or never has to be.
func putBack(s *shape) string {
	t := s.target
	last := t.Path[len(t.Path)-1]
	switch {
	case !t.Narrowed() && !s.exact, last.Set, t.Reset != nil:
		return "" // if it is dropped, nothing was stored
	case s.loop < len(t.Path):
		return "a stored value may have to be put back into a list or map"
	case t.Schema == nil || t.Schema.Type != "string" && t.Schema.Type != "boolean" && (t.Schema.Type != "integer" || t.Schema.Format != "int32"):
		return "a stored value may have to be put back, which patches do with strings, booleans and 32-bit integers without loss"
	}
	return ""
}

// overlapsAny finds targets that name one entry of a map and all of them: both would take the same value out.
func overlapsAny(units []unit, u *unit) bool {
	return slices.ContainsFunc(units, func(o unit) bool {
		a, b := o.target.Path, u.target.Path
		if len(a) != len(b) {
			return false
		}
		differ := false
		for i := range a {
			switch {
			case (a[i].Kind == feature.Field) != (b[i].Kind == feature.Field):
				differ = true
			case a[i].Name != b[i].Name:
				return false
			}
		}
		return differ
	})
}
