package features

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/internal/admission"
	"sluice.dev/internal/brief"
)

// The feature webhook judges with the same plans as the controller, and holds an evaluator for each component. It keeps judging with
// what it knows last if the API server does not answer. A request for a component that it does not know yet gets an error, and the
// failure policy decides.

// statusSubresource is the subresource whose writes contain the managed fields of the object itself.
const statusSubresource = "status"

const (
	// HookPattern is the HTTP pattern of the webhook.
	HookPattern = "POST /features/{component}/{ask}"
)

// Webhook judges the parts that policies cannot express, and judges settings when they are written. All fields are required.
type Webhook struct {
	Cluster
	Metrics *Metrics
	// Requests bounds the memory of requests while they arrive, wait and are judged. A request that finds no room in time fails.
	Requests *admission.Intake

	once       sync.Once
	remembered *cache.LRUExpireCache // see recentAnswers
	asking     singleflight.Group    // by component, see componentGone
	questions  flowcontrol.PassiveRateLimiter

	mu     sync.RWMutex
	judges map[string]*judge
	api    *client
}

// judge has the evaluators in force for a component.
type judge struct {
	model *feature.Model
	// evaluators has one for each purpose.
	evaluators map[string]*feature.Evaluator
	// inputs is the digest of its inputs, see plan.inputsDigest.
	inputs string
	// teller finds uses that no policy warns about; nil if there are none.
	teller *feature.Teller
}

// judgeOf returns the judge of a plan.
//
// For refusals and drops it judges all parts, even those that policies enforce as far as this process knows. After an upgrade or a
// rollback of the API server, the controller and this process may disagree for a moment, and the controller may send parts to the
// webhook that this process leaves to policies. If policies are in force, they come first, and the webhook finds nothing. Warnings,
// and those of tellUse, would be given twice, so it only judges those that no policy gives. Refusals and drops are separate purposes
// and do not depend on each other.
func judgeOf(out *plan) *judge {
	mine, told := out.set.WebhookParts()
	evaluator := func(when v1alpha1.WhenDisabled) *feature.Evaluator {
		return out.states.CompileFor(func(f *feature.Feature, t *feature.Target) bool {
			return f.Spec.WhenDisabled == when && (when != v1alpha1.Warn || mine(f, t))
		})
	}
	return &judge{
		model: out.model,
		evaluators: map[string]*feature.Evaluator{
			askReject: evaluator(v1alpha1.Reject), askDrop: evaluator(v1alpha1.Drop), askWarn: evaluator(v1alpha1.Warn),
			askLeft: evaluator(v1alpha1.Drop),
		},
		teller: out.model.TellerFor(told),
	}
}

// Run keeps the judges up to date until ctx is done. It calls ready when it has judges for all components.
func (h *Webhook) Run(ctx context.Context, ready func()) {
	h.runSessions(ctx, func(ctx context.Context, can server) error { return h.runSession(ctx, can, ready) })
}

// runSession keeps the judges current until outer ends or the API server has other abilities, and returns the cause. It calls ready
// when each component of the beginning has a judge, or settings that cannot be read.
func (h *Webhook) runSession(outer context.Context, can server, ready func()) error {
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	queue := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Clock: h.Clock})
	failures := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)
	w, err := h.openWorld(queue.Add)
	if err != nil {
		return err
	}
	p := &planner{world: w, server: can, sticky: true}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer w.settings.waitForWatches()
	defer cancel(nil)
	defer queue.ShutDown()
	if !w.startInformers(ctx, &wg) {
		return context.Cause(ctx)
	}
	h.mu.Lock()
	h.api = w.api
	h.mu.Unlock()
	pending := map[string]bool{}
	for _, name := range w.components.GetStore().ListKeys() {
		pending[name] = true
		queue.Add(name)
	}
	wg.Go(func() {
		if len(pending) == 0 {
			ready()
		}
		h.workOff(ctx, queue, failures, func(ctx context.Context, name string) (time.Duration, error) {
			known, again, err := h.updateJudge(ctx, p, name)
			if known && pending[name] {
				delete(pending, name)
				if len(pending) == 0 {
					ready()
				}
			}
			return again, err
		})
	})
	wg.Go(func() {
		if err := h.followServer(ctx, can); err != nil {
			cancel(err)
		}
	})
	<-ctx.Done()
	return context.Cause(ctx)
}

