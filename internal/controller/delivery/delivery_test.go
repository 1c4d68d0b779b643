package delivery

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clientgotesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	resolutionv1beta1 "sluice.dev/api/resolution/v1beta1"
	"sluice.dev/api/v1alpha1"
	"sluice.dev/apply"
	"sluice.dev/client/versioned/fake"
	"sluice.dev/internal/config"
	"sluice.dev/report"
	"sluice.dev/requester"
)

func delivery(name string, ready bool, on ...string) *v1alpha1.Delivery {
	d := &v1alpha1.Delivery{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Generation: 2}}
	for _, o := range on {
		ns, name, ok := strings.Cut(o, "/")
		if !ok {
			ns, name = "", ns
		}
		d.Spec.DependsOn = append(d.Spec.DependsOn, v1alpha1.DeliveryReference{Namespace: ns, Name: name})
	}
	if ready {
		d.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 2}}
	}
	return d
}

func TestADeliveryWaitsForThoseThatItDependsOn(t *testing.T) {
	stale := delivery("stale", true)
	stale.Generation = 3
	all := map[types.NamespacedName]*v1alpha1.Delivery{}
	for _, d := range []*v1alpha1.Delivery{
		delivery("ready", true), delivery("not", false), stale, delivery("back", false, "other"), delivery("other", false, "n/x", "back"),
		delivery("loop", false, "loop2"), delivery("loop2", false, "loop"),
	} {
		all[keyOf(d)] = d
	}
	find := func(k types.NamespacedName) *v1alpha1.Delivery { return all[k] }
	for name, test := range map[string]struct {
		on   []string
		want string
	}{
		"nothing":              {nil, ""},
		"ready":                {[]string{"ready", "n/ready"}, ""},
		"not ready":            {[]string{"ready", "not"}, v1alpha1.ReasonDependencyNotReady},
		"ready before":         {[]string{"stale"}, v1alpha1.ReasonDependencyNotReady},
		"missing":              {[]string{"none"}, v1alpha1.ReasonDependencyNotReady},
		"in another namespace": {[]string{"m/ready"}, v1alpha1.ReasonDependencyNotReady},
		"a cycle":              {[]string{"back"}, v1alpha1.ReasonDependencyCycle},
		"a cycle of others":    {[]string{"loop"}, v1alpha1.ReasonDependencyNotReady},
	} {
		if got, message := waitsFor(delivery("x", false, test.on...), find); got != test.want || (message == "") != (got == "") {
			t.Errorf("%s: %q %q, want %q", name, got, message, test.want)
		}
	}
}

func TestSourcesBecomeRequests(t *testing.T) {
	params := []resolutionv1beta1.Param{{Name: "a", Value: resolutionv1beta1.StringValue("b")}}
	for name, test := range map[string]struct {
		source   v1alpha1.DeliverySource
		resolver string
		params   int
	}{
		"url":      {v1alpha1.DeliverySource{URL: "git+https://h.test/r//p?ref=v1"}, "git", 4},
		"resolver": {v1alpha1.DeliverySource{Resolver: "hub", Params: params}, "hub", 1},
		"both":     {v1alpha1.DeliverySource{URL: "https://h.test/r", Resolver: "hub"}, "", 0},
		"neither":  {v1alpha1.DeliverySource{}, "", 0},
		"bad":      {v1alpha1.DeliverySource{URL: "git+https://h.test/r?x=y"}, "", 0},
		"Flux too": {v1alpha1.DeliverySource{URL: "https://h.test/r", Flux: &v1alpha1.FluxSource{Kind: "Bucket", Name: "a"}}, "", 0},
		"no kind":  {v1alpha1.DeliverySource{Flux: &v1alpha1.FluxSource{Kind: "HelmChart", Name: "a"}}, "", 0},
	} {
		resolver, spec, err := requestFor(&test.source)
		if resolver != test.resolver || len(spec.Params) != test.params || (err != nil) != (test.resolver == "") {
			t.Errorf("%s: %q %v %v", name, resolver, spec, err)
		}
	}
	flux := v1alpha1.DeliverySource{Flux: &v1alpha1.FluxSource{Kind: "Bucket", Name: "a"}}
	if resolver, _, err := requestFor(&flux); resolver != "" || err != nil {
		t.Errorf("Flux: %q %v", resolver, err)
	}
	if _, _, err := pinnedRequest(&flux, &v1alpha1.Revision{Revision: "main@sha1:1"}); err == nil || !strings.Contains(err.Error(), "Flux") {
		t.Errorf("a revision of Flux that has gone: %v", err)
	}
}

