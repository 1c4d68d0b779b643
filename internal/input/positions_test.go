package input

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/report"
)

func TestFind(t *testing.T) {
	yaml := "# x\n---\n" + crd("as.x.io") + "  versions:\n  - name: v1\n    served: true\n  -\n    name: v2\n"
	for _, tt := range []struct {
		name, text string
		path       []string
		line, col  int
		partly     bool
	}{
		{name: "the definition itself", text: yaml, line: 3, col: 1},
		{name: "a key", text: yaml, path: []string{"spec", "group"}, line: 8, col: 3},
		{name: "an item", text: yaml, path: []string{"spec", "versions", "0"}, line: 12, col: 5},
		{name: "a key of an item", text: yaml, path: []string{"spec", "versions", "1", "name"}, line: 15, col: 5},
		{name: "what is not there gives what is around it", text: yaml, path: []string{"spec", "versions", "1", "schema", "x"}, line: 15, col: 5, partly: true},
		{name: "an item too many", text: yaml, path: []string{"spec", "versions", "2"}, line: 11, col: 3, partly: true},
		{name: "no index", text: yaml, path: []string{"spec", "versions", "x"}, line: 11, col: 3, partly: true},
		{name: "below a scalar", text: yaml, path: []string{"spec", "group", "x"}, line: 8, col: 3, partly: true},
		{
			name: "in a list", text: "kind: List\nitems:\n- kind: Pod\n-\n" + indent(crd("as.x.io"), "    "),
			path: []string{"metadata", "name"}, line: 8, col: 7,
		},
		{
			name: "in JSON after JSON",
			text: "{}\n{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\",\n \"metadata\":{\"name\":\"as.x.io\"}}",
			path: []string{"metadata", "name"}, line: 3, col: 14,
		},
		{
			name: "through an alias", text: "---\n" + crd("as.x.io") + "  versions:\n  - &v\n    name: v1\n    schema: {openAPIV3Schema: {type: object}}\n  - *v\n",
			path: []string{"spec", "versions", "1", "schema", "openAPIV3Schema"}, line: 13, col: 14,
		},
		{
			name: "through a merge key", text: crd("as.x.io") + "  x: &v\n    name: v1\n  versions:\n  - <<: [{a: b}, *v]\n    served: true\n",
			path: []string{"spec", "versions", "0", "name"}, line: 10, col: 5,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set, err := Decode(t.Context(), "f", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			got, ok := set.Documents[0].Positions.Find(tt.path...)
			want := report.Position{File: "f", Line: tt.line, Column: tt.col}
			if got != want || ok == tt.partly {
				t.Errorf("got %+v, %t; want %+v, %t", got, ok, want, !tt.partly)
			}
		})
	}
}

func TestFindIsSafeForConcurrentUse(t *testing.T) {
	set, err := Decode(t.Context(), "f", []byte(crd("as.x.io")))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if pos, ok := set.Documents[0].Positions.Find("spec", "group"); !ok || pos.Line != 6 {
				t.Errorf("got %+v, %t", pos, ok)
			}
		})
	}
	wg.Wait()
}

func TestFindOnNothing(t *testing.T) {
	var p *Positions
	if pos, ok := p.Find("spec"); ok || pos != (report.Position{}) {
		t.Errorf("got %+v, %t", pos, ok)
	}
}

func TestObjectsKnowTheirPlaces(t *testing.T) {
	const text = "kind: A\nspec:\n  parts:\n  - field: x\n---\nkind: List\nitems:\n- kind: B\n  data:\n    k: v\n---\n{\"kind\": \"C\",\n \"spec\": {\n  \"x\": \"\\ud83d\\ude00\"}}\n---\nkind: D\nspec:\n  x: 1\n  x: 2\n"
	set, err := DecodeObjects(t.Context(), "f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, path := range [][]string{{"spec", "parts", "0", "field"}, {"data", "k"}, {"spec", "x"}, {"spec", "y"}} {
		o := set.Objects[i]
		pos, found := o.Positions.Find(path...)
		twice := ""
		if o.Twice != nil {
			twice = o.Twice.Error()
		}
		got = append(got, fmt.Sprintf("%s %d:%d %t %s", o.JSON, pos.Line, pos.Column, found, twice))
	}
	want := []string{
		`{"kind":"A","spec":{"parts":[{"field":"x"}]}} 4:5 true `,
		`{"data":{"k":"v"},"kind":"B"} 10:5 true `,
		`{"kind":"C","spec":{"x":"😀"}} 14:3 true `,
		`{"kind":"D","spec":{"x":2}} 17:1 false f:19: duplicate key "x", which stands at line 18 already`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
