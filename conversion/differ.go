package conversion

// What differs between an object and what came back? For example, .spec.color is gone, or .spec.ports is in another order.

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice.dev/internal/brief"
	"sluice.dev/schema/contain"
)

// change is the kind of a difference.
type change int

const (
	lost      change = iota // a value is gone or another one
	reordered               // a list has its items in another order
	emptied                 // an empty value is gone, or another kind of empty value, or there is one where there was none
	added                   // there is a value where there was none
)

// difference is a place at which two objects differ.
type difference struct {
	// path has a step for each level, such as .name, [3] and .*.
	path          []string
	change        change
	before, after any // nil if there is none
}

// String names what happened, for people.
func (d difference) String() string {
	at := strings.Join(d.path, "")
	switch {
	case d.change == reordered:
		return at + " is in another order: " + jsonText(d.after) + ", not " + jsonText(d.before)
	case d.after == nil:
		return at + " is gone; it was " + jsonText(d.before)
	case d.before == nil:
		return at + " is " + jsonText(d.after) + "; it was not set"
	}
	return at + " is " + jsonText(d.after) + ", not " + jsonText(d.before)
}

// maxValue bounds a value in a message.
const maxValue = 80

// jsonText writes a value for a message, cut if it is long.
func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return brief.Clip(string(text), maxValue)
}

// compareValues returns the differences between two values, in order.
func compareValues(at []string, a, b any) []difference {
	if isEmptyValue(a) && isEmptyValue(b) {
		if reflect.DeepEqual(a, b) {
			return nil
		}
		return []difference{{path: at, change: emptied, before: a, after: b}}
	}
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			return compareFields(at, x, y)
		}
	case []any:
		if y, ok := b.([]any); ok {
			return compareItems(at, x, y)
		}
	}
	switch {
	case isSame(a, b):
		return nil
	case a == nil:
		return []difference{{path: at, change: added, after: b}}
	}
	return []difference{{path: at, change: lost, before: a, after: b}}
}

// compareFields compares two maps field by field, in the order of names. A field with null in one and none in
// the other is emptied, not lost.
func compareFields(at []string, a, b map[string]any) (out []difference) {
	names := maps.Clone(a)
	maps.Copy(names, b)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		x, before := a[name]
		y, after := b[name]
		if before != after && x == nil && y == nil { // null and nothing
			out = append(out, difference{path: append(slices.Clip(at), fieldStep(name)), change: emptied})
			continue
		}
		out = append(out, compareValues(append(slices.Clip(at), fieldStep(name)), x, y)...)
	}
	return out
}

// compareItems compares two lists index by index, unless one has the items of the other in another order: that
// is one difference and not one for each item.
func compareItems(at []string, a, b []any) (out []difference) {
	if len(a) == len(b) && !reflect.DeepEqual(a, b) && reflect.DeepEqual(sortedTexts(a), sortedTexts(b)) {
		return []difference{{path: at, change: reordered, before: a, after: b}}
	}
	for i := range max(len(a), len(b)) {
		var x, y any
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		step := append(slices.Clip(at), "["+strconv.Itoa(i)+"]")
		switch {
		case i >= len(b):
			out = append(out, difference{path: step, change: lost, before: x})
		case i >= len(a):
			out = append(out, difference{path: step, change: added, after: y})
		default:
			out = append(out, compareValues(step, x, y)...)
		}
	}
	return out
}

// sortedTexts writes the items of a list as JSON, sorted, so that two lists can be compared without their
// order.
func sortedTexts(list []any) []string {
	var out []string
	for _, v := range list {
		text, _ := json.Marshal(v) //nolint:errchkjson // it was decoded from JSON
		out = append(out, string(text))
	}
	slices.Sort(out)
	return out
}

// isSame reports whether two scalars are the same number, text or boolean. JSON does not tell 1.0 from 1.
func isSame(a, b any) bool {
	if reflect.DeepEqual(a, b) || isSameTime(a, b) {
		return true
	}
	x, isInt := a.(int64)
	y, isFloat := b.(float64)
	if !isInt || !isFloat {
		x, isInt = b.(int64)
		y, isFloat = a.(float64)
	}
	return isInt && isFloat && float64(x) == y && y < 1<<63 && int64(y) == x
}

// isSameTime reports whether two texts are the same time: types of Kubernetes write it without a fraction.
func isSameTime(a, b any) bool {
	x, _ := a.(string)
	y, _ := b.(string)
	t, err := time.Parse(time.RFC3339, x)
	if err != nil {
		return false
	}
	u, err := time.Parse(time.RFC3339, y)
	return err == nil && t.Equal(u)
}

// isEmptyValue reports whether v is what Go's types have where nothing is set.
func isEmptyValue(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		for _, child := range v {
			if !isEmptyValue(child) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	case string:
		return v == ""
	case bool:
		return !v
	case int64:
		return v == 0
	case float64:
		return v == 0
	}
	return false
}

// fieldStep is a step of a path into a field: .name, or ["a.b"] for a name with other characters.
func fieldStep(name string) string {
	return contain.Path{{Kind: contain.Field, Name: name}}.String()
}
