package compat

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/report"
)

// outline writes the changed fields of a tree, one a line.
func outline(n *report.SchemaNode) string {
	var b strings.Builder
	if n.Change != "" {
		fmt.Fprintf(&b, "%s %s %s", n.Path, n.Type, n.Change)
		for _, k := range n.Keywords {
			fmt.Fprintf(&b, " %s: %s > %s", k.Keyword, k.Before, k.After)
		}
		b.WriteString("\n")
	}
	for _, c := range n.Children {
		b.WriteString(outline(c))
	}
	return b.String()
}

func TestSchemaTreesShowWhatChanged(t *testing.T) {
	crd := func(fragment string) string { return strings.ReplaceAll(fragment, "\t", "  ") }
	old, err := ExampleCRD(crd(`
same: {type: string, description: a}
size: {type: integer, maximum: 5}
gone: {type: object, properties: {a: {type: string}}}
list: {type: array, items: {type: object, properties: {"a.b": {type: string, enum: [x, z]}}}}
map: {type: object, additionalProperties: {type: integer, format: int32}}
`), true)
	if err != nil {
		t.Fatal(err)
	}
	next, err := ExampleCRD(crd(`
same: {type: string, description: b}
size: {type: integer, maximum: 3, minimum: 1}
list: {type: array, items: {type: object, properties: {"a.b": {type: string, enum: [x]}}}}
map: {type: object, additionalProperties: {type: string}}
added: {x-kubernetes-int-or-string: true}
`), true)
	if err != nil {
		t.Fatal(err)
	}
	trees := SchemaTrees(old, next)
	if len(trees) != 1 || trees[0].Version != "v1" {
		t.Fatalf("%+v", trees)
	}
	want := `.spec.added integer or string added
.spec.gone object removed
.spec.gone.a string removed
.spec.list[*]["a.b"] string changed enum: ["x","z"] > ["x"]
.spec.map.* string changed format: "int32" >  type: "integer" > "string"
.spec.size integer changed maximum: 5 > 3 minimum:  > 1
`
	if diff := cmp.Diff(want, outline(trees[0].Root)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if n := trees[0].Root.Changes; n != 5 {
		t.Errorf("%d changes, want 5: what is removed counts once", n)
	}
	next.Spec.Versions[0].Name = "v2"
	if trees := SchemaTrees(old, next); len(trees) != 2 || trees[0].Root.Change != report.FieldAdded || trees[1].Root.Change != report.FieldRemoved {
		t.Errorf("a version in place of another: %+v", trees)
	}
	if SchemaTrees(nil, nil) != nil {
		t.Error("trees of nothing")
	}
}
