package contain

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"sluice.dev/schema/contain/internal/logic"
)

// nasty are schemas, and at each a few that differ from it in something that is easily overlooked. Not all are such as
// the API server admits today.
var nasty = []string{
	// types, null, formats
	`{type: string}`,
	`{type: string, nullable: true}`,
	`{type: string, enum: [A, bb]}`,
	`{type: string, nullable: true, enum: [A, bb]}`,
	`{type: string, nullable: true, enum: [A, bb, null]}`,
	`{type: string, maxLength: 0}`,
	`{type: string, maxLength: -1}`,
	`{type: string, minLength: -1, maxLength: 2}`,
	`{type: string, minLength: 3145729}`,
	`{type: string, pattern: "("}`,
	`{type: string, pattern: "^[a-z]*$"}`,
	`{type: string, format: date}`,
	`{type: string, format: date, nullable: true}`,
	`{type: string, format: date-time}`,
	`{type: string, format: int32}`,
	`{type: boolean, format: date}`,
	`{type: object, format: date}`,
	`{type: array, format: date, items: {type: string}}`,
	`{type: integer, format: date}`,
	`{type: boolean}`,
	`{type: boolean, enum: [true]}`,
	`{type: boolean, nullable: true}`,
	`{type: nonsense}`,
	`{type: nonsense, nullable: true}`,
	`{x-kubernetes-preserve-unknown-fields: true}`,
	`{x-kubernetes-preserve-unknown-fields: true, nullable: true}`,
	`{x-kubernetes-preserve-unknown-fields: true, format: date}`,
	`{x-kubernetes-preserve-unknown-fields: true, format: int32}`,
	`{x-kubernetes-preserve-unknown-fields: true, items: {type: string, maxLength: 1}}`,
	`{x-kubernetes-preserve-unknown-fields: true, enum: [1, A]}`,
	`{x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: integer}}}`,
	`{x-kubernetes-preserve-unknown-fields: true, properties: {a: {x-kubernetes-preserve-unknown-fields: true}}}`,
	`{x-kubernetes-preserve-unknown-fields: true, not: {required: [a]}}`,
	`{}`,
	// numbers
	`{type: integer}`,
	`{type: number}`,
	`{type: integer, nullable: true}`,
	`{type: integer, format: int32}`,
	`{type: integer, format: int64}`,
	`{type: number, format: float}`,
	`{type: number, format: double}`,
	`{type: number, format: int32}`,
	`{type: integer, minimum: 1.5}`,
	`{type: number, minimum: 1.5}`,
	`{type: number, minimum: 1}`,
	`{type: number, minimum: 1, exclusiveMinimum: true}`,
	`{type: number, maximum: 1.5, exclusiveMaximum: true}`,
	`{type: number, minimum: 1, maximum: 1}`,
	`{type: integer, minimum: 1, maximum: 1}`,
	`{type: integer, minimum: 1, maximum: 2}`,
	`{type: integer, minimum: 1, exclusiveMinimum: true, maximum: 2, exclusiveMaximum: true}`,
	`{type: integer, minimum: -9223372036854775808}`,
	`{type: integer, maximum: 9223372036854775807}`,
	`{type: integer, maximum: 1e300}`,
	`{type: number, minimum: 1e300}`,
	`{type: number, maximum: -1e300}`,
	`{type: integer, format: int32, maximum: 3000000000}`,
	`{type: integer, multipleOf: 2}`,
	`{type: integer, multipleOf: 0.5}`,
	`{type: number, multipleOf: 0.5}`,
	`{type: number, multipleOf: 2}`,
	`{type: number, multipleOf: -1}`,
	`{type: integer, enum: [1, 2]}`,
	`{type: integer, enum: [float 1.0, 2]}`,
	`{type: number, enum: [1, 2]}`,
	`{type: number, enum: [float 1.0, 2]}`,
	`{type: number, enum: [1.5, 2]}`,
	`{type: number, enum: [1], maximum: 1}`,
	`{type: number, enum: [1], minimum: 1.25}`,
	`{type: number, enum: [1], not: {enum: [1.5]}}`,
	`{type: integer, enum: [A]}`,
	`{type: integer, enum: ["\uFFFD"]}`,
	`{type: integer, enum: ["\uFFFD"], minimum: 0}`,
	`{type: number, enum: [float 9007199254740992.0]}`,
	`{type: number, enum: [float 9007199254740992.0], maximum: 9007199254740992}`,
	// int-or-string
	`{x-kubernetes-int-or-string: true}`,
	`{x-kubernetes-int-or-string: true, nullable: true}`,
	`{x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}`,
	`{x-kubernetes-int-or-string: true, nullable: true, anyOf: [{type: integer}, {type: string}]}`,
	`{x-kubernetes-int-or-string: true, allOf: [{anyOf: [{type: integer}, {type: string}]}, {pattern: "^[a-z]*$"}]}`,
	`{x-kubernetes-int-or-string: true, pattern: "^[a-z]*$"}`,
	`{x-kubernetes-int-or-string: true, pattern: "^[a-z]*$", minimum: 1.5}`,
	`{x-kubernetes-int-or-string: true, maximum: 1.5}`,
	`{x-kubernetes-int-or-string: true, maximum: 1.00000000001}`,
	`{x-kubernetes-int-or-string: true, minimum: 1.00000000005, maximum: 1.00000000005}`,
	`{x-kubernetes-int-or-string: true, enum: [A]}`,
	`{x-kubernetes-int-or-string: true, enum: [65]}`,
	`{x-kubernetes-int-or-string: true, enum: [A, 65]}`,
	`{x-kubernetes-int-or-string: true, enum: [1]}`,
	`{x-kubernetes-int-or-string: true, enum: [1], maximum: 1}`,
	`{x-kubernetes-int-or-string: true, enum: ["\uFFFD"]}`,
	`{x-kubernetes-int-or-string: true, format: date}`,
	`{x-kubernetes-int-or-string: true, type: string}`,
	// lists
	`{type: array}`,
	`{type: array, items: {type: integer}}`,
	`{type: array, items: {type: number}}`,
	`{type: array, items: {type: integer, nullable: true}}`,
	`{type: array, items: {x-kubernetes-preserve-unknown-fields: true}}`,
	`{type: array, items: {type: object}}`,
	`{type: array, x-kubernetes-preserve-unknown-fields: true}`,
	`{type: array, x-kubernetes-preserve-unknown-fields: true, items: {type: object}}`,
	`{type: array, x-kubernetes-preserve-unknown-fields: true, items: {type: object, properties: {a: {type: object}}}}`,
	`{type: array, x-kubernetes-preserve-unknown-fields: true, items: {type: array, items: {type: object}}}`,
	`{type: array, items: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`,
	`{type: array, items: {type: integer}, minItems: -1, maxItems: 1}`,
	`{type: array, items: {type: integer}, maxItems: -1}`,
	`{type: array, items: {type: integer}, minItems: 2}`,
	`{type: array, items: {type: number}, uniqueItems: true}`,
	`{type: array, items: {type: number}, x-kubernetes-list-type: set}`,
	`{type: array, items: {type: number, minimum: 1, maximum: 1}, x-kubernetes-list-type: set, minItems: 2}`,
	`{type: array, items: {type: number, minimum: 1, maximum: 1}, x-kubernetes-list-type: set, minItems: 3}`,
	`{type: array, items: {type: number, enum: [1]}, x-kubernetes-list-type: set, minItems: 3}`,
	`{type: array, items: {type: integer, default: 7}}`,
	`{type: array, items: {type: integer, nullable: true, default: 7}}`,
	`{type: array, items: {type: array, items: {type: number}}, uniqueItems: true}`,
	`{type: array, items: {type: array, items: {type: number}}, x-kubernetes-list-type: set}`,
	`{type: array, items: {type: object, properties: {a: {type: integer}}}, uniqueItems: true}`,
	`{type: array, items: {type: object, properties: {a: {type: integer}}}, x-kubernetes-list-type: set}`,
	`{type: array, items: {type: object, properties: {a: {type: integer, default: 1}}}, x-kubernetes-list-type: set}`,
	`{type: array, items: {type: object, properties: {a: {type: integer, default: 1}}}, uniqueItems: true}`,
	`{type: array, items: {type: object, properties: {a: {type: number}, b: {type: number}}}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a]}`,
	`{type: array, items: {type: object, properties: {a: {type: number}, b: {type: number}}}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [b]}`,
	`{type: array, items: {type: object, properties: {a: {type: number}, b: {type: number}}}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b]}`,
	`{type: array, items: {type: object, properties: {a: {type: number, default: 1}, b: {type: number}}}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a]}`,
	`{type: array, items: {type: object, properties: {a: {type: number, default: 1}, b: {type: number}}}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b]}`,
	`{type: array, items: {type: object, nullable: true, properties: {a: {type: number}}}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a]}`,
	`{type: array, items: {x-kubernetes-preserve-unknown-fields: true}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a]}`,
	// objects
	`{type: object}`,
	`{type: object, nullable: true}`,
	`{type: object, x-kubernetes-preserve-unknown-fields: true}`,
	`{type: object, additionalProperties: true}`,
	`{type: object, additionalProperties: false}`,
	`{type: object, additionalProperties: true, x-kubernetes-preserve-unknown-fields: true}`,
	`{type: object, additionalProperties: false, x-kubernetes-preserve-unknown-fields: true}`,
	`{type: object, additionalProperties: {type: integer}}`,
	`{type: object, additionalProperties: {type: integer, nullable: true}}`,
	`{type: object, additionalProperties: {type: integer, default: 3}}`,
	`{type: object, additionalProperties: {type: object, properties: {a: {type: integer, default: 3}}}}`,
	`{type: object, additionalProperties: {type: object, properties: {a: {type: integer, default: 3}}, required: [a]}}`,
	`{type: object, x-kubernetes-preserve-unknown-fields: true, additionalProperties: {type: integer}}`,
	`{type: object, properties: {a: {type: integer}}}`,
	`{type: object, properties: {a: {type: integer}}, required: [a]}`,
	`{type: object, properties: {a: {type: integer, nullable: true}}, required: [a]}`,
	`{type: object, properties: {a: {type: integer, nullable: true}}}`,
	`{type: object, properties: {a: {type: integer, default: 1}}}`,
	`{type: object, properties: {a: {type: integer, default: 1}}, required: [a]}`,
	`{type: object, properties: {a: {type: integer, default: 2}}, required: [a]}`,
	`{type: object, properties: {a: {type: integer, nullable: true, default: 1}}, required: [a]}`,
	`{type: object, properties: {a: {type: integer, default: null}}, required: [a]}`,
	`{type: object, properties: {a: {type: integer, default: 1, maximum: 0}}}`,
	`{type: object, properties: {a: {type: integer, default: 1}}, minProperties: 1}`,
	`{type: object, properties: {a: {type: integer, default: 1}, b: {type: integer}}, maxProperties: 1}`,
	`{type: object, properties: {a: {type: integer}, b: {type: integer}}, maxProperties: 1}`,
	`{type: object, properties: {a: {type: integer}, b: {type: integer}}, minProperties: 1}`,
	`{type: object, properties: {a: {type: integer}, b: {type: integer}}, minProperties: -1}`,
	`{type: object, properties: {a: {type: integer}, b: {type: integer}}, maxProperties: -1}`,
	`{type: object, properties: {a: {type: integer, default: 1}, b: {type: integer}}, anyOf: [{properties: {a: {minimum: 2}}}, {required: [b]}]}`,
	`{type: object, properties: {a: {type: integer, default: 2}, b: {type: integer}}, anyOf: [{properties: {a: {minimum: 2}}}, {required: [b]}]}`,
	`{type: object, properties: {a: {type: integer}, b: {type: integer}}, anyOf: [{properties: {a: {minimum: 2}}}, {required: [b]}]}`,
	`{type: object, properties: {a: {type: integer, default: 1}, b: {type: integer}}, oneOf: [{required: [a]}, {required: [b]}]}`,
	`{type: object, properties: {a: {type: integer}, b: {type: integer}}, oneOf: [{required: [a]}, {required: [b]}]}`,
	`{type: object, properties: {a: {type: integer}, b: {type: integer}}, oneOf: [{required: [a]}, {required: [a]}]}`,
	`{type: object, properties: {a: {type: integer, default: 1}, b: {type: integer}}, not: {required: [a, b]}}`,
	`{type: object, properties: {a: {type: integer}, b: {type: integer}}, not: {required: [a, b]}}`,
	`{type: object, properties: {a: {type: integer}, b: {type: integer}}, not: {not: {required: [a]}}}`,
	`{type: object, properties: {a: {type: integer}, b: {type: integer}}, not: {}}`,
	`{type: object, properties: {a: {type: integer}, b: {type: integer}}, anyOf: [], oneOf: [], allOf: []}`,
	`{type: object, properties: {a: {type: integer}, b: {type: integer}}, anyOf: [{}]}`,
	`{type: object, properties: {a: {type: integer, default: 1}, b: {type: integer}}, anyOf: [{additionalProperties: false, properties: {b: {}}}]}`,
	`{type: object, properties: {a: {type: integer, default: 1}, b: {type: integer}}, anyOf: [{additionalProperties: {minimum: 2}, properties: {b: {}}}]}`,
	`{type: object, properties: {a: {type: object, properties: {x: {type: integer, default: 1}}}}, anyOf: [{additionalProperties: {required: [x]}}]}`,
	`{type: object, properties: {a: {type: object, properties: {x: {type: integer, default: 1}}}}, anyOf: [{properties: {a: {required: [x]}}}]}`,
	`{type: object, properties: {a: {type: object, default: {}, properties: {x: {type: integer, default: 1}}}}, anyOf: [{properties: {a: {required: [x]}}}]}`,
	`{type: object, properties: {a: {type: object, default: {}, properties: {x: {type: integer, default: 1}}, minProperties: 1}}}`,
	`{type: object, properties: {a: {type: object, default: {}, properties: {x: {type: integer}}, minProperties: 1}}}`,
	`{type: object, properties: {a: {type: object, default: {}, properties: {x: {type: integer}}, required: [x]}}}`,
	`{type: object, properties: {a: {type: object, properties: {x: {type: integer}}, required: [x]}}}`,
	`{type: object, properties: {a: {type: integer, default: 1}, b: {type: integer, default: 1}, c: {type: integer}}, enum: [{a: 1, b: 1}]}`,
	`{type: object, properties: {a: {type: integer}, b: {type: integer}, c: {type: integer}}, enum: [{a: 1, b: 1}]}`,
	`{type: object, properties: {a: {type: integer}, b: {type: integer}, c: {type: integer}}, enum: [{a: 1, b: float 1.0}]}`,
	`{type: object, properties: {a: {type: integer}, b: {type: integer}}, required: [b], enum: [{a: 1, b: 1}]}`,
	`{type: object, properties: {a: {type: string, default: a}, b: {type: integer}}, allOf: [{properties: {a: {maxLength: 1}}}]}`,
	`{type: object, properties: {a: {type: string, default: aa}, b: {type: integer}}, allOf: [{properties: {a: {maxLength: 1}}}]}`,
	`{type: object, properties: {a: {x-kubernetes-preserve-unknown-fields: true}}, allOf: [{properties: {a: {enum: [xx, yy]}}}]}`,
	`{type: object, properties: {a: {type: string, maxLength: 1}}, allOf: [{properties: {a: {enum: [xx, yy]}}}]}`,
	`{type: object, properties: {a: {type: string, maxLength: 1}}}`,
	`{type: object, properties: {a: {type: integer, nullable: true}}, anyOf: [{properties: {a: {minimum: 5}}}]}`,
	`{type: object, properties: {a: {type: integer, nullable: true}}, anyOf: [{properties: {a: {type: string, nullable: true, anyOf: [{type: string}]}}}]}`,
	`{type: object, properties: {a: {type: integer, nullable: true}}, anyOf: [{properties: {a: {x-kubernetes-int-or-string: true}}}]}`,
	`{type: object, properties: {a: {type: integer, nullable: true}}, anyOf: [{properties: {a: {enum: [5]}}}]}`,
	`{type: object, properties: {a: {type: integer, nullable: true}}, not: {properties: {a: {minimum: 5}}}}`,
	`{type: object, x-kubernetes-preserve-unknown-fields: true, not: {properties: {a: {minimum: 5}}}}`,
	`{type: object, x-kubernetes-preserve-unknown-fields: true, anyOf: [{properties: {a: {format: date}}}]}`,
	`{type: object, x-kubernetes-preserve-unknown-fields: true, anyOf: [{properties: {a: {format: int32}}}]}`,
	`{type: object, x-kubernetes-preserve-unknown-fields: true, anyOf: [{properties: {a: {format: int32, type: integer}}}]}`,
	`{type: object, x-kubernetes-preserve-unknown-fields: true, anyOf: [{properties: {a: {items: {minimum: 5}}}}]}`,
	`{type: object, properties: {a.b: {type: integer}, é: {type: integer}, "": {type: integer}}, required: [a.b]}`,
	`{type: object, properties: {apiVersion: {type: integer}, kind: {type: integer}, metadata: {type: integer}}}`,
	`{type: object, properties: {metadata: {type: object}}}`,
	// seven properties with defaults
	`{type: object, properties: {a: {type: integer, default: 1}, b: {type: integer, default: 1}, c: {type: integer, default: 1}, d: {type: integer, default: 1}, e: {type: integer, default: 1}, f: {type: integer, default: 1}, g: {type: integer, default: 1}, h: {type: integer}, x: {type: integer}}, maxProperties: 9}`,
	`{type: object, properties: {a: {type: integer, default: 1}, b: {type: integer, default: 1}, c: {type: integer, default: 1}, d: {type: integer, default: 1}, e: {type: integer, default: 1}, f: {type: integer, default: 1}, g: {type: integer, default: 1}, h: {type: integer}, x: {type: integer}}, maxProperties: 8}`,
	`{type: object, properties: {a: {type: integer, default: 1}, b: {type: integer, default: 1}, c: {type: integer, default: 1}, d: {type: integer, default: 1}, e: {type: integer, default: 1}, f: {type: integer, default: 1}, g: {type: integer, default: 1}, h: {type: integer}, x: {type: integer}}, minProperties: 8}`,
	// embedded resources
	`{type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}`,
	`{type: object, x-kubernetes-embedded-resource: true, properties: {a: {type: integer}}}`,
	`{type: object, x-kubernetes-embedded-resource: true, properties: {metadata: {type: object}}}`,
	`{type: object, x-kubernetes-embedded-resource: true, properties: {metadata: {type: object, properties: {labels: {type: object}}}}}`,
	`{type: object, x-kubernetes-embedded-resource: true, properties: {apiVersion: {type: string, default: v1}, kind: {type: string, default: K}}}`,
	`{type: object, properties: {apiVersion: {type: string}, kind: {type: string}, metadata: {type: object, x-kubernetes-preserve-unknown-fields: true}}, required: [apiVersion, kind]}`,
	`{type: object, properties: {apiVersion: {type: string, minLength: 1}, kind: {type: string, minLength: 1}, metadata: {type: object, x-kubernetes-preserve-unknown-fields: true}}, required: [apiVersion, kind]}`,
	`{type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, required: [metadata], properties: {metadata: {type: object, required: [name]}}}`,
	// validation rules
	`{type: integer, x-kubernetes-validations: [{rule: "self < 5"}]}`,
	`{x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: integer, x-kubernetes-validations: [{rule: "self < 5"}]}}}`,
	`{x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: integer, maximum: 4}}}`,
	`{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: "self < 5"}]}}}`,
	`{type: object, properties: {a: {type: integer, default: 1}}, x-kubernetes-validations: [{rule: "self.a < 5"}]}`,
	`{type: object, properties: {a: {type: integer, default: 6}}, x-kubernetes-validations: [{rule: "self.a < 5"}]}`,
	`{type: array, items: {x-kubernetes-preserve-unknown-fields: true}, x-kubernetes-validations: [{rule: "size(self) < 1"}]}`,
	`{type: array, items: {x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: integer, x-kubernetes-validations: [{rule: "self < 0"}]}}}}`,
}

