package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v2"

	"sluice.dev/internal/yamlerr"
)

// parseLibrary reads the YAML document s with the library that kubectl uses, and gives the result of
// sigs.k8s.io/yaml's YAMLToJSONStrict as a tree, without places. Unlike that function it bounds what aliases expand to,
// and two keys that become the same string are an error. A key that stands twice in an object is none, as kubectl sees it:
// the last one counts, and the tree has a remark. Lines in its errors count from line.
func parseLibrary(ctx context.Context, s string, line int) (*tree, error) {
	if n := strings.Count(s, "\n"); n < len(s) {
		// The library needs some 200 bytes for each value. Values are begun by one of these.
		for _, c := range []string{",", "[", "{", ":", "- ", "? "} {
			n += strings.Count(s, c)
		}
		if n > maxNodes {
			return nil, &syntaxError{msg: fmt.Sprintf("has more than %d values in one document", maxNodes)}
		}
	}
	v, err := decodeYAML(ctx, s, line, true)
	var remark *syntaxError
	if twice, ok := errors.AsType[*duplicateError](err); ok {
		remark = twice.syntaxError
		v, err = decodeYAML(ctx, s, line, false)
	}
	if err != nil {
		return nil, err
	}
	c := converter{t: &tree{remark: remark}, text: 4*len(s) + 1<<20}
	if err := c.add(none, none, "", v, 0); err != nil {
		return nil, err
	}
	return c.t, nil
}

// duplicateError says that nothing is wrong but keys that stand twice.
type duplicateError struct{ *syntaxError }

// onlyDuplicates tells whether the library has met nothing but keys that stand twice.
func onlyDuplicates(err error) bool {
	e, ok := errors.AsType[*yaml.TypeError](err)
	return ok && !slices.ContainsFunc(e.Errors, func(s string) bool { return !strings.HasSuffix(s, " already set in map") })
}

// decodeYAML decodes the one document that s is. Keys that stand twice are a duplicateError where strict is set.
func decodeYAML(ctx context.Context, s string, line int, strict bool) (v any, err error) {
	defer yamlerr.Guard(&err)
	dec := yaml.NewDecoder(&contextReader{ctx: ctx, r: strings.NewReader(s)})
	dec.SetStrict(strict)
	// The end at once is an empty document.
	if err := dec.Decode(&v); err != nil && !errors.Is(err, io.EOF) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e := explain(err, s, line)
		if strict && onlyDuplicates(err) {
			return nil, &duplicateError{e}
		}
		return nil, e
	}
	var rest any
	switch err := dec.Decode(&rest); {
	case err == nil:
		return nil, &syntaxError{msg: "a second document begins without a line of its own"}
	case !errors.Is(err, io.EOF):
		e := explain(err, s, line)
		e.msg = "after the end of the document: " + e.msg
		return nil, e
	}
	return v, nil
}

// explain puts an error that the library has with the document text into one line.
func explain(err error, text string, first int) *syntaxError {
	line, msg := yamlerr.Explain(err, text, first)
	return &syntaxError{line, msg}
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

// syntaxError says what is wrong with a document; line is 0 where it is not known.
type syntaxError struct {
	line int
	msg  string
}

// Error implements error.
func (e *syntaxError) Error() string { return e.msg }

// converter turns what the library gives into a tree.
type converter struct {
	t *tree
	// text is how many bytes of text may still be added.
	text int
}

func (c *converter) add(parent, last int32, key string, v any, depth int) error {
	if depth > maxDepth {
		return &syntaxError{msg: fmt.Sprintf("is nested deeper than %d levels", maxDepth)}
	}
	nd := node{key: key}
	switch v := v.(type) {
	case nil:
		nd.kind = kindNull
	case bool:
		nd.kind = kindFalse
		if v {
			nd.kind = kindTrue
		}
	case int:
		nd.kind, nd.str = kindNumber, strconv.Itoa(v)
	case int64:
		nd.kind, nd.str = kindNumber, strconv.FormatInt(v, 10)
	case uint64:
		nd.kind, nd.str = kindNumber, strconv.FormatUint(v, 10)
	case float64:
		var ok bool
		if nd.kind, nd.str, ok = floatLiteral(v); !ok {
			return &syntaxError{msg: fmt.Sprintf("has the number %v, which JSON cannot say", v)}
		}
	case string:
		nd.kind, nd.str = kindString, v
	case []any:
		return c.list(parent, last, key, v, depth)
	case map[any]any:
		return c.object(parent, last, key, v, depth)
	default:
		return &syntaxError{msg: fmt.Sprintf("has a value of type %T, which JSON cannot say", v)}
	}
	c.text -= len(key) + len(nd.str)
	if c.text < 0 || len(c.t.nodes) >= maxNodes {
		return &syntaxError{msg: "expands to too much through aliases"}
	}
	c.t.add(parent, last, nd)
	return nil
}

func (c *converter) list(parent, last int32, key string, v []any, depth int) error {
	c.text -= len(key)
	n := c.t.add(parent, last, node{key: key, kind: kindList})
	prev := none
	for _, x := range v {
		child := int32(len(c.t.nodes)) //nolint:gosec // bounded by maxNodes
		if err := c.add(n, prev, "", x, depth+1); err != nil {
			return err
		}
		prev = child
	}
	return nil
}

func (c *converter) object(parent, last int32, key string, v map[any]any, depth int) error {
	c.text -= len(key)
	n := c.t.add(parent, last, node{key: key, kind: kindMap})
	type entry struct {
		key   string
		value any
	}
	entries := make([]entry, 0, len(v))
	for k, x := range v {
		s, err := keyText(k)
		if err != nil {
			return err
		}
		entries = append(entries, entry{s, x})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	prev := none
	for i, e := range entries {
		if i > 0 && e.key == entries[i-1].key {
			return &syntaxError{msg: fmt.Sprintf("has the key %q twice in one object", e.key)}
		}
		child := int32(len(c.t.nodes)) //nolint:gosec // bounded by maxNodes
		if err := c.add(n, prev, e.key, e.value, depth+1); err != nil {
			return err
		}
		prev = child
	}
	return nil
}

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
		return "", &syntaxError{msg: "has null as a key; keys must be strings"}
	}
	return "", &syntaxError{msg: fmt.Sprintf("has a key of type %T; keys must be strings", k)}
}
