//go:build e2e

package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"sluice.dev/compat"
	"sluice.dev/internal/controller/guard"
	"sluice.dev/tools/kube"
)

func (g *guarded) isBypassed(t *testing.T) {
	unsafe := withSpecOf(t, upgrade+"v2-unsafe.yaml")
	next := g.changed(t, unsafe)
	digest, err := compat.SpecDigest(next)
	if err != nil {
		t.Fatal(err)
	}
	annotated := func(value string, change func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
		crd := g.changed(t, change)
		crd.Annotations = map[string]string{bypassedKey: value}
		return crd
	}
	update := func(user string, crd *apiextensionsv1.CustomResourceDefinition, o metav1.UpdateOptions, w *warned) error {
		_, err := g.as(user, w).ApiextensionsV1().CustomResourceDefinitions().Update(t.Context(), crd, o)
		return err
	}
	good := digest + ": nobody uses mariadb, see the survey"
	wants(t, update("bob", next, dryRun, nil), digest)
	wants(t, update("alice", annotated(good, unsafe), dryRun, nil), "alice may not bypass crdupgrades.sluice.dev")
	wants(t, update("bob", annotated(digest, unsafe), dryRun, nil), "gives no reason")
	wants(t, update("bob", annotated(strings.Repeat("0", 64)+": because", unsafe), dryRun, nil), "is for another change", digest)
	if err := update("bob", annotated(good, unsafe), dryRun, nil); err != nil {
		t.Error(err)
	}
	w := &warned{}
	if err := update("bob", annotated(good, unsafe), metav1.UpdateOptions{}, w); err != nil {
		t.Fatal(err)
	}
	if len(w.texts) < 2 || !strings.Contains(w.texts[0], "let through") {
		t.Errorf("warnings: %q", w.texts)
	}

	until(t, "the event", func() error {
		events, err := g.admin.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + guard.EventBypassed})
		if err != nil {
			return err
		}
		if len(events.Items) != 1 {
			return fmt.Errorf("%d events", len(events.Items))
		}
		if e := events.Items[0]; e.InvolvedObject.Name != databasesCRD || !strings.Contains(e.Message, "by bob") || !strings.Contains(e.Message, "see the survey") {
			t.Errorf("event %+v", e)
		}
		return nil
	})
	_, body := get(t, "http://"+g.process.listen+"/metrics")
	for _, line := range []string{
		`sluice_crd_guard_bypasses_total{operation="update"} 1`, `sluice_crd_guard_requests_total{operation="update",outcome="bypassed"} 2`,
	} {
		if !strings.Contains(body, line) {
			t.Errorf("no %s in the metrics", line)
		}
	}

	// The annotation is there now, but good for that spec only.
	wants(t, update("bob", g.changed(t, dropServed), dryRun, nil), "is for another change")
	if live, err := compat.SpecDigest(g.live(t, databasesCRD)); err != nil || live != digest {
		t.Errorf("the live spec has the digest %s, the manifest %s: %v", live, digest, err)
	}
	// Back, which the guard finds unsafe as well; what the annotation said before does not help.
	back := withSpecOf(t, upgrade+"v1.yaml")
	wants(t, update("bob", g.changed(t, back), dryRun, nil))
	digest, err = compat.SpecDigest(g.changed(t, back))
	if err != nil {
		t.Fatal(err)
	}
	if err := update("bob", annotated(digest+": back", back), metav1.UpdateOptions{}, nil); err != nil {
		t.Fatal(err)
	}
}