// values are put in the place of each of the schemas.
var values = []string{
	`null`, `true`, `false`,
	`0`, `1`, `2`, `3`, `-1`, `65`, `5`, `-5`, `7`, `3000000000`, `9007199254740992`, `9007199254740993`, `9223372036854775807`, `-9223372036854775808`,
	`1.0`, `2.0`, `1.5`, `1.25`, `1.00000000005`, `1.000000001`, `0.9999999999999`, `1.9999999999999`, `3000000000.0`, `9007199254740992.0`, `9007199254740991.0`, `1e300`, `-1e300`, `3.4028235e38`, `3.40282347e38`, `3.5e38`, `9223372036854775807.0`, `-0.0`, `65.0`, `0.5`,
	`""`, `"a"`, `"A"`, `"é"`, `"aa"`, `"bb"`, `"xx"`, `"abc"`, `"2006-01-02"`, `"2006-01-02T15:04:05Z"`, `"\uFFFD"`, `"1"`,
	`[]`, `[null]`, `[1]`, `[1,1]`, `[1,1.0]`, `[1,1.5]`, `[1,1.0,1.5]`, `[1,1.0,1.5,1.25]`, `[1.0,1.0]`, `[[1],[1.0]]`, `[[1],[1]]`, `["a"]`, `["aa"]`, `[{}]`, `[{},{}]`, `[{},{"a":1}]`, `[{"a":1},{"a":1}]`, `[{"a":1},{"a":1.0}]`, `[{"a":1,"b":1},{"a":1.0,"b":1}]`, `[{"a":1,"b":1},{"a":1,"b":2}]`, `[{"a":1,"b":1},{"a":2,"b":1}]`, `[{"a":null},{}]`, `[{},null]`, `[null,null]`, `[{"b":1},{"a":1,"b":1}]`, `[{"a":{"b":1}}]`, `[[{}]]`, `[[{"a":1}]]`, `[[[{"a":1}]]]`, `[{"a":5}]`, `[1,2]`, `[{"a":1},{"b":1}]`,
	`{}`, `{"a":null}`, `{"a":1}`, `{"a":0}`, `{"a":2}`, `{"a":5}`, `{"a":7}`, `{"a":1.0}`, `{"b":1}`, `{"b":5}`, `{"a":1,"b":1}`, `{"a":1,"b":1.0}`, `{"a":1,"b":2}`, `{"a":2,"b":1}`, `{"a":null,"b":1}`, `{"c":1}`, `{"c":null}`, `{"a":1,"b":1,"c":1}`, `{"a":{}}`, `{"a":{"x":1}}`, `{"a":{"x":null}}`, `{"a":{"a":1}}`, `{"a":[1]}`, `{"a":[5]}`, `{"a":[{"b":1}]}`, `{"a":"x"}`, `{"a":"xx"}`, `{"a":"a"}`, `{"a":"2006-01-02"}`, `{"k":{"z":1}}`, `{"k":{}}`, `{"k":{"a":1}}`,
	`{"a.b":1}`, `{"é":1,"a.b":1}`, `{"":1,"a.b":2}`, `{"h":1}`, `{"h":1,"x":1}`, `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"x":1}`,
	`{"apiVersion":1}`, `{"apiVersion":"v1"}`, `{"apiVersion":"v1","kind":"K"}`, `{"apiVersion":"","kind":"K"}`, `{"apiVersion":"a/b/c","kind":"K"}`, `{"apiVersion":"v1","kind":"K K"}`,
	`{"apiVersion":"v1","kind":"K","metadata":{}}`, `{"apiVersion":"v1","kind":"K","metadata":{"name":"x"}}`, `{"apiVersion":"v1","kind":"K","metadata":{"foo":1}}`, `{"apiVersion":"v1","kind":"K","metadata":{"labels":{"a":"b"}}}`, `{"apiVersion":"v1","kind":"K","metadata":{"labels":5}}`, `{"apiVersion":"v1","kind":"K","metadata":{"name":"a/b"}}`, `{"apiVersion":"v1","kind":"K","metadata":null}`, `{"apiVersion":"v1","kind":"K","metadata":{"creationTimestamp":null}}`, `{"apiVersion":"v1","kind":"K","a":1}`, `{"metadata":{"x":1}}`, `{"metadata":{}}`, `{"metadata":1}`, `{"kind":"K"}`,
}

