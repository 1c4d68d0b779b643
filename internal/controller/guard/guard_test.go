package guard

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	discoveryfake "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clientgotesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"sluice.dev/compat"
	"sluice.dev/internal/admission"
	"sluice.dev/internal/config"
	"sluice.dev/report"
)

const examples = "../../../examples/upgrade/"

// world is a guard and the cluster that it asks.
type world struct {
	*Guard
	kube     *fake.Clientset
	metadata *metadatafake.FakeMetadataClient
	// discovery has nothing unless a test puts it there.
	discovery *discoveryfake.FakeDiscovery
	events    chan string
	// reviewed are the questions who may bypass; mayBypass is the answer.
	reviewed  []authorizationv1.SubjectAccessReviewSpec
	mayBypass bool
	sarError  error
}

func newWorld(t testing.TB) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	events := make(chan string, 1000)
	w := &world{
		kube: fake.NewClientset(), metadata: metadatafake.NewSimpleMetadataClient(scheme), events: events,
		discovery: &discoveryfake.FakeDiscovery{Fake: &clientgotesting.Fake{}},
	}
	w.kube.PrependReactor("create", "subjectaccessreviews", func(a clientgotesting.Action) (bool, runtime.Object, error) {
		create, ok := a.(clientgotesting.CreateAction)
		if !ok {
			return false, nil, nil
		}
		review, ok := create.GetObject().(*authorizationv1.SubjectAccessReview)
		if !ok {
			return false, nil, nil
		}
		w.reviewed = append(w.reviewed, review.Spec)
		review.Status.Allowed = w.mayBypass
		return true, review, w.sarError
	})
	recorder := record.NewFakeRecorder(10)
	recorder.Events = events
	w.Guard = &Guard{
		Settings: &Settings{Rules: ruleIDs()}, Objects: Objects{Client: w.metadata, Discovery: w.discovery}, Kube: w.kube, Metrics: NewMetrics(prometheus.NewRegistry()),
		Recorder: recorder, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler),
		Requests: admission.NewIntake(2), Slots: make(chan struct{}, 1),
	}
	return w
}

func ruleIDs() (ids []string) {
	for _, r := range compat.Rules() {
		ids = append(ids, r.ID)
	}
	return ids
}

// stores says that n objects of the CRD are stored.
func (w *world) stores(n int64) {
	w.metadata.PrependReactor("list", "databases", func(clientgotesting.Action) (bool, runtime.Object, error) {
		list := &metav1.List{}
		if n > 0 {
			one := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders"}}
			list.Items = []runtime.RawExtension{{Object: one}}
		}
		if n > 1 {
			list.Continue, list.RemainingItemCount = "more", new(n-1)
		}
		return true, list, nil
	})
}

