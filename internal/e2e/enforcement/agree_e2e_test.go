//go:build e2e

package enforcement

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/config"
	"sluice.dev/feature"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/draws"
	"sluice.dev/tools/featuregen"
)

// What is drawn: so many pairs of objects in each of so many worlds, each judged as a creation and as an update.
const (
	worlds       = 5
	pairsOfWorld = 600
	// byWebhook is how many of them go through the API server to the webhook too.
	byWebhook = 25
	user      = "gen-user"
)

// drawn is a world on the API server.
type drawn struct {
	*server
	trial  *featuregen.Trial
	things map[string]dynamic.ResourceInterface
	warned map[string]*clustertest.Warnings
	hook   *hook
	told   map[string]int
}

// pair is a stored object and one to write in its place.
type pair struct{ old, object map[string]any }

// TestE2EEvaluatorWebhookAndPoliciesAgree draws features, schemas, settings and objects, and has each pair of objects judged by
// the evaluator, by the policies on the API server and by the webhook.
func TestE2EEvaluatorWebhookAndPoliciesAgree(t *testing.T) {
	s := connect(t)
	crds, err := config.FeatureCRDs()
	if err != nil {
		t.Fatal(err)
	}
	s.applyYAML(string(crds))
	s.namespace("gen-system", nil)
	h := s.serve()
	told := map[string]int{}
	for seed := range uint64(worlds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 11))
			trial, err := featuregen.NewTrial(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			trial.Valid()
			w := &drawn{server: s.with(t), trial: trial, hook: h, told: told, things: map[string]dynamic.ResourceInterface{}, warned: map[string]*clustertest.Warnings{}}
			for _, v := range []string{"v1", "v2"} {
				w.things[v], w.warned[v] = s.as(user, schema.GroupVersionResource{Group: featuregen.Group, Version: v, Resource: featuregen.Resource}, "gen-system")
			}
			w.install()
			defer w.uninstall()
			w.judge(r)
		})
	}
	t.Logf("creations and updates in %d worlds: %v", worlds, told)
	for what, least := range map[string]int{
		byPolicies: 500, "by the webhook": 500, "by the webhook through the API server": 200,
		"refused": 50, "dropped": 25, "warned of": 25, "in v2": 120,
	} {
		if told[what] < least {
			t.Errorf("only %d are %s", told[what], what)
		}
	}
}

// install applies the kind, the settings, the component with its features, and what the user may do.
func (s *drawn) install() {
	crd := s.unstructured(s.trial.World.CRD)
	s.apply(crd)
	if err := s.objects.WaitServed(s.Context(), crd); err != nil {
		s.Fatal(err)
	}
	s.namespace("gen-system", s.trial.NamespaceLabels())
	s.settings("gen-system", s.trial.Settings)
	c := s.trial.World.Component.DeepCopy()
	c.APIVersion, c.Kind = v1alpha1.SchemeGroupVersion.String(), "Component"
	s.apply(s.unstructured(c))
	s.features()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{featuregen.Group}, Resources: []string{"*"}, Verbs: []string{"*"}}}}
	if names := s.trial.MayUse(); names != nil {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{"sluice.dev"}, Resources: []string{"features"}, ResourceNames: names, Verbs: []string{"use"}})
	}
	role.APIVersion, role.Kind = rbacv1.SchemeGroupVersion.String(), "ClusterRole"
	s.apply(s.unstructured(role))
	s.apply(s.unstructured(&rbacv1.ClusterRoleBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"}, ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}))
}

// features applies the features so that none which is bad in the end is good for a while, whoever looks in between: the
// webhook would keep what it said then. Those come with a requirement that is not there, which they lose when all are there.
func (s *drawn) features() {
	var bad []v1alpha1.Feature
	for _, f := range s.trial.World.Features {
		if s.trial.World.Model.Feature(f.Spec.Gate) != nil {
			s.apply(s.unstructured(&f))
		} else {
			bad = append(bad, f)
		}
	}
	for _, f := range bad {
		f.Spec.Requires = append(slices.Clone(f.Spec.Requires), "NotThere")
		s.apply(s.unstructured(&f))
	}
	for i := range bad {
		s.apply(s.unstructured(&bad[i]))
	}
}

func (s *drawn) uninstall() {
	ctx := context.WithoutCancel(s.Context())
	s.unregister()
	s.release("gen")
	err := s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("features")).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	err = errors.Join(err, s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("components")).Delete(ctx, "gen", metav1.DeleteOptions{}))
	if err := errors.Join(err, s.objects.DeleteCRD(ctx, s.trial.World.CRD.Name)); err != nil {
		s.Error(err)
	}
	until(s, "the webhook to forget the component", func(ctx context.Context) error { return s.hook.forgotten(ctx, "gen") })
}

