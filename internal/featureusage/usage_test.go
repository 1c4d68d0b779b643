package featureusage_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/internal/cluster"
	"sluice.dev/internal/featureusage"
)

// stored are the objects of the resource pipes, stored in v1, in which field a of v2 has the name b.
const stored = `
- metadata: {name: plain, namespace: x, uid: "1"}
  spec: {}
- metadata: {name: field, namespace: x, uid: "2"}
  spec: {a: 1}
- metadata: {name: version, namespace: x, uid: "3", managedFields: [{apiVersion: demo.dev/v2, operation: Update, fieldsV1: {"f:spec": {"f:x": {}}}}]}
  spec: {}
- metadata: {name: both, namespace: y, uid: "4", managedFields: [{apiVersion: demo.dev/v2, operation: Update, fieldsV1: {"f:spec": {"f:x": {}}}}]}
  spec: {a: 1}
- metadata: {name: status, namespace: y, uid: "5", managedFields: [{apiVersion: demo.dev/v2, operation: Update, subresource: status, fieldsV1: {"f:spec": {"f:x": {}}}}]}
  spec: {}
- metadata: {name: new, namespace: y, uid: "6"}
  spec: {onlyInTwo: 1}
- metadata: {name: everything, namespace: y, uid: "7", managedFields: [{apiVersion: demo.dev/v2, operation: Update, fieldsV1: {"f:spec": {"f:x": {}}}}]}
  spec: {a: 1, onlyInTwo: 1}
`

// serve serves them in both versions; onlyInTwo is seen in v2 only. It tells which versions were listed.
func serve(t *testing.T, listed map[string]int) *cluster.Cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		version := strings.Split(r.URL.Path, "/")[3]
		listed[version]++
		var items []map[string]any
		if err := yaml.Unmarshal([]byte(stored), &items); err != nil {
			t.Error(err)
		}
		for _, o := range items {
			o["apiVersion"], o["kind"] = "demo.dev/"+version, "Pipe"
			if spec, _ := o["spec"].(map[string]any); version == "v1" {
				delete(spec, "onlyInTwo")
			}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(map[string]any{"apiVersion": "demo.dev/" + version, "kind": "PipeList", "metadata": map[string]any{"resourceVersion": "1"}, "items": items}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	c, err := cluster.For(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEachPartIsLookedForWhereItShows(t *testing.T) {
	type count struct {
		Objects, Uses int64
		Names         []string
	}
	for _, tt := range []struct {
		name, parts string
		want        count
		listed      map[string]int
	}{
		{"a field of the stored version", `[{field: spec.a, versions: [v1]}]`, count{3, 3, []string{"field", "both", "everything"}}, map[string]int{"v1": 1}},
		{"a whole version", `[{wholeVersion: true, versions: [v2]}]`, count{3, 3, []string{"version", "both", "everything"}}, map[string]int{"v1": 1}},
		{
			"a field beside a whole version", `[{field: spec.a, versions: [v1]}, {wholeVersion: true, versions: [v2]}]`,
			count{4, 6, []string{"field", "version", "both", "everything"}},
			map[string]int{"v1": 1},
		},
		{
			"a field of another version", `[{field: spec.a, versions: [v1]}, {field: spec.onlyInTwo, versions: [v2]}]`,
			count{4, 5, []string{"field", "both", "everything", "new"}},
			map[string]int{"v1": 1, "v2": 1},
		},
		{
			"all at once", `[{field: spec.onlyInTwo, versions: [v2]}, {wholeVersion: true, versions: [v2]}, {field: spec.a, versions: [v1]}]`,
			count{5, 8, []string{"field", "version", "both", "everything", "new"}},
			map[string]int{"v1": 1, "v2": 1},
		},
		{
			"a field of two versions, in two parts", `[{field: spec.a, versions: [v2]}, {field: spec.a, versions: [v1]}]`,
			count{3, 3, []string{"field", "both", "everything"}},
			map[string]int{"v1": 1},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var parts []v1alpha1.Part
			if err := yaml.UnmarshalStrict([]byte(tt.parts), &parts); err != nil {
				t.Fatal(err)
			}
			for i := range parts {
				parts[i].Group, parts[i].Resource = "demo.dev", "pipes"
			}
			component, f := &v1alpha1.Component{}, v1alpha1.Feature{}
			component.Name, component.Spec.Release = "demo", "v1.0.0"
			f.Spec = v1alpha1.FeatureSpec{Component: "demo", Gate: "Mixed", WhenDisabled: v1alpha1.Warn, Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}}, Parts: parts}
			m, findings := feature.Define(component, []v1alpha1.Feature{f}, feature.Options{})
			if err := findings.Err(); err != nil {
				t.Fatal(err)
			}
			listed := map[string]int{}
			s := &featureusage.Scan{
				Cluster: serve(t, listed), Models: []*feature.Model{m}, Names: 10,
				Resources: []featureusage.Resource{{Group: "demo.dev", Resource: "pipes", Storage: "v1", Namespaced: true}},
			}
			result, err := s.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			u := result.Of("demo", "Mixed")
			got := count{Objects: u.Objects, Uses: u.Uses}
			var inNamespaces int64
			for _, n := range u.Namespaces {
				inNamespaces += n.Objects
			}
			for _, o := range u.Names {
				got.Names = append(got.Names, o.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if inNamespaces != u.Objects {
				t.Errorf("%d objects in all, %d in namespaces", u.Objects, inNamespaces)
			}
			if diff := cmp.Diff(tt.listed, listed); diff != "" {
				t.Error(diff)
			}
		})
	}
}
