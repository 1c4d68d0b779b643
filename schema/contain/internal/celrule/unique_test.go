package celrule

import (
	"encoding/json"
	"testing"

	"sluice.dev/schema/contain/internal/logic"
)

// Items that are compared with the others of their list: defaults make them equal, and a key that one lacks is an error.
func TestComparisonsOfItemsAgreeWithUpstream(t *testing.T) {
	const schema = `{"type":"object","properties":{
		"plain":{"type":"array","maxItems":5,"items":{"type":"object","properties":{"k":{"type":"string"},"v":{"type":"string"}}}},
		"filled":{"type":"array","maxItems":5,"items":{"type":"object","properties":{"k":{"type":"string","default":"x"},"v":{"type":"string","default":"y"}}}},
		"keyed":{"type":"array","maxItems":5,"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"v":{"type":"string"}}}},
		"inner":{"type":"array","maxItems":5,"items":{"type":"object","properties":{"o":{"type":"object","properties":{"k":{"type":"string","default":"x"}}}}}},
		"words":{"type":"array","maxItems":5,"items":{"type":"string"}}}}`
	const items = `[{}], [{"k":"x"}], [{"v":"y"}], [{"k":"x","v":"y"}], [{"k":"a"}], [{"k":"a"},{"k":"a"}], [{"k":"a"},{"k":"b"}],
		[{"k":"x"},{}], [{},{}], [{},{"v":"y"}], [{"k":"a","v":"b"},{"k":"a","v":"c"}], [{"k":"a","v":"b"},{"k":"a","v":"b"}],
		[{"k":"a","v":"b"},{"k":"c","v":"b"},{"k":"a","v":"b"}], [{"k":"a"},{"v":"b"}], []`
	lists := map[string]string{
		"plain": items, "filled": items, "keyed": items,
		"inner": `[{}], [{"o":{}},{"o":{"k":"x"}}], [{"o":{}},{"o":{"k":"y"}}], [{"o":{}},{"o":{}}], [{"o":{}},{}], []`,
		"words": `["a"], ["a","a"], ["a","b"], ["a","b","a"], ["",""], []`,
	}
	n := node(t, schema)
	var p props
	if err := json.Unmarshal([]byte(schema), &p); err != nil {
		t.Fatal(err)
	}
	for name, text := range lists {
		l := "self." + name
		keys := []string{"k", "v"}
		rules := []string{
			l + ".all(x, " + l + ".exists_one(y, x == y))", l + ".all(x, " + l + ".filter(y, x == y).size() == 1)",
			l + ".exists(x, " + l + ".filter(y, y == x).size() > 1)",
		}
		switch name {
		case "words":
			keys = nil
		case "inner":
			keys = []string{"o"}
		}
		for _, k := range keys {
			rules = append(rules, l+".all(x, "+l+".exists_one(y, x."+k+" == y."+k+"))", l+".all(x, "+l+".filter(y, x."+k+" == y."+k+").size() <= 1)",
				l+".all(x, "+l+".filter(y, x."+k+" != y."+k+").size() == 0)", "!"+l+".exists(x, "+l+".filter(y, x."+k+" == y."+k+").size() >= 2)")
		}
		if len(keys) == 2 {
			rules = append(rules, l+".all(x, "+l+".exists_one(y, x.k == y.k && x.v == y.v))")
		}
		var values []any
		items, ok := decode(t, "["+text+"]").([]any)
		if !ok {
			t.Fatalf("%s is no list of values", text)
		}
		for _, v := range items {
			values = append(values, map[string]any{name: v})
		}
		for _, rule := range rules {
			j := newJudge(t, p, rule, false)
			if j == nil {
				t.Errorf("%s: upstream does not compile it", rule)
				continue
			}
			f := Translate(parse(t, rule), Scope{Spine: n, Checker: reChecker{}})
			for _, v := range values {
				if !j.valid(v) {
					continue
				}
				why := j.refuses(v)
				if got := logic.Eval(f, v, reChecker{}); got != logic.Unsure && (got == logic.Yes) != (why == "") {
					t.Errorf("%s on %v: the formula says %v, upstream %q", rule, v, got, why)
				}
			}
		}
	}
}
