package config_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"sluice.dev/config"
)

// TestAValueThatIsTakenAwayIsTold sets each value to null, which takes it away. Where the chart needs it, the error names it, and says
// nothing of templates.
func TestAValueThatIsTakenAwayIsTold(t *testing.T) {
	text, err := os.ReadFile("chart/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	told := 0
	var try func(path []string, values map[string]any)
	try = func(path []string, values map[string]any) {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			at := append(slices.Clone(path), key)
			name := strings.Join(at, ".")
			var tree any
			for _, k := range slices.Backward(at) {
				tree = map[string]any{k: tree}
			}
			given, err := yaml.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := config.Manifests(config.Options{Image: testImage, Roles: []string{"all"}, Values: given}); err != nil {
				told++
				if strings.Contains(err.Error(), "template") || !strings.Contains(err.Error(), name) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if below, ok := values[key].(map[string]any); ok {
				try(at, below)
			}
		}
	}
	try(nil, values)
	if told < 20 {
		t.Errorf("only %d values are needed", told)
	}
}

func TestValuesAreOneDocument(t *testing.T) {
	for text, want := range map[string]string{
		"image: a\n---\nimage: b\n":     "there are 2 YAML documents",
		"---\n# nothing\n---\nimage: b": "",
		"image: a\n---\n# nothing\n":    "",
		"":                              "name the image",
		"image: [\n":                    "the values",
	} {
		_, err := config.Manifests(config.Options{Values: []byte(text)})
		if got := fmt.Sprint(err); err == nil != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
