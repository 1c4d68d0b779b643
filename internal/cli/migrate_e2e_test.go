//go:build e2e

package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"sluice.dev/internal/migrate"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/draws"
)

// fleet is a CRD Engine with objects.
type fleet struct {
	*world

	group, name string
	crds        apiextensions.Interface
	conversion  *apiextensionsv1.CustomResourceConversion
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	return fleetOf(newWorld(t))
}

func fleetOf(w *world) *fleet {
	t := w.t
	t.Helper()
	f := &fleet{world: w}
	f.group = f.namespace + ".example.com"
	f.name = "engines." + f.group
	var err error
	if f.crds, err = apiextensions.NewForConfig(f.Config()); err != nil {
		t.Fatal(err)
	}
	return f
}

// versionOf has the fields of spec, separated by spaces.
func versionOf(name, fields string, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
	for field := range strings.FieldsSeq(fields) {
		spec.Properties[field] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	}
	return apiextensionsv1.CustomResourceDefinitionVersion{
		Name: name, Served: true, Storage: storage,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
		}},
	}
}

// define creates the CRD, or gives it other versions.
func (f *fleet) define(versions ...apiextensionsv1.CustomResourceDefinitionVersion) {
	f.t.Helper()
	crds := f.crds.ApiextensionsV1().CustomResourceDefinitions()
	_, err := crds.Create(f.t.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: f.name}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: f.group, Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Engine", Plural: "engines"}, Versions: versions,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		f.change(func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions, crd.Spec.Conversion = versions, f.conversion
		})
	}
	until(f.t, "the versions to be served", func() error {
		for _, v := range versions {
			if _, err := f.in(v.Name).List(f.t.Context(), metav1.ListOptions{Limit: 1}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *fleet) change(by func(*apiextensionsv1.CustomResourceDefinition)) {
	f.t.Helper()
	until(f.t, "the CRD to be changed", func() error {
		crd := f.crd()
		by(crd)
		_, err := f.crds.ApiextensionsV1().CustomResourceDefinitions().Update(f.t.Context(), crd, metav1.UpdateOptions{})
		return err
	})
}

func (f *fleet) crd() *apiextensionsv1.CustomResourceDefinition {
	f.t.Helper()
	crd, err := f.crds.ApiextensionsV1().CustomResourceDefinitions().Get(f.t.Context(), f.name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return crd
}

func (f *fleet) in(version string) dynamic.ResourceInterface {
	return f.dynamic.Resource(schema.GroupVersionResource{Group: f.group, Version: version, Resource: "engines"}).Namespace(f.namespace)
}

func (f *fleet) engine(version string, i int, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": f.group + "/" + version, "kind": "Engine", "metadata": map[string]any{"name": nameOf(i), "namespace": f.namespace}, "spec": spec,
	}}
}

func nameOf(i int) string { return fmt.Sprintf("engine-%06d", i) }

func (f *fleet) applyEngine(version, manager string, i int, spec map[string]any) error {
	f.t.Helper()
	text, err := json.Marshal(f.engine(version, i, spec))
	if err != nil {
		return err
	}
	_, err = f.in(version).Patch(f.t.Context(), nameOf(i), types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: manager})
	return err
}

// each does something for n objects, several at once.
func (f *fleet) each(n int, do func(i int) error) {
	f.t.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	if err := group.Wait(); err != nil {
		f.t.Fatal(err)
	}
}

// contents has a hash of each object but for its version, resourceVersion and managedFields.
func (f *fleet) contents(version string) map[string][32]byte {
	f.t.Helper()
	out := map[string][32]byte{}
	o := metav1.ListOptions{Limit: 1000}
	for {
		list, err := f.in(version).List(f.t.Context(), o)
		if status, ok := errors.AsType[*apierrors.StatusError](err); ok && apierrors.IsResourceExpired(err) {
			o.Continue = status.ErrStatus.Continue // it goes on with a newer state
			continue
		}
		if err != nil {
			f.t.Fatal(err)
		}
		for i := range list.Items {
			item := &list.Items[i]
			item.SetAPIVersion("")
			item.SetResourceVersion("")
			item.SetManagedFields(nil)
			text, err := json.Marshal(item)
			if err != nil {
				f.t.Fatal(err)
			}
			out[item.GetName()] = sha256.Sum256(text)
		}
		if o.Continue = list.GetContinue(); o.Continue == "" {
			return out
		}
	}
}

func (f *fleet) sameContents(before, after map[string][32]byte) {
	f.t.Helper()
	if len(before) != len(after) {
		f.t.Errorf("%d objects of %d are there", len(after), len(before))
	}
	for name, hash := range before {
		if after[name] != hash {
			f.t.Errorf("%s has changed", name)
			return
		}
	}
}

func (f *fleet) migrate(want int, args ...string) migrate.Result {
	f.t.Helper()
	code, out, errs := sluice(f.t, append([]string{"migrate", "--kubeconfig", f.Kubeconfig, "-o", "json", f.name}, args...)...)
	var r struct{ CRDs []migrate.Result }
	if err := json.Unmarshal([]byte(out), &r); code != want || err != nil || len(r.CRDs) != 1 {
		f.t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errs)
	}
	return r.CRDs[0]
}

