package upstream_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiserver/pkg/cel/environment"

	"sluice.dev/schema/upstream"
)

// stringCalls has a rule with each function of the API server's CEL libraries that takes a string.
var stringCalls = map[string]string{
	"bool": "bool(self.s)", "bytes": "bytes(self.s).size() > 0", "charAt": "self.s.charAt(1) == 'a'", "cidr": "cidr(self.s).prefixLength() > 0",
	"contains": "self.s.contains(self.t)", "containsCIDR": "cidr('10.0.0.0/8').containsCIDR(self.s)", "containsIP": "cidr('10.0.0.0/8').containsIP(self.s)",
	"double": "double(self.s) > 0.0", "duration": "duration(self.s) > duration('1s')", "endsWith": "self.s.endsWith(self.t)", "find": "self.s.find(self.t) == 'a'",
	"findAll": "self.s.findAll(self.t).size() > 0", "format": "self.s.format([self.x, self.t]) == 'a'", "format.named": "format.named(self.s).hasValue()",
	"indexOf": "self.s.indexOf(self.t) > 0", "int": "int(self.s) > 0", "ip": "ip(self.s).isLoopback()", "ip.isCanonical": "ip.isCanonical(self.s)", "isCIDR": "isCIDR(self.s)",
	"isIP": "isIP(self.s)", "isQuantity": "isQuantity(self.s)", "isSemver": "isSemver(self.s)", "isSorted": "self.l.isSorted()", "isURL": "isURL(self.s)",
	"join": "self.l.join(self.t) == 'a'", "lastIndexOf": "self.s.lastIndexOf(self.t) > 0", "lowerAscii": "self.s.lowerAscii() == 'a'", "matches": "self.s.matches(self.t)",
	"max": "self.l.max() == 'a'", "min": "self.l.min() == 'a'", "quantity": "quantity(self.s).isLessThan(quantity('1'))", "replace": "self.s.replace('a', self.t) == 'a'",
	"semver": "semver(self.s).isLessThan(semver('1.0.0'))", "size": "self.s.size() > 0", "sort": "self.l.sort() == ['a']", "split": "self.s.split(self.t).size() > 0",
	"startsWith": "self.s.startsWith(self.t)", "string": "string(self.s) == 'a'", "strings.quote": "strings.quote(self.s) == 'a'", "substring": "self.s.substring(1) == 'a'",
	"timestamp": "timestamp(self.s) > timestamp('2020-01-01T00:00:00Z')", "trim": "self.s.trim() == 'a'", "uint": "uint(self.s) > 0u", "upperAscii": "self.s.upperAscii() == 'a'",
	"url": "url(self.s).getHost() == 'a'", "validate": "format.dns1123Label().validate(self.s).hasValue()",
	"getFullYear": "timestamp('2020-01-01T00:00:00Z').getFullYear(self.s) > 0",
}

// ofTimeZone matches the functions that read a time in a time zone, such as getFullYear.
var ofTimeZone = regexp.MustCompile(`^get(Date|DayOf|FullYear|Hours|Milliseconds|Minutes|Month|Seconds)`)

// dearSchema is the schema of a Widget with the rule.
func dearSchema(t testing.TB, rule string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	return schemaOf(t, "type: object\nproperties:\n  s: {type: string}\n  t: {type: string}\n  x: {type: number}\n  l: {type: array, items: {type: string}}\n"+
		fmt.Sprintf("x-kubernetes-validations: [{rule: %q}]", rule))
}

func dearWidget(t testing.TB, s, other string) map[string]any {
	t.Helper()
	w := widget(t, "{x: 1.5}")
	spec, _ := w["spec"].(map[string]any)
	spec["s"], spec["t"], spec["l"] = s, other, []any{s, other, s}
	return w
}

