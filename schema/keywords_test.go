package schema_test

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/schema"
)

func TestEveryFieldHasOneRow(t *testing.T) {
	rows := map[string]string{}
	for _, k := range schema.Keywords {
		if _, ok := rows[k.Field]; ok {
			t.Errorf("%s has two rows", k.Field)
		}
		rows[k.Field] = k.JSON
	}
	fields := map[string]string{}
	typ := reflect.TypeFor[apiextensionsv1.JSONSchemaProps]()
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[f.Name] = name
	}
	if diff := cmp.Diff(fields, rows); diff != "" {
		t.Errorf("fields and their JSON names, -upstream +schema.Keywords:\n%s", diff)
	}
}

func TestRolesAreKnown(t *testing.T) {
	known := map[schema.Role]bool{
		schema.Text: true, schema.Structure: true, schema.Value: true, schema.Junctor: true, schema.Defaulting: true,
		schema.Topology: true, schema.Forbidden: true,
	}
	for _, k := range schema.Keywords {
		if !known[k.Role] {
			t.Errorf("%s has the role %q", k.JSON, k.Role)
		}
	}
}

func TestEveryKeywordIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/containment.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range schema.Keywords {
		row := regexp.MustCompile("(?m)^(\\| `" + regexp.QuoteMeta(k.JSON) + "` \\|.*[a-z]|#+ `" + regexp.QuoteMeta(k.JSON) + "`)")
		if n := len(row.FindAll(page, -1)); n != 1 {
			t.Errorf("docs/containment.md has %d rows for %s", n, k.JSON)
		}
	}
}

// TestHashFollowsTheKeywords changes one keyword at a time.
func TestHashFollowsTheKeywords(t *testing.T) {
	base := `{type: object, properties: {p: {type: string}}}`
	changed := map[string][]string{ // keyword: its values, all different
		"id":                                   {`a`, `b`},
		"$schema":                              {`a`, `b`},
		"$ref":                                 {`a`, `b`},
		"description":                          {`a`, `b`},
		"type":                                 {`array`, `string`, `""`},
		"format":                               {`date`, `byte`},
		"title":                                {`a`, `b`},
		"default":                              {`{}`, `{p: a}`, `{p: 1}`, `{p: float 1.0}`, `""`, `[]`, `0`, `false`},
		"maximum":                              {`0`, `1`, `-1`, `1.5`},
		"exclusiveMaximum":                     {`true`},
		"minimum":                              {`0`, `1`, `-1`, `1.5`},
		"exclusiveMinimum":                     {`true`},
		"maxLength":                            {`0`, `1`, `-1`},
		"minLength":                            {`0`, `1`, `-1`},
		"pattern":                              {`a`, `b`},
		"maxItems":                             {`0`, `1`, `-1`},
		"minItems":                             {`0`, `1`, `-1`},
		"uniqueItems":                          {`true`},
		"multipleOf":                           {`1`, `2`, `0.5`},
		"enum":                                 {`[a]`, `[b]`, `[a, b]`, `[1]`, `[float 1.0]`, `["1"]`, `[null]`, `[[1]]`, `[[float 1.0]]`, `[{a: 1}]`, `[{a: float 1.0}]`, `[true]`, `[[a, b]]`, `[[[a], b]]`, `[[a, [b]]]`},
		"maxProperties":                        {`0`, `1`, `-1`},
		"minProperties":                        {`0`, `1`, `-1`},
		"required":                             {`[a]`, `[b]`, `[a, b]`, `[ab]`, `[""]`},
		"items":                                {`{type: string}`, `{type: integer}`, `{}`, `[{type: string}]`, `[{type: integer}]`},
		"allOf":                                {`[{minLength: 1}]`, `[{minLength: 2}]`, `[{minLength: 1}, {minLength: 1}]`, `[{}]`},
		"oneOf":                                {`[{minLength: 1}]`, `[{minLength: 2}]`, `[{minLength: 1}, {minLength: 1}]`, `[{}]`},
		"anyOf":                                {`[{minLength: 1}]`, `[{minLength: 2}]`, `[{minLength: 1}, {minLength: 1}]`, `[{}]`},
		"not":                                  {`{minLength: 1}`, `{minLength: 2}`, `{}`},
		"properties":                           {`{p: {type: integer}}`, `{q: {type: string}}`, `{p: {type: string}, q: {type: string}}`, `{"": {type: string}}`},
		"additionalProperties":                 {`true`, `false`, `{type: string}`, `{type: integer}`, `{}`},
		"patternProperties":                    {`{a: {type: string}}`, `{a: {type: integer}}`},
		"dependencies":                         {`{a: [b]}`, `{a: [c]}`},
		"additionalItems":                      {`true`, `false`, `{type: string}`},
		"definitions":                          {`{a: {type: string}}`, `{a: {type: integer}}`},
		"externalDocs":                         {`{url: a}`, `{url: b}`},
		"example":                              {`a`, `b`},
		"nullable":                             {`true`},
		"x-kubernetes-preserve-unknown-fields": {`true`, `false`},
		"x-kubernetes-embedded-resource":       {`true`},
		"x-kubernetes-int-or-string":           {`true`},
		"x-kubernetes-list-map-keys":           {`[a]`, `[b]`, `[a, b]`, `[ab]`},
		"x-kubernetes-list-type":               {`atomic`, `set`, `map`},
		"x-kubernetes-map-type":                {`atomic`, `granular`},
		"x-kubernetes-validations":             {`[{rule: a}]`, `[{rule: b}]`, `[{rule: a}, {rule: a}]`, `[{rule: a, optionalOldSelf: true}]`, `[{rule: ""}]`},
	}
	for _, k := range schema.Keywords {
		t.Run(k.JSON, func(t *testing.T) {
			if len(changed[k.JSON]) == 0 {
				t.Fatal("not tested")
			}
			seen := map[schema.Hash]string{node(t, base).Hash(): "nothing"}
			for _, v := range changed[k.JSON] {
				h := node(t, set(t, base, k.JSON, v)).Hash()
				if k.Role == schema.Text {
					if h != node(t, base).Hash() {
						t.Errorf("%s changes the hash", v)
					}
					continue
				}
				if other, ok := seen[h]; ok {
					t.Errorf("%s has the hash of %s", v, other)
				}
				seen[h] = v
			}
		})
	}
}

