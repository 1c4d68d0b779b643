package features

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
)

const movesComponent = `
metadata: {name: demo}
spec: {release: v1.0.0, mode: Baked}
`

// movesFeatures refuse, drop and warn of a field each.
const movesFeatures = `
- {component: demo, gate: Refused, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, field: spec.refused}]}
- {component: demo, gate: Dropped, whenDisabled: Drop, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, field: spec.dropped}]}
- {component: demo, gate: Warned, whenDisabled: Warn, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, field: spec.warned}]}
`

const movesCRD = `
metadata: {name: widgets.demo.dev}
spec:
  group: demo.dev
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {refused: {type: string}, dropped: {type: string}, warned: {type: string}}
`

// convertedMore is one more version of the CRD, with a webhook that converts.
const convertedMore = `
  - name: v2
    served: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {refused: {type: string}, dropped: {type: string}, warned: {type: string}}
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1"}}}
`

// movesPlan is what is to be in force where the API server can do that.
func movesPlan(t *testing.T, can server) *plan {
	t.Helper()
	m := movesModel(t, movesComponent, movesFeatures)
	return planOf(t, m, nil, can)
}

// planOf is a plan for a model, with settings.
func planOf(t *testing.T, m *feature.Model, settings *feature.Settings, can server) *plan {
	t.Helper()
	set, err := policy.Compile(t.Context(), m, policy.Options{Kubernetes: can.version, Settings: settings, WithoutValidating: !can.validating, WithoutMutating: !can.mutating})
	if err != nil {
		t.Fatal(err)
	}
	c := &v1alpha1.Component{ObjectMeta: metav1.ObjectMeta{Name: m.Component()}, Spec: *m.Spec()}
	var features []v1alpha1.Feature
	for _, f := range m.Features() {
		features = append(features, v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: feature.ObjectName(m.Component(), f.Spec.Gate)}, Spec: f.Spec})
	}
	return &plan{component: c, features: features, model: m, settings: settings, states: m.Resolve(settings, feature.Runtime{}), set: set, known: true}
}

// movesModel is a component with features of widgets.
func movesModel(t *testing.T, component, features string) *feature.Model {
	t.Helper()
	return modelOf(t, component, features, movesCRD)
}

func modelOf(t *testing.T, component, features, text string) *feature.Model {
	t.Helper()
	var c v1alpha1.Component
	var specs []v1alpha1.FeatureSpec
	var crd apiextensionsv1.CustomResourceDefinition
	for text, into := range map[string]any{component: &c, features: &specs, text: &crd} {
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	var list []v1alpha1.Feature
	for _, s := range specs {
		list = append(list, v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: feature.ObjectName(s.Component, s.Gate)}, Spec: s})
	}
	r, err := feature.ResourceOf(&crd)
	if err != nil {
		t.Fatal(err)
	}
	m, findings := feature.Define(&c, list, feature.Options{Resources: []feature.Resource{r}})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return m
}

var (
	oldServer = server{version: "1.29"}
	newServer = server{version: "1.36", validating: true, mutating: true}
)

// TestTheWebhookDoesNotLeaveToPoliciesWhatItIsAskedFor has a webhook that knows a server with policies, while the controller,
// which has it asked, knows one without.
func TestTheWebhookDoesNotLeaveToPoliciesWhatItIsAskedFor(t *testing.T) {
	object := map[string]any{"spec": map[string]any{"refused": "x", "dropped": "x", "warned": "x"}}
	type answer struct {
		Rejected, Dropped, Warned int
		Object                    map[string]any
	}
	for _, tt := range []struct {
		can    server
		ask    string
		want   answer
		reason string
	}{
		{newServer, askReject, answer{Rejected: 1}, "refused"},
		{newServer, askDrop, answer{Dropped: 1, Object: map[string]any{"spec": map[string]any{"refused": "x", "warned": "x"}}}, "what is refused keeps nothing from being dropped"},
		{newServer, askWarn, answer{}, "the policy warns"},
		{oldServer, askReject, answer{Rejected: 1}, "refused"},
		{oldServer, askDrop, answer{Dropped: 1, Object: map[string]any{"spec": map[string]any{"refused": "x", "warned": "x"}}}, "dropped"},
		{oldServer, askWarn, answer{Warned: 1}, "nobody else warns"},
	} {
		j := judgeOf(movesPlan(t, tt.can))
		d := j.evaluators[tt.ask].Evaluate(&feature.Request{Group: "demo.dev", Version: "v1", Resource: "widgets", Object: object})
		if diff := cmp.Diff(tt.want, answer{d.Rejected.Count, d.Dropped.Count, d.Warned.Count, d.Object}); diff != "" {
			t.Errorf("%s on %v (%s): %s", tt.ask, tt.can, tt.reason, diff)
		}
	}
}

