package celrule

import (
	"encoding/json"
	"regexp"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
)

// reChecker checks patterns with the regexp package, and no formats.
type reChecker struct{}

func (reChecker) MatchPattern(expr, s string) bool {
	re, ok := compiled.Load(expr)
	if !ok {
		c, err := regexp.Compile(expr)
		if err != nil {
			return false
		}
		re, _ = compiled.LoadOrStore(expr, c)
	}
	c, ok := re.(*regexp.Regexp)
	return ok && c.MatchString(s)
}

var compiled sync.Map

func (reChecker) MatchFormat(string, string) bool { return true }

func node(t testing.TB, text string) *schema.Node {
	t.Helper()
	var p apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	n, err := schema.New(&p)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func decode(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := utiljson.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func parse(t testing.TB, text string) *Rule {
	t.Helper()
	r, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

const pod = `{"type":"object","properties":{
	"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"string"},"d":{"type":"string","default":"x"},
	"n":{"type":"number"},"flag":{"type":"boolean"},
	"port":{"x-kubernetes-int-or-string":true},
	"l":{"type":"array","items":{"type":"string"}},
	"os":{"type":"array","items":{"type":"object","properties":{"k":{"type":"string"},"v":{"type":"integer"}}}},
	"m":{"type":"object","additionalProperties":{"type":"string"}}}}`

func TestTranslate(t *testing.T) {
	n := node(t, pod)
	tests := []struct {
		rule string
		yes  []string
		no   []string
	}{
		{`self.a <= 3`, []string{`{"a":3}`}, []string{`{"a":4}`, `{}`}},
		{`!has(self.a) || self.a > 3`, []string{`{}`, `{"a":4}`}, []string{`{"a":3}`}},
		{`has(self.a) == has(self.b)`, []string{`{}`, `{"a":1,"b":1}`}, []string{`{"a":1}`, `{"b":1}`}},
		{
			`(has(self.a) ? 1 : 0) + (has(self.b) ? 1 : 0) + (has(self.c) ? 1 : 0) == 1`,
			[]string{`{"a":1}`, `{"c":"x"}`},
			[]string{`{}`, `{"a":1,"b":1}`, `{"a":1,"b":1,"c":""}`},
		},
		{`[has(self.a), has(self.b)].exists_one(x, x)`, []string{`{"a":1}`}, []string{`{}`, `{"a":1,"b":1}`}},
		{`[has(self.a), has(self.b)].filter(x, x).size() == 1`, []string{`{"a":1}`}, []string{`{}`, `{"a":1,"b":1}`}},
		{`self.d == 'x'`, []string{`{}`, `{"d":"x"}`}, []string{`{"d":"y"}`}},
		{`has(self.d)`, []string{`{}`}, nil},
		{`self.n < 1`, []string{`{"n":0}`, `{"n":0.5}`}, []string{`{"n":1}`, `{"n":1.5}`}},
		{`self.a + 1 <= 5`, []string{`{"a":4}`}, []string{`{"a":5}`, `{"a":9223372036854775807}`}},
		{`10 - self.a > 3`, []string{`{"a":6}`}, []string{`{"a":7}`, `{"a":-9223372036854775807}`}},
		{`self.l.all(x, x.startsWith('a'))`, []string{`{"l":[]}`, `{"l":["ab"]}`}, []string{`{}`, `{"l":["ab","b"]}`}},
		{`self.m.all(k, k != 'x' && self.m[k] == 'y')`, []string{`{"m":{"a":"y"}}`}, []string{`{"m":{"x":"y"}}`, `{"m":{"a":"z"}}`}},
		{`size(self.l) == 2 && 'a' in self.l`, []string{`{"l":["a","b"]}`}, []string{`{"l":["b","b"]}`, `{"l":["a"]}`}},
		{`(has(self.c) ? self.c : "NONE") in ["NONE", "x"]`, []string{`{}`, `{"c":"x"}`}, []string{`{"c":"y"}`}},
		{`self.?c.orValue('z') == 'z'`, []string{`{}`, `{"c":"z"}`}, []string{`{"c":"y"}`}},
		{`self.port == 'x' || self.port == 80`, []string{`{"port":"x"}`, `{"port":80}`}, []string{`{"port":81}`, `{"port":"80"}`, `{}`}},
		{`type(self.port) == int ? self.port < 5 : self.port.matches('^a')`, []string{`{"port":4}`, `{"port":"ab"}`}, []string{`{"port":5}`, `{"port":"b"}`}},
		{`self.os.all(o, o.k == 'a' ? has(self.c) : true)`, []string{`{"os":[{"k":"a"}],"c":""}`, `{"os":[{"k":"b"}]}`, `{"os":[]}`}, []string{`{"os":[{"k":"a"}]}`}},
		{`self.os.filter(o, o.k == 'a').size() <= 1`, []string{`{"os":[]}`, `{"os":[{"k":"a"}]}`, `{"os":[{"k":"b"},{"k":"b"}]}`}, []string{`{"os":[{"k":"a"},{"k":"a"}]}`, `{"os":[{}]}`}},
		{`[self.c, self.d] in [['a', 'x'], ['b', 'y']]`, []string{`{"c":"a"}`, `{"c":"b","d":"y"}`}, []string{`{"c":"b"}`, `{}`}},
	}
	for _, tt := range tests {
		f := Translate(parse(t, tt.rule), Scope{Spine: n, Checker: reChecker{}})
		for _, v := range tt.yes {
			if got := logic.Eval(f, decode(t, v), reChecker{}); got != logic.Yes {
				t.Errorf("%s on %s: %v, want yes\n%#v", tt.rule, v, got, f)
			}
		}
		for _, v := range tt.no {
			if got := logic.Eval(f, decode(t, v), reChecker{}); got != logic.No {
				t.Errorf("%s on %s: %v, want no\n%#v", tt.rule, v, got, f)
			}
		}
	}
}