// TestEveryCallOnAStringEnds gives each function that takes a string what is dear for one of them. Where nothing bounds such a call, this
// test does not end.
func TestEveryCallOnAStringEnds(t *testing.T) {
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv()
	for name, f := range env.Functions() {
		if ofTimeZone.MatchString(name) && name != "getFullYear" || strings.ContainsAny(name, "_@") {
			continue
		}
		for _, o := range f.OverloadDecls() {
			if args := fmt.Sprint(o.ArgTypes()); strings.Contains(args, "string") && !strings.Contains(args, "kubernetes.authorization.") && stringCalls[name] == "" {
				t.Errorf("%s takes a string and has no rule: %s", name, args)
			}
		}
	}
	const n = 60_000
	long := strings.Repeat("a", n)
	values := [][2]string{
		{"1e999999999", "1e-999999999"},
		{"1e-999999999", "E999999999"},
		{strings.Repeat("9", n), "9"},
		{"0." + strings.Repeat("9", n), ""},
		{"%.999999999f", "%.999999999e"},
		{long, long[:n/2] + "b"},
		{long, "b" + long[:n/2]},
		{long, "(a?){1000}b"},
		{long, long},
		{"a", strings.Repeat("(a?b?c?)", n/8)},
		{long, ""},
	}
	for name, rule := range stringCalls {
		v := newValidator(t, dearSchema(t, rule), widgets)
		for _, value := range values {
			w := dearWidget(t, value[0], value[1])
			for what, judge := range map[string]func() error{
				"create": func() error {
					r, err := v.Create(t.Context(), w)
					if strings.Contains(fmt.Sprint(errorTexts(r)), "compile error") {
						t.Errorf("%s: %v", name, errorTexts(r))
					}
					return err
				},
				"exact":  func() error { _, err := v.Exact().Create(t.Context(), w); return err },
				"stored": func() error { _, err := v.Judge(t.Context(), w); return err },
			} {
				if err := judge(); err != nil && !errors.Is(err, upstream.ErrTooDear) {
					t.Errorf("%s, %s: %v", name, what, err)
				}
			}
		}
	}
}