// TestWhoTells: what tellUse has told is told by the webhook where no policy does, be the feature open or not.
func TestWhoTells(t *testing.T) {
	m := movesModel(t, "{metadata: {name: demo}, spec: {release: v1.0.0, mode: Baked, configMap: {namespace: demo, name: flags}, tellUse: [Alpha]}}", movesFeatures)
	all, findings := m.ParseSettings(map[string]string{"enable-api-fields": "alpha"})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	const object = `{"spec":{"refused":"x","dropped":"x","warned":"x"}}`
	for _, tt := range []struct {
		name     string
		can      server
		settings *feature.Settings
		asked    []string // the webhooks in the configurations
		old      string
		want     []string
	}{
		{"policies tell", newServer, all, nil, "", nil},
		{"policies tell, and refuse", newServer, nil, nil, "", nil},
		{"all is open", oldServer, all, []string{askWarn}, "", []string{"dropped", "refused", "warned"}},
		{"what is stored is not told again", oldServer, all, []string{askWarn}, `{"spec":{"refused":"y","dropped":"y"}}`, []string{"warned"}},
		{"all is closed", oldServer, nil, []string{askReject, askLeft, askWarn, askDrop}, "", []string{"dropped", "refused", "warned"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := planOf(t, m, tt.settings, tt.can)
			hooks := hooksOf(p, "sluice-system", map[string]string{bundleKey: "x"}, true)
			var asked []string
			for _, h := range hooks.validating {
				if ask := strings.Split(h.Name, ".")[1]; ask != askSettings {
					asked = append(asked, ask)
				}
			}
			for _, h := range hooks.mutating {
				asked = append(asked, strings.Split(h.Name, ".")[1])
			}
			if diff := cmp.Diff(tt.asked, asked); diff != "" {
				t.Error(diff)
			}
			h, _, _ := newTestWebhook(t)
			req := &admissionv1.AdmissionRequest{
				Operation: admissionv1.Create, Resource: metav1.GroupVersionResource{Group: "demo.dev", Version: "v1", Resource: "widgets"},
				Object: runtime.RawExtension{Raw: []byte(object)},
			}
			if tt.old != "" {
				req.Operation, req.OldObject.Raw = admissionv1.Update, []byte(tt.old)
			}
			resp := h.reviewRequest(t.Context(), judgeOf(p), askWarn, req)
			if !resp.Allowed {
				t.Errorf("refused: %v", resp.Result)
			}
			var told, gates []string
			for _, w := range resp.Warnings {
				if field, rest, _ := strings.Cut(w, ": alpha, as feature"); strings.HasSuffix(rest, "it may change or go in any release") {
					told = append(told, strings.TrimPrefix(field, "spec."))
					gates = append(gates, strings.ToUpper(field[5:6])+field[6:])
				}
			}
			if diff := cmp.Diff(tt.want, told); diff != "" {
				t.Error(diff)
			}
			if got := resp.AuditAnnotations["told"]; got != strings.Join(gates, ",") {
				t.Errorf("the audit log has %q", got)
			}
		})
	}
}

