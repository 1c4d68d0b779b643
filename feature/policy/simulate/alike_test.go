package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/feature/policy/simulate"
	"sluice.dev/schema"
	"sluice.dev/tools/draws"
)

// TestFieldsThatAreAlikeAreJudgedAsTheEvaluatorDoes draws features that differ in names only, which share an expression, with all that one of
// them may depend on: ratchets, ways to opt in, settings and stored uses.
func TestFieldsThatAreAlikeAreJudgedAsTheEvaluatorDoes(t *testing.T) {
	t.Parallel()
	fields := []string{"tasksTimeout", "onError", "words", "loose"}
	values := map[string]any{"tasksTimeout": "x", "onError": "Stop", "words": []any{"a"}, "loose": []any{map[string]any{"hint": "h"}}}
	allowed, refused := 0, 0
	for seed := range draws.Seeds(200) {
		r := rand.New(rand.NewPCG(seed, 12))
		optIn := []string{"", "  optIn: {rbac: true}\n", "  optIn: {namespaceLabel: true}\n", "  optIn: {rbac: true, namespaceLabel: true}\n"}[r.IntN(4)]
		ratchet := []string{"", ", ratchet: Unchanged", ", ratchet: InObject"}[r.IntN(3)]
		if ratchet == ", ratchet: Unchanged" {
			fields = fields[:2] // of scalars
		} else {
			fields = fields[:4]
		}
		var text, spec string
		gates := r.IntN(2) == 0
		for i, f := range fields {
			if gates {
				spec += fmt.Sprintf("- {gate: Gate%d%s, parts: [{field: spec.%s}]}\n", i, ratchet, f)
				continue
			}
			text += fmt.Sprintf("{field: spec.%s}, ", f)
		}
		if !gates {
			spec = fmt.Sprintf("[{gate: Gate0%s, parts: [%s]}]", ratchet, text)
		}
		m := model(t, componentYAML+optIn, spec)
		_, s := compile(t, m, policy.Options{})
		for range 20 {
			settings := map[string]string{}
			for i := range fields {
				if r.IntN(4) == 0 {
					settings[fmt.Sprintf("gate%d", i)] = "true"
				}
			}
			draw := func() map[string]any {
				spec := map[string]any{"other": fmt.Sprint(r.Int())}
				for _, f := range fields {
					if r.IntN(3) == 0 {
						spec[f] = values[f]
					}
				}
				return map[string]any{"metadata": map[string]any{"name": "x", "namespace": "y"}, "spec": spec}
			}
			labelled, labels := r.IntN(2) == 0, map[string]string{}
			if labelled {
				labels[feature.OptInLabels("demo", "Gate0")[0]] = feature.OptInValue
			}
			mayUse := func(name string) bool { return !labelled && name == "demo.gate0" }
			optedIn := func(gate string) bool {
				return gate == "Gate0" && (labelled && strings.Contains(optIn, "namespaceLabel") || !labelled && strings.Contains(optIn, "rbac"))
			}
			q := &simulate.Request{Settings: settings, Object: draw(), MayUse: mayUse, NamespaceLabels: labels}
			if r.IntN(3) > 0 {
				q.Old = draw()
			}
			got := run(t, s, q)
			parsed, _ := m.ParseSettings(settings)
			d := m.Resolve(parsed, feature.Runtime{}).Compile().Evaluate(&feature.Request{
				Group: q.Group, Version: q.Version, Resource: q.Resource, Old: q.Old, Object: q.Object, OptedIn: optedIn,
			})
			if want := len(d.Rejected.List) == 0; got.Allowed() != want {
				t.Fatalf("seed %d: %v to %v with %v, %s: %v, the evaluator says %v", seed, q.Old, q.Object, settings, spec, got.Refused, d.Rejected.List)
			}
			if got.Allowed() {
				allowed++
			} else {
				refused++
			}
		}
	}
	if allowed < 50 || refused < 50 {
		t.Errorf("%d are allowed and %d refused", allowed, refused)
	}
}