// TestDearCallsAreNotMade has for each dear function a value that is just too large, and one that is not. A call on the former would end,
// too.
func TestDearCallsAreNotMade(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	for _, c := range []struct {
		rule           string
		s, t           string
		fewer          string // s for which it is not dear
		says           string
		others, failed bool
	}{
		{rule: "isQuantity(self.s)", s: "1e10001", fewer: "1e10000", says: "isQuantity()"},
		{rule: "isQuantity(self.s)", s: "1E-10001", fewer: "1E-10000", says: "isQuantity()"},
		{rule: "isQuantity(self.s)", s: strings.Repeat("9", 10_001), fewer: strings.Repeat("9", 10_000), says: "isQuantity()"},
		{rule: "quantity(self.s).isGreaterThan(quantity('0'))", s: "1e10001", fewer: "1e1", says: "quantity()"},
		{rule: "quantity('1e' + self.s).isGreaterThan(quantity('0'))", s: "10001", fewer: "1", says: "quantity()"},
		{rule: "self.l.exists(x, isQuantity(x))", s: "1e10001", t: "x", fewer: "1e1", says: "isQuantity()"},
		{rule: "self.s.indexOf(self.t) == -1", s: a(14_000), t: a(9000) + "b", fewer: a(8000), says: "indexOf()"},
		{rule: "self.s.lastIndexOf(self.t) == -1", s: a(14_000), t: "b" + a(9000), fewer: a(8000), says: "lastIndexOf()"},
		{rule: "self.s.replace('a', self.t).size() > 0", s: a(5000), t: a(5000), fewer: a(10), says: "replace()"},
		{rule: "self.s.replace('', self.t).size() > 0", s: a(5000), t: a(5000), fewer: a(10), says: "replace()"},
		{rule: "self.s.split('').join(self.t).size() > 0", s: a(5000), t: a(5000), fewer: a(10), says: "join()"},
		{rule: "self.s.matches(self.t) || true", s: "a", t: "a", fewer: "b"},
		{rule: "!self.s.matches(self.t)", s: a(40_000), t: "(b?){800}b", fewer: a(10), says: "matches()"},
		{rule: "self.s.matches(self.t)", s: "", t: strings.Repeat("(a?b?c?)", 4000), fewer: "a", says: "matches()", others: true},
		{rule: "!self.s.matches('(b?){800}b')", s: a(40_000), fewer: a(10), says: "matches()"},
		{rule: "!matches(self.s, '(b?){800}b')", s: a(40_000), fewer: a(10), says: "matches()"},
		{rule: "self.s.find('(b?){800}b') == ''", s: a(40_000), fewer: a(10), says: "find()"},
		{rule: "self.s.findAll('(b?){800}b').size() == 0", s: a(40_000), fewer: a(10), says: "findAll()"},
		{rule: "self.s.findAll(self.t, 2).size() == 0", s: a(40_000), t: "(b?){800}b", fewer: a(10), says: "findAll()"},
		{rule: "quantity(self.s).isLessThan(quantity('1e10001'))", s: "1", fewer: "1", says: "quantity()", others: true},
		{rule: "self.s != 'x' || isQuantity('1e10001')", s: "1", fewer: "2"},
		{rule: "isQuantity('1e10001') || self.s == '1'", s: "1", fewer: "1"},
		{rule: "self.s == 'x' && isQuantity('1e10001')", s: "1", fewer: "2", failed: true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			v := newValidator(t, dearSchema(t, c.rule), widgets)
			for _, judge := range []*upstream.Validator{v, v.Exact()} {
				w := dearWidget(t, c.s, c.t)
				r, err := judge.Create(t.Context(), w)
				if dear := errors.Is(err, upstream.ErrTooDear); dear != (c.says != "") || dear && !strings.Contains(err.Error(), c.says+" in ") || !dear && r.Refused() != c.failed {
					t.Errorf("%v %v", r.Errors, err)
				}
				if _, err := judge.Judge(t.Context(), w); errors.Is(err, upstream.ErrTooDear) != (c.says != "") {
					t.Errorf("a stored object: %v", err)
				}
				if r, err := judge.Create(t.Context(), dearWidget(t, c.fewer, c.t)); !c.others && (err != nil || r.Refused() != c.failed) {
					t.Errorf("a smaller value: %v %v", r.Errors, err)
				}
			}
		})
	}
}

func TestDearMessagesAndDefaults(t *testing.T) {
	message := schemaOf(t, "type: object\nproperties: {s: {type: string}}\n"+`x-kubernetes-validations: [{rule: self.s == 'a', messageExpression: "isQuantity(self.s) ? 'a' : 'b'"}]`)
	v := newValidator(t, message, widgets)
	for _, judge := range []*upstream.Validator{v, v.Exact()} {
		if _, err := judge.Create(t.Context(), widget(t, "{s: 1e10001}")); !errors.Is(err, upstream.ErrTooDear) {
			t.Errorf("a message: %v", err)
		}
		if r, err := judge.Create(t.Context(), widget(t, "{s: '1'}")); err != nil || len(r.Errors) != 1 || r.Errors[0].Detail != "a" {
			t.Errorf("a message: %v %v", r.Errors, err)
		}
	}
	for value, want := range map[string]error{"'1e10001'": upstream.ErrTooDear, "'1e1'": nil} {
		d := widgetCRD(t, "")
		d.Spec.Versions[0].Schema.OpenAPIV3Schema = schemaOf(t, "type: object\nproperties:\n  s:\n    type: string\n    default: "+value+"\n    x-kubernetes-validations: [{rule: isQuantity(self)}]")
		if _, err := upstream.ValidateCRD(t.Context(), d, nil); !errors.Is(err, want) {
			t.Errorf("default %s: %v", value, err)
		}
		if _, err := upstream.ValidateCRDUpdate(t.Context(), d, d, nil); !errors.Is(err, want) {
			t.Errorf("default %s of an update: %v", value, err)
		}
	}
}
