package installation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// A removal deletes step by step, and waits until the objects of a step are gone. The order keeps the cluster usable at each moment:
// nothing calls what is gone. Programs that still run would make some objects again, so the plan is made once more at the end.

// ErrBack says that something was there again after its removal.
var ErrBack = errors.New("a program of Sluice still runs and makes again what was removed: stop it, and run the same command again")

const interval = 100 * time.Millisecond

// Remove carries out the plan and calls told before each step. Each step waits until its objects are gone; the context bounds the
// wait. If Remove fails, a new plan has what is left. The error wraps [ErrBack] if an object came back.
func (c *Cluster) Remove(ctx context.Context, p *Plan, o Options, told func(*Step)) error {
	for i := range p.Steps {
		step := &p.Steps[i]
		if step.Title == titleKinds { // the guard is gone, which would refuse this, and the programs that convert still run
			for j := range p.Left {
				if err := c.releaseCRD(ctx, &p.Left[j]); err != nil {
					return err
				}
			}
		}
		if len(step.Objects) == 0 {
			continue
		}
		told(step)
		for j := range step.Objects {
			if err := c.deleteObject(ctx, &step.Objects[j]); err != nil {
				return err
			}
		}
		for j := range step.Objects {
			if err := c.waitUntilGone(ctx, &step.Objects[j]); err != nil {
				return err
			}
		}
	}
	// A controller that still runs may have made an object again after its step.
	again, err := c.Plan(ctx, o)
	if err != nil {
		return err
	}
	if back := createdAgain(p, again); back != nil {
		return fmt.Errorf("%w: %s", ErrBack, strings.Join(back, ", "))
	}
	return nil
}

// createdAgain returns the objects that a plan made after a removal has to remove. An object that the plan p left is not one of
// them: it only lost its reason to stay meanwhile, as a CRD does whose last object expires.
//
// An object is told from those that the plan left by its UID, so one of the same name that was made again counts.
func createdAgain(p, after *Plan) []string {
	var back []string
	for _, s := range after.Steps {
		for _, o := range s.Objects {
			if !slices.ContainsFunc(p.Left, func(left Object) bool { return left.uid == o.uid }) {
				back = append(back, o.String())
			}
		}
	}
	return back
}

// refusedByGuard reports whether Sluice's guard, or the lack of one that answers, refused a request.
func refusedByGuard(err error) bool {
	return err != nil && strings.Contains(err.Error(), "crd-guard.sluice.dev")
}

// releaseCRD makes a CRD that stays independent of the program that converts its objects: it serves the stored version alone.
//
// Without that, every read of an object in the other version would fail once the program is gone.
func (c *Cluster) releaseCRD(ctx context.Context, o *Object) error {
	if o.Kind != "CustomResourceDefinition" || !strings.HasSuffix(o.Name, ".resolution.tekton.dev") {
		return nil
	}
	// A merge patch would need all of the versions. v1beta1 is stored, and v1alpha1 is the second of two.
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/spec/versions/1/name", "value": "v1alpha1"},
		{"op": "replace", "path": "/spec/versions/1/served", "value": false},
		{"op": "replace", "path": "/spec/conversion", "value": map[string]any{"strategy": "None"}},
	})
	if err != nil {
		return err
	}
	// The API server goes on calling a guard for a moment after its webhook is deleted.
	err = retry.OnError(wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1, Steps: 40}, refusedByGuard, func() error {
		_, err := c.objects.Resource(o.resource).Patch(ctx, o.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: "sluice"})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot take the conversion webhook out of %s: %w", o, err)
	}
	return nil
}

// deleteObject deletes an object if it is still the one of the plan. Before a CRD or a namespace goes, Sluice's finalizers leave the
// objects in it, or these would never be gone: the programs that act on the finalizers are stopped by then.
func (c *Cluster) deleteObject(ctx context.Context, o *Object) error {
	uid := types.UID(o.uid)
	policy := metav1.DeletePropagationBackground
	if o.Kind == "Deployment" {
		policy = metav1.DeletePropagationForeground // its Pods are gone before it is
	}
	var unlock []schema.GroupVersionResource
	switch o.Kind {
	case "CustomResourceDefinition":
		plural, group, _ := strings.Cut(o.Name, ".")
		unlock = append(unlock, schema.GroupVersionResource{Group: group, Resource: plural})
	case "Namespace": // kinds that stay may have objects in it
		unlock = append(unlock, schema.GroupVersionResource{Group: "sluice.dev", Resource: "deliveries"},
			schema.GroupVersionResource{Group: "resolution.tekton.dev", Resource: "resolutionrequests"})
	}
	for _, resource := range unlock {
		namespace := metav1.NamespaceAll
		if o.Kind == "Namespace" {
			namespace = o.Name
		}
		if err := c.removeFinalizers(ctx, resource, namespace); err != nil {
			return err
		}
	}
	err := c.objects.Resource(o.resource).Namespace(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &policy,
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot delete %s: %w", o, err)
	}
	return nil
}

// removeFinalizers takes Sluice's finalizers off the objects of a resource that go, in one namespace or in all: who would act on them
// has gone.
//
// The patch has the resource version, so a finalizer that somebody adds meanwhile is not lost. Objects with other finalizers keep
// these.
func (c *Cluster) removeFinalizers(ctx context.Context, resource schema.GroupVersionResource, namespace string) error {
	resource, err := c.mapper.ResourceFor(resource)
	if meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var locked []*metav1.PartialObjectMetadata
	isOurs := func(f string) bool { return strings.HasPrefix(f, "sluice.dev/") }
	err = c.eachObject(ctx, resource, metav1.ListOptions{}, func(o *metav1.PartialObjectMetadata) {
		if (namespace == metav1.NamespaceAll || o.Namespace == namespace) && slices.ContainsFunc(o.Finalizers, isOurs) {
			locked = append(locked, o)
		}
	})
	if err != nil {
		return err
	}
	for _, o := range locked {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": o.ResourceVersion, "finalizers": slices.DeleteFunc(slices.Clone(o.Finalizers), isOurs),
		}})
		if err != nil {
			return err
		}
		_, err = c.objects.Resource(resource).Namespace(o.Namespace).Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "sluice"})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("cannot take the finalizer of Sluice off %s %s/%s: %w", resource.Resource, o.Namespace, o.Name, err)
		}
	}
	return nil
}

// waitUntilGone waits until the object is gone.
//
// If the context ends, the error names the finalizers that still hold the object. Another object of the same name means that a
// program has made it again.
func (c *Cluster) waitUntilGone(ctx context.Context, o *Object) error {
	var held []string
	err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		live, err := c.objects.Resource(o.resource).Namespace(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case err != nil:
			return false, err
		case string(live.UID) != o.uid:
			return false, fmt.Errorf("%w: %s", ErrBack, o)
		}
		held = live.Finalizers
		return false, nil
	})
	if err != nil && ctx.Err() != nil {
		why := ""
		if len(held) > 0 {
			why = "; its finalizers are " + strings.Join(held, ", ")
		}
		return fmt.Errorf("%s is not gone yet%s: %w", o, why, context.Cause(ctx))
	}
	return err
}
