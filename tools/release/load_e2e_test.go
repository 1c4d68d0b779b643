//go:build e2e

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// load is what users do while Sluice is upgraded or restarted. Whatever they lose fails the test.
type load struct {
	*walk

	client dynamic.Interface
	ctx    context.Context //nolint:containedctx // it ends the load
	cancel context.CancelFunc
	users  sync.WaitGroup

	mu   sync.Mutex
	done map[string]int
}

// pace is how long a user waits between two things.
const pace = 50 * time.Millisecond

// begin starts users who send requests, change the CRD of the walk in safe and unsafe ways, write a field whose gate is closed, and,
// if flips is set, open and close that gate and create and delete Deliveries.
func (w *walk) begin(flips bool) *load {
	w.Helper()
	config := w.cluster.Config()
	config.WarningHandler = rest.NoWarnings{}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		w.Fatal(err)
	}
	l := &load{walk: w, client: client, done: map[string]int{}}
	l.ctx, l.cancel = context.WithCancel(w.Context())
	for user := range 2 {
		l.user(func(round int) error { return l.request(fmt.Sprintf("load-%d-%d", user, round)) })
	}
	l.user(l.changeCRD)
	if flips {
		l.user(l.flip)
		l.user(l.deliver)
	} else {
		l.user(func(int) error { return l.gated(false) })
	}
	return l
}

// user does one thing again and again until the load ends.
func (l *load) user(what func(round int) error) {
	l.users.Go(func() {
		for round := 0; l.ctx.Err() == nil; round++ {
			if err := what(round); err != nil {
				l.Error(err)
			}
			select {
			case <-l.ctx.Done():
			case <-time.After(pace):
			}
		}
	})
}

// end waits until the users have finished what they have begun. Each of them must have done something.
func (l *load) end(kinds ...string) {
	l.Helper()
	l.cancel()
	l.users.Wait()
	l.Log(l.counts())
	if err := l.busy(kinds...); err != nil {
		l.Error(err)
	}
}

// busy says which kinds of work have not been done yet.
func (l *load) busy(kinds ...string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, kind := range kinds {
		if l.done[kind] == 0 {
			return fmt.Errorf("of %s there was none", kind)
		}
	}
	return nil
}

func (l *load) count(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done[what]++
}

// anew tells what was done, and begins to count anew.
func (l *load) anew() string {
	out := l.counts()
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.done)
	return out
}

// counts tells what was done.
func (l *load) counts() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(l.done)) {
		out = append(out, fmt.Sprintf("%s: %d", kind, l.done[kind]))
	}
	return strings.Join(out, ", ")
}

var (
	requestResource  = schema.GroupVersionResource{Group: "resolution.tekton.dev", Version: "v1beta1", Resource: "resolutionrequests"}
	deliveryResource = schema.GroupVersionResource{Group: "sluice.dev", Version: "v1alpha1", Resource: "deliveries"}
	crdResource      = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	databaseResource = schema.GroupVersionResource{Group: "shop.example.com", Version: "v1", Resource: "databases"}
	configMaps       = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

func object(text string) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	return u, yaml.Unmarshal([]byte(text), &u.Object)
}

// patiently asks until something is so. Users finish what they have begun, so it does not end with the load.
func (l *load) patiently(what string, ask func(ctx context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), 3*time.Minute)
	defer cancel()
	for {
		ok, err := ask(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", what, err)
		case ok:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-time.After(pace):
		}
	}
}

// request sends a request that needs a fetch, and reads the answer.
func (l *load) request(name string) error {
	u, err := object(fmt.Sprintf(`
apiVersion: resolution.tekton.dev/v1beta1
kind: ResolutionRequest
metadata: {name: %s, namespace: shop, labels: {resolution.tekton.dev/type: git}}
spec: {params: [{name: url, value: %q}, {name: pathInRepo, value: deploy/settings.yaml}, {name: cache, value: never}]}
`, name, l.repository))
	if err != nil {
		return err
	}
	requests := l.client.Resource(requestResource).Namespace("shop")
	if _, err := requests.Create(l.ctx, u, metav1.CreateOptions{}); err != nil {
		if l.ctx.Err() != nil {
			return nil //nolint:nilerr // the load has ended
		}
		return fmt.Errorf("a request was not taken: %w", err)
	}
	err = l.patiently("the request "+name, func(ctx context.Context) (bool, error) {
		u, err := requests.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
		if err != nil {
			return false, err
		}
		for _, c := range conditions {
			c, _ := c.(map[string]any)
			if c["type"] != "Succeeded" || c["status"] == "Unknown" {
				continue
			}
			data, _, err := unstructured.NestedString(u.Object, "status", "data")
			text, errText := base64.StdEncoding.DecodeString(data)
			if c["status"] != "True" || !strings.Contains(string(text), "currency: EUR") {
				return false, errors.Join(fmt.Errorf("it ended with %v and %q", c, text), err, errText)
			}
			return true, nil
		}
		return false, nil
	})
	l.count("requests")
	return errors.Join(err, requests.Delete(context.WithoutCancel(l.ctx), name, metav1.DeleteOptions{}))
}

