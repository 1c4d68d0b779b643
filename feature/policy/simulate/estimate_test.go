package simulate_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/feature/policy/simulate"
	"sluice.dev/tools/draws"
	"sluice.dev/tools/featuregen"
)

// example reads an example's folder.
func example(t *testing.T, dir string) *feature.Model {
	t.Helper()
	var component v1alpha1.Component
	var features []v1alpha1.Feature
	var resources []feature.Resource
	files, err := filepath.Glob(filepath.Join("../../../examples", dir, "*.yaml"))
	if err != nil || files == nil {
		t.Fatal(dir, files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq("\n"+string(data), "\n---") {
			var kind struct{ Kind string }
			var f v1alpha1.Feature
			var crd apiextensionsv1.CustomResourceDefinition
			err := yaml.Unmarshal([]byte(doc), &kind)
			switch kind.Kind {
			case "Component":
				err = yaml.Unmarshal([]byte(doc), &component)
			case "Feature":
				err = yaml.Unmarshal([]byte(doc), &f)
				features = append(features, f)
			case "CustomResourceDefinition":
				if err = yaml.Unmarshal([]byte(doc), &crd); err == nil {
					var r feature.Resource
					r, err = feature.ResourceOf(&crd)
					resources = append(resources, r)
				}
			}
			if err != nil {
				t.Fatal(file, err)
			}
		}
	}
	m, findings := feature.Define(&component, features, feature.Options{Resources: resources})
	if err := findings.Err(); err != nil || len(m.Features()) == 0 {
		t.Fatal(dir, err)
	}
	return m
}

// TestPoliciesOfOneResourceAreThoseOfAll: what is measured for one resource serves others, and says what it would without them.
func TestPoliciesOfOneResourceAreThoseOfAll(t *testing.T) {
	t.Parallel()
	m := example(t, "kubernetes")
	specs := func(only *schema.GroupResource) map[string]any {
		set, err := policy.Compile(t.Context(), m, policy.Options{Only: only})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]any{}
		for _, p := range set.Validating {
			out["validating "+p.Name] = p.Spec
		}
		for _, p := range set.Mutating {
			out["mutating "+p.Name] = p.Spec
		}
		return out
	}
	all, compared := specs(nil), 0
	for _, resource := range []schema.GroupResource{{Resource: "pods"}, {Group: "apps", Resource: "deployments"}} {
		for name, spec := range specs(&resource) {
			compared++
			if diff := cmp.Diff(all[name], spec); diff != "" {
				t.Error(name, diff)
			}
		}
	}
	if compared < 10 {
		t.Errorf("%d policies", compared)
	}
}

// crowd makes objects in which lists and maps have many items, a share of which uses each part.
type crowd struct {
	*rand.Rand
	items  int
	share  int // of 100 items
	prefix string
	asList map[string]bool // what may be a list or a map is the same for all parts
}

func (c *crowd) object(targets []*feature.Target) map[string]any {
	root := map[string]any{"metadata": map[string]any{"name": "x", "namespace": "y"}}
	many := c.splitItems(targets)
	for _, t := range targets {
		c.put(root, t, t.Path, many[listOf(t)])
	}
	return root
}

// listOf is the path to the first list or map on the way to a target.
func listOf(t *feature.Target) string {
	at := slices.IndexFunc(t.Path, func(s feature.Step) bool { return s.Kind != feature.Field })
	return t.Path[:max(at, 0)].String()
}

// splitItems says how many items each list has: those that may share an expression, because their paths are equally long, have all items
// together. One has nearly all, or they have as many each.
func (c *crowd) splitItems(targets []*feature.Target) map[string]int {
	lists := map[int][]string{}
	for _, t := range targets {
		steps, list := strings.Count(listOf(t), "."), listOf(t)
		if !slices.Contains(lists[steps], list) {
			lists[steps] = append(lists[steps], list)
		}
	}
	many := map[string]int{}
	for _, steps := range slices.Sorted(maps.Keys(lists)) {
		some := lists[steps]
		long := c.IntN(2 * len(some)) // none, in half of the cases
		for i, list := range some {
			switch {
			case long >= len(some):
				many[list] = c.items / len(some)
			case i == long:
				many[list] = c.items - len(some) + 1
			default:
				many[list] = 1
			}
		}
	}
	return many
}

// put goes on from an object, which gets what the path leads to; many is how many items the next list or map has.
func (c *crowd) put(object map[string]any, t *feature.Target, path feature.Path, many int) {
	name := path[0].Name
	object[name] = c.grow(object[name], t, path[1:], many)
}