// TestThatNobodyTellsIsTold: there is no webhook, or the API server asks none about the resource.
func TestThatNobodyTellsIsTold(t *testing.T) {
	p := &plan{set: &policy.Set{Told: []policy.Enforced{
		{Gate: "Plain", Group: "demo.dev", Resource: "widgets"}, {Gate: "Own", Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"},
	}}}
	for webhook, want := range map[bool]map[string]string{
		true:  {"Own": "validatingwebhookconfigurations.admissionregistration.k8s.io is beyond any webhook"},
		false: {"Own": "validatingwebhookconfigurations.admissionregistration.k8s.io is beyond any webhook", "Plain": errNoWebhook.Error()},
	} {
		got := map[string]string{}
		for gate, why := range p.unwarnedGates(webhook) {
			got[gate] = why.Error()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("webhook %t: %s", webhook, diff)
		}
	}
}

// TestTheWebhookIsAskedAboutClaims: of a version that is closed as a whole, also about writes of others, as policies are.
func TestTheWebhookIsAskedAboutClaims(t *testing.T) {
	m := movesModel(t, movesComponent, `
- {component: demo, gate: Whole, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, versions: [v1], wholeVersion: true}]}
- {component: demo, gate: Dropped, whenDisabled: Drop, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, field: spec.dropped}]}
`)
	const claims, none = `{"metadata":{"managedFields":[{"apiVersion":"demo.dev/v1","fieldsV1":{"f:spec":{}}}]}}`, `{"metadata":{"managedFields":[]}}`
	p := planOf(t, m, nil, server{version: "1.29"})
	h, _, _ := newTestWebhook(t)
	for _, tt := range []struct {
		name, version, sub, old, object string
		refused                         bool
	}{
		{"in another version", "v2", "", none, claims, true},
		{"in the status", "v2", "status", none, claims, true},
		{"in the status of the version", "v1", "status", none, claims, true},
		{"in the scale, which cannot claim", "v2", "scale", none, claims, false},
		{"what was claimed before", "v2", "", claims, claims, false},
		{"what claims nothing", "v2", "", none, none, false},
	} {
		resp := h.reviewRequest(t.Context(), judgeOf(p), askReject, &admissionv1.AdmissionRequest{
			Operation: admissionv1.Update, SubResource: tt.sub, Resource: metav1.GroupVersionResource{Group: "demo.dev", Version: tt.version, Resource: "widgets"},
			Object: runtime.RawExtension{Raw: []byte(tt.object)}, OldObject: runtime.RawExtension{Raw: []byte(tt.old)},
		})
		if resp.Allowed == tt.refused || tt.refused && !strings.HasPrefix(resp.Result.Message, "metadata.managedFields: demo.dev/v1 is alpha") {
			t.Errorf("%s: allowed %t: %v", tt.name, resp.Allowed, resp.Result)
		}
	}
	for _, conditions := range []bool{true, false} {
		asked := hooksOf(p, "sluice-system", map[string]string{bundleKey: "x"}, conditions).validating
		at := slices.IndexFunc(asked, func(w hook) bool {
			return w.Name == "demo.claim.feature.sluice.dev"
		})
		if at < 0 {
			t.Fatal("it is not asked")
		}
		found := &asked[at]
		want := admissionregistrationv1.Ignore
		if conditions {
			want = admissionregistrationv1.Fail
		}
		if diff := cmp.Diff([]string{"widgets", "widgets/status"}, found.Rules[0].Resources); diff != "" || len(found.Rules) != 1 || !slices.Equal(found.Rules[0].APIVersions, []string{"*"}) {
			t.Errorf("the rules are %v", found.Rules)
		}
		// What would have every write of the status wait must not.
		if *found.FailurePolicy != want || (len(found.MatchConditions) > 0) != conditions {
			t.Errorf("with conditions %t: %s, %v", conditions, *found.FailurePolicy, found.MatchConditions)
		}
	}
	unchanged := movesModel(t, "{metadata: {name: demo}, spec: {release: v1.0.0, mode: Baked, configMap: {namespace: demo, name: flags}}}", `
- {component: demo, gate: Whole, ratchet: Unchanged, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, versions: [v1], wholeVersion: true}]}
`)
	for _, w := range hooksOf(planOf(t, unchanged, nil, server{version: "1.29"}), "sluice-system", map[string]string{bundleKey: "x"}, true).validating {
		if strings.Contains(w.Name, claimsHook+hookSuffix) {
			t.Error("it is asked about claims that nothing trusts")
		}
	}
}

// TestPending has policies that are not in force yet keep what they replace.
func TestPending(t *testing.T) {
	p := movesPlan(t, newServer)
	refusing := ""
	for _, e := range p.set.Enforced {
		if e.Gate == "Refused" {
			refusing = e.Name
		}
	}
	hooked := movesPlan(t, oldServer)
	for _, tt := range []struct {
		name string
		plan *plan
		done outcome
		want map[string]bool
	}{
		{"all is in force", p, outcome{}, map[string]bool{}},
		{"written just now", p, outcome{fresh: map[string]bool{refusing: true}}, map[string]bool{"Refused": true}},
		{"not written", p, outcome{failed: map[string]error{refusing: errNoWebhook}}, map[string]bool{"Refused": true}},
		{"no webhook, which nothing takes", p, outcome{hook: errNoWebhook}, map[string]bool{}},
		{"no webhook, which all takes", hooked, outcome{hook: errNoWebhook}, map[string]bool{"Refused": true, "Dropped": true, "Warned": true}},
	} {
		if diff := cmp.Diff(tt.want, tt.plan.pendingGates(&tt.done)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// TestAPartIsInForceAtItsNewPlaceBeforeItLeavesTheOldOne writes policies as NAME: GATES@VERSIONS.
func TestAPartIsInForceAtItsNewPlaceBeforeItLeavesTheOldOne(t *testing.T) {
	parse := func(text string) object {
		name, rest, _ := strings.Cut(text, ": ")
		gates, versions, _ := strings.Cut(rest, "@")
		p := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{policy.GatesAnnotation: gates}}}
		p.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{Rule: admissionregistrationv1.Rule{
				APIGroups: []string{"demo.dev"}, Resources: []string{"widgets"}, APIVersions: strings.Split(versions, " "),
			}},
		}}}
		return p
	}
	for _, tt := range []struct {
		name                string
		additions, settling []string
		changes             [][2]string // what is stored, and what is wanted
		now, wait           string
	}{
		{name: "nothing moves", changes: [][2]string{{"a: A,B@v1", "a: A@v1"}, {"b: C@v1", "b: C,D@v1"}}, now: "a b"},
		{name: "to one that exists", changes: [][2]string{{"a: A,B@v1", "a: A@v1"}, {"b: C@v1", "b: B,C@v1"}}, now: "b", wait: "a"},
		{name: "to a new one", additions: []string{"b: B@v1"}, changes: [][2]string{{"a: A,B@v1", "a: A@v1"}}, wait: "a"},
		{name: "to one that was written just now", settling: []string{"b: B@v1"}, changes: [][2]string{{"a: A,B@v1", "a: A@v1"}}, wait: "a"},
		{name: "a version", additions: []string{"b: A@v2"}, changes: [][2]string{{"a: A@v1 v2", "a: A@v1"}}, wait: "a"},
		{name: "another version", additions: []string{"b: A@v3"}, changes: [][2]string{{"a: A@v1 v2", "a: A,B@v1 v2"}}, now: "a"},
		{name: "from all versions", additions: []string{"b: A@v2"}, changes: [][2]string{{"a: A@*", "a: A@v1"}}, wait: "a"},
		{name: "to all versions", changes: [][2]string{{"a: A,B@v1", "a: B@v1"}, {"b: C@*", "b: A,C@*"}}, now: "b", wait: "a"},
		{name: "one after the other", changes: [][2]string{{"a: A,B@v1", "a: A@v1"}, {"b: C,D@v1", "b: B,C@v1"}, {"c: E@v1", "c: D,E@v1"}}, now: "c", wait: "a b"},
		{name: "to and fro", changes: [][2]string{{"a: A@v1", "a: B@v1"}, {"b: B@v1", "b: A@v1"}}, now: "a b"},
	} {
		var additions, settling []object
		for _, x := range tt.additions {
			additions = append(additions, parse(x))
		}
		for _, x := range tt.settling {
			settling = append(settling, parse(x))
		}
		var changes []change
		for _, x := range tt.changes {
			changes = append(changes, change{parse(x[0]), parse(x[1])})
		}
		now, wait := inOrder(additions, settling, changes)
		var got [2][]string
		for i, list := range [][]change{now, wait} {
			for _, c := range list {
				got[i] = append(got[i], c.want.GetName())
			}
		}
		if diff := cmp.Diff([2]string{tt.now, tt.wait}, [2]string{strings.Join(got[0], " "), strings.Join(got[1], " ")}); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestWebhooksAreKeptUntilPoliciesTakeOver(t *testing.T) {
	rule := func(resource string, versions ...string) admissionregistrationv1.RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{Rule: admissionregistrationv1.Rule{APIGroups: []string{"demo.dev"}, APIVersions: versions, Resources: []string{resource}}}
	}
	type rules = []admissionregistrationv1.RuleWithOperations
	condition := func(x string) []admissionregistrationv1.MatchCondition {
		return []admissionregistrationv1.MatchCondition{{Name: "uses-a-part", Expression: x}}
	}
	want := &hookSet{validating: []hook{
		{Name: "reject", Rules: rules{rule("widgets", "v2")}, MatchConditions: condition("x")},
		{Name: "same", Rules: rules{rule("widgets", "v1")}, MatchConditions: condition("x")},
		{Name: "other", Rules: rules{rule("widgets", "v1")}, MatchConditions: condition("x")},
	}}
	want.keepStored(&hookSet{[]hook{
		{Name: "reject", Rules: rules{rule("gadgets", "v1"), rule("widgets", "v1", "v2")}, MatchConditions: condition("x")},
		{Name: "warn", Rules: rules{rule("widgets", "v1")}},
		{Name: "same", Rules: rules{rule("widgets", "v1")}, MatchConditions: condition("x")},
		{Name: "other", Rules: rules{rule("widgets", "v1")}, MatchConditions: condition("y")},
	}, []hook{{Name: "drop", Rules: rules{rule("widgets", "v1")}}}})
	if diff := cmp.Diff(&hookSet{
		validating: []hook{
			{Name: "reject", Rules: rules{rule("widgets", "v1", "v2"), rule("gadgets", "v1")}},
			{Name: "same", Rules: rules{rule("widgets", "v1")}, MatchConditions: condition("x")},
			{Name: "other", Rules: rules{rule("widgets", "v1")}},
			{Name: "warn", Rules: rules{rule("widgets", "v1")}},
		},
		mutating: []hook{{Name: "drop", Rules: rules{rule("widgets", "v1")}}},
	}, want, cmp.AllowUnexported(hookSet{})); diff != "" {
		t.Error(diff)
	}
	empty := &hookSet{}
	empty.keepStored(&hookSet{})
	if diff := cmp.Diff(&hookSet{}, empty, cmp.AllowUnexported(hookSet{})); diff != "" {
		t.Errorf("nothing to keep: %s", diff)
	}
}