// changeCRD changes the CRD of the walk so that the guard must refuse it, and so that it must not.
func (l *load) changeCRD(round int) error {
	apply := func(text string) error {
		u, err := object(text)
		if err != nil {
			return err
		}
		_, err = l.client.Resource(crdResource).Apply(context.WithoutCancel(l.ctx), u.GetName(), u, metav1.ApplyOptions{FieldManager: "kubectl", Force: true})
		return err
	}
	err := apply(walkCRD("postgres"))
	switch {
	case err == nil:
		return errors.New("an unsafe change was let through")
	case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "mysql"):
		return fmt.Errorf("an unsafe change got no verdict: %w", err)
	}
	l.count("unsafe changes refused")
	safe := strings.Replace(walkCRD("postgres, mysql, mariadb"), "replicas: {", fmt.Sprintf("replicas: {description: round %d, ", round), 1)
	if err := apply(safe); err != nil {
		return fmt.Errorf("a safe change was refused: %w", err)
	}
	l.count("safe changes")
	return nil
}

// gated fails unless the field behind the gate can be written, or cannot.
func (l *load) gated(open bool) error {
	u, err := object(walkObject("gated", "engine: mysql, replicas: 3"))
	if err != nil {
		return err
	}
	_, err = l.client.Resource(databaseResource).Namespace("default").Create(context.WithoutCancel(l.ctx), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case open && err != nil:
		return fmt.Errorf("the gate is open, and its field cannot be written: %w", err)
	case !open && err == nil:
		return errors.New("the gate is closed, and its field can be written")
	case !open && !strings.Contains(err.Error(), "Replicas"):
		return fmt.Errorf("the gate gave no verdict: %w", err)
	}
	l.count("writes of a gated field")
	return nil
}

// flip opens or closes the gate, and looks at its field once that has taken effect.
func (l *load) flip(round int) error {
	open := round%2 == 0
	patch := fmt.Appendf(nil, `{"data": {"replicas": "%t"}}`, open)
	if _, err := l.client.Resource(configMaps).Namespace("shop").Patch(context.WithoutCancel(l.ctx), "feature-flags", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	l.count("flips")
	var last error
	if err := l.patiently("the flip", func(context.Context) (bool, error) {
		last = l.gated(open)
		return last == nil, nil
	}); err != nil {
		return errors.Join(err, last)
	}
	for range 10 {
		if err := l.gated(open); err != nil {
			return err
		}
	}
	return nil
}

// deliver creates a Delivery, waits for its object, and deletes both.
func (l *load) deliver(round int) error {
	name := fmt.Sprintf("extra-%d", round)
	u, err := object(fmt.Sprintf(`
apiVersion: sluice.dev/v1alpha1
kind: Delivery
metadata: {name: %s, namespace: shop}
spec: {source: {url: "git+%s//extra?ref=main"}, interval: 1m, prune: true, deletionPolicy: Delete, serviceAccountName: deployer}
`, name, l.repository))
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(l.ctx)
	deliveries, maps := l.client.Resource(deliveryResource).Namespace("shop"), l.client.Resource(configMaps).Namespace("shop")
	if _, err := deliveries.Create(ctx, u, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("a Delivery was not taken: %w", err)
	}
	exists := func(resource dynamic.ResourceInterface, name string, want bool) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			_, err := resource.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return !want, nil
			}
			return err == nil && want, err
		}
	}
	if err := l.patiently("the object of "+name, exists(maps, "extra", true)); err != nil {
		return err
	}
	if err := deliveries.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := l.patiently("the end of "+name, exists(deliveries, name, false)); err != nil {
		return err
	}
	l.count("deliveries")
	return l.patiently("the end of the object of "+name, exists(maps, "extra", false))
}
