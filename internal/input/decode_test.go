package input

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/report"
)

// crd is a small definition.
func crd(name string) string {
	plural, group, _ := strings.Cut(name, ".")
	return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: " + name +
		"\nspec:\n  group: " + group + "\n  names:\n    plural: " + plural + "\n"
}

// places lists what a set holds, as NAME FILE:LINE.
func places(s *Set) []string {
	var out []string
	for _, d := range s.Documents {
		out = append(out, fmt.Sprintf("%s %s:%d", d.CRD.Name, d.File, d.Line))
	}
	return out
}

func indent(s, by string) string {
	return by + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n"+by) + "\n"
}

func TestDecodeFindsDefinitions(t *testing.T) {
	a, b := crd("as.x.io"), crd("bs.x.io")
	for _, tt := range []struct {
		name, text string
		want       []string
		skipped    map[string]int
	}{
		{name: "one document", text: a, want: []string{"as.x.io f:1"}},
		{
			name: "several documents, comments and empty ones", text: "# x\n---\n" + a + "---\n# nothing\n---\n\n---\n# y\n" + b + "...\n",
			want: []string{"as.x.io f:3", "bs.x.io f:17"},
		},
		{name: "a comment after the marker", text: "--- # first\n" + a + "--- # second\n" + b, want: []string{"as.x.io f:2", "bs.x.io f:11"}},
		{name: "documents ended by dots", text: a + "...\n---\n" + b, want: []string{"as.x.io f:1", "bs.x.io f:11"}},
		{name: "what stands behind dots alone", text: a + "...\n" + b, want: []string{"as.x.io f:1"}},
		{name: "a directive", text: "%YAML 1.1\n---\n" + a, want: []string{"as.x.io f:3"}},
		{name: "a byte order mark and CRLF", text: "\xef\xbb\xbf" + strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n"), want: []string{"as.x.io f:1", "bs.x.io f:10"}},
		{name: "line ends of old", text: strings.ReplaceAll(a+"---\n"+b, "\n", "\r"), want: []string{"as.x.io f:1", "bs.x.io f:10"}},
		{name: "no line end at the end", text: strings.TrimSuffix(a, "\n"), want: []string{"as.x.io f:1"}},
		{name: "markers within text are text", text: a + "  x: |\n    ---\n    ...\n---x: 1\n", want: []string{"as.x.io f:1"}},
		{
			name: "other kinds are counted", text: "kind: Service\n---\nkind: Service\n---\na: b\n---\njust text\n---\n- a list\n---\n" + a + "---\n~\n",
			want: []string{"as.x.io f:11"}, skipped: map[string]int{"Service": 2, NoKind: 1, NoObject: 2},
		},
		{
			name: "a list", text: "apiVersion: v1\nkind: List\nitems:\n-\n" + indent(a, "  ") + "- kind: Pod\n- kind: List\n  items:\n  - \n" + indent(b, "    ") + "-\n",
			want: []string{"as.x.io f:5", "bs.x.io f:17"}, skipped: map[string]int{"Pod": 1},
		},
		{
			name: "items of a typed list need no kind", text: "kind: CustomResourceDefinitionList\nitems:\n- metadata:\n    name: as.x.io\n",
			want: []string{"as.x.io f:3"},
		},
		{
			name: "items of other lists", text: a + "---\nkind: PodList\nitems:\n- metadata: {}\n- kind: Other\n", want: []string{"as.x.io f:1"},
			skipped: map[string]int{"Pod": 1, "Other": 1},
		},
		{name: "JSON", text: inJSON("as.x.io"), want: []string{"as.x.io f:1"}},
		{name: "JSON after JSON", text: inJSON("as.x.io") + "\n\n" + inJSON("bs.x.io") + inJSON("cs.x.io"), want: []string{"as.x.io f:1", "bs.x.io f:3", "cs.x.io f:3"}},
		{name: "JSON and YAML", text: inJSON("as.x.io") + "\n---\n" + b + "---\n" + inJSON("cs.x.io"), want: []string{"as.x.io f:1", "bs.x.io f:3", "cs.x.io f:12"}},
		{name: "a list in JSON", text: "{\"kind\": \"List\", \"items\": [\n" + inJSON("as.x.io") + ",\n\n" + inJSON("bs.x.io") + "]}", want: []string{"as.x.io f:2", "bs.x.io f:4"}},
		{name: "anchors, which the library reads", text: "kind: List\nitems:\n- &x\n" + indent(a, "  ") + "- {kind: Pod, x: *x}\n", want: []string{"as.x.io f:3"}, skipped: map[string]int{"Pod": 1}},
		{name: "the same twice", text: a + "---\n# again\n" + strings.Replace(a, "name: as.x.io", `"name": as.x.io`, 1), want: []string{"as.x.io f:1"}},
		{name: "flow style", text: "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,\n metadata: {name: as.x.io}}\n", want: []string{"as.x.io f:1"}},
		{name: "a template that is YAML all the same", text: a + "  # {{ x }}\n  x: '{{ y }}'\n", want: []string{"as.x.io f:1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set, err := Decode(t.Context(), "f", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, places(set)); diff != "" {
				t.Errorf("documents (-want +got):\n%s", diff)
			}
			if tt.skipped == nil {
				tt.skipped = map[string]int{}
			}
			if diff := cmp.Diff(tt.skipped, set.Skipped); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
			for _, d := range set.Documents {
				if pos, ok := d.Positions.Find(); !ok || pos.Line != d.Line {
					t.Errorf("%s begins on line %d, but its position is %v", d.CRD.Name, d.Line, pos)
				}
			}
		})
	}
}

