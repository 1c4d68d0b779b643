package delivery

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/config"
	"sluice.dev/internal/input"
	"sluice.dev/internal/migrate"
)

// A source may remove a version of a CRD in which objects are still stored. The API server refuses that. With spec.migrate the
// objects are rewritten in the storage version first, as sluice migrate does it.

// tellProgress is how often the status shows the progress of a migration.
const tellProgress = 5 * time.Second

// migrateFirst migrates stored objects, if spec.migrate asks for it, and reports whether that ends the round, and when to check again
// then.
func (r *run) migrateFirst(ctx, process context.Context, cfg *config.Config, got *fetched, set *input.Set) (again time.Duration, ended bool) {
	if !r.d.Spec.Migrate {
		return 0, false
	}
	refused, err := r.migrateObjects(ctx, set)
	switch {
	case err != nil:
		return r.endFailed(ctx, got, err), true
	case refused != "":
		return r.endRefused(process, cfg, got, v1alpha1.ReasonObjectsRefused, refused), true
	}
	return 0, false
}

// migrateObjects migrates the stored objects of the CRDs that lose a version with the source. It says why the source cannot be
// applied, if objects are refused. An error may be temporary: the next round continues.
//
// The status is written while it works, so that users see the progress. If that fails, the migration ends: another process may work
// on the delivery.
func (r *run) migrateObjects(ctx context.Context, set *input.Set) (refused string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	name, told := "", time.Time{}
	m, err := migrate.New(r.impersonatedConfig(), migrate.Options{Progress: func(done, total int64) {
		if r.Clock.Since(told) < tellProgress {
			return
		}
		told = r.Clock.Now()
		message := fmt.Sprintf("%d objects of %s are rewritten", done, name)
		if total >= 0 {
			message = fmt.Sprintf("%d of %d objects of %s are rewritten", done, total, name)
		}
		r.setCondition(v1alpha1.ConditionMigrated, metav1.ConditionFalse, v1alpha1.ReasonMigrating, message)
		if err := r.api.updateStatus(ctx, r.d); err != nil { // perhaps the delivery was changed in the meantime
			cancel(fmt.Errorf("writing the status: %w", err))
		}
	}})
	if err != nil {
		return "", err
	}
	for _, document := range set.Documents {
		name = document.CRD.Name
		if due, err := m.LosesVersion(ctx, document.CRD); err != nil || !due {
			if err != nil {
				return "", err
			}
			continue
		}
		result, err := m.Migrate(ctx, name)
		if err != nil {
			return "", fmt.Errorf("migrating the objects of %s: %w", name, err)
		}
		if result.Refused > 0 {
			message := fmt.Sprintf("%d of %d objects of %s cannot be rewritten, such as %s: %s; sluice migrate %s --dry-run lists them",
				result.Refused, result.Objects, name, result.Refusals[0].Object, result.Refusals[0].Reason, name)
			r.setCondition(v1alpha1.ConditionMigrated, metav1.ConditionFalse, v1alpha1.ReasonObjectsRefused, message)
			return message, nil
		}
		message := fmt.Sprintf("the %d objects of %s are in version %s", result.Objects, name, result.StorageVersion)
		r.setCondition(v1alpha1.ConditionMigrated, metav1.ConditionTrue, v1alpha1.ReasonMigrated, message)
		if result.Outcome == migrate.Migrated {
			r.events = append(r.events, event{corev1.EventTypeNormal, v1alpha1.ReasonMigrated, message})
		}
	}
	return "", nil
}
