package input

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// yamlSeeds are texts in which the rules of YAML, or of the library, are easy to get wrong.
var yamlSeeds = []string{
	"|2\n   a\n", "--- # x\n>1\n  b\n", "a: 1__0\nb: 1_\nc: 1_0.5\nd: +_1\ne: 0x_f\nf: 1_e1\n",
	"a: 'b\n... c'\n", "a:\n... : b\n", "... a\n",
	"a: b\n", "a: 'b'\n", `a: "b\n\x41\u00e9\U0001F600\_\N\L\P\e\0 \ c"`, "a: |\n  x\n  y\n", "a: >-\n  x\n  y\n\n  z\n   w\n  v\n\n",
	"a: |+\n  x\n\n\nb: c\n", "a: |2\n   x\n  y\n", "a: >2-\n   x\n", "a: |\n\n\n  x\n", "a: |\n    \n  x\n", "a: >\n\n", "a: |", "a: |-\n x",
	"a:\n  - b\n  - c: d\n    e: f\n  -\n    g\n  - - h\n    - i\n", "a:\n- b\n-\n- c\nd: e\n", "- a\n- b\n", "-\n", "- - - a\n", "- a: b\n  c: d\n- e\n",
	"a: b c\n  d e\n\n\n  f # g\n", "a: 'b\n  c\n\n  d'\n", "a: \"b\n  c\\\n  \\ d  \n\n  e\"\n", "a: b # c\n", "a: b#c\n", "a:   # c\n  b\n", "# x\na: b\n# y\n",
	"a: yes\nb: No\nc: on\nd: OFF\ne: y\nf: N\ng: ~\nh: null\ni: Null\nj: true\nk: False\n", "a: 0x1F\nb: 0o17\nc: 017\nd: 08\ne: 0b101\nf: 1_000\ng: -0b1\nh: 0b-1\n",
	"a: 1.0\nb: 1e3\nc: .5\nd: -.5\ne: +1\nf: 1.\ng: 1e400\nh: -0\ni: -0.0\nj: 1e21\nk: 1e-7\n", "a: .inf\n", "a: -.INF\n", "a: .nan\n",
	"a: 9223372036854775807\nb: 9223372036854775808\nc: 18446744073709551616\nd: -9223372036854775809\n",
	"a: 2001-12-14\nb: 2001-12-14t21:59:43.10-05:00\nc: 2001-12-14 21:59:43.10\nd: 12:30:45\n", "a: 1.2.3\nb: 1-2\nc: -a\nd: --\ne: ---\nf: .a\n",
	"yes: 1\n", "1: a\n", "1.5: a\n", "~: a\n", "'1': a\n", "<<: {a: b}\n", "a: &x b\nc: *x\n", "a: !!str 1\n", "? a\n: b\n", "a: {b: c, d: [e, f]}\n",
	"a: [b, c]\nd: []\ne: {}\nf: [ ]\ng: ['x', \"y\", 1, true, null, a.b/c-d_e]\n", "a: [b,\n  c]\n", "a: [b, c,]\n", "a: [,]\n", "a: [b c]\n", "[a]: b\n", "a: b: c\n", "a: b\n c: d\n",
	"a: b\na: c\n", "a: {b: 1, b: 2}\n", "b: 1\na: 2\nb: 3\n", "a:\tb\n", "a: b\tc\t\n", "\ta: b\n", "a:\n\tb\n", "a: b\n\t\n", "a: 'b\t\n\tc'\n", "a: |\n\tb\n", "a: |\n  \tb\n",
	"a: b\r\nc: |\r\n  d\r\n  e\r\nf: 'g\r\n  h'\r\n", "a: b\rc: d\r", "\xef\xbb\xbfa: b\n", "a: \xef\xbb\xbfb\n", "a: b\u0085c: d\n", "a: \u2028b\n", "a: \u00e9\u4e2d\U0001F600\n", "a: \x07\n", "a: \x7f\n",
	"---\na: b\n", "--- # x\na: b\n---\nc: d\n...\ne: f\n", "--- a\n", "--- |\n  a\n", "%YAML 1.1\n---\na: b\n", "%YAML 1.1\n# c\n---\na: b\n---\n%TAG ! x\n---\na: b\n", "a: 'b\n---\nc'\n", "...\n", "---\n---\n", "a: b\n... # c\n", "a: b\n...x\n",
	"\"a\": b\n'c': d\n\"e\" : f\n\"g\":h\n", "a : b\n", "a b: c\n", "a:b: c\n", "a:: b\n", "a: :b\n", "a: ?b\n", "a: -\n", "a: - b\n", "a: ,b\n", "a: %b\n", "a: @b\n", "a: `b\n", "a: ]\n", "a: *\n", "a: !\n",
	"a: ''\nb: \"\"\nc: 'it''s'\nd: 'a''\n\n  ''b'\n", "a: \"\\\"\"\n", "a: \"b\\\nc\"\n", "a: \"b\" c\n", "a: 'b'#c\n", "a: 'b' # c\n", "a: \"\\q\"\n", "a: \"\\ud800\"\n", "a: \"\\x4\"\n",
	"a:\n  b\n  c\n", "a:\n b: c\n  d: e\n", "a:\n  b: c\n d: e\n", "a: |\n  b\n c\n", "a: >\n  b\n   c\n\n  d\n", "a: >\n  \tb\n  c\n  \td\n", "a: >\n   b\n\n   c\n  \n", "a: |1\n  b\n", "a:\n  |\n  b\n", "- |\n b\n-  >\n  c\n",
	"a: |  # c\n  b\n", "a: |#c\n  b\n", "a: |x\n  b\n", "a: |+-\n  b\n", "a: |10\n  b\n", "a: >+\n\n\n", "a: |\n  b\n # c\n# d\ne: f\n", "a: |\n  b\n    ", "a: |\n  b\n ", "a:\n  - |\n    b\n\n  - c\n",
	"{\"a\": 1.0, \"b\": [1e2, -0, \"\\ud83d\\ude00\\/\"]}", "{\"a\": 1}{\"b\": 2}\n[3]", "{\"a\":1}\n---\n{\"b\":2}\n", "{\"a\": 1, \"a\": 2}", "{\"a\": 01}", "{a: b}", "{\"a\": \"\t\"}", "{\"a\"\n:\n1}", "{\"\\u0061\": 1, \"a\": 2}",
	"a: \"\\\n  \n  b\"\n", "a: 'b' \n", "a: b \n", "a: b  c\n", "a: \n", "a:\n\n\n\nb:\n", "a:\n# c\n  # d\n  b: c\n", "a: b\n\n  # x\n  c\n", "a: #b\n", "a: b #\n", "a: 'b\n# c\n'\n", "a: b\n  - c\n", "a: b\n  c: d\n",
}