func (g *guarded) followsTheConfiguration(t *testing.T) {
	crds := g.as("alice", nil).ApiextensionsV1().CustomResourceDefinitions()
	if _, err := crds.Create(t.Context(), gauge("gauges", "Gauge", "guarded.example", ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const rule = `self.name.replace('ab', 'b').size() <= self.name.size()`
	update := func(w *warned) error {
		return g.update(t, "alice", "gauges.guarded.example", func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec = gauge("gauges", "Gauge", "guarded.example", rule).Spec
		}, dryRun, w)
	}
	wants(t, update(nil), "cannot be shown to be safe: 1 finding fails", "undecided, validation-rule-added")

	configs := g.admin.CoreV1().ConfigMaps("sluice-system")
	put := func(text string) {
		t.Helper()
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: guard.ConfigMap}, Data: map[string]string{guard.ConfigKey: text}}
		_, err := configs.Update(t.Context(), m, metav1.UpdateOptions{})
		if err != nil {
			_, err = configs.Create(t.Context(), m, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put("apiVersion: sluice.dev/v1alpha1\nkind: Config\nfailMode: open\n")
	w := &warned{}
	until(t, "the fail mode to be open", func() error { return update(w) })
	if len(w.texts) != 1 || !strings.Contains(w.texts[0], "validation-rule-added") {
		t.Errorf("warnings: %q", w.texts)
	}
	// A mistake is told, and changes nothing.
	put("apiVersion: sluice.dev/v1alpha1\nkind: Config\nfailMode: ajar\n")
	until(t, "an event about the mistake", func() error {
		events, err := g.admin.CoreV1().Events("sluice-system").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=InvalidConfiguration"})
		if err != nil || len(events.Items) == 0 {
			return fmt.Errorf("no event: %w", err)
		}
		return nil
	})
	if err := update(nil); err != nil {
		t.Error(err)
	}
	// Suppressions as check has them.
	put("apiVersion: sluice.dev/v1alpha1\nkind: Config\nsuppressions:\n- {rule: version-unserved, crd: " + databasesCRD + ", reason: nobody calls it}\n- {rule: served-version-removed, crd: " + databasesCRD + ", reason: nobody calls it}\n")
	until(t, "the suppression", func() error { return denied(update(nil)) })
	if err := configs.Delete(t.Context(), guard.ConfigMap, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the fail mode to be closed", func() error { return denied(update(nil)) })
}

// countsOwnersInRemovedVersions takes away a version in which an object was applied before it was retired.
func (g *guarded) countsOwnersInRemovedVersions(t *testing.T) {
	crd := gauge("relics", "Relic", "example.sluice.dev", "")
	retired := crd.Spec.Versions[0]
	retired.Name, retired.Storage, retired.Served = "v1alpha1", false, false
	crd.Spec.Versions = append(crd.Spec.Versions, retired)
	if _, err := g.as("alice", nil).ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r := dynamic.NewForConfigOrDie(g.cluster.Config()).Resource(schema.GroupVersionResource{Group: crd.Spec.Group, Version: "v1", Resource: crd.Spec.Names.Plural}).Namespace("default")
	var created *unstructured.Unstructured
	for _, name := range []string{"one", "two"} {
		until(t, "an apply", func() (err error) {
			created, err = r.Apply(t.Context(), name, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": crd.Spec.Group + "/v1", "kind": crd.Spec.Names.Kind, "metadata": map[string]any{"name": name}, "spec": map[string]any{"name": "a"},
			}}, metav1.ApplyOptions{FieldManager: "deployer"})
			return err
		})
	}
	fields := created.GetManagedFields()
	fields[0].APIVersion = crd.Spec.Group + "/v1alpha1"
	created.SetManagedFields(fields)
	if _, err := r.Update(t.Context(), created, metav1.UpdateOptions{FieldManager: "deployer"}); err != nil {
		t.Fatal(err)
	}
	wants(t, g.update(t, "alice", crd.Name, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions = crd.Spec.Versions[:1] }, dryRun, nil),
		"clients-broken, owners-in-removed-version, v1alpha1: 1 of 2 stored objects would be refused by every server-side apply", "sluice migrate "+crd.Name)
}

