package feature_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// oracle judges as the package's documentation says, in the plainest way: all uses of the old object are listed with their
// places, and a use of the new one is looked up among them.
type oracle struct{ closed []*feature.Feature }

// found is one use.
type found struct {
	path  string // as messages have it
	place string // what identifies it: up to the first list without identities
	value any
}

func (o oracle) uses(t *feature.Target, object map[string]any) []found {
	return slices.DeleteFunc(at(t, object), func(f found) bool { return !isUse(t, f.value) })
}

// at lists all values that a target's path leads to.
func at(t *feature.Target, object map[string]any) []found {
	var out []found
	var walk func(v any, rest feature.Path, path, place string, fixed bool)
	walk = func(v any, rest feature.Path, path, place string, fixed bool) {
		add := func(s string) string {
			if fixed {
				return place
			}
			return place + s
		}
		if len(rest) == 0 {
			out = append(out, found{path, place, v})
			return
		}
		s := rest[0]
		switch v := v.(type) {
		case map[string]any:
			if s.Kind == feature.Field {
				if x, ok := v[s.Name]; ok {
					walk(x, rest[1:], named(path, s.Name), add("/"+s.Name), fixed)
				}
			} else if s.Kind != feature.Items {
				for _, k := range slices.Sorted(maps.Keys(v)) {
					walk(v[k], rest[1:], named(path, k), add(fmt.Sprintf("/%q", k)), fixed)
				}
			}
		case []any:
			if s.Kind != feature.Items && s.Kind != feature.Each {
				return
			}
			for i, x := range v {
				id := "[]"
				switch {
				case s.Set:
					id = fmt.Sprintf("[%s]", canon(x))
				case len(s.Keys) > 0:
					id = "["
					object, ok := x.(map[string]any)
					for _, k := range s.Keys {
						id += fmt.Sprintf("%v %s,", ok, canon(object[k]))
					}
					id += "]"
				}
				walk(x, rest[1:], fmt.Sprintf("%s[%d]", path, i), add(id), fixed || id == "[]")
			}
		}
	}
	walk(object, t.Path, "", "", false)
	return out
}

