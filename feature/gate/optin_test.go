package gate_test

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/component-base/featuregate"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/gate"
)

// typedWidget is an object as operators have them.
type typedWidget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Mode string `json:"mode,omitempty"`
	} `json:"spec"`
}

func widget(namespace, mode string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	if mode != "" {
		u.Object["spec"] = map[string]any{"mode": mode}
	}
	u.SetNamespace(namespace)
	return u
}

// TestOptingInReachesTheProcess: what a namespace or a user has opted in to is on for their objects, as the API server has it.
func TestOptingInReachesTheProcess(t *testing.T) {
	t.Parallel()
	labelled := func(gates ...string) map[string]map[string]string {
		labels := map[string]string{}
		for _, gate := range gates {
			labels["feature.sluice.dev/demo-op."+gate] = "enabled"
		}
		return map[string]map[string]string{"early": labels}
	}
	typed := &typedWidget{}
	typed.Spec.Mode = "fast"
	for name, tt := range map[string]struct {
		optIn      *v1alpha1.OptIn
		maxLevel   v1alpha1.Level
		namespaces map[string]map[string]string
		set        map[string]string
		gate       featuregate.Feature
		object     metav1.Object
		want       bool
	}{
		"a namespace with the label":                 {&v1alpha1.OptIn{NamespaceLabel: true}, "", labelled("FastPath"), nil, "FastPath", widget("early", ""), true},
		"a label with the name of the Feature":       {&v1alpha1.OptIn{NamespaceLabel: true}, "", map[string]map[string]string{"early": {"feature.sluice.dev/demo-op.fast-path": "enabled"}}, nil, "FastPath", widget("early", ""), true},
		"only what is allowed, and it is":            {&v1alpha1.OptIn{NamespaceLabel: true, OnlyAllowed: true}, "", labelled("FastPath"), map[string]string{"fast-path": "allowed"}, "FastPath", widget("early", ""), true},
		"only what is allowed, in the list":          {&v1alpha1.OptIn{NamespaceLabel: true, OnlyAllowed: true}, "", labelled("FastPath"), map[string]string{"feature-gates": " FastPath = allowed "}, "FastPath", widget("early", ""), true},
		"only what is allowed, and it is off":        {&v1alpha1.OptIn{NamespaceLabel: true, OnlyAllowed: true}, "", labelled("FastPath"), map[string]string{"fast-path": "false"}, "FastPath", widget("early", ""), false},
		"only what is allowed, nothing is said":      {&v1alpha1.OptIn{NamespaceLabel: true, OnlyAllowed: true}, "", labelled("FastPath"), nil, "FastPath", widget("early", ""), false},
		"allowed, without the label":                 {&v1alpha1.OptIn{NamespaceLabel: true, OnlyAllowed: true}, "", labelled(), map[string]string{"fast-path": "allowed"}, "FastPath", widget("early", ""), false},
		"allowed, where all can opt in":              {&v1alpha1.OptIn{NamespaceLabel: true}, "", labelled("FastPath"), map[string]string{"fast-path": "allowed"}, "FastPath", widget("early", ""), true},
		"another namespace":                          {&v1alpha1.OptIn{NamespaceLabel: true}, "", labelled("FastPath"), nil, "FastPath", widget("late", ""), false},
		"another feature":                            {&v1alpha1.OptIn{NamespaceLabel: true}, "", labelled("Slow"), nil, "FastPath", widget("early", ""), false},
		"an object of no namespace":                  {&v1alpha1.OptIn{NamespaceLabel: true}, "", labelled("FastPath"), nil, "FastPath", widget("", ""), false},
		"a component that lets no namespace opt in":  {&v1alpha1.OptIn{RBAC: true}, "", labelled("FastPath"), nil, "FastPath", widget("early", ""), false},
		"a component that lets nobody opt in":        {nil, "", labelled("FastPath"), nil, "FastPath", widget("early", ""), false},
		"beyond the component's maxLevel":            {&v1alpha1.OptIn{NamespaceLabel: true, RBAC: true}, "beta", labelled("Field"), nil, "Field", widget("early", "fast"), false},
		"a requirement that is off":                  {&v1alpha1.OptIn{NamespaceLabel: true}, "", labelled("Needy"), nil, "Needy", widget("early", ""), false},
		"a requirement that is opted in to":          {&v1alpha1.OptIn{NamespaceLabel: true}, "", labelled("Needy", "FastPath"), nil, "Needy", widget("early", ""), true},
		"a requirement that is on":                   {&v1alpha1.OptIn{NamespaceLabel: true}, "", labelled("Needy"), map[string]string{"fast-path": "true"}, "Needy", widget("early", ""), true},
		"a process that does not report the feature": {&v1alpha1.OptIn{NamespaceLabel: true}, "", labelled("Shared"), nil, "Shared", widget("early", ""), false},
		"a feature that is yet to come":              {&v1alpha1.OptIn{NamespaceLabel: true}, "", labelled("Later"), nil, "Later", widget("early", ""), false},
		"a user who was let use a part":              {&v1alpha1.OptIn{RBAC: true}, "", nil, nil, "Field", widget("late", "fast"), true},
		"the same as a Go type":                      {&v1alpha1.OptIn{RBAC: true}, "", nil, nil, "Field", typed, true},
		"an object that uses no part":                {&v1alpha1.OptIn{RBAC: true}, "", nil, nil, "Field", widget("late", ""), false},
		"a part where only namespaces opt in":        {&v1alpha1.OptIn{NamespaceLabel: true}, "", nil, nil, "Field", widget("late", "fast"), false},
		"behaviour where only users opt in":          {&v1alpha1.OptIn{RBAC: true}, "", nil, nil, "FastPath", widget("late", "fast"), false},
		"what is on for everybody":                   {nil, "", nil, map[string]string{"fast-path": "true"}, "FastPath", widget("late", ""), true},
		"a gate that is none":                        {&v1alpha1.OptIn{NamespaceLabel: true, RBAC: true}, "", labelled("No"), nil, "No", widget("early", "fast"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := demo()
			d.Spec.OptIn, d.Spec.MaxLevel = tt.optIn, tt.maxLevel
			g, err := gate.New(d, gate.Options{})
			if err != nil {
				t.Fatal(err)
			}
			g.SetNamespaces(func(_ context.Context, namespace string) (map[string]string, error) {
				return tt.namespaces[namespace], nil
			})
			g.Set(gate.ConfigMap, tt.set, "1")
			if got := g.EnabledFor(t.Context(), tt.gate, tt.object); got != tt.want {
				t.Errorf("%t, want %t", got, tt.want)
			}
			if tt.object.GetNamespace() != "" && tt.optIn != nil && !tt.optIn.RBAC {
				if got := g.EnabledIn(t.Context(), tt.gate, tt.object.GetNamespace()); got != tt.want {
					t.Errorf("in the namespace: %t, want %t", got, tt.want)
				}
			}
		})
	}
}

