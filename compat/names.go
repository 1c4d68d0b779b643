package compat

// Which names of the CRD are gone or different? Clients, discovery and RBAC use them. For example, the plural is part of every URL.

import (
	"cmp"
	"context"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
)

// hasBothCRDs reports whether there are two CRDs to compare.
func (c *comparison) hasBothCRDs() bool { return c.old != nil && c.new != nil }

// ofBothCRDs asks about the CRD as a whole if there are two to compare.
func ofBothCRDs(f func(c *comparison) []report.Finding) func(context.Context, *comparison) []report.Finding {
	return func(_ context.Context, c *comparison) []report.Finding {
		if !c.hasBothCRDs() {
			return nil
		}
		return f(c)
	}
}

// inServedVersions asks about each version that was served and still is.
func inServedVersions(f func(p pair) []report.Finding) func(context.Context, *comparison) []report.Finding {
	return func(_ context.Context, c *comparison) (out []report.Finding) {
		for _, p := range c.servedPairs() {
			out = append(out, f(p)...)
		}
		return out
	}
}

// servedPairs are the versions that were served and still are.
func (c *comparison) servedPairs() []pair {
	return slices.DeleteFunc(slices.Clone(c.pairs), func(p pair) bool { return !p.from.Served || !p.to.Served })
}

// nameChanged reports that a name of the CRD changed. If the API server refuses that, the finding says so in its words.
// The API server refuses most of these changes once the CRD is established (requireImmutableNames in
// k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation). The finding then has the level of a refusal, and
// quotes it.
func (c *comparison) nameChanged(what, from, to string, tokens ...string) []report.Finding {
	if from == to {
		return nil
	}
	f := report.Finding{
		Message: what + " changed from " + cmp.Or(from, "nothing") + " to " + cmp.Or(to, "nothing"), Before: from, After: to, SchemaPath: tokens,
	}
	if words := c.refusalWords(strings.Join(tokens, ".")); words != "" {
		f.Level = report.RefusedByAPIServer
		f.Message += "; the API server refuses this: " + brief.Clip(words, maxEffect)
	}
	return []report.Finding{f}
}

// singularOrDefault and listKind are what the API server makes of names that are left out (SetDefaults_CustomResourceDefinitionSpec).
func singularOrDefault(n *apiextensionsv1.CustomResourceDefinitionNames) string {
	return cmp.Or(n.Singular, strings.ToLower(n.Kind))
}

func listKind(n *apiextensionsv1.CustomResourceDefinitionNames) string {
	return cmp.Or(n.ListKind, n.Kind+"List")
}

// namesGone reports the names of old that are not in new.
// Each name is told once, in the order of old, even if old has it twice.
func namesGone(old, new []string, tell func(string) report.Finding) []report.Finding {
	var out []report.Finding
	seen := map[string]bool{}
	for _, n := range new {
		seen[n] = true
	}
	for _, o := range old {
		if !seen[o] {
			seen[o] = true
			out = append(out, tell(o))
		}
	}
	return out
}
