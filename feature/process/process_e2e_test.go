//go:build e2e

package process_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/gate"
	"sluice.dev/feature/process"
	"sluice.dev/feature/skew"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/kube"
)

var shared clustertest.Shared

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// world is a namespace of a component, whose processes have the rights that the package asks for and no more.
type world struct {
	t         *testing.T
	admin     kubernetes.Interface
	dynamic   dynamic.Interface
	config    *rest.Config
	namespace string
}

func newWorld(t *testing.T, namespace string) *world {
	t.Helper()
	w := &world{t: t, config: shared.Get(t).Config(), namespace: namespace}
	var err error
	if w.admin, err = kubernetes.NewForConfig(w.config); err != nil {
		t.Fatal(err)
	}
	if w.dynamic, err = dynamic.NewForConfig(w.config); err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.RbacV1().Roles(namespace).Create(t.Context(), role(true), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "features"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "features"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "operator"}},
	}
	if _, err := w.admin.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	clustertest.AwaitRights(t, w.admin, namespace)
	w.config.Impersonate.UserName = "system:serviceaccount:" + namespace + ":operator"
	return w
}

// role has the rights of a process, those to read the settings or not.
func role(settings bool) *rbacv1.Role {
	r := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "features"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"sluice.dev"}, Resources: []string{"featurereports"}, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
	}}
	if settings {
		r.Rules = append(r.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"flags"}, Verbs: []string{"get", "list", "watch"}})
	}
	return r
}

func (w *world) declaration() gate.Declaration {
	alpha := []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}}
	return gate.Declaration{
		Name: "demo", Spec: v1alpha1.ComponentSpec{ConfigMap: &v1alpha1.ConfigMapReference{Namespace: w.namespace, Name: "flags"}},
		Features: []v1alpha1.FeatureSpec{
			{Gate: "FastPath", Stages: alpha},
			{Gate: "Slow", Stages: alpha, NeedsRestart: true},
			{Gate: "Shared", Stages: alpha, RequiredProcesses: []string{"webhook", "controller"}},
		},
	}
}

// running is a process of the test.
type running struct {
	*gate.Gates

	// end ends it, stop waits for it as well.
	end, stop func()
}

// start starts a process; stop ends it and waits.
func (w *world) start(name string, change func(*process.Options)) *running {
	w.t.Helper()
	return w.run(w.begin(name, change))
}

// begin has a process read its settings.
func (w *world) begin(name string, change func(*process.Options)) (*gate.Gates, *process.Process) {
	w.t.Helper()
	log := testr.NewWithOptions(w.t, testr.Options{})
	gates, err := gate.New(w.declaration(), gate.Options{Release: "v1.0.0", Logger: log.WithName(name)})
	if err != nil {
		w.t.Fatal(err)
	}
	o := process.Options{Process: name, Instance: name + "-0", Namespace: w.namespace, Release: "v1.0.0", Renew: time.Second, Logger: log.WithName(name)}
	if change != nil {
		change(&o)
	}
	p, err := process.New(w.config, gates, o)
	if err != nil {
		w.t.Fatal(err)
	}
	// What is set after this comes while the process runs.
	if err := p.Begin(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return gates, p
}

// run runs a process that has begun.
func (w *world) run(gates *gate.Gates, p *process.Process) *running {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Start(ctx); err != nil {
			w.t.Error(err)
		}
	})
	r := &running{Gates: gates, end: cancel, stop: sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})}
	w.t.Cleanup(r.stop)
	return r
}

