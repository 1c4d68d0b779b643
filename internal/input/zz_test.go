package input

import (
"testing"
yamlv3 "go.yaml.in/yaml/v3"
)

func TestZZ(t *testing.T) {
	for _, c := range []struct {
		text string
		line int
	}{
		{"a: b\nc: d: e\nf: g\n", 2},
		{"a: b\nc:\n  - d\n - e\nf: g\n", 4},
		{"a: b\nc\nd: e\n", 2},
		{"a: b\n\tc: d\n", 2},
		{"a: b\nc: 'd\ne: f\n", 2},
		{"a: b\nc: [d\ne: f\n", 2},
		{"a: b\nc: {d: e\nf: g\nh: i\n", 2},
		{"a: b\n  c: d\n", 2},
		{"a:\n    b: c\n  d: e\n", 3},
		{"a: b\nc: @d\n", 2},
		{"a: b\nc: *d\n", 2},
		{"a: b\nc: %d\n", 2},
		{"x: 1\na: b\na: c\n", 3},
		{"x: 1\ny:\n  a: b\n  a: c\n", 4},
		{"x: 1\ny: \"\\q\"\n", 2},
		{"x: 1\ny: \"abc\n", 2},
		{"a: b\n- c\n", 2},
		{"- a\nb: c\n", 2},
		{"a:\n  - b\n  c: d\n", 3},
		{"x: 1\nkey without colon\ny: 2\n", 2},
		{"x: 1\nkey without colon\n", 2},
		{"a: |\n  b\n c\nd: e", 3},
		{"}", 1},
		{"a: b\n}\n", 2},
		{"x: 1\ny: !<foo\n", 2},
		{"x: 1\ny: z\n\n\n  q: 1\n", 5},
		{"x:\n  y:\n    z: 1\n   w: 1\n", 4},
	} {
		var nn yamlv3.Node
		t.Log("      v3 ", c.line, yamlv3.Unmarshal([]byte(c.text), &nn))
		_, err := parseLibrary(t.Context(), c.text, 1)
		if err == nil {
			t.Logf("OK?? %q", c.text)
			continue
		}
		s := err.(*syntaxError)
		m := ""
		if s.line != c.line {
			m = "WRONG"
		}
		t.Logf("%-5s want %d got %d %s   %q", m, c.line, s.line, s.msg, c.text)
	}
}
