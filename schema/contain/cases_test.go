package contain

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema/contain/internal/logic"
)

// cases are pairs of schemas of whole objects: a verdict, and an object that shows that it cannot be contained.
var cases = []struct {
	name     string
	old, new string
	want     Verdict
	// escapes is an object that the old schema accepts and keeps, and the new one does not.
	escapes string
}{
	{
		name: "a name made by the server has a prefix",
		old:  `{type: object}`,
		new:  `{type: object, properties: {metadata: {type: object, properties: {generateName: {type: string, maxLength: 3}}}}}`,
		want: NotContained, escapes: `{"metadata": {"generateName": "longer-"}}`,
	},
	{
		name: "the name is bounded",
		old:  `{type: object}`,
		new:  `{type: object, properties: {metadata: {type: object, properties: {name: {type: string, maxLength: 3}}}}}`,
		want: NotContained, escapes: `{"metadata": {"name": "longer"}}`,
	},
	{
		name: "names are never longer than 253",
		old:  `{type: object}`,
		new:  `{type: object, properties: {metadata: {type: object, properties: {name: {type: string, minLength: 1, maxLength: 253}}}}}`,
		want: Contained,
	},
	{
		name: "the kind is what it is",
		old:  `{type: object}`,
		new:  `{type: object, properties: {kind: {type: string, enum: [Example]}, apiVersion: {type: string, maxLength: 14}}}`,
		want: Contained,
	},
	{
		name: "the kind is another",
		old:  `{type: object}`,
		new:  `{type: object, properties: {kind: {type: string, enum: [Other]}}}`,
		want: NotContained, escapes: `{}`,
	},
	{
		name: "a type in place of any, where a branch allows that type alone",
		old:  `{type: object, properties: {spec: {type: object, properties: {a: {x-kubernetes-preserve-unknown-fields: true}}, allOf: [{properties: {a: {enum: [xx, yy]}}}]}}}`,
		new:  `{type: object, properties: {spec: {type: object, properties: {a: {type: string, maxLength: 1}}, allOf: [{properties: {a: {enum: [xx, yy]}}}]}}}`,
		want: NotContained, escapes: `{"spec": {"a": "xx"}}`,
	},
	{
		name: "a type in place of any, where a branch allows that type alone, and no more",
		old:  `{type: object, properties: {spec: {type: object, properties: {a: {x-kubernetes-preserve-unknown-fields: true}}, allOf: [{properties: {a: {enum: [xx, yy]}}}]}}}`,
		new:  `{type: object, properties: {spec: {type: object, properties: {a: {type: string, maxLength: 2}}, allOf: [{properties: {a: {enum: [xx, yy]}}}]}}}`,
		want: Contained,
	},
	{
		name: "nothing is accepted",
		old:  `{type: object, required: [spec], properties: {spec: {type: integer, minimum: 3, maximum: 2}}}`,
		new:  `{type: object, properties: {spec: {type: string}}}`,
		want: Contained,
	},
	{
		name: "a list of too many distinct items is none",
		old:  `{type: object, required: [spec], properties: {spec: {type: array, minItems: 3, x-kubernetes-list-type: set, items: {type: boolean}}}}`,
		new:  `{type: object, properties: {spec: {type: string}}}`,
		want: Contained,
	},
	{
		name: "a long set of texts of digits",
		old:  `{type: object, properties: {spec: {type: array, maxItems: 1000, x-kubernetes-list-type: set, items: {type: string, pattern: "^[0-9]{3}$"}}}}`,
		new:  `{type: object, properties: {spec: {type: array, maxItems: 999, x-kubernetes-list-type: set, items: {type: string, pattern: "^[0-9]{3}$"}}}}`,
		want: NotContained,
	},
	{
		name: "a long set of texts that are too few",
		old:  `{type: object, properties: {spec: {type: array, maxItems: 1001, x-kubernetes-list-type: set, items: {type: string, pattern: "^[0-9]{3}$"}}}}`,
		new:  `{type: object, properties: {spec: {type: array, maxItems: 1000, x-kubernetes-list-type: set, items: {type: string, pattern: "^[0-9]{3}$"}}}}`,
		want: Unknown,
	},
	{
		name: "a long list with keys",
		old:  `{type: object, properties: {spec: {type: array, maxItems: 1000, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b], items: {type: object, required: [a, b], properties: {a: {type: boolean}, b: {type: string}}}}}}`,
		new:  `{type: object, properties: {spec: {type: array, maxItems: 512, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b], items: {type: object, required: [a, b], properties: {a: {type: boolean}, b: {type: string}}}}}}`,
		want: NotContained,
	},
	{
		name: "1 and 1.0 are distinct items",
		old:  `{type: object, properties: {spec: {type: array, minItems: 2, x-kubernetes-list-type: set, items: {type: number, minimum: 1, maximum: 1}}}}`,
		new:  `{type: object, properties: {spec: {type: array, maxItems: 1, items: {type: number}}}}`,
		want: NotContained, escapes: `{"spec": [1, 1.0]}`,
	},
	{
		name: "null is an item without a key",
		old:  `{type: object, properties: {spec: {type: array, minItems: 2, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a], items: {type: object, nullable: true, required: [a], properties: {a: {type: string, enum: [xx]}}}}}}`,
		new:  `{type: object, properties: {spec: {type: array, maxItems: 1, items: {type: object, nullable: true, properties: {a: {type: string}}}}}}`,
		want: NotContained, escapes: `{"spec": [{"a": "xx"}, null]}`,
	},
	{
		name: "required with a default",
		old:  `{type: object, properties: {spec: {type: object, properties: {a: {type: string}}}}}`,
		new:  `{type: object, properties: {spec: {type: object, required: [a], properties: {a: {type: string, default: x}}}}}`,
		want: Contained,
	},
	{
		name: "required with a default that stands in for null",
		old:  `{type: object, properties: {spec: {type: object, properties: {a: {type: string, nullable: true}}}}}`,
		new:  `{type: object, properties: {spec: {type: object, required: [a], properties: {a: {type: string, default: x}}}}}`,
		want: NotContained, escapes: `{"spec": {"a": null}}`,
	},
	{
		name: "a default that a branch refuses",
		old:  `{type: object, properties: {spec: {type: object, properties: {a: {type: integer}}, anyOf: [{properties: {a: {minimum: 5}}}]}}}`,
		new:  `{type: object, properties: {spec: {type: object, properties: {a: {type: integer, default: 1}}, anyOf: [{properties: {a: {minimum: 5}}}]}}}`,
		want: NotContained, escapes: `{"spec": {}}`,
	},
	{
		name: "a new default is one property more",
		old:  `{type: object, properties: {spec: {type: object, maxProperties: 1, properties: {a: {type: integer}, b: {type: integer}}}}}`,
		new:  `{type: object, properties: {spec: {type: object, maxProperties: 1, properties: {a: {type: integer, default: 1}, b: {type: integer}}}}}`,
		want: NotContained, escapes: `{"spec": {"b": 1}}`,
	},
	{
		name: "defaults make keys equal",
		old:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a], items: {type: object, properties: {a: {type: string}}}}}}`,
		new:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a], items: {type: object, properties: {a: {type: string, default: x}}}}}}`,
		want: Unknown, escapes: `{"spec": [{}, {"a": "x"}]}`,
	},
	{
		name: "a key that every item has gets a default",
		old:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [b, a], items: {type: object, required: [a, b], properties: {a: {type: integer}, b: {type: string}}}}}}`,
		new:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b], items: {type: object, required: [a, b], properties: {a: {type: integer}, b: {type: string, default: x}}}}}}`,
		want: Contained,
	},
	{
		name: "a key that an item may lack gets a default beside another key",
		old:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b], items: {type: object, required: [a], properties: {a: {type: integer}, b: {type: string}}}}}}`,
		new:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b], items: {type: object, required: [a], properties: {a: {type: integer}, b: {type: string, default: x}}}}}}`,
		want: Unknown, escapes: `{"spec": [{"a": 1}, {"a": 1, "b": "x"}]}`,
	},
	{
		name: "one key more",
		old:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a], items: {type: object, required: [a], properties: {a: {type: string}, b: {type: string}}}}}}`,
		new:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b], items: {type: object, properties: {a: {type: string}, b: {type: string}}}}}}`,
		want: Contained,
	},
	{
		name: "one key more, and the text of numbers is compared",
		old:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a], items: {type: object, required: [a], properties: {a: {type: number}, b: {type: string}}}}}}`,
		new:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b], items: {type: object, properties: {a: {type: number}, b: {type: string}}}}}}`,
		want: Unknown, escapes: `{"spec": [{"a": 1}, {"a": 1.0}]}`,
	},
	{
		name: "one key more, which is a number and required",
		old:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a], items: {type: object, required: [a, b], properties: {a: {type: string}, b: {type: integer}}}}}}`,
		new:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b], items: {type: object, required: [a, b], properties: {a: {type: string}, b: {type: integer}}}}}}`,
		want: Contained,
	},
	{
		name: "one key more, which has a default",
		old:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a], items: {type: object, required: [a], properties: {a: {type: string}, b: {type: string}}}}}}`,
		new:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b], items: {type: object, required: [a], properties: {a: {type: string}, b: {type: string, default: x}}}}}}`,
		want: Contained,
	},
	{
		name: "one key more, and a default of the other",
		old:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a], items: {type: object, properties: {a: {type: string}, b: {type: string}}}}}}`,
		new:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b], items: {type: object, properties: {a: {type: string, default: x}, b: {type: string, default: x}}}}}}`,
		want: Unknown, escapes: `{"spec": [{}, {"a": "x"}]}`,
	},
	{
		name: "one key less",
		old:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b], items: {type: object, required: [a], properties: {a: {type: string}, b: {type: string}}}}}}`,
		new:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a], items: {type: object, properties: {a: {type: string}, b: {type: string}}}}}}`,
		want: NotContained, escapes: `{"spec": [{"a": "x"}, {"a": "x", "b": "y"}]}`,
	},
	{
		name: "one key less, of numbers",
		old:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b], items: {type: object, required: [a, b], properties: {a: {type: integer}, b: {type: string}}}}}}`,
		new:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a], items: {type: object, required: [a], properties: {a: {type: integer}, b: {type: string}}}}}}`,
		want: NotContained, escapes: `{"spec": [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}]}`,
	},
	{
		name: "a set where items were unique",
		old:  `{type: object, properties: {spec: {type: array, uniqueItems: true, items: {type: number}}}}`,
		new:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: set, items: {type: number}}}}`,
		want: Contained,
	},
	{
		name: "many defaults, and room for them",
		old:  `{type: object, properties: {spec: {type: object, maxProperties: 2, additionalProperties: {type: string}}}}`,
		new:  `{type: object, properties: {spec: {type: object, maxProperties: 9, x-kubernetes-preserve-unknown-fields: true, properties: {a: {default: x, x-kubernetes-preserve-unknown-fields: true}, b: {default: x, x-kubernetes-preserve-unknown-fields: true}, c: {default: x, x-kubernetes-preserve-unknown-fields: true}, d: {default: x, x-kubernetes-preserve-unknown-fields: true}, e: {default: x, x-kubernetes-preserve-unknown-fields: true}, f: {default: x, x-kubernetes-preserve-unknown-fields: true}, g: {default: x, x-kubernetes-preserve-unknown-fields: true}}}}}`,
		want: Contained,
	},
	{
		name: "a field of the status is removed",
		old:  `{type: object, properties: {status: {type: object, properties: {a: {type: string}}}}}`,
		new:  `{type: object, properties: {status: {type: object, properties: {b: {type: string}}}}}`,
		want: NotContained, escapes: `{"status": {"a": ""}}`,
	},
	{
		name: "metadata below the root is a field like others",
		old:  `{type: object, properties: {spec: {type: object, properties: {metadata: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}`,
		new:  `{type: object, properties: {spec: {type: object, properties: {metadata: {type: object}}}}}`,
		want: NotContained, escapes: `{"spec": {"metadata": {"x": 1}}}`,
	},
	{
		name: "a pattern too large for an automaton is no contradiction",
		old:  `{type: object, properties: {spec: {type: string, pattern: "^(zz|` + strings.Repeat("[a-z]{900}", 400) + `)$"}}}`,
		new:  `{type: object, properties: {spec: {type: string, maxLength: 1}}}`,
		want: Unknown, escapes: `{"spec": "zz"}`,
	},
	{
		name: "a schema that is not structural",
		old:  `{type: object, properties: {spec: {type: object, patternProperties: {a: {type: string}}}}}`,
		new:  `{type: object, properties: {spec: {type: object, patternProperties: {a: {type: integer}}}}}`,
		want: Unknown, escapes: `{"spec": {"a": "x"}}`,
	},
	{
		name: "dotted and other names",
		old:  `{type: object, properties: {spec: {type: object, properties: {a.b: {type: string}, é: {type: string}, "": {type: string}}}}}`,
		new:  `{type: object, properties: {spec: {type: object, properties: {a: {type: object, properties: {b: {type: string}}}, é: {type: string}, "": {type: string}}}}}`,
		want: NotContained, escapes: `{"spec": {"a.b": "x"}}`,
	},
	{
		name: "not of not",
		old:  `{type: object, properties: {spec: {type: integer, minimum: 5}}}`,
		new:  `{type: object, properties: {spec: {type: integer, not: {not: {not: {maximum: 4}}}}}}`,
		want: Contained,
	},
	{
		name: "a bound beyond the type refuses everything",
		old:  `{type: object, properties: {spec: {type: integer}}}`,
		new:  `{type: object, properties: {spec: {type: integer, minimum: -9223372036854775808}}}`,
		want: NotContained, escapes: `{"spec": 1}`,
	},
	{
		name: "a number that is rounded to the greatest float32",
		old:  `{type: object, properties: {spec: {type: number, format: float}}}`,
		new:  `{type: object, properties: {spec: {type: number, maximum: 3.4028235677973362e38}}}`,
		want: NotContained, escapes: `{"spec": 3.4028235677973366e38}`,
	},
	{
		name: "a number is a float32 now",
		old:  `{type: object, properties: {spec: {type: number}}}`,
		new:  `{type: object, properties: {spec: {type: number, format: float}}}`,
		want: NotContained, escapes: `{"spec": 1e39}`,
	},
	{
		name: "more steps than bounds for integers and strings",
		old:  `{type: object, properties: {spec: {type: integer, format: int32, minimum: 1, maximum: 65535}}}`,
		new:  `{type: object, properties: {spec: {x-kubernetes-int-or-string: true, minimum: 0, pattern: "^[0-9]+%$"}}}`,
		want: Contained,
	},
	{
		name: "unique numbers",
		old:  `{type: object, properties: {spec: {type: array, uniqueItems: true, items: {type: array, items: {type: number}}}}}`,
		new:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: set, items: {type: array, items: {type: number}}}}}`,
		want: NotContained, escapes: `{"spec": [[1], [1.0]]}`,
	},
	{
		name: "an embedded resource where any object with its fields was",
		old:  `{type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true, required: [apiVersion, kind], properties: {apiVersion: {type: string, enum: [v1]}, kind: {type: string, enum: [Pod]}, metadata: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}`,
		new:  `{type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true, x-kubernetes-embedded-resource: true}}}`,
		want: Unknown, escapes: `{"spec": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": 5}}}`,
	},
	{
		name: "an embedded resource stays one",
		old:  `{type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true, x-kubernetes-embedded-resource: true, properties: {a: {type: integer, maximum: 3}}}}}`,
		new:  `{type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true, x-kubernetes-embedded-resource: true, properties: {a: {type: integer}}}}}`,
		want: Contained,
	},
	{
		name: "an empty key is a key",
		old:  `{type: object, properties: {spec: {type: object, maxProperties: 9, additionalProperties: {type: string}}}}`,
		new:  `{type: object, properties: {spec: {type: object, maxProperties: 9, additionalProperties: {type: string}, x-kubernetes-validations: [{rule: "self.all(k, k.size() != 0)"}]}}}`,
		want: NotContained, escapes: `{"spec": {"": "x"}}`,
	},
	{
		name: "unknown fields of the root",
		old:  `{type: object, x-kubernetes-preserve-unknown-fields: true}`,
		new:  `{type: object}`,
		want: NotContained, escapes: `{"a": 1}`,
	},
	{
		name: "a rule says what the keys of a list-type map say",
		old:  `{type: object, properties: {spec: {type: array, maxItems: 9, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], properties: {name: {type: string, maxLength: 9}, b: {type: integer}}}}}}`,
		new:  `{type: object, properties: {spec: {type: array, maxItems: 9, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], properties: {name: {type: string, maxLength: 9}, b: {type: integer}}}, x-kubernetes-validations: [{rule: "self.all(x, self.exists_one(y, x.name == y.name))"}]}}}`,
		want: Contained,
	},
	{
		name: "a default of a required field fills in nothing that a rule could see",
		old:  `{type: object, properties: {spec: {type: array, maxItems: 9, x-kubernetes-validations: [{rule: "self.all(x, self.exists_one(y, x.?k.orValue('') == y.?k.orValue('') && x.?v.orValue('') == y.?v.orValue('')))"}], items: {type: object, required: [k], properties: {k: {type: string, maxLength: 9}, v: {type: string, maxLength: 9}}}}}}`,
		new:  `{type: object, properties: {spec: {type: array, maxItems: 9, x-kubernetes-validations: [{rule: "self.all(x, self.exists_one(y, x.?k.orValue('') == y.?k.orValue('') && x.?v.orValue('') == y.?v.orValue('')))"}], items: {type: object, properties: {k: {type: string, maxLength: 9, default: x}, v: {type: string, maxLength: 9}}}}}}`,
		want: Contained,
	},
	{
		name: "a default of a field that is not required is seen by a rule",
		old:  `{type: object, properties: {spec: {type: array, maxItems: 9, x-kubernetes-validations: [{rule: "self.all(x, self.exists_one(y, x.?k.orValue('') == y.?k.orValue('') && x.?v.orValue('') == y.?v.orValue('')))"}], items: {type: object, properties: {k: {type: string, maxLength: 9}, v: {type: string, maxLength: 9}}}}}}`,
		new:  `{type: object, properties: {spec: {type: array, maxItems: 9, x-kubernetes-validations: [{rule: "self.all(x, self.exists_one(y, x.?k.orValue('') == y.?k.orValue('') && x.?v.orValue('') == y.?v.orValue('')))"}], items: {type: object, properties: {k: {type: string, maxLength: 9, default: x}, v: {type: string, maxLength: 9}}}}}}`,
		want: Unknown, escapes: `{"spec": [{}, {"k": "x"}]}`,
	},
	{
		name: "a required field that is filled in may be missing",
		old:  `{type: object, properties: {spec: {type: array, maxItems: 9, x-kubernetes-validations: [{rule: "self.all(x, self.exists_one(y, x.?k.orValue('') == y.?k.orValue('') && x.?v.orValue('') == y.?v.orValue('')))"}], items: {type: object, required: [k], properties: {k: {type: string, maxLength: 9, default: z}, v: {type: string, maxLength: 9}}}}}}`,
		new:  `{type: object, properties: {spec: {type: array, maxItems: 9, x-kubernetes-validations: [{rule: "self.all(x, self.exists_one(y, x.?k.orValue('') == y.?k.orValue('') && x.?v.orValue('') == y.?v.orValue('')))"}], items: {type: object, required: [k], properties: {k: {type: string, maxLength: 9, default: x}, v: {type: string, maxLength: 9}}}}}}`,
		want: Unknown, escapes: `{"spec": [{}, {"k": "x"}]}`,
	},
	{
		name: "a long fraction of a duration is rounded up to a whole unit",
		old:  `{type: object, properties: {spec: {type: object, required: [d], properties: {d: {type: string, maxLength: 40, pattern: "^0[.]9{1,20}h$"}}, x-kubernetes-validations: [{rule: "duration(self.d) > duration('0s')"}]}}}`,
		new:  `{type: object, properties: {spec: {type: object, required: [d], properties: {d: {type: string, maxLength: 40}}, x-kubernetes-validations: [{rule: "duration(self.d) < duration('1h')"}]}}}`,
		want: Unknown, escapes: `{"spec": {"d": "0.999999999999999999h"}}`,
	},
	{
		name: "rules below a field without a type are not evaluated",
		old:  `{type: object, properties: {spec: {x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: integer, x-kubernetes-validations: [{rule: "self < 5"}]}}}}}`,
		new:  `{type: object, properties: {spec: {x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: integer, maximum: 4}}}}}`,
		want: NotContained, escapes: `{"spec": {"a": 7}}`,
	},
	{
		name: "a branch allows no other properties",
		old:  `{type: object, properties: {spec: {type: object, properties: {a: {type: integer}, b: {type: integer}}}}}`,
		new:  `{type: object, properties: {spec: {type: object, properties: {a: {type: integer}, b: {type: integer}}, anyOf: [{properties: {a: {}}, additionalProperties: false}]}}}`,
		want: NotContained, escapes: `{"spec": {"b": 1}}`,
	},
	{
		name: "defaults inside of lists make them equal items",
		old:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: set, items: {type: array, x-kubernetes-list-type: atomic, items: {type: object, properties: {a: {type: integer}}}}}}}`,
		new:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: set, items: {type: array, x-kubernetes-list-type: atomic, items: {type: object, properties: {a: {type: integer, default: 1}}}}}}}`,
		want: Unknown, escapes: `{"spec": [[{}], [{"a": 1}]]}`,
	},
	{
		name: "an embedded resource has a kind of 63 characters at most",
		old:  `{type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true, maxProperties: 2, required: [apiVersion, kind], properties: {apiVersion: {type: string, enum: [v1]}, kind: {type: string, minLength: 1, maxLength: 64, pattern: "^[A-Z]*$"}}}}}`,
		new:  `{type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true, x-kubernetes-embedded-resource: true}}}`,
		want: NotContained, escapes: `{"spec": {"apiVersion": "v1", "kind": "KKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKK"}}`,
	},
	{
		name: "an embedded resource may have a kind of 63 characters",
		old:  `{type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true, maxProperties: 2, required: [apiVersion, kind], properties: {apiVersion: {type: string, enum: [v1]}, kind: {type: string, minLength: 1, maxLength: 63, pattern: "^[A-Z]*$"}}}}}`,
		new:  `{type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true, x-kubernetes-embedded-resource: true}}}`,
		want: Contained,
	},
	{
		name: "a rule with optionalOldSelf is about creation, too",
		old:  `{type: object, properties: {spec: {type: integer}}}`,
		new:  `{type: object, properties: {spec: {type: integer, x-kubernetes-validations: [{rule: "self < 5 || oldSelf.hasValue()", optionalOldSelf: true}]}}}`,
		want: NotContained, escapes: `{"spec": 7}`,
	},
	{
		name: "rules in branches of anyOf are not evaluated",
		old:  `{type: object, properties: {spec: {type: integer, anyOf: [{x-kubernetes-validations: [{rule: "self < 5"}]}]}}}`,
		new:  `{type: object, properties: {spec: {type: integer, maximum: 4}}}`,
		want: NotContained, escapes: `{"spec": 7}`,
	},
	{
		name: "rules of properties beside additionalProperties are not evaluated",
		old:  `{type: object, properties: {spec: {type: object, additionalProperties: {type: integer}, properties: {a: {type: integer, x-kubernetes-validations: [{rule: "self < 5"}]}}}}}`,
		new:  `{type: object, properties: {spec: {type: object, additionalProperties: {type: integer}, properties: {a: {type: integer, maximum: 4}}}}}`,
		want: NotContained, escapes: `{"spec": {"a": 7}}`,
	},
	{
		name: "the items of a list that passes for a date",
		old:  `{type: object, properties: {spec: {type: string, format: date}}}`,
		new:  `{type: object, properties: {spec: {x-kubernetes-preserve-unknown-fields: true, items: {type: integer}}}}`,
		want: NotContained, escapes: `{"spec": ["x"]}`,
	},
	{
		name: "a rule about two items that is not understood",
		old:  `{type: object, properties: {spec: {type: array, maxItems: 9, items: {type: string, maxLength: 9}}}}`,
		new:  `{type: object, properties: {spec: {type: array, maxItems: 9, items: {type: string, maxLength: 9}, x-kubernetes-validations: [{rule: "self.map(x, x + 'x').join(',') != 'ax,ax'"}]}}}`,
		want: NotContained, escapes: `{"spec": ["a", "a"]}`,
	},
	{
		name: "a rule that always holds, where it is no error",
		old:  `{type: object, properties: {spec: {type: string}}}`,
		new:  `{type: object, properties: {spec: {type: string, x-kubernetes-validations: [{rule: "self.split('/')[1] == 'a' || !(self.split('/')[1] == 'a')"}]}}}`,
		want: NotContained, escapes: `{"spec": "x"}`,
	},
	{
		name: "an index right behind the last item that a list may have",
		old:  `{type: object, properties: {spec: {type: array, maxItems: 1, items: {type: integer}}}}`,
		new:  `{type: object, properties: {spec: {type: array, maxItems: 1, items: {type: integer}, x-kubernetes-validations: [{rule: "!self[?1].hasValue()"}]}}}`,
		want: Contained,
	},
	{
		name: "a string of the greatest length, and of no other",
		old:  `{type: object, properties: {spec: {type: string, pattern: "^z{7}$", maxLength: 7}}}`,
		new:  `{type: object, properties: {spec: {type: string, pattern: "^z{7}$", maxLength: 6}}}`,
		want: NotContained, escapes: `{"spec": "zzzzzzz"}`,
	},
}

