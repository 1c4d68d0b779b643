package features

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/internal/admission"
	"sluice.dev/tools/featuregen"
)

// soleHook is a webhook that enforces all of a trial by itself.
type soleHook struct {
	*testing.T
	trial   *featuregen.Trial
	handler http.Handler
}

// newSoleHook has the webhook judge all of a trial: as if the API server had no policies.
func newSoleHook(t *testing.T, trial *featuregen.Trial) *soleHook {
	t.Helper()
	set, err := policy.Compile(t.Context(), trial.World.Model, policy.Options{WithoutValidating: true, WithoutMutating: true})
	if err != nil {
		t.Fatal(err)
	}
	clients := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: trial.NamespaceLabels()}})
	clients.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := a.(clienttesting.CreateAction)
		if !ok {
			return false, nil, nil
		}
		review, ok := create.GetObject().(*authorizationv1.SubjectAccessReview)
		if !ok {
			return false, nil, nil
		}
		at := review.Spec.ResourceAttributes
		review.Status.Allowed = at.Verb == "use" && at.Group == "sluice.dev" && at.Resource == "features" && slices.Contains(trial.MayUse(), at.Name)
		return true, review, nil
	})
	h := &Webhook{
		Cluster: Cluster{Kube: clients, Log: slog.New(slog.DiscardHandler), Clock: clock.RealClock{}},
		Metrics: NewMetrics(prometheus.NewRegistry()), Requests: admission.NewIntake(1),
		judges: map[string]*judge{"gen": judgeOf(&plan{model: trial.World.Model, states: trial.States, set: set})},
	}
	mux := http.NewServeMux()
	mux.Handle(HookPattern, h)
	return &soleHook{t, trial, mux}
}

// post asks the webhook as the API server does.
func (a *soleHook) post(what string, old, object map[string]any) *admissionv1.AdmissionResponse {
	a.Helper()
	raw := func(v map[string]any) (out runtime.RawExtension) {
		if v != nil {
			data, err := json.Marshal(v)
			if err != nil {
				a.Fatal(err)
			}
			out.Raw = data
		}
		return out
	}
	apiVersion, _ := object["apiVersion"].(string)
	operation := admissionv1.Create
	if old != nil {
		operation = admissionv1.Update
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: types.UID("uid"), Namespace: "default", Operation: operation, Object: raw(object), OldObject: raw(old),
			Resource: metav1.GroupVersionResource{Group: featuregen.Group, Version: apiVersion[len(featuregen.Group)+1:], Resource: featuregen.Resource},
		},
	})
	if err != nil {
		a.Fatal(err)
	}
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, httptest.NewRequestWithContext(a.Context(), http.MethodPost, hookPath("gen", what)+"?timeout=30s", bytes.NewReader(body)))
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil || w.Code != http.StatusOK || review.Response == nil || review.Response.UID != "uid" {
		a.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return review.Response
}

// fate is what becomes of a request.
type fate struct {
	Refused  string
	Warnings []string
	Object   map[string]any
}

// judged is what becomes of a request by the webhook: what mutates comes first.
func (a *soleHook) judged(old, object map[string]any) (out fate) {
	a.Helper()
	out.Object = object
	resp := a.post(askDrop, old, object)
	if !resp.Allowed {
		a.Fatalf("what drops refuses: %v", resp.Result)
	}
	dropped := resp.Warnings
	if resp.Patch != nil {
		out.Object = a.patched(object, resp.Patch)
	}
	if resp = a.post(askReject, old, out.Object); !resp.Allowed {
		return fate{Refused: resp.Result.Message}
	}
	resp = a.post(askWarn, old, out.Object)
	if !resp.Allowed {
		a.Fatalf("what warns refuses: %v", resp.Result)
	}
	out.Warnings = slices.Concat(dropped, resp.Warnings)
	return out
}

func (a *soleHook) patched(object map[string]any, text []byte) map[string]any {
	a.Helper()
	before, err := json.Marshal(object)
	if err != nil {
		a.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		a.Fatal(err)
	}
	after, err := patch.Apply(before)
	if err != nil {
		a.Fatalf("%s does not apply to %s: %v", text, before, err)
	}
	var out map[string]any
	if err := utiljson.Unmarshal(after, &out); err != nil {
		a.Fatal(err)
	}
	return out
}

// TestTheWebhookSaysWhatTheEvaluatorSays has the webhook's handler judge thousands of pairs of objects of drawn worlds.
func TestTheWebhookSaysWhatTheEvaluatorSays(t *testing.T) {
	const worlds, pairs = 40, 60
	told := map[string]int{}
	for seed := range uint64(worlds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 19))
			trial, err := featuregen.NewEvaluation(r)
			if err != nil {
				t.Fatal(err)
			}
			a := newSoleHook(t, trial)
			for range pairs {
				old, object := trial.Pair(r)
				d := trial.Evaluate(old, object)
				want := fate{Refused: d.Message()}
				if d.Allowed() {
					want = fate{Object: object, Warnings: d.Warnings()}
					if d.Object != nil {
						want.Object = d.Object
					}
				}
				got := a.judged(old, object)
				if got.Object != nil && featuregen.Show(got.Object) == featuregen.Show(want.Object) {
					got.Object = want.Object // 7 and 7.0 are one
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s\nold %s\nnew %s\nsettings %v", diff, featuregen.Show(old), featuregen.Show(object), trial.Settings)
				}
				for what, v := range map[string]feature.Violations{"refused": d.Rejected, "dropped": d.Dropped, "warned of": d.Warned} {
					if v.Count > 0 {
						told[what]++
					}
				}
			}
		})
	}
	t.Logf("%d pairs in %d worlds: %v", worlds*pairs, worlds, told)
	for _, what := range []string{"refused", "dropped", "warned of"} {
		if told[what] < worlds*pairs/40 {
			t.Errorf("of %d pairs only %d are %s", worlds*pairs, told[what], what)
		}
	}
}
