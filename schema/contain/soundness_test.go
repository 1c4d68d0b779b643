package contain

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"sluice.dev/schema/contain/internal/logic"
	"sluice.dev/tools/draws"
)

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
	for i, f := range frames {
		if !draws.Takes(i) {
			continue
		}
		for _, s := range nasty {
			p := parseSchema(t, fmt.Sprintf(f.schema, s))
			verdicts := verdictsOf(t, p, f.object)
			opts := &Options{Namespaced: true}
			formula := newTranslator(opts).acceptedAt(place{node: side(t, p).Node, pos: atRoot})
			for i, x := range values {
				obj := resource(t, fmt.Sprintf(f.object, x))
				if got := logic.Eval(formula, obj, opts.solverStrings()); got != logic.Unsure && (got == logic.Yes) != verdicts[i] {
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
				if tried++; !draws.Takes(tried) {
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

// contained reports whether Decide would call the pair contained, without looking for a witness where it would not.
func contained(old, new Side) bool {
	opts := Options{Namespaced: true}
	if old.Node.Hash() == new.Node.Hash() {
		return true
	}
	c := newComparison(old, new, &opts)
	for i := range c.suspects {
		p := &pending{suspect: &c.suspects[i]}
		if p.gap.Harm != Redefaulted && c.solvePending(context.Background(), p) {
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
