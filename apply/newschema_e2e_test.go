//go:build e2e

package apply

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/schema/upstream"
	"sluice.dev/tools/draws"
	"sluice.dev/tools/schemagen"
)

// schemaChange is a change of a CRD at random, and objects at random. The API server's code has judged them.
type schemaChange struct {
	old, next *apiextensionsv1.CustomResourceDefinition
	// before is valid under the old CRD; nil for no object. good is valid under the new CRD alone, and fits before. bad is not valid
	// under the new CRD.
	before, good, bad map[string]any
}

// newSchemaChange returns a change, or nil if the seed has none.
func newSchemaChange(t *testing.T, seed uint64) *schemaChange {
	t.Helper()
	g := schemagen.New(seed)
	root := g.Schema()
	group := fmt.Sprintf("s%d.example.com", seed)
	define := func(props *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
			ObjectMeta: metav1.ObjectMeta{Name: "examples." + group},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: group, Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "examples", Singular: "example", Kind: "Example"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props},
				}},
			},
		}
	}
	c := &schemaChange{old: define(root), next: define(g.Change(root))}
	refusals, err := upstream.ValidateCRD(t.Context(), c.old, nil)
	again, err2 := upstream.ValidateCRDUpdate(t.Context(), c.next, c.old, nil)
	if err != nil || err2 != nil || len(refusals)+len(again) > 0 {
		return nil
	}
	objects := func(props *apiextensionsv1.JSONSchemaProps) map[string]any {
		o := g.Object(props)
		o["apiVersion"] = group + "/v1"
		return o
	}
	validator := func(crd *apiextensionsv1.CustomResourceDefinition) *upstream.Validator {
		props, options, err := upstream.ForCRD(crd, "v1", nil)
		if err != nil {
			t.Fatal(err)
		}
		v, err := upstream.New(props, options)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	was, is := validator(c.old), validator(c.next)
	takes := func(v *upstream.Validator, o map[string]any) bool {
		res, err := v.Create(t.Context(), o)
		return err == nil && !res.Refused() && len(res.Pruned) == 0
	}
	for range 30 {
		// An apply does not remove a null of an earlier apply, so an object with nulls may not fit a new schema.
		if o := objects(root); c.before == nil && seed%2 == 0 && takes(was, o) && !hasNull(o) {
			c.before = o
		}
		o := objects(c.next.Spec.Versions[0].Schema.OpenAPIV3Schema)
		switch good := takes(is, o); {
		case good && c.good == nil && !takes(was, o):
			c.good = o
		case !good && c.bad == nil:
			c.bad = o
		}
	}
	if c.before != nil {
		// No apply can change an object that does not fit the new types.
		if why, err := is.Unappliable(c.before); err != nil || why != "" {
			c.good, c.bad = nil, c.good
		}
	}
	if c.bad == nil || c.good == nil && c.before == nil {
		return nil
	}
	return c
}

// A source changes CRDs in any way, and has objects that only the new CRDs allow. It is applied in one run. A source with objects that
// the new CRDs refuse changes nothing, and the error names each object.
func TestE2EObjectsOfANewSchemaAreAppliedWithTheirCRD(t *testing.T) {
	a := newApplier(t)
	apply := func(objects []Object) (*Plan, error) {
		t.Helper()
		p, err := a.Plan(t.Context(), Request{Objects: objects, App: "schemas"})
		if err != nil {
			t.Fatal(err)
		}
		return p, a.Apply(t.Context(), p)
	}
	var old, next, bad []Object
	wrong := map[ID]map[string]any{}
	for seed, most := draws.First()+1, draws.Count(250); len(wrong) < most; seed++ {
		c := newSchemaChange(t, seed)
		if c == nil {
			continue
		}
		old = append(old, objectFrom(t, c.old))
		if c.before != nil {
			old = append(old, objectFrom(t, c.before))
		}
		if c.good != nil {
			next = append(next, objectFrom(t, c.next), objectFrom(t, c.good))
		}
		refused := objectFrom(t, c.bad)
		wrong[refused.ID] = c.bad
		bad = append(bad, objectFrom(t, c.next), refused)
	}
	if _, err := apply(old); err != nil {
		t.Fatal(err)
	}
	begun := a.Writes()
	_, err := apply(bad)
	if n := a.Writes() - begun; n > 0 || err == nil {
		t.Errorf("%d writes before the error %v", n, err)
	}
	for id, o := range wrong {
		if err != nil && !strings.Contains(err.Error(), id.String()+": ") {
			t.Errorf("%s is not told to be wrong: %v", id, o)
		}
	}
	p, err := a.Plan(t.Context(), Request{Objects: next, App: "schemas"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Try(t.Context(), p, TryOptions{Contents: true}); err != nil {
		t.Errorf("diff: %v", err)
	}
	if _, err := apply(next); err != nil {
		for _, e := range errorsIn(err) {
			t.Errorf("%v", e)
		}
	}
	if p, err := apply(next); err != nil || p.Count(Unchanged) < len(next) {
		t.Errorf("again: %d of %d are unchanged, %v", p.Count(Unchanged), len(next), err)
	}
}

func hasNull(v any) bool {
	switch x := v.(type) {
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(x)), hasNull)
	case []any:
		return slices.ContainsFunc(x, hasNull)
	}
	return v == nil
}

func errorsIn(err error) []error {
	if joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok {
		return joined.Unwrap()
	}
	return []error{err}
}