// TestEnforcedDoesNotLieAboutTheWebhook has the webhook go on as before, because of one bad definition, while another feature
// is new or has changed.
func TestEnforcedDoesNotLieAboutTheWebhook(t *testing.T) {
	by := []v1alpha1.Enforcer{{Kind: "ValidatingWebhookConfiguration", Name: Configuration, Resource: "widgets", Reason: "because"}}
	f := func(generation int64, conditions ...metav1.Condition) *v1alpha1.Feature {
		return &v1alpha1.Feature{
			ObjectMeta: metav1.ObjectMeta{Generation: generation}, Spec: v1alpha1.FeatureSpec{Parts: []v1alpha1.Part{{Resource: "widgets", Field: "spec.x"}}},
			Status: v1alpha1.FeatureStatus{Conditions: conditions},
		}
	}
	was := metav1.Condition{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEnforcedByWebhook, ObservedGeneration: 1}
	for _, tt := range []struct {
		name string
		f    *v1alpha1.Feature
		done outcome
		want metav1.ConditionStatus
	}{
		{"asked for", f(1), outcome{}, metav1.ConditionTrue},
		{"not written", f(1, was), outcome{hook: errors.New("no")}, metav1.ConditionFalse},
		{"kept, enforced before", f(1, was), outcome{hookKept: true}, metav1.ConditionTrue},
		{"kept, new", f(1), outcome{hookKept: true}, metav1.ConditionFalse},
		{"kept, changed since", f(2, was), outcome{hookKept: true}, metav1.ConditionFalse},
	} {
		if got, _, message := enforcedBy(tt.f, by, &tt.done, nil); got != tt.want {
			t.Errorf("%s: %s, %s", tt.name, got, message)
		}
	}
}

