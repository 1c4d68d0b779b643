package schema_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
)

// TestEveryFieldWithSchemasIsLookedInto fails for a field that Kubernetes adds.
func TestEveryFieldWithSchemasIsLookedInto(t *testing.T) {
	found := 0
	for f := range reflect.TypeFor[apiextensionsv1.JSONSchemaProps]().Fields() {
		var p, same, want apiextensionsv1.JSONSchemaProps
		n := fill(reflect.ValueOf(&p).Elem().FieldByIndex(f.Index), "before")
		fill(reflect.ValueOf(&same).Elem().FieldByIndex(f.Index), "before")
		fill(reflect.ValueOf(&want).Elem().FieldByIndex(f.Index), "after")
		if n == 0 {
			continue
		}
		found++

		all, apart := 0, 0
		for child := range schema.Children(&p, schema.Everywhere) {
			if child.Title == "before" {
				all++
			}
		}
		for in := schema.Parts(1); in < schema.Everywhere; in <<= 1 {
			for range schema.Children(&p, in) {
				apart++
			}
			rest := schema.Rewrite(&p, schema.Everywhere&^in, func(p *apiextensionsv1.JSONSchemaProps) { p.Title = "after" })
			for child := range schema.Children(rest, in) {
				if child.Title != "before" {
					t.Errorf("%s: Rewrite looks into keywords that it is not told to look into", f.Name)
				}
			}
		}
		if all != n || apart != n {
			t.Errorf("%s has %d schemas; Children yields %d of them, and %d for the groups of keywords one by one", f.Name, n, all, apart)
		}

		want.Title = "after"
		got := schema.Rewrite(&p, schema.Everywhere, func(p *apiextensionsv1.JSONSchemaProps) { p.Title = "after" })
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s after Rewrite, -want +got:\n%s", f.Name, diff)
		}
		if diff := cmp.Diff(same, p); diff != "" {
			t.Errorf("%s of the schema that Rewrite copies, -before +after:\n%s", f.Name, diff)
		}
	}
	if found < 11 {
		t.Errorf("%d fields with schemas are found", found)
	}
}

// fill puts a schema with the title into every place of v that has room for one, and returns how many places those are.
func fill(v reflect.Value, title string) (n int) {
	if v.Type() == reflect.TypeFor[apiextensionsv1.JSONSchemaProps]() {
		v.FieldByName("Title").SetString(title)
		return 1
	}
	switch {
	case v.Kind() == reflect.Pointer:
		to := reflect.New(v.Type().Elem())
		if n = fill(to.Elem(), title); n > 0 {
			v.Set(to)
		}
	case v.Kind() == reflect.Slice:
		list := reflect.MakeSlice(v.Type(), 1, 1)
		if n = fill(list.Index(0), title); n > 0 {
			v.Set(list)
		}
	case v.Kind() == reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		if n = fill(value, title); n > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf("x").Convert(v.Type().Key()), value)
		}
	case v.Kind() == reflect.Struct:
		for _, field := range v.Fields() {
			n += fill(field, title)
		}
	}
	return n
}

func TestWalkYieldsParentsFirstAndStops(t *testing.T) {
	p := &apiextensionsv1.JSONSchemaProps{Title: "root", Not: &apiextensionsv1.JSONSchemaProps{
		Title: "not", Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": {
			Title: "a", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Title: "items"}},
		}},
	}}
	for last, want := range map[string][]string{"": {"root", "not", "a", "items"}, "a": {"root", "not", "a"}, "root": {"root"}} {
		var got []string
		for s := range schema.Walk(p, schema.InStructure|schema.InJunctors) {
			if got = append(got, s.Title); s.Title == last {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("until %q, -want +got:\n%s", last, diff)
		}
	}
}

func TestNilHasNoSchemas(t *testing.T) {
	for range schema.Children(nil, schema.Everywhere) {
		t.Error("Children yields something")
	}
	for range schema.Walk(nil, schema.Everywhere) {
		t.Error("Walk yields something")
	}
	if got := schema.Rewrite(nil, schema.Everywhere, func(*apiextensionsv1.JSONSchemaProps) {}); got != nil {
		t.Errorf("Rewrite returns %v", got)
	}
}

func TestWalkAndRewriteEndAtMaxDepth(t *testing.T) {
	p := &apiextensionsv1.JSONSchemaProps{}
	for range schema.MaxDepth + 5 {
		p = &apiextensionsv1.JSONSchemaProps{Not: p}
	}
	walked, rewritten := 0, 0
	for range schema.Walk(p, schema.Everywhere) {
		walked++
	}
	schema.Rewrite(p, schema.Everywhere, func(*apiextensionsv1.JSONSchemaProps) { rewritten++ })
	if want := schema.MaxDepth + 1; walked != want || rewritten != want {
		t.Errorf("Walk yields %d schemas and Rewrite changes %d, want %d", walked, rewritten, want)
	}
}