func (f *fleet) storedVersionsAre(want ...string) {
	f.t.Helper()
	crd := f.crd()
	if got := crd.Status.StoredVersions; !slices.Equal(got, want) {
		f.t.Errorf("status.storedVersions is %v, want %v", got, want)
	}
	has := slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool { return c.Type == migrate.Condition })
	if len(want) == 1 && has {
		f.t.Errorf("the state is left: %v", crd.Status.Conditions)
	}
}

// v1beta1 is stored, v1 comes with a conversion, the objects are migrated, v1beta1 goes, and each object can still be applied.
func TestE2EAMigratedVersionCanBeRemoved(t *testing.T) {
	for _, c := range []struct {
		name, newField string
		webhook        bool
	}{{"no conversion", "engine", false}, {"a webhook that renames a field", "kind", true}} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t)
			v1beta1 := "engine size"
			f.define(versionOf("v1beta1", v1beta1, true))
			const n = 20
			f.each(n, func(i int) error {
				if err := f.applyEngine("v1beta1", "kubectl", i, map[string]any{"engine": "mysql"}); err != nil {
					return err
				}
				return f.applyEngine("v1beta1", "other", i, map[string]any{"size": "large"})
			})
			if c.webhook {
				f.conversion = renames(t, f.group, "engine", c.newField)
			}
			f.define(versionOf("v1beta1", v1beta1, false), versionOf("v1", c.newField+" size", true))
			// One object is in the new version already, where another manager has fields in both versions.
			if _, err := f.in("v1").Patch(t.Context(), nameOf(0), types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{FieldManager: "both"}); err != nil {
				t.Fatal(err)
			}
			if _, err := f.in("v1beta1").Patch(t.Context(), nameOf(0), types.MergePatchType, []byte(`{"metadata":{"labels":{"c":"d"}}}`), metav1.PatchOptions{FieldManager: "both"}); err != nil {
				t.Fatal(err)
			}
			before := f.contents("v1")
			f.storedVersionsAre("v1beta1", "v1")
			if r := f.migrate(ExitOK, "--dry-run"); r.Outcome != migrate.Tried || r.Written != n || r.Owners != n || !slices.Equal(r.Trimmed, []string{"v1beta1"}) {
				t.Errorf("%+v", r)
			}
			f.storedVersionsAre("v1beta1", "v1")
			if r := f.migrate(ExitOK); r.Outcome != migrate.Migrated || r.Written != n || r.Owners != n {
				t.Errorf("%+v", r)
			}
			f.storedVersionsAre("v1")
			f.sameContents(before, f.contents("v1"))
			if r := f.migrate(ExitOK); r.Outcome != migrate.Current || r.Objects != n {
				t.Errorf("another run: %+v", r)
			}
			f.conversion = nil
			f.define(versionOf("v1", c.newField+" size", true))
			f.sameContents(before, f.contents("v1"))
			f.each(n, func(i int) error {
				text, err := json.Marshal(f.engine("v1", i, map[string]any{c.newField: "postgres"}))
				if err != nil {
					return err
				}
				if _, errs, err := f.Kubectl(t, string(text), "apply", "--server-side", "-f", "-"); err != nil {
					return fmt.Errorf("%w: %s", err, errs)
				}
				return nil
			})
			// The owners are still the same: what a manager leaves out goes, and what another one has stays.
			if err := f.applyEngine("v1", "other", 1, map[string]any{}); err != nil {
				t.Fatal(err)
			}
			got, err := f.in("v1").Get(t.Context(), nameOf(1), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if spec := got.Object["spec"]; fmt.Sprint(spec) != fmt.Sprint(map[string]any{c.newField: "postgres"}) {
				t.Errorf("the spec is %v", spec)
			}
			both, err := f.in("v1").Patch(t.Context(), nameOf(0), types.MergePatchType, []byte(`{}`), metav1.PatchOptions{FieldManager: "both"})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range both.GetManagedFields() {
				if e.Manager == "both" && (!strings.Contains(e.FieldsV1.GetRawString(), "f:a") || !strings.Contains(e.FieldsV1.GetRawString(), "f:c")) {
					t.Errorf("the fields of a manager with entries in both versions are %s", e.FieldsV1)
				}
			}
		})
	}
}

