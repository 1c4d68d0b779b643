package helm

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
)

const argoCD = root + "/config/argocd/"

// health runs the health check of a kind as Argo CD does: with the libraries base, package and table, and the object as obj.
func health(t *testing.T, kind string, obj map[string]any) (status, message string) {
	t.Helper()
	text, err := os.ReadFile(argoCD + "argocd-cm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cm struct {
		Data map[string]string `json:"data"`
	}
	if err := yaml.Unmarshal(text, &cm); err != nil {
		t.Fatal(err)
	}
	script, ok := cm.Data["resource.customizations.health."+kind]
	if !ok {
		t.Fatalf("there is no health check of %s", kind)
	}
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	l.SetGlobal("obj", luaValue(l, obj))
	if err := l.DoString(script); err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	result, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("%s: the script returns %s", kind, l.Get(-1).Type())
	}
	return lua.LVAsString(result.RawGetString("status")), lua.LVAsString(result.RawGetString("message"))
}

func luaValue(l *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case float64:
		return lua.LNumber(v)
	case []any:
		out := l.NewTable()
		for _, item := range v {
			out.Append(luaValue(l, item))
		}
		return out
	case map[string]any:
		out := l.NewTable()
		for key, item := range v {
			out.RawSetString(key, luaValue(l, item))
		}
		return out
	}
	return lua.LNil
}

// object is a value as JSON has it.
func object(t *testing.T, value any) map[string]any {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// is fails if an object has another health.
func is(t *testing.T, what, kind string, obj any, want, words string) {
	t.Helper()
	if status, message := health(t, kind, object(t, obj)); status != want || !strings.Contains(message, words) {
		t.Errorf("%s: %s is %s (%s), want %s with %q", what, kind, status, message, want, words)
	}
}

const (
	healthy     = "Healthy"
	progressing = "Progressing"
	degraded    = "Degraded"
)

func condition(name string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, Reason: reason, Message: "the message"}
}

// documented are the reasons of a table in docs/reference.md whose rows do not say that only events have them.
func documented(t *testing.T, section, table string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n### "+section+"\n")
	_, rest, ok := strings.Cut(rest, table)
	if !ok {
		t.Fatalf("docs/reference.md has no %q of %s", table, section)
	}
	for _, paragraph := range strings.SplitAfter(rest, "\n\n")[1:2] {
		for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (.*) \\|$").FindAllStringSubmatch(paragraph, -1) {
			if !strings.Contains(m[2], "Only events have this reason") {
				out = append(out, m[1])
			}
		}
	}
	return out
}

func TestArgoCDKnowsHowADeliveryIs(t *testing.T) {
	const kind = "sluice.dev_Delivery"
	ready := map[string]metav1.ConditionStatus{
		v1alpha1.ReasonDelivered: metav1.ConditionTrue,
		v1alpha1.ReasonPending:   metav1.ConditionUnknown, v1alpha1.ReasonResolving: metav1.ConditionUnknown, v1alpha1.ReasonApplying: metav1.ConditionUnknown,
		v1alpha1.ReasonWaiting: metav1.ConditionUnknown, v1alpha1.ReasonDeleting: metav1.ConditionFalse, v1alpha1.ReasonDependencyNotReady: metav1.ConditionFalse,
	}
	// These stand in other conditions than Ready.
	others := []string{v1alpha1.ReasonResolved, v1alpha1.ReasonPassed, v1alpha1.ReasonApplied, v1alpha1.ReasonDrift, v1alpha1.ReasonSuspended}
	seen := 0
	for _, reason := range documented(t, "Delivery", "Reasons of the conditions of a delivery, and of its events.") {
		if slices.Contains(others, reason) {
			continue
		}
		seen++
		status, want := metav1.ConditionFalse, degraded
		if s, ok := ready[reason]; ok {
			status, want = s, progressing
		}
		if status == metav1.ConditionTrue {
			want = healthy
		}
		d := v1alpha1.Delivery{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: v1alpha1.DeliveryStatus{ObservedGeneration: 2, Conditions: []metav1.Condition{
			condition(v1alpha1.ConditionDrifted, metav1.ConditionTrue, v1alpha1.ReasonDrift), condition(v1alpha1.ConditionReady, status, reason),
		}}}
		is(t, reason, kind, d, want, "the message")
		d.Generation = 3
		is(t, reason+", changed since", kind, d, progressing, "waiting for the controller")
		d.Spec.Suspend = true
		is(t, reason+", suspended", kind, d, "Suspended", "spec.suspend is true")
	}
	if seen < 20 {
		t.Errorf("%d reasons of Ready", seen)
	}
	is(t, "no status", kind, v1alpha1.Delivery{ObjectMeta: metav1.ObjectMeta{Generation: 1}}, progressing, "waiting")
	is(t, "no conditions", kind, map[string]any{"metadata": map[string]any{"generation": 1}, "status": map[string]any{"observedGeneration": 1, "conditions": []any{}}}, progressing, "waiting")
}

func TestArgoCDKnowsHowARequestIs(t *testing.T) {
	const kind = "resolution.tekton.dev_ResolutionRequest"
	request := func(conditions ...any) map[string]any {
		return map[string]any{"status": map[string]any{"conditions": conditions}}
	}
	is(t, "new", kind, map[string]any{}, progressing, "not ended")
	is(t, "without conditions", kind, request(), progressing, "not ended")
	is(t, "in progress", kind, request(map[string]any{"type": "Succeeded", "status": "Unknown", "reason": "ResolutionInProgress"}), progressing, "not ended")
	is(t, "done", kind, request(map[string]any{"type": "Succeeded", "status": "True"}), healthy, "")
	for _, reason := range []string{"ResolutionFailed", "ResolutionTimedOut"} {
		is(t, reason, kind, request(map[string]any{"type": "Succeeded", "status": "False", "reason": reason, "message": "the message"}), degraded, reason+": the message")
	}
}