func parseValue(t *testing.T, s string) any {
	t.Helper()
	var v any
	if err := utiljson.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return v
}

func parseSchema(t *testing.T, s string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	j, err := yaml.YAMLToJSON([]byte(s))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	var p apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(float.ReplaceAll(j, []byte("$1")), &p); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return &p
}

// float matches "float 1.0", which stands for 1.0 in these tests: the way from YAML to JSON makes 1 of that.
var float = regexp.MustCompile(`"float ([^"]*)"`)

// frames are the places at which a schema is put: the schema around it, and the object around a value.
var frames = []struct {
	schema string
	object string
}{
	{`{type: object, properties: {v: %s}}`, `{"v":%s}`},
	{`{type: object, properties: {v: {type: array, items: %s}}}`, `{"v":[%s]}`},
	{`{type: object, properties: {v: {type: object, additionalProperties: %s}}}`, `{"v":{"key":%s}}`},
	{`{type: object, properties: {v: {type: array, x-kubernetes-preserve-unknown-fields: true, items: %s}}}`, `{"v":[%s]}`},
}

func resource(t *testing.T, body string) map[string]any {
	t.Helper()
	obj, _ := parseValue(t, body).(map[string]any)
	obj["apiVersion"], obj["kind"] = "example.com/v1", "Example"
	obj["metadata"] = map[string]any{"name": "example", "namespace": "default"}
	return obj
}

