package report

import (
	"strings"
	"testing"
)

// marked writes runs with their marks around them.
func marked(runs []run) string {
	var b strings.Builder
	for _, r := range runs {
		if r.Mark != "" {
			r.Text = "<" + r.Mark + ">" + r.Text + "</" + r.Mark + ">"
		}
		b.WriteString(r.Text)
	}
	return b.String()
}

func TestAWitnessIsMarkedWhereTheEffectIs(t *testing.T) {
	const object = "kind: A\nspec:\n  list:\n  - name: a\n    mode: b\n  - name: c\n  last: 1"
	for _, tt := range []struct{ effect, fate, want string }{
		{
			"spec.list[0].mode: Unsupported value: \"b\"", "refuses it",
			"kind: A\nspec:\n  list:\n  - name: a\n<mark>    mode: b\n</mark>  - name: c\n  last: 1",
		},
		{"spec.list is dropped", "drops data", "kind: A\nspec:\n<del>  list:\n  - name: a\n    mode: b\n  - name: c\n</del>  last: 1"},
		{".spec.last is dropped", "drops data", "kind: A\nspec:\n  list:\n  - name: a\n    mode: b\n  - name: c\n<del>  last: 1</del>"},
		{"spec.list[1] is dropped", "drops data", "kind: A\nspec:\n  list:\n  - name: a\n    mode: b\n<del>  - name: c\n</del>  last: 1"},
		{"spec.more: Required value", "refuses it", "kind: A\n<mark>spec:\n</mark>  list:\n  - name: a\n    mode: b\n  - name: c\n  last: 1"},
		{
			"spec.list[0].x is filled in with 3 instead of 2", "fills in another value",
			"kind: A\nspec:\n  list:\n  - name: a\n    mode: b\n<ins>    x: 3  # was 2</ins>\n  - name: c\n  last: 1",
		},
		{"spec.more is filled in with {}", "fills in another value", "kind: A\nspec:\n  list:\n  - name: a\n    mode: b\n  - name: c\n  last: 1\n<ins>  more: {}</ins>"},
		{"spec.more is left out; it was filled in with 1", "leaves a default out", object},
		{"missing.path is dropped", "", ""},
		{"must have one of two", "", ""},
		{"", "", ""},
	} {
		fate, accepted, outcome := markEffect(object, tt.effect)
		if got := marked(outcome); fate != tt.fate || got != tt.want {
			t.Errorf("%s: %q\n%s\nwant %q\n%s", tt.effect, fate, got, tt.fate, tt.want)
		}
		var plain strings.Builder
		for _, r := range accepted {
			plain.WriteString(r.Text)
		}
		if plain.String() != object {
			t.Errorf("%s: the witness is now\n%s", tt.effect, &plain)
		}
	}
}

// Witnesses of other programs, cut or not YAML at all, are shown as they are.
func TestAWitnessThatCannotBeReadHasNoMarks(t *testing.T) {
	for _, object := range []string{"a: [", "a: &x\n  b: *x", "- 1\n- 2", "spec", "{{ x }}", strings.Repeat("[", 20_000), "spec: |\n  a\n   b"} {
		for _, effect := range []string{"spec.a[0]: no", "spec.a is dropped", "[0] is dropped", "spec.a is filled in with 1", "a.b.b.b is dropped", "...: x"} {
			if _, accepted, _ := markEffect(object, effect); marked(accepted) != object && !strings.Contains(marked(accepted), "<mark>") {
				t.Errorf("%q, %q: %q", object, effect, marked(accepted))
			}
		}
	}
}

func TestTheSchemaLinksToItsFindingsAndBack(t *testing.T) {
	r := realistic()
	leaf := func(path string) *SchemaNode {
		return &SchemaNode{Name: path[strings.LastIndexByte(path, '.')+1:], Path: path, Type: "integer", Change: FieldChanged, Keywords: []KeywordChange{{"maximum", "50", "10"}}}
	}
	r.CRDs[0].Schemas = []SchemaTree{{Version: "v1", Root: &SchemaNode{Type: "object", Changes: 1, Children: []*SchemaNode{
		{Name: "spec", Path: ".spec", Type: "object", Changes: 1, Children: []*SchemaNode{leaf(".spec.replicas"), {Name: "<b>", Path: `.spec["<b>"]`}}},
	}}}}
	got := printed(t, "html", r, Options{})
	checkOutput(t, "html", got)
	for _, want := range []string{
		`class="schemas"`, `· v1: 1 change`, `<code>maximum</code> <del>50</del> <ins>10</ins>`, `>maximum-lowered</a>`, `<a href="#schema-1-0-3"><code>.spec.replicas</code></a>`,
		`<b>&lt;b&gt;</b>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

func TestALargeSchemaIsBoundedAndKeepsItsChanges(t *testing.T) {
	r := allSafe()
	root := &SchemaNode{Type: "object", Changes: 1}
	for range 3 * htmlNodes {
		root.Children = append(root.Children, &SchemaNode{Name: "same", Path: ".same"})
	}
	root.Children = append(root.Children, &SchemaNode{Name: "differs", Path: ".differs", Change: FieldAdded})
	r.CRDs[0].Schemas = []SchemaTree{{Version: "v1", Root: root}, {Version: "v2", Root: root}}
	got := printed(t, "html", r, Options{})
	if n := strings.Count(got, "<b>same</b>"); n > htmlNodes {
		t.Errorf("%d fields", n)
	}
	if strings.Count(got, "<b>differs</b>") != 2 || !strings.Contains(got, "more fields (-v shows them)") {
		t.Error("the change, or what is left out, is not told")
	}
	if n := strings.Count(printed(t, "html", r, Options{Verbose: true}), "<b>same</b>"); n != 6*htmlNodes {
		t.Errorf("%d fields with -v", n)
	}
}
