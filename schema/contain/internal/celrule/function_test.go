package celrule

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

// ownKinds are the types of CEL that a row of functions names.
var ownKinds = map[types.Kind]string{
	types.BoolKind: "bool", types.StringKind: "string", types.IntKind: "int", types.DoubleKind: "double", types.UintKind: "uint",
	types.BytesKind: "bytes", types.ListKind: "list", types.MapKind: "map",
}

// TestFunctionsAreThoseOfKubernetes holds the table against each version's environment: a function of a new version, or a result of another
// type, needs a row.
func TestFunctionsAreThoseOfKubernetes(t *testing.T) {
	plain := regexp.MustCompile(`^[a-zA-Z]+$`)
	seen := map[string]bool{}
	for minor := uint(25); minor <= uint(environment.DefaultCompatibilityVersion().Minor())+1; minor++ {
		env, err := environment.MustBaseEnvSet(version.MajorMinor(1, minor)).Env(environment.StoredExpressions)
		if err != nil {
			t.Fatal(err)
		}
		for name, f := range env.Functions() {
			var results []string
			authorizer := false
			for _, o := range f.OverloadDecls() {
				kind := ownKinds[o.ResultType().Kind()]
				if !slices.Contains(results, kind) {
					results = append(results, kind)
				}
				for _, a := range o.ArgTypes() {
					authorizer = authorizer || strings.HasPrefix(a.TypeName(), "kubernetes.authorization.")
				}
			}
			if !plain.MatchString(name) || name == "in" || authorizer {
				continue // an operator, one of several words, or nothing for a CRD
			}
			seen[name] = true
			want := ""
			if len(results) == 1 {
				want = results[0]
			}
			if got, ok := functions[name]; !ok || got.typ != want {
				t.Errorf("1.%d: %s gives %q; its row: %+v, %t", minor, name, want, got, ok)
			}
		}
	}
	for name := range functions {
		if !seen[name] {
			t.Errorf("no version has the function %s", name)
		}
	}
}