// verdictsOf tells of each of values whether the API server accepts it and keeps all of it.
func verdictsOf(t *testing.T, p *apiextensionsv1.JSONSchemaProps, object string) []bool {
	t.Helper()
	v := validator(t, p)
	out := make([]bool, len(values))
	for i, x := range values {
		out[i], _ = fine(t, v, resource(t, fmt.Sprintf(object, x)))
	}
	return out
}

// TestNastySchemasAsFormulas compares the formula of every nasty schema with the API server's code, on all the values.
func TestNastySchemasAsFormulas(t *testing.T) {
	for _, f := range frames {
		for _, s := range nasty {
			p := parseSchema(t, fmt.Sprintf(f.schema, s))
			verdicts := verdictsOf(t, p, f.object)
			opts := &Options{Namespaced: true}
			formula := newTranslator(opts).accepts(place{node: side(t, p).Node, pos: atRoot})
			for i, x := range values {
				obj := resource(t, fmt.Sprintf(f.object, x))
				if got := logic.Eval(formula, obj, opts.strings()); got != logic.Unsure && (got == logic.Yes) != verdicts[i] {
					_, why := fine(t, validator(t, p), obj)
					t.Errorf("%s\n\tof %s\n\tformula %v, upstream %v: %s", fmt.Sprintf(f.schema, s), x, got == logic.Yes, verdicts[i], why)
				}
			}
		}
	}
}