func named(path, name string) string {
	plain := name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
	switch {
	case !plain:
		return path + "[" + quote(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

func quote(s string) string {
	q := fmt.Sprintf("%+q", s)
	return q
}

// canon writes values so that equal ones are the same.
func canon(v any) string {
	switch v := v.(type) {
	case map[string]any:
		s := "{"
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if v[k] != nil {
				s += fmt.Sprintf("%q:%s,", k, canon(v[k]))
			}
		}
		return s + "}"
	case []any:
		s := "["
		for _, x := range v {
			s += canon(x) + ","
		}
		return s + "]"
	case string:
		return fmt.Sprintf("%q", v)
	case float64:
		if v == float64(int64(v)) {
			return fmt.Sprint(int64(v))
		}
		return fmt.Sprintf("f%v", v)
	}
	return fmt.Sprint(v)
}

func isUse(t *feature.Target, v any) bool {
	in := func(v any, values []string) bool {
		switch v.(type) {
		case nil, map[string]any, []any:
			return false
		}
		return slices.Contains(values, fmt.Sprint(v))
	}
	switch {
	case v == nil:
		return false
	case t.Values != nil:
		return in(v, t.Values)
	case t.Pattern != nil:
		s, ok := v.(string)
		return ok && t.Pattern.MatchString(s)
	case t.Beyond != nil:
		return isBeyond(&t.Beyond.Bounds, v)
	}
	for _, c := range t.Match {
		x := v
		for _, s := range c.Path {
			object, _ := x.(map[string]any)
			x = object[s.Name]
		}
		if c.Values != nil && !in(x, c.Values) || x == nil {
			return false
		}
	}
	return true
}

func isBeyond(b *v1alpha1.Bounds, v any) bool {
	n, isNumber := 0.0, false
	size, length := 0, 0
	switch v := v.(type) {
	case int64:
		n, isNumber = float64(v), true
	case float64:
		n, isNumber = v, true
	case string:
		length = len([]rune(v))
	case []any:
		size = len(v)
	case map[string]any:
		size = len(v)
	}
	fits := slices.Contains(b.Values, fmt.Sprint(v))
	switch v.(type) {
	case map[string]any, []any:
		fits = false
	}
	s, isString := v.(string)
	return b.Minimum != nil && isNumber && n < float64(*b.Minimum) || b.Maximum != nil && isNumber && n > float64(*b.Maximum) ||
		b.MaxLength != nil && length > int(*b.MaxLength) || b.MaxItems != nil && size > int(*b.MaxItems) ||
		b.Values != nil && !fits || b.Pattern != "" && (!isString || !regexp.MustCompile(b.Pattern).MatchString(s))
}

// bad lists what is not allowed of features of a mode, as GATE PATH.
func (o oracle) bad(old, object map[string]any, modes ...v1alpha1.WhenDisabled) (out []string) {
	for _, f := range o.closed {
		if !slices.Contains(modes, f.Spec.WhenDisabled) {
			continue
		}
		for i := range f.Targets {
			t := &f.Targets[i]
			if t.Version != "v1" || t.WholeVersion {
				continue
			}
			was := o.uses(t, old)
			if f.Spec.Ratchet == v1alpha1.InObject && slices.ContainsFunc(f.Targets, func(t feature.Target) bool { return t.Version == "v1" && len(o.uses(&t, old)) > 0 }) {
				continue
			}
			for _, use := range o.uses(t, object) {
				if !slices.ContainsFunc(was, func(w found) bool {
					exact := f.Spec.Ratchet == v1alpha1.Unchanged || t.Values != nil
					return f.Spec.Ratchet != v1alpha1.InObject && w.place == use.place && (!exact || canon(w.value) == canon(use.value))
				}) {
					out = append(out, f.Spec.Gate+" "+use.path)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// agree holds an evaluator against the oracle and against what it promises, for one pair of objects.
func agree(t *testing.T, m *feature.Model, old, object map[string]any) {
	t.Helper()
	states := m.Resolve(nil, feature.Runtime{})
	e := states.Compile()
	o := oracle{}
	for _, s := range states.All() {
		if !s.Open {
			o.closed = append(o.closed, s.Feature)
		}
	}
	evaluate := func(old, object map[string]any) feature.Decision {
		before, beforeOld := canon(object), canon(old)
		d := e.Evaluate(&feature.Request{Group: "demo.dev", Version: "v1", Resource: "pipelines", Old: old, Object: object})
		if canon(object) != before || canon(old) != beforeOld {
			t.Fatalf("the request was changed")
		}
		return d
	}
	said := func(v feature.Violations) (out []string) {
		for _, x := range v.List {
			out = append(out, x.State.Feature.Spec.Gate+" "+x.Path)
		}
		slices.Sort(out)
		return out
	}
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s\nold %s\nnew %s", fmt.Sprintf(format, args...), show(t, old), show(t, object))
	}

	// What is refused, warned of and left by dropping, is what the oracle says.
	d := evaluate(old, object)
	result := object
	if d.Dropped.Count > 0 {
		if d.Allowed() {
			result = d.Object
		} else {
			result = nil
		}
	}
	if drops := o.bad(old, object, v1alpha1.Drop); (len(drops) > 0) != (d.Dropped.Count > 0) {
		fail("dropped %v, the oracle says %v", said(d.Dropped), drops)
	} else {
		for _, s := range said(d.Dropped) {
			if !slices.Contains(drops, s) {
				fail("dropped %s, the oracle says %v", s, drops)
			}
		}
	}
	if result != nil && d.Rejected.Count < 100 && d.Warned.Count < 100 {
		if diff := cmp.Diff(o.bad(old, result, v1alpha1.Reject), said(d.Rejected)); diff != "" {
			fail("rejected: %s", diff)
		}
		if diff := cmp.Diff(o.bad(old, result, v1alpha1.Warn), said(d.Warned)); diff != "" {
			fail("warned: %s", diff)
		}
		if left := o.bad(old, result, v1alpha1.Drop); left != nil {
			fail("dropping left %v", left)
		}
		// Dropping again does nothing, and the result could be stored and updated without a word.
		if again := evaluate(old, result); again.Dropped.Count > 0 {
			fail("dropped again: %v", said(again.Dropped))
		}
	}
	// A repetition says the same.
	if again := evaluate(old, object); cmp.Diff(said(d.Rejected), said(again.Rejected)) != "" || canon(again.Object) != canon(d.Object) {
		fail("a second time: %v and %v", said(d.Rejected), said(again.Rejected))
	}
	// An update that leaves everything as it is, or changes metadata and status only, passes as it is.
	touched := maps.Clone(object)
	touched["metadata"], touched["status"] = map[string]any{"labels": map[string]any{"a": "b"}}, map[string]any{"x": "y"}
	for _, n := range []map[string]any{object, touched} {
		if same := evaluate(object, n); same.Rejected.Count+same.Dropped.Count+same.Warned.Count > 0 || same.Object != nil {
			fail("an update that changes nothing: %v %v %v", said(same.Rejected), said(same.Dropped), said(same.Warned))
		}
	}
	// So does every write of a subresource.
	sub := e.Evaluate(&feature.Request{Group: "demo.dev", Version: "v1", Resource: "pipelines", Subresource: "status", Old: old, Object: object})
	if sub.Rejected.Count+sub.Dropped.Count+sub.Warned.Count > 0 {
		fail("a write of status: %v", said(sub.Rejected))
	}
	// A new object that passes as it is uses nothing that is closed; the inspector agrees.
	if fresh := evaluate(nil, object); fresh.Rejected.Count+fresh.Dropped.Count+fresh.Warned.Count == 0 {
		if uses := m.Inspector().Uses("demo.dev", "v1", "pipelines", object); uses != nil {
			fail("passes, but uses %v of %s", uses[0].Path, uses[0].Feature.Spec.Gate)
		}
	} else if uses := m.Inspector().Uses("demo.dev", "v1", "pipelines", object); uses == nil {
		fail("does not pass, but uses nothing")
	}
	if result != nil {
		keeps(t, m, old, object, result)
	}
}

// keeps checks that dropping took away nothing that is stored: where both objects have a value at a place that identifies
// it, the result has one there; a scalar is the new one or the old one.
func keeps(t *testing.T, m *feature.Model, old, object, result map[string]any) {
	t.Helper()
	for _, f := range m.Features() {
		for i := range f.Targets {
			target := &f.Targets[i]
			if slices.ContainsFunc(target.Path, func(s feature.Step) bool {
				return (s.Kind == feature.Items || s.Kind == feature.Each) && len(s.Keys) == 0 && !s.Set
			}) {
				continue
			}
			values := func(object map[string]any) map[string][]string {
				out := map[string][]string{}
				for _, f := range at(target, object) {
					if f.value != nil {
						out[f.place] = append(out[f.place], canon(f.value))
					}
				}
				return out
			}
			before, sent, after := values(old), values(object), values(result)
			for place, vs := range before {
				if len(vs) > 1 || len(sent[place]) != 1 {
					continue
				}
				if got := after[place]; len(got) != 1 {
					t.Fatalf("%s: stored %v, sent %v, got %v", place, vs, sent[place], got)
				} else if scalar := !strings.ContainsAny(got[0][:1], "{["); scalar && got[0] != vs[0] && got[0] != sent[place][0] && !slices.ContainsFunc(m.Features(), func(f *feature.Feature) bool {
					return slices.ContainsFunc(f.Targets, func(t feature.Target) bool { return t.Reset != nil && canon(t.Reset) == got[0] })
				}) {
					t.Fatalf("%s: stored %v, sent %v, got %v", place, vs, sent[place], got)
				}
			}
		}
	}
}

// randomObject makes an object of the test's kind, and now and then one of another form.
func randomObject(r *rand.Rand) map[string]any {
	one := func(values ...any) any { return values[r.IntN(len(values))] }
	maybe := func(m map[string]any, key string, v func() any) {
		switch r.IntN(8) {
		case 0, 1, 2:
			m[key] = v()
		case 3:
			if r.IntN(10) == 0 {
				m[key] = one(nil, "odd", int64(7), 1.5, true, []any{"x", nil}, map[string]any{"name": "a"})
			}
		}
	}
	text := func() any { return one("", "x", "y", "#!win", " #!win a") }
	list := func(n int, item func() any) func() any {
		return func() any {
			out := []any{}
			for range r.IntN(n + 1) {
				out = append(out, item())
			}
			return out
		}
	}
	step := func() any {
		m := map[string]any{"image": text()}
		maybe(m, "debug", func() any { return one(map[string]any{}, map[string]any{"a": int64(1)}, map[string]any{"a": 1.0}) })
		maybe(m, "script", text)
		return m
	}
	spec := map[string]any{}
	maybe(spec, "name", text)
	maybe(spec, "tasksTimeout", text)
	maybe(spec, "onError", func() any { return one("Stop", "Continue", "Retry") })
	maybe(spec, "replicas", func() any { return one(int64(1), int64(7), 7.0) })
	maybe(spec, "modes", list(3, func() any { return one("Fast", "Slow", "Odd") }))
	maybe(spec, "env", func() any {
		m := map[string]any{}
		for _, k := range []string{"a", "b/c", `d"e.f`} {
			maybe(m, k, func() any {
				e := map[string]any{}
				maybe(e, "secretRef", text)
				maybe(e, "value", text)
				return e
			})
		}
		return m
	})
	maybe(spec, "tasks", list(4, func() any {
		m := map[string]any{"name": one("a", "b", "c", "d")}
		if r.IntN(20) == 0 {
			delete(m, "name")
		}
		maybe(m, "timeout", text)
		maybe(m, "policy", func() any { return one("Old", "New") })
		maybe(m, "steps", list(3, step))
		return m
	}))
	maybe(spec, "volumes", list(3, func() any { return map[string]any{"name": text(), "type": one("empty", "csi")} }))
	maybe(spec, "mounts", list(3, func() any {
		return map[string]any{"path": one("/", "/a"), "device": one(int64(1), int64(2)), "kind": one("ro", "rw")}
	}))
	maybe(spec, "free", func() any {
		return map[string]any{"a": one(nil, map[string]any{"b": text(), "c": text()}), "list": one([]any{map[string]any{"debug": text()}}, map[string]any{"k": map[string]any{"debug": text()}})}
	})
	return map[string]any{"metadata": map[string]any{"name": "x"}, "spec": spec}
}

// changedFrom makes a new object of an old one: some of its parts are those of another.
func changedFrom(r *rand.Rand, old map[string]any) map[string]any {
	other := randomObject(r)
	var mix func(a, b any) any
	mix = func(a, b any) any {
		switch x := a.(type) {
		case map[string]any:
			y, ok := b.(map[string]any)
			if !ok {
				return a
			}
			out := map[string]any{}
			for _, k := range slices.Sorted(maps.Keys(x)) {
				if r.IntN(8) > 0 {
					out[k] = x[k]
				}
			}
			for _, k := range slices.Sorted(maps.Keys(y)) {
				switch r.IntN(4) {
				case 0:
					out[k] = y[k]
				case 1:
					if out[k] != nil {
						out[k] = mix(out[k], y[k])
					}
				}
			}
			return out
		case []any:
			y, _ := b.([]any)
			out := slices.Concat(x, y)
			r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
			return out[:r.IntN(len(out)+1)]
		}
		return b
	}
	out, ok := mix(old, other).(map[string]any)
	if !ok {
		return other
	}
	return out
}

// randomModel draws modes and ratchets for parts of every form. Where Drop is not possible it is not drawn.
func randomModel(t testing.TB, r *rand.Rand, resources []feature.Resource) *feature.Model {
	t.Helper()
	parts := []v1alpha1.Part{
		{Field: "spec.tasksTimeout"},
		{Field: "spec.onError", Values: []string{"Continue", "Retry"}},
		{Field: "spec.onError", Values: []string{"Stop"}},
		{Field: "spec.replicas", Values: []string{"7"}},
		{Field: "spec.modes[*]", Values: []string{"Odd"}},
		{Field: "spec.modes"},
		{Field: "spec.env[*].secretRef"},
		{Field: "spec.env[*]"},
		{Field: `spec.env["b/c"].value`},
		{Field: "spec.tasks[*].timeout"},
		{Field: "spec.tasks[*].policy", Values: []string{"New"}},
		{Field: "spec.tasks[*].steps[*].debug"},
		{Field: "spec.tasks[*].steps[*].script", Pattern: `^\s*#!win`},
		{Field: "spec.tasks[*].steps"},
		{Field: "spec.volumes[*]", Match: []v1alpha1.Match{{Field: "type", Values: []string{"csi"}}, {Field: "name"}}},
		{Field: "spec.volumes[*].name"},
		{Field: "spec.mounts[*].kind", Values: []string{"rw"}},
		{Field: "spec.mounts[*]"},
		{Field: "spec.free.a.b"},
		{Field: "spec.free.a"},
		{Field: "spec.free.list[*].debug"},
		{Field: "spec.replicas", Beyond: &v1alpha1.Bounds{Minimum: new(int64(2)), Maximum: new(int64(5))}},
		{Field: "spec.tasksTimeout", Beyond: &v1alpha1.Bounds{MaxLength: new(int64(1)), Values: []string{"x", "#!win"}}},
		{Field: "spec.tasks", Beyond: &v1alpha1.Bounds{MaxItems: new(int64(2))}},
		{Field: "spec.tasks[*].timeout", Beyond: &v1alpha1.Bounds{Pattern: "^#!"}},
		{Field: "spec.free.a.b", Beyond: &v1alpha1.Bounds{Values: []string{"7", "x"}, MaxItems: new(int64(1))}},
	}
	var list []v1alpha1.Feature
	for i, p := range parts {
		if r.IntN(3) == 0 {
			continue
		}
		p.Group, p.Resource = "demo.dev", "pipelines"
		s := v1alpha1.FeatureSpec{
			Component: "demo", Gate: fmt.Sprintf("G%d", i), Parts: []v1alpha1.Part{p},
			Stages:       []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}},
			WhenDisabled: []v1alpha1.WhenDisabled{v1alpha1.Reject, v1alpha1.Drop, v1alpha1.Warn}[r.IntN(3)],
			Ratchet:      []v1alpha1.Ratchet{v1alpha1.InUse, v1alpha1.InObject, v1alpha1.Unchanged}[r.IntN(3)],
		}
		if s.WhenDisabled == v1alpha1.Drop && r.IntN(2) == 0 {
			if to, ok := map[string]string{"spec.onError": "Stop", "spec.replicas": "3", "spec.tasks[*].policy": "Old", "spec.mounts[*].kind": "ro", "spec.free.a.b": "x"}[p.Field]; ok {
				s.Parts[0].ResetTo = &to
			}
		}
		list = append(list, v1alpha1.Feature{Spec: s})
	}
	m, findings := feature.Define(component(t, componentYAML), list, feature.Options{Resources: resources})
	for _, f := range findings {
		// Such features are left out, which is what is wanted.
		if f.Code != feature.CodeNoDrop && f.Code != feature.CodeContradiction && !strings.HasSuffix(f.Where, ".resetTo") {
			t.Fatal(f)
		}
	}
	return m
}

func TestEvaluateAgreesWithTheOracle(t *testing.T) {
	resources := pipelines(t)
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := randomModel(t, r, resources)
		for range 20 {
			old := randomObject(r)
			object := changedFrom(r, old)
			agree(t, m, old, object)
			agree(t, m, nil, object)
		}
	}
}

func FuzzEvaluate(f *testing.F) {
	f.Add(uint64(1), []byte(`{"spec":{"tasks":[{"name":"a","timeout":"x"}]}}`), []byte(`{"spec":{"tasks":[{"name":"b","timeout":"x"},{}]}}`))
	f.Add(uint64(2), []byte(`{"spec":{"env":{"a":{"secretRef":1}},"modes":["Odd","Odd"]}}`), []byte(`{"spec":{"env":{"a":{"secretRef":2}},"modes":[["Odd"],"Odd"]}}`))
	f.Add(uint64(3), []byte(`null`), []byte(`{"spec":{"onError":"Retry","replicas":7.0,"free":{"list":[{"debug":1e300}]}}}`))
	resources := pipelines(f)
	f.Fuzz(func(t *testing.T, seed uint64, oldText, text []byte) {
		if len(oldText)+len(text) > 5000 {
			return
		}
		var old, object map[string]any
		if utiljson.Unmarshal(oldText, &old) != nil || utiljson.Unmarshal(text, &object) != nil || object == nil {
			return
		}
		agree(t, randomModel(t, rand.New(rand.NewPCG(seed, 2)), resources), old, object)
	})
}
