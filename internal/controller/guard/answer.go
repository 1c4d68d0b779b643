package guard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/config"
	"sluice.dev/report"
)

// This file turns findings into an answer: allowed, allowed with warnings, let through by an operator, refused, or to be tried again.
// The configuration has the last word on what fails. An audit annotation has the outcome, so that refusals can be counted from the
// audit log.

// Keys of audit annotations; the API server puts the webhook's name before them.
const (
	auditOutcome  = "outcome"
	auditFindings = "findings"
	auditBypass   = "bypass"
	auditWorst    = "worst"
)

// countTime bounds the count of objects for a refusal.
const countTime = time.Second

func allowedResponse() *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true}
}

// refusedResponse returns the answer that refuses a change with this message.
func refusedResponse(name, message string, causes []metav1.StatusCause) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message,
		Details: &metav1.StatusDetails{Name: name, Group: "apiextensions.k8s.io", Kind: crdResource, Causes: causes},
	}}
}

// retryResponse returns the answer to a change that could not be compared in time. Clients that are made with client-go try again
// without being told: the API server sends retryAfterSeconds as the header Retry-After. Not all of them come back at the same time.
func retryResponse(name string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
		Message: "the guard had no time to compare this change, because it or the API server is busy; nothing was changed, try again",
		Details: &metav1.StatusDetails{Name: name, Group: apiextensionsv1.GroupName, Kind: crdResource, RetryAfterSeconds: 1 + rand.Int32N(5)}, //nolint:gosec // no secret
	}}
}

// answerRequest applies the configuration to the findings and answers the request.
//
// A bypass is judged only if something fails, since it costs a request. A lack of time is told as "try again" only if nothing that
// was compared is a violation. Stored objects are counted for the message alone, within [countTime].
func (g *Guard) answerRequest(ctx context.Context, req *admissionv1.AdmissionRequest, c *change) (outcome string, resp *admissionv1.AdmissionResponse) {
	cfg := g.Settings.currentConfig()
	r := &report.Report{CRDs: c.crds, Mode: cfg.Mode(), FailMode: cfg.FailMode()}
	cfg.Apply(r, g.Clock.Now())
	for i := range r.CRDs {
		for j := range r.CRDs[i].Findings {
			// An expired suppression no longer accepts its finding. The expiry itself is not caused by the change.
			if f := &r.CRDs[i].Findings[j]; f.Rule == config.RuleExpired && f.Severity == report.Fail {
				f.Severity = report.Warn
			}
		}
	}
	r.Sort()
	var failing, warning []report.Finding
	for _, f := range r.CRDs[0].Findings {
		switch {
		case f.Severity == report.Fail:
			failing = append(failing, f)
		case f.Severity == report.Warn && (f.Outcome != report.Note || isOwnersNote(f)): // objects that were not read may be in the way
			warning = append(warning, f)
		}
	}
	audit := map[string]string{auditFindings: strconv.Itoa(len(failing) + len(warning))}
	if worst := slices.Concat(failing, warning); len(worst) > 0 {
		audit[auditWorst] = worst[0].Rule + ": " + brief.Clip(brief.OneLine(worst[0].Message), maxEvent)
	}
	var b bypass
	if len(failing) > 0 {
		b = g.judgeBypass(ctx, req, c)
	}
	switch {
	case len(failing) == 0 && len(warning) == 0:
		outcome, resp = outcomeSafe, allowedResponse()
	case len(failing) == 0:
		outcome, resp = outcomeWarned, allowedResponse()
		resp.Warnings = admissionWarnings(warning)
	case b.granted:
		outcome, resp = outcomeBypassed, allowedResponse()
		resp.Warnings = admissionWarnings(append([]report.Finding{{Message: "let through by " + annotation, Outcome: report.Note}}, append(failing, warning...)...))
		audit[auditBypass] = fmt.Sprintf("%s: %s", b.digest, b.reason)
		g.recordBypass(req, c, b, failing)
	case c.hurried && !slices.ContainsFunc(failing, func(f report.Finding) bool { return f.Outcome == report.Violation }):
		outcome, resp = outcomeBusy, retryResponse(c.crd.Name)
		g.Log.Info("a change was not compared for lack of time", "crd", c.crd.Name, "user", req.UserInfo.Username, "reason", failing[0].Reason)
	default:
		outcome = outcomeRefused
		if c.objects == nil {
			short, cancel := context.WithTimeout(ctx, countTime)
			// The refusal is complete without it.
			if s, err := g.Objects.countObjects(short, c.crd); err == nil {
				c.objects = &s
			}
			cancel()
		}
		resp = refusedResponse(c.crd.Name, refusalMessage(c, b, failing), statusCauses(failing))
		resp.Warnings = admissionWarnings(warning)
		g.recordRefusal(req, c, failing)
	}
	audit[auditOutcome] = outcome
	resp.AuditAnnotations = audit
	return outcome, resp
}