func TestWhatTheWebhookIsNeverAskedAboutIsNotEnforced(t *testing.T) {
	f := &v1alpha1.Feature{Spec: v1alpha1.FeatureSpec{Parts: []v1alpha1.Part{{Resource: "things"}}}}
	for group, want := range map[string]metav1.ConditionStatus{
		"demo.dev": metav1.ConditionTrue, v1alpha1.GroupName: metav1.ConditionFalse, "admissionregistration.k8s.io": metav1.ConditionFalse,
	} {
		by := []v1alpha1.Enforcer{{Kind: "ValidatingWebhookConfiguration", Name: Configuration, Group: group, Resource: "things", Reason: "no policy can"}}
		if got, _, message := enforcedBy(f, by, &outcome{}, nil); got != want {
			t.Errorf("%s: %s (%s), want %s", group, got, message, want)
		}
	}
}

// TestWhatStaysOpenIsNotEnforced: a field that can be set in a version in which nothing can gate it.
func TestWhatStaysOpenIsNotEnforced(t *testing.T) {
	f := &v1alpha1.Feature{Spec: v1alpha1.FeatureSpec{Gate: "Gate", Parts: []v1alpha1.Part{{}}}}
	by := []v1alpha1.Enforcer{{Group: "demo.dev", Resource: "widgets", Kind: "ValidatingAdmissionPolicy", Name: "x"}}
	found := feature.Findings{{Severity: feature.Warning, Code: feature.CodeOpenVersion, Gate: "Gate", Message: "spec.a can be set in version v2"}}
	for want, list := range map[metav1.ConditionStatus]feature.Findings{metav1.ConditionTrue: nil, metav1.ConditionFalse: found} {
		if got, _, message := enforcedBy(f, by, &outcome{}, list); got != want || list != nil && !strings.Contains(message, "version v2") {
			t.Errorf("%s, not %s: %s", got, want, message)
		}
	}
}

