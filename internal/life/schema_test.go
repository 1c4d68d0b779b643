package life

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/config"
	"sluice.dev/tools/jsonschema"
)

var update = flag.Bool("update", false, "write docs/schemas/feature-file-v1alpha1.json")

const schemaFile = "../../docs/schemas/feature-file-v1alpha1.json"

// TestTheSchemaIsCurrent writes the JSON Schema of features.yaml from the Go types and the CRDs with -update, and compares it with them
// otherwise.
func TestTheSchemaIsCurrent(t *testing.T) {
	m := jsonschema.New(t, "../..")
	m.Closed = true
	m.Special[reflect.TypeFor[v1alpha1.ComponentSpec]()] = specOf(t, "components.sluice.dev")
	feature := specOf(t, "features.sluice.dev")
	feature["required"] = []string{"gate", "stages"} // the file names the component once
	m.Special[reflect.TypeFor[v1alpha1.FeatureSpec]()] = feature
	schema := m.Document(reflect.TypeFor[File](), "features.yaml, "+v1alpha1.SchemeGroupVersion.String(), v1alpha1.SchemeGroupVersion.String(), Kind)
	schema["required"] = []string{"apiVersion", "component", "features", "kind"}
	jsonschema.Current(t, schemaFile, schema, *update, "go test ./internal/life -run SchemaIsCurrent -update")
}

// specOf is the schema of the spec in a CRD, without what only Kubernetes reads.
func specOf(t *testing.T, name string) jsonschema.Object {
	t.Helper()
	text, err := config.FeatureCRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range regexp.MustCompile(`(?m)^---\n`).Split(string(text), -1) {
		var crd struct {
			Metadata struct{ Name string }
			Spec     struct {
				Versions []struct {
					Schema struct {
						OpenAPIV3Schema struct{ Properties map[string]jsonschema.Object }
					}
				}
			}
		}
		if err := yaml.Unmarshal([]byte(document), &crd); err != nil {
			t.Fatal(err)
		}
		if crd.Metadata.Name == name {
			spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			closeObjects(spec)
			return spec
		}
	}
	t.Fatalf("there is no CRD %s", name)
	return nil
}

// closeObjects forbids unknown properties in a schema of Kubernetes, and removes its extensions.
func closeObjects(v any) {
	switch v := v.(type) {
	case jsonschema.Object:
		if _, ok := v["properties"].(jsonschema.Object); ok {
			v["additionalProperties"] = false
		}
		for key, value := range v {
			if strings.HasPrefix(key, "x-kubernetes-") {
				delete(v, key)
				continue
			}
			closeObjects(value)
		}
	case []any:
		for _, value := range v {
			closeObjects(value)
		}
	}
}

// featureFiles are all of this module, and the blocks of pages that hold one.
func featureFiles(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, glob := range []string{"../../features.yaml", "../../examples/*/features.yaml"} {
		names, err := filepath.Glob(glob)
		if err != nil || len(names) == 0 {
			t.Fatal(glob, names, err)
		}
		for _, name := range names {
			out[name] = read(t, name)
		}
	}
	block := regexp.MustCompile("(?s)```yaml[^\n]*\n(.*?)```")
	for _, page := range []string{"../../docs/features-life.md", "../../docs/tutorials/gate-a-field.md"} {
		found := 0
		for _, m := range block.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(m[1], "kind: "+Kind+"\n") {
				found++
				out[page] = m[1]
			}
		}
		if found != 1 {
			t.Errorf("%s has %d files of features, want one", page, found)
		}
	}
	return out
}

// TestTheSchemaAndTheParserAgree: both take every file of this module and its pages. Neither takes one with an unknown key anywhere.
func TestTheSchemaAndTheParserAgree(t *testing.T) {
	fits, err := jsonschema.Read(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	agree := func(name string, document any, want bool) {
		t.Helper()
		text, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		_, parsed := parseFile(t.Context(), name, text)
		valid := fits(document)
		if (parsed == nil) != want || (valid == nil) != want {
			t.Errorf("%s: good is %t; the parser says %v, the schema %v", name, want, parsed, valid)
		}
	}
	spoiled := 0
	for name, text := range featureFiles(t) {
		var document any
		if err := yaml.Unmarshal([]byte(text), &document); err != nil {
			t.Fatal(name, err)
		}
		agree(name, document, true)
		var spoil func(path string, v any)
		spoil = func(path string, v any) {
			switch v := v.(type) {
			case map[string]any:
				if !slices.Contains([]string{"windows", "rules", "announced"}, path[strings.LastIndex(path, ".")+1:]) {
					v["unknownKey"] = "x"
					agree(name+path+".unknownKey", document, false)
					delete(v, "unknownKey")
					spoiled++
				}
				for key, value := range v {
					spoil(path+"."+key, value)
				}
			case []any:
				for _, value := range v {
					spoil(path, value)
				}
			}
		}
		spoil("", document)
	}
	if spoiled < 60 {
		t.Errorf("only %d places were spoiled", spoiled)
	}
}

// TestTheSchemaKnowsValues: an editor marks values that the API server refuses.
func TestTheSchemaKnowsValues(t *testing.T) {
	fits, err := jsonschema.Read(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../examples/operator/features.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for was, is := range map[string]string{
		"kind: FeatureFile": "kind: Features", "gate: Banner": "gate: banner", "stage: Beta": "stage: beta", "ratchet: InUse": "ratchet: Never",
		"component: pages\n": "", "- gate: Signature\n  description": "- description", "release: v1.1.0\n": "release: [v1.1.0]\n",
	} {
		if !strings.Contains(string(text), was) {
			t.Fatalf("the example has no %q", was)
		}
		var document any
		if err := yaml.Unmarshal([]byte(strings.Replace(string(text), was, is, 1)), &document); err != nil {
			t.Fatal(err)
		}
		if fits(document) == nil {
			t.Errorf("the schema takes %q in place of %q", is, was)
		}
	}
}
