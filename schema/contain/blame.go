package contain

// Is this change the reason for which the API server refuses an object? For example, an error about spec.a does not count for a gap at
// spec.b.

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// blamesGap reports whether one of the errors is about the place of the gap, or below it. So the refusal of another change does not count
// for this one.
func blamesGap(g *Gap, errs field.ErrorList) bool {
	path := slices.Clone(g.Path)
	if g.Keyword == "required" && g.Detail != "" {
		path = append(path, Step{Field, g.Detail})
	}
	return slices.ContainsFunc(errs, func(e *field.Error) bool { return matchAt(fieldOf(e), path) })
}

// fieldOf returns the field that an error is about. For junctors and for numbers beyond their format (int32, float), only the text of
// the error has it: "spec.source" must validate one and only one schema (oneOf); ... in spec.replicas (kubeOpenAPIResultToFieldErrors
// in k8s.io/apiextensions-apiserver/pkg/apiserver/validation).
func fieldOf(e *field.Error) string {
	if e.Field != "" && e.Field != noField {
		return e.Field
	}
	if rest, ok := strings.CutPrefix(e.Detail, `"`); ok {
		name, _, _ := strings.Cut(rest, `" must `)
		return name
	}
	if name, _, ok := strings.Cut(e.Detail, " in body "); ok {
		return name
	}
	return e.Detail[strings.LastIndex(e.Detail, " ")+1:]
}

// noField stands for a missing path of a field.
var noField = (*field.Path)(nil).String()

// errorsAbout returns the errors that are about the gap, without those of other changes.
func (x *suspect) errorsAbout(errs field.ErrorList) field.ErrorList {
	var out field.ErrorList
	for _, e := range errs {
		if blamesGap(&x.gap, field.ErrorList{e}) && strings.Contains(e.Detail, x.says) {
			out = append(out, e)
		}
	}
	return out
}

// errorTexts are the errors in the words of the API server.
func errorTexts(errs field.ErrorList) []string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return out
}

// matchAt reports whether the text begins with the path.
func matchAt(text string, path Path) bool {
	if len(path) == 0 {
		return true
	}
	for rest := range restsAfter(text, path[0]) {
		if matchAt(rest, path[1:]) {
			return true
		}
	}
	return false
}

// restsAfter yields what may follow a step at the beginning of a text. A key may itself have dots, so that there are several.
func restsAfter(text string, s Step) iter.Seq[string] {
	return func(yield func(string) bool) {
		switch s.Kind {
		case Field:
			for _, prefix := range []string{"." + s.Name, s.Name, "[" + s.Name + "]"} {
				rest, ok := strings.CutPrefix(text, prefix)
				if ok && (endsName(rest) || strings.HasSuffix(prefix, "]")) && !yield(rest) {
					return
				}
			}
		case AnyItem:
			if _, rest, ok := strings.Cut(text, "]"); ok && strings.HasPrefix(text, "[") {
				yield(rest)
			}
		case AnyKey:
			if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "[") {
				yieldAfterKeys(text[1:], yield)
			}
		}
	}
}

// yieldAfterKeys yields what may follow a key at the beginning of a text.
func yieldAfterKeys(text string, yield func(string) bool) {
	for n := 1; n <= len(text); n++ {
		if rest := strings.TrimPrefix(text[n:], "]"); endsName(rest) && !yield(rest) {
			return
		}
	}
}

// endsName reports whether a name ends before the text.
func endsName(rest string) bool { return rest == "" || !isPlainName(rest[:1]) }

// appendLostPaths lists the paths in a that are missing in b.
func appendLostPaths(a, b any, path string, out []string) []string {
	switch a := a.(type) {
	case map[string]any:
		m, ok := b.(map[string]any)
		if !ok {
			return append(out, path)
		}
		for _, k := range slices.Sorted(maps.Keys(a)) {
			p := strings.TrimPrefix(path+"."+k, ".")
			if v, ok := m[k]; ok {
				out = appendLostPaths(a[k], v, p, out)
			} else {
				out = append(out, p)
			}
		}
	case []any:
		s, ok := b.([]any)
		if !ok || len(s) != len(a) {
			return append(out, path)
		}
		for i := range a {
			out = appendLostPaths(a[i], s[i], fmt.Sprintf("%s[%d]", path, i), out)
		}
	default:
		if !reflect.DeepEqual(a, b) {
			return append(out, path)
		}
	}
	return out
}

// matchesPath reports whether one of the concrete paths is at the path or below it.
func matchesPath(path Path, concrete []string) bool {
	return slices.ContainsFunc(concrete, func(c string) bool { return matchAt("."+c, path) })
}

// ValueAt returns the value of an object at the path. It takes the first of any items or keys that has one.
func ValueAt(v any, path Path) (any, bool) {
	if len(path) == 0 {
		return v, true
	}
	switch v := v.(type) {
	case map[string]any:
		if path[0].Kind == Field {
			x, ok := v[path[0].Name]
			if !ok {
				return nil, false
			}
			return ValueAt(x, path[1:])
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if x, ok := ValueAt(v[k], path[1:]); ok {
				return x, true
			}
		}
	case []any:
		for _, i := range v {
			if x, ok := ValueAt(i, path[1:]); ok {
				return x, true
			}
		}
	}
	return nil, false
}
