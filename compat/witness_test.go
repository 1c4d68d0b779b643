package compat

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

func TestObjectYAML(t *testing.T) {
	for _, tt := range []struct{ name, json, want string }{
		{"empty", `{}`, "{}\n"},
		{
			"the order of keys",
			`{"zeta": 1, "status": {}, "alpha": [], "spec": {"b": 1, "a": 2}, "metadata": {"labels": {"x": "y"}, "namespace": "n", "name": "o"}, "kind": "K", "apiVersion": "g/v1"}`,
			"apiVersion: g/v1\nkind: K\nmetadata:\n  name: o\n  namespace: \"n\"\n  labels:\n    x: \"y\"\nspec:\n  a: 2\n  b: 1\nstatus: {}\nalpha: []\nzeta: 1\n",
		},
		{"lists in lists", `{"a": [[1, 2], [], [[3]]]}`, "a:\n- - 1\n  - 2\n- []\n- - - 3\n"},
		{"objects in lists", `{"a": [{"b": 1, "c": [{"d": null}]}, {}]}`, "a:\n- b: 1\n  c:\n  - d: null\n- {}\n"},
		{"numbers", `{"a": 1.0, "b": 1, "c": 0.5, "d": 1e300, "e": -9223372036854775808}`, "a: 1.0\nb: 1\nc: 0.5\nd: 1.0e+300\ne: -9223372036854775808\n"},
		{
			"strings that YAML reads as something else",
			`{"a": "true", "b": "No", "c": "1", "d": "", "e": "null", "f": "2024-01-01", "g": "a: b", "h": " a", "i": "a#b", "j": "1:30", "k": "~"}`,
			"a: \"true\"\nb: \"No\"\nc: \"1\"\nd: \"\"\ne: \"null\"\nf: \"2024-01-01\"\ng: \"a: b\"\nh: \" a\"\ni: \"a#b\"\nj: \"1:30\"\nk: \"~\"\n",
		},
		{"strings with line breaks and quotes", `{"a": "x\ny\t\"z\"\\"}`, "a: \"x\\ny\\t\\\"z\\\"\\\\\"\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var obj map[string]any
			if err := utiljson.Unmarshal([]byte(tt.json), &obj); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, objectYAML(obj)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// readBack is what kubectl makes of the YAML. It cannot tell 1.0 from 1.
func readBack(text string) (map[string]any, error) {
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, utiljson.Unmarshal(raw, &out)
}

func requireRoundTrip(t *testing.T, obj map[string]any) {
	t.Helper()
	text := objectYAML(obj)
	got, err := readBack(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	raw, err := json.Marshal(obj) // writes 1.0 as 1, too
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := utiljson.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("read back differently (-want +got):\n%s\n%s", diff, text)
	}
}

func TestObjectYAMLIsReadBackExactly(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	words := []string{
		"a", "true", "on", "0x1f", "1e3", ".5", "-", "- a", "a: b", "#", "a #b", "%", "@", "'", "\"", "\\", "{", "[", "|", ">", "&a", "*a", "!a", "?", "? a",
		"\u0000", "\u007f", "\u0085", "\u2028", "\ufeff", "é", "😀", "\ufffd", "\t", "\r\n", "  ", "=", "<<", "null", "Null", "012", "1_000", "1:2:3", "0b1", "0o7", ".inf", "NaN",
		strings.Repeat("k", 1100), "~", "---", "...", "y", "N", "a:", ":a", "a,b", "2001-12-14t21:59:43.10-05:00",
	}
	var value func(depth int) any
	value = func(depth int) any {
		n := r.IntN(9)
		if depth > 3 {
			n = r.IntN(6)
		}
		switch n {
		case 0:
			return nil
		case 1:
			return r.IntN(2) == 0
		case 2:
			return r.Int64() - 1<<62
		case 3:
			return r.NormFloat64() * 1e10
		case 4, 5:
			return words[r.IntN(len(words))]
		case 6:
			out := []any{}
			for range r.IntN(4) {
				out = append(out, value(depth+1))
			}
			return out
		}
		out := map[string]any{}
		for range r.IntN(4) {
			out[words[r.IntN(len(words))]] = value(depth + 1)
		}
		return out
	}
	for range 3000 {
		requireRoundTrip(t, map[string]any{"metadata": value(0), "spec": value(0), words[r.IntN(len(words))]: value(0)})
	}
}

func FuzzObjectYAML(f *testing.F) {
	for _, s := range []string{`{"a": "b"}`, `{"spec": {"x": [1.5, "y", null, {"no": "1"}]}}`, `{"\u0000": "\u2029"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var obj map[string]any
		if err := utiljson.Unmarshal([]byte(text), &obj); err != nil {
			return
		}
		requireRoundTrip(t, obj)
	})
}
