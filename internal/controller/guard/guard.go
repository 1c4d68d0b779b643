package guard

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"

	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"sluice.dev/compat"
	"sluice.dev/internal/admission"
	"sluice.dev/report"
)

// The API server asks the guard before it changes or deletes a CRD, whoever asks for that: kubectl, Helm, an operator. The guard
// decodes as little as it can at first, because most requests need no judgement: writes of the status, of labels, or of the CA
// bundle. For example, an update by cert-manager's injector is allowed without a comparison.

// Role is the role of sluice serve.
const Role = "crd-guard"

const crdResource = "customresourcedefinitions"

// Path is the path to which the API server posts its requests.
const Path = "/validate-crds"

// Guard answers the API server. All fields are needed.
type Guard struct {
	Settings *Settings
	Objects  Objects
	// Kube answers whether a user has the right to bypass the guard.
	Kube     kubernetes.Interface
	Metrics  *Metrics
	Recorder record.EventRecorder
	Clock    clock.PassiveClock
	Log      *slog.Logger
	// Requests bounds the memory of requests while they arrive, wait and are judged. A request that finds no room in time fails.
	Requests *admission.Intake
	// Slots has the capacity for the changes that are compared at once. Changes that find no room in time are undecided.
	Slots chan struct{}
}

// ServeHTTP answers an AdmissionReview of admission.k8s.io/v1.
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	admission.Serve(w, r, g.Requests, g.Review)
}

// Outcomes of a request, in the metrics and the audit annotation.
const (
	outcomeUntouched = "untouched" // the spec does not change, or the guard does not judge the change
	outcomeSafe      = "safe"
	outcomeWarned    = "warned"
	outcomeRefused   = "refused"
	outcomeBypassed  = "bypassed"
	outcomeBusy      = "busy"  // there was no time to compare; the client is told to try again
	outcomeError     = "error" // the request makes no sense
)

// Review answers one request. It never fails: if it cannot decide, the fail mode does, and it refuses a request that it cannot read.
func (g *Guard) Review(ctx context.Context, req *admissionv1.AdmissionRequest) (resp *admissionv1.AdmissionResponse) {
	start := g.Clock.Now()
	outcome := outcomeUntouched
	defer func() {
		if r := recover(); r != nil {
			g.Log.Error("a review panicked", "crd", req.Name, "panic", r, "stack", string(debug.Stack()))
			outcome, resp = outcomeError, refusedResponse(req.Name, "the guard failed: this is a mistake in it, and its log has more", nil)
		}
		resp.UID = req.UID
		g.Metrics.observeRequest(string(req.Operation), outcome, g.Clock.Now().Sub(start))
	}()
	if req.Resource.Resource != crdResource || req.Resource.Group != apiextensionsv1.GroupName || req.SubResource != "" {
		return allowedResponse()
	}
	var c *change
	var err error
	switch req.Operation {
	case admissionv1.Update:
		if c, err = g.judgeUpdate(ctx, req); c == nil && err == nil {
			return allowedResponse()
		}
	case admissionv1.Delete:
		if c, err = g.judgeRemoval(ctx, req); c == nil && err == nil {
			return allowedResponse()
		}
	case admissionv1.Create, admissionv1.Connect:
		return allowedResponse()
	default:
		return allowedResponse()
	}
	if err != nil {
		outcome = outcomeError
		return refusedResponse(req.Name, err.Error(), nil)
	}
	defer c.done()
	outcome, resp = g.answerRequest(ctx, req, c)
	return resp
}

// change is a change of a CRD, with the result of judging it.
type change struct {
	// crd carries the annotation: the new CRD, or the one that is deleted. It has no schemas.
	crd *apiextensionsv1.CustomResourceDefinition
	// removed is set for a deletion.
	removed bool
	crds    []report.CRD
	// hurried says that the time was too short for the whole comparison. More time may decide what is undecided.
	hurried bool
	// digest is the digest that the annotation must name.
	digest func(context.Context) (string, error)
	// objects counts the stored objects; nil if they have not been counted.
	objects *stored
	// done releases the resources of the judgement.
	done func()
}

// ruleRemoved is the rule of a deletion.
const ruleRemoved = "crd-removed"

// judgeRemoval judges a deletion. It returns nil for a deletion that deletes only the CRD, or has begun before.
func (g *Guard) judgeRemoval(ctx context.Context, req *admissionv1.AdmissionRequest) (*change, error) {
	crd, err := headOf(req.OldObject.Raw)
	if err != nil {
		return nil, err
	}
	if crd.DeletionTimestamp != nil {
		return nil, nil
	}
	short, cancel := shorterContext(ctx, g.Clock, waitShare)
	defer cancel()
	s, err := g.Objects.countObjects(short, crd)
	finding := report.Finding{
		Rule: ruleRemoved, Level: report.DataLost, Outcome: report.Violation, Severity: report.Fail, CRD: crd.Name,
		Message: s.String() + ", and would be deleted with the CRD",
	}
	var why unread
	switch {
	case errors.As(err, &why):
		finding = undecidedFinding(ruleRemoved, crd.Name, "objects that are stored would be deleted with the CRD; whether there are any could not be seen", why.text)
	case err != nil:
		return nil, err
	case s.count == 0:
		return nil, nil
	case s.exact:
		finding.Objects = &report.Objects{Checked: s.count, Affected: s.count, Examples: []string{s.example}}
	}
	return &change{
		crd: crd, removed: true, crds: []report.CRD{{Name: crd.Name, Findings: []report.Finding{finding}}}, objects: &s,
		digest: func(context.Context) (string, error) { return compat.RemovalDigest(crd), nil },
		done:   func() {},
	}, nil
}