// TestNastyPairsHaveNoEscape decides every pair of nasty schemas between which one of the values escapes: none may be
// called contained.
func TestNastyPairsHaveNoEscape(t *testing.T) {
	tried, pairs := 0, 0
	for fi, f := range frames {
		verdicts := make([][]bool, len(nasty))
		sides := make([]Side, len(nasty))
		for i, s := range nasty {
			p := parseSchema(t, fmt.Sprintf(f.schema, s))
			sides[i], verdicts[i] = side(t, p), verdictsOf(t, p, f.object)
		}
		for i := range nasty {
			for j := range nasty {
				x := escape(verdicts[i], verdicts[j])
				if x < 0 || (i+j)%len(frames) != fi { // each pair in one frame
					continue
				}
				if tried++; tried%max(1, 4/rounds(1)) != 0 { // a quarter, unless asked for more
					continue
				}
				pairs++
				if contained(sides[i], sides[j]) {
					t.Errorf("contained, but %s escapes in %s\n\told %s\n\tnew %s", values[x], f.schema, nasty[i], nasty[j])
				}
			}
		}
	}
	t.Logf("%d pairs with an escape", pairs)
}

// contained tells whether Decide would call the pair contained, without looking for a witness where it would not.
func contained(old, new Side) bool {
	opts := Options{Namespaced: true}
	if old.Node.Hash() == new.Node.Hash() {
		return true
	}
	c := newComparison(old, new, &opts)
	for i := range c.suspects {
		p := &pending{suspect: &c.suspects[i]}
		if p.gap.Harm != Redefaulted && c.solve(context.Background(), p) {
			return false
		}
	}
	return c.cut == ""
}

