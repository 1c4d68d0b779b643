package report

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"sluice.dev/tools/jsonschema"
)

const schemaFile = "../docs/schemas/report-v1alpha1.json"

// TestTheSchemaIsCurrent writes the JSON Schema of the format json from the Go types with -update, and compares it with them otherwise.
func TestTheSchemaIsCurrent(t *testing.T) {
	schema := jsonschema.New(t, "..").Document(reflect.TypeFor[Document](), "Report of sluice check, "+APIVersion, APIVersion, Kind)
	jsonschema.Current(t, schemaFile, schema, *update, "go test ./report -update")
}

// TestReportsFitTheSchema validates reports as they are printed. Without a required property, or with a value of another type, they do not
// fit.
func TestReportsFitTheSchema(t *testing.T) {
	fits, err := jsonschema.Read(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for name, r := range map[string]*Report{"realistic": realistic(), "empty": {}, "safe": allSafe()} {
		var document map[string]any
		if err := json.Unmarshal([]byte(printed(t, "json", r, Options{})), &document); err != nil {
			t.Fatal(err)
		}
		if err := fits(document); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if crds, ok := document["crds"].([]any); ok { // every value means another validation
			document["crds"] = crds[:min(len(crds), 1)]
		}
		eachValue(document, func(where string, set func(v any), unset func()) {
			set(func() {}) // no JSON value has this type
			if fits(document) == nil {
				t.Errorf("%s: %s can have any value", name, where)
			}
			unset()
			if fits(document) != nil {
				refused++
			}
		})
	}
	if refused < 20 {
		t.Errorf("only %d properties are required", refused)
	}
}

// eachValue visits the values below v. After the visit each is as it was. set gives it another one, and unset removes it.
func eachValue(v any, visit func(where string, set func(v any), unset func())) {
	switch v := v.(type) {
	case map[string]any:
		for key, was := range v {
			visit("."+key, func(x any) { v[key] = x }, func() { delete(v, key) })
			v[key] = was
			eachValue(was, func(where string, set func(v any), unset func()) { visit("."+key+where, set, unset) })
		}
	case []any:
		for i, was := range v {
			eachValue(was, func(where string, set func(v any), unset func()) { visit(fmt.Sprintf("[%d]%s", i, where), set, unset) })
		}
	}
}