func (c *crowd) grow(v any, t *feature.Target, path feature.Path, many int) any {
	if len(path) == 0 {
		if v == nil && c.IntN(100) < c.share {
			v = c.use(t)
		}
		return v
	}
	s, kind := path[0], path[0].Kind
	if kind == feature.Each {
		key := t.Path[:len(t.Path)-len(path)].String()
		if _, ok := c.asList[key]; !ok {
			c.asList[key] = c.IntN(2) == 0
		}
		if kind = feature.Entries; c.asList[key] {
			kind = feature.Items
		}
	}
	if kind == feature.Field {
		object, ok := v.(map[string]any)
		if !ok {
			object = map[string]any{}
		}
		c.put(object, t, path, many)
		return object
	}
	list, _ := v.([]any)
	object, _ := v.(map[string]any)
	if kind == feature.Entries && object == nil {
		object = map[string]any{}
	}
	for i := range many {
		key := fmt.Sprintf("%s-%d-a-name-of-the-usual-length", c.prefix, i)
		if kind == feature.Entries {
			object[key] = c.grow(object[key], t, path[1:], 1)
			continue
		}
		if i == len(list) {
			list = append(list, nil)
		}
		item := c.grow(list[i], t, path[1:], 1)
		if o, ok := item.(map[string]any); ok {
			for _, k := range s.Keys {
				o[k] = key
			}
		} else if s.Set {
			item = key
		}
		list[i] = item
	}
	if kind == feature.Entries {
		return object
	}
	return list
}

// use is a value that a part gates, or nil.
func (c *crowd) use(t *feature.Target) any {
	words := []any{"x", "y", "z", "#!win", strings.Repeat("x", 100), int64(0), int64(100), int64(-100), map[string]any{"a": "b", "c": "d", "e": "f"}, true, false}
	for _, v := range slices.Concat(t.Values) {
		words = append(words, v)
	}
	if t.Match != nil {
		object := map[string]any{}
		for _, m := range t.Match {
			at := object
			for _, s := range m.Path[:len(m.Path)-1] {
				next := map[string]any{}
				at[s.Name] = next
				at = next
			}
			at[m.Path[len(m.Path)-1].Name] = "x"
			if m.Values != nil {
				at[m.Path[len(m.Path)-1].Name] = m.Values[0]
			}
		}
		words = append(words, object)
	}
	c.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	for _, w := range words {
		probe := *t
		probe.Path = feature.Path{{Name: "x"}}
		if f := (&feature.Feature{Targets: []feature.Target{probe}}); f.UsedBy(map[string]any{"x": w}) {
			return w
		}
	}
	return nil
}

// TestEstimatesAreNotBelowWhatTheAPIServerCounts gives each policy, also those that drop, its estimate as its budget, in place of that of the API server, whose
// own code evaluates it with objects of as many items as the estimate is for.
func TestEstimatesAreNotBelowWhatTheAPIServerCounts(t *testing.T) {
	t.Parallel()
	models := map[string]*feature.Model{"tekton": example(t, "tekton"), "kubernetes": example(t, "kubernetes"), "operator": example(t, "operator/config")}
	for seed := range draws.Seeds(20) {
		w, err := featuregen.New(rand.New(rand.NewPCG(seed, 9)))
		if err != nil {
			t.Fatal(err)
		}
		models[fmt.Sprint("seed ", seed)] = w.Model
	}
	var dropped atomic.Int64
	t.Cleanup(func() {
		if !t.Failed() && dropped.Load() == 0 {
			t.Error("nothing was dropped: the estimates of patches were not tried")
		}
	})
	for name, m := range models {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const items = 350
			set, err := policy.Compile(t.Context(), m, policy.Options{Mode: v1alpha1.Baked, Items: items})
			if err != nil {
				t.Fatal(err)
			}
			s, err := simulate.New(set)
			if err != nil {
				t.Fatalf("the API server would not take it: %v", err)
			}
			s.SetBudgets(set.Estimates)
			type place struct{ group, version, resource string }
			targets := map[place][]*feature.Target{}
			for _, f := range m.Features() {
				for i := range f.Targets {
					if x := &f.Targets[i]; !x.WholeVersion {
						p := place{x.Group, x.Version, x.Resource}
						targets[p] = append(targets[p], x)
					}
				}
			}
			r := rand.New(rand.NewPCG(1, uint64(len(name))))
			for p, list := range targets {
				lists := map[string]bool{}
				draw := func(share int, prefix string) map[string]any {
					c := &crowd{Rand: r, items: items, share: share, prefix: prefix, asList: lists}
					return c.object(list)
				}
				for _, pair := range [][2]map[string]any{
					{nil, draw(100, "a")}, {draw(0, "a"), draw(100, "a")}, {draw(50, "a"), draw(50, "a")},
				} {
					res, err := s.Run(t.Context(), &simulate.Request{Group: p.group, Version: p.version, Resource: p.resource, Old: pair[0], Object: pair[1]})
					if err != nil {
						t.Fatal(err)
					}
					if res.Object != nil {
						dropped.Add(1)
					}
					for _, said := range slices.Concat(res.Refused, res.Warned) {
						// An identity that is there twice breaks the schema.
						if said.Failed && !strings.Contains(said.Message, "already exists") {
							t.Errorf("%s: estimated to cost %d: %s", said.Policy, set.Estimates[said.Policy], said.Message)
						}
					}
				}
			}
		})
	}
}