// crdSeeds are definitions with every kind of field.
var crdSeeds = []string{
	head + "spec: {group: example.com, scope: Namespaced}\n",
	head + `spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    colour: red
    schema:
      openAPIV3Schema:
        type: object
        properties:
          a: {type: integer, maximum: 1e3, minimum: 1.5, default: 3, enum: [1, null, "x", {"b": [1.0]}]}
          b: {items: {type: string, bogus: 1}, x-kubernetes-list-type: set, x-kubernetes-list-map-keys: [k]}
          c: {additionalProperties: true, dependencies: {x: [y], z: {type: string}, w: null}}
          d: {additionalProperties: {type: object}, x-kubernetes-validations: [{rule: "true", reason: FieldValueInvalid, optionalOldSelf: true}]}
          e: {items: [{type: string}], allOf: [{not: {type: integer}}], default: null, example: {"<": ">"}, nullable: null}
          f: {items: false, additionalItems: false, externalDocs: {url: x, nothing: 1}, patternProperties: {a: {}}, definitions: {b: {}}}
          g:
`,
	head + "spec:\n  versions:\n  - schema:\n      openAPIV3Schema:\n        maxLength: \"5\"\n",
	head + "spec:\n  versions:\n  - schema:\n      openAPIV3Schema: 5\n",
	head + "spec:\n  versions:\n  -\n  - schema:\n      openAPIV3Schema:\n        properties:\n          x:\n            additionalProperties: 5\n",
	head + "spec:\n  scope: 5\n", head + "spec:\n  names:\n    shortNames: {}\n", head + "spec:\n  versions:\n  - served: \"true\"\n", head + "  generation: 1.5\n", head + "  creationTimestamp: x\n",
}

