package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/internal/resolvers"
)

func TestRolesAreThoseOfTheTable(t *testing.T) {
	table := []resolvers.Entry{{Name: "git"}, {Name: "http"}}
	for name, test := range map[string]struct {
		asked, want []string
	}{
		"none":    {nil, nil},
		"unknown": {[]string{"resolution", "resolver-svn"}, nil},
		"some":    {[]string{"resolver-http", "resolution", "resolver-http"}, []string{"resolver-http", "resolution"}},
		"all":     {[]string{"all"}, []string{"resolution", "crd-guard", "delivery", "features", "feature-webhook", "resolver-git", "resolver-http"}},
	} {
		got, err := chosenRoles(test.asked, table)
		if diff := cmp.Diff(test.want, got); diff != "" || (err == nil) != (test.want != nil) {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}