func escape(old, new []bool) int {
	for i := range old {
		if old[i] && !new[i] {
			return i
		}
	}
	return -1
}

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
		name: "more steps than bounds for integers and strings",
		old:  `{type: object, properties: {spec: {type: integer, format: int32, minimum: 1, maximum: 65535}}}`,
		new:  `{type: object, properties: {spec: {x-kubernetes-int-or-string: true, minimum: 0, pattern: "^[0-9]+%$"}}}`,
		want: Contained,
	},
	{
		name: "unique numbers",
		old:  `{type: object, properties: {spec: {type: array, uniqueItems: true, items: {type: array, items: {type: number}}}}}`,
		new:  `{type: object, properties: {spec: {type: array, x-kubernetes-list-type: set, items: {type: array, items: {type: number}}}}}`,
		want: Unknown, escapes: `{"spec": [[1], [1.0]]}`,
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
		name: "rules below a field without a type are not evaluated",
		old:  `{type: object, properties: {spec: {x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: integer, x-kubernetes-validations: [{rule: "self < 5"}]}}}}}`,
		new:  `{type: object, properties: {spec: {x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: integer, maximum: 4}}}}}`,
		want: NotContained, escapes: `{"spec": {"a": 7}}`,
	},
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
			r := Decide(context.Background(), side(t, old), side(t, new), Options{Namespaced: true})
			if r.Verdict != c.want {
				t.Errorf("verdict %v, want %v: %+v", r.Verdict, c.want, r.Gaps)
			}
		})
	}
}