// judge stores old objects, and has each judged by policies and by the webhook.
func (s *drawn) judge(r *rand.Rand) {
	var list []pair
	for i := range draws.Count(pairsOfWorld) {
		old, object := s.trial.Update(r)
		for _, o := range []map[string]any{old, object} {
			u := &unstructured.Unstructured{Object: o}
			u.SetName(fmt.Sprintf("x-%d", i))
			u.SetNamespace("gen-system")
		}
		var stored *unstructured.Unstructured
		until(s, "the user's rights", func(ctx context.Context) (err error) {
			u := (&unstructured.Unstructured{Object: old}).DeepCopy()
			if stored, err = s.things[versionOf(old)].Create(ctx, u, metav1.CreateOptions{}); err != nil && !apierrors.IsForbidden(err) {
				s.Fatalf("storing %s: %v", featuregen.Show(old), err)
			}
			return err
		})
		// It is written in a version of its own, in which it is read before.
		version := featuregen.Group + "/" + []string{"v1", "v1", "v2"}[r.IntN(3)]
		stored.SetAPIVersion(version)
		object["apiVersion"] = version
		list = append(list, pair{stored.Object, object})
	}
	s.enforce(s.trial.Set)
	s.settle("the policies", s.byServer)
	s.settle("the webhook", s.byHandler)
	for _, p := range list {
		fresh := (&unstructured.Unstructured{Object: p.object}).DeepCopy()
		fresh.SetName(fresh.GetName() + "-new")
		for _, q := range []pair{{nil, fresh.Object}, p} {
			s.count(q)
			s.agree(q, byPolicies, s.byServer)
			s.agree(q, "by the webhook", s.byHandler)
		}
	}
	s.release("gen")
	s.register()
	s.settle("the webhook to be asked", s.byServer)
	for _, p := range list[:byWebhook] {
		s.agree(p, "by the webhook through the API server", s.byServer)
		s.agree(pair{nil, p.object}, "by the webhook through the API server", func(ctx context.Context, p pair) (verdict, error) {
			u := (&unstructured.Unstructured{Object: p.object}).DeepCopy()
			u.SetName(u.GetName() + "-new")
			return s.byServer(ctx, pair{nil, u.Object})
		})
	}
}

// count notes what a pair is about.
func (s *drawn) count(p pair) {
	d := s.trial.Evaluate(p.old, p.object)
	if versionOf(p.object) == "v2" {
		s.told["in v2"]++
	}
	for what, v := range map[string]feature.Violations{"refused": d.Rejected, "dropped": d.Dropped, "warned of": d.Warned} {
		if v.Count > 0 {
			s.told[what]++
		}
	}
}

// verdict is what became of a request.
type verdict struct {
	refused  string // the message, empty if it passed
	spec     any    // that was written
	warnings string
	// warns tells whether warnings are among what is judged.
	warns bool
	// served tells whether the API server was asked, not the webhook's handler alone.
	served bool
}

// byServer has the API server judge a pair.
func (s *drawn) byServer(ctx context.Context, p pair) (v verdict, err error) {
	v.served = true
	u := (&unstructured.Unstructured{Object: p.object}).DeepCopy()
	version := versionOf(p.object)
	dry := []string{metav1.DryRunAll}
	s.warned[version].Take()
	var got *unstructured.Unstructured
	if p.old == nil {
		got, err = s.things[version].Create(ctx, u, metav1.CreateOptions{DryRun: dry})
	} else {
		u.SetResourceVersion((&unstructured.Unstructured{Object: p.old}).GetResourceVersion())
		got, err = s.things[version].Update(ctx, u, metav1.UpdateOptions{DryRun: dry})
	}
	v.warnings, v.warns = s.warned[version].Take(), !s.hook.registered
	switch {
	case err == nil:
		v.spec = got.Object["spec"]
	case apierrors.IsInvalid(err) && (strings.Contains(err.Error(), "AdmissionPolicy") || strings.Contains(err.Error(), "admission webhook")):
		v.refused, err = err.Error(), nil
	}
	// What else goes wrong is an error: that what mutates does not know the kind, which it learns a while after the CRD came.
	return v, err
}

// byHandler has the handler of the webhook judge a pair.
func (s *drawn) byHandler(ctx context.Context, p pair) (v verdict, err error) {
	message, object, err := s.hook.judge(ctx, "gen", user, p)
	return verdict{refused: message, spec: object["spec"]}, err
}

