package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Some fields cannot change: the selector of a Deployment, or the template of a Job. The only way is to delete the object and to
// create it again, which needs the user's consent. This file finds out whether that would work before it deletes anything, and brings
// the old object back if the new one is refused all the same.

// mayReplace reports whether the apply may delete and create the item again. The request's Replace does not cover objects that hold
// data.
func (p *Plan) mayReplace(it *Item) bool {
	if it.replace {
		return true
	}
	data := isNamespace(it.ID) || it.isCRD() || it.Group == "" && (it.Kind == "PersistentVolumeClaim" || it.Kind == "PersistentVolume")
	return p.request.Replace && !data
}

// keptReason says why the apply never deletes the item; empty if it may. l is the object in the cluster.
func (it *Item) keptReason(l *live) string {
	switch {
	case l.kept:
		return l.keptReason()
	case it.marks.kept:
		return it.marks.keptReason()
	}
	return ""
}

// askReplacing examines a failed dry run. If only the update is invalid, and the server would create the same manifest, the item can
// be replaced. Otherwise it returns the error of the dry run.
func (a *Applier) askReplacing(ctx context.Context, p *Plan, it *Item, refusal error) (answer, error) {
	if it.now.live == nil || !apierrors.IsInvalid(refusal) {
		return answer{}, refusal
	}
	fresh, err := a.tryFresh(ctx, it)
	switch {
	case err != nil && p.mayReplace(it):
		return answer{}, fmt.Errorf("%w; nor can it be deleted and created again, because the server would refuse the new object: %w", refusal, err)
	case err != nil:
		return answer{}, refusal
	}
	if why := it.keptReason(it.now.live); why != "" {
		return answer{}, fmt.Errorf("%w; it is not deleted and created again, because %s", refusal, why)
	}
	if !p.mayReplace(it) {
		hint := "--replace, or the annotation " + AnnotationOnImmutable + ": replace, deletes the object and creates it again"
		switch {
		case isNamespace(it.ID) || it.isCRD():
			return answer{}, refusal
		case p.request.Replace:
			hint = "it holds data, so only the annotation " + AnnotationOnImmutable + ": replace deletes it and creates it again"
		}
		return answer{}, fmt.Errorf("%w; %s", refusal, hint)
	}
	if err := a.client.deleteObject(ctx, it.mapping.objectPath(&it.Object), it.now.live.uid, "", true); err != nil && !apierrors.IsConflict(err) {
		return answer{}, fmt.Errorf("%w; it cannot be deleted and created again: %w", refusal, err)
	}
	fresh.replace = refusal.Error()
	return fresh, nil
}

// tryFresh asks the server whether it would create the object of a manifest anew, and what it would be. There is an object of this
// name, so the server is asked twice: a creation under this name passes validation and admission, and then fails because the name is
// taken (Store.Create in k8s.io/apiserver/pkg/registry/generic/registry/store.go); and an apply under another name shows what the
// apply itself refuses.
func (a *Applier) tryFresh(ctx context.Context, it *Item) (answer, error) {
	ctx = context.WithValue(ctx, warningKey{}, nil) // the update brought the same warnings
	content, err := it.decodeContent()
	if err != nil {
		return answer{}, err
	}
	if it.Group == "" && it.Kind == "Service" {
		leaveAllocatedOut(content)
	}
	creation := request{
		verb: http.MethodPost, path: listPath(it.Group, it.Version, it.mapping.resource, it.Namespace),
		query: url.Values{"fieldManager": {Manager}, "fieldValidation": {"Strict"}, "dryRun": {"All"}},
	}
	if err := sendJSON(ctx, a.client.sendWithRetries, creation, content, nil); err != nil && !apierrors.IsAlreadyExists(err) {
		return answer{}, err
	}
	other := it.Object
	other.Name = "trial-" + it.contentDigest()[:8]
	metadataOf(content)["name"] = other.Name
	body, err := json.Marshal(content)
	if err != nil {
		return answer{}, err
	}
	fresh, err := a.client.applyPatch(ctx, it.mapping.objectPath(&other), body, true, false)
	metadataOf(content)["name"] = it.Name
	switch {
	case err == nil:
		metadataOf(fresh)["name"] = it.Name
		return answer{after: fresh}, nil
	case apierrors.IsInvalid(err) && !onlyAboutName(err):
		return answer{}, err
	}
	return answer{after: content, local: "the server cannot try it under another name, so values that the server fills in are missing"}, nil
}

