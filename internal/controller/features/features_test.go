package features

import (
	"encoding/json"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheDifferenceOfTwoObjectsMakesOneOfTheOther(t *testing.T) {
	for name, test := range map[string]struct {
		from, to string
		patch    string
	}{
		"equal":    {`{"a":{"b":1}}`, `{"a":{"b":1}}`, `null`},
		"removed":  {`{"a":{"b":1,"c":2}}`, `{"a":{"b":1}}`, `[{"op":"remove","path":"/a/c"}]`},
		"put back": {`{"a":{"b":1}}`, `{"a":{"b":2}}`, `[{"op":"replace","path":"/a/b","value":2}]`},
		"false":    {`{"a":true}`, `{"a":false}`, `[{"op":"replace","path":"/a","value":false}]`},
		"null":     {`{"a":1}`, `{"a":null}`, `[{"op":"replace","path":"/a","value":null}]`},
		"added":    {`{}`, `{"a":{"b":""}}`, `[{"op":"add","path":"/a","value":{"b":""}}]`},
		"items":    {`{"a":[{"n":1,"x":2},{"n":2}]}`, `{"a":[{"n":1},{"n":2}]}`, `[{"op":"replace","path":"/a","value":[{"n":1},{"n":2}]}]`},
		"names":    {`{"m":{"a/b~c":1,"":2}}`, `{"m":{}}`, `[{"op":"remove","path":"/m/"},{"op":"remove","path":"/m/a~1b~0c"}]`},
	} {
		var from, to any
		if err := json.Unmarshal([]byte(test.from), &from); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(test.to), &to); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(jsonPatchOf(from, to, "", nil))
		if err != nil || string(data) != test.patch {
			t.Errorf("%s: %s %v", name, data, err)
			continue
		}
		if test.patch == "null" {
			continue
		}
		patch, err := jsonpatch.DecodePatch(data)
		if err != nil {
			t.Fatal(err)
		}
		got, err := patch.Apply([]byte(test.from))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !jsonpatch.Equal(got, []byte(test.to)) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestWhatIsStoredIsComparedWithItsDefaults(t *testing.T) {
	want := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}
	want.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{}}}
	stored := func(change func(*admissionregistrationv1.ValidatingAdmissionPolicy)) *admissionregistrationv1.ValidatingAdmissionPolicy {
		p := want.DeepCopy()
		p.Labels["others"] = "too"
		p.Spec.FailurePolicy = new(admissionregistrationv1.Fail)
		m := p.Spec.MatchConstraints
		m.MatchPolicy, m.NamespaceSelector, m.ObjectSelector = new(admissionregistrationv1.Equivalent), &metav1.LabelSelector{}, &metav1.LabelSelector{}
		m.ResourceRules[0].Scope = new(admissionregistrationv1.AllScopes)
		change(p)
		return p
	}
	full := want.DeepCopy()
	setDefaults(full)
	for name, test := range map[string]struct {
		change func(*admissionregistrationv1.ValidatingAdmissionPolicy)
		same   bool
	}{
		"as the API server has it": {func(*admissionregistrationv1.ValidatingAdmissionPolicy) {}, true},
		"failure policy": {func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
			p.Spec.FailurePolicy = new(admissionregistrationv1.Ignore)
		}, false},
		"no label": {func(p *admissionregistrationv1.ValidatingAdmissionPolicy) { delete(p.Labels, "a") }, false},
		"a selector": {func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
			p.Spec.MatchConstraints.ObjectSelector.MatchLabels = map[string]string{"x": "y"}
		}, false},
		"a rule that excludes": {func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
			p.Spec.MatchConstraints.ExcludeResourceRules = []admissionregistrationv1.NamedRuleWithOperations{{}}
		}, false},
		"being deleted": {func(p *admissionregistrationv1.ValidatingAdmissionPolicy) { p.DeletionTimestamp = &metav1.Time{} }, false},
	} {
		if got := sameAsWanted(full, stored(test.change)); got != test.same {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestWaitsAreTheSoonestOfThem(t *testing.T) {
	for _, test := range []struct{ a, b, want time.Duration }{{0, 0, 0}, {0, 2, 2}, {2, 0, 2}, {2, 3, 2}, {3, 2, 2}} {
		if got := shorterWait(test.a, test.b); got != test.want {
			t.Errorf("%v and %v: %v", test.a, test.b, got)
		}
	}
}
