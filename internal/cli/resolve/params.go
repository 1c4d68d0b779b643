package resolve

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/resolve"
)

// parseParams reads parameters that were given as NAME=VALUE, by the types that the specification declares. What is wrong
// with a value that can be read is the framework's to say.
func parseParams(spec resolve.Spec, given []string) ([]resolve.Given, error) {
	types := map[string]resolve.Type{}
	for _, p := range spec.Parameters() {
		for _, name := range append([]string{p.Name}, p.Aliases...) {
			types[name] = p.Type
		}
	}
	var out []resolve.Given
	for _, g := range given {
		name, text, ok := strings.Cut(g, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--param %q: want NAME=VALUE", g)
		}
		at := slices.IndexFunc(out, func(o resolve.Given) bool { return o.Name == name })
		if at < 0 || types[name] != resolve.Array && types[name] != resolve.Object {
			out = append(out, resolve.Given{Name: name})
			at = len(out) - 1
		}
		if err := addValue(&out[at].Value, types[name], text); err != nil {
			return nil, fmt.Errorf("--param %s: %w", name, err)
		}
	}
	return out, nil
}

// addValue adds a text to the value of a parameter: a whole one in JSON, or an item.
func addValue(v *resolve.Value, t resolve.Type, text string) error {
	switch t {
	case resolve.Array:
		v.Type = resolve.Array
		if !strings.HasPrefix(strings.TrimSpace(text), "[") {
			v.Array = append(v.Array, text)
			return nil
		}
		var items []string
		if err := json.Unmarshal([]byte(text), &items); err != nil {
			return fmt.Errorf("%q is no array of strings in JSON", text)
		}
		v.Array = append(v.Array, items...)
	case resolve.Object:
		v.Type = resolve.Object
		if v.Object == nil {
			v.Object = map[string]string{}
		}
		if strings.HasPrefix(strings.TrimSpace(text), "{") {
			if err := json.Unmarshal([]byte(text), &v.Object); err != nil {
				return fmt.Errorf("%q is no object of strings in JSON", text)
			}
			return nil
		}
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return fmt.Errorf("%q is neither KEY=VALUE nor an object in JSON", text)
		}
		v.Object[key] = value
	case resolve.String, "":
		*v = resolve.Value{Type: resolve.String, String: text}
	}
	return nil
}

// asParams gives parameters in the form of a request.
func asParams(given []resolve.Given) []v1beta1.Param {
	out := make([]v1beta1.Param, 0, len(given))
	for _, g := range given {
		p := v1beta1.Param{Name: g.Name, Value: v1beta1.StringValue(g.Value.String)}
		switch g.Value.Type {
		case resolve.Array:
			p.Value = v1beta1.ArrayValue(g.Value.Array...)
		case resolve.Object:
			p.Value = v1beta1.ObjectValue(g.Value.Object)
		case resolve.String:
		}
		out = append(out, p)
	}
	return out
}