// A string that is too long to be written down may exist all the same.
func TestAutomatonThatGivesUpProvesNothing(t *testing.T) {
	old := `{type: object, properties: {spec: {type: string, minLength: 2000000}}}`
	new := `{type: object, properties: {spec: {type: string, minLength: 2000000, pattern: "^b"}}}`
	r := Decide(t.Context(), side(t, parseSchema(t, old)), side(t, parseSchema(t, new)), Options{Namespaced: true})
	if r.Verdict == Contained {
		t.Error("a pattern that most long strings do not match is taken to be matched by all")
	}
	if got, none := newLibrary(nil).Members(nil, []string{"^a"}, nil, logic.Length{Min: 1 << 40, Max: 1 << 41}, 1); none || len(got) > 0 {
		t.Errorf("members %d, none %v", len(got), none)
	}
}

func TestStringsOfTheGreatestLengthAreLookedAt(t *testing.T) {
	for _, length := range []logic.Length{{Min: 7, Max: 7}, {Min: 0, Max: 7}} {
		got, none := newLibrary(nil).Members(nil, []string{"^z{7}$"}, nil, length, 1)
		if none || len(got) != 1 || got[0] != "zzzzzzz" {
			t.Errorf("%+v: members %q, none %v", length, got, none)
		}
	}
	if got, none := newLibrary(nil).Members(nil, []string{"^z{7}$"}, nil, logic.Length{Min: 0, Max: 6}, 1); !none || len(got) > 0 {
		t.Errorf("of at most 6: members %q, none %v", got, none)
	}
}

