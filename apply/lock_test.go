package apply

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	coordinationv1 "k8s.io/api/coordination/v1"
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
				during, stop := locked.untilLost(t.Context())
				defer stop()
				refuses.Store(true)
				<-during.Done()
				if err := context.Cause(during); !errors.Is(err, errLost) || strings.Contains(err.Error(), "%!") || !strings.Contains(err.Error(), "cannot be renewed: ") {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}

// A holder that was stopped, or that is on another machine, may still run.
func TestTheNoteOfALockTakenOverSaysWhatIsKnown(t *testing.T) {
	holder := "ann on host, process 1"
	l := &lock{locks: &Locks{}, app: "shops/shop"}
	for process, want := range map[string]string{
		"": "which has not renewed it for 15s", "another machine": "which has not renewed it for 15s", thisProcess(): "which has not renewed it for 15s",
		endedProcess(): "which has ended",
	} {
		held := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
		held.Annotations = map[string]string{annotationProcess: process}
		if got := l.takeoverNote(held); !strings.HasSuffix(got, holder+", "+want) {
			t.Errorf("%q: %s", process, got)
		}
	}
}

// endedProcess identifies a process that had the ID of this one.
func endedProcess() string {
	fields := strings.Fields(thisProcess())
	return strings.Join(append(fields[:len(fields)-1], "1"), " ")
}
