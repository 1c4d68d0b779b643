package celrule

import (
	"testing"

	"sluice.dev/schema/contain/internal/logic"
)

// TestRulesOfRealTypes has rules in the style of APIs in use. The formula decides each of the values given. For two of the rules, about the first
// item and about one default at most, it leaves longer lists unsure.
func TestRulesOfRealTypes(t *testing.T) {
	const (
		text   = `{"type":"string"}`
		texts  = `{"type":"object","additionalProperties":{"type":"string"}}`
		member = `{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"kind":{"type":"string"},"default":{"type":"boolean"},"weight":{"type":"number"}}}`
	)
	for name, tt := range map[string]struct {
		schema, rule string
		yes, no      []string
	}{
		"the domain of a label": {
			texts, `self.all(k, k in ['node.example.com/zone'] || !k.find('^([^/]+)').endsWith('example.com'))`,
			[]string{`{}`, `{"a":"b"}`, `{"node.example.com/zone":"b"}`, `{"a/example.com":"b"}`},
			[]string{`{"example.com/x":""}`, `{"a.example.com/zone":""}`},
		},
		"the family of an alias":  {text, `self.find('^[^@]+') in ['one', 'two']`, []string{`"one@latest"`, `"two"`}, []string{`"three@latest"`, `""`}},
		"parts of a route target": {text, `self.split(':').size() == 2`, []string{`"1:2"`, `":"`}, []string{`"1"`, `"1:2:3"`}},
		"the number before a colon": {
			text, `int(self.split(':')[0]) >= 1 && int(self.split(':')[0]) <= 4294967295`,
			[]string{`"1:x"`, `"4294967295"`},
			[]string{`"0:1"`, `"4294967296:1"`, `":1"`, `"x"`},
		},
		"a number in a string": {text, `int(self) > 0`, []string{`"1"`, `"+12"`}, []string{`"0"`, `"-1"`, `"one"`}},
		"a name": {
			text, `!format.dns1123Subdomain().validate(self).hasValue()`, []string{`"a.b"`}, []string{`"A"`, `""`},
		},
		"an address of version 4": {text, `isIP(self) && ip(self).family() == 4`, []string{`"10.0.0.1"`}, []string{`"::1"`, `"x"`}},
		"at least a millisecond":  {text, `duration(self) >= duration('1ms')`, []string{`"1s"`, `"2m"`}, []string{`"1us"`, `"x"`, `"-1s"`}},
		"a kind in any case": {
			member, `!has(self.kind) || self.kind.lowerAscii() == 'issuer'`,
			[]string{`{"name":"a"}`, `{"name":"a","kind":"Issuer"}`},
			[]string{`{"name":"a","kind":"other"}`},
		},
		"a text in PEM":              {text, `string(self).startsWith('-----BEGIN')`, []string{`"-----BEGIN X"`}, []string{`"x"`}},
		"keys and values":            {texts, `self.all(k, v, k.size() <= 2 && v.size() <= 1)`, []string{`{"ab":"c"}`}, []string{`{"abc":""}`, `{"a":"bc"}`}},
		"one value of a map":         {texts, `'x' in self && self['x'] == 'y'`, []string{`{"x":"y"}`}, []string{`{}`, `{"x":"z"}`}},
		"an optional value of a map": {texts, `self[?'x'].orValue('y') == 'y'`, []string{`{}`, `{"x":"y"}`}, []string{`{"x":"z"}`}},
		"an optional field":          {member, `self.?kind.orValue('x') == 'x'`, []string{`{"name":"a"}`}, []string{`{"name":"a","kind":"b"}`}},
		"one default at most": {
			`{"type":"array","items":` + member + `}`, `self.filter(x, has(x.default) && x.default).size() <= 1`,
			[]string{`[]`, `[{"name":"a","default":true}]`, `[{"name":"a"},{"name":"b","default":false}]`},
			[]string{`[{"name":"a","default":true},{"name":"b","default":true}]`},
		},
		"the first item": {
			`{"type":"array","items":` + member + `}`, `self.size() == 0 || self[0].name == 'main'`,
			[]string{`[]`, `[{"name":"main"}]`},
			[]string{`[{"name":"a"}]`},
		},
		"a share": {
			member, `!has(self.weight) || self.weight >= 0.0 && double(self.weight) <= 1.0`,
			[]string{`{"name":"a","weight":0}`, `{"name":"a","weight":0.5}`},
			[]string{`{"name":"a","weight":-1}`, `{"name":"a","weight":1.5}`},
		},
		"a number or a percentage": {
			`{"x-kubernetes-int-or-string":true}`, `type(self) == int ? self >= 1 : self.matches('^[0-9]{1,2}%$')`,
			[]string{`1`, `"50%"`},
			[]string{`0`, `"x"`},
		},
		"a field of a default": {
			`{"type":"object","properties":{"p":{"type":"object","default":{"port":80,"ratio":0.5,"tags":{"a":"b"},"hosts":["x"]},"properties":{` +
				`"port":{"type":"integer"},"ratio":{"type":"number"},"tags":` + texts + `,"hosts":{"type":"array","items":{"type":"string"}}}}}}`,
			`self.p.port < 1024 && (!has(self.p.ratio) || self.p.ratio < 1.0) && (!has(self.p.tags) || 'a' in self.p.tags) && (!has(self.p.hosts) || self.p.hosts.size() < 2 && 'x' in self.p.hosts)`,
			[]string{`{}`, `{"p":{"port":1}}`},
			[]string{`{"p":{"port":2000}}`, `{"p":{"port":1,"ratio":2}}`, `{"p":{"port":1,"tags":{}}}`, `{"p":{"port":1,"hosts":["y"]}}`},
		},
		"a field that may be null": {
			`{"type":"object","properties":{"x":{"type":"object","nullable":true,"properties":{"y":{"type":"integer"}}}}}`,
			`!has(self.x) || has(self.x.y)`,
			[]string{`{}`, `{"x":null}`, `{"x":{"y":1}}`},
			[]string{`{"x":{}}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := Scope{Spine: node(t, tt.schema), Checker: reChecker{}}
			r := parse(t, tt.rule)
			f := Translate(r, s)
			for want, values := range map[logic.Truth][]string{logic.Yes: tt.yes, logic.No: tt.no} {
				for _, v := range values {
					if got := logic.Eval(f, decode(t, v), reChecker{}); got != want {
						t.Errorf("%s: %v, want %v\n%#v", v, got, want, f)
					}
				}
			}
		})
	}
}