// TestFeaturesThatNameOtherVersionsHaveWebhooksOfTheirOwn: an object of a version that a rule names is not converted, so that what another
// feature calls otherwise there would pass.
func TestFeaturesThatNameOtherVersionsHaveWebhooksOfTheirOwn(t *testing.T) {
	const features = `
- {component: demo, gate: One, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, versions: [v1], field: spec.refused}]}
- {component: demo, gate: Other, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, versions: [v2], field: spec.warned}]}
- {component: demo, gate: Both, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, field: spec.dropped}]}
`
	got := map[string][]string{}
	for _, w := range hooksOf(planOf(t, modelOf(t, movesComponent, features, movesCRD+convertedMore), nil, server{version: "1.29"}), "sluice-system", map[string]string{bundleKey: "x"}, true).validating {
		if ask := strings.Split(w.Name, ".")[1]; ask == askReject {
			got[w.Name] = w.Rules[0].APIVersions
		}
		if *w.ClientConfig.Service.Path != hookPath("demo", purposeOf(strings.Split(w.Name, ".")[1])) {
			t.Errorf("%s is at %s", w.Name, *w.ClientConfig.Service.Path)
		}
	}
	want := map[string][]string{
		"demo.reject.v1.feature.sluice.dev": {"v1"}, "demo.reject.v2.feature.sluice.dev": {"v2"}, "demo.reject.v1-v2.feature.sluice.dev": {"v1", "v2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