// inJSON is a definition in JSON, on one line.
func inJSON(name string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"` + name + `"}}`
}

func TestDuplicateKeysAreWarnedOf(t *testing.T) {
	a := crd("as.x.io")
	for _, tt := range []struct {
		name, text string
		line       int
		says       string
	}{
		{"in a definition", "---\n" + a + "  group: y.io\n", 10, `duplicate key "group"`},
		{"in an object inside", a + "  names: {kind: B, kind: y.io, singular: b, singular: c}\n  group: y.io\n", 9, "duplicate key"},
		{"in JSON", strings.Replace(inJSON("as.x.io"), "{", "{\n\"kind\": \"CustomResourceDefinition\",", 1), 0, `duplicate key "kind"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set, err := Decode(t.Context(), "f", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if len(set.Documents) != 1 || len(set.Warnings) != 1 {
				t.Fatalf("got %d definitions, warnings %v", len(set.Documents), set.Warnings)
			}
			w := set.Warnings[0]
			if !strings.Contains(w.Message, tt.says) || !strings.Contains(w.Message, "the last one counts") || tt.line > 0 && w.Position.Line != tt.line {
				t.Errorf("got %+v", w)
			}
			if got := set.Documents[0].CRD.Spec.Group; tt.line > 0 && got != "y.io" {
				t.Errorf("group %q, want that of the last one", got)
			}
		})
	}
	set, err := Decode(t.Context(), "f", []byte(a+"---\nkind: Pod\nkind: Pod\n"))
	if err != nil || len(set.Warnings) != 0 || set.Skipped["Pod"] != 1 {
		t.Errorf("other kinds are nobody's business: %v, %+v", err, set)
	}
}