// updateJudge updates the judge of a component. It reports whether its state is known, and when to check again.
//
// A component whose settings are not known has no judge yet, or keeps its earlier one. A report of a process expires without an
// event, so the judge looks again in time.
func (h *Webhook) updateJudge(ctx context.Context, p *planner, name string) (known bool, again time.Duration, err error) {
	_, again = p.today()
	c := p.componentCopy(name)
	if c == nil || c.DeletionTimestamp != nil {
		p.settings.keepOnly(name, nil)
		p.forgetComponent(name)
		h.mu.Lock()
		delete(h.judges, name)
		h.mu.Unlock()
		return true, again, nil
	}
	out, err := p.planComponent(ctx, c)
	if err != nil {
		return false, 0, err
	}
	again = shorterWait(again, out.gated.untilReread())
	if !out.known {
		// Until then, requests get an error, and the failure policy decides. The process is still ready, because settings of other
		// components can be read.
		return out.current.err != nil, again, nil
	}
	j := judgeOf(out)
	j.inputs = out.inputsDigest()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.judges == nil {
		h.judges = map[string]*judge{}
	}
	h.judges[name] = j
	// No event reports the expiry of a report.
	if slices.ContainsFunc(out.features, func(f v1alpha1.Feature) bool { return len(f.Spec.RequiredProcesses) > 0 }) {
		again = shorterWait(again, p.untilExpiry(out.model))
	}
	return true, again, nil
}

func (h *Webhook) currentJudge(component string) *judge {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.judges[component]
}

// ServeHTTP answers an AdmissionReview of admission.k8s.io/v1.
func (h *Webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ask := r.PathValue("ask")
	if !slices.Contains([]string{askReject, askWarn, askDrop, askLeft, askSettings, askProbe, askProbeDrop}, ask) {
		http.NotFound(w, r)
		return
	}
	component := r.PathValue("component")
	admission.Serve(w, r, h.Requests, func(ctx context.Context, req *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		j := h.currentJudge(component)
		switch {
		case j != nil:
			return h.reviewRequest(ctx, j, ask, req)
		case !h.componentGone(ctx, component):
			h.Metrics.countReview(ask, outcomeError, 0)
			return nil
		}
		// The controller has not removed the webhook from the configuration yet.
		h.Metrics.countReview(ask, outcomeAllowed, 0)
		return &admissionv1.AdmissionResponse{UID: req.UID, Allowed: true}
	})
}

// Outcomes of a review, in the metrics.
const (
	outcomeAllowed = "allowed"
	outcomeRefused = "refused"
	outcomeWarned  = "warned"
	outcomeChanged = "changed"
	outcomeError   = "error"
)

// reviewRequest answers one request. It never fails: it refuses a request that it cannot read.
func (h *Webhook) reviewRequest(ctx context.Context, j *judge, ask string, req *admissionv1.AdmissionRequest) (resp *admissionv1.AdmissionResponse) {
	start := h.Clock.Now()
	outcome := outcomeAllowed
	defer func() {
		if r := recover(); r != nil {
			h.Log.Error("a review panicked", "kind", req.Kind.String(), "panic", r, "stack", string(debug.Stack()))
			outcome, resp = outcomeError, refusedResponse(http.StatusInternalServerError, metav1.StatusReasonInternalError, "the webhook failed: this is a mistake in it, and its log has more")
		}
		resp.UID = req.UID
		h.Metrics.countReview(ask, outcome, h.Clock.Since(start))
	}()
	if ask == askProbe || ask == askProbeDrop {
		return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{probeAnswer(j.model.Component(), ask, j.inputs)}}
	}
	claims := ask == askReject && req.SubResource == statusSubresource // see claimHooks
	if req.SubResource != "" && !claims || req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return &admissionv1.AdmissionResponse{Allowed: true}
	}
	if ask == askSettings {
		outcome, resp = j.judgeSettings(req)
		return resp
	}
	q := &feature.Request{Group: req.Resource.Group, Version: req.Resource.Version, Resource: req.Resource.Resource, Subresource: req.SubResource, OptedIn: h.optedIn(ctx, j, req)}
	err := utiljson.Unmarshal(req.Object.Raw, &q.Object)
	if err == nil && len(req.OldObject.Raw) > 0 {
		err = utiljson.Unmarshal(req.OldObject.Raw, &q.Old)
	}
	if err != nil {
		outcome, resp = outcomeError, refusedResponse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the object cannot be read: "+err.Error())
		return resp
	}
	outcome, resp = j.decideWrite(ask, q)
	return resp
}

// decideWrite answers what a webhook is asked about a write.
//
// The evaluator of each purpose has only the features with that reaction. So a refusal never hides what would be dropped or warned
// of.
func (j *judge) decideWrite(ask string, q *feature.Request) (outcome string, resp *admissionv1.AdmissionResponse) {
	d := j.evaluators[ask].Evaluate(q)
	outcome, resp = outcomeAllowed, &admissionv1.AdmissionResponse{Allowed: true}
	switch ask {
	case askReject:
		if !d.Allowed() {
			return outcomeRefused, refusedResponse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, d.Message())
		}
	case askLeft:
		if d.Dropped.Count > 0 {
			message := (&feature.Decision{Rejected: d.Dropped}).Message()
			return outcomeRefused, refusedResponse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "set again after it was dropped: "+message)
		}
	case askWarn:
		resp.AuditAnnotations = map[string]string{}
		if d.Warned.Count > 0 {
			outcome = outcomeWarned
			resp.Warnings = (&feature.Decision{Warned: d.Warned}).Warnings()
			resp.AuditAnnotations["features"] = gatesIn(&d.Warned)
		}
		if told := j.teller.Tell(q); told.Count > 0 {
			outcome = outcomeWarned
			resp.Warnings = append(resp.Warnings, told.Told()...)
			resp.AuditAnnotations["told"] = gatesIn(&told)
		}
	case askDrop:
		if d.Object == nil {
			return outcome, resp
		}
		patch, err := json.Marshal(jsonPatchOf(q.Object, d.Object, "", nil))
		if err != nil {
			return outcomeError, refusedResponse(http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
		}
		outcome = outcomeChanged
		resp.Patch, resp.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
		resp.Warnings = (&feature.Decision{Dropped: d.Dropped}).Warnings()
		resp.AuditAnnotations = map[string]string{"features": gatesIn(&d.Dropped)}
	}
	return outcome, resp
}

