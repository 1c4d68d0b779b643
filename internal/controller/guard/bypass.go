package guard

import (
	"context"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
)

// An operator can let one unsafe change through: an annotation on the CRD names the digest of exactly this change and a reason, and
// the user has the right to bypass. A digest of another change does not count, so an annotation that was left behind lets nothing
// through.

const (
	annotation = "sluice.dev/allow-unsafe-upgrade"
	// The virtual resource that the permission is about.
	bypassVerb, bypassGroup, bypassResource = "bypass", "sluice.dev", "crdupgrades" //nolint:gosec // names of RBAC, no credentials

	// EventBypassed is the reason of the event about an unsafe change that the guard has allowed.
	EventBypassed = "UnsafeUpgradeAllowed"
	// EventRefused is the reason of the event about an unsafe change that the guard has refused.
	EventRefused = "UnsafeUpgradeRefused"

	maxReason = 500
)

// bypass is the result of a request to bypass the guard.
type bypass struct {
	granted bool
	// digest is the digest that the annotation must name; empty if there is none.
	digest, reason string
	// problem says why it was not granted although the annotation exists.
	problem string
}

// judgeBypass judges the annotation and the permission of the user.
//
// The digest is returned also without an annotation, because a refusal tells it to the operator. A dry run is judged like a write.
func (g *Guard) judgeBypass(ctx context.Context, req *admissionv1.AdmissionRequest, c *change) bypass {
	digest, err := c.digest(ctx)
	if err != nil {
		if _, asked := c.crd.Annotations[annotation]; asked {
			return bypass{problem: fmt.Sprintf("whether the annotation %s is for this change could not be seen: %v", annotation, err)}
		}
		return bypass{}
	}
	b := bypass{digest: digest}
	value, ok := c.crd.Annotations[annotation]
	if !ok {
		return b
	}
	named, reason, _ := strings.Cut(value, ":")
	b.reason = brief.Clip(brief.OneLine(strings.TrimSpace(reason)), maxReason)
	switch named = strings.TrimSpace(named); {
	case named != digest:
		b.problem = fmt.Sprintf("the annotation %s is for another change (%s)", annotation, brief.Clip(brief.OneLine(named), 64))
		return b
	case b.reason == "":
		b.problem = fmt.Sprintf("the annotation %s gives no reason after the digest", annotation)
		return b
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range req.UserInfo.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	review, err := g.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: req.UserInfo.Username, UID: req.UserInfo.UID, Groups: req.UserInfo.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: bypassVerb, Group: bypassGroup, Resource: bypassResource, Name: c.crd.Name},
		},
	}, metav1.CreateOptions{})
	switch {
	case err != nil:
		b.problem = "whether the user may bypass the guard could not be asked: " + err.Error()
	case !review.Status.Allowed || review.Status.Denied:
		b.problem = fmt.Sprintf("the annotation %s is right, but %s may not %s %s.%s", annotation, brief.Clip(brief.OneLine(req.UserInfo.Username), 100), bypassVerb, bypassResource, bypassGroup)
	default:
		b.granted = true
	}
	return b
}

// recordBypass records a change that was let through.
func (g *Guard) recordBypass(req *admissionv1.AdmissionRequest, c *change, b bypass, failing []report.Finding) {
	if isDryRun(req) {
		return
	}
	g.Metrics.countBypass(string(req.Operation))
	g.Log.Warn("an unsafe change was let through", "crd", c.crd.Name, "operation", req.Operation, "user", req.UserInfo.Username,
		"reason", b.reason, "digest", b.digest, "findings", len(failing), "worst", failing[0].Message)
	g.sendEvent(req, c, EventBypassed, "let through although "+countedFindings(failing), failing, ". Reason given: "+b.reason)
}

// recordRefusal records a change that was refused.
func (g *Guard) recordRefusal(req *admissionv1.AdmissionRequest, c *change, failing []report.Finding) {
	if isDryRun(req) {
		return
	}
	g.Log.Info("an unsafe change was refused", "crd", c.crd.Name, "operation", req.Operation, "user", req.UserInfo.Username,
		"findings", len(failing), "worst", failing[0].Message)
	g.sendEvent(req, c, EventRefused, "refused: "+countedFindings(failing), failing, "")
}

// isDryRun reports whether a change is only tried out. Such a change is not recorded.
func isDryRun(req *admissionv1.AdmissionRequest) bool { return req.DryRun != nil && *req.DryRun }

func (g *Guard) sendEvent(req *admissionv1.AdmissionRequest, c *change, reason, what string, failing []report.Finding, more string) {
	g.Recorder.Event(&corev1.ObjectReference{
		APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: c.crd.Name, UID: c.crd.UID,
	}, corev1.EventTypeWarning, reason, brief.Clip(fmt.Sprintf("%s of the CRD by %s %s (worst: %s)%s",
		operationName(c), brief.Clip(brief.OneLine(req.UserInfo.Username), 150), what, brief.Clip(brief.OneLine(failing[0].Message), 200), more), maxEvent))
}