func TestDecodeRefuses(t *testing.T) {
	a := crd("as.x.io")
	version := func(s string) string { return a + "  versions:\n  - name: v1\n" + indent(s, "    ") }
	schema := func(s string) string { return version("schema:\n  openAPIV3Schema:\n" + indent(s, "    ")) }
	for _, tt := range []struct {
		name, text string
		line       int
		// says are words of the message.
		says []string
		is   error
	}{
		{name: "nothing", text: "", says: []string{"empty"}, is: ErrNoCRD},
		{name: "comments only", text: "# x\n---\n# y\n", says: []string{"empty"}, is: ErrNoCRD},
		{name: "no definition", text: "kind: Pod\n---\nkind: Pod\n---\nkind: Deployment\n", says: []string{"no CustomResourceDefinition", "only 1 Deployment, 2 Pod"}, is: ErrNoCRD},
		{name: "text", text: "hello, world\n", says: []string{NoObject}, is: ErrNoCRD},
		{name: "broken YAML", text: "a: b\n---\na: b\n c: d\n", line: 4, says: []string{"broken YAML", "indentation"}},
		{name: "a bad dedent", text: a + " x: y\n", line: 9, says: []string{"broken YAML", "indentation"}},
		{name: "a tab", text: "a:\n\tb: c\n", line: 2, says: []string{"tab"}},
		{name: "an open quote", text: "a: b\nc: 'd\ne: f\n", line: 2, says: []string{"quote"}},
		{name: "an unknown anchor", text: "a: b\nc: *d\n", line: 2, says: []string{"anchor 'd'"}},
		{name: "keys that become equal", text: a + "  x: {1: a, '1': b}\n", says: []string{`key "1" twice`}},
		{name: "broken JSON", text: "{\"a\": 1,\n \"b\": 2", line: 2, says: []string{"broken"}},
		{name: "a Helm template", text: "a: b\n---\n{{- if .Values.x }}\nkind: Pod\n{{- end }}\n", line: 3, says: []string{"template", "helm template"}},
		{name: "a second document on the same line", text: "a: b\u2028--- c\n", says: []string{"second document"}},
		{name: "v1beta1", text: strings.Replace(a, "/v1", "/v1beta1", 1), line: 1, says: []string{"as.x.io", "v1beta1", "1.22", "apiextensions.k8s.io/v1"}},
		{name: "another version", text: strings.Replace(a, "apiextensions.k8s.io/v1", "v1", 1), line: 1, says: []string{"as.x.io", `"v1"`, "apiextensions.k8s.io/v1"}},
		{name: "no version", text: "\n" + strings.Replace(a, "apiVersion", "version", 1), line: 2, says: []string{"apiVersion"}},
		{name: "no name", text: strings.Replace(a, "name:", "nam:", 1), line: 1, says: []string{"metadata.name"}},
		{name: "a version field of the wrong type", text: version("served: \"true\""), line: 11, says: []string{"spec.versions[0].served must be a boolean, not a string"}},
		{name: "a list that should be one", text: a + "  versions: {}\n", line: 9, says: []string{"spec.versions must be a list, not an object"}},
		{name: "a scalar for an object", text: strings.Replace(a, "  names:\n    plural: as", "  names: x", 1), line: 7, says: []string{"spec.names must be an object, not a string"}},
		{name: "a number for a text", text: a + "  scope: 5\n", line: 9, says: []string{"spec.scope must be a string, not the number 5"}},
		{
			name: "a boolean by accident", text: schema("properties:\n  a:\n    description: yes"), line: 15,
			says: []string{"spec.versions[0].schema.openAPIV3Schema.properties.a.description must be a string, not a boolean"},
		},
		{name: "a length that is text", text: schema("maxLength: \"5\""), line: 13, says: []string{"openAPIV3Schema.maxLength must be an integer, not a string"}},
		{name: "a length that is no integer", text: schema("items:\n  maxLength: 1.5"), line: 14, says: []string{"items.maxLength", "1.5"}},
		{name: "a schema that is none", text: version("schema:\n  openAPIV3Schema: 5"), line: 12, says: []string{"spec.versions[0].schema.openAPIV3Schema must be an object (a schema), not the number 5"}},
		{name: "a property that is no schema", text: schema("properties:\n  a.b: text"), line: 14, says: []string{`properties["a.b"] must be an object (a schema), not a string`}},
		{name: "additionalProperties of the wrong type", text: schema("additionalProperties: 1"), line: 13, says: []string{"additionalProperties must be a boolean or an object"}},
		{
			name: "a wrong type in JSON", text: "{\"apiVersion\": \"apiextensions.k8s.io/v1\", \"kind\": \"CustomResourceDefinition\",\n \"spec\": {\n\"scope\": []}}", line: 3,
			says: []string{"spec.scope must be a string, not a list"},
		},
		{name: "a wrong type where the library reads", text: a + "  scope: &x 5\n", line: 9, says: []string{"spec.scope must be a string, not the number 5"}},
		{name: "the same name with other content", text: a + "---\n" + a + "  scope: Cluster\n", line: 10, says: []string{"as.x.io", "f:1"}},
		{name: "NUL bytes", text: "a: b\nc: \x00\n", line: 2, says: []string{"binary"}},
		{name: "another encoding", text: "a: b\nc: \xe9\n", line: 2, says: []string{"UTF-8"}},
		{name: "UTF-16", text: "\xff\xfea\x00:\x00", says: []string{"UTF-16"}},
		{name: "gzip", text: "\x1f\x8b\x08\x00", says: []string{"gzip"}},
		{name: "a number that JSON lacks", text: "a: .inf\n", says: []string{"Inf"}},
		{name: "a number out of range in JSON", text: "{\"a\": [1,\n 1e400]}", line: 2, says: []string{"number 1e400", "out of range"}},
		{name: "null as a key", text: "~: a\n", says: []string{"null"}},
		{name: "a list as a key", text: "[a]: b\n", says: []string{"key"}},
		{name: "lists in lists", text: strings.Repeat("{kind: List, items: [", 20) + strings.Repeat("]}", 20), line: 1, says: []string{"lists nested"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Decode(t.Context(), "f", []byte(tt.text))
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an *Error", err)
			}
			if e.Position.File != "f" || e.Position.Line != tt.line {
				t.Errorf("at %s:%d, want f:%d: %v", e.Position.File, e.Position.Line, tt.line, err)
			}
			for _, words := range tt.says {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%q does not say %q", err, words)
				}
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v is not %v", err, tt.is)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q has several lines", err)
			}
		})
	}
}

