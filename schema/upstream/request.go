package upstream

import (
	"context"
	"fmt"
	"maps"
	"reflect"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Result is what comes of a request.
type Result struct {
	// Stored is the object as the API server would write it, with defaults, where Errors is empty; and what was refused
	// where it is not. It is nil if the request could not even be decoded. It may share parts with the arguments of the
	// request: change neither.
	Stored map[string]any
	// Pruned are the paths (spec.list[0].name) that were dropped because the schema does not know them, sorted.
	Pruned []string
	// Errors are why the request is refused; empty if it is accepted. They are sorted and without repetition; names that
	// the CEL library makes up are evened out. A request that cannot be decoded (status 400) has one error without a path.
	Errors field.ErrorList
}

// Refused reports whether the API server refuses the request.
func (r Result) Refused() bool { return len(r.Errors) > 0 }

// touchLabel is the label that [Validator.TouchUpdate] sets.
const touchLabel = "sluice.dev/touched"

// Create says what becomes of obj when it is sent to be created: .status is dropped where there is a status subresource.
// obj is not changed. The error says why there is no verdict.
func (v *Validator) Create(ctx context.Context, obj map[string]any) (res Result, err error) {
	defer recovered(&err)
	if err := checkObject(obj); err != nil {
		return Result{}, err
	}
	d, err := v.decode(obj, fromRequest)
	if err != nil {
		return Result{Errors: undecoded(err)}, nil
	}
	u := &unstructured.Unstructured{Object: d.object}
	v.place(u)
	if prefix := u.GetGenerateName(); prefix != "" && u.GetName() == "" {
		// k8s.io/apiserver/pkg/storage/names: five random characters, the whole at most 63 long.
		u.SetName(prefix[:min(len(prefix), 58)] + "xxxxx")
	}
	if v.opts.StatusSubresource {
		delete(u.Object, "status")
	}
	u.SetGeneration(1)

	errs := v.validateCreate(ctx, u, d.clean)
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	return Result{Stored: u.Object, Pruned: d.pruned, Errors: tidy(errs)}, nil
}

// CreateWithStatus creates obj and, where there is a status subresource, then writes its .status through that, as a
// controller would. Errors are those of the first request that is refused.
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

// place puts an object into the namespace of the request (rest.EnsureObjectNamespaceMatchesRequestNamespace).
func (v *Validator) place(u *unstructured.Unstructured) {
	switch namespace := u.GetNamespace(); {
	case v.opts.Namespaced && namespace == "":
		u.SetNamespace(metav1.NamespaceDefault)
	case !v.opts.Namespaced && namespace != "":
		u.SetNamespace("")
	}
}

// Read says what the API server serves for an object that it has stored in this version: pruned, without the nulls that
// the schema does not allow, with defaults. It does not validate. stored is not changed, but served may share parts with
// it: change neither. dropped are the paths that were pruned, sorted; defaulted reports whether a default was filled in.
func (v *Validator) Read(stored map[string]any) (served map[string]any, dropped []string, defaulted bool, err error) {
	defer recovered(&err)
	if err := checkObject(stored); err != nil {
		return nil, nil, false, err
	}
	d, err := v.decode(stored, fromStorage)
	return d.object, d.pruned, d.defaulted, err
}

// Update says what becomes of a request that replaces the stored object old by obj. Neither is changed. With ratchet,
// what was wrong before and is left alone is tolerated ([Validator.Ratchets]). A resourceVersion is not demanded. The error
// says why there is no verdict.
func (v *Validator) Update(ctx context.Context, obj, old map[string]any, ratchet bool) (Result, error) {
	return v.update(ctx, obj, old, how{ratchet: ratchet})
}

// UpdateStatus says what becomes of a request to the status subresource. Of obj only .status (and managedFields) count.
// Otherwise it is like [Validator.Update].
func (v *Validator) UpdateStatus(ctx context.Context, obj, old map[string]any, ratchet bool) (Result, error) {
	return v.update(ctx, obj, old, how{ratchet: ratchet, status: true})
}

// TouchUpdate says what becomes of the smallest of updates: one that changes a label of a stored object and leaves the rest
// as the API server serves it. Errors mean that the object is stuck. Pruned is what reading the object dropped.
func (v *Validator) TouchUpdate(ctx context.Context, stored map[string]any, ratchet bool) (Result, error) {
	return v.update(ctx, nil, stored, how{ratchet: ratchet, touch: true})
}

// Judgement is what becomes of a stored object.
type Judgement struct {
	// Dropped are the paths that are pruned when the object is read, sorted.
	Dropped []string
	// Defaulted is set where reading fills in a default, Changed where it changes the object in any other way than by that and
	// by pruning (a null that the schema does not allow is dropped, metadata are evened out).
	Defaulted, Changed bool
	// Strict are the errors of [Validator.TouchUpdate] without ratcheting, Ratcheted those with it: always fewer, or the same.
	Strict, Ratcheted field.ErrorList
}

// Judge is [Validator.Read], and [Validator.TouchUpdate] without and with ratcheting, at the price of about one of them.
// stored is not changed. The error says why there is no verdict.
func (v *Validator) Judge(ctx context.Context, stored map[string]any) (j Judgement, err error) {
	defer recovered(&err)
	if err := checkObject(stored); err != nil {
		return Judgement{}, err
	}
	old, err := v.decode(stored, fromStorage)
	if err != nil {
		return Judgement{}, err
	}
	j.Dropped, j.Defaulted = old.pruned, old.defaulted
	j.Changed = !old.clean && len(old.pruned) == 0 && !old.defaulted && !reflect.DeepEqual(old.object, stored)
	strict, err := v.updateRead(ctx, nil, old, how{touch: true})
	if err != nil || !strict.Refused() {
		return j, err // what passes without ratcheting passes with it
	}
	ratcheted, err := v.updateRead(ctx, nil, old, how{touch: true, ratchet: true})
	j.Strict, j.Ratcheted = strict.Errors, ratcheted.Errors
	return j, err
}

// TouchUpdateFrom is TouchUpdate for an object that is stored in the version of another validator, under conversion strategy
// None: it is read in that version, converted, and updated in this one.
func (v *Validator) TouchUpdateFrom(ctx context.Context, from *Validator, stored map[string]any, ratchet bool) (Result, error) {
	return v.update(ctx, nil, stored, how{ratchet: ratchet, touch: true, from: from})
}

// Convert says what a served object of another version becomes in this one under conversion strategy None: its apiVersion
// is changed, and what the schema does not know is pruned (dropped, sorted). Defaults are not filled in. obj is not changed,
// but shared: change neither.
func (v *Validator) Convert(obj map[string]any) (converted map[string]any, dropped []string, err error) {
	defer recovered(&err)
	if err := checkObject(obj); err != nil {
		return nil, nil, err
	}
	d, err := v.convert(obj)
	return d.object, d.pruned, err
}

// how says what kind of update it is.
type how struct {
	from    *Validator // of the version that the object is stored in; nil: this one
	ratchet bool       // tolerate what is left alone
	status  bool       // through the status subresource
	touch   bool       // nothing but a label differs from the stored object
	plain   bool       // the metadata are certainly valid, and like those of the stored object but for a label
}

func (v *Validator) update(ctx context.Context, obj, stored map[string]any, h how) (res Result, err error) {
	defer recovered(&err)
	if err := checkObject(stored); err != nil {
		return Result{}, err
	}
	old, err := v.readStored(stored, h.from)
	if err != nil {
		return Result{}, fmt.Errorf("stored object: %w", err)
	}
	return v.updateRead(ctx, obj, old, h)
}

// updateRead is update for a stored object that was read. It may put that into a namespace, and changes nothing else of it.
func (v *Validator) updateRead(ctx context.Context, obj map[string]any, old decoded, h how) (res Result, err error) {
	uOld := &unstructured.Unstructured{Object: old.object}
	v.place(uOld)

	var request decoded
	var dropped []string
	if h.touch {
		request = decoded{object: touched(old.object), clean: old.clean}
		dropped = old.pruned
	} else {
		if err := checkObject(obj); err != nil {
			return Result{}, err
		}
		request.object = obj
	}
	if !request.clean {
		if request, err = v.decode(request.object, fromRequest); err != nil {
			return Result{Errors: undecoded(err)}, nil
		}
	}
	u := &unstructured.Unstructured{Object: request.object}
	v.place(u)
	h.touch = h.touch && request.clean // otherwise decoding it again changed more than a label
	if h.touch {
		meta, _ := u.Object["metadata"].(map[string]any)
		h.plain = v.plainMeta(meta)
	}
	if !h.plain {
		v.prepareUpdate(u, uOld, h)
	}

	invented := u.GetResourceVersion() == ""
	if invented { // a request that names no version is answered with a demand for one; that is not what we ask
		if rv := uOld.GetResourceVersion(); rv != "" {
			u.SetResourceVersion(rv)
			invented = false
		} else {
			u.SetResourceVersion("1")
		}
	}
	errs := v.validateUpdate(ctx, u, uOld, h)
	if invented {
		u.SetResourceVersion("")
	}
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	return Result{Stored: u.Object, Pruned: append(dropped, request.pruned...), Errors: tidy(errs)}, nil
}

// readStored reads an object that is stored in the version of from.
func (v *Validator) readStored(stored map[string]any, from *Validator) (decoded, error) {
	if from == nil || from == v {
		return v.decode(stored, fromStorage)
	}
	read, err := from.decode(stored, fromStorage)
	if err != nil {
		return decoded{}, err
	}
	converted, err := v.convert(read.object)
	converted.pruned = append(read.pruned, converted.pruned...)
	return converted, err
}

// touched returns an object with a label more, or with another value of it. It shares all but metadata and labels.
func touched(obj map[string]any) map[string]any {
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
