package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"
)

// chart is the Helm chart of this package, read.
type chart struct {
	templates *template.Template
	values    map[string]any
}

// readChart reads the chart. It has the template functions that the templates use, as in Helm; they are a part of sprig. A test in
// module test/helm compares the result with Helm's.
func readChart() (*chart, error) {
	text, err := files.ReadFile("chart/values.yaml")
	if err != nil {
		return nil, err
	}
	c := &chart{templates: template.New("chart").Option("missingkey=zero")}
	if err := yaml.Unmarshal(text, &c.values); err != nil {
		return nil, err
	}
	c.templates.Funcs(functions).Funcs(template.FuncMap{"include": func(name string, data any) (string, error) {
		var out strings.Builder
		err := c.templates.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}, "file": chartFile})
	entries, err := files.ReadDir("chart/templates")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		text, err := files.ReadFile(path.Join("chart/templates", e.Name()))
		if err != nil {
			return nil, err
		}
		// Templates cannot call methods here (docs/adr/0004-weight-of-compat.md), so .Files.Get is a function.
		if _, err := c.templates.New(e.Name()).Parse(strings.ReplaceAll(string(text), ".Files.Get ", "file ")); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// chartFile returns a file of the chart; empty if there is none, as .Files.Get in Helm.
func chartFile(name string) string {
	text, err := files.ReadFile(path.Join("chart", name))
	if err != nil {
		return ""
	}
	return string(text)
}

// renderManifests returns the manifests of all templates, in the order of their names.
func (c *chart) renderManifests(namespace string, values map[string]any) ([]byte, error) {
	data := map[string]any{"Values": values, "Release": map[string]any{"Namespace": namespace}}
	var out bytes.Buffer
	var names []string
	for _, t := range c.templates.Templates() {
		if strings.HasSuffix(t.Name(), ".yaml") {
			names = append(names, t.Name())
		}
	}
	slices.Sort(names)
	for _, name := range names {
		var text bytes.Buffer
		err := c.templates.ExecuteTemplate(&text, name, data)
		if refused := (refusal{}); errors.As(err, &refused) {
			return nil, refused
		}
		if err != nil {
			return nil, err
		}
		trimmed := bytes.TrimPrefix(bytes.TrimSpace(text.Bytes()), []byte("---\n"))
		if len(trimmed) == 0 {
			continue
		}
		if out.Len() > 0 {
			out.WriteString("---\n")
		}
		out.Write(trimmed)
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}

// overlayValues merges others into values; later ones take precedence. Lists and scalars are replaced, and null removes a value, as in
// Helm.
func overlayValues(values map[string]any, others ...map[string]any) map[string]any {
	out := maps.Clone(values)
	for _, other := range others {
		for k, v := range other {
			below, isMap := out[k].(map[string]any)
			if m, ok := v.(map[string]any); ok && isMap {
				out[k] = overlayValues(below, m)
			} else if v == nil {
				delete(out, k)
			} else {
				out[k] = v
			}
		}
	}
	return out
}

// validateValues validates values by the chart's values.schema.json, as Helm does.
func validateValues(values map[string]any) error {
	text, err := files.ReadFile("chart/values.schema.json")
	if err != nil {
		return err
	}
	var schema spec.Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		return err
	}
	var errs []error
	for _, e := range validate.NewSchemaValidator(&schema, nil, "", strfmt.Default).Validate(values).Errors {
		if v, ok := e.(*openapierrors.Validation); ok { //nolint:errorlint // Errors has no wrapped ones
			e = errors.New(strings.TrimPrefix(v.Name, ".") + strings.Replace(strings.TrimPrefix(v.Error(), v.Name), " in body is required", " is required", 1))
		}
		errs = append(errs, e)
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// refusal is the error of the template function fail.
type refusal struct{ text string }

func (r refusal) Error() string { return r.text }

// functions are the template functions of Helm that the templates use, with the same results.
var functions = template.FuncMap{
	"append":     func(list []any, v any) []any { return append(slices.Clone(list), v) },
	"concat":     func(lists ...[]any) []any { return slices.Concat(lists...) },
	"default":    func(d, v any) any { return valueOrDefault(d, v) },
	"dict":       dictOf,
	"fail":       func(text string) (string, error) { return "", refusal{text} },
	"first":      func(list []any) any { return list[0] },
	"get":        func(m map[string]any, k string) any { return m[k] },
	"has":        func(v any, list []any) bool { return slices.Contains(list, v) },
	"hasPrefix":  func(prefix, s string) bool { return strings.HasPrefix(s, prefix) },
	"int":        func(v float64) int { return int(v) }, // all numbers of YAML are float64
	"join":       func(sep string, list []any) string { return strings.Join(textsOf(list), sep) },
	"keys":       func(m map[string]any) []any { return anysOf(slices.Collect(maps.Keys(m))) },
	"last":       func(list []any) any { return list[len(list)-1] },
	"list":       func(v ...any) []any { return slices.Concat([]any{}, v) },
	"merge":      func(m map[string]any, other map[string]any) map[string]any { return overlayValues(other, m) },
	"nindent":    func(n int, s string) string { return "\n" + indentLines(n, s) },
	"quote":      func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) },
	"regexMatch": func(pattern, s string) bool { return regexp.MustCompile(pattern).MatchString(s) },
	"replace":    func(from, to, s string) string { return strings.ReplaceAll(s, from, to) },
	"set": func(m map[string]any, k string, v any) map[string]any {
		m[k] = v
		return m
	},
	"sortAlpha":  func(list []any) []any { return anysOf(slices.Sorted(slices.Values(textsOf(list)))) },
	"splitList":  func(sep, s string) []any { return anysOf(strings.Split(s, sep)) },
	"squote":     func(v any) string { return "'" + fmt.Sprint(v) + "'" },
	"ternary":    func(yes, no any, test bool) any { return map[bool]any{true: yes, false: no}[test] },
	"toJson":     func(v any) (string, error) { return trimmedText(json.Marshal(v)) },
	"toYaml":     func(v any) (string, error) { return trimmedText(yaml.Marshal(v)) },
	"trimPrefix": func(prefix, s string) string { return strings.TrimPrefix(s, prefix) },
	"uniq": func(list []any) (out []any) {
		for _, v := range list {
			if !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
		return out
	},
}

// valueOrDefault returns the default for what a template counts as false: zero, an empty text, list or map.
func valueOrDefault(d, v any) any {
	if yes, ok := template.IsTrue(v); ok && yes {
		return v
	}
	return d
}

// dictOf returns a map of keys and values in turn.
func dictOf(pairs ...any) map[string]any {
	out := map[string]any{}
	for pair := range slices.Chunk(pairs, 2) {
		out[fmt.Sprint(pair[0])] = pair[1]
	}
	return out
}

func textsOf(list []any) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = fmt.Sprint(v)
	}
	return out
}

func anysOf(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

func trimmedText(data []byte, err error) (string, error) {
	return strings.TrimSuffix(string(data), "\n"), err
}

func indentLines(n int, s string) string {
	pad := strings.Repeat(" ", n)
	return pad + strings.ReplaceAll(s, "\n", "\n"+pad)
}