func (g *guarded) refusesDeletions(t *testing.T) {
	crds := g.as("alice", nil).ApiextensionsV1().CustomResourceDefinitions()
	err := crds.Delete(t.Context(), databasesCRD, metav1.DeleteOptions{})
	wants(t, err, "this deletion of "+databasesCRD+" is unsafe", "data-lost, crd-removed", "objects are stored", "for example default/")
	wants(t, crds.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "team=a"}), databasesCRD)

	// Who may write the status takes the conditions away by which a CRD is served. The API server's controllers look no further
	// where its names are accepted; where they are gone as well they put both right, and are waited for.
	forge := func(change func(*apiextensionsv1.CustomResourceDefinitionStatus)) {
		t.Helper()
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			forged := g.live(t, databasesCRD)
			for i := range forged.Status.Conditions {
				forged.Status.Conditions[i].Status = apiextensionsv1.ConditionFalse
			}
			change(&forged.Status)
			_, err := apiextensions.NewForConfigOrDie(g.cluster.Config()).ApiextensionsV1().CustomResourceDefinitions().UpdateStatus(t.Context(), forged, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	forge(func(*apiextensionsv1.CustomResourceDefinitionStatus) {})
	until(t, "the refusal", func() error { // while the API server still serves it, it is counted
		err := crds.Delete(t.Context(), databasesCRD, metav1.DeleteOptions{DryRun: dryRun.DryRun})
		wants(t, err, "crd-removed")
		if !strings.Contains(err.Error(), "taken away the conditions") {
			return err
		}
		return nil
	})
	forge(func(s *apiextensionsv1.CustomResourceDefinitionStatus) {
		s.AcceptedNames = apiextensionsv1.CustomResourceDefinitionNames{}
	})
	wants(t, crds.Delete(t.Context(), databasesCRD, metav1.DeleteOptions{DryRun: dryRun.DryRun}), "objects are stored")
	// Names that another CRD has: this one is never served, and goes.
	taken := gauge("takens", "Database", "example.sluice.dev", "")
	if _, err := crds.Create(t.Context(), taken, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the names to be refused", func() error {
		for _, c := range g.live(t, taken.Name).Status.Conditions {
			if c.Type == apiextensionsv1.NamesAccepted && c.Status == apiextensionsv1.ConditionFalse {
				return nil
			}
		}
		return errors.New("not yet")
	})
	if err := crds.Delete(t.Context(), taken.Name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("a CRD that was never served: %v", err)
	}

	// Without the permission to look nothing is decided, and the message says how to give it.
	other := gauge("others", "Other", "elsewhere.example", "")
	if _, err := crds.Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the refusal for want of permission", func() error {
		err := crds.Delete(t.Context(), other.Name, metav1.DeleteOptions{DryRun: dryRun.DryRun})
		if err == nil {
			return errors.New("not established yet")
		}
		wants(t, err, "undecided, crd-removed", "kubectl create clusterrole sluice-crd-guard-others.elsewhere.example --verb=list")
		return nil
	})

	// A CRD without objects goes, and one whose objects are gone.
	if err := crds.Delete(t.Context(), "gauges.guarded.example", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	resource := dynamic.NewForConfigOrDie(g.cluster.Config()).Resource(schema.GroupVersionResource{Group: "example.sluice.dev", Version: "v1", Resource: "databases"})
	one, err := resource.Namespace("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := resource.Namespace("default").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the CRD to be deletable", func() error {
		return crds.Delete(t.Context(), databasesCRD, metav1.DeleteOptions{DryRun: dryRun.DryRun})
	})
	// By the way around, with an object there.
	again := one.Items[0]
	fresh := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": again.GetAPIVersion(), "kind": again.GetKind(), "metadata": map[string]any{"name": again.GetName()}, "spec": again.Object["spec"],
	}}
	if _, err := resource.Namespace("default").Create(t.Context(), fresh, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	digest := compat.RemovalDigest(g.live(t, databasesCRD))
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%s: moved to another cluster"}}}`, bypassedKey, digest)
	if _, err := crds.Patch(t.Context(), databasesCRD, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	wants(t, crds.Delete(t.Context(), databasesCRD, metav1.DeleteOptions{DryRun: dryRun.DryRun}), "1 object is stored", "alice may not", digest)
	if err := g.as("bob", nil).ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), databasesCRD, metav1.DeleteOptions{DryRun: dryRun.DryRun}); err != nil {
		t.Error(err)
	}
}

