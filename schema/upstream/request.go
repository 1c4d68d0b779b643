package upstream

// What comes of a request? For example, Create decodes an object, fills in what the API server fills in, validates, and returns the object as
// it would be stored, or the errors.

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Result is the outcome of a request.
type Result struct {
	// Stored is the object as the API server would write it, with defaults. If Errors is not empty, it is the refused object. It is nil if
	// the request could not be decoded. It may share parts with the arguments of the request: change neither.
	Stored map[string]any
	// Pruned has the paths, such as spec.list[0].name, of the fields that were dropped because the schema does not know them. It is
	// sorted.
	Pruned []string
	// Errors say why the request is refused; empty if it is accepted. They are sorted and without duplicates. Names that the CEL library
	// generates are replaced by a constant. A request that cannot be decoded (status 400) has one error without a path.
	Errors field.ErrorList
}

// Refused reports whether the API server refuses the request.
func (r Result) Refused() bool { return len(r.Errors) > 0 }

// touchLabel is the label that [Validator.TouchUpdate] sets.
const touchLabel = "sluice.dev/touched"

// Create returns the result of a request that creates obj. If there is a status subresource, .status is dropped. obj is not changed.
// The error says why there is no verdict, such as [ErrTooDear].
func (v *Validator) Create(ctx context.Context, obj map[string]any) (res Result, err error) {
	defer recoverAsError(&err)
	if err := checkObject(obj); err != nil {
		return Result{}, err
	}
	d, err := v.decodeObject(obj, fromRequest)
	if err != nil {
		return Result{Errors: undecodedError(err)}, nil
	}
	u := &unstructured.Unstructured{Object: d.object}
	v.placeInNamespace(u)
	if prefix := u.GetGenerateName(); prefix != "" && u.GetName() == "" {
		// k8s.io/apiserver/pkg/storage/names: five random characters, the whole at most 63 long.
		u.SetName(prefix[:min(len(prefix), 58)] + "xxxxx")
	}
	if v.opts.StatusSubresource {
		delete(u.Object, "status")
	}
	u.SetGeneration(1)

	errs, err := v.validateCreate(ctx, u, d.clean)
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return Result{}, err
	}
	return Result{Stored: u.Object, Pruned: d.pruned, Errors: tidyErrors(errs)}, nil
}

// CreateWithStatus creates obj. If there is a status subresource, it then writes .status through it, as a controller would. Errors are
// those of the first request that is refused.
func (v *Validator) CreateWithStatus(ctx context.Context, obj map[string]any) (Result, error) {
	created, err := v.Create(ctx, obj)
	if err != nil || created.Refused() || !v.opts.StatusSubresource {
		return created, err
	}
	status, ok := obj["status"]
	if !ok {
		return created, nil
	}
	second := maps.Clone(created.Stored)
	second["status"] = status
	updated, err := v.UpdateStatus(ctx, second, created.Stored, v.Ratchets())
	updated.Pruned = append(created.Pruned, updated.Pruned...)
	return updated, err
}

// placeInNamespace puts an object into the namespace of the request (rest.EnsureObjectNamespaceMatchesRequestNamespace).
func (v *Validator) placeInNamespace(u *unstructured.Unstructured) {
	switch namespace := u.GetNamespace(); {
	case v.opts.Namespaced && namespace == "":
		u.SetNamespace(metav1.NamespaceDefault)
	case !v.opts.Namespaced && namespace != "":
		u.SetNamespace("")
	}
}

// Read returns the object that the API server serves for an object that it has stored in this version: pruned, without the nulls that
// the schema does not allow, with defaults. It does not validate. stored is not changed, but served may share parts with it: change
// neither. dropped has the paths that were pruned, sorted; defaulted reports whether a default was filled in.
func (v *Validator) Read(stored map[string]any) (served map[string]any, dropped []string, defaulted bool, err error) {
	defer recoverAsError(&err)
	if err := checkObject(stored); err != nil {
		return nil, nil, false, err
	}
	d, err := v.decodeObject(stored, fromStorage)
	return d.object, d.pruned, d.defaulted, err
}

// Update returns the result of a request that replaces the stored object old by obj. Neither is changed. With ratchet, errors in
// unchanged values are tolerated ([Validator.Ratchets]). obj needs no resourceVersion. The error says why there is no verdict.
func (v *Validator) Update(ctx context.Context, obj, old map[string]any, ratchet bool) (Result, error) {
	return v.updateObject(ctx, obj, old, how{ratchet: ratchet})
}