// set writes the ConfigMap; nil deletes it.
func (w *world) set(data map[string]string) {
	w.t.Helper()
	maps := w.admin.CoreV1().ConfigMaps(w.namespace)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "flags"}, Data: data}
	var err error
	if data == nil {
		err = maps.Delete(w.t.Context(), "flags", metav1.DeleteOptions{})
	} else if _, err = maps.Update(w.t.Context(), cm, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
		_, err = maps.Create(w.t.Context(), cm, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) eventually(what string, condition func() error) {
	w.t.Helper()
	clustertest.Eventually(w.t, what, func(context.Context) error { return condition() })
}

// is waits until features are on or off.
func (w *world) is(r *running, what string, want map[featuregate.Feature]bool) {
	w.t.Helper()
	w.eventually(what, func() error {
		for name, on := range want {
			if r.Enabled(name) != on {
				return fmt.Errorf("%s is %t", name, !on)
			}
		}
		return nil
	})
}

func (w *world) reports() []v1alpha1.FeatureReport {
	w.t.Helper()
	list, err := w.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("featurereports")).Namespace(w.namespace).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var out []v1alpha1.FeatureReport
	for i := range list.Items {
		var r v1alpha1.FeatureReport
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &r); err != nil {
			w.t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// reported waits for a report of which check says nothing.
func (w *world) reported(what, name string, check func(r *v1alpha1.FeatureReport) error) {
	w.t.Helper()
	w.eventually(what, func() error {
		for _, r := range w.reports() {
			if r.Name == name {
				return check(&r)
			}
		}
		return fmt.Errorf("there is no report %s", name)
	})
}

func installReports(t *testing.T) {
	t.Helper()
	client, err := kube.New(shared.Get(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Apply(t.Context(), filepath.Join("..", "..", "config", "chart", "files", "features.yaml"), false); err != nil {
		t.Fatal(err)
	}
}

func TestE2ESettingsAreFollowedAndReported(t *testing.T) {
	w := newWorld(t, "settings")
	// There is no ConfigMap yet, and the cluster may know nothing of reports: that is the first test's business.
	owner := process.PodOwner("pod-0", "0d5c1f0e-0000-4000-8000-000000000000")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod-0"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}}}
	created, err := w.admin.CoreV1().Pods(w.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owner.UID = created.UID
	r := w.start("controller", func(o *process.Options) { o.Owner = owner })
	w.set(map[string]string{"fast-path": "true", "slow": "true"})
	w.is(r, "created", map[featuregate.Feature]bool{"FastPath": true, "Slow": false})

	installReports(t)
	const name = "demo.controller.controller-0"
	w.reported("once the kind is there", name, func(r *v1alpha1.FeatureReport) error {
		if len(r.OwnerReferences) != 1 || r.OwnerReferences[0].UID != created.UID {
			return fmt.Errorf("owners %v", r.OwnerReferences)
		}
		on := true
		r.Spec.Features[0].Why, r.Spec.Features[2].Why, r.Spec.Features[1].Why = "", "", ""
		want := []v1alpha1.ReportedFeature{{Gate: "FastPath", Enabled: true}, {Gate: "Shared"}, {Gate: "Slow", Pending: &on}}
		if diff := cmp.Diff(want, r.Spec.Features); diff != "" {
			return fmt.Errorf("features %s", diff)
		}
		return nil
	})
	w.set(map[string]string{"fast-pth": "true", "enable-api-fields": "betta"})
	w.reported("bad settings", name, func(r *v1alpha1.FeatureReport) error {
		if len(r.Spec.SettingsErrors) != 2 || !r.Spec.Features[0].Enabled || !strings.Contains(strings.Join(r.Spec.SettingsErrors, " "), `"fast-path"`) {
			return fmt.Errorf("%v, %v", r.Spec.SettingsErrors, r.Spec.Features)
		}
		return nil
	})
	if !r.Enabled("FastPath") {
		t.Error("the last good settings do not stay")
	}
	w.set(map[string]string{"fast-path": "false"})
	w.is(r, "changed", map[featuregate.Feature]bool{"FastPath": false})
	w.set(map[string]string{"fast-path": "true"})
	w.is(r, "changed back", map[featuregate.Feature]bool{"FastPath": true})
	w.set(nil)
	w.is(r, "deleted", map[featuregate.Feature]bool{"FastPath": false})
	w.reported("deleted", name, func(r *v1alpha1.FeatureReport) error {
		if r.Spec.SettingsVersion != "" || len(r.Spec.SettingsErrors) > 0 {
			return fmt.Errorf("version %q, errors %v", r.Spec.SettingsVersion, r.Spec.SettingsErrors)
		}
		return nil
	})

	// A restart takes everything in.
	w.set(map[string]string{"slow": "true"})
	r.stop()
	if left := w.reports(); len(left) != 0 {
		t.Errorf("after its end the process left %v", left)
	}
	again := w.start("controller", nil)
	w.is(again, "restarted", map[featuregate.Feature]bool{"Slow": true})
}

func TestE2EAFeatureWaitsForTheProcessesThatItNeeds(t *testing.T) {
	installReports(t)
	w := newWorld(t, "processes")
	w.set(map[string]string{"shared": "true"})
	controller := w.start("controller", nil)
	d := w.declaration()
	component, features := d.Objects()
	component.Spec.Release = "v1.0.0"
	model, findings := feature.Define(component, features, feature.Options{})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	settings, _ := model.ParseSettings(map[string]string{"shared": "true"})
	judged := func(reason, word string) {
		t.Helper()
		w.eventually(reason, func() error {
			c := skew.Judge(&skew.Input{Now: time.Now(), Model: model, Settings: settings, Reports: w.reports()}).Component
			if c.Reason != reason || !strings.Contains(c.Message, word) {
				return fmt.Errorf("%s: %s", c.Reason, c.Message)
			}
			return nil
		})
	}
	judged("ProcessesDisagree", "not reported by webhook")
	if controller.Enabled("Shared") {
		t.Error("on before the webhook runs")
	}
	webhook := w.start("webhook", nil)
	for _, r := range []*running{webhook, controller} {
		w.is(r, "both run", map[featuregate.Feature]bool{"Shared": true})
	}
	judged("ProcessesAgree", "2 processes")
	webhook.stop()
	w.is(controller, "the webhook has ended", map[featuregate.Feature]bool{"Shared": false})
	judged("ProcessesDisagree", "not reported by webhook")
}

func TestE2EAProcessWithoutRightsSaysSo(t *testing.T) {
	w := newWorld(t, "rights")
	w.config.Impersonate.UserName = "system:serviceaccount:rights:nobody"
	gates, err := gate.New(w.declaration(), gate.Options{Release: "v1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.New(w.config, gates, process.Options{Process: "controller", Instance: "x", Namespace: "rights"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Begin(t.Context()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "rights/flags") {
		t.Errorf("error %v", err)
	}
}

// TestE2EARenewalWritesTheTimeAlone, and what somebody else has made of a report is as it was again.
func TestE2EARenewalWritesTheTimeAlone(t *testing.T) {
	installReports(t)
	w := newWorld(t, "renewals")
	w.set(map[string]string{"fast-path": "true"})
	w.start("controller", nil)
	const name = "demo.controller.controller-0"
	var first metav1.Time
	w.reported("written", name, func(r *v1alpha1.FeatureReport) error {
		first = r.Spec.RenewTime
		return nil
	})
	renewed := func(what string) {
		t.Helper()
		w.reported(what, name, func(r *v1alpha1.FeatureReport) error {
			if !r.Spec.RenewTime.After(first.Time) {
				return fmt.Errorf("renewed at %s", r.Spec.RenewTime)
			}
			if len(r.Spec.Features) != 3 || r.Spec.Process != "controller" {
				return fmt.Errorf("it says %v", r.Spec)
			}
			for _, m := range r.ManagedFields {
				if m.Operation == metav1.ManagedFieldsOperationUpdate && m.Manager == "sluice-feature-report" {
					if diff := cmp.Diff(`{"f:spec":{"f:renewTime":{}}}`, m.FieldsV1.GetRawString()); diff != "" {
						return errors.New(diff)
					}
					first = r.Spec.RenewTime
					return nil
				}
			}
			return errors.New("it was written as a whole")
		})
	}
	renewed("renewed")
	client := w.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("featurereports")).Namespace(w.namespace)
	if _, err := client.Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"process":"other","features":null}}`), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	renewed("changed by somebody else")
	if err := client.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	renewed("deleted by somebody else")
}

// answerLate is a connection whose answers to writes of reports come late: written is closed once the server has stored one, and
// the process gets the answer after release is closed.
type answerLate struct {
	http.RoundTripper

	once              sync.Once
	written, released chan struct{}
}

func (a *answerLate) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.RoundTripper.RoundTrip(r)
	if err != nil || r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/featurereports/") {
		return resp, err
	}
	a.once.Do(func() { close(a.written) })
	<-a.released
	if r.Context().Err() != nil {
		return nil, errors.Join(r.Context().Err(), resp.Body.Close())
	}
	return resp, nil
}

// TestE2EAProcessThatEndsWhileItReports leaves no report, though it never heard that it wrote one.
func TestE2EAProcessThatEndsWhileItReports(t *testing.T) {
	installReports(t)
	w := newWorld(t, "ending")
	w.set(map[string]string{})
	late := &answerLate{written: make(chan struct{}), released: make(chan struct{})}
	w.config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		late.RoundTripper = rt
		return late
	})
	r := w.start("controller", nil)
	<-late.written
	if got := w.reports(); len(got) != 1 {
		t.Fatalf("%d reports", len(got))
	}
	r.end()
	close(late.released)
	r.stop()
	if got := w.reports(); len(got) != 0 {
		t.Errorf("%d reports are left", len(got))
	}
}

// TestE2ESettingsThatAreBadFromTheStart: a process takes the last good ones, where it may read them.
func TestE2ESettingsThatAreBadFromTheStart(t *testing.T) {
	installReports(t)
	w := newWorld(t, "start")
	components := w.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("components"))
	component := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "Component", "metadata": map[string]any{"name": "demo"}, "spec": map[string]any{"release": "v1.0.0"},
	}}
	created, err := components.Create(t.Context(), component, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := components.Delete(context.WithoutCancel(t.Context()), "demo", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	created.Object["status"] = map[string]any{"settings": map[string]any{"slow": "true"}}
	if _, err := components.UpdateStatus(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.set(map[string]string{"fast-path": "true", "slow": "ture"})

	r := w.start("controller", nil)
	if r.Enabled("FastPath") || r.Enabled("Slow") {
		t.Error("who may not read the Component takes more than the defaults")
	}
	const name = "demo.controller.controller-0"
	w.reported("bad settings", name, func(r *v1alpha1.FeatureReport) error {
		if len(r.Spec.SettingsErrors) != 1 || !strings.Contains(r.Spec.SettingsErrors[0], `"ture"`) || r.Spec.SettingsVersion == "" {
			return fmt.Errorf("version %q, errors %v", r.Spec.SettingsVersion, r.Spec.SettingsErrors)
		}
		return nil
	})
	r.stop()

	rules := []rbacv1.PolicyRule{{APIGroups: []string{"sluice.dev"}, Resources: []string{"components"}, ResourceNames: []string{"demo"}, Verbs: []string{"get"}}}
	if _, err := w.admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "start"}, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "start"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "start"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "start", Name: "operator"}},
	}
	if _, err := w.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	own := dynamic.NewForConfigOrDie(w.config).Resource(v1alpha1.SchemeGroupVersion.WithResource("components"))
	w.eventually("the right to read the Component", func() error {
		_, err := own.Get(t.Context(), "demo", metav1.GetOptions{})
		return err
	})
	r = w.start("controller", nil)
	if r.Enabled("FastPath") || !r.Enabled("Slow") {
		t.Error("the last good settings are not taken")
	}
	w.set(map[string]string{"fast-path": "true", "slow": "true"})
	w.is(r, "mended", map[featuregate.Feature]bool{"FastPath": true, "Slow": true})
	w.reported("mended", name, func(r *v1alpha1.FeatureReport) error {
		if r.Spec.SettingsErrors != nil {
			return fmt.Errorf("errors %v", r.Spec.SettingsErrors)
		}
		return nil
	})
}

// TestE2ESettingsThatMayNotBeReadAnyMore: they stay, and that is reported.
func TestE2ESettingsThatMayNotBeReadAnyMore(t *testing.T) {
	installReports(t)
	w := newWorld(t, "taken")
	w.set(map[string]string{"fast-path": "true"})
	gates, p := w.begin("controller", nil)
	roles := w.admin.RbacV1().Roles("taken")
	if _, err := roles.Update(t.Context(), role(false), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	own := kubernetes.NewForConfigOrDie(w.config).CoreV1().ConfigMaps("taken")
	w.eventually("the right is taken away", func() error {
		_, err := own.Get(t.Context(), "flags", metav1.GetOptions{})
		if err == nil {
			return errors.New("the settings can be read")
		}
		if !apierrors.IsForbidden(err) {
			return err
		}
		return nil
	})
	r := w.run(gates, p)
	const name = "demo.controller.controller-0"
	w.reported("taken away", name, func(r *v1alpha1.FeatureReport) error {
		if len(r.Spec.SettingsErrors) != 1 || !strings.Contains(r.Spec.SettingsErrors[0], "ConfigMap taken/flags cannot be watched") || !r.Spec.Features[0].Enabled {
			return fmt.Errorf("%v, %v", r.Spec.SettingsErrors, r.Spec.Features)
		}
		return nil
	})
	if !r.Enabled("FastPath") {
		t.Error("the settings do not stay")
	}
	if _, err := roles.Update(t.Context(), role(true), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.reported("given back", name, func(r *v1alpha1.FeatureReport) error {
		if r.Spec.SettingsErrors != nil {
			return fmt.Errorf("%v", r.Spec.SettingsErrors)
		}
		return nil
	})
	w.set(map[string]string{"fast-path": "false"})
	w.is(r, "changed afterwards", map[featuregate.Feature]bool{"FastPath": false})
}
