package upstream

import (
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Result is what comes of a request.
type Result struct {
	// Stored is the object as the API server would write it, with defaults, where Errors is empty; and what was refused
	// where it is not. It is nil where the request could not even be decoded.
	Stored map[string]any
	// Pruned are the paths (spec.list[0].name) that were dropped because the schema does not know them, sorted.
	Pruned []string
	// Errors are why the request is refused; empty where it is accepted. They are sorted and without repetition; names that
	// the CEL library makes up are evened out. A request that cannot be decoded (status 400) has one error without a path.
	Errors field.ErrorList
}

// Refused tells whether the API server refuses the request.
func (r Result) Refused() bool { return len(r.Errors) > 0 }

// touchLabel is the label that [Validator.TouchUpdate] sets.
const touchLabel = "sluice.dev/touched"

// Create says what becomes of obj when it is sent to be created: .status is dropped where there is a status subresource.
// obj is not changed. The error says why there is no verdict.
func (v *Validator) Create(ctx context.Context, obj map[string]any) (res Result, err error) {
	defer recovered(&err)
	if err := checkValue(obj, 0); err != nil {
		return Result{}, err
	}
	return v.create(ctx, runtime.DeepCopyJSON(obj))
}

// CreateWithStatus creates obj and, where there is a status subresource, then writes its .status through that, as a
// controller would. Errors are those of the first request that is refused.
func (v *Validator) CreateWithStatus(ctx context.Context, obj map[string]any) (res Result, err error) {
	defer recovered(&err)
	res, err = v.Create(ctx, obj)
	if err != nil || res.Refused() || !v.opts.StatusSubresource {
		return res, err
	}
	status, ok := obj["status"]
	if !ok {
		return res, nil
	}
	second := runtime.DeepCopyJSON(res.Stored)
	second["status"] = runtime.DeepCopyJSONValue(status)
	updated, err := v.update(ctx, second, res.Stored, v.Ratchets(), true)
	updated.Pruned = append(res.Pruned, updated.Pruned...)
	return updated, err
}

// create works on obj itself.
func (v *Validator) create(ctx context.Context, obj map[string]any) (Result, error) {
	pruned, err := v.decode(obj, fromRequest)
	if err != nil {
		return Result{Errors: undecoded(err)}, nil
	}
	v.setDefaults(obj)

	u := &unstructured.Unstructured{Object: obj}
	v.place(u)
	if prefix := u.GetGenerateName(); prefix != "" && u.GetName() == "" {
		// k8s.io/apiserver/pkg/storage/names: five random characters, the whole at most 63 long.
		u.SetName(prefix[:min(len(prefix), 58)] + "xxxxx")
	}
	if v.opts.StatusSubresource {
		delete(obj, "status")
	}
	u.SetGeneration(1)

	errs := v.validateCreate(ctx, u)
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	return Result{Stored: obj, Pruned: pruned, Errors: tidy(errs)}, nil
}

// place puts an object into the namespace of the request (rest.EnsureObjectNamespaceMatchesRequestNamespace).
func (v *Validator) place(u *unstructured.Unstructured) {
	switch {
	case v.opts.Namespaced && u.GetNamespace() == "":
		u.SetNamespace(metav1.NamespaceDefault)
	case !v.opts.Namespaced && u.GetNamespace() != "":
		u.SetNamespace("")
	}
}

// Read says what the API server serves for an object that it has stored in this version: pruned, without the nulls that
// the schema does not allow, with defaults. It does not validate. stored is not changed, but served may share parts with
// it: change neither. pruned are the paths that were dropped, sorted; defaulted tells whether a default was filled in.
func (v *Validator) Read(stored map[string]any) (served map[string]any, pruned []string, defaulted bool, err error) {
	defer recovered(&err)
	if err := checkValue(stored, 0); err != nil {
		return nil, nil, false, err
	}
	served = runtime.DeepCopyJSON(stored)
	if pruned, err = v.decode(served, fromStorage); err != nil {
		return nil, nil, false, err
	}
	before := runtime.DeepCopyJSON(served)
	v.setDefaults(served)
	return served, pruned, !apiequality.Semantic.DeepEqual(before, served), nil
}

// Update says what becomes of a request that replaces the stored object old by obj. Neither is changed. With ratchet,
// what was wrong before and is left alone is tolerated ([Validator.Ratchets]). A resourceVersion is not demanded. The error
// says why there is no verdict.
func (v *Validator) Update(ctx context.Context, obj, old map[string]any, ratchet bool) (res Result, err error) {
	return v.updateFromStored(ctx, obj, old, ratchet, false)
}

// UpdateStatus says what becomes of a request to the status subresource. Of obj only .status (and managedFields) count.
// Otherwise it is like [Validator.Update].
func (v *Validator) UpdateStatus(ctx context.Context, obj, old map[string]any, ratchet bool) (res Result, err error) {
	return v.updateFromStored(ctx, obj, old, ratchet, true)
}

func (v *Validator) updateFromStored(ctx context.Context, obj, old map[string]any, ratchet, status bool) (res Result, err error) {
	defer recovered(&err)
	if err := checkValue(obj, 0); err != nil {
		return Result{}, err
	}
	served, err := v.readOld(old)
	if err != nil {
		return Result{}, err
	}
	return v.update(ctx, runtime.DeepCopyJSON(obj), served, ratchet, status)
}

// readOld is Read, for an object of one's own to update.
func (v *Validator) readOld(stored map[string]any) (map[string]any, error) {
	served, _, _, err := v.Read(stored)
	if err != nil {
		return nil, fmt.Errorf("old object: %w", err)
	}
	v.place(&unstructured.Unstructured{Object: served})
	return served, nil
}

// TouchUpdate says what becomes of the smallest of updates: one that adds a label to a stored object and leaves the rest as
// the API server serves it. Errors mean that the object is stuck.
func (v *Validator) TouchUpdate(ctx context.Context, stored map[string]any, ratchet bool) (res Result, err error) {
	defer recovered(&err)
	served, pruned, _, err := v.Read(stored)
	if err != nil {
		return Result{}, err
	}
	v.place(&unstructured.Unstructured{Object: served})
	obj := runtime.DeepCopyJSON(served)
	u := &unstructured.Unstructured{Object: obj}
	labels := u.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[touchLabel] = "true"
	u.SetLabels(labels)
	res, err = v.update(ctx, obj, served, ratchet, false)
	res.Pruned = append(pruned, res.Pruned...)
	return res, err
}

// update works on obj itself; old is as read from storage and stays as it is, or is shared by the result.
func (v *Validator) update(ctx context.Context, obj, old map[string]any, ratchet, status bool) (Result, error) {
	pruned, err := v.decode(obj, fromRequest)
	if err != nil {
		return Result{Errors: undecoded(err)}, nil
	}
	v.setDefaults(obj)

	u := &unstructured.Unstructured{Object: obj}
	uOld := &unstructured.Unstructured{Object: old}
	v.place(u)
	u.SetGeneration(uOld.GetGeneration())
	if status {
		prepareStatusUpdate(u, uOld)
	} else {
		v.prepareUpdate(u, uOld)
	}
	obj = u.Object
	keepSystemFields(u, uOld)

	invented := u.GetResourceVersion() == ""
	if invented {
		u.SetResourceVersion("1") // a request that names no version is answered with a demand for one; it is not what we ask
		if rv := uOld.GetResourceVersion(); rv != "" {
			u.SetResourceVersion(rv)
			invented = false
		}
	}
	errs := v.validateUpdate(ctx, u, uOld, ratchet, status)
	if invented {
		u.SetResourceVersion("")
	}
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	return Result{Stored: obj, Pruned: pruned, Errors: tidy(errs)}, nil
}

// prepareUpdate is customResourceStrategy.PrepareForUpdate.
func (v *Validator) prepareUpdate(u, old *unstructured.Unstructured) {
	if v.opts.StatusSubresource {
		if status, ok := old.Object["status"]; ok {
			u.Object["status"] = runtime.DeepCopyJSONValue(status)
		} else {
			delete(u.Object, "status")
		}
	}
	if !apiequality.Semantic.DeepEqual(withoutMetadata(u.Object), withoutMetadata(old.Object)) {
		u.SetGeneration(old.GetGeneration() + 1)
	}
}

func withoutMetadata(obj map[string]any) map[string]any {
	out := make(map[string]any, len(obj))
	for k, v := range obj {
		if k != "metadata" {
			out[k] = v
		}
	}
	return out
}

// prepareStatusUpdate is statusStrategy.PrepareForUpdate.
func prepareStatusUpdate(u, old *unstructured.Unstructured) {
	status, ok := u.Object["status"]
	managedFields := u.GetManagedFields()
	*u = *old.DeepCopy()
	u.SetManagedFields(managedFields)
	if ok {
		u.Object["status"] = status
	} else {
		delete(u.Object, "status")
	}
}

// keepSystemFields is what rest.BeforeUpdate carries over from the stored object.
func keepSystemFields(u, old *unstructured.Unstructured) {
	if u.GetUID() == "" {
		u.SetUID(old.GetUID())
	}
	if t := old.GetCreationTimestamp(); !t.IsZero() {
		u.SetCreationTimestamp(t)
	}
	if t := old.GetDeletionTimestamp(); !t.IsZero() {
		u.SetDeletionTimestamp(t)
	}
	if s := old.GetDeletionGracePeriodSeconds(); s != nil && u.GetDeletionGracePeriodSeconds() == nil {
		u.SetDeletionGracePeriodSeconds(s)
	}
}
