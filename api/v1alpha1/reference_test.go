package v1alpha1_test

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
)

// keys lists the paths of all keys beneath a type, items of lists as [].
func keys(t reflect.Type, at string, add func(string)) {
	switch t.Kind() { //nolint:exhaustive // the others have no keys
	case reflect.Pointer:
		keys(t.Elem(), at, add)
	case reflect.Slice:
		keys(t.Elem(), at+"[]", add)
	case reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			add(at + "." + name)
			keys(f.Type, at+"."+name, add)
		}
	}
}

// used lists the paths of the keys that an object has.
func used(v any, at string, add func(string)) {
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			add(at + "." + name)
			used(x, at+"."+name, add)
		}
	case []any:
		for _, x := range v {
			used(x, at+"[]", add)
		}
	}
}

// TestTheReferenceHasEveryKey holds docs/features-reference.md against the types: a row for each key and no other, and an example
// that uses it.
func TestTheReferenceHasEveryKey(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/features-reference.md")
	if err != nil {
		t.Fatal(err)
	}
	for kind, x := range map[string]struct {
		spec  reflect.Type
		empty func() any
	}{
		"Component": {reflect.TypeFor[v1alpha1.ComponentSpec](), func() any { return &v1alpha1.Component{} }},
		"Feature":   {reflect.TypeFor[v1alpha1.FeatureSpec](), func() any { return &v1alpha1.Feature{} }},
	} {
		want, rows, examples := map[string]bool{}, map[string]bool{}, map[string]bool{}
		keys(x.spec, "spec", func(key string) { want[key] = true })
		_, section, _ := strings.Cut(string(page), "\n## "+kind+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, m := range regexp.MustCompile("(?m)^\\| `(spec[^`]*)` \\|").FindAllStringSubmatch(section, -1) {
			if rows[m[1]] {
				t.Errorf("%s has two rows", m[1])
			}
			rows[m[1]] = true
		}
		for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(section, -1) {
			if err := yaml.UnmarshalStrict([]byte(m[1]), x.empty()); err != nil {
				t.Errorf("an example: %v: %s", err, m[1])
			}
			var object map[string]any
			if err := yaml.Unmarshal([]byte(m[1]), &object); err != nil {
				t.Error(err)
			}
			used(object["spec"], "spec", func(key string) { examples[key] = true })
		}
		sorted := func(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
		if diff := cmp.Diff(sorted(want), sorted(rows)); diff != "" {
			t.Errorf("%s: rows: %s", kind, diff)
		}
		if diff := cmp.Diff(sorted(want), sorted(examples)); diff != "" {
			t.Errorf("%s: examples: %s", kind, diff)
		}
	}
}