// UpdateStatus returns the result of a request to the status subresource. Only .status and managedFields of obj count. With ratchet,
// errors in unchanged values are tolerated if the API server does so ([RatchetsStatusIn]). Otherwise it is like [Validator.Update].
func (v *Validator) UpdateStatus(ctx context.Context, obj, old map[string]any, ratchet bool) (Result, error) {
	return v.updateObject(ctx, obj, old, how{ratchet: ratchet && RatchetsStatusIn(v.opts.KubeVersion), status: true})
}

// TouchUpdate returns the result of the smallest update: it changes a label of a stored object and leaves the rest as the API server
// serves it. Errors mean that the object is stuck. Pruned has the paths that were dropped when the object was read.
func (v *Validator) TouchUpdate(ctx context.Context, stored map[string]any, ratchet bool) (Result, error) {
	return v.updateObject(ctx, nil, stored, how{ratchet: ratchet, touch: true})
}

// Judgement is the fate of a stored object.
type Judgement struct {
	// Dropped are the paths that are pruned when the object is read, sorted.
	Dropped []string
	// Defaulted is set if a read fills in a default. Changed is set if a read changes the object in another way than by defaults and
	// pruning: it drops a null that the schema does not allow, or makes metadata canonical.
	Defaulted, Changed bool
	// Strict has the errors of [Validator.TouchUpdate] without ratcheting, Ratcheted those with it: the same errors or fewer.
	Strict, Ratcheted field.ErrorList
	// Repeats has the errors about lists of type set or map that hold an item twice. An update tolerates them, an apply of the same manifest
	// and another creation do not.
	Repeats field.ErrorList
}

// Judge combines [Validator.Read] and [Validator.TouchUpdate], without and with ratcheting. It costs about as much as one of them.
// stored is not changed. The error says why there is no verdict.
func (v *Validator) Judge(ctx context.Context, stored map[string]any) (j Judgement, err error) {
	defer recoverAsError(&err)
	if err := checkObject(stored); err != nil {
		return Judgement{}, err
	}
	old, err := v.decodeObject(stored, fromStorage)
	if err != nil {
		return Judgement{}, err
	}
	j.Dropped, j.Defaulted = old.pruned, old.defaulted
	j.Changed = !old.clean && len(old.pruned) == 0 && !old.defaulted && !reflect.DeepEqual(old.object, stored)
	j.Repeats = v.repeatErrors(old.object)
	strict, err := v.updateRead(ctx, nil, old, how{touch: true})
	if err != nil || !strict.Refused() {
		return j, err // an object that passes without ratcheting passes with it
	}
	ratcheted, err := v.updateRead(ctx, nil, old, how{touch: true, ratchet: true})
	j.Strict, j.Ratcheted = strict.Errors, ratcheted.Errors
	return j, err
}

// TouchUpdateFrom is TouchUpdate for an object that is stored in the version of another validator, under conversion strategy None. The
// object is read in that version, converted, and updated in this one.
func (v *Validator) TouchUpdateFrom(ctx context.Context, from *Validator, stored map[string]any, ratchet bool) (Result, error) {
	return v.updateObject(ctx, nil, stored, how{ratchet: ratchet, touch: true, from: from})
}

// UpdateFrom is Update for an object that is stored in the version of another validator, under conversion strategy None. The old value is
// read in that version, with its defaults, and converted; the defaults of this version are filled in in obj alone.
func (v *Validator) UpdateFrom(ctx context.Context, from *Validator, obj, stored map[string]any, ratchet bool) (Result, error) {
	return v.updateObject(ctx, obj, stored, how{ratchet: ratchet, from: from})
}

// Convert converts a served object of another version to this one under conversion strategy None. It changes apiVersion and prunes
// fields that the schema does not know; dropped has their paths, sorted. It fills in no defaults. obj is not changed, but the result
// shares parts with it: change neither.
func (v *Validator) Convert(obj map[string]any) (converted map[string]any, dropped []string, err error) {
	defer recoverAsError(&err)
	if err := checkObject(obj); err != nil {
		return nil, nil, err
	}
	d, err := v.convertVersion(obj)
	return d.object, d.pruned, err
}

