package features

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/tools/memapi"
)

// gatedCluster is a cluster with a controller of features, in a bubble whose time is the test's. It has a CRD whose field secret is
// gated, and settings. Whether policies are in force is simulated: the newest probe answers.
type gatedCluster struct {
	*testing.T

	api    *memapi.Server
	user   memapi.Client
	events chan string
}

const (
	gatedCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.acme.dev}
spec:
  group: acme.dev
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {secret: {type: string}, plain: {type: string}}}}}}`
	gatedComponent = "apiVersion: sluice.dev/v1alpha1\nkind: Component\nmetadata: {name: acme}\nspec: {release: v1.2.0, configMap: {namespace: acme-system, name: flags}}"
	gatedFeature   = `apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: acme.secret}
spec:
  component: acme
  gate: Secret
  stages: [{stage: Alpha, release: v1.0.0}]
  parts: [{group: acme.dev, resource: widgets, field: spec.secret}]`
	gatePolicy = "features.acme.widgets.acme.dev.reject.v1"
	noGates    = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: acme-system, name: flags}\ndata: {}"
)

func inGated(t *testing.T, test func(g *gatedCluster)) {
	t.Helper()
	inGatedBehind(t, func(next http.RoundTripper) http.RoundTripper { return next }, test)
}

// inGatedBehind is inGated with a transport between the controller and the API server.
func inGatedBehind(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper, test func(g *gatedCluster)) {
	t.Helper()
	memapi.Run(t, func(t *testing.T, api *memapi.Server) {
		api.Hook(func(c *memapi.Call) error {
			if c.Resource != "leases" || !c.DryRun {
				return nil
			}
			rules, _, _ := unstructured.NestedSlice(api.Get(validatingPolicies, "", probeName("acme")), "spec", "validations")
			for _, r := range rules {
				if rule, ok := r.(map[string]any); ok {
					text, _ := rule["message"].(string)
					c.Warn(text)
				}
			}
			return nil
		})
		g := &gatedCluster{t, api, api.As("user"), nil}
		for _, text := range []string{gatedCRD, noGates, gatedComponent, gatedFeature} {
			g.user.Put(text)
		}
		config := api.Config()
		config.Wrap(wrap)
		kube, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		crds, err := apiextensions.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		recorder := record.NewFakeRecorder(100)
		g.events = recorder.Events
		c := &Controller{
			Cluster:       Cluster{Config: config, Kube: kube, CRDs: crds, Namespace: "sluice-system", Log: slog.New(slog.DiscardHandler), Clock: clock.RealClock{}},
			UsageInterval: -1, Metrics: NewMetrics(prometheus.NewRegistry()), Recorder: recorder,
		}
		api.Start(func(ctx context.Context) error { return c.Run(ctx, func() {}) })
		memapi.After(time.Minute)
		test(g)
	})
}

func (g *gatedCluster) feature() *v1alpha1.Feature {
	g.Helper()
	f := &v1alpha1.Feature{}
	if !g.api.Into(featuresResource, "", "acme.secret", f) {
		g.Fatal("the feature is gone")
	}
	return f
}

// has fails the test unless a condition of the feature is so.
func (g *gatedCluster) has(condition string, status metav1.ConditionStatus, reason string) {
	g.Helper()
	c := meta.FindStatusCondition(g.feature().Status.Conditions, condition)
	if c == nil || c.Status != status || c.Reason != reason {
		g.Fatalf("%s is %+v, want %s %s", condition, c, status, reason)
	}
}

// policies names the policies of the component, without its probe.
func (g *gatedCluster) policies() []string {
	return slices.DeleteFunc(g.api.Names(validatingPolicies), func(name string) bool { return !strings.Contains(name, "acme") || name == probeName("acme") })
}

func (g *gatedCluster) tells(text string) {
	g.Helper()
	var got []string
	for len(g.events) > 0 {
		got = append(got, <-g.events)
	}
	if !slices.ContainsFunc(got, func(e string) bool { return strings.Contains(e, text) }) {
		g.Errorf("no event with %q in %q", text, got)
	}
}

// withoutMutating answers as an API server that serves no mutating policies. Discovery says so only from the time later on.
type withoutMutating struct {
	next  http.RoundTripper
	later time.Time
}

func (w *withoutMutating) RoundTrip(r *http.Request) (*http.Response, error) {
	const group = "/apis/admissionregistration.k8s.io/v1"
	of := func(code int, body any) (*http.Response, error) {
		data, err := json.Marshal(body)
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data)), Request: r}, err
	}
	if strings.HasPrefix(r.URL.Path, group+"/mutatingadmissionpol") {
		return of(http.StatusNotFound, metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
	}
	answer, err := w.next.RoundTrip(r)
	if err != nil || r.URL.Path != group || time.Now().Before(w.later) {
		return answer, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	var list metav1.APIResourceList
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
		return nil, err
	}
	list.APIResources = slices.DeleteFunc(list.APIResources, func(k metav1.APIResource) bool { return strings.HasPrefix(k.Name, "mutatingadmissionpol") })
	return of(http.StatusOK, list)
}

// TestAKindThatIsNoLongerServedHoldsNothingUp: an API server of another version answers after the question what it serves, as while
// several of them are upgraded. The controller asks again.
func TestAKindThatIsNoLongerServedHoldsNothingUp(t *testing.T) {
	// One of them sleeps until a moment after the last error, which was on the clock outside of the bubble.
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil
	defer func() { utilruntime.ErrorHandlers = handlers }()
	wrap := func(next http.RoundTripper) http.RoundTripper {
		return &withoutMutating{next, time.Now().Add(30 * time.Second)}
	}
	inGatedBehind(t, wrap, func(g *gatedCluster) {
		memapi.After(time.Minute)
		g.has(v1alpha1.ConditionEnforced, metav1.ConditionTrue, v1alpha1.ReasonEnforcedByPolicy)
	})
}

func TestAFeatureBecomesAPolicyThatIsSeenInForce(t *testing.T) {
	inGated(t, func(g *gatedCluster) {
		g.has(v1alpha1.ConditionAccepted, "True", v1alpha1.ReasonAccepted)
		g.has(v1alpha1.ConditionEnforced, "True", v1alpha1.ReasonEnforcedByPolicy)
		if !slices.Contains(g.policies(), gatePolicy) {
			g.Errorf("policies %q, want %s", g.policies(), gatePolicy)
		}
		if e := g.feature().Status.Enabled; e == nil || *e {
			g.Errorf("enabled %v, want false", e)
		}
		for _, c := range g.api.Writes() {
			if strings.HasPrefix(c.Resource, "validating") && (c.Verb != "apply" || c.Manager != Manager) {
				g.Errorf("%s, want an apply by %s", &c, Manager)
			}
		}
		memapi.After(time.Hour)
		for _, c := range g.api.Writes() {
			g.Errorf("%s, though nothing has changed", &c)
		}
	})
}

func TestAFlippedSettingIsToldAndChangesNoPolicy(t *testing.T) {
	inGated(t, func(g *gatedCluster) {
		g.api.Writes()
		g.user.Put(strings.Replace(noGates, "data: {}", `data: {feature-gates: "Secret=true"}`, 1))
		memapi.After(10 * time.Second)
		if e := g.feature().Status.Enabled; e == nil || !*e {
			g.Errorf("enabled %v, want true", e)
		}
		g.tells("Normal " + v1alpha1.EventOpened)
		g.user.Put(noGates)
		memapi.After(10 * time.Second)
		g.tells("Normal " + v1alpha1.EventClosed)
		for _, c := range g.api.Writes() {
			if strings.HasPrefix(c.Resource, "validating") {
				g.Errorf("%s, though policies read the settings themselves", &c)
			}
		}
	})
}

func TestPoliciesThatOthersTouchArePutBack(t *testing.T) {
	for name, touch := range map[string]func(g *gatedCluster, policy string){
		"deleted": func(g *gatedCluster, policy string) { g.user.Delete(validatingPolicies, "", policy) },
		"edited": func(g *gatedCluster, policy string) {
			g.user.Edit(validatingPolicies, "", policy, func(u *unstructured.Unstructured) {
				u.Object["spec"] = map[string]any{"failurePolicy": "Ignore"}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inGated(t, func(g *gatedCluster) {
				const policy = gatePolicy
				was := g.api.Get(validatingPolicies, "", policy)["spec"]
				touch(g, policy)
				memapi.After(time.Minute)
				is := g.api.Get(validatingPolicies, "", policy)
				if is == nil {
					g.Fatal("it stays deleted")
				}
				if !cmp.Equal(was, is["spec"]) {
					g.Errorf("its spec is %v, want %v", is["spec"], was)
				}
				g.tells("Warning " + v1alpha1.EventRestored)
				g.has(v1alpha1.ConditionEnforced, "True", v1alpha1.ReasonEnforcedByPolicy)
			})
		})
	}
}

func TestAComponentTakesItsPoliciesAlongAndBringsThemBack(t *testing.T) {
	inGated(t, func(g *gatedCluster) {
		g.user.Delete(componentsResource, "", "acme")
		memapi.After(time.Minute)
		if left := g.policies(); len(left) != 0 {
			g.Errorf("policies %q are left", left)
		}
		g.user.Put(gatedComponent)
		memapi.After(time.Minute)
		if !slices.Contains(g.policies(), gatePolicy) {
			g.Errorf("policies %q, want %s", g.policies(), gatePolicy)
		}
		g.has(v1alpha1.ConditionEnforced, "True", v1alpha1.ReasonEnforcedByPolicy)
	})
}

func TestSettingsThatAreDeletedArePutBack(t *testing.T) {
	inGated(t, func(g *gatedCluster) {
		g.user.Put(strings.Replace(noGates, "data: {}", `data: {feature-gates: "Secret=true"}`, 1))
		memapi.After(10 * time.Second)
		g.user.Delete("configmaps", "acme-system", "flags")
		memapi.After(time.Minute)
		data, _ := g.api.Get("configmaps", "acme-system", "flags")["data"].(map[string]any)
		if len(data) == 0 {
			g.Errorf("the settings are %v, want the last good ones", data)
		}
		g.tells("Warning " + v1alpha1.EventSettingsPutBack)
	})
}