// tracked is the object of an update with the managed fields that the API server gives it before admission: that the version of the
// request wrote what changed, whatever is dropped afterwards.
func tracked(p pair) map[string]any {
	if p.old == nil || reflect.DeepEqual(p.old["spec"], p.object["spec"]) {
		return p.object
	}
	u := (&unstructured.Unstructured{Object: p.object}).DeepCopy()
	u.SetManagedFields(append((&unstructured.Unstructured{Object: p.old}).GetManagedFields(), metav1.ManagedFieldsEntry{
		Manager: "client", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: u.GetAPIVersion(), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`),
	}))
	return u.Object
}

// differ says how a verdict differs from what the evaluator says; nil if it does not.
func (s *drawn) differ(p pair, v verdict) error {
	object := p.object
	if v.served {
		object = tracked(p)
	}
	d := s.trial.Evaluate(p.old, object)
	if (v.refused == "") != d.Allowed() {
		return fmt.Errorf("the evaluator says %q, here it is %q", d.Message(), v.refused)
	}
	if v.refused != "" {
		if s.hook.registered && strings.Contains(v.refused, "AdmissionPolicy") {
			return fmt.Errorf("a policy is in force still: %s", v.refused)
		}
		return told(d.Rejected, v.refused)
	}
	want := d.Object
	if want == nil {
		want = p.object
	}
	if a, b := featuregen.Show(want["spec"]), featuregen.Show(v.spec); a != b {
		return fmt.Errorf("the evaluator writes %s, here it is %s", a, b)
	}
	if !v.warns {
		return nil
	}
	for what, list := range map[string]feature.Violations{"dropped ": d.Dropped, "": d.Warned} {
		for _, x := range list.List {
			if !strings.Contains(v.warnings, `"`+x.State.Feature.Spec.Gate+`"`) && !strings.Contains(v.warnings, " and more") {
				return fmt.Errorf("the evaluator warns of %s%s, the API server of %q", what, x.String(), v.warnings)
			}
		}
	}
	if d.Dropped.Count+d.Warned.Count == 0 && v.warnings != "" {
		return fmt.Errorf("the evaluator warns of nothing, the API server of %q", v.warnings)
	}
	return nil
}

// told checks that a refusal names places and gates. Where there are several policies only the first speaks.
func told(v feature.Violations, text string) error {
	_, message, ok := strings.Cut(text, "denied request: ")
	if !ok {
		_, message, ok = strings.Cut(text, "denied the request: ")
	}
	if !ok {
		message = text
	}
	message = strings.ReplaceAll(message, "\n", "; also ")
	got := map[string]bool{}
	if !featuregen.Told(got, message) {
		return nil
	}
	for _, x := range v.List {
		if got[x.State.Feature.Spec.Gate+" "+x.Path] {
			return nil
		}
	}
	return fmt.Errorf("the evaluator says %v, the message is %s", v.List, message)
}

// byPolicies says that the API server judges by policies alone.
const byPolicies = "by policies"

func (s *drawn) agree(p pair, by string, judge func(context.Context, pair) (verdict, error)) {
	s.Helper()
	s.told[by]++
	v, err := judge(s.Context(), p)
	if apierrors.IsServiceUnavailable(err) {
		until(s, "the kind to be known", func(ctx context.Context) error { v, err = judge(ctx, p); return err })
	}
	if err == nil {
		err = s.differ(p, v)
	}
	wrong := func() error {
		return fmt.Errorf("%s: %w\nold %s\nnew %s\nsettings %v, opted in to %v", by, err, featuregen.Show(p.old), featuregen.Show(p.object), s.trial.Settings, s.trial.OptedIn)
	}
	switch {
	case err == nil:
	case by != byPolicies:
		s.Fatal(wrong())
	default: // the objects that settle draws need not ask each policy: one may come into force after them
		until(s, "all policies to agree", func(ctx context.Context) error {
			if v, err = judge(ctx, p); err == nil {
				err = s.differ(p, v)
			}
			if err != nil {
				return wrong()
			}
			return nil
		})
	}
}

// settle waits until objects of all sorts are judged as they are to be: each policy comes into force when it comes.
func (s *drawn) settle(what string, judge func(context.Context, pair) (verdict, error)) {
	s.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	for range 30 {
		u := &unstructured.Unstructured{Object: s.trial.World.Object(r, false)}
		u.SetName("probe")
		u.SetNamespace("gen-system")
		until(s, what, func(ctx context.Context) error {
			v, err := judge(ctx, pair{nil, u.Object})
			if err != nil {
				return err
			}
			if err := s.differ(pair{nil, u.Object}, v); err != nil {
				return fmt.Errorf("%w\n%s", err, featuregen.Show(u.Object))
			}
			return nil
		})
	}
}

func versionOf(object map[string]any) string {
	v, _ := object["apiVersion"].(string)
	return strings.TrimPrefix(v, featuregen.Group+"/")
}
