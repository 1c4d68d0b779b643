package apply

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The error of a run that has lost its lock says why, whatever the API server answers to renewals.
func TestALockThatIsNotRenewedIsLostForAReason(t *testing.T) {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/shops/leases"
	resource := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	for name, answers := range map[string]struct{ put, post, get *apierrors.StatusError }{
		"the server fails": {put: apierrors.NewInternalError(errors.New("no"))},
		"it is there and is not, in turn": {
			apierrors.NewNotFound(resource, "x"), apierrors.NewAlreadyExists(resource, "x"), apierrors.NewNotFound(resource, "x"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, a := newServer(t)
				s.put(leases, map[string]any{"items": []any{}})
				var refuses atomic.Bool
				answer := func(w http.ResponseWriter, r *http.Request) {
					refusal := map[string]*apierrors.StatusError{http.MethodPut: answers.put, http.MethodPost: answers.post, http.MethodGet: answers.get}[r.Method]
					if refuses.Load() && refusal != nil {
						answerStatus(w, refusal)
					} else {
						s.serve(w, r)
					}
				}
				s.down = map[string]http.HandlerFunc{leases: answer, leases + "/sluice-app-shop": answer}
				locked, unlock, err := a.acquireLock(t.Context(), &Inventory{App: "shop", Namespace: "shops"})
				defer unlock()
				if err != nil {
					t.Fatal(err)
				}
				refuses.Store(true)
				<-locked.Done()
				if err := context.Cause(locked); !errors.Is(err, errLost) || strings.Contains(err.Error(), "%!") || !strings.Contains(err.Error(), "cannot be renewed: ") {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}