const head = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: widgets.example.com\n"

func TestSeedsAgree(t *testing.T) {
	for _, s := range append(yamlSeeds, crdSeeds...) {
		agree(t, []byte(s))
		agree(t, []byte(strings.ReplaceAll(s, "\n", "\r\n")))
		agree(t, []byte("x:\n  "+strings.ReplaceAll(s, "\n", "\n  ")))
		agree(t, []byte("- "+strings.ReplaceAll(s, "\n", "\n  ")))
	}
}

// FuzzDecode holds what is read to the libraries and to the API server's decoder, and everything to never panicking and to
// errors of one line.
func FuzzDecode(f *testing.F) {
	for _, s := range append(yamlSeeds, crdSeeds...) {
		f.Add([]byte(s))
	}
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		agree(t, data)
		decodes(t, data)
	})
}

// FuzzTokens does the same for texts that are put together from the words of YAML, which reach deeper than random bytes.
func FuzzTokens(f *testing.F) {
	f.Add([]byte("\x00\x0c\x01\x03\x05\x0b\x03"))
	f.Fuzz(func(t *testing.T, choice []byte) {
		if len(choice) > 400 {
			return
		}
		var text []byte
		for _, c := range choice {
			text = append(text, tokens[int(c)%len(tokens)]...)
		}
		agree(t, text)
		decodes(t, text)
	})
}

var tokens = []string{
	"a: ", "b: ", "c", "\n", "\n  ", "\n    ", "\n ", "- ", "-", "d e", "|", ">", "+", "-\n", "1", "2", " ", "  ", "'", "''", "\"", "\\", "\\\n", "\\n",
	"#", " # ", ":", "? ", "[", "]", ", ", "{", "}", "\t", "\r\n", "\n\n", "\n\n  ", "---", "\n---\n", "\n...\n", "yes", "null", "~", "0x1f", "017", "1.5", ".inf",
	"2001-01-01", "1_0", "é", "&x ", "*x", "!!str ", "<<: ", "\"a\": ", "'b': ", "[]", "{}", "[a, 'b']", "\n  - ", "\n- ", "\n  a: ", "\n  b: ", "\na: ", "\nb: ", "|-\n  ", ">-\n  ", "|2\n", "%YAML 1.1\n", "\u0085", "\u2028", "\xef\xbb\xbf",
}

func decodes(t *testing.T, data []byte) {
	t.Helper()
	set, err := Decode(t.Context(), "fuzz.yaml", data)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) || strings.ContainsAny(err.Error(), "\n\r") {
			t.Fatalf("error %#v is not one line", err.Error())
		}
		return
	}
	for _, d := range set.Documents {
		if d.CRD == nil || d.CRD.Name == "" || d.Line < 1 {
			t.Fatalf("bad document %+v", d)
		}
		for _, path := range [][]string{nil, {"spec"}, {"spec", "versions", "0", "schema", "openAPIV3Schema", "properties"}, {"nothing", "x"}} {
			if pos, _ := d.Positions.Find(path...); pos.Line < 1 {
				t.Fatalf("no position for %q in %q", path, data)
			}
		}
	}
	for _, w := range set.Warnings {
		if w.Position.Line < 1 || strings.Contains(w.Message, "\n") {
			t.Fatalf("bad warning %+v", w)
		}
	}
}
