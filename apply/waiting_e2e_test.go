//go:build e2e

package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Apply repeatedly reports what it waits for, and which finalizer or condition holds it.
func TestE2EAWaitIsToldOf(t *testing.T) {
	o := newOutsider(t)
	// held has the wait go on until a note has been told twice, lets it end, and gives its error.
	held := func(note string, wait func(ctx context.Context, a *Applier) error, end func()) error {
		t.Helper()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("nobody was told: "+note))
		defer cancel()
		var mu sync.Mutex
		var notes []string
		times := 0
		a, err := New(shared.Get(t).Config(), Options{Namespace: o.home, Now: time.Now, Observe: func(ev Event) {
			mu.Lock()
			defer mu.Unlock()
			if notes = append(notes, ev.Note); strings.HasPrefix(ev.Note, "still waiting: "+note) {
				if times++; times == 2 {
					end()
				}
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		a.reminder = time.Millisecond
		err = wait(ctx, a)
		if times < 2 {
			t.Errorf("no %q in %q", note, notes)
		}
		return err
	}
	finalizers := func(text string) {
		patch := []byte(`{"metadata":{"finalizers":[` + text + `]}}`)
		if _, err := o.kube.CoreV1().ConfigMaps(o.home).Patch(t.Context(), "a", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}
	a0 := o.configMap(o.home, "a")
	o.bring(Request{Objects: []Object{a0}, App: "x"})
	finalizers(`"example.com/controller"`)
	drops := func(ctx context.Context, a *Applier) error { return deletes(ctx, a, "x") }
	brings := func(r Request) func(ctx context.Context, a *Applier) error {
		return func(ctx context.Context, a *Applier) error {
			_, err := applies(ctx, a, r)
			return err
		}
	}
	// One that is told to end says the same once more.
	ctx, stop := context.WithCancelCause(t.Context())
	err := held("ConfigMap "+o.home+"/a is deleted but not gone yet (example.com/controller)", func(_ context.Context, a *Applier) error { return drops(ctx, a) },
		func() { stop(errors.New("enough")) })
	if err == nil || !strings.Contains(err.Error(), "ConfigMap "+o.home+"/a is deleted but not gone yet, a finalizer may wait for something (example.com/controller): enough") {
		t.Errorf("%v", err)
	}
	ctx, stop = context.WithCancelCause(t.Context())
	err = held("ConfigMap "+o.home+"/a is being deleted and not gone yet (example.com/controller)",
		func(_ context.Context, a *Applier) error {
			return brings(Request{Objects: []Object{a0}, App: "x"})(ctx, a)
		}, func() { stop(errors.New("enough")) })
	if err == nil || !strings.Contains(err.Error(), "ConfigMap "+o.home+"/a: the one that is being deleted is not gone yet") || strings.Count(err.Error(), o.home) != 1 {
		t.Errorf("%v", err)
	}
	if err := held("ConfigMap "+o.home+"/a is deleted but not gone yet", drops, func() { finalizers("") }); err != nil {
		t.Error(err)
	}
	web := o.object(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	ready := func() {
		status := []byte(`{"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,"conditions":[{"type":"Available","status":"True"},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`)
		if _, err := o.kube.AppsV1().Deployments(o.home).Patch(t.Context(), "web", types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
			t.Error(err)
		}
	}
	if err := held("Deployment.apps "+o.home+"/web is InProgress (", brings(Request{Objects: []Object{web}, Wait: true}), ready); err != nil {
		t.Error(err)
	}
	other := o.object(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other","annotations":{"kapp.k14s.io/exists":""}}}`)
	if err := held("nobody has created ConfigMap "+o.home+"/other yet", brings(Request{Objects: []Object{other}}), func() {
		if _, err := o.try(Request{Objects: []Object{o.configMap(o.home, "other")}}); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Error(err)
	}
}

// An app whose own namespace is being deleted comes back with it when it is gone.
func TestE2EANamespaceOfAnAppThatIsBeingDeletedComesAnew(t *testing.T) {
	o := newOutsider(t)
	r := Request{Objects: []Object{o.object(fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, o.home)), o.configMap(o.home, "a")}, App: "x"}
	o.bring(r)
	if err := o.kube.CoreV1().Namespaces().Delete(t.Context(), o.home, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o.bring(r)
	if _, err := o.kube.CoreV1().ConfigMaps(o.home).Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if err := o.drop("x"); err != nil {
		t.Error(err)
	}
}
