package celrule

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/common/operators"

	"sluice.dev/schema/contain/internal/logic"
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

// functions has a row for each function of the libraries that Kubernetes enables (k8s.io/apiserver/pkg/cel/library,
// github.com/google/cel-go/ext), the authorizer aside, and for each operator that is translated by its operands.
func functions() map[string]function {
	functionTable.Do(func() {
		functionTable.rows = map[string]function{
			operators.Equals: {two: (*translator).equals}, operators.NotEquals: {two: (*translator).notEquals},
			operators.Less: {two: comparing(lt)}, operators.LessEquals: {two: comparing(le)},
			operators.Greater: {two: comparing(gt)}, operators.GreaterEquals: {two: comparing(ge)},
			operators.Add: {two: calculating('+')}, operators.Subtract: {two: calculating('-')}, operators.Multiply: {two: calculating('*')},
			operators.Divide: {two: calculating('/')}, operators.Modulo: {two: calculating('%')},
			operators.In: {two: (*translator).in}, operators.Index: {two: indexing(false)}, operators.OptIndex: {two: indexing(true)},
			operators.OptSelect: {two: (*translator).optSelect}, operators.Negate: {one: (*translator).negate},

			"isURL": {typ: "bool", total: true, one: (*translator).isString}, "isIP": {typ: "bool", total: true, one: (*translator).isString},
			"isCIDR": {typ: "bool", total: true, one: (*translator).isString}, "isQuantity": {typ: "bool", total: true, one: (*translator).isString},
			"lowerAscii": {typ: "string", total: true, one: (*translator).fold}, "upperAscii": {typ: "string", total: true, one: (*translator).fold},
			"trim": {typ: "string", total: true},

			"isSemver": {typ: "bool"}, "isSorted": {typ: "bool"}, "isInteger": {typ: "bool"}, "isGreaterThan": {typ: "bool"}, "isLessThan": {typ: "bool"},
			"isUnspecified": {typ: "bool"}, "isLoopback": {typ: "bool"}, "isGlobalUnicast": {typ: "bool"}, "isLinkLocalUnicast": {typ: "bool"},
			"isLinkLocalMulticast": {typ: "bool"}, "containsIP": {typ: "bool"}, "containsCIDR": {typ: "bool"}, "includes": {typ: "bool"},
			"contains": {typ: "bool", two: (*translator).text}, "startsWith": {typ: "bool", two: (*translator).text},
			"endsWith": {typ: "bool", two: (*translator).text}, "matches": {typ: "bool", two: (*translator).text},
			"hasValue": {typ: "bool", one: (*translator).hasValue}, "bool": {typ: "bool", one: (*translator).toBool},

			"replace": {typ: "string"}, "join": {typ: "string"}, "format": {typ: "string"}, "getHost": {typ: "string"}, "getHostname": {typ: "string"},
			"getPort": {typ: "string"}, "getEscapedPath": {typ: "string"}, "getScheme": {typ: "string", one: (*translator).scheme},
			"substring": {typ: "string", two: (*translator).substringFrom, three: (*translator).substringTo},
			"charAt":    {typ: "string", two: (*translator).substringFrom},
			"find":      {typ: "string", two: (*translator).find}, "string": {typ: "string", one: (*translator).toText},

			"lastIndexOf": {typ: "int"}, "prefixLength": {typ: "int"}, "compareTo": {typ: "int"}, "sign": {typ: "int"}, "asInteger": {typ: "int"},
			"major": {typ: "int"}, "minor": {typ: "int"}, "patch": {typ: "int"}, "getSeconds": {typ: "int"}, "getMilliseconds": {typ: "int"},
			"getMinutes": {typ: "int"}, "getHours": {typ: "int"}, "getDate": {typ: "int"}, "getDayOfMonth": {typ: "int"}, "getDayOfWeek": {typ: "int"},
			"getDayOfYear": {typ: "int"}, "getFullYear": {typ: "int"}, "getMonth": {typ: "int"}, "size": {typ: "int", one: (*translator).size},
			"indexOf": {typ: "int", two: (*translator).indexOf}, "family": {typ: "int", one: (*translator).family}, "int": {typ: "int", one: (*translator).toInt},

			"asApproximateFloat": {typ: "double"}, "double": {typ: "double", one: (*translator).toDouble},
			"uint": {typ: "uint", one: (*translator).convert}, "bytes": {typ: "bytes", one: (*translator).convert},
			"split": {typ: "list", two: (*translator).split}, "findAll": {typ: "list"}, "reverse": {typ: "list"}, "slice": {typ: "list"}, "sort": {typ: "list"},
			"distinct": {typ: "list"}, "flatten": {typ: "list"}, "unwrapOpt": {typ: "list"}, "getQuery": {typ: "map"},

			"min": {}, "max": {}, "sum": {}, "first": {}, "last": {}, "or": {}, "orValue": {}, "masked": {}, "add": {}, "sub": {}, "semver": {},
			"value": {one: (*translator).optValue}, "validate": {two: (*translator).validate}, "type": {one: (*translator).typeOf},
			"dyn": {one: (*translator).dyn}, "url": {one: (*translator).fromString}, "ip": {one: (*translator).fromString},
			"cidr": {one: (*translator).fromString}, "quantity": {one: (*translator).fromString},
			"duration": {one: (*translator).toDuration}, "timestamp": {one: (*translator).convert},
		}
	})
	return functionTable.rows
}

// function makes a term for the value of a function that is not understood.
func (t *translator) function(e *expr, args ...sval) (value, error) {
	name := e.name
	if e.member {
		name = "." + name
	}
	f := functions()[e.name]
	return t.named(name, f.typ, !f.total, args)
}

// knownFormats are the names that format.named knows.
var knownFormats = map[string]bool{
	"dns1123Label": true, "dns1123Subdomain": true, "dns1035Label": true, "qualifiedName": true,
	"dns1123LabelPrefix": true, "dns1123SubdomainPrefix": true, "dns1035LabelPrefix": true, "labelValue": true,
	"uri": true, "uuid": true, "byte": true, "date": true, "datetime": true,
}

// formulaText writes a formula, for IDs.
func formulaText(f logic.Formula) string { return fmt.Sprintf("%#v", f) }
