package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"sluice.dev/internal/brief"
)

// The API of the migrator in kube-controller-manager (k8s.io/kubernetes/pkg/controller/storageversionmigrator). It begins with objects that were
// written before it first saw the request, skips those that were written later, and ends with the first one that is refused.
const (
	serverGroup = "/apis/storagemigration.k8s.io"
	askAgain   = time.Second
)

type serverMigration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   serverMigrationSpec   `json:"spec"`
	Status serverMigrationStatus `json:"status"`
}

type serverMigrationSpec struct {
	Resource metav1.GroupResource `json:"resource"`
}

type serverMigrationStatus struct {
	Conditions      []metav1.Condition `json:"conditions,omitempty"`
	ResourceVersion string             `json:"resourceVersion,omitempty"`
}

// letServerMigrate lets the API server's own controller rewrite the objects, where there is one, and sets ByServer if it has. If it has not, a
// note says why, and the caller rewrites them. The name of the request depends on the CRD and its generation alone, so a migration that was
// interrupted finds it again.
func (r *run) letServerMigrate(ctx context.Context) error {
	path, apiVersion := r.serverPath(ctx)
	if path == "" {
		return nil
	}
	request := serverMigration{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: "StorageVersionMigration"}}
	request.Name = fmt.Sprintf("sluice-%s-%d", r.crd.UID, r.crd.Generation)
	request.Spec.Resource = metav1.GroupResource{Group: r.crd.Spec.Group, Resource: r.crd.Spec.Names.Plural}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	err = send(ctx, r.rest.Post().AbsPath(path).Body(body), nil)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		if _, stop := settleFate(fate{}, err); stop != nil {
			return stop
		}
		r.note("the API server's own migration was not asked for, so Sluice writes the objects: %v", err)
		return nil
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

// serverPath returns where StorageVersionMigrations are; empty if the API server does not serve a version that this package knows.
func (r *run) serverPath(ctx context.Context) (path, apiVersion string) {
	var group metav1.APIGroup
	if err := sendOnce(ctx, r.rest.Get().AbsPath(serverGroup), &group); err != nil {
		return "", ""
	}
	best := ""
	for _, v := range group.Versions {
		if version.CompareKubeAwareVersionStrings(v.Version, "v1beta1") >= 0 && version.CompareKubeAwareVersionStrings(v.Version, best) > 0 {
			best = v.Version
		}
	}
	if best == "" {
		return "", ""
	}
	return serverGroup + "/" + best + "/storageversionmigrations", "storagemigration.k8s.io/" + best
}

// awaitServer waits for the end of a request, and says why it did not succeed.
func (r *run) awaitServer(ctx context.Context, path string) (why string, err error) {
	answer, cancel := context.WithTimeout(ctx, r.unanswered)
	defer cancel()
	for {
		var now serverMigration
		err := send(ctx, r.rest.Get().AbsPath(path), &now)
		if apierrors.IsNotFound(err) {
			return "somebody deleted the request", nil
		}
		if err != nil {
			return "", err
		}
		if meta.IsStatusConditionTrue(now.Status.Conditions, "Succeeded") {
			return "", nil
		}
		if c := meta.FindStatusCondition(now.Status.Conditions, "Failed"); c != nil && c.Status == metav1.ConditionTrue {
			return brief.Clip(c.Message, maxReason), nil
		}
		if now.Status.ResourceVersion == "" && len(now.Status.Conditions) == 0 && answer.Err() != nil {
			return fmt.Sprintf("no controller answered within %s", r.unanswered), nil
		}
		if err := sleepUnlessDone(ctx, askAgain); err != nil {
			return "", err
		}
	}
}