func TestDecodeBoundsWhatItReads(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
	}
	text := "a: &a " + strings.Repeat("x", 1<<16) + "\nb: [" + strings.Repeat("*a,", 10_000) + "]\n"
	steps := ""
	for i := range 2000 {
		steps += strings.Repeat(" ", i) + "a:\n"
	}
	for _, tt := range []struct{ name, text string }{
		{"aliases of aliases", bomb},
		{"aliases of a long text", text},
		{"an alias of itself", "a: &a [*a]\n"},
		{"10,000 levels of flow", strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)},
		{"1,000,000 open brackets", strings.Repeat("[", 1_000_000)},
		{"10,000 levels of JSON", strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000)},
		{"20,000 levels of items", strings.Repeat("- ", 20_000) + "a\n"},
		{"2,000 levels of keys", steps},
		{"too many items", strings.Repeat("-\n", maxNodes+10)},
		{"too many items in one line", "[" + strings.Repeat("1,", maxNodes+10) + "1]"},
		{"too many items in JSON", `{"a":[` + strings.Repeat("1,", maxNodes+10) + "1]}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Decode(t.Context(), "f", []byte(tt.text))
			var e *Error
			if !errors.As(err, &e) || errors.Is(err, ErrNoCRD) {
				t.Errorf("got %.200v, want a refusal", err)
			}
			if err != nil && len(err.Error()) > 300 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestDecodeTakesDeepSchemas(t *testing.T) {
	text := crd("as.x.io") + "  versions:\n  - schema:\n      openAPIV3Schema:\n"
	const levels = 200
	for i := range levels {
		text += strings.Repeat(" ", 8+2*i) + "items:\n"
	}
	text += strings.Repeat(" ", 8+2*levels) + "type: string\n"
	set, err := Decode(t.Context(), "f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s := set.Documents[0].CRD.Spec.Versions[0].Schema.OpenAPIV3Schema
	for range levels {
		s = s.Items.Schema
	}
	if s.Type != "string" {
		t.Errorf("type is %q at the bottom", s.Type)
	}
}

func TestDecodeWarnsOfUnknownFields(t *testing.T) {
	text := crd("as.x.io") + `  preserveUnknownField: false
  versions:
  - name: v1
    storages: true
    schema:
      openAPIV3Schema:
        propertys: {}
        properties:
          a:
            items:
              minlength: 1
            x-kubernetes-validations:
            - rule: "true"
              msg: x
    Served: true
`
	want := []Warning{
		{report.Position{File: "f", Line: 9, Column: 3}, "as.x.io", "unknown field spec.preserveUnknownField is ignored"},
		{report.Position{File: "f", Line: 12, Column: 5}, "as.x.io", "unknown field spec.versions[0].storages is ignored"},
		{report.Position{File: "f", Line: 15, Column: 9}, "as.x.io", "unknown field spec.versions[0].schema.openAPIV3Schema.propertys is ignored"},
		{report.Position{File: "f", Line: 19, Column: 15}, "as.x.io", "unknown field spec.versions[0].schema.openAPIV3Schema.properties.a.items.minlength is ignored"},
		{report.Position{File: "f", Line: 22, Column: 15}, "as.x.io", "unknown field spec.versions[0].schema.openAPIV3Schema.properties.a.x-kubernetes-validations[0].msg is ignored"},
		{report.Position{File: "f", Line: 23, Column: 5}, "as.x.io", "unknown field spec.versions[0].Served is ignored"},
	}
	for _, tt := range []struct{ name, text string }{
		{"read by the fast parser", text},
		{"read by the library", text + "  x-anchor: &x {}\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set, err := Decode(t.Context(), "f", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			got := slices.DeleteFunc(set.Warnings, func(w Warning) bool { return strings.Contains(w.Message, "x-anchor") })
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeKeepsValuesAsJSON(t *testing.T) {
	yaml, err := os.ReadFile("testdata/widgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	json, err := os.ReadFile("testdata/gadgets.json")
	if err != nil {
		t.Fatal(err)
	}
	set, err := Decode(t.Context(), "f", append(append(yaml, "---\n"...), json...))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"widgets.example.com f:3", "gadgets.example.com f:77"}, places(set)); diff != "" {
		t.Fatal(diff)
	}
	widget := set.Documents[0].CRD.Spec.Versions[0].Schema.OpenAPIV3Schema
	spec := widget.Properties["spec"]
	tags := spec.Properties["tags"]
	for _, tt := range []struct{ what, got, want string }{
		{"literal text", widget.Description, "Widget is what the factory makes.\n\n  It has a size, and a colour."},
		{"quoted text", widget.Properties["apiVersion"].Description, "APIVersion defines the version: of the schema, and servers may convert it. It's optional."},
		{"plain text", spec.Description, "Spec says what is wanted, in words that go on over more than one line."},
		{"folded text", tags.Description, "Tags are folded text, of two lines.\n"},
		{"escapes", spec.XValidations[0].Message, `size "0" is only for red`},
		{"enum", string(spec.Properties["colour"].Enum[1].Raw), `"on"`},
		{"flow list", strings.Join(set.Documents[0].CRD.Spec.Names.ShortNames, " "), "wg wdg"},
		{"maximum", fmt.Sprint(*spec.Properties["size"].Maximum), "1000"},
		{"default in JSON", string(set.Documents[1].CRD.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Default.Raw), `{"a":"é\u003c","b":1}`},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.what, tt.got, tt.want)
		}
	}
}
