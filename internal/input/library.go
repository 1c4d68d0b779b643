package input

// What is the value of a document? YAML is read by the library of kubectl, JSON as the API server reads it, and
// both give the same values: numbers as storage has them, keys as strings. Aliases can make a small text expand to
// gigabytes, so values and bytes are counted.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v2"
	kjson "sigs.k8s.io/json"

	"sluice.dev/internal/yamlerr"
	"sluice.dev/schema"
)

// value is one document: nil, bool, string, a number, []any or map[string]any. Numbers are as storage has them.
type value struct {
	v any
	// twice says that a key stands twice in an object; the last one counts, as kubectl sees it.
	twice *Error
}

// parseYAML reads the YAML document s with the library that kubectl uses, and returns what YAMLToJSON of sigs.k8s.io/yaml says.
// Unlike that function it bounds the expansion of aliases, and two keys that become the same string are an error. Lines in its
// errors count from line.
func parseYAML(ctx context.Context, s string, line int) (value, error) {
	if err := checkCount(s); err != nil {
		return value{}, err
	}
	var out value
	v, err := decodeYAML(ctx, s, line, true)
	if errors.Is(err, errTwice) {
		out.twice, _ = errors.AsType[*Error](err)
		v, err = decodeYAML(ctx, s, line, false)
	}
	if err != nil {
		return value{}, err
	}
	c := converter{text: 4*len(s) + 1<<20}
	out.v, err = c.convertValue(v, 0)
	return out, err
}

// checkCount refuses a document that may have more than maxNodes values: the libraries need some 200 bytes for
// each. It counts characters that begin values, so it may count too many and never too few.
func checkCount(s string) error {
	n := strings.Count(s, "\n")
	for _, c := range []string{",", "[", "{", ":", "- ", "? "} { // values are begun by one of these
		n += strings.Count(s, c)
	}
	if n > maxNodes {
		return &Error{Msg: fmt.Sprintf("has more than %d values in one document", maxNodes)}
	}
	return nil
}

// parseJSON reads the JSON values of s, one after the other, and the offset of each in s, as kubectl does before it sends them: a number
// is an int64 or a float64. It returns no values if kubectl's reader of JSON would refuse them, or if a key occurs twice. Then parseYAML
// finds the error. A number beyond the range of a float64 is an error, whose line counts from line.
func parseJSON(s string, line int) (values []value, offsets []int, err error) {
	if checkCount(s) != nil {
		return nil, nil, nil //nolint:nilerr // parseYAML finds the error
	}
	skip := 0
	if markerAt(s, 0) == '-' {
		skip = 3
	}
	dec := json.NewDecoder(strings.NewReader(s[skip:]))
	for {
		var raw json.RawMessage
		if err := dec.Decode(&raw); errors.Is(err, io.EOF) {
			return values, offsets, nil
		} else if err != nil {
			return nil, nil, nil //nolint:nilerr // parseYAML finds the error
		}
		start := skip + int(dec.InputOffset()) - len(raw)
		var v any
		twice, err := kjson.UnmarshalStrict(raw, &v)
		if number, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			at := line + strings.Count(s[:start+min(int(number.Offset), len(raw))], "\n")
			return nil, nil, lineError(at, fmt.Sprintf("has the %s, which is out of range: numbers go up to %.1e", number.Value, math.MaxFloat64))
		}
		if err != nil || len(twice) > 0 {
			return nil, nil, nil //nolint:nilerr // parseYAML finds the error
		}
		c := converter{text: math.MaxInt}
		if v, err = c.convertValue(v, 0); err != nil {
			return nil, nil, nil //nolint:nilerr // parseYAML finds the error
		}
		values = append(values, value{v: v})
		offsets = append(offsets, start)
	}
}

// errTwice says that nothing is wrong but keys that stand twice.
var errTwice = errors.New("a key stands twice")

// onlyDuplicates reports whether the library has found only keys that occur twice.
func onlyDuplicates(err error) bool {
	e, ok := errors.AsType[*yaml.TypeError](err)
	return ok && !slices.ContainsFunc(e.Errors, func(s string) bool { return !strings.HasSuffix(s, " already set in map") })
}

