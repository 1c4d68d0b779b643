package conversion

// Which objects are converted? For each target of a version one that the prover finds, lists in both orders, and random mixtures of these.

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"

	"sluice.dev/schema/contain"
	"sluice.dev/schema/upstream"
)

// side is one version of the CRD.
type side struct {
	name       string
	apiVersion string
	props      *props // nil if the version has no schema
	opts       upstream.Options
	judge      *upstream.Validator
	targets    []*target
	// requests are the objects as clients send them, made for this version.
	requests []map[string]any
}

// newSide prepares a version for objects: its schema, the API server's validation of it, and what its objects
// have to show. The error says that the schema cannot be read.
func newSide(crd *apiextensionsv1.CustomResourceDefinition, name string, kube *version.Version) (*side, error) {
	p, o, err := upstream.ForCRD(crd, name, kube)
	if err != nil {
		return nil, err
	}
	s := &side{name: name, apiVersion: o.Group + "/" + name, props: p, opts: o}
	if s.judge, err = upstream.New(p, o); err != nil {
		return nil, fmt.Errorf("version %s: %w", name, err)
	}
	if p != nil {
		s.targets = targetsOf(p)
	}
	return s, nil
}

// create returns the object that the API server would have for a request, nil if it refuses it.
func (s *side) create(ctx context.Context, request map[string]any) map[string]any {
	r, err := s.judge.CreateWithStatus(ctx, request)
	if err != nil || r.Refused() || len(r.Pruned) > 0 {
		return nil
	}
	return runtime.DeepCopyJSON(r.Stored)
}

// keep adds a request, if the API server accepts it, and marks the targets that it reaches. It returns the object that the API server
// has then, or nil.
func (s *side) keep(ctx context.Context, request map[string]any) map[string]any {
	stored := s.create(ctx, request)
	if stored != nil {
		for _, t := range s.targets {
			t.reached = t.reached || t.isMetBy(request, stored)
		}
		s.requests = append(s.requests, request)
	}
	return stored
}

// makeRequests makes the requests of a version: for each target, and so many at random. Work is the limit of the search.
func (s *side) makeRequests(ctx context.Context, work *contain.Work, random int, seed uint64) error {
	s.keep(ctx, map[string]any{"apiVersion": s.apiVersion, "kind": s.opts.Kind, "metadata": map[string]any{"name": "sample"}})
	for _, bounds := range []bool{false, true} { // what is at a bound is not the smallest that reaches a field
		for _, t := range slices.Backward(s.targets) { // what is below reaches what is above as well
			if !t.reached && !t.aim.isMade() && (t.aim == aimBound) == bounds && ctx.Err() == nil {
				s.search(ctx, t, work)
			}
		}
	}
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // the same seed is to give the same objects
	for _, t := range s.targets {
		if !t.reached && t.aim.isMade() {
			s.changeRequests(ctx, t, rng)
		}
	}
	// Converters that keep lists in maps lose their order, which shows only in lists that are not sorted.
	for _, r := range slices.Clone(s.requests) {
		if reversed := runtime.DeepCopyJSON(r); reverseLists(reversed) {
			s.keep(ctx, reversed)
		}
	}
	s.addMixtures(ctx, rng, random)
	return ctx.Err()
}

// search looks for a request that meets the target: first among objects without optional fields beside its path.
func (s *side) search(ctx context.Context, t *target, work *contain.Work) {
	around, exact := aroundPath(s.props, t.path)
	for _, p := range []*props{around, s.props} {
		var found map[string]any
		found, t.impossible, t.why = s.searchObject(ctx, t, p, work)
		switch {
		case found == nil:
		case s.keep(ctx, found) != nil && t.reached:
			t.why = ""
			return
		default:
			t.why = "the API server accepts no object that was found"
		}
		if t.impossible && exact {
			return
		}
	}
}

// maxChanges bounds the attempts to make a request of others.
const maxChanges = 60

// changeRequests makes a request that meets the target of those that have a value at its path.
func (s *side) changeRequests(ctx context.Context, t *target, rng *rand.Rand) {
	var sources []map[string]any
	var values []any
	for _, r := range s.requests {
		replaceFirst(r, t.path, func(v any) any {
			sources, values = append(sources, r), append(values, v)
			return v
		})
	}
	// A special value is tried once in each object. For the other aims, each attempt joins other values.
	for try := range maxChanges {
		if len(sources) == 0 || t.aim == aimSpecial && try == len(sources) {
			return
		}
		changed := runtime.DeepCopyJSON(sources[try%len(sources)])
		replaceFirst(changed, t.path, func(v any) any {
			if t.aim == aimSpecial {
				return t.special
			}
			other := runtime.DeepCopyJSONValue(values[rng.IntN(len(values))])
			if try%2 == 1 {
				other = varyValue(rng, other)
			}
			return joinValues(v, other)
		})
		if stored := s.create(ctx, changed); stored != nil && t.isMetBy(changed, stored) {
			s.keep(ctx, changed)
			return
		}
	}
}

// joinValues returns a list or map with what is in both a, which it may change, and b.
func joinValues(a, b any) any {
	switch a := a.(type) {
	case []any:
		b, _ := b.([]any)
		return append(a, b...)
	case map[string]any:
		b, _ := b.(map[string]any)
		for key, v := range b {
			a[key+"2"] = v
		}
	}
	return a
}