func TestHashIgnoresWhatDoesNotMatter(t *testing.T) {
	for _, c := range []struct{ name, a, b string }{
		{"the order of branches", `{anyOf: [{minLength: 1}, {maxLength: 2}]}`, `{anyOf: [{maxLength: 2}, {minLength: 1}]}`},
		{"the order of required", `{required: [a, b]}`, `{required: [b, a, b]}`},
		{"what a rule says", `{x-kubernetes-validations: [{rule: a, message: x, reason: FieldValueInvalid, fieldPath: .a}]}`, `{x-kubernetes-validations: [{rule: a, messageExpression: other, optionalOldSelf: false}]}`},
		{"texts below", `{properties: {a: {type: string, description: x}}}`, `{properties: {a: {type: string, title: other}}}`},
		{"empty junctors", `{anyOf: [], oneOf: [], allOf: []}`, `{}`},
		{"a default of null", `{default: null}`, `{}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if node(t, c.a).Hash() != node(t, c.b).Hash() {
				t.Error("the hashes differ")
			}
		})
	}
}

func TestNewIsDeterministic(t *testing.T) {
	var names []string
	for _, c := range "zyxwvutsrqponmlkjihgfedcba" {
		names = append(names, string(c)+": {type: object, properties: {b: {type: string}, a: {type: string, enum: [x, y]}}}")
	}
	text := "{type: object, properties: {" + strings.Join(names, ", ") + "}}"
	want := node(t, text)
	for range 20 {
		got := node(t, text)
		if got.Hash() != want.Hash() {
			t.Fatal("two hashes of one schema")
		}
		for i, p := range want.Properties {
			if got.Properties[i].Name != p.Name || got.Property(p.Name) == nil {
				t.Fatalf("property %d is %s, not %s", i, got.Properties[i].Name, p.Name)
			}
		}
	}
}

func TestNewLimitsTheDepth(t *testing.T) {
	deep := func(levels int) *apiextensionsv1.JSONSchemaProps {
		p := &apiextensionsv1.JSONSchemaProps{Type: "string"}
		for range levels {
			p = &apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: p}}
		}
		return p
	}
	if _, err := schema.New(deep(schema.MaxDepth)); err != nil {
		t.Errorf("as deep as may be: %v", err)
	}
	if _, err := schema.New(deep(schema.MaxDepth + 1)); !errors.Is(err, schema.ErrTooLarge) {
		t.Errorf("one level too deep: %v", err)
	}
}

func TestNewNamesWhatItCannotDecode(t *testing.T) {
	for _, p := range []apiextensionsv1.JSONSchemaProps{
		{Default: &apiextensionsv1.JSON{Raw: []byte("{")}},
		{Enum: []apiextensionsv1.JSON{{Raw: []byte(`"a`)}}},
	} {
		root := apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": p}}
		if _, err := schema.New(&root); err == nil || !strings.Contains(err.Error(), ".properties[a]") {
			t.Errorf("error %v", err)
		}
	}
}

func TestNoSchemaKeepsEverything(t *testing.T) {
	n, err := schema.New(nil)
	if err != nil || !n.PreserveUnknown || n.Hash() != node(t, `{x-kubernetes-preserve-unknown-fields: true}`).Hash() {
		t.Errorf("%+v, %v", n, err)
	}
}

func FuzzAppendValue(f *testing.F) {
	f.Add(`{"a": [1, 1.0, "x", null, true]}`, `{"a": [1.0, 1, "x", null, true]}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := enumOf(a), enumOf(b)
		if x == nil || y == nil {
			return
		}
		same := string(schema.AppendValue(nil, x.Enum)) == string(schema.AppendValue(nil, y.Enum))
		if want := cmp.Equal(x.Enum, y.Enum); same != want {
			t.Errorf("%s and %s: %v", a, b, same)
		}
	})
}

func enumOf(text string) *schema.Node {
	n, err := schema.New(&apiextensionsv1.JSONSchemaProps{Enum: []apiextensionsv1.JSON{{Raw: []byte(text)}}})
	if err != nil || strings.Contains(text, "-0") { // cmp takes -0.0 for 0.0
		return nil
	}
	return n
}

func node(t *testing.T, text string) *schema.Node {
	t.Helper()
	j, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var p apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(float.ReplaceAll(j, []byte("$1")), &p); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	n, err := schema.New(&p)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

// float matches "float 1.0", which stands for 1.0 in these tests: the way from YAML to JSON makes 1 of that.
var float = regexp.MustCompile(`"float ([^"]*)"`)

// set returns the schema with one keyword set.
func set(t *testing.T, text, keyword, value string) string {
	t.Helper()
	all := map[string]any{}
	var v any
	if err := yaml.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(value), &v); err != nil {
		t.Fatal(err)
	}
	all[keyword] = v
	out, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