// updateObject reads the stored object, in the version of h.from if there is one, and updates it by obj. obj is nil
// for an update that only changes a label. Neither is changed.
func (v *Validator) updateObject(ctx context.Context, obj, stored map[string]any, h how) (res Result, err error) {
	defer recoverAsError(&err)
	if err := checkObject(stored); err != nil {
		return Result{}, err
	}
	old, err := v.readStored(stored, h.from)
	if err != nil {
		return Result{}, fmt.Errorf("stored object: %w", err)
	}
	return v.updateRead(ctx, obj, old, h)
}

// updateRead is update for a stored object that was read. It may set the namespace of the stored object, and changes nothing else in
// it.
func (v *Validator) updateRead(ctx context.Context, obj map[string]any, old decoded, h how) (res Result, err error) {
	uOld := &unstructured.Unstructured{Object: old.object}
	v.placeInNamespace(uOld)

	var request decoded
	var dropped []string
	if h.touch {
		request = decoded{object: withTouchedLabel(old.object), clean: old.clean}
		dropped = old.pruned
	} else {
		if err := checkObject(obj); err != nil {
			return Result{}, err
		}
		request.object = obj
	}
	if !request.clean {
		if request, err = v.decodeObject(request.object, fromRequest); err != nil {
			return Result{Errors: undecodedError(err)}, nil
		}
	}
	u := &unstructured.Unstructured{Object: request.object}
	v.placeInNamespace(u)
	h.touch = h.touch && request.clean // otherwise the second decoding changed more than a label
	if h.touch {
		meta, _ := u.Object["metadata"].(map[string]any)
		h.plain = v.plainMeta(meta)
	}
	if !h.plain {
		v.prepareUpdate(u, uOld, h)
	}

	invented := u.GetResourceVersion() == ""
	if invented { // a request without a resourceVersion gets an error that demands one, which is not the question here
		if rv := uOld.GetResourceVersion(); rv != "" {
			u.SetResourceVersion(rv)
			invented = false
		} else {
			u.SetResourceVersion("1")
		}
	}
	errs, err := v.validateUpdate(ctx, u, uOld, h)
	if invented {
		u.SetResourceVersion("")
	}
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return Result{}, err
	}
	return Result{Stored: u.Object, Pruned: append(dropped, request.pruned...), Errors: tidyErrors(errs)}, nil
}

// readStored reads an object that is stored in the version of from.
func (v *Validator) readStored(stored map[string]any, from *Validator) (decoded, error) {
	if from == nil || from == v {
		return v.decodeObject(stored, fromStorage)
	}
	read, err := from.decodeObject(stored, fromStorage)
	if err != nil {
		return decoded{}, err
	}
	converted, err := v.convertVersion(read.object)
	converted.pruned = append(read.pruned, converted.pruned...)
	return converted, err
}

// withTouchedLabel returns a copy of the object with one more label, or with another value of that label. Only metadata and labels are copied.
func withTouchedLabel(obj map[string]any) map[string]any {
	obj = ownTop(obj)
	meta, ok := obj["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		obj["metadata"] = meta
	}
	labels, _ := meta["labels"].(map[string]any)
	if labels = maps.Clone(labels); labels == nil {
		labels = map[string]any{}
	}
	if labels[touchLabel] == "true" {
		labels[touchLabel] = "again"
	} else {
		labels[touchLabel] = "true"
	}
	meta["labels"] = labels
	return obj
}

// prepareUpdate is rest.BeforeUpdate with the PrepareForUpdate of customResourceStrategy or statusStrategy.
func (v *Validator) prepareUpdate(u, old *unstructured.Unstructured, h how) {
	u.SetGeneration(old.GetGeneration())
	status, hasStatus := u.Object["status"]
	switch {
	case h.status:
		managedFields := u.GetManagedFields()
		u.Object = ownTop(old.Object)
		u.SetManagedFields(managedFields)
	case v.opts.StatusSubresource:
		status, hasStatus = old.Object["status"]
	}
	if hasStatus {
		u.Object["status"] = status
	} else {
		delete(u.Object, "status")
	}
	if !h.status && !apiequality.Semantic.DeepEqual(withoutMetadata(u.Object), withoutMetadata(old.Object)) {
		u.SetGeneration(old.GetGeneration() + 1)
	}

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

func withoutMetadata(obj map[string]any) map[string]any {
	out := maps.Clone(obj)
	delete(out, "metadata")
	return out
}
