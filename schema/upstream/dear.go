package upstream

// Which calls of a rule would take too long? For example, quantity("1e999999999") writes out a billion digits, which the cost limits of the
// API server do not foresee. Such a call is not made, and a result that depends on it is an error of ours, no verdict.

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"sluice.dev/schema"
)

// ErrTooDear is returned for an object on which a validation rule takes work that no budget of the API server bounds: quantity("1e999999999")
// computes a number of a billion digits, for a cost of 2. Nothing interrupts it. So the rule is not evaluated.
var ErrTooDear = errors.New("a validation rule would take too long on this value")

// The bounds of the work of one call of a function.
const (
	maxQuantity = 10_000      // digits, and zeros that an exponent stands for
	maxSteps    = 100_000_000 // characters that a search compares
	maxRegexp   = 50_000      // characters of a regular expression, its counts written out
	maxStates   = 50_000_000  // states of a regular expression, for each character of the text and each group
	maxResult   = 16 << 20    // bytes
)

// dearCall reports whether a call with these arguments may take more than the bounds.
type dearCall func(args []ref.Val) bool

// dearCalls has the functions whose work is not in proportion to the size of their arguments. A test holds it against all functions of
// the API server's CEL libraries that take strings.
var dearCalls = map[string]dearCall{
	"quantity": dearQuantity, "isQuantity": dearQuantity, "indexOf": dearSearch, "lastIndexOf": dearSearch, "replace": dearReplacement, "join": dearJoin,
	"matches": dearMatch, "find": dearMatch, "findAll": dearMatch,
}

// text is the string of a CEL value, empty for values of other types.
func text(v ref.Val) string {
	s, _ := v.Value().(string)
	return s
}

// dearQuantity is for ParseQuantity of k8s.io/apimachinery/pkg/api/resource, which writes out all digits.
func dearQuantity(args []ref.Val) bool {
	s := text(args[0])
	if len(s) > maxQuantity {
		return true
	}
	i := strings.LastIndexAny(s, "eE")
	if i < 0 {
		return false
	}
	exponent, err := strconv.ParseInt(s[i+1:], 10, 64)
	shift := int32(exponent) //nolint:gosec // as ParseQuantity cuts it
	return err == nil && (shift > maxQuantity || shift < -maxQuantity)
}

// dearSearch is for a search that compares the text at each place.
func dearSearch(args []ref.Val) bool { return len(text(args[0]))*len(text(args[1])) > maxSteps }

func dearReplacement(args []ref.Val) bool {
	s, old := text(args[0]), text(args[1])
	return len(s)+strings.Count(s, old)*len(text(args[2])) > maxResult
}

// dearJoin is for join, whose result has all the texts and a separator between each two.
func dearJoin(args []ref.Val) bool {
	list, ok := args[0].(traits.Lister)
	if !ok || len(args) == 1 {
		return false
	}
	n, _ := list.Size().Value().(int64)
	return int(n)*len(text(args[1])) > maxResult
}

// dearMatch is for regular expressions: regexp looks at each state for each character, and keeps the groups of each.
func dearMatch(args []ref.Val) bool { return len(text(args[0])) > longestMatch(text(args[1])) }

// longestMatch is the length of the longest text that an expression may be asked about, negative if there is none.
func longestMatch(pattern string) int {
	if len(pattern)*(1+patternCopies(pattern)) > maxRegexp {
		return -1
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return maxResult // the call is an error at once
	}
	groups := re.MaxCap()
	program, err := syntax.Compile(re.Simplify())
	if err != nil {
		return maxResult
	}
	return maxStates/len(program.Inst) - 2*(groups+1)
}

// tooDear is the value of a call that is not made. CEL takes it for unknown: the result of a rule is unknown, too, unless it does not
// depend on the call.
func tooDear(function string) ref.Val {
	return types.NewUnknown(0, types.NewAttributeTrail(function))
}

// dearIn returns [ErrTooDear] with the function to blame if v is the result of tooDear.
func dearIn(v ref.Val, rule string) error {
	u, ok := v.(*types.Unknown)
	if !ok {
		return nil
	}
	function := "a function"
	for _, id := range u.IDs() {
		if trails, ok := u.GetAttributeTrails(id); ok && len(trails) > 0 {
			function = trails[0].Variable() + "()"
		}
	}
	return fmt.Errorf("%w: %s in %q is not evaluated on so large a value", ErrTooDear, function, rule)
}