// decodeYAML decodes the one document that s is. Keys that stand twice are an errTwice where strict is set.
func decodeYAML(ctx context.Context, s string, line int, strict bool) (v any, err error) {
	defer yamlerr.Guard(&err)
	dec := yaml.NewDecoder(&contextReader{ctx: ctx, r: strings.NewReader(s)})
	dec.SetStrict(strict)
	// The end at once is an empty document.
	if err := dec.Decode(&v); err != nil && !errors.Is(err, io.EOF) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e := explainSyntax(err, s, line)
		if strict && onlyDuplicates(err) {
			e.Err = errTwice
		}
		return nil, e
	}
	var rest any
	switch err := dec.Decode(&rest); {
	case err == nil:
		return nil, &Error{Msg: "a second document begins without a line of its own"}
	case !errors.Is(err, io.EOF):
		e := explainSyntax(err, s, line)
		e.Msg = "after the end of the document: " + e.Msg
		return nil, e
	}
	return v, nil
}

// explainSyntax puts an error that the library has with the document text into one line.
func explainSyntax(err error, text string, first int) *Error {
	return lineError(yamlerr.Explain(err, text, first))
}

// contextReader stops reading when its context ends.
type contextReader struct {
	ctx context.Context //nolint:containedctx // lives as long as one call
	r   io.Reader
}

// Read implements io.Reader.
func (r *contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// converter turns what the libraries give into what the API server reads back from storage, and bounds it. So YAML and JSON say the same.
type converter struct {
	// nodes counts the values; text is how many bytes of text may still come.
	nodes, text int
}

// convertValue converts a value in place where it can, and returns it. It fails for what JSON cannot say, such as
// NaN, and for what is nested too deep or expands to too much.
func (c *converter) convertValue(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, &Error{Msg: fmt.Sprintf("is nested deeper than %d levels", maxDepth)}
	}
	if c.nodes++; c.nodes > maxNodes {
		return nil, errExpands()
	}
	switch v := v.(type) {
	case nil, bool, int, int64:
	case uint64: // beyond int64
		return float64(v), nil
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, &Error{Msg: fmt.Sprintf("has the number %v, which JSON cannot say", v)}
		}
		return schema.AsStored(v), nil
	case string:
		return v, c.spendText(v)
	case []any:
		for i := range v {
			var err error
			if v[i], err = c.convertValue(v[i], depth+1); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k, x := range v {
			var err error
			if v[k], err = c.convertValue(x, depth+1); err != nil {
				return nil, err
			}
			if err := c.spendText(k); err != nil {
				return nil, err
			}
		}
	case map[any]any:
		return c.convertObject(v, depth)
	default:
		return nil, &Error{Msg: fmt.Sprintf("has a value of type %T, which JSON cannot say", v)}
	}
	return v, nil
}

// convertObject converts a mapping of YAML, whose keys may be of any type. Two keys that become the same string
// are an error: 1 and "1", for example.
func (c *converter) convertObject(v map[any]any, depth int) (any, error) {
	out := make(map[string]any, len(v))
	for k, x := range v {
		key, err := keyText(k)
		if err != nil {
			return nil, err
		}
		if _, ok := out[key]; ok {
			return nil, &Error{Msg: fmt.Sprintf("has the key %q twice in one object", key)}
		}
		if err := c.spendText(key); err != nil {
			return nil, err
		}
		if out[key], err = c.convertValue(x, depth+1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// spendText counts the bytes of a text.
func (c *converter) spendText(s string) error {
	if c.text -= len(s); c.text < 0 {
		return errExpands()
	}
	return nil
}

func errExpands() error { return &Error{Msg: "expands to too much through aliases"} }

// keyText turns a key into a string as sigs.k8s.io/yaml does.
func keyText(k any) (string, error) {
	switch k := k.(type) {
	case string:
		return k, nil
	case int:
		return strconv.Itoa(k), nil
	case int64:
		return strconv.FormatInt(k, 10), nil
	case float64:
		switch s := strconv.FormatFloat(k, 'g', -1, 32); s {
		case "+Inf":
			return ".inf", nil
		case "-Inf":
			return "-.inf", nil
		case "NaN":
			return ".nan", nil
		default:
			return s, nil
		}
	case bool:
		return strconv.FormatBool(k), nil
	case nil:
		return "", &Error{Msg: "has null as a key; keys must be strings"}
	}
	return "", &Error{Msg: fmt.Sprintf("has a key of type %T; keys must be strings", k)}
}