func (w *world) listFails(err error) {
	w.metadata.PrependReactor("list", "databases", func(clientgotesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

// live is the CRD of the examples as it stands in the cluster.
func live(t testing.TB, file string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	data, err := os.ReadFile(examples + file)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(data, crd); err != nil {
		t.Fatal(err)
	}
	crd.UID = "e1d0"
	crd.Status.StoredVersions = []string{"v1"}
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	return crd
}

func raw(t testing.TB, object any) runtime.RawExtension {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: data}
}

func updateOf(t testing.TB, old, next any) *admissionv1.AdmissionRequest {
	t.Helper()
	return &admissionv1.AdmissionRequest{
		UID: "u1", Name: "databases.example.sluice.dev", Operation: admissionv1.Update,
		Resource: metav1.GroupVersionResource{Group: apiextensionsv1.GroupName, Version: "v1", Resource: crdResource},
		UserInfo: authenticationv1.UserInfo{Username: "alice", UID: "7", Groups: []string{"dev"}, Extra: map[string]authenticationv1.ExtraValue{"scope": {"a"}}},
		Object:   raw(t, next), OldObject: raw(t, old),
	}
}

func deletionOf(t testing.TB, old any) *admissionv1.AdmissionRequest {
	t.Helper()
	r := updateOf(t, old, nil)
	r.Operation, r.Object = admissionv1.Delete, runtime.RawExtension{}
	return r
}

func (w *world) review(t testing.TB, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answer := w.Review(ctx, r)
	if answer.UID != r.UID {
		t.Errorf("the answer is for %q", answer.UID)
	}
	return answer
}

// said is the outcome and the message or the warnings of an answer.
func said(a *admissionv1.AdmissionResponse) (outcome, text string) {
	outcome, text = a.AuditAnnotations[auditOutcome], strings.Join(a.Warnings, "\n")
	if !a.Allowed {
		text = a.Result.Message
	}
	return outcome, text
}

func TestUpdatesAreJudgedByWhatTheyChange(t *testing.T) {
	v1 := live(t, "v1.yaml")
	from := func(file string, change func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
		crd := live(t, file)
		if change != nil {
			change(crd)
		}
		return crd
	}
	webhook := func(bundle, url string) *apiextensionsv1.CustomResourceDefinition {
		return from("v1.yaml", func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: []string{"v1"}, ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: []byte(bundle)},
			}}
		})
	}
	withWebhookAndVersion := func(d *apiextensionsv1.CustomResourceDefinition, storage bool) *apiextensionsv1.CustomResourceDefinition {
		v2 := *d.Spec.Versions[0].DeepCopy()
		v2.Name, v2.Storage = "v2", storage
		d.Spec.Versions[0].Storage = !storage
		d.Spec.Versions = append(d.Spec.Versions, v2)
		return d
	}
	unknown := map[string]any{"metadata": map[string]any{"name": v1.Name}}
	if err := json.Unmarshal(raw(t, v1).Raw, &unknown); err != nil {
		t.Fatal(err)
	}
	if spec, ok := unknown["spec"].(map[string]any); ok {
		spec["fieldOfTheFuture"] = true
	}
	for name, test := range map[string]struct {
		old, next     any
		change        func(*admissionv1.AdmissionRequest)
		allowed       bool
		outcome, want string
	}{
		"an unsafe one": {old: v1, next: from("v2-unsafe.yaml", nil), outcome: outcomeRefused, want: "is unsafe: 4 findings fail"},
		"a safe one":    {old: v1, next: from("v3-safe.yaml", nil), allowed: true, outcome: outcomeWarned, want: "enum-value-added"},
		"labels and annotations": {old: v1, allowed: true, next: from("v1.yaml", func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Labels, c.Annotations, c.Finalizers = map[string]string{"a": "b"}, map[string]string{"c": "d"}, []string{"example.com/e"}
		})},
		"a bundle put in":                        {old: webhook("", "https://a.example"), next: webhook("x", "https://a.example"), allowed: true},
		"a bundle renewed":                       {old: webhook("x", "https://a.example"), next: webhook("y", "https://a.example"), allowed: true},
		"a bundle taken out":                     {old: webhook("x", "https://a.example"), next: webhook("", "https://a.example"), allowed: true},
		"a conversion that is gone, unneeded":    {old: webhook("x", "https://a.example"), next: v1, allowed: true, outcome: outcomeSafe},
		"a webhook without work":                 {old: v1, next: webhook("", "https://a.example"), allowed: true, outcome: outcomeSafe},
		"a webhook, and another storage version": {old: v1, next: withWebhookAndVersion(webhook("", "https://a.example"), true), outcome: outcomeRefused, want: "conversion-strategy-changed"},
		"a webhook for a new version":            {old: v1, next: withWebhookAndVersion(webhook("", "https://a.example"), false), outcome: outcomeRefused, want: "webhook-conversion-added"},
		"another webhook":                        {old: withWebhookAndVersion(webhook("", "https://a.example"), false), next: withWebhookAndVersion(webhook("", "https://b.example"), false), outcome: outcomeRefused, want: "webhook-conversion-added"},
		"a field that nobody knows":              {old: v1, next: unknown, outcome: outcomeRefused, want: "does not know"},
		"a field of the status":                  {old: v1, next: from("v2-unsafe.yaml", nil), allowed: true, change: func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" }},
		"a new one":                              {old: v1, next: from("v2-unsafe.yaml", nil), allowed: true, change: func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Create }},
		"an operation that does not exist":       {old: v1, next: from("v2-unsafe.yaml", nil), allowed: true, change: func(r *admissionv1.AdmissionRequest) { r.Operation = "MELT" }},
		"another resource":                       {old: v1, next: from("v2-unsafe.yaml", nil), allowed: true, change: func(r *admissionv1.AdmissionRequest) { r.Resource.Resource = "pods" }},
		"nothing for an object":                  {old: v1, next: v1, outcome: outcomeError, want: "cannot be read", change: func(r *admissionv1.AdmissionRequest) { r.Object.Raw = nil }},
		"half an object":                         {old: v1, next: v1, outcome: outcomeError, want: "cannot be read", change: func(r *admissionv1.AdmissionRequest) { r.OldObject.Raw = []byte(`{"spec":{`) }},
		"an object without a spec":               {old: v1, next: map[string]any{}, outcome: outcomeError, want: "no spec"},
		"a spec that is a text":                  {old: v1, next: map[string]any{"spec": "x"}, outcome: outcomeError, want: "cannot be read"},
		"a schema that is a number":              {old: v1, next: map[string]any{"spec": map[string]any{"versions": []any{map[string]any{"schema": 1}}}}, outcome: outcomeRefused, want: "cannot be read"},
		"more schemas than etcd has room for":    {old: v1, next: map[string]any{"spec": map[string]any{"x": make([]struct{}, maxObjects)}}, outcome: outcomeRefused, want: "more than 100000"},
		"a schema deeper than any that is taken": {old: v1, next: runtime.RawExtension{Raw: deepCRD(500)}, outcome: outcomeRefused, want: "is unsafe"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.stores(0)
			r := updateOf(t, test.old, test.next)
			if test.change != nil {
				test.change(r)
			}
			answer := w.review(t, r)
			outcome, text := said(answer)
			if answer.Allowed != test.allowed || !strings.Contains(text, test.want) {
				t.Errorf("allowed: %v, saying %s", answer.Allowed, text)
			}
			if test.outcome != outcomeError && outcome != test.outcome {
				t.Errorf("outcome %q", outcome)
			}
			if len(w.Slots) != 0 {
				w.waitForSlots(t)
			}
		})
	}
}

