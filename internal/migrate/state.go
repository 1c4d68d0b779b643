package migrate

// How does a migration go on after it was killed? When it begins, it notes in the status of the CRD the resource
// version from which on objects count as written. The next run reads the note, and skips objects with a later one.
// A note for another generation of the CRD, or another storage version, is no use, and the migration begins anew.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/internal/cluster"
)

// Condition is the type of the condition of a CRD whose objects are being rewritten. The status of the CRD is the place of the state, because
// the migration writes it in any case: it needs no other right, the removal of the state and the trimming are one write, and the state
// goes away with the CRD. Nobody applies the status from a manifest, and the guard does not look at it. The controllers of the API server
// keep conditions that are not their own.
const Condition apiextensionsv1.CustomResourceDefinitionConditionType = "sluice.dev/StorageMigration"

// settleTime is how long before the migration the spec of the CRD must be unchanged. Each API server learns of a change by its own watch,
// and writes in the old storage version until then.
const settleTime = 5 * time.Second

// state says for which CRD, and since when, objects are rewritten.
type state struct {
	version, uid, since string
	generation          int64
}

func (s state) String() string {
	return fmt.Sprintf("rewriting in version %s what has resourceVersion %s or an earlier one; generation %d of the CRD %s", s.version, s.since, s.generation, s.uid)
}

// parseState reads what String writes. What it cannot read is no state: the migration then begins anew.
func parseState(text string) (s state, ok bool) {
	_, err := fmt.Sscanf(text, "rewriting in version %s what has resourceVersion %s or an earlier one; generation %d of the CRD %s", &s.version, &s.since, &s.generation, &s.uid)
	return s, err == nil && s.String() == text
}

// stateSince is the state of this migration, if it began at a resource version.
func (r *run) stateSince(since string) state {
	return state{version: r.StorageVersion, uid: string(r.crd.UID), since: since, generation: r.crd.Generation}
}

// begin notes in the CRD since when objects are rewritten, or continues the migration that is noted there.
func (r *run) begin(ctx context.Context) error {
	for _, c := range r.crd.Status.Conditions {
		if s, ok := parseState(c.Message); c.Type == Condition && ok && s == r.stateSince(s.since) {
			r.since = s.since
			return nil
		}
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	var list metav1.PartialObjectMetadataList
	if err := send(ctx, r.rest.Get().AbsPath(r.path("", "")).Param("limit", "1"), &list); err != nil {
		return err
	}
	r.since = list.ResourceVersion
	_, err := r.writeState(ctx, r.stateSince(r.since), false)
	return err
}

// settle waits until the last change of the spec is settleTime ago, by the clock of the API server: a dry run of the write of the state shows
// it.
func (r *run) settle(ctx context.Context) error {
	tried, err := r.writeState(ctx, r.stateSince("0"), true)
	if err != nil {
		return err
	}
	var changed, now time.Time
	for _, e := range tried.ManagedFields {
		switch {
		case e.Time == nil:
		case e.Manager == Manager && e.Subresource == "status":
			now = e.Time.Time
		case e.Subresource == "" && e.Time.After(changed):
			changed = e.Time.Time
		}
	}
	if since := now.Sub(changed); !now.IsZero() && since < settleTime {
		return cluster.Sleep(ctx, min(settleTime-since, settleTime))
	}
	return nil
}

// writeState puts the state into the status of the CRD.
func (r *run) writeState(ctx context.Context, s state, dryRun bool) (*apiextensionsv1.CustomResourceDefinition, error) {
	return r.patchStatus(ctx, dryRun, func(crd *apiextensionsv1.CustomResourceDefinition) map[string]any {
		return map[string]any{"conditions": append(othersConditions(crd), apiextensionsv1.CustomResourceDefinitionCondition{
			Type: Condition, Status: apiextensionsv1.ConditionTrue, Reason: "Rewriting", Message: s.String(), LastTransitionTime: metav1.Now(),
		})}
	})
}

// trim leaves the storage version in status.storedVersions, and removes the state.
func (r *run) trim(ctx context.Context) error {
	_, err := r.patchStatus(ctx, false, func(crd *apiextensionsv1.CustomResourceDefinition) map[string]any {
		return map[string]any{"conditions": othersConditions(crd), "storedVersions": []string{r.StorageVersion}}
	})
	return err
}

// othersConditions are the conditions of a CRD without that of a migration.
func othersConditions(crd *apiextensionsv1.CustomResourceDefinition) []apiextensionsv1.CustomResourceDefinitionCondition {
	return slices.DeleteFunc(slices.Clone(crd.Status.Conditions), func(c apiextensionsv1.CustomResourceDefinitionCondition) bool { return c.Type == Condition })
}

// maxStatusTries bounds the attempts to write the status of a CRD that others write at the same time.
const maxStatusTries = 5

// patchStatus writes what change returns into the status of the CRD as it is, and returns the CRD. It refuses if the spec has changed since the
// migration began.
func (r *run) patchStatus(ctx context.Context, dryRun bool, change func(*apiextensionsv1.CustomResourceDefinition) map[string]any) (*apiextensionsv1.CustomResourceDefinition, error) {
	for try := 1; ; try++ {
		crd, err := r.reads.CRD(ctx, r.CRD)
		if err != nil {
			return nil, err
		}
		if crd == nil || crd.UID != r.crd.UID || crd.Generation != r.crd.Generation {
			return nil, fmt.Errorf("%s: %w", r.CRD, ErrChanged)
		}
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": crd.ResourceVersion, "uid": crd.UID}, "status": change(crd)})
		if err != nil {
			return nil, err
		}
		request := r.rest.Patch(types.MergePatchType).AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd.Name, "status").
			Param("fieldManager", Manager).Body(body)
		if dryRun {
			request.Param("dryRun", metav1.DryRunAll)
		}
		out := &apiextensionsv1.CustomResourceDefinition{}
		if err = send(ctx, request, out); !apierrors.IsConflict(err) || try == maxStatusTries {
			return out, err
		}
	}
}