// refusesWhatBreaksItsOwn takes the CRDs that Sluice installs; locksNobodyOut has what happens to such while the guard is down.
func (g *guarded) refusesWhatBreaksItsOwn(t *testing.T) {
	k, err := kube.New(g.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"../../config/chart/files/delivery.yaml", "../../config/chart/files/features.yaml", "../../config/chart/files/resolution.yaml"} {
		if err := k.Apply(t.Context(), file, false); err != nil {
			t.Fatal(err)
		}
	}
	own := func(err error, texts ...string) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"own.crd-guard.sluice.dev" denied`) {
			t.Errorf("not refused by the guard: %v", err)
			return
		}
		for _, text := range texts {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("no %q in: %v", text, err)
			}
		}
	}
	withoutSpec := func(crd *apiextensionsv1.CustomResourceDefinition) {
		for _, v := range crd.Spec.Versions {
			schema := v.Schema.OpenAPIV3Schema
			delete(schema.Properties, "spec")
			schema.Required, schema.XValidations = nil, nil
		}
	}
	crds := g.as("alice", nil).ApiextensionsV1().CustomResourceDefinitions()
	for _, name := range []string{"deliveries.sluice.dev", "features.sluice.dev", "components.sluice.dev", "resolutionrequests.resolution.tekton.dev"} {
		own(g.update(t, "alice", name, withoutSpec, dryRun, nil), "property-removed")
		own(g.update(t, "alice", name, dropServed, dryRun, nil), "clients-broken")
		// What is no harm passes.
		if err := g.update(t, "alice", name, func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Names.ShortNames = append(crd.Spec.Names.ShortNames, "mine"+crd.Spec.Names.Plural)
		}, dryRun, nil); err != nil {
			t.Errorf("%s with a short name: %v", name, err)
		}
		until(t, "the refusal for want of permission to look", func() error {
			err := crds.Delete(t.Context(), name, metav1.DeleteOptions{DryRun: dryRun.DryRun})
			if err == nil {
				return errors.New("not established yet")
			}
			own(err, "undecided, crd-removed", "--verb=list")
			return nil
		})
	}
	// Without the label it is judged as any other.
	const name = "features.sluice.dev"
	if _, err := crds.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":{"app.kubernetes.io/part-of":null}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	wants(t, g.update(t, "alice", name, dropServed, dryRun, nil), "clients-broken")
}

func (g *guarded) renewsItsCertificate(t *testing.T) {
	second := freeAddress(t)
	replica := g.serve(t, second, nil)
	leaf := func(address string) []byte {
		t.Helper()
		cert, err := certificateOf(t, address)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	old := leaf(g.address)
	if !bytes.Equal(old, leaf(second)) {
		t.Error("two replicas have different certificates")
	}
	if log := replica.stop(t); log != "" {
		t.Errorf("it complains: %s", log)
	}

	// Somebody else's certificate, in a folder.
	secret, err := g.admin.CoreV1().Secrets("sluice-system").Get(t.Context(), guard.TLSSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		writeFile(t, secret.Data[key], dir, key)
	}
	mounted := g.serve(t, second, func(f *guardFlags) { f.certDir = dir })
	if !bytes.Equal(old, leaf(second)) {
		t.Error("the mounted certificate is not served")
	}
	mounted.stop(t)

	// Without its Secret it makes another one. While that goes on nothing unsafe gets through.
	if err := g.admin.CoreV1().Secrets("sluice-system").Delete(t.Context(), guard.TLSSecret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "another certificate that the API server takes", func() error {
		_, err := g.as("alice", nil).ApiextensionsV1().CustomResourceDefinitions().Update(t.Context(), g.changed(t, dropServed), dryRun)
		if err == nil {
			t.Fatal("an unsafe update got through")
		}
		if bytes.Equal(old, leaf(g.address)) {
			return errors.New("still the old one")
		}
		return denied(err)
	})
}

func (g *guarded) locksNobodyOut(t *testing.T) {
	crds := g.as("", nil).ApiextensionsV1().CustomResourceDefinitions()
	own := gauge("widgets", "Widget", "sluice.dev", "")
	own.Labels = map[string]string{"app.kubernetes.io/part-of": "sluice"}
	if _, err := crds.Create(t.Context(), own, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ownUpdate := func() error {
		return g.update(t, "", own.Name, dropServed, dryRun, nil)
	}
	if err := ownUpdate(); err == nil || !strings.Contains(err.Error(), `"own.crd-guard.sluice.dev" denied`) {
		t.Errorf("Sluice's own CRD while the guard is up: %v", err)
	}

	g.process.stop(t)
	update := func() error {
		_, err := crds.Update(t.Context(), g.changed(t, withSpecOf(t, upgrade+"v2-unsafe.yaml")), dryRun)
		return err
	}
	if err := update(); err == nil || !strings.Contains(err.Error(), `failed calling webhook "crd-guard.sluice.dev"`) {
		t.Errorf("an unsafe update while it is down: %v", err)
	}
	if err := crds.Delete(t.Context(), databasesCRD, metav1.DeleteOptions{}); err == nil {
		t.Error("a deletion got through while it is down")
	}
	for name, patch := range map[string]string{
		databasesCRD:            `{"metadata":{"labels":{"team":"b"}}}`,
		bigCRDName:              `{"metadata":{"labels":{"team":"d"}}}`,
		"convs.guarded.example": `{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":null}}}}}`,
	} {
		if _, err := crds.Patch(t.Context(), name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Errorf("%s while it is down: %v", name, err)
		}
	}
	if err := ownUpdate(); err != nil {
		t.Errorf("Sluice's own CRD while it is down: %v", err)
	}
	if _, err := crds.Create(t.Context(), gauge("news", "New", "guarded.example", ""), metav1.CreateOptions{}); err != nil {
		t.Errorf("a new CRD while it is down: %v", err)
	}
	// The way out is always open.
	if err := g.admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), guard.Configuration, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "updates to pass", update)
}