func TestPreflightsAreReadAsKappsConfiguration(t *testing.T) {
	rule := func(name, config string) v1alpha1.Preflight {
		p := v1alpha1.Preflight{Name: name}
		if config != "" {
			p.Config = &runtime.RawExtension{Raw: []byte(config)}
		}
		return p
	}
	for name, test := range map[string]struct {
		list  []v1alpha1.Preflight
		on    []string
		wrong []string
	}{
		"none":    {nil, []string{apply.CRDUpgradeSafety}, nil},
		"one":     {[]v1alpha1.Preflight{rule(apply.PermissionValidation, "")}, []string{apply.PermissionValidation}, nil},
		"all":     {[]v1alpha1.Preflight{rule(apply.CRDUpgradeSafety, `{"mode":"warn"}`), rule(apply.PermissionValidation, "null"), rule(apply.FeatureGates, `{"mode":"warn"}`)}, []string{apply.CRDUpgradeSafety, apply.PermissionValidation, apply.FeatureGates}, nil},
		"unknown": {[]v1alpha1.Preflight{rule("CRDUpgradeSafty", ""), rule(apply.PermissionValidation, `{"a":1}`)}, nil, []string{"CRDUpgradeSafety", "permissionValidatorResource"}},
		"a key":   {[]v1alpha1.Preflight{rule(apply.CRDUpgradeSafety, `{"mod":"warn"}`)}, nil, []string{`unknown key "mod"`}},
	} {
		d := delivery("x", false)
		d.Spec.Preflights = test.list
		cfg, err := (&run{d: d}).readConfiguration()
		if (err != nil) != (test.wrong != nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, w := range test.wrong {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: no %q in %v", name, w, err)
			}
		}
		if err != nil {
			continue
		}
		var on []string
		for _, p := range []string{apply.CRDUpgradeSafety, apply.PermissionValidation, apply.FeatureGates} {
			if cfg.Enabled(p) {
				on = append(on, p)
			}
		}
		if diff := cmp.Diff(test.on, on); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestErrorsHaveReasons(t *testing.T) {
	configMaps := schema.GroupResource{Resource: "configmaps"}
	terminating := apierrors.NewForbidden(configMaps, "a", errors.New("namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	wrap := func(err error) error {
		return errors.Join(errors.New("first"), &apply.Error{Err: fmt.Errorf("x: %w", err)})
	}
	for want, err := range map[string]error{
		v1alpha1.ReasonFieldConflict:        wrap(&apply.ConflictError{Conflicts: []apply.Conflict{{Field: ".a", Owner: "b"}}}),
		v1alpha1.ReasonOtherApp:             wrap(apply.ErrOtherApp),
		v1alpha1.ReasonUnknownKind:          wrap(apply.ErrNoKind),
		v1alpha1.ReasonNamespaceTerminating: wrap(terminating),
		v1alpha1.ReasonForbidden:            wrap(apierrors.NewForbidden(configMaps, "a", errors.New("no"))),
		v1alpha1.ReasonPreflightFailed:      &apply.PreflightError{Name: "x", Err: errors.New("no")},
		v1alpha1.ReasonApplyFailed:          errors.New("no"),
	} {
		if got, message := applyReason(t.Context(), err, "deployer"); got != want || strings.Contains(message, "--force-conflicts") {
			t.Errorf("%v: %s %q, want %s", err, got, message, want)
		}
	}
}

func TestWhatRunsIsAskedForAtItsCommitOrDigest(t *testing.T) {
	params := func(list ...string) (out []resolutionv1beta1.Param) {
		for i := 0; i+1 < len(list); i += 2 {
			out = append(out, resolutionv1beta1.Param{Name: list[i], Value: resolutionv1beta1.StringValue(list[i+1])})
		}
		return out
	}
	of := func(resolver string, list ...string) v1alpha1.DeliverySource {
		return v1alpha1.DeliverySource{Resolver: resolver, Params: params(list...)}
	}
	commit, image := "sha1:0c4e", "sha256:11ab"
	for name, test := range map[string]struct {
		source   v1alpha1.DeliverySource
		revision string
		param    string
		want     string // of the parameter; empty for an error
	}{
		"a branch":            {v1alpha1.DeliverySource{URL: "git+https://h.test/r//p?ref=main"}, commit, "revision", "0c4e"},
		"no branch":           {of("git", "url", "https://h.test/r"), commit, "revision", "0c4e"},
		"a tag of an image":   {v1alpha1.DeliverySource{URL: "oci://h.test:5000/a/b:v1"}, image, "bundle", "h.test:5000/a/b@" + image},
		"no tag":              {v1alpha1.DeliverySource{URL: "oci://h.test:5000/a/b"}, image, "bundle", "h.test:5000/a/b@" + image},
		"a digest":            {of("bundles", "bundle", "h.test/a@sha256:ff", "name", "x"), image, "bundle", "h.test/a@" + image},
		"by its other name":   {of("bundle", "image_url", "h.test/a:v1", "name", "x"), image, "image_url", "h.test/a@" + image},
		"a file by HTTP":      {v1alpha1.DeliverySource{URL: "https://h.test/a.yaml"}, image, "url", ""},
		"an unknown resolver": {of("mine", "a", "b"), commit, "a", ""},
		"git without commit":  {of("git", "url", "https://h.test/r"), image, "revision", ""},
	} {
		before := test.source.DeepCopy()
		_, spec, err := pinnedRequest(&test.source, &v1alpha1.Revision{Revision: test.revision, Digest: "sha256:content"})
		got := ""
		for _, p := range spec.Params {
			if p.Name == test.param && err == nil {
				got = p.Value.StringVal
			}
		}
		if got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if diff := cmp.Diff(before, &test.source); diff != "" {
			t.Errorf("%s: the source was changed: %s", name, diff)
		}
	}
}

func TestEventsTellOfChangesOnly(t *testing.T) {
	state := func(status metav1.ConditionStatus, reason, digest string) *v1alpha1.Delivery {
		d := delivery("x", false)
		d.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: "m"}}
		d.Status.Decided = &v1alpha1.Decided{Digest: digest}
		return d
	}
	otherFeatures := state(metav1.ConditionFalse, v1alpha1.ReasonBlocked, "2")
	otherFeatures.Status.Decided.Features = "others"
	for name, test := range map[string]struct {
		before, after *v1alpha1.Delivery
		want          string
	}{
		"first":            {delivery("x", false), state(metav1.ConditionTrue, v1alpha1.ReasonDelivered, "1"), "Normal Delivered m"},
		"the same":         {state(metav1.ConditionTrue, v1alpha1.ReasonDelivered, "1"), state(metav1.ConditionTrue, v1alpha1.ReasonDelivered, "2"), ""},
		"blocked":          {state(metav1.ConditionTrue, v1alpha1.ReasonDelivered, "1"), state(metav1.ConditionFalse, v1alpha1.ReasonBlocked, "2"), "Warning Blocked m"},
		"still blocked":    {state(metav1.ConditionFalse, v1alpha1.ReasonBlocked, "2"), state(metav1.ConditionFalse, v1alpha1.ReasonBlocked, "2"), ""},
		"by features":      {state(metav1.ConditionFalse, v1alpha1.ReasonBlocked, "2"), otherFeatures, "Warning Blocked m"},
		"blocked anew":     {state(metav1.ConditionFalse, v1alpha1.ReasonBlocked, "2"), state(metav1.ConditionFalse, v1alpha1.ReasonBlocked, "3"), "Warning Blocked m"},
		"waiting":          {state(metav1.ConditionTrue, v1alpha1.ReasonDelivered, "1"), state(metav1.ConditionUnknown, v1alpha1.ReasonWaiting, "1"), ""},
		"another failure":  {state(metav1.ConditionFalse, v1alpha1.ReasonForbidden, "1"), state(metav1.ConditionFalse, v1alpha1.ReasonFieldConflict, "1"), "Warning FieldConflict m"},
		"the same failure": {state(metav1.ConditionFalse, v1alpha1.ReasonForbidden, "1"), state(metav1.ConditionFalse, v1alpha1.ReasonForbidden, "1"), ""},
	} {
		recorder := record.NewFakeRecorder(5)
		(&run{Controller: &Controller{Recorder: recorder}, d: test.after}).sendEvents(test.before)
		got := ""
		if len(recorder.Events) > 0 {
			got = <-recorder.Events
		}
		if got != test.want || len(recorder.Events) > 0 {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestTheWorstFindingsComeFirstAndAreBounded(t *testing.T) {
	found := &report.Report{}
	add := func(crd string, level report.Level, severity report.Severity, outcome report.Outcome) {
		found.CRDs = append(found.CRDs, report.CRD{Name: crd, Findings: []report.Finding{{
			Rule: "r", CRD: crd, Level: level, Severity: severity, Outcome: outcome, Message: strings.Repeat("é", 5000),
			Witness: &report.Witness{Object: strings.Repeat("é", 9000)}, Objects: &report.Objects{Checked: 9, Affected: 2, Examples: []string{"a/b"}},
		}}})
	}
	add("warned", report.DataLost, report.Warn, report.Violation)
	add("undecided", "", report.Fail, report.Undecided)
	add("clients", report.ClientsBroken, report.Fail, report.Violation)
	add("lost", report.DataLost, report.Fail, report.Violation)
	add("off", report.DataLost, report.Off, report.Violation)
	add("note", "", report.Warn, report.Note)
	for range 5 {
		add("more", report.Cosmetic, report.Warn, report.Violation)
	}
	got := summarizeReport(found)
	var order []string
	for _, f := range got.Worst {
		order = append(order, f.CRD)
		if len(f.Message) > maxEvent || len(f.Witness) > maxWitness || !utf8.ValidString(f.Message+f.Witness) || f.Affected != 2 {
			t.Errorf("%s: %d and %d bytes", f.CRD, len(f.Message), len(f.Witness))
		}
	}
	if diff := cmp.Diff([]string{"lost", "clients", "undecided", "warned", "more"}, order); diff != "" {
		t.Error(diff)
	}
	if got.Fail != 3 || got.Warn != 6 || got.Undecided != 1 || got.Notes != 1 {
		t.Errorf("%+v", got)
	}
	message := blockedMessage("sha1:00", got, found.Summary())
	for _, want := range []string{"3 findings stop sha1:00", "2 of 9 stored objects, a/b"} {
		if !strings.Contains(message, want) {
			t.Errorf("no %q in %q", want, message)
		}
	}
}

func TestDurationsHaveDefaults(t *testing.T) {
	for want, d := range map[time.Duration]*metav1.Duration{defaultInterval: nil, time.Second: {Duration: time.Second}} {
		if got := durationOr(d, defaultInterval); got != want {
			t.Errorf("%v: %s", d, got)
		}
	}
}

func newRun(t *testing.T, d *v1alpha1.Delivery) *run {
	t.Helper()
	client := fake.NewSimpleClientset()
	return &run{
		Controller: &Controller{
			Config: &rest.Config{Host: "http://127.0.0.1:1"}, Client: client, Clock: clock.RealClock{}, Metrics: NewMetrics(prometheus.NewRegistry()),
			Log: slog.New(slog.DiscardHandler), requester: requester.Requester{Client: client.ResolutionV1beta1()}, contents: newContents(maxContents),
			failures: workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](firstRetry, lastRetry),
		},
		d: d, now: time.Now(),
	}
}

func TestASourceThatTakesTooLongToDecodeIsNotInvalid(t *testing.T) {
	for name, test := range map[string]struct {
		data    string
		timeout time.Duration
		want    string
	}{
		"it takes too long": {"a: b\n", time.Nanosecond, v1alpha1.ReasonTimedOut},
		"it is invalid":     {"a: b\n", time.Minute, v1alpha1.ReasonInvalidSource},
	} {
		d := delivery("x", false)
		d.Spec.Timeout = &metav1.Duration{Duration: test.timeout}
		r := newRun(t, d)
		r.checkAndApply(t.Context(), &config.Config{}, &fetched{data: []byte(test.data), revision: &v1alpha1.Revision{}, ended: r.now})
		if c := r.findCondition(v1alpha1.ConditionReady); c == nil || c.Reason != test.want {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestOnlyTheRequestThatWasReadIsDeleted(t *testing.T) {
	d := delivery("x", false)
	d.UID = "d"
	r := newRun(t, d)
	client, ok := r.Client.(*fake.Clientset)
	if !ok {
		t.Fatal("another client")
	}
	_, spec, err := requestFor(&v1alpha1.DeliverySource{URL: "https://h.test/a.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.fetchSeparately(t.Context(), "http", spec); !errors.Is(err, requester.ErrInProgress) {
		t.Fatalf("error %v, want that it is in progress", err)
	}
	requests := client.ResolutionV1beta1().ResolutionRequests("n")
	list, err := requests.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d requests, error %v", len(list.Items), err)
	}
	q := &list.Items[0]
	q.UID = "one"
	q.Status.Data = "YTogYg=="
	q.Status.Conditions = []resolutionv1beta1.Condition{{Type: "Succeeded", Status: "True"}}
	if _, err := requests.Update(t.Context(), q, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	client.ClearActions()
	resource, err := r.fetchSeparately(t.Context(), "http", spec)
	if err != nil || string(resource.Data) != "a: b" {
		t.Fatalf("%+v, error %v", resource, err)
	}
	var deleted []types.UID
	for _, a := range client.Actions() {
		if del, ok := a.(clientgotesting.DeleteActionImpl); ok && del.DeleteOptions.Preconditions != nil {
			deleted = append(deleted, *del.DeleteOptions.Preconditions.UID)
		}
	}
	if diff := cmp.Diff([]types.UID{"one"}, deleted); diff != "" {
		t.Error(diff)
	}
}

func TestWaitingIsNoErrorWhereNothingElseIsWrong(t *testing.T) {
	waiting := fmt.Errorf("x: %w", apply.ErrWaiting)
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"nothing":             {nil, false},
		"waiting":             {waiting, true},
		"for several":         {errors.Join(waiting, &apply.Error{Err: waiting}), true},
		"and something else":  {errors.Join(waiting, errors.New("refused")), false},
		"only something else": {errors.New("refused"), false},
	} {
		if got := isWaiting(test.err); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestDriftThatWaitsIsTriedLaterEachTimeAndTold(t *testing.T) {
	d := delivery("x", false)
	d.Spec.Interval = &metav1.Duration{Duration: time.Minute}
	d.Status.Applied = &v1alpha1.Revision{Revision: "sha1:1"}
	r := newRun(t, d)
	var pauses []time.Duration
	for range 8 {
		pauses = append(pauses, r.keepWaits(fmt.Errorf("ConfigMap n/a: a finalizer may wait: %w", apply.ErrWaiting)))
	}
	s := time.Second
	if diff := cmp.Diff([]time.Duration{2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s, 60 * s}, pauses); diff != "" {
		t.Error(diff)
	}
	c := r.findCondition(v1alpha1.ConditionApplied)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonBlocked || !strings.Contains(c.Message, "sha1:1 stays, and the correction of its drift waits: ConfigMap n/a: a finalizer may wait") {
		t.Errorf("condition %+v", c)
	}
	r.endRound()
	if got := r.keepWaits(apply.ErrWaiting); got != 2*s {
		t.Errorf("after another round: %s", got)
	}
}

// The message of a request begins with the precise cause if our controller wrote it.
func TestTheCauseOfAFailedRequestIsNamedOnce(t *testing.T) {
	for _, message := range []string{"ForbiddenByPolicy: not this host", "not this host"} {
		if got := failureMessage(&requester.FailedError{Exact: "ForbiddenByPolicy", Message: message}); got != "ForbiddenByPolicy: not this host" {
			t.Errorf("%q", got)
		}
	}
	if got := failureMessage(&requester.FailedError{Message: "no"}); got != "no" {
		t.Errorf("%q", got)
	}
}
