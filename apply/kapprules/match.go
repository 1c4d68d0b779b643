package kapprules

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// This file selects objects, and places in them, as the configuration of kapp describes both (carvel-dev/kapp, resource matchers).
// For example, {apiGroupKindMatcher: {apiGroup: apps, kind: Deployment}} selects Deployments of all versions, and the path [spec,
// ports, {allIndexes: true}, nodePort] leads to a place in each port.

// Matchers select objects. An object is selected when one of them matches.
type Matchers []Matcher

// Matcher is one of kapp's resource matchers; exactly one field is set.
type Matcher struct {
	All               *struct{}                  `json:"allMatcher"`
	Any               *several                   `json:"anyMatcher"`
	And               *several                   `json:"andMatcher"`
	Not               *struct{ Matcher Matcher } `json:"notMatcher"`
	APIGroupKind      *groupKind                 `json:"apiGroupKindMatcher"`
	APIVersionKind    *versionKind               `json:"apiVersionKindMatcher"`
	KindNamespaceName *kindName                  `json:"kindNamespaceNameMatcher"`
	HasAnnotation     *struct{ Keys []string }   `json:"hasAnnotationMatcher"`
	HasNamespace      *struct{ Names []string }  `json:"hasNamespaceMatcher"`
	CustomResource    *struct{}                  `json:"customResourceMatcher"`
	EmptyField        *struct{ Path Path }       `json:"emptyFieldMatcher"`
}

type (
	several struct {
		Matchers Matchers `json:"matchers"`
	}
	groupKind struct {
		APIGroup string `json:"apiGroup"`
		Kind     string `json:"kind"`
	}
	versionKind struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	kindName struct {
		Kind      string `json:"kind"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	}
)

// Match tells whether an object is selected.
func (list Matchers) Match(obj map[string]any) bool {
	return slices.ContainsFunc(list, func(m Matcher) bool { return m.matchesObject(obj) })
}

// matchesObject reports whether an object is selected. A matcher without any field set, such as one that this package does not know,
// selects nothing.
func (m Matcher) matchesObject(obj map[string]any) bool {
	version, _ := obj["apiVersion"].(string)
	kind, _ := obj["kind"].(string)
	meta, _ := obj["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	namespace, _ := meta["namespace"].(string)
	group, _, ok := strings.Cut(version, "/")
	if !ok {
		group = ""
	}
	switch {
	case m.All != nil:
		return true
	case m.Any != nil:
		return m.Any.Matchers.Match(obj)
	case m.And != nil:
		return !slices.ContainsFunc(m.And.Matchers, func(one Matcher) bool { return !one.matchesObject(obj) })
	case m.Not != nil:
		return !m.Not.Matcher.matchesObject(obj)
	case m.APIGroupKind != nil:
		return group == m.APIGroupKind.APIGroup && kind == m.APIGroupKind.Kind
	case m.APIVersionKind != nil:
		return version == m.APIVersionKind.APIVersion && kind == m.APIVersionKind.Kind
	case m.KindNamespaceName != nil:
		return kind == m.KindNamespaceName.Kind && namespace == m.KindNamespaceName.Namespace && name == m.KindNamespaceName.Name
	case m.HasAnnotation != nil:
		annotations, _ := meta["annotations"].(map[string]any)
		return !slices.ContainsFunc(m.HasAnnotation.Keys, func(k string) bool { return annotations[k] == nil })
	case m.HasNamespace != nil:
		return namespace != "" && (len(m.HasNamespace.Names) == 0 || slices.Contains(m.HasNamespace.Names, namespace))
	case m.CustomResource != nil:
		return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
	case m.EmptyField != nil:
		return isEmpty(m.EmptyField.Path.Places(obj))
	}
	return false
}

// isEmpty reports whether none of the places has a value. null and an empty text, list or map count as none.
func isEmpty(places []Place) bool {
	return !slices.ContainsFunc(places, func(p Place) bool {
		switch x := p.Value.(type) {
		case nil:
			return false
		case string:
			return x != ""
		case []any:
			return len(x) > 0
		case map[string]any:
			return len(x) > 0
		}
		return true
	})
}

// Path leads to fields of an object. An element is a key, an index of a list, or stands for all items of a list.
type Path []Element

// Element is one step of a path.
type Element struct {
	Key   string
	Index int
	// All: every item of a list.
	All bool
	// InList: Index counts.
	InList bool
}

// UnmarshalJSON implements json.Unmarshaler: a string, {"index": N} or {"allIndexes": true}.
func (e *Element) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &e.Key) == nil {
		return nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil || len(m) != 1 {
		return fmt.Errorf("a step of a path is a key, {index: N} or {allIndexes: true}, not %s", b)
	}
	if text, ok := m["index"]; ok && json.Unmarshal(text, &e.Index) == nil {
		e.InList = true
		return nil
	}
	if text, ok := m["allIndexes"]; ok && json.Unmarshal(text, &e.All) == nil && e.All {
		return nil
	}
	return fmt.Errorf("a step of a path is a key, {index: N} or {allIndexes: true}, not %s", b)
}

// Place is one that a path leads to in a value: its steps are keys (string) and indexes (int).
type Place struct {
	Steps []any
	Value any
}

// Places gives all places that a path leads to in a value.
func (p Path) Places(v any) []Place {
	if len(p) == 0 {
		return []Place{{Value: v}}
	}
	var out []Place
	add := func(step, inner any) {
		for _, rest := range p[1:].Places(inner) {
			out = append(out, Place{append([]any{step}, rest.Steps...), rest.Value})
		}
	}
	switch e := p[0]; x := v.(type) {
	case map[string]any:
		if inner, ok := x[e.Key]; ok && !e.All && !e.InList {
			add(e.Key, inner)
		}
	case []any:
		for i, item := range x {
			if e.All || e.InList && i == e.Index {
				add(i, item)
			}
		}
	}
	return out
}

// Set gives a value in which a path of [Place] leads to another one, or to nothing where remove is set. What is on the way is copied,
// and made where it is missing and is a map.
func Set(v any, path []any, to any, remove bool) any {
	if len(path) == 0 {
		return to
	}
	switch s := path[0].(type) {
	case string:
		m, _ := v.(map[string]any)
		if m == nil {
			m = map[string]any{}
		}
		m = maps.Clone(m)
		if len(path) == 1 && remove {
			delete(m, s)
		} else {
			m[s] = Set(m[s], path[1:], to, remove)
		}
		return m
	case int:
		l, ok := v.([]any)
		if !ok || s >= len(l) {
			return v
		}
		l = slices.Clone(l)
		if len(path) == 1 && remove {
			return slices.Delete(l, s, s+1)
		}
		l[s] = Set(l[s], path[1:], to, remove)
		return l
	}
	return v
}