func leafOf(ctx context.Context, conn net.Conn) ([]byte, error) {
	c := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return c.ConnectionState().PeerCertificates[0].Raw, nil
}

// judgesWhatAdmissionMakes has the API server change a CRD by a mutating policy: what the client sends is a label alone.
func (g *guarded) judgesWhatAdmissionMakes(t *testing.T) {
	const name = "mutateds.guarded.example"
	if _, err := g.as("", nil).ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), gauge("mutateds", "Mutated", "guarded.example", ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	policies, bindings := g.admin.AdmissionregistrationV1().MutatingAdmissionPolicies(), g.admin.AdmissionregistrationV1().MutatingAdmissionPolicyBindings()
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "serves-nothing"},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				ResourceNames: []string{name},
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apiextensions.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"customresourcedefinitions"}},
				},
			}}},
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType: admissionregistrationv1.PatchTypeJSONPatch,
				JSONPatch: &admissionregistrationv1.JSONPatch{Expression: `[JSONPatch{op: "replace", path: "/spec/versions/0/served", value: false}]`},
			}},
		},
	}
	if _, err := policies.Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := bindings.Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: policy.Name},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the policy to be in force, and its change to be refused", func() error {
		_, err := g.as("alice", nil).ApiextensionsV1().CustomResourceDefinitions().Patch(t.Context(), name, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"team":"b"}}}`), metav1.PatchOptions{DryRun: dryRun.DryRun})
		return denied(err)
	})
	if err := errors.Join(bindings.Delete(t.Context(), policy.Name, metav1.DeleteOptions{}), policies.Delete(t.Context(), policy.Name, metav1.DeleteOptions{})); err != nil {
		t.Fatal(err)
	}
}

// stopsAWholeApply has one CRD of several refused: sluice apply learns that from the dry run, before it writes any of them.
func (g *guarded) stopsAWholeApply(t *testing.T) {
	source := func(length int64) string {
		var out []string
		for i, kind := range []string{"First", "Second", "Third"} {
			crd := gauge(strings.ToLower(kind)+"s", kind, "several.example", "")
			crd.TypeMeta = metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}
			most := int64(40) // what gauge has
			if i == 1 {
				most = length
			} else if length != most {
				most = 80
			}
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["name"] = apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: &most}
			data, err := yaml.Marshal(crd)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(data))
		}
		return strings.Join(out, "---\n")
	}
	dir := t.TempDir()
	apply := func(want int, text string) string {
		t.Helper()
		writeFile(t, []byte(text), dir, "crds.yaml")
		code, out, errs := sluice(t, "apply", "--kubeconfig", g.cluster.Kubeconfig, "-n", "default", "--app", "several", "--preflight", "", "-f", filepath.Join(dir, "crds.yaml"))
		if code != want {
			t.Fatalf("exit code %d, want %d\n%s%s", code, want, out, errs)
		}
		return out + errs
	}
	apply(ExitOK, source(40))
	before := g.live(t, "firsts.several.example").Generation
	if said := apply(ExitFailed, source(20)); !strings.Contains(said, `"crd-guard.sluice.dev" denied`) || !strings.Contains(said, "max-length-lowered") || !strings.Contains(said, "seconds.several.example") {
		t.Errorf("sluice apply says: %s", said)
	}
	if after := g.live(t, "firsts.several.example").Generation; after != before {
		t.Error("another CRD of the source was changed")
	}
	apply(ExitOK, source(60))
	if after := g.live(t, "thirds.several.example").Generation; after == before {
		t.Error("the CRDs of a source that is safe were not changed")
	}
}