func TestUpdatesThatCorrelateOtherwise(t *testing.T) {
	rule := `properties: {a: {type: string}, b: {type: string}, x: {type: string, x-kubernetes-validations: [{rule: "self == oldSelf"}]}}`
	list := `{type: object, properties: {spec: {type: array, maxItems: 1, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [%s], items: {type: object, required: [a, b], ` + rule + `}}}}`
	old, new := parseSchema(t, fmt.Sprintf(list, "a, b")), parseSchema(t, fmt.Sprintf(list, "a"))
	before, after := resource(t, `{"spec": [{"a": "a", "b": "b", "x": "x"}]}`), resource(t, `{"spec": [{"a": "a", "b": "c", "x": "y"}]}`)
	for _, x := range []struct {
		schema  *apiextensionsv1.JSONSchemaProps
		refused bool
	}{{old, false}, {new, true}} {
		r, err := validator(t, x.schema).Update(t.Context(), after, before, true)
		if err != nil || r.Refused() != x.refused {
			t.Fatalf("the update is as follows, want refused %v: %v, %v", x.refused, r.Errors, err)
		}
	}
	if r := Decide(context.Background(), side(t, old), side(t, new), Options{Namespaced: true}); r.Verdict == Contained {
		t.Error("called contained")
	}
}