// listsModel has features of fields in lists or maps of their own, all with the same schema.
func listsModel(t *testing.T, n int, kind string) *feature.Model {
	t.Helper()
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	item := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": text, "fast": text}, Required: []string{"name"}}
	listOf := func(items apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}}
	}
	field, path := listOf(item), "[*].fast"
	switch kind {
	case "keyed":
		field.XListType, field.XListMapKeys = new("map"), []string{"name"}
	case "map":
		field = apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &item}}
	case "nested":
		item.Properties = map[string]apiextensionsv1.JSONSchemaProps{"name": text, "steps": listOf(item)}
		field, path = listOf(item), "[*].steps[*].fast"
	}
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
	var list []v1alpha1.Feature
	for i := range n {
		name := fmt.Sprint("list", i)
		spec.Properties[name] = field
		list = append(list, v1alpha1.Feature{Spec: v1alpha1.FeatureSpec{
			Component: "demo", Gate: fmt.Sprint("Gate", i), Parts: []v1alpha1.Part{{Group: "demo.dev", Resource: "pipelines", Field: "spec." + name + path}},
			Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}},
		}})
	}
	root, err := schema.New(&apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec}})
	if err != nil {
		t.Fatal(err)
	}
	c := &v1alpha1.Component{Spec: v1alpha1.ComponentSpec{Release: "v1.5.0", ConfigMap: &v1alpha1.ConfigMapReference{Namespace: "demo", Name: "flags"}}}
	c.Name = "demo"
	m, findings := feature.Define(c, list, feature.Options{Resources: []feature.Resource{{Group: "demo.dev", Resource: "pipelines", Versions: []feature.Version{{Name: "v1", Schema: root}}}}})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestListsThatAreAlikeShareExpressions: a policy of 50 lists has few variables, and all gates of a resource are in one policy.
func TestListsThatAreAlikeShareExpressions(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"plain", "keyed", "map", "nested"} {
		set, err := policy.Compile(t.Context(), listsModel(t, 50, kind), policy.Options{})
		if err != nil {
			t.Fatal(err)
		}
		size, variables, policies := 0, 0, 0
		for i := range set.Validating {
			p := &set.Validating[i]
			if p.Annotations[policy.GatesAnnotation] == "" {
				continue
			}
			policies++
			for _, c := range p.Spec.MatchConditions {
				size += len(c.Expression)
			}
			for _, v := range p.Spec.Variables {
				variables, size = variables+1, size+len(v.Expression)
				if len(v.Expression) > 2048 {
					t.Errorf("%s: %s has %d bytes", kind, v.Name, len(v.Expression))
				}
			}
		}
		if policies > 2 || variables > 20 || size > 20_000 {
			t.Errorf("%s: %d policies with %d variables and %d bytes", kind, policies, variables, size)
		}
	}
}

// TestItemsOfAllListsCountTogether: lists that share an expression also share the number of items that it goes through.
func TestItemsOfAllListsCountTogether(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"plain", "keyed", "map", "nested"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			_, s := compile(t, listsModel(t, 12, kind), policy.Options{})
			build := func(x string, items ...int) map[string]any {
				spec := map[string]any{"x": x}
				for i, n := range items {
					entries, list := map[string]any{}, make([]any, n)
					for j := range list {
						item := map[string]any{"name": fmt.Sprint("an-item-with-a-name-", j), "fast": "yes"}
						if kind == "nested" {
							item = map[string]any{"name": "x", "steps": []any{item}}
						}
						list[j], entries[fmt.Sprint("an-entry-with-a-name-", j)] = item, item
					}
					if spec[fmt.Sprint("list", i)] = any(list); kind == "map" {
						spec[fmt.Sprint("list", i)] = entries
					}
				}
				return map[string]any{"metadata": map[string]any{"name": "x", "namespace": "y"}, "spec": spec}
			}
			const tooMany = "too many to tell which"
			many := slices.Repeat([]int{3_000}, 12) // a request has 3 MiB at most
			for _, c := range []struct {
				name        string
				old, object map[string]any
				said        string // empty: it is allowed
			}{
				{"one item", nil, build("y", 0, 1), "spec.list1"},
				{"5,000 items", nil, build("y", 1, 0, 5000), "spec.list2"},
				{"more than are gone through", nil, build("y", many...), tooMany},
				{"all unchanged", build("y", many...), build("z", many...), ""},
				{"one beside many that are unchanged", build("y", many[1:]...), build("y", append(many[1:], 1)...), "spec.list11"},
				{"5,000 stored", build("y", 2500, 2500), build("y", 2500, 2500, 0), ""},
			} {
				res := run(t, s, &simulate.Request{Settings: map[string]string{}, Old: c.old, Object: c.object})
				switch {
				case res.Allowed() != (c.said == ""):
					t.Errorf("%s: %+v", c.name, res.Refused)
				case !res.Allowed() && (res.Refused[0].Failed || !strings.Contains(res.Refused[0].Message, c.said) || strings.Contains(res.Refused[0].Message, tooMany) != (c.said == tooMany)):
					t.Errorf("%s: %+v", c.name, res.Refused)
				}
			}
		})
	}
}

