package upstream_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/schema/upstream"
)

// TestFastAgreesWithUpstream compares what is decided without the API server's code with what that says.
func TestFastAgreesWithUpstream(t *testing.T) {
	all, accepted := 0, 0
	seeds(t, 400, func(seed uint64) {
		all++
		accepted += compareFast(t, seed)
	})
	if accepted < all/10 {
		t.Errorf("only %d of %d objects were accepted: too few to tell", accepted, all)
	}
}

func FuzzFast(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { compareFast(t, seed) })
}

// compareFast returns 1 where the object was accepted.
func compareFast(t *testing.T, seed uint64) int {
	t.Helper()
	g := generator{rand.New(rand.NewPCG(seed, 2))}
	schema := g.root()
	if g.chance(70) {
		clearRules(schema)
	}
	o := widgets
	o.StatusSubresource = g.chance(50)
	o.Namespaced = g.chance(90)
	o.PreserveUnknownFields = g.chance(5)
	fit := pick(g, 80, 95, 100)
	obj, old := g.resource(schema, fit), g.resource(schema, fit)
	g.metadata(obj)
	if g.chance(50) {
		old = asMap(g.mutate(obj))
	}
	exact, err := upstream.NewExact(schema, o)
	if err != nil {
		return 0
	}
	fast := newValidator(t, schema, o)
	before := jsonCopy(obj)
	if diff := compareVerdicts(t, exact, fast, obj, old); diff != "" {
		t.Errorf("seed %d: -exact +fast:\n%s\nschema:\n%s\nobject:\n%s\nold:\n%s", seed, diff, asYAML(t, schema), asYAML(t, obj), asYAML(t, old))
	}
	if diff := cmp.Diff(before, any(obj)); diff != "" {
		t.Errorf("seed %d: the object was changed:\n%s", seed, diff)
	}
	r, err := fast.Create(t.Context(), obj)
	if err != nil {
		t.Fatal(err)
	}
	if r.Refused() {
		return 0
	}
	return 1
}

func clearRules(s *props) {
	s.XValidations = nil
	for name := range s.Properties {
		child := s.Properties[name]
		clearRules(&child)
		s.Properties[name] = child
	}
	if s.Items != nil {
		clearRules(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		clearRules(s.AdditionalProperties.Schema)
	}
}

func jsonCopy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k := range v {
			out[k] = jsonCopy(v[k])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = jsonCopy(v[i])
		}
		return out
	default:
		return v
	}
}

// mutate makes a copy with a few changes.
func (g generator) mutate(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, k := range sorted(v) {
			if k == "apiVersion" || k == "kind" || k == "metadata" || g.chance(95) {
				out[k] = g.mutate(v[k])
			}
		}
		return out
	case []any:
		out := []any{}
		for i := range v {
			if g.chance(95) {
				out = append(out, g.mutate(v[i]))
			}
		}
		return out
	default:
		if g.chance(3) {
			return pick[any](g, "x", int64(1), nil)
		}
		return v
	}
}

// metadata makes an object's metadata more varied, right and wrong.
func (g generator) metadata(obj map[string]any) {
	meta := asMap(obj["metadata"])
	wrong := 3
	set := func(percent int, name string, right []any, bad ...any) {
		if !g.chance(percent) {
			return
		}
		if g.chance(wrong) {
			meta[name] = pick(g, append(bad, nil, int64(7), "")...)
			return
		}
		meta[name] = jsonCopy(pick(g, right...))
	}
	set(10, "name", []any{"a", "a.b-c", "w"}, "A", "a/b", "-")
	set(10, "generateName", []any{"a-"}, "A")
	set(10, "namespace", []any{"default", "shop"}, "a.b")
	set(60, "generation", []any{int64(1), int64(4)}, int64(-1), int64(0), "1")
	set(60, "creationTimestamp", []any{"2025-03-04T05:06:07Z"}, "2025-03-04T05:06:07+01:00", "0001-01-01T00:00:00Z", "2025-13-04T05:06:07Z", "now")
	set(5, "deletionTimestamp", []any{"2025-03-04T05:06:07Z"}, "now")
	set(5, "deletionGracePeriodSeconds", []any{int64(0), int64(30)}, 1.5)
	set(50, "labels", []any{map[string]any{"a": "b"}, map[string]any{"example.com/a.b_c": "", "x": "Y-z"}}, map[string]any{"a": int64(1)},
		map[string]any{"-a": "b"}, map[string]any{"a": "-"}, map[string]any{"A.com/a": "b"}, map[string]any{}, map[string]any{"a": nil}, map[string]any{"a/b/c": "d"})
	set(50, "annotations", []any{map[string]any{"a": "any thing"}, map[string]any{"Example.com/A": "x"}}, map[string]any{"a b": "c"}, map[string]any{"a": true})
	set(30, "finalizers", []any{[]any{"a/b"}, []any{"orphan"}}, []any{"orphan", "foregroundDeletion"}, []any{"a b"}, []any{}, []any{int64(1)})
	owner := func(changes ...any) map[string]any {
		o := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u", "controller": true}
		for i := 0; i < len(changes); i += 2 {
			o[fmt.Sprint(changes[i])] = changes[i+1]
		}
		return o
	}
	set(30, "ownerReferences", []any{[]any{owner()}, []any{owner(), owner("controller", false, "blockOwnerDeletion", true)}},
		[]any{owner(), owner()}, []any{owner("apiVersion", "")}, []any{owner("apiVersion", "v1", "kind", "Event")}, []any{owner("apiVersion", "a/b/c")},
		[]any{owner("uid", "")}, []any{owner("extra", "x")}, []any{map[string]any{"kind": "x"}}, []any{owner("apiVersion", "apps/")})
	managed := func(changes ...any) map[string]any {
		o := map[string]any{"manager": "m", "operation": "Update", "apiVersion": "example.com/v1", "time": "2025-03-04T05:06:07Z", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{}}}
		for i := 0; i < len(changes); i += 2 {
			o[fmt.Sprint(changes[i])] = changes[i+1]
		}
		return o
	}
	set(40, "managedFields", []any{[]any{managed()}, []any{managed("subresource", "status"), managed("manager", "other")}},
		[]any{managed("operation", "Delete")}, []any{managed("operation", "")}, []any{managed("fieldsType", "V2")}, []any{managed("manager", "a\tb")},
		[]any{managed("fieldsV1", map[string]any{"a": int64(1)})}, []any{managed("fieldsV1", nil)}, []any{managed("time", "x")}, []any{managed("unknown", "x")})
	if g.chance(3) {
		meta["surprise"] = "x"
	}
	if g.chance(2) {
		delete(meta, pick(g, "resourceVersion", "uid", "name"))
	}
}