func deepCRD(depth int) []byte {
	return []byte(`{"metadata":{"name":"databases.example.sluice.dev"},"spec":{"group":"example.sluice.dev","versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":` +
		strings.Repeat(`{"type":"object","properties":{"a":`, depth) + `{}` + strings.Repeat(`}}`, depth) + `}}]}}`)
}

func (w *world) waitForSlots(t testing.TB) {
	t.Helper()
	select {
	case w.Slots <- struct{}{}:
		<-w.Slots
	case <-time.After(time.Minute):
		t.Error("a slot is not given back")
	}
}

func TestARefusalCountsTheObjectsAndNamesTheWorstFirst(t *testing.T) {
	w := newWorld(t)
	w.stores(1204)
	answer := w.review(t, updateOf(t, live(t, "v1.yaml"), live(t, "v2-unsafe.yaml")))
	_, text := said(answer)
	digest, err := compat.SpecDigest(live(t, "v2-unsafe.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	last := -1
	for _, part := range []string{
		"this update of databases.example.sluice.dev is unsafe: 4 findings fail, 1204 objects are stored", "\n- data-lost, property-removed, v1 .spec.storage.tier",
		"effect: ", "sluice check NEW.yaml", annotation + `: "` + digest + `: REASON"`,
	} {
		at := strings.Index(text, part)
		if at <= last {
			t.Errorf("%q at %d of: %s", part, at, text)
		}
		last = at
	}
	// All of them, the worse before the less bad.
	var order, told []report.Level
	for _, l := range report.Levels() {
		order = append(order, l.ID)
	}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "- "); ok {
			level, _, _ := strings.Cut(rest, ",")
			told = append(told, report.Level(level))
		}
	}
	rank := func(a, b report.Level) int { return slices.Index(order, a) - slices.Index(order, b) }
	if len(told) != 4 || !slices.IsSortedFunc(told, rank) || told[0] == told[3] || slices.Contains(told, "") {
		t.Errorf("levels %q", told)
	}
	var causes []string
	for _, c := range answer.Result.Details.Causes {
		causes = append(causes, string(c.Type))
	}
	if diff := cmp.Diff("property-removed", causes[0]); diff != "" || len(causes) != 4 {
		t.Errorf("causes %q", causes)
	}
	if n := len(w.metadata.Actions()); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func (w *world) configure(t testing.TB, text string) {
	t.Helper()
	if err := w.Settings.Configure(map[string]string{ConfigKey: "apiVersion: sluice.dev/v1alpha1\nkind: Config\n" + text + "\n"}); err != nil {
		t.Fatal(err)
	}
}

func TestTheConfigurationDecidesWhatFails(t *testing.T) {
	unsafe := func(t *testing.T, w *world) *admissionv1.AdmissionResponse {
		w.stores(0)
		return w.review(t, updateOf(t, live(t, "v1.yaml"), live(t, "v2-unsafe.yaml")))
	}
	w := newWorld(t)
	w.configure(t, "mode: warn")
	if answer := unsafe(t, w); !answer.Allowed || len(answer.Warnings) < 4 {
		t.Errorf("%+v", answer)
	}
	w.configure(t, "suppressions:\n- {rule: '*', crd: databases.example.sluice.dev, reason: known, expires: 2001-01-01}")
	if answer := unsafe(t, w); answer.Allowed || strings.Contains(answer.Result.Message, config.RuleExpired) {
		t.Errorf("a suppression that has expired: %+v", answer)
	}
	for _, bad := range []map[string]string{
		{"other.yaml": ""},
		{ConfigKey: "kind: ["},
		{ConfigKey: "apiVersion: sluice.dev/v1alpha1\nkind: Config\nmode: maybe\n"},
		{ConfigKey: "apiVersion: kapp.k14s.io/v1alpha1\nkind: Config\npreflightRules:\n- name: PermissionValidation\n"},
	} {
		if err := w.Settings.Configure(bad); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
	w.configure(t, "rules: {property-removed: off, enum-value-removed: off, maximum-lowered: off, validation-rule-added: off}")
	if answer := unsafe(t, w); !answer.Allowed {
		t.Errorf("all that fails is off: %+v", answer)
	}
	if err := w.Settings.Configure(nil); err != nil {
		t.Fatal(err)
	}
	if answer := unsafe(t, w); answer.Allowed {
		t.Error("without a configuration it passes")
	}
}

func TestOneSpecCanBeLetThroughByAnnotationAndPermission(t *testing.T) {
	v2 := live(t, "v2-unsafe.yaml")
	digest, err := compat.SpecDigest(v2)
	if err != nil {
		t.Fatal(err)
	}
	good := digest + ": nobody\nuses it"
	for name, test := range map[string]struct {
		value   string
		may     bool
		err     error
		dryRun  bool
		allowed bool
		want    string
		asked   int
		event   bool
	}{
		"both":                      {value: good, may: true, allowed: true, want: "let through", asked: 1, event: true},
		"both, tried only":          {value: good, may: true, dryRun: true, allowed: true, want: "let through", asked: 1},
		"no permission":             {value: good, want: "alice may not bypass", asked: 1},
		"nobody to ask":             {value: good, may: true, err: errors.New("down"), want: "could not be asked: down", asked: 1},
		"another spec":              {value: strings.Repeat("0", 64) + ": x", may: true, want: "another change"},
		"no reason":                 {value: digest, may: true, want: "gives no reason"},
		"an empty reason":           {value: digest + ": \x00 ", may: true, want: "gives no reason"},
		"part of the digest":        {value: digest[:63] + ": x", may: true, want: "another change"},
		"a very long annotation":    {value: strings.Repeat("x", 200_000), may: true, want: "another change"},
		"nothing in the annotation": {value: "", may: true, want: "another change"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.stores(0)
			w.mayBypass, w.sarError = test.may, test.err
			next := v2.DeepCopy()
			next.Annotations = map[string]string{annotation: test.value}
			r := updateOf(t, live(t, "v1.yaml"), next)
			r.DryRun = &test.dryRun
			answer := w.review(t, r)
			_, text := said(answer)
			if answer.Allowed != test.allowed || !strings.Contains(text, test.want) {
				t.Errorf("allowed: %v, saying %s", answer.Allowed, text)
			}
			if len(w.reviewed) != test.asked {
				t.Errorf("asked %d times", len(w.reviewed))
			}
			if test.asked > 0 {
				want := authorizationv1.SubjectAccessReviewSpec{
					User: "alice", UID: "7", Groups: []string{"dev"}, Extra: map[string]authorizationv1.ExtraValue{"scope": {"a"}},
					ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "bypass", Group: "sluice.dev", Resource: "crdupgrades", Name: v2.Name},
				}
				if diff := cmp.Diff(want, w.reviewed[0]); diff != "" {
					t.Error(diff)
				}
			}
			select {
			case e := <-w.events:
				if refused := !test.allowed && strings.Contains(e, EventRefused); !refused && (!test.event || !strings.Contains(e, EventBypassed) || !strings.Contains(e, "nobody; uses it")) || !strings.Contains(e, "by alice") {
					t.Errorf("event %s", e)
				}
			default:
				if test.event || !test.allowed {
					t.Error("no event")
				}
			}
			if worst := answer.AuditAnnotations[auditWorst]; !strings.HasPrefix(worst, "property-removed: ") {
				t.Errorf("audited as the worst finding: %q", worst)
			}
			if test.allowed && !strings.HasPrefix(answer.AuditAnnotations[auditBypass], digest) {
				t.Errorf("audited: %v", answer.AuditAnnotations)
			}
		})
	}
}

func TestADeletionIsLetThroughForOneCRDOnly(t *testing.T) {
	w := newWorld(t)
	w.stores(1)
	w.mayBypass = true
	crd := live(t, "v1.yaml")
	crd.Annotations = map[string]string{annotation: compat.RemovalDigest(crd) + ": moved"}
	if answer := w.review(t, deletionOf(t, crd)); !answer.Allowed {
		t.Error(answer.Result.Message)
	}
	crd.UID = types.UID("another")
	if answer := w.review(t, deletionOf(t, crd)); answer.Allowed {
		t.Error("one that was made anew under the name goes too")
	}
}
