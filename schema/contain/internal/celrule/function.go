package celrule

import (
	"fmt"

	"sluice.dev/schema/contain/internal/logic"
)

// result says what a function gives: the name of the type, empty if it depends on the arguments or is none of CEL's own, and
// whether it may be an error of valid arguments.
type result struct {
	typ     string
	partial bool
}

// functions has a row for each function of the libraries that Kubernetes enables (k8s.io/apiserver/pkg/cel/library,
// github.com/google/cel-go/ext), the authorizer aside. This is all that is known of a call that the translation does not understand.
var functions = map[string]result{
	"isURL": {"bool", false}, "isIP": {"bool", false}, "isCIDR": {"bool", false}, "isQuantity": {"bool", false},
	"lowerAscii": {"string", false}, "upperAscii": {"string", false}, "trim": {"string", false},

	"isSemver": {"bool", true}, "isSorted": {"bool", true}, "isInteger": {"bool", true}, "isGreaterThan": {"bool", true}, "isLessThan": {"bool", true},
	"isUnspecified": {"bool", true}, "isLoopback": {"bool", true}, "isGlobalUnicast": {"bool", true}, "isLinkLocalUnicast": {"bool", true},
	"isLinkLocalMulticast": {"bool", true}, "containsIP": {"bool", true}, "containsCIDR": {"bool", true}, "includes": {"bool", true},
	"contains": {"bool", true}, "startsWith": {"bool", true}, "endsWith": {"bool", true}, "matches": {"bool", true}, "hasValue": {"bool", true},
	"bool": {"bool", true},

	"replace": {"string", true}, "substring": {"string", true}, "charAt": {"string", true}, "join": {"string", true}, "find": {"string", true},
	"format": {"string", true}, "getScheme": {"string", true}, "getHost": {"string", true}, "getHostname": {"string", true},
	"getPort": {"string", true}, "getEscapedPath": {"string", true}, "string": {"string", true},

	"indexOf": {"int", true}, "lastIndexOf": {"int", true}, "family": {"int", true}, "prefixLength": {"int", true}, "compareTo": {"int", true},
	"sign": {"int", true}, "asInteger": {"int", true}, "size": {"int", true}, "int": {"int", true}, "major": {"int", true}, "minor": {"int", true}, "patch": {"int", true},
	"getSeconds": {"int", true}, "getMilliseconds": {"int", true}, "getMinutes": {"int", true}, "getHours": {"int", true}, "getDate": {"int", true},
	"getDayOfMonth": {"int", true}, "getDayOfWeek": {"int", true}, "getDayOfYear": {"int", true}, "getFullYear": {"int", true}, "getMonth": {"int", true},

	"asApproximateFloat": {"double", true}, "double": {"double", true}, "uint": {"uint", true}, "bytes": {"bytes", true},
	"split": {"list", true}, "findAll": {"list", true}, "reverse": {"list", true}, "slice": {"list", true}, "sort": {"list", true},
	"distinct": {"list", true}, "flatten": {"list", true}, "unwrapOpt": {"list", true}, "getQuery": {"map", true},

	"min": {"", true}, "max": {"", true}, "sum": {"", true}, "first": {"", true}, "last": {"", true}, "or": {"", true}, "orValue": {"", true},
	"value": {"", true}, "validate": {"", true}, "type": {"", true}, "dyn": {"", true}, "url": {"", true}, "ip": {"", true}, "cidr": {"", true},
	"masked": {"", true}, "quantity": {"", true}, "add": {"", true}, "sub": {"", true}, "semver": {"", true}, "duration": {"", true}, "timestamp": {"", true},
}

// function names the value of a function that is not understood.
func (t *translator) function(e *expr, args ...sval) (value, error) {
	name := e.name
	if e.member {
		name = "." + name
	}
	r, ok := functions[e.name]
	if !ok {
		r = result{"", true}
	}
	return t.named(name, r.typ, r.partial, args)
}

// knownFormats are the names that format.named knows.
var knownFormats = map[string]bool{
	"dns1123Label": true, "dns1123Subdomain": true, "dns1035Label": true, "qualifiedName": true,
	"dns1123LabelPrefix": true, "dns1123SubdomainPrefix": true, "dns1035LabelPrefix": true, "labelValue": true,
	"uri": true, "uuid": true, "byte": true, "date": true, "datetime": true,
}

// formulaText writes a formula, for IDs.
func formulaText(f logic.Formula) string { return fmt.Sprintf("%#v", f) }
