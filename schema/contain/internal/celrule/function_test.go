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
// type, needs a row. What a row translates is a call that there is.
func TestFunctionsAreThoseOfKubernetes(t *testing.T) {
	plain := regexp.MustCompile(`^[a-zA-Z]+$`)
	arguments := map[string][]int{} // how many a call can have, the receiver among them
	for minor := uint(25); minor <= environment.DefaultCompatibilityVersion().Minor()+1; minor++ {
		env, err := environment.MustBaseEnvSet(version.MajorMinor(1, minor)).Env(environment.StoredExpressions)
		if err != nil {
			t.Fatal(err)
		}
		for name, f := range env.Functions() {
			var results []string
			var counts []int
			authorizer := false
			for _, o := range f.OverloadDecls() {
				counts = append(counts, len(o.ArgTypes()))
				kind := ownKinds[o.ResultType().Kind()]
				if !slices.Contains(results, kind) {
					results = append(results, kind)
				}
				for _, a := range o.ArgTypes() {
					authorizer = authorizer || strings.HasPrefix(a.TypeName(), "kubernetes.authorization.")
				}
			}
			if authorizer {
				continue // nothing for a CRD
			}
			arguments[name] = append(arguments[name], counts...)
			if !plain.MatchString(name) || name == "in" {
				continue // an operator, or one of several words
			}
			want := ""
			if len(results) == 1 {
				want = results[0]
			}
			if got, ok := functionsByName()[name]; !ok || got.typ != want {
				t.Errorf("1.%d: %s gives %q; its row: %+v, %t", minor, name, want, got, ok)
			}
		}
	}
	for name, f := range functionsByName() {
		if arguments[name] == nil {
			t.Errorf("no version has the function %s", name)
		}
		for n, translated := range map[int]bool{1: f.one != nil, 2: f.two != nil, 3: f.three != nil} {
			if translated && !slices.Contains(arguments[name], n) {
				t.Errorf("%s is translated with %d arguments, and has %v", name, n, arguments[name])
			}
		}
	}
}