// replaceFirst replaces the value at the path, on the way to which it takes first items and keys. It does nothing if there is none.
func replaceFirst(v any, at contain.Path, replace func(any) any) any {
	if len(at) == 0 {
		return replace(v)
	}
	switch v := v.(type) {
	case map[string]any:
		key := at[0].Name
		if at[0].Kind == contain.AnyKey && len(v) > 0 {
			key = slices.Min(slices.Collect(maps.Keys(v)))
		}
		if child, ok := v[key]; ok {
			v[key] = replaceFirst(child, at[1:], replace)
		}
	case []any:
		if len(v) > 0 {
			v[0] = replaceFirst(v[0], at[1:], replace)
		}
	}
	return v
}

// searchObject asks the prover for an object of a schema that meets the target.
func (s *side) searchObject(ctx context.Context, t *target, p *props, work *contain.Work) (found map[string]any, impossible bool, why string) {
	accepts, refuses := t.question(p)
	old, err := contain.NewSide(accepts)
	if err != nil {
		return nil, false, err.Error()
	}
	next, err := contain.NewSide(refuses)
	if err != nil {
		return nil, false, err.Error()
	}
	r := contain.Decide(ctx, old, next, contain.Options{
		Group: s.opts.Group, Version: s.opts.Version, Kind: s.opts.Kind, Namespaced: s.opts.Namespaced, KubeVersion: s.opts.KubeVersion,
		Work: work, Only: func(g *contain.Gap) bool { return g.Harm == contain.Refused },
	})
	for i := range r.Gaps {
		if w := r.Gaps[i].Witness; w != nil {
			return w.Object, false, ""
		}
		why = r.Gaps[i].Reason
	}
	return nil, len(r.Gaps) == 0 && ctx.Err() == nil, why
}

// reverseLists reverses the lists of an object. It reports whether there are lists of several items.
func reverseLists(v any) (several bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, child := range v {
			several = reverseLists(child) || several
		}
	case []any:
		slices.Reverse(v)
		several = len(v) > 1
		for _, item := range v {
			several = reverseLists(item) || several
		}
	}
	return several
}

// addMixtures adds random requests: several of those at hand put together, with other texts, numbers and metadata.
func (s *side) addMixtures(ctx context.Context, rng *rand.Rand, count int) {
	sources := slices.Clone(s.requests)
	for range count {
		if len(sources) == 0 || ctx.Err() != nil {
			return
		}
		mixed := runtime.DeepCopyJSON(sources[rng.IntN(len(sources))])
		for range rng.IntN(6) {
			next, _ := mergeValues(rng, runtime.DeepCopyJSON(mixed), sources[rng.IntN(len(sources))]).(map[string]any)
			if s.create(ctx, next) != nil {
				mixed = next
			}
		}
		varied := runtime.DeepCopyJSON(mixed)
		for _, part := range []string{"spec", "status"} {
			if v, ok := varied[part]; ok {
				varied[part] = varyValue(rng, v)
			}
		}
		if s.create(ctx, varied) != nil {
			mixed = varied
		}
		decorated := runtime.DeepCopyJSON(mixed)
		addMetadata(rng, decorated)
		if s.keep(ctx, decorated) == nil {
			s.keep(ctx, mixed)
		}
	}
}

// mergeValues adds b to a, which it may change. Lists are joined; of two scalars one is chosen.
func mergeValues(rng *rand.Rand, a, b any) any {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			for _, key := range slices.Sorted(maps.Keys(b)) {
				if mine, ok := a[key]; ok {
					a[key] = mergeValues(rng, mine, b[key])
				} else {
					a[key] = runtime.DeepCopyJSONValue(b[key])
				}
			}
			return a
		}
	case []any:
		if b, ok := b.([]any); ok {
			b, _ = runtime.DeepCopyJSONValue(b).([]any)
			return append(a, b...)
		}
	}
	if rng.IntN(2) == 0 {
		return a
	}
	return runtime.DeepCopyJSONValue(b)
}

// varyValue returns v with some of its scalars changed. It may change v.
func varyValue(rng *rand.Rand, v any) any {
	switch x := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(x)) {
			x[key] = varyValue(rng, x[key])
		}
	case []any:
		for i := range x {
			x[i] = varyValue(rng, x[i])
		}
	case string:
		if rng.IntN(3) == 0 && !isSameTime(x, x) {
			return x + strconv.Itoa(rng.IntN(1000))
		}
	case int64:
		if rng.IntN(3) == 0 {
			return x + rng.Int64N(20) - 10
		}
	case bool:
		return rng.IntN(2) == 0
	}
	return v
}

// addMetadata gives an object the metadata that converters meet.
func addMetadata(rng *rand.Rand, obj map[string]any) {
	meta, _ := obj["metadata"].(map[string]any)
	if meta == nil {
		return
	}
	n := fmt.Sprint(rng.IntN(1000))
	meta["labels"] = map[string]any{"app.kubernetes.io/name": "sample", "number": n}
	meta["annotations"] = map[string]any{"example.com/note": "text " + n, "example.com/json": `{"a":"` + n + `"}`}
	meta["finalizers"] = []any{"example.com/cleanup"}
	meta["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "00000000-0000-4000-8000-000000000000"}}
}
