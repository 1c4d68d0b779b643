package input

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
)

// TestLiteralsMeanTheSameInEveryNotation writes one definition in JSON, in YAML, and in mixtures. All say the same, and what the API
// server stores.
func TestLiteralsMeanTheSameInEveryNotation(t *testing.T) {
	r, changed := rand.New(rand.NewPCG(5, 6)), 0
	for range 400 {
		var literals []string
		for range 4 {
			literals = append(literals, literal(r, 2))
		}
		bound := []string{"3", "3.0", "1e2", "30e-1", "-0.0", "9007199254740993", "0.10"}[r.IntN(7)]
		length := []string{"5", "5.0", "5e0", "0.5e1"}[r.IntN(4)]
		node := fmt.Sprintf(`{"type": "array", "enum": [%s, %s], "default": %s, "example": %s, "minimum": %s, "maxItems": %s}`,
			literals[0], literals[1], literals[2], literals[3], bound, length)
		// JSON of one line is YAML, too.
		compact := `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "as.x.io"}, ` +
			`"spec": {"group": "x.io", "names": {"plural": "as"}, "versions": [{"name": "v1", "schema": {"openAPIV3Schema": ` + node + `}}]}}`
		block := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.x.io}\n" +
			"spec:\n  group: x.io\n  names: {plural: as}\n  versions:\n  - name: v1\n    schema:\n      openAPIV3Schema: " + node + "\n"
		other := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"
		notations := map[string]string{
			"JSON":                    compact,
			"JSON after JSON":         `{"kind": "ConfigMap"}` + "\n" + compact,
			"JSON in a stream":        other + "---\n" + compact + "\n---\n" + other,
			"JSON behind a marker":    "--- " + compact,
			"a list in JSON":          `{"apiVersion": "v1", "kind": "List", "items": [` + compact + `]}`,
			"YAML":                    block,
			"YAML in a stream":        other + "---\n" + block,
			"a list in YAML":          "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(block, "\n", "\n  "),
			"JSON that is read twice": strings.Replace(compact, `"group": "x.io"`, `"group": "y.io", "group": "x.io"`, 1),
		}
		want := readCRD(t, compact)
		for name, text := range notations {
			if diff := cmp.Diff(want, readCRD(t, text)); diff != "" {
				t.Fatalf("%s of %s (-JSON +it):\n%s", name, node, diff)
			}
		}
		var sent apiextensionsv1.CustomResourceDefinition
		if err := json.Unmarshal([]byte(strings.Replace(compact, `"maxItems": `+length, `"maxItems": 5`, 1)), &sent); err != nil {
			t.Fatal(err)
		}
		stored := schema.WithStoredLiterals(&sent)
		if diff := cmp.Diff(stored.Spec.Versions[0].Schema, want.Spec.Versions[0].Schema); diff != "" {
			t.Fatalf("%s (-stored +read):\n%s", node, diff)
		}
		if stored != &sent {
			changed++
		}
	}
	if changed < 100 {
		t.Errorf("only %d definitions have a literal that is stored in another form", changed)
	}
}

// literal is a random JSON value in one line, without what JSON and YAML read in different ways.
func literal(r *rand.Rand, depth int) string {
	switch n := r.IntN(6); {
	case n == 0 && depth > 0:
		return "[" + literal(r, depth-1) + ", " + literal(r, depth-1) + "]"
	case n == 1 && depth > 0:
		return `{"b": ` + literal(r, depth-1) + `, "a": ` + literal(r, depth-1) + "}"
	case n == 2:
		return []string{`"a<b"`, `"\u00e9"`, `"1.0"`, "true", `""`}[r.IntN(5)]
	case n == 3:
		return strconv.FormatInt(int64(r.Uint64()>>r.IntN(64)), 10) + ".0"
	}
	return []string{
		"0", "-0", "-0.0", "1.0", "1.10", "1e2", "1E+2", "12e-1", "1e20", "1e21", "123456789012345678901234567890", "9223372036854775807", "9223372036854775808",
		"-9223372036854775809", "9007199254740993", "9007199254740993.0", "1152921504606846976.0", "18446744073709551615", "5e-324",
	}[r.IntN(19)]
}

func readCRD(t *testing.T, text string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	set, err := Decode(t.Context(), "f", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(set.Documents) != 1 {
		t.Fatalf("%d definitions in\n%s", len(set.Documents), text)
	}
	return set.Documents[0].CRD
}