// renames is a conversion whose webhook renames a field of spec from v1beta1 to v1.
func renames(t *testing.T, group, old, in string) *apiextensionsv1.CustomResourceConversion {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review apiextensionsv1.ConversionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		from, to := old, in
		if review.Request.DesiredAPIVersion == group+"/v1beta1" {
			from, to = in, old
		}
		review.Response = &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
		for _, raw := range review.Request.Objects {
			u := &unstructured.Unstructured{}
			if err := u.UnmarshalJSON(raw.Raw); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			u.SetAPIVersion(review.Request.DesiredAPIVersion)
			if value, ok, _ := unstructured.NestedString(u.Object, "spec", from); ok {
				unstructured.RemoveNestedField(u.Object, "spec", from)
				_ = unstructured.SetNestedField(u.Object, value, "spec", to)
			}
			review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Object: u})
		}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ConversionReviewVersions: []string{"v1"}, ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &server.URL, CABundle: ca},
	}}
}

// Nothing is trimmed while an object is refused, and nothing is written that would lose fields.
func TestE2EAMigrationNamesWhatItCannotWrite(t *testing.T) {
	f := newFleet(t)
	f.define(versionOf("v1beta1", "engine", true))
	f.each(10, func(i int) error { return f.applyEngine("v1beta1", "kubectl", i, map[string]any{"engine": "mysql"}) })
	f.define(versionOf("v1beta1", "engine", false), versionOf("v1", "", true))
	r := f.migrate(ExitFindings)
	if r.Outcome != migrate.Lossy || r.Refused != 10 || len(r.Refusals) != 10 || !strings.Contains(r.Refusals[0].Reason, "version v1 does not have spec.engine") {
		t.Errorf("%+v", r)
	}
	// What nobody can read is not rewritten either.
	hidden := versionOf("v1beta1", "engine", false)
	hidden.Served = false
	f.change(func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{hidden, versionOf("v1", "", true)}
	})
	if code, _, errs := sluice(t, "migrate", "--kubeconfig", f.Kubeconfig, f.name); code != ExitFailed || !strings.Contains(errs, "set served: true for v1beta1") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	f.define(versionOf("v1beta1", "engine", false), versionOf("v1", "engine", true))
	before := f.contents("v1")
	_, errs, err := f.Kubectl(t, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [%[2]s], apiVersions: ["*"], resources: [engines], operations: [UPDATE]}]}
  validations: [{expression: "object.metadata.name != 'engine-000003'", message: engine 3 is not to be touched}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, f.namespace, f.group), "apply", "-f", "-")
	if err != nil {
		t.Fatal(err, errs)
	}
	t.Cleanup(func() {
		_, _, _ = f.Kubectl(t, "", "delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", f.namespace)
	})
	until(t, "the policy to be in force", func() error {
		if code, out, _ := sluice(t, "migrate", "--kubeconfig", f.Kubeconfig, f.name, "--dry-run"); code != ExitFindings {
			return errors.New(out)
		}
		return nil
	})
	r = f.migrate(ExitFindings)
	want := []migrate.Refusal{{Object: f.namespace + "/engine-000003", Reason: r.Refusals[0].Reason}}
	if r.Outcome != migrate.Refused || r.Written != 9 || len(r.Trimmed) != 0 || !slices.Equal(r.Refusals, want) || !strings.Contains(want[0].Reason, "engine 3 is not to be touched") {
		t.Errorf("%+v", r)
	}
	f.storedVersionsAre("v1beta1", "v1")
	f.sameContents(before, f.contents("v1"))
	if _, errs, err := f.Kubectl(t, "", "delete", "validatingadmissionpolicybinding", f.namespace); err != nil {
		t.Fatal(err, errs)
	}
	until(t, "the policy to be gone", func() error {
		code, _, errs := sluice(t, "migrate", "--kubeconfig", f.Kubeconfig, f.name)
		if code != ExitOK {
			return fmt.Errorf("exit code %d: %s", code, errs)
		}
		return nil
	})
	f.storedVersionsAre("v1")
}