func TestCasesOfWholeObjects(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			old, new := parseSchema(t, c.old), parseSchema(t, c.new)
			if c.escapes != "" {
				obj, _ := parseValue(t, c.escapes).(map[string]any)
				obj["apiVersion"], obj["kind"] = "example.com/v1", "Example"
				if obj["metadata"] == nil {
					obj["metadata"] = map[string]any{"name": "example"}
				}
				if ok, why := fine(t, validator(t, old), obj); !ok {
					t.Fatalf("the old schema does not take the object: %s", why)
				}
				if ok, _ := fine(t, validator(t, new), obj); ok {
					t.Fatal("the new schema takes the object")
				}
			}
			r := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true})
			if r.Verdict != c.want {
				t.Errorf("verdict %v, want %v: %+v", r.Verdict, c.want, r.Gaps)
			}
		})
	}
}

func TestDecideEnds(t *testing.T) {
	deep := func(leaf string) *apiextensionsv1.JSONSchemaProps {
		p := &apiextensionsv1.JSONSchemaProps{Type: leaf}
		for range 900 {
			p = &apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: p}}
		}
		return &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": *p}}
	}
	wide := func(limit int64) *apiextensionsv1.JSONSchemaProps {
		spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
		for i := range 10_000 {
			spec.Properties[fmt.Sprint("p", i)] = apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: &limit}
		}
		return &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec}}
	}
	branches := func(n int) *apiextensionsv1.JSONSchemaProps {
		spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
		for i := range n {
			name := fmt.Sprint("p", i)
			spec.Properties[name] = apiextensionsv1.JSONSchemaProps{Type: "string"}
			spec.OneOf = append(spec.OneOf, apiextensionsv1.JSONSchemaProps{Required: []string{name, fmt.Sprint("p", (i+1)%n)}})
		}
		return &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec}}
	}
	for _, c := range []struct {
		name     string
		old, new *apiextensionsv1.JSONSchemaProps
		budget   int64 // small where no more than the end is to be seen
		want     []Verdict
	}{
		{"deep, narrower", deep("number"), deep("integer"), 0, []Verdict{NotContained, Unknown}},
		{"deep, wider", deep("integer"), deep("number"), 0, []Verdict{Contained}},
		{"10,000 properties, narrower", wide(2), wide(1), 200, []Verdict{NotContained, Unknown}},
		{"10,000 properties, wider", wide(1), wide(2), 0, []Verdict{Contained}},
		{"many branches", branches(40), branches(41), 2_000, []Verdict{NotContained, Unknown}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Decide(t.Context(), side(t, c.old), side(t, c.new), Options{Budget: c.budget})
			if !slices.Contains(c.want, r.Verdict) {
				t.Errorf("verdict %v, want one of %v", r.Verdict, c.want)
			}
		})
	}
}
