package celrule

// What is known of each function of CEL? For example, the row of trim says that it gives a string and is never an error, and nothing more.

import (
	"sync"

	"github.com/google/cel-go/common/operators"
)

// function is what is known of a function of CEL. Of one without a row nothing is known: the empty row.
type function struct {
	// typ is the name of the type that it gives, empty if it depends on the arguments or is none of CEL's own.
	typ string
	// total: valid arguments never make it an error.
	total bool
	// one, two and three translate a call with that many arguments, the receiver among them. Without one the call is only named.
	one   func(t *translator, e *expr, a sval) (value, error)
	two   func(t *translator, e *expr, a, b sval) (value, error)
	three func(t *translator, e *expr, a, b, c sval) (value, error)
}

// functionTable has the rows of functions. It is filled at the first use: its rows name functions that look rows up.
var functionTable struct {
	sync.Once
	rows map[string]function
}

// functionsByName has a row for each function of the libraries that Kubernetes enables (k8s.io/apiserver/pkg/cel/library,
// github.com/google/cel-go/ext), the authorizer aside, and for each operator that is translated by its operands.
func functionsByName() map[string]function {
	functionTable.Do(func() {
		functionTable.rows = map[string]function{
			operators.Equals: {two: (*translator).evalEquals}, operators.NotEquals: {two: (*translator).notEquals},
			operators.Less: {two: comparisonBy(lt)}, operators.LessEquals: {two: comparisonBy(le)},
			operators.Greater: {two: comparisonBy(gt)}, operators.GreaterEquals: {two: comparisonBy(ge)},
			operators.Add: {two: arithmeticBy('+')}, operators.Subtract: {two: arithmeticBy('-')}, operators.Multiply: {two: arithmeticBy('*')},
			operators.Divide: {two: arithmeticBy('/')}, operators.Negate: {one: (*translator).negateInt},
			operators.In: {two: (*translator).evalIn}, operators.Index: {two: indexingBy(false)}, operators.OptIndex: {two: indexingBy(true)},
			operators.OptSelect: {two: (*translator).optSelect},

			"isURL": {typ: "bool", total: true, one: (*translator).isString}, "isIP": {typ: "bool", total: true, one: (*translator).isString},
			"isCIDR": {typ: "bool", total: true, one: (*translator).isString}, "isQuantity": {typ: "bool", total: true, one: (*translator).isString},
			"lowerAscii": {typ: "string", total: true, one: (*translator).evalCaseFold}, "upperAscii": {typ: "string", total: true, one: (*translator).evalCaseFold},
			"trim": {typ: "string", total: true, one: (*translator).evalTrim},

			"isSemver": {typ: "bool"}, "isSorted": {typ: "bool"}, "isInteger": {typ: "bool"}, "isGreaterThan": {typ: "bool"}, "isLessThan": {typ: "bool"},
			"isUnspecified": {typ: "bool"}, "isLoopback": {typ: "bool"}, "isGlobalUnicast": {typ: "bool"}, "isLinkLocalUnicast": {typ: "bool"},
			"isLinkLocalMulticast": {typ: "bool"}, "containsIP": {typ: "bool"}, "containsCIDR": {typ: "bool"}, "includes": {typ: "bool"},
			"contains": {typ: "bool", two: (*translator).evalStringSearch}, "startsWith": {typ: "bool", two: (*translator).evalStringSearch},
			"endsWith": {typ: "bool", two: (*translator).evalStringSearch}, "matches": {typ: "bool", two: (*translator).evalStringSearch},
			"hasValue": {typ: "bool", one: (*translator).hasValue}, "bool": {typ: "bool"},

			"replace": {typ: "string", three: (*translator).evalReplace}, "join": {typ: "string"}, "format": {typ: "string"}, "getHost": {typ: "string"}, "getHostname": {typ: "string"},
			"getPort": {typ: "string"}, "getEscapedPath": {typ: "string"}, "getScheme": {typ: "string", one: (*translator).evalGetScheme},
			"substring": {typ: "string", two: (*translator).substringFrom, three: (*translator).substringTo},
			"charAt":    {typ: "string", two: (*translator).evalCharAt}, "find": {typ: "string", two: (*translator).evalFind}, "string": {typ: "string", one: (*translator).toText},

			"lastIndexOf": {typ: "int"}, "prefixLength": {typ: "int"}, "compareTo": {typ: "int"}, "sign": {typ: "int"}, "asInteger": {typ: "int"},
			"major": {typ: "int"}, "minor": {typ: "int"}, "patch": {typ: "int"}, "getSeconds": {typ: "int"}, "getMilliseconds": {typ: "int"},
			"getMinutes": {typ: "int"}, "getHours": {typ: "int"}, "getDate": {typ: "int"}, "getDayOfMonth": {typ: "int"}, "getDayOfWeek": {typ: "int"},
			"getDayOfYear": {typ: "int"}, "getFullYear": {typ: "int"}, "getMonth": {typ: "int"}, "size": {typ: "int", one: (*translator).evalSize},
			"indexOf": {typ: "int"}, "family": {typ: "int", one: (*translator).evalIPFamily}, "int": {typ: "int", one: (*translator).toInt},

			"asApproximateFloat": {typ: "double"}, "double": {typ: "double", one: (*translator).toDouble},
			"uint": {typ: "uint", one: (*translator).opaqueConversion}, "bytes": {typ: "bytes", one: (*translator).opaqueConversion},
			"split": {typ: "list", two: (*translator).evalSplit}, "findAll": {typ: "list"}, "reverse": {typ: "list"}, "slice": {typ: "list"}, "sort": {typ: "list"},
			"distinct": {typ: "list"}, "flatten": {typ: "list"}, "unwrapOpt": {typ: "list"}, "getQuery": {typ: "map"},

			"min": {one: extremeOf(false)}, "max": {one: extremeOf(true)}, "sum": {}, "first": {}, "last": {}, "or": {}, "orValue": {}, "masked": {}, "add": {}, "sub": {}, "semver": {},
			"value": {one: (*translator).optValue}, "validate": {two: (*translator).validateFormat}, "type": {one: (*translator).typeOf},
			"dyn": {one: (*translator).evalDyn}, "url": {one: (*translator).fromString}, "ip": {one: (*translator).fromString},
			"cidr": {one: (*translator).fromString}, "quantity": {one: (*translator).fromString},
			"duration": {one: (*translator).toDuration}, "timestamp": {one: (*translator).opaqueConversion},
		}
	})
	return functionTable.rows
}