// peakMemory is the most resident memory that a running process had, in KiB. What the system tells of a process that has ended counts the
// memory of the one that started it too.
func peakMemory(t *testing.T, cmd *exec.Cmd) (kib int64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscanf(rest, "%d kB", &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}

// A migration that is killed five times writes each object once, and trims only in the end.
func TestE2EAKilledMigrationContinues(t *testing.T) {
	n, kills := 2000, 2
	if draws.All() {
		n, kills = 100_000, 5
	}
	f := newFleet(t)
	f.define(versionOf("v1beta1", "engine note", true))
	begun := time.Now()
	f.each(n, func(i int) error {
		if i%10 == 0 {
			return f.applyEngine("v1beta1", "kubectl", i, map[string]any{"engine": "mysql", "note": strings.Repeat("x", 300)})
		}
		_, err := f.in("v1beta1").Create(t.Context(), f.engine("v1beta1", i, map[string]any{"engine": "mysql", "note": strings.Repeat("y", 300)}), metav1.CreateOptions{})
		return err
	})
	t.Logf("%d objects created in %s", n, time.Since(begun))
	f.define(versionOf("v1beta1", "engine note", false), versionOf("v1", "engine note", true))
	before := f.contents("v1")
	program, err := exec.LookPath("sluice")
	if err != nil {
		t.Fatal(err)
	}
	start := func(flags ...string) (*exec.Cmd, *bytes.Buffer) {
		out := &bytes.Buffer{}
		cmd := exec.CommandContext(t.Context(), program, append(flags, "migrate", f.name, "--kubeconfig", f.Kubeconfig, "-o", "json")...)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, out
	}
	var most int64
	for k := 1; k <= kills; k++ {
		name := nameOf(k * n / (kills + 1))
		object, err := f.in("v1").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		begun = time.Now()
		cmd, out := start("--rate", strconv.Itoa(n/(kills+1)/5)) // seconds are left for the kill after the last of these objects
		err = clustertest.Until(t.Context(), time.Hour, "an object to be written", func(ctx context.Context) error {
			now, err := f.in("v1").Get(ctx, name, metav1.GetOptions{})
			if err == nil && now.GetResourceVersion() == object.GetResourceVersion() {
				err = fmt.Errorf("%s is still the same", name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, peakMemory(t, cmd))
		if err := cmd.Process.Kill(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		_ = cmd.Wait()
		t.Logf("killed at %s after %s", name, time.Since(begun))
		f.storedVersionsAre("v1beta1", "v1")
	}
	// Somebody deletes objects meanwhile.
	stop, cancel := context.WithCancel(t.Context())
	changed := map[string]bool{}
	var others errgroup.Group
	others.Go(func() error {
		for i := n - 1; i > n/2 && stop.Err() == nil; i-- {
			changed[nameOf(i)] = true
			if err := f.in("v1").Delete(stop, nameOf(i), metav1.DeleteOptions{}); err != nil && stop.Err() == nil {
				return err
			}
		}
		return nil
	})
	begun = time.Now()
	cmd, out := start()
	err = cmd.Wait()
	took := time.Since(begun)
	cancel()
	if e := others.Wait(); err != nil || e != nil {
		t.Fatal(err, e, out)
	}
	var r struct{ CRDs []migrate.Result }
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err, out)
	}
	last := r.CRDs[0]
	t.Logf("the last run took %s: %+v; peak memory %d KiB", took, last, most)
	if last.Earlier < int64(n*kills/(kills+1)-1000) || last.Written == 0 {
		t.Errorf("the last run did not continue: %+v", last)
	}
	if most > 160<<10 {
		t.Errorf("a run needed %d KiB", most)
	}
	f.storedVersionsAre("v1")
	f.define(versionOf("v1", "engine note", true))
	after := f.contents("v1")
	for name := range changed {
		delete(before, name)
		delete(after, name)
	}
	f.sameContents(before, after)
	for i := 0; i < n/2; i += max(10, n/1000/10*10) {
		if err := f.applyEngine("v1", "kubectl", i, map[string]any{"engine": "postgres"}); err != nil {
			t.Fatal(err)
		}
	}
}

// A migration during which somebody changes the CRD takes no version out, and the next one does.
func TestE2EACRDChangedDuringAMigration(t *testing.T) {
	backToOld := func(f *fleet) {
		f.define(versionOf("v1beta1", "engine", true), versionOf("v1", "engine", false))
	}
	for name, change := range map[string]func(*fleet){
		"a field is added": func(f *fleet) {
			f.define(versionOf("v1beta1", "engine", false), versionOf("v1", "engine note", true))
		},
		"the old version is stored for a moment": func(f *fleet) {
			backToOld(f)
			if err := f.applyEngine("v1beta1", "kubectl", 0, map[string]any{"engine": "late"}); err != nil {
				f.t.Error(err)
			}
			f.define(versionOf("v1beta1", "engine", false), versionOf("v1", "engine", true))
		},
		"the old version is stored again": backToOld,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			f.define(versionOf("v1beta1", "engine", true))
			const n = 100
			f.each(n, func(i int) error { return f.applyEngine("v1beta1", "kubectl", i, map[string]any{"engine": "mysql"}) })
			f.define(versionOf("v1beta1", "engine", false), versionOf("v1", "engine", true))
			first, err := f.in("v1").Get(t.Context(), nameOf(0), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var code int
			var out, errs string
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				code, out, errs = sluice(t, "migrate", "--kubeconfig", f.Kubeconfig, f.name, "--rate", "20")
			}()
			until(t, "the first object to be written", func() error {
				now, err := f.in("v1").Get(t.Context(), nameOf(0), metav1.GetOptions{})
				if err == nil && now.GetResourceVersion() == first.GetResourceVersion() {
					err = errors.New("it is the same")
				}
				return err
			})
			change(f)
			<-ended
			if code != ExitFailed || !strings.Contains(errs, "the CRD was changed during the migration") {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
			f.storedVersionsAre("v1beta1", "v1")
			f.define(versionOf("v1beta1", "engine", false), versionOf("v1", "engine", true))
			f.migrate(ExitOK)
			f.storedVersionsAre("v1")
			f.define(versionOf("v1", "engine", true))
			if got := len(f.contents("v1")); got != n {
				t.Errorf("%d objects of %d are there", got, n)
			}
		})
	}
}

// What check counts is fixed: shown, written, applied.
func TestE2EHarmedObjectsAreFixed(t *testing.T) {
	f := newFleet(t)
	enum := func(values ...string) apiextensionsv1.CustomResourceDefinitionVersion {
		v := versionOf("v1", "engine size note", true)
		engine := apiextensionsv1.JSONSchemaProps{Type: "string"}
		for _, value := range values {
			engine.Enum = append(engine.Enum, apiextensionsv1.JSON{Raw: []byte(`"` + value + `"`)})
		}
		spec := v.Schema.OpenAPIV3Schema.Properties["spec"]
		spec.Properties["engine"] = engine
		return v
	}
	f.define(enum("mysql", "mariadb", "oracle"))
	f.each(6, func(i int) error {
		return f.applyEngine("v1", "kubectl", i, map[string]any{"engine": []string{"mysql", "mariadb", "oracle"}[i%3], "size": "large"})
	})
	next := f.crd()
	harming := enum("mysql")
	spec := harming.Schema.OpenAPIV3Schema.Properties["spec"]
	spec.Properties["note"] = apiextensionsv1.JSONSchemaProps{Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"none"`)}}
	spec.Properties["later"] = spec.Properties["note"] // it cannot be stored yet
	spec.Required = []string{"note"}
	harming.Schema.OpenAPIV3Schema.Properties["spec"] = spec
	next.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{harming}
	next.TypeMeta = metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}
	next.ObjectMeta = metav1.ObjectMeta{Name: next.Name}
	text, err := json.Marshal(next)
	if err != nil {
		t.Fatal(err)
	}
	file, out := f.file("new.yaml", string(text)), f.dir+"/fixes"
	fix := func(want int, args ...string) string {
		t.Helper()
		code, stdout, stderr := sluice(t, append([]string{"fix", "--kubeconfig", f.Kubeconfig}, args...)...)
		if code != want {
			t.Fatalf("sluice fix %v: exit code %d\n%s%s", args, code, stdout, stderr)
		}
		return stdout
	}
	before := f.contents("v1")
	if got := fix(ExitFindings, file, "--map", ".spec.engine:mariadb=mysql", "--out", out); strings.Count(got, "engine: mysql") != 2 || strings.Count(got, "note: none") != 4 || strings.Contains(got, "later") || strings.Count(got, "still harmed") != 2 || strings.Contains(got, "size") {
		t.Errorf("%s", got)
	}
	f.sameContents(before, f.contents("v1"))
	// One object is changed by somebody else after that.
	if _, err := f.in("v1").Patch(t.Context(), nameOf(4), types.MergePatchType, []byte(`{"spec":{"size":"small"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := fix(ExitFindings, "--apply", out); !strings.Contains(got, nameOf(1)+".yaml: patched") || !strings.Contains(got, nameOf(4)+".yaml: not patched: somebody has changed the object") {
		t.Errorf("%s", got)
	}
	again := f.dir + "/again"
	fix(ExitOK, file, "--map", ".spec.engine:mariadb=mysql", "--map", ".spec.engine:oracle=mysql", "--out", again)
	if got := fix(ExitOK, "--apply", again); strings.Count(got, ": patched") != 3 {
		t.Errorf("%s", got)
	}
	if got := fix(ExitOK, file); !strings.Contains(got, "no stored object is harmed") {
		t.Errorf("%s", got)
	}
	object, err := f.in("v1").Get(t.Context(), nameOf(4), metav1.GetOptions{})
	if err != nil || fmt.Sprint(object.Object["spec"]) != "map[engine:mysql note:none size:small]" {
		t.Errorf("%v %v", object, err)
	}
}

// The API server serves its own migrations. The test does what their controller does: it is not on by default.
func TestE2EAServersOwnMigrationIsUsed(t *testing.T) {
	c := clustertest.Start(t, clustertest.WithoutControllers(), clustertest.APIServerArg("runtime-config=storagemigration.k8s.io/v1beta1=true"),
		clustertest.APIServerArg("feature-gates=StorageVersionMigrator=true"))
	f := fleetOf(&world{Cluster: c, t: t, dir: t.TempDir(), namespace: "default", dynamic: dynamic.NewForConfigOrDie(c.Config())})
	f.define(versionOf("v1beta1", "engine", true))
	const n = 10
	f.each(n, func(i int) error { return f.applyEngine("v1beta1", "kubectl", i, map[string]any{"engine": "mysql"}) })
	f.define(versionOf("v1beta1", "engine", false), versionOf("v1", "engine", true))
	before := f.contents("v1")
	requests := f.dynamic.Resource(schema.GroupVersionResource{Group: "storagemigration.k8s.io", Version: "v1beta1", Resource: "storageversionmigrations"})
	var controller errgroup.Group
	controller.Go(func() error {
		return clustertest.Until(t.Context(), clustertest.Patience, "a request", func(ctx context.Context) error {
			list, err := requests.List(ctx, metav1.ListOptions{})
			if err != nil || len(list.Items) != 1 {
				return fmt.Errorf("%d requests: %w", len(list.Items), err)
			}
			for i := range n {
				if _, err := f.in("v1").Patch(ctx, nameOf(i), types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}); err != nil {
					return err
				}
			}
			status := map[string]any{"resourceVersion": "1", "conditions": []any{map[string]any{
				"type": "Succeeded", "status": "True", "reason": "StorageVersionMigrationSucceeded", "message": "", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
			}}}
			list.Items[0].Object["status"] = status
			_, err = requests.UpdateStatus(ctx, &list.Items[0], metav1.UpdateOptions{})
			return err
		})
	})
	r := f.migrate(ExitOK)
	if err := controller.Wait(); err != nil {
		t.Fatal(err)
	}
	if !r.ByServer || r.Written != n || r.Owners != n || len(r.Notes) != 0 {
		t.Errorf("%+v", r)
	}
	f.storedVersionsAre("v1")
	if list, err := requests.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("the request is left: %v %v", list, err)
	}
	f.define(versionOf("v1", "engine", true))
	f.sameContents(before, f.contents("v1"))
	if err := f.applyEngine("v1", "kubectl", 1, map[string]any{"engine": "postgres"}); err != nil {
		t.Error(err)
	}
}
