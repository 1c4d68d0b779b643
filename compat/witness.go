package compat

// How is a witness written, so that kubectl reads exactly the same object? For example, the string "yes" needs quotes, and 1.0 stays a
// float.

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// objectYAML writes an object as YAML, exactly: what kubectl reads from it is the same value, but for integral floats,
// which stay recognisable as 1.0. Keys are sorted, but apiVersion, kind, metadata, spec and status come first, in that
// order, and in metadata name and namespace.
// A witness is pasted into kubectl apply --dry-run=server, so that every reader of YAML must read the same types,
// those of YAML 1.1 included.
func objectYAML(obj map[string]any) string {
	if len(obj) == 0 {
		return "{}\n"
	}
	root := yamlObject(obj, "apiVersion", "kind", "metadata", "spec", "status")
	for i := 0; i < len(root.Content); i += 2 {
		if meta, ok := obj["metadata"].(map[string]any); ok && root.Content[i].Value == "metadata" {
			root.Content[i+1] = yamlObject(meta, "name", "namespace")
		}
	}
	var text, out strings.Builder
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := e.Encode(root); err != nil {
		return compactJSON(obj) + "\n" // cannot be: no node has a tag or an alias. JSON is YAML, too
	}
	for _, r := range text.String() { // only strings in quotes have letters that are not printable
		if r == '\n' || unicode.IsPrint(r) {
			out.WriteRune(r)
		} else {
			fmt.Fprintf(&out, `\U%08x`, r)
		}
	}
	return out.String()
}

// yamlObject writes an object with its keys sorted, but some of them first in the given order.
func yamlObject(obj map[string]any, first ...string) *yaml.Node {
	keys := slices.Sorted(maps.Keys(obj))
	slices.SortStableFunc(keys, func(a, b string) int { return rankOf(first, a) - rankOf(first, b) })
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, k := range keys {
		n.Content = append(n.Content, yamlString(k), yamlValue(obj[k]))
	}
	return n
}

// rankOf is the place of a key among those that come first; all others come after them, in the order of their names.
func rankOf(first []string, key string) int {
	if i := slices.Index(first, key); i >= 0 {
		return i
	}
	return len(first)
}

// yamlValue writes a value as JSON has it: only strings choose a style, and floats keep a point.
func yamlValue(v any) *yaml.Node {
	switch v := v.(type) {
	case map[string]any:
		return yamlObject(v)
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range v {
			n.Content = append(n.Content, yamlValue(item))
		}
		return n
	case string:
		return yamlString(v)
	case float64:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: formatAsFloat(v)}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: compactJSON(v)} // null, a boolean, an integer
}

// formatAsFloat writes a float so that it cannot be taken for an integer.
// 1e+21 becomes 1.0e+21: without the point, readers of YAML 1.1 take it for a string.
func formatAsFloat(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".") { // 1e+21: YAML wants a point
		mantissa, exponent, _ := strings.Cut(s, "e")
		s = mantissa + ".0e" + exponent
	}
	return s
}

// plainString matches what YAML 1.1 and 1.2 both read as a string without quotes, generously left narrow.
var plainString = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*(:[A-Za-z0-9_./-]+)*( [A-Za-z0-9_./()-]+)*$`)

// notStrings are plain words that YAML 1.1 reads as something else.
var notStrings = []string{"true", "false", "yes", "no", "on", "off", "y", "n", "null"}

// yamlString writes a text. A plain word such as abc needs no quotes; anything that some reader could take for
// another type gets them.
func yamlString(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: strings.ToValidUTF8(s, "\uFFFD")} // no JSON decoder lets such bytes through
	if !plainString.MatchString(s) || slices.Contains(notStrings, strings.ToLower(s)) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}