// TestListsOfOneExpressionAreJudgedEach: what one list has is no matter to another one.
func TestListsOfOneExpressionAreJudgedEach(t *testing.T) {
	t.Parallel()
	item := func(name string, fast bool) map[string]any {
		out := map[string]any{"name": name}
		if fast {
			out["fast"] = "yes"
		}
		return out
	}
	items := func(n int, fast bool) (out []any) {
		for i := range n {
			out = append(out, item(fmt.Sprint("n", i), fast))
		}
		return out
	}
	object := func(lists ...[]any) map[string]any {
		spec := map[string]any{}
		for i, list := range lists {
			spec[fmt.Sprint("list", i)] = list
		}
		return map[string]any{"metadata": map[string]any{"name": "x", "namespace": "y"}, "spec": spec}
	}
	twice := []any{item("a", true), item("a", true)}
	backwards := func(list []any) []any {
		slices.Reverse(list)
		return list
	}
	for _, c := range []struct {
		name, kind  string
		old, object map[string]any
		said        string
	}{
		{"a long list that uses nothing", "keyed", nil, object(items(21_000, false), []any{item("fast", false)}), ""},
		{"the same, plain", "plain", nil, object(items(21_000, false), []any{item("fast", false)}), ""},
		{"too many items to count what is in them", "nested", nil, object(slices.Repeat([][]any{items(10_000, false)}, 12)...), ""},
		{"a use beside it", "keyed", nil, object(items(21_000, false), []any{item("fast", true)}), "spec.list1[0].fast: "},
		{"one of two equal items goes", "keyed", object(twice, items(101, true)), object(twice[1:], backwards(items(101, true))), ""},
		{"it goes, and there is a new use", "keyed", object(twice, items(2, true)), object(twice[1:], items(3, true)), "spec.list1[2].fast: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, s := compile(t, listsModel(t, 12, c.kind), policy.Options{})
			res := run(t, s, &simulate.Request{Settings: map[string]string{}, Old: c.old, Object: c.object})
			switch {
			case res.Allowed() != (c.said == ""):
				t.Errorf("%+v", res.Refused)
			case !res.Allowed() && (len(res.Refused) != 1 || res.Refused[0].Failed || !strings.HasPrefix(res.Refused[0].Message, c.said)):
				t.Errorf("%+v", res.Refused)
			}
		})
	}
}

// TestItemsWithManyKeysPass: which gated fields an item has is not asked of each of its keys.
func TestItemsWithManyKeysPass(t *testing.T) {
	t.Parallel()
	yes := true
	loose := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &yes}
	root, err := schema.New(&apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"items": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &loose}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, paths := range [][]string{{"a.g", "b.g"}, {"a", "b"}, {"a.g", "b.g", "c.h", "d.h"}} {
		var list []v1alpha1.Feature
		for i, path := range paths {
			list = append(list, v1alpha1.Feature{Spec: v1alpha1.FeatureSpec{
				Component: "demo", Gate: fmt.Sprint("Gate", i), Parts: []v1alpha1.Part{{Group: "demo.dev", Resource: "pipelines", Field: "spec.items[*]." + path}},
				Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}},
			}})
		}
		c := &v1alpha1.Component{Spec: v1alpha1.ComponentSpec{Release: "v1.5.0", ConfigMap: &v1alpha1.ConfigMapReference{Namespace: "demo", Name: "flags"}}}
		c.Name = "demo"
		m, findings := feature.Define(c, list, feature.Options{Resources: []feature.Resource{{Group: "demo.dev", Resource: "pipelines", Versions: []feature.Version{{Name: "v1", Schema: root}}}}})
		if err := findings.Err(); err != nil {
			t.Fatal(err)
		}
		_, s := compile(t, m, policy.Options{})
		for _, size := range [][2]int{{5000, 40}, {2600, 90}, {250, 999}} {
			items := make([]any, size[0])
			for i := range items {
				one := map[string]any{}
				for k := range size[1] {
					one[fmt.Sprint("key", k)] = "v"
				}
				items[i] = one
			}
			object := map[string]any{"metadata": map[string]any{"name": "x", "namespace": "y"}, "spec": map[string]any{"items": items}}
			if res := run(t, s, &simulate.Request{Settings: map[string]string{}, Object: object}); !res.Allowed() {
				t.Errorf("%v, %d items of %d keys: %+v", paths, size[0], size[1], res.Refused)
			}
		}
	}
}