func TestArgoCDKnowsHowFeaturesAre(t *testing.T) {
	const unknown, yes, no = metav1.ConditionUnknown, metav1.ConditionTrue, metav1.ConditionFalse
	type state struct {
		status metav1.ConditionStatus
		want   string
	}
	states := map[string]map[string]state{
		v1alpha1.ConditionAccepted: {
			v1alpha1.ReasonAccepted: {yes, healthy}, v1alpha1.ReasonInvalidDefinition: {no, degraded}, v1alpha1.ReasonInvalidSettings: {no, degraded},
			v1alpha1.ReasonComponentNotFound: {no, degraded}, v1alpha1.ReasonResourceNotFound: {no, degraded}, v1alpha1.ReasonPartsWaiting: {yes, healthy},
		},
		v1alpha1.ConditionEnforced: {
			v1alpha1.ReasonEnforcedByPolicy: {yes, healthy}, v1alpha1.ReasonEnforcedByWebhook: {yes, healthy}, v1alpha1.ReasonBehaviourOnly: {yes, healthy},
			v1alpha1.ReasonOpenForAll: {yes, healthy}, v1alpha1.ReasonNoFeatures: {unknown, healthy}, v1alpha1.ReasonNotEnforced: {no, degraded},
			v1alpha1.ReasonWebhookUnreachable: {no, degraded}, v1alpha1.ReasonNotObserved: {unknown, progressing}, v1alpha1.ReasonSettingsUnknown: {unknown, progressing},
			v1alpha1.ReasonSettingsMissing: {no, degraded},
		},
		v1alpha1.ConditionSkew: {
			v1alpha1.ReasonProcessesAgree: {no, healthy}, v1alpha1.ReasonNoReports: {unknown, healthy}, v1alpha1.ReasonRollingUpdate: {yes, progressing},
			v1alpha1.ReasonProcessesDisagree: {yes, degraded}, v1alpha1.ReasonEnforcementDiffers: {yes, degraded},
		},
		v1alpha1.ConditionCounted: {
			v1alpha1.ReasonCounted: {yes, healthy}, v1alpha1.ReasonNotCounted: {unknown, healthy}, v1alpha1.ReasonCountForbidden: {unknown, healthy},
			v1alpha1.ReasonCountFailed: {unknown, healthy},
		},
	}
	for name, reasons := range states {
		known := documented(t, "Component and Feature", "Reasons of the condition `"+name+"`.")
		if len(known) != len(reasons) {
			t.Errorf("%s has the reasons %v; the table has %d", name, known, len(reasons))
		}
		for _, reason := range known {
			s, ok := reasons[reason]
			if !ok {
				t.Errorf("%s has the reason %s, which the table lacks", name, reason)
				continue
			}
			meta, list := metav1.ObjectMeta{Generation: 1}, []metav1.Condition{condition(v1alpha1.ConditionAccepted, yes, v1alpha1.ReasonAccepted), condition(name, s.status, reason)}
			if name == v1alpha1.ConditionAccepted {
				list = list[1:]
			}
			words := ""
			if s.want != healthy {
				words = reason + ": the message"
			}
			is(t, reason, "sluice.dev_Component", v1alpha1.Component{ObjectMeta: meta, Status: v1alpha1.ComponentStatus{ObservedGeneration: 1, Conditions: list}}, s.want, words)
			is(t, reason, "sluice.dev_Feature", v1alpha1.Feature{ObjectMeta: meta, Status: v1alpha1.FeatureStatus{ObservedGeneration: 1, Conditions: list}}, s.want, words)
			is(t, reason+", changed since", "sluice.dev_Feature", v1alpha1.Feature{ObjectMeta: meta, Status: v1alpha1.FeatureStatus{Conditions: list}}, progressing, "waiting")
		}
	}
	is(t, "the worst counts", "sluice.dev_Component", v1alpha1.Component{Status: v1alpha1.ComponentStatus{Conditions: []metav1.Condition{
		condition(v1alpha1.ConditionEnforced, unknown, v1alpha1.ReasonNotObserved), condition(v1alpha1.ConditionSkew, yes, v1alpha1.ReasonProcessesDisagree),
	}}}, degraded, v1alpha1.ReasonProcessesDisagree)
	is(t, "settings are gone", "sluice.dev_Component", v1alpha1.Component{Status: v1alpha1.ComponentStatus{Conditions: []metav1.Condition{
		condition(v1alpha1.ConditionAccepted, no, v1alpha1.ReasonSettingsMissing),
	}}}, degraded, v1alpha1.ReasonSettingsMissing)
	is(t, "no status", "sluice.dev_Component", v1alpha1.Component{ObjectMeta: metav1.ObjectMeta{Generation: 1}}, progressing, "waiting")
}

// plugin is what argocd-cmp-server reads (argoproj/argo-cd cmpserver/plugin/config.go), as far as the file has it.
type plugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Discover struct {
			FileName string `json:"fileName"`
		} `json:"discover"`
		Generate struct {
			Command []string `json:"command"`
			Args    []string `json:"args"`
		} `json:"generate"`
	} `json:"spec"`
}

func readPlugin(t *testing.T) (p plugin) {
	t.Helper()
	text, err := os.ReadFile(argoCD + "plugin.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestArgoCDTakesThePlugin(t *testing.T) {
	p := readPlugin(t)
	if p.APIVersion != "argoproj.io/v1alpha1" || p.Kind != "ConfigManagementPlugin" || p.Metadata.Name == "" || len(p.Spec.Generate.Command) == 0 {
		t.Errorf("%+v", p)
	}
}
