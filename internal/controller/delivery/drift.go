package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/apply"
	"sluice.dev/internal/brief"
)

// Drift is a difference from the applied objects although neither source nor spec has changed since. The status shows it before the
// controller corrects it. With driftPolicy Warn it only shows it.

// tooMany says why a plan deletes more than it may; empty if it does not.
func (r *run) tooMany(plan *apply.Plan) (string, error) {
	text := ""
	if r.d.Spec.MaxDeletes != nil {
		text = r.d.Spec.MaxDeletes.String()
	}
	deletes, recorded := plan.Count(apply.Delete), plan.Existing()
	most, err := apply.MostDeletes(text, recorded)
	if err != nil {
		return "", fmt.Errorf("spec.maxDeletes %w", err)
	}
	if deletes <= most {
		return "", nil
	}
	return fmt.Sprintf("pruning would delete %d of the %d objects, more than %d, so nothing is changed; if the source is as it should be, set spec.maxDeletes to %d or more",
		deletes, recorded, most, deletes), nil
}

// isApplied reports whether a revision was applied last, by the current spec.
func (r *run) isApplied(digest string) bool {
	c := r.findCondition(v1alpha1.ConditionApplied)
	return r.d.Status.Applied != nil && r.d.Status.Applied.Digest == digest && c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == r.d.Generation
}

// recordDrift records in the status the objects of a plan that others have changed. It reports whether nothing else is to do, as with
// driftPolicy Warn.
func (r *run) recordDrift(ctx context.Context, a *apply.Applier, request apply.Request, plan *apply.Plan) (stop bool, err error) {
	if plan.Changes() == 0 {
		return false, nil
	}
	found, err := a.Try(ctx, plan, apply.TryOptions{})
	if conflict, ok := errors.AsType[*apply.ConflictError](err); ok && r.isDrift(ctx, a, plan, conflict) {
		request.Force = true
		if plan, err = a.Plan(ctx, request); err == nil {
			found, err = a.Try(ctx, plan, apply.TryOptions{})
		}
	}
	if err != nil || len(found) == 0 {
		return false, err
	}
	warn := r.d.Spec.DriftPolicy == v1alpha1.DriftWarn
	st := &r.d.Status
	now := &v1alpha1.DeliveryDrift{Objects: objectCount(len(found)), SeenTime: metaTime(r.now)}
	for _, d := range found[:min(len(found), maxWorst)] {
		now.Examples = append(now.Examples, d.String())
	}
	if was := st.Drift; was != nil && was.CorrectedTime == nil && slices.Equal(was.Examples, now.Examples) && was.Objects == now.Objects {
		now.SeenTime = was.SeenTime
	}
	st.Drift = now
	message := fmt.Sprintf("others have changed %s: %s", brief.Count(len(found), "object"), strings.Join(now.Examples, ", "))
	if warn {
		message += "; spec.driftPolicy: Correct corrects them"
	}
	r.setCondition(v1alpha1.ConditionDrifted, metav1.ConditionTrue, v1alpha1.ReasonDrift, message)
	if warn {
		return true, nil
	}
	return false, r.api.updateStatus(ctx, r.d)
}

// recordNoDrift records that nothing differs any more.
func (r *run) recordNoDrift() {
	if d := r.d.Status.Drift; d != nil && d.CorrectedTime == nil {
		d.CorrectedTime = metaTime(r.now)
	}
	meta.RemoveStatusCondition(&r.d.Status.Conditions, v1alpha1.ConditionDrifted)
}
