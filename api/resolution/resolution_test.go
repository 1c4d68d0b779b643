package resolution_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/api/resolution"
)

func TestWhichResolverTheLabelsSelect(t *testing.T) {
	const kind, older = resolution.LabelType, resolution.LabelResolver
	for name, test := range map[string]struct {
		labels map[string]string
		want   string // empty: an error
	}{
		"none":             {nil, ""},
		"empty":            {map[string]string{kind: ""}, ""},
		"type":             {map[string]string{kind: "git"}, "git"},
		"older":            {map[string]string{older: "git"}, "git"},
		"older alias":      {map[string]string{older: "in-cluster"}, "cluster"},
		"both":             {map[string]string{kind: "git", older: "git"}, "git"},
		"both, one alias":  {map[string]string{kind: "bundles", older: "bundle"}, "bundles"},
		"both, disagree":   {map[string]string{kind: "git", older: "http"}, ""},
		"one of our users": {map[string]string{kind: "their-own"}, "their-own"},
	} {
		got, err := resolution.Resolver(test.labels)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, test.want)
		}
	}
	if diff := cmp.Diff([]string{"bundles", "bundle"}, resolution.Names("bundle")); diff != "" {
		t.Error(diff)
	}
}