func TestAccessHasThreeStates(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		optIn *v1alpha1.OptIn
		gate  featuregate.Feature
		want  feature.Access
	}{
		"off":                       {nil, "FastPath", feature.Disabled},
		"off for who does not ask":  {&v1alpha1.OptIn{RBAC: true}, "FastPath", feature.Allowed},
		"off, requires what is off": {&v1alpha1.OptIn{NamespaceLabel: true}, "Needy", feature.Allowed},
		"on by default":             {nil, "Tuned", feature.Enabled},
		"locked":                    {&v1alpha1.OptIn{RBAC: true}, "Turbo", feature.Disabled},
		"yet to come":               {&v1alpha1.OptIn{RBAC: true}, "Later", feature.Disabled},
		"not reported":              {&v1alpha1.OptIn{RBAC: true}, "Shared", feature.Disabled},
		"not declared":              {&v1alpha1.OptIn{RBAC: true}, "No", feature.Disabled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := demo()
			d.Spec.OptIn = tt.optIn
			g, err := gate.New(d, gate.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := g.Access(tt.gate); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestAChangeOfAccessIsTold: a namespace that has opted in sees the difference between a feature that is off and one that is allowed.
func TestAChangeOfAccessIsTold(t *testing.T) {
	t.Parallel()
	d := demo()
	d.Spec.OptIn = &v1alpha1.OptIn{NamespaceLabel: true, OnlyAllowed: true}
	g, err := gate.New(d, gate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Begin(); err != nil {
		t.Fatal(err)
	}
	var told []featuregate.Feature
	g.OnChange(func(changed []featuregate.Feature) { told = append(told, changed...) })
	for _, step := range []struct {
		value  string
		access feature.Access
		told   int
	}{{"false", feature.Disabled, 0}, {"allowed", feature.Allowed, 1}, {"Allowed", feature.Allowed, 0}, {"true", feature.Enabled, 1}, {"enabled", feature.Enabled, 0}, {"allowed", feature.Allowed, 1}, {"disabled", feature.Disabled, 1}, {"Disabled", feature.Disabled, 0}} {
		told = nil
		g.Set(gate.ConfigMap, map[string]string{"fast-path": step.value}, "")
		if got := g.Access("FastPath"); got != step.access || len(told) != step.told {
			t.Errorf("%s: it is %s, want %s; told of %v", step.value, got, step.access, told)
		}
	}
}

func TestLabelsThatCannotBeReadOptNobodyIn(t *testing.T) {
	t.Parallel()
	d, log := demo(), &book{}
	d.Spec.OptIn = &v1alpha1.OptIn{NamespaceLabel: true}
	g, err := gate.New(d, log.options())
	if err != nil {
		t.Fatal(err)
	}
	g.SetNamespaces(func(context.Context, string) (map[string]string, error) { return nil, errors.New("no answer") })
	for range 2 {
		if g.EnabledIn(t.Context(), "FastPath", "early") {
			t.Error("it counts as one that has opted in")
		}
	}
	if lines := log.with("no answer"); len(lines) != 1 {
		t.Errorf("logged %d times: %v", len(lines), lines)
	}
	var heard []string
	stop := g.OnNamespaceChange(func(namespace string) { heard = append(heard, namespace) })
	g.NamespaceChanged("early")
	stop()
	g.NamespaceChanged("late")
	if len(heard) != 1 || heard[0] != "early" {
		t.Errorf("heard of %v", heard)
	}
}