// gatesIn lists the gates of violations.
func gatesIn(v *feature.Violations) string {
	var out []string
	for i := range v.List {
		if gate := v.List[i].State.Feature.Spec.Gate; !slices.Contains(out, gate) {
			out = append(out, gate)
		}
	}
	return strings.Join(out, ",")
}

func refusedResponse(code int32, reason metav1.StatusReason, message string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}

// judgeSettings judges the ConfigMap of the component. An unchanged value passes.
func (j *judge) judgeSettings(req *admissionv1.AdmissionRequest) (outcome string, resp *admissionv1.AdmissionResponse) {
	resp = &admissionv1.AdmissionResponse{Allowed: true}
	ref := j.model.Spec().ConfigMap
	if ref == nil || req.Resource.Group != "" || req.Resource.Resource != "configmaps" || req.Namespace != ref.Namespace || req.Name != ref.Name {
		return outcomeAllowed, resp
	}
	var cm, old corev1.ConfigMap
	err := json.Unmarshal(req.Object.Raw, &cm)
	if err == nil && len(req.OldObject.Raw) > 0 {
		err = json.Unmarshal(req.OldObject.Raw, &old)
	}
	if err != nil {
		return outcomeError, refusedResponse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the ConfigMap cannot be read: "+err.Error())
	}
	if locks := func(m *corev1.ConfigMap) bool { return m.Immutable != nil && *m.Immutable }; locks(&cm) && !locks(&old) {
		return outcomeRefused, refusedResponse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "immutable: true would lock the settings for good: leave immutable out")
	}
	data := feature.SettingsOf(cm.Data, cm.BinaryData)
	if req.Operation == admissionv1.Update && maps.Equal(data, feature.SettingsOf(old.Data, old.BinaryData)) {
		return outcomeAllowed, resp
	}
	_, findings := j.model.ParseSettings(data)
	if err := findings.Err(); err != nil {
		return outcomeRefused, refusedResponse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, brief.Clip(err.Error(), feature.MaxMessage))
	}
	for _, f := range findings {
		resp.Warnings = append(resp.Warnings, f.String())
	}
	return outcomeAllowed, resp
}

// jsonPatchOf returns a JSON patch (RFC 6902) from one value to the other: minimal for objects, with arrays replaced as a whole.
func jsonPatchOf(from, to any, path string, out []map[string]any) []map[string]any {
	a, okA := from.(map[string]any)
	b, okB := to.(map[string]any)
	if !okA || !okB {
		if !reflect.DeepEqual(from, to) {
			out = append(out, map[string]any{"op": "replace", "path": path, "value": to})
		}
		return out
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, k := range slices.Sorted(maps.Keys(a)) {
		at := path + "/" + escape.Replace(k)
		if v, ok := b[k]; ok {
			out = jsonPatchOf(a[k], v, at, out)
		} else {
			out = append(out, map[string]any{"op": "remove", "path": at})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[k]; !ok {
			out = append(out, map[string]any{"op": "add", "path": path + "/" + escape.Replace(k), "value": b[k]})
		}
	}
	return out
}

// TellAddress writes the bundle, and the URL if there is one, into the ConfigMap [Address], which the controller reads.
func TellAddress(ctx context.Context, c Cluster, url string, bundle []byte) error {
	configMaps := c.Kube.CoreV1().ConfigMaps(c.Namespace)
	data := map[string]string{bundleKey: string(bundle)}
	if url != "" {
		data[urlKey] = url
	}
	have, err := configMaps.Get(ctx, Address, metav1.GetOptions{})
	if err == nil && maps.Equal(have.Data, data) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": Address, "labels": map[string]any{"app.kubernetes.io/part-of": "sluice"}}, "data": data,
	})
	if err != nil {
		return err
	}
	_, err = configMaps.Patch(ctx, Address, "application/apply-patch+yaml", patch, metav1.PatchOptions{FieldManager: "sluice-feature-webhook", Force: new(true)})
	if err != nil {
		return fmt.Errorf("telling how the webhook is reached: %w", err)
	}
	return nil
}
