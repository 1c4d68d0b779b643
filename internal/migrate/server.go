package migrate

// Can the API server do the work? Since Kubernetes 1.30 it may serve StorageVersionMigrations (KEP-4192), and a
// controller of its own rewrites the objects that a request names. That needs no traffic through this process. It
// is tried first, and whatever goes wrong with it is a note: then Sluice writes the objects itself.

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/cluster"
)

// letServerMigrate lets the API server's own controller rewrite the objects, where there is one, and sets ByServer if it has
// (k8s.io/kubernetes/pkg/controller/storageversionmigrator). If it has not, a note says why, and the caller rewrites them. The name of the request
// depends on the CRD and its generation alone, so a migration that was interrupted finds it again.
func (r *run) letServerMigrate(ctx context.Context) error {
	var request storagemigrationv1.StorageVersionMigration
	request.Kind, request.Name = "StorageVersionMigration", fmt.Sprintf("sluice-%s-%d", r.crd.UID, r.crd.Generation)
	request.Spec.Resource = metav1.GroupResource{Group: r.crd.Spec.Group, Resource: r.crd.Spec.Names.Plural}
	path, err := "", error(nil)
	for _, version := range []string{"v1", "v1beta1"} { // they have the same fields
		request.APIVersion = "storagemigration.k8s.io/" + version
		path = "/apis/" + request.APIVersion + "/storageversionmigrations"
		body, failed := json.Marshal(request)
		if failed != nil {
			return failed
		}
		if err = send(ctx, r.rest.Post().AbsPath(path).Body(body), nil); !apierrors.IsNotFound(err) {
			break
		}
	}
	if apierrors.IsNotFound(err) {
		return nil // the API server does not serve the kind
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		r.note("the API server's own migration was not asked for, so Sluice writes the objects: %v", err)
		_, stop := settleFate(fate{}, err)
		return stop
	}
	why, err := r.awaitServer(ctx, path+"/"+request.Name)
	if err != nil {
		return err
	}
	if r.ByServer = why == ""; !r.ByServer {
		r.note("the API server's own migration did not succeed, so Sluice writes the objects: %s", why)
	}
	if err := send(ctx, r.rest.Delete().AbsPath(path, request.Name), nil); err != nil && !apierrors.IsNotFound(err) {
		r.note("the StorageVersionMigration %s was not deleted: %v", request.Name, err)
	}
	return nil
}

// awaitServer waits for the end of a request, and says why it did not succeed. An API server may serve the kind without its controller.
func (r *run) awaitServer(ctx context.Context, path string) (why string, err error) {
	answer, cancel := context.WithTimeout(ctx, r.unanswered)
	defer cancel()
	for {
		var now storagemigrationv1.StorageVersionMigration
		err := send(ctx, r.rest.Get().AbsPath(path), &now)
		if apierrors.IsNotFound(err) {
			return "somebody deleted the request", nil
		}
		if err != nil {
			return "", err
		}
		if meta.IsStatusConditionTrue(now.Status.Conditions, string(storagemigrationv1.MigrationSucceeded)) {
			return "", nil
		}
		if c := meta.FindStatusCondition(now.Status.Conditions, string(storagemigrationv1.MigrationFailed)); c != nil && c.Status == metav1.ConditionTrue {
			return brief.Clip(c.Message, maxReason), nil
		}
		if now.Status.ResourceVersion == "" && len(now.Status.Conditions) == 0 && answer.Err() != nil {
			return fmt.Sprintf("no controller answered within %s", r.unanswered), nil
		}
		if err := cluster.Sleep(ctx, time.Second); err != nil {
			return "", err
		}
	}
}