// leaveAllocatedOut removes what two Services cannot have in common: addresses and ports that the server allocates.
func leaveAllocatedOut(service map[string]any) {
	spec, _ := service["spec"].(map[string]any)
	for _, field := range []string{"clusterIP", "clusterIPs", "healthCheckNodePort"} {
		if spec[field] != "None" {
			delete(spec, field)
		}
	}
	for _, port := range mapsIn(spec["ports"]) {
		delete(port, "nodePort")
	}
}

// onlyAboutName reports whether a refusal has no other cause than the name of the object, as for a CRD under another name.
func onlyAboutName(err error) bool {
	causes := statusCausesOf(err)
	return len(causes) > 0 && !slices.ContainsFunc(causes, func(c metav1.StatusCause) bool { return c.Field != "metadata.name" })
}

// deleteForReplace deletes an object that the apply will create again, and waits until it is gone. If the object belongs to another
// app by now, it stays.
func (a *Applier) deleteForReplace(ctx context.Context, p *Plan, it *Item) error {
	path := it.mapping.objectPath(&it.Object)
	obj, err := a.client.fetchObject(ctx, path)
	if err != nil || obj == nil {
		return err
	}
	l := observeObject(obj)
	if l.owner != it.now.live.owner {
		return fmt.Errorf("%w %s since a moment ago", ErrOtherApp, l.owner)
	}
	if why := it.keptReason(l); why != "" {
		return fmt.Errorf("it is not deleted and created again, because %s", why)
	}
	if err := a.client.deleteObject(ctx, path, l.uid, "", false); err != nil {
		return err
	}
	it.now.deleted = obj
	return a.goneBefore(ctx, p, it, l.uid)
}

// restoreDeleted creates the object again that was deleted for its replacement, because the replacement could not be created. If ctx
// ends, the next run creates the replacement.
func (a *Applier) restoreDeleted(ctx context.Context, it *Item, refusal error) error {
	if it.now.deleted == nil || ctx.Err() != nil {
		return refusal
	}
	obj := it.now.deleted
	meta := metadataOf(obj)
	for _, f := range serverFields {
		if f != "managedFields" {
			delete(meta, f)
		}
	}
	if err := a.client.createObject(ctx, listPath(it.Group, it.Version, it.mapping.resource, it.Namespace), obj); err != nil {
		return fmt.Errorf("%w; the former object, which was deleted for it, could not be created again either: %w", refusal, err)
	}
	return fmt.Errorf("%w; the former object, which was deleted for it, was created again", refusal)
}

// goneBefore waits until an object that is being deleted is gone, so that another one can have its name.
func (a *Applier) goneBefore(ctx context.Context, p *Plan, it *Item, uid string) error {
	ctx, cancel := a.withPatience(ctx, p)
	defer cancel()
	held := ""
	still := func() Event { return Event{Note: fmt.Sprintf("%s is being deleted and not gone yet%s", it.ID, held)} }
	err := asErrWaiting(ctx, a.pollAloud(ctx, still, func() (bool, error) {
		obj, err := a.client.fetchObject(ctx, it.mapping.objectPath(&it.Object))
		if err != nil || obj == nil {
			return err == nil, err
		}
		held = heldBy(obj)
		return uid != "" && observeObject(obj).uid != uid, nil
	}))
	if err != nil {
		return it.wrapError(fmt.Errorf("the one that is being deleted is not gone yet, a finalizer may wait for something%s: %w", held, err))
	}
	return nil
}
