package yamlerr

import (
	"strings"
	"testing"
)

func TestFirst(t *testing.T) {
	for _, tt := range []struct {
		text string
		line int
		says string
	}{
		{"a: b\n---\nc: d\n", 0, ""},
		{"", 0, ""},
		{"a: b\nc: d: e\nf: g\n", 2, "colon"},
		{"a: b\nc:\n  - d\n - e\nf: g\n", 4, "indentation"},
		{"a: b\nc\nd: e\n", 2, "without a colon"},
		{"x: 1\nkey without colon\n\n\ny: 2\n", 2, "without a colon"},
		{"a: b\n\tc: d\n", 2, "tab"},
		{"a: b\nc: 'd\ne: f\n", 2, "quote"},
		{"a: b\n  c: d\n", 2, "colon"},
		{"a:\n    b: c\n  d: e\n", 3, "indentation"},
		{"a: b\nc: @d\n", 2, "quoted"},
		{"a: b\nc: *d\n", 2, "anchor 'd'"},
		{"x: 1\na: b\na: c\n", 3, `"a", which stands at line 2`},
		{"x: 1\na:\n  b: 1\na:\n  c: 1\n", 4, `"a", which stands at line 2`},
		{"x: 1\ny:\n  a: b\n  a: c\n", 4, `"a", which stands at line 3`},
		{"x: 1\ny: \"\\q\"\n", 2, "escape"},
		{"a: b\n- c\n", 2, "indentation"},
		{"- a\nb: c\n", 2, "indentation"},
		{"a: |\n  b\n c\nd: e", 3, "indentation"},
		{"}", 1, "value is expected"},
		{"x:\n  y:\n    z: 1\n   w: 1\n", 4, "indentation"},
		{"a: b\n---\na: b\n c: d\n", 4, "colon"},
		{"{\"a\": 1,\n \"b\": 2", 2, "not closed"},
		{"a: \x01\n", 0, "control character"},
	} {
		line, msg := First(tt.text)
		if line != tt.line || !strings.Contains(msg, tt.says) || (msg == "") != (tt.says == "") || strings.Contains(msg, "\n") {
			t.Errorf("%q: got line %d, %q; want line %d, %q", tt.text, line, msg, tt.line, tt.says)
		}
	}
}

func TestGuardTurnsPanicsIntoErrors(t *testing.T) {
	err := func() (err error) {
		defer Guard(&err)
		panic("broken")
	}()
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("got %v", err)
	}
}
