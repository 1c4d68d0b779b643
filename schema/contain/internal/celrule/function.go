package celrule

import (
	"fmt"

	"sluice.dev/schema/contain/internal/logic"
)

// result says what a function gives: the name of the type, and whether it may be an error of valid arguments.
type result struct {
	typ     string
	partial bool
}

// functions are those of the libraries that Kubernetes enables whose result is known to be of a type
// (k8s.io/apiserver/pkg/cel/library, github.com/google/cel-go/ext). All others may fail and have any type.
var functions = map[string]result{
	"isURL": {"bool", false}, "isIP": {"bool", false}, "isCIDR": {"bool", false}, "isQuantity": {"bool", false},
	"isSemver":   {"bool", true},
	"lowerAscii": {"string", false}, "upperAscii": {"string", false}, "trim": {"string", false},
	"replace": {"string", true}, "substring": {"string", true}, "charAt": {"string", true},
	"indexOf": {"int", true}, "lastIndexOf": {"int", true}, "split": {"list", true}, "join": {"string", true},
	"find": {"string", true}, "findAll": {"list", true}, "format": {"string", true}, "reverse": {"string", true},
	"getScheme": {"string", true}, "getHost": {"string", true}, "getHostname": {"string", true},
	"getPort": {"string", true}, "getEscapedPath": {"string", true}, "family": {"int", true},
	"prefixLength": {"int", true}, "compareTo": {"int", true}, "sign": {"int", true}, "asInteger": {"int", true},
	"isInteger": {"bool", true}, "isGreaterThan": {"bool", true}, "isLessThan": {"bool", true},
	"asApproximateFloat": {"double", true}, "isUnspecified": {"bool", true}, "isLoopback": {"bool", true},
	"containsIP": {"bool", true}, "containsCIDR": {"bool", true}, "isSorted": {"bool", true},
	"getSeconds": {"int", true}, "getMilliseconds": {"int", true}, "getMinutes": {"int", true}, "getHours": {"int", true},
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
