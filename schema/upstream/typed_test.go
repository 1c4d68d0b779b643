package upstream_test

import "testing"

// An apply to a stored object fails only if a value has another type than the schema says. Other errors are for the validation.
func TestUnappliable(t *testing.T) {
	const list = "{type: object, properties: {l: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}"
	for name, test := range map[string]struct {
		schema, spec string
		want         bool
	}{
		"a value that fits":                   {"{type: object, properties: {a: {type: string}}}", "{a: x}", false},
		"a text that is an object now":        {"{type: object, properties: {a: {type: object, properties: {b: {type: string}}}}}", "{a: x}", true},
		"an object that is a text now":        {"{type: object, properties: {a: {type: string}}}", "{a: {b: x}}", true},
		"a text in a list that is a list now": {"{type: object, properties: {a: {type: array, items: {type: array, items: {type: string}}}}}", "{a: [x]}", true},
		"a fraction that is an integer now":   {"{type: object, properties: {a: {type: integer}}}", "{a: 1.5}", false},
		"a text that may be a number now":     {"{type: object, properties: {a: {x-kubernetes-int-or-string: true}}}", "{a: x}", false},
		"a null":                              {"{type: object, properties: {a: {type: string}}}", "{a: null}", false},
		"a field that is gone":                {"{type: object, properties: {}}", "{a: x}", false},
		"a value that is too long":            {"{type: object, properties: {a: {type: string, maxLength: 1}}}", "{a: xx}", false},
		"a set with one value twice":          {list, "{l: [x, x]}", false},
		"anything, without a schema of it":    {"{type: object, x-kubernetes-preserve-unknown-fields: true}", "{a: {b: [1]}}", false},
		"an object in an object":              {"{type: object, properties: {a: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}", "{a: {apiVersion: v1, kind: A, metadata: {name: x}, more: 1}}", false},
	} {
		t.Run(name, func(t *testing.T) {
			why, err := newValidator(t, schemaOf(t, test.schema), widgets).Unappliable(widget(t, test.spec))
			if err != nil || (why != "") != test.want {
				t.Errorf("%q, %v", why, err)
			}
		})
	}
	if why, err := newValidator(t, nil, widgets).Unappliable(widget(t, "{a: x}")); err != nil || why != "" {
		t.Errorf("without a schema: %q, %v", why, err)
	}
}

// An apply keeps null, unless a default takes its place.
func TestRefusedNulls(t *testing.T) {
	for name, test := range map[string]struct {
		schema, spec string
		want         int
	}{
		"no null":                  {"{type: object, properties: {a: {type: string}}}", "{a: x}", 0},
		"null for a text":          {"{type: object, properties: {a: {type: string}}}", "{a: null}", 1},
		"two of them, deep":        {"{type: object, properties: {a: {type: array, items: {type: object, properties: {b: {type: integer}}}}}}", "{a: [{b: null}, {b: null}]}", 2},
		"null that is allowed":     {"{type: object, properties: {a: {type: string, nullable: true}}}", "{a: null}", 0},
		"null with a default":      {"{type: object, properties: {a: {type: string, default: x}}}", "{a: null}", 0},
		"null in an unknown field": {"{type: object, x-kubernetes-preserve-unknown-fields: true}", "{a: null}", 0},
		"another error":            {"{type: object, properties: {a: {type: string}}}", "{a: 5}", 0},
	} {
		if got := newValidator(t, schemaOf(t, test.schema), widgets).RefusedNulls(widget(t, test.spec)); len(got) != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
