package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema/upstream"
)

// everything calls each function that takes an object.
func everything(ctx context.Context, v *upstream.Validator, obj map[string]any) map[string]error {
	errs := map[string]error{}
	_, errs["create"] = v.Create(ctx, obj)
	_, errs["create with status"] = v.CreateWithStatus(ctx, obj)
	_, _, _, errs["read"] = v.Read(obj)
	_, _, errs["convert"] = v.Convert(obj)
	_, errs["touch"] = v.TouchUpdate(ctx, obj, true)
	_, errs["update"] = v.Update(ctx, obj, obj, true)
	_, errs["update of status"] = v.UpdateStatus(ctx, obj, obj, true)
	return errs
}

func TestHostileObjects(t *testing.T) {
	anything := newValidator(t, schemaOf(t, "{x-kubernetes-preserve-unknown-fields: true}"), widgets)
	nested := func(depth int) any {
		var v any = "x"
		for i := range depth {
			if i%2 == 0 {
				v = []any{v}
			} else {
				v = map[string]any{"a": v}
			}
		}
		return v
	}
	with := func(value any) map[string]any {
		w := widget(t, "{}")
		w["spec"] = map[string]any{"a": value}
		return w
	}
	cyclic := map[string]any{}
	cyclic["self"] = cyclic
	for name, tt := range map[string]struct {
		obj  map[string]any
		want error
	}{
		"deep":        {with(nested(9_990)), nil},
		"too deep":    {with(nested(10_010)), upstream.ErrTooDeep},
		"endless":     {with(cyclic), upstream.ErrTooDeep},
		"not a value": {with(struct{}{}), upstream.ErrNotJSON},
		"a Go int":    {with(7), upstream.ErrNotJSON},
		"NaN":         {with(math.NaN()), upstream.ErrNotJSON},
		"infinity":    {with(math.Inf(1)), upstream.ErrNotJSON},
		"nothing":     {nil, upstream.ErrNotJSON},
	} {
		t.Run(name, func(t *testing.T) {
			for call, err := range everything(t.Context(), anything, tt.obj) {
				if !errors.Is(err, tt.want) {
					t.Errorf("%s: got %v, want %v", call, err, tt.want)
				}
			}
			if _, err := upstream.NewProjector(schemaOf(t, "{type: object}"), widgets).For(tt.obj); !errors.Is(err, tt.want) {
				t.Errorf("projection: got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestOddRootsAreRefusedNotFatal(t *testing.T) {
	v := newValidator(t, schemaOf(t, "{type: object, properties: {a: {type: string}}}"), widgets)
	for name, obj := range map[string]map[string]any{
		"no metadata":         {"apiVersion": "example.com/v1", "kind": "Widget"},
		"metadata is null":    {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": nil},
		"metadata is a list":  {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": []any{}},
		"kind is a number":    {"apiVersion": "example.com/v1", "kind": int64(1)},
		"another kind":        {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": map[string]any{"name": "w"}},
		"another version":     {"apiVersion": "example.com/v2", "kind": "Widget", "metadata": map[string]any{"name": "w"}},
		"apiVersion is wrong": {"apiVersion": "a/b/c", "kind": "Widget", "metadata": map[string]any{"name": "w"}},
		"labels are a number": {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w", "labels": int64(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := v.Create(t.Context(), obj)
			if err != nil || !r.Refused() {
				t.Errorf("created: %v, %v", r.Errors, err)
			}
			for call, err := range everything(t.Context(), v, obj) {
				if errors.Is(err, upstream.ErrPanic) {
					t.Errorf("%s: %v", call, err)
				}
			}
		})
	}
}

func TestPanicsBecomeErrors(t *testing.T) {
	ref := "#/definitions/x"
	v, err := upstream.New(&apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]props{"spec": {Ref: &ref}}}, widgets)
	if err != nil {
		t.Fatal(err)
	}
	if v.Structural() {
		t.Error("a schema with $ref counts as structural")
	}
	if _, err := v.Create(t.Context(), widget(t, "{a: 1}")); !errors.Is(err, upstream.ErrPanic) {
		t.Errorf("got %v", err)
	}
}

func TestSchemasThatAreNotStructural(t *testing.T) {
	for name, tt := range map[string]struct {
		schema  string
		refused bool
		stored  string
	}{
		"a type in a junctor":         {"{allOf: [{type: object, properties: {a: {type: string}}}], x-kubernetes-preserve-unknown-fields: true}", true, "{a: 1}"},
		"pattern properties":          {"{type: object, patternProperties: {'^a': {type: string}}}", true, "{a: 1}"},
		"a list of schemas for items": {"{type: object, properties: {l: {items: [{type: string}]}}}", false, "{a: 1}"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValidator(t, schemaOf(t, tt.schema), widgets)
			if v.Structural() {
				t.Error("it counts as structural")
			}
			r, err := v.Create(t.Context(), widget(t, "{a: 1}"))
			if err != nil || r.Refused() != tt.refused {
				t.Errorf("%v, %v", r.Errors, err)
			}
			if diff := cmp.Diff(widget(t, tt.stored)["spec"], r.Stored["spec"]); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestABrokenSchemaIsAnError(t *testing.T) {
	s := &apiextensionsv1.JSONSchemaProps{Type: "object", Default: &apiextensionsv1.JSON{Raw: []byte("{")}}
	if _, err := upstream.New(s, widgets); err == nil {
		t.Error("no error")
	}
	if _, err := upstream.NewProjector(s, widgets).For(widget(t, "{}")); err == nil {
		t.Error("no error of the projector")
	}
}

func TestBottomlessSchemasAreErrors(t *testing.T) {
	deep := props{Type: "string"}
	for range 1_100 {
		deep = props{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: new(deep)}}
	}
	cyclic := props{Type: "object"}
	cyclic.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &cyclic}
	for name, s := range map[string]*props{"deep": &deep, "cyclic": &cyclic} {
		if _, err := upstream.New(s, widgets); !errors.Is(err, upstream.ErrTooDeep) {
			t.Errorf("%s: New: %v", name, err)
		}
		root := &props{Type: "object", Properties: map[string]props{"spec": *s}}
		if _, err := upstream.NewProjector(root, widgets).For(widget(t, "{}")); !errors.Is(err, upstream.ErrTooDeep) {
			t.Errorf("%s: projection: %v", name, err)
		}
		crd := widgetCRD(t, "")
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema = root
		if _, err := upstream.ValidateCRD(t.Context(), crd, nil); !errors.Is(err, upstream.ErrTooDeep) {
			t.Errorf("%s: CRD: %v", name, err)
		}
		if _, err := upstream.ValidateCRDUpdate(t.Context(), widgetCRD(t, ""), crd, nil); !errors.Is(err, upstream.ErrTooDeep) {
			t.Errorf("%s: update: %v", name, err)
		}
	}
}

func TestACancelledContextGivesNoVerdict(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v := newValidator(t, schemaOf(t, "{type: object}"), widgets)
	for call, err := range everything(ctx, v, widget(t, "{}")) {
		if call != "read" && call != "convert" && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// TestConcurrentUse is for the race detector, and for verdicts that depend on one another.
func TestConcurrentUse(t *testing.T) {
	schema, o, obj := database(t)
	v := newValidator(t, schema, o)
	p := upstream.NewProjector(schema, o)
	bad := asMap(jsonCopy(obj))
	asMap(bad["spec"])["users"] = []any{map[string]any{"name": "admin", "roles": []any{"reader"}}}
	var wg sync.WaitGroup
	failures := make(chan string, 100)
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				part, err := p.For(obj, bad)
				if err != nil {
					failures <- err.Error()
					return
				}
				for _, judge := range []*upstream.Validator{v, part} {
					good, err := judge.TouchUpdate(t.Context(), obj, i%2 == 0)
					wrong, errWrong := judge.Create(t.Context(), bad)
					if err != nil || errWrong != nil || good.Refused() || fmt.Sprint(errorTexts(wrong)) != "[spec.users[0]: Invalid value: admin is an owner]" {
						failures <- fmt.Sprint(err, errWrong, errorTexts(good), errorTexts(wrong))
						return
					}
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	for f := range failures {
		t.Error(f)
	}
}

func TestConvertAndTouchFromAnotherVersion(t *testing.T) {
	from := newValidator(t, schemaOf(t, "{type: object, properties: {a: {type: string}, b: {type: string}, c: {type: string, default: x}}}"), widgets)
	o := widgets
	o.Version = "v2"
	to := newValidator(t, schemaOf(t, "{type: object, required: [e], properties: {a: {type: string}, c: {type: string, maxLength: 0}, d: {type: string, default: z}, e: {type: string}}}"), o)

	served, _, _, err := from.Read(widget(t, "{a: p, b: q}"))
	if err != nil {
		t.Fatal(err)
	}
	got, dropped, err := to.Convert(served)
	if err != nil {
		t.Fatal(err)
	}
	want := widget(t, "{a: p, c: x}")
	want["apiVersion"] = "example.com/v2"
	asMap(want["metadata"])["generation"] = int64(1)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"spec.b"}, dropped); diff != "" {
		t.Errorf("dropped: -want +got:\n%s", diff)
	}
	r, err := to.TouchUpdateFrom(t.Context(), from, widget(t, "{a: p, b: q}"), true)
	if err != nil {
		t.Fatal(err)
	}
	// The default of the new version is filled in by the request, so that spec is not what it was.
	checkErrors(t, []string{"spec.e: Required value"}, r)
	if diff := cmp.Diff([]string{"spec.b"}, r.Pruned); diff != "" {
		t.Errorf("pruned: -want +got:\n%s", diff)
	}
}

func TestForCRD(t *testing.T) {
	crd := databaseCRD(t)
	s, o, err := upstream.ForCRD(crd, "v1", nil)
	if err != nil || s == nil || o.Kind != "Database" || !o.StatusSubresource || o.Scale == nil || !o.Namespaced {
		t.Errorf("%+v, %v", o, err)
	}
	if _, _, err := upstream.ForCRD(crd, "v2", nil); !errors.Is(err, upstream.ErrNoVersion) {
		t.Errorf("got %v", err)
	}
}