// boundedEnv is the environment of the API server's rules, in which calls that may take too long are replaced by tooDear.
var boundedEnv = sync.OnceValues(func() (*environment.EnvSet, error) {
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	originals := map[string]*functions.Overload{}
	for name, f := range base.StoredExpressionsEnv().Functions() {
		if dearCalls[name] == nil {
			continue
		}
		bindings, err := f.Bindings()
		if err != nil {
			return nil, err
		}
		for _, b := range bindings {
			if b.Operator == name { // the one that chooses among the overloads
				originals[name] = b
			}
		}
	}
	return base.Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		ProgramOptions: []celgo.ProgramOption{
			celgo.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
				call, ok := i.(interpreter.InterpretableCall)
				if !ok || originals[call.Function()] == nil {
					return i, nil
				}
				return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), bounded(call.Function(), originals[call.Function()])), nil
			}),
			celgo.OptimizeRegex(boundedMatches()...),
		},
	})
})

// bounded is a function that calls the original one unless that may take too long.
func bounded(name string, original *functions.Overload) functions.FunctionOp {
	dear := dearCalls[name]
	return func(args ...ref.Val) ref.Val {
		switch {
		case original.OperandTrait != 0 && !args[0].Type().HasTrait(original.OperandTrait):
			return types.NewErr("no such overload: %s", name)
		case dear(args):
			return tooDear(name)
		case len(args) == 1 && original.Unary != nil:
			return original.Unary(args[0])
		case len(args) == 2 && original.Binary != nil:
			return original.Binary(args[0], args[1])
		}
		return original.Function(args...)
	}
}

// matchCalls are the overloads that take a regular expression. A constant one is compiled once.
var matchCalls = map[string]*interpreter.RegexOptimization{
	"matches": interpreter.MatchesRegexOptimization, "matches_string": interpreter.MatchesRegexOptimization, "string_find_string": library.FindRegexOptimization,
	"string_find_all_string": library.FindAllRegexOptimization, "string_find_all_string_int": library.FindAllRegexOptimization,
}

// boundedMatches are matchCalls with texts that are bounded.
func boundedMatches() (out []*interpreter.RegexOptimization) {
	for id, o := range matchCalls {
		own := *o
		own.OverloadID = id
		own.Factory = func(call interpreter.InterpretableCall, pattern string) (interpreter.InterpretableCall, error) {
			args := slices.Clone(call.Args())
			args[0] = boundedText{args[0], longestMatch(pattern), call.Function()}
			return o.Factory(interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), args, nil), pattern)
		}
		out = append(out, &own)
	}
	return out
}

// boundedText is the text that an expression is asked about.
type boundedText struct {
	interpreter.InterpretableV2
	longest  int
	function string
}

// Exec implements interpreter.InterpretableV2.
func (b boundedText) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := b.InterpretableV2.Exec(frame)
	if s, ok := v.Value().(string); ok && len(s) > b.longest {
		return tooDear(b.function)
	}
	return v
}

// Eval implements interpreter.Interpretable.
func (b boundedText) Eval(vars interpreter.Activation) ref.Val {
	return b.Exec(interpreter.AsFrame(vars))
}

// mayBeDear reports whether the rules at p and below may be dear for its default. Nothing but a quantity is dear in a short text.
func mayBeDear(p *props) bool {
	const short = 4096
	for below := range schema.Walk(p, schema.InStructure) {
		for i := range below.XValidations {
			rule := below.XValidations[i].Rule + below.XValidations[i].MessageExpression
			if strings.Contains(rule, quantityName) || mentionsDear(rule) && len(rule)+len(p.Default.Raw) > short {
				return true
			}
		}
	}
	return false
}

// quantityName is in the names of both functions that read quantities.
const quantityName = "uantity"

// mentionsDear reports whether the text of a rule has a name of dearCalls.
func mentionsDear(rule string) bool {
	for name := range dearCalls {
		if strings.Contains(rule, name) {
			return true
		}
	}
	return false
}
