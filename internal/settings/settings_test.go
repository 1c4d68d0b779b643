package settings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/feature"
	"sluice.dev/internal/settings"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\n"

// write writes a file and returns its name.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want map[string]string
	}{
		"values":                    {"a: true\nb: 1000000\nc: 1.5\nd: x\ne: yes\n", map[string]string{"a": "true", "b": "1000000", "c": "1.5", "d": "x", "e": "true"}},
		"no value":                  {"a:\n", map[string]string{"a": ""}},
		"gates as a mapping":        {"featureGates: {A: true, B: 'false', C: enabled, D: 1}\n", map[string]string{"gates": "A=true,B=false,C=enabled,D=1"}},
		"gates as text":             {"featureGates: A=true,B=false\n", map[string]string{"gates": "A=true,B=false"}},
		"gates by their own key":    {"gates: {A: true}\n", map[string]string{"gates": "A=true"}},
		"gates without a value":     {"featureGates:\n", map[string]string{"gates": ""}},
		"a ConfigMap":               {configMap + "metadata: {name: a}\nimmutable: false\ndata: {a: 'true', b: null}\n", map[string]string{"a": "true", "b": ""}},
		"a ConfigMap in JSON":       {`{"kind": "ConfigMap", "data": {"a": "true"}}`, map[string]string{"a": "true"}},
		"a ConfigMap with nothing":  {configMap, map[string]string{}},
		"binaryData":                {configMap + "binaryData: {a: dHJ1ZQ==}\n", map[string]string{"binaryData/a": ""}},
		"a list of one":             {"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  data: {a: 'true'}\n", map[string]string{"a": "true"}},
		"a program's file":          {"apiVersion: x.dev/v1\nkind: Configuration\nother: [1]\nfeatureGates: {A: true}\n", map[string]string{"gates": "A=true"}},
		"a program's without gates": {"apiVersion: x.dev/v1\nkind: Configuration\n", map[string]string{}},
		"separators and a mark":     {"\xef\xbb\xbf---\n# x\n---\na: true\n---\n# y\n", map[string]string{"a": "true"}},
		"nothing":                   {"", map[string]string{}},
	} {
		s, err := settings.Read(write(t, tt.text), "gates")
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(tt.want, s.Data); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a: true\n---\nb: true\n":                                             "f:3: a second document begins here",
		"a: true\n...\nb: true\n":                                             "f:3: a second document begins here",
		"{\"a\": true}\n{\"b\": true}\n":                                      "f:2: a second document begins here",
		configMap + "data: {a: b}\n---\n" + configMap:                         "f:5: a second document begins here",
		configMap + "Data: {a: b}\n":                                          `f:3: there is no field "Data" (did you mean "data"?)`,
		configMap + "featureGates: {A: true}\n":                               `f:3: there is no field "featureGates"; the fields are apiVersion, binaryData, data, immutable, kind, metadata`,
		configMap + "data:\n  a: true\n":                                      "f:4: data.a must be a string, not a boolean: put it in quotes",
		configMap + "data:\n  gates: {A: true}\n":                             "f:4: data.gates must be a string, not an object",
		"apiVersion: v1\nkind: configmap\ndata: {a: b}\n":                     `f:2: this is no ConfigMap but apiVersion "v1", kind "configmap"`,
		"kind: Configmap\ndata: {a: b}\n":                                     `f:1: this is no ConfigMap but apiVersion "", kind "Configmap"`,
		"apiVersion: apps/v1\nkind: ConfigMap\ndata: {a: b}\n":                `f:2: this is no ConfigMap but apiVersion "apps/v1", kind "ConfigMap"`,
		"apiVersion: v1\nkind: Secret\ndata: {a: b}\n":                        `f:2: this is no ConfigMap but apiVersion "v1", kind "Secret"`,
		"a: b\nFeatureGates: {A: true}\n":                                     "f:2: FeatureGates sets no gate; the key is featureGates",
		"apiVersion: x.dev/v1\nkind: Configuration\nfeature-gates: {A: true}": "f:3: feature-gates sets no gate; the key is featureGates",
		"a: b\nfeatureGates: [A]\n":                                           "f:2: featureGates is no mapping of gates",
		"a: b\ngates: 1\n":                                                    "f:2: gates is no mapping of gates",
		"featureGates: {A: true}\ngates: B=true\n":                            "f:1: featureGates and gates are the same",
		"featureGates:\n  A: true\n  B:\n":                                    "f:3: the value of B is neither true nor false",
		"featureGates:\n  A: true\n  B: {c: d}\n":                             "f:3: the value of B is neither true nor false",
		"featureGates:\n  A: true\n  B: 'true,C=true'\n":                      "f:3: the value of B is neither true nor false",
		"featureGates:\n  A: true\n  'B=true,C': true\n":                      `f:3: "B=true,C" is no name of a gate`,
		"a: b\nc: {d: e}\n":                                                   "f:2: c is a list or an object",
		"a: true\na: false\n":                                                 `f:2: duplicate key "a"`,
		"- a\n":                                                               "f:1: is a list; a mapping of keys to values is wanted",
		"A=true\n":                                                            "f:1: is a string; a mapping of keys to values is wanted",
		"a: b\n  c: d\n":                                                      "f:2: broken YAML",
		"\x00":                                                                "f:1: is binary data",
		strings.Repeat("#", 2<<20):                                            "f: ",
	} {
		if s, err := settings.Read(write(t, text), "gates"); err == nil || !strings.Contains(err.Error(), "/"+want) {
			t.Errorf("%.99s\n got %v, %v\nwant %s", text, s, err, want)
		}
	}
}

func TestPlaceOf(t *testing.T) {
	mapping := write(t, "a: b\nfeatureGates:\n  A: true\n  B: maybe\n")
	object := write(t, configMap+"data:\n  a: b\nbinaryData:\n  c: ''\n")
	folder := t.TempDir()
	for _, tt := range []struct {
		path, want string
		about      feature.Finding
	}{
		{mapping, mapping + ":1: ", feature.Finding{Where: "a", Gate: "A"}},
		{mapping, mapping + ":2: ", feature.Finding{Where: "gates"}},
		{mapping, mapping + ":4: ", feature.Finding{Where: "gates", Gate: "B"}},
		{mapping, mapping + ":4: ", feature.Finding{Where: "gates", Entry: "B"}},
		{object, object + ":4: ", feature.Finding{Where: "a"}},
		{object, object + ":6: ", feature.Finding{Where: "binaryData/c"}},
		{folder, filepath.Join(folder, "a") + ": ", feature.Finding{Where: "a"}},
	} {
		s, err := settings.Read(tt.path, "gates")
		if err != nil {
			t.Fatal(err)
		}
		if got := s.PlaceOf(&tt.about).Tell(""); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.about, got, tt.want)
		}
	}
}
