package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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

// askReplacing examines a failed dry run. If only the update is invalid, and creating the same manifest is valid, the item can be
// replaced. Otherwise it returns the error of the dry run.
func (a *Applier) askReplacing(ctx context.Context, p *Plan, it *Item, refusal error) (answer, error) {
	if it.live == nil || !apierrors.IsInvalid(refusal) {
		return answer{}, refusal
	}
	fresh, err := a.tryFresh(ctx, it)
	if err != nil && (!apierrors.IsInvalid(err) || !onlyIn(refusal, err)) {
		return answer{}, refusal
	}
	if why := it.keptReason(it.live); why != "" {
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
	if err := a.client.deleteObject(ctx, it.mapping.objectPath(&it.Object), it.live.uid, "", true); err != nil && !apierrors.IsConflict(err) {
		return answer{}, fmt.Errorf("%w; it cannot be deleted and created again: %w", refusal, err)
	}
	return answer{after: fresh, replace: refusal.Error()}, nil
}

// tryFresh asks the server to try to create the manifest under another name.
func (a *Applier) tryFresh(ctx context.Context, it *Item) (map[string]any, error) {
	ctx = context.WithValue(ctx, warningKey{}, nil) // the update brought the same warnings
	content, err := it.decodeContent()
	if err != nil {
		return nil, err
	}
	meta := metadataOf(content)
	delete(meta, "name")
	meta["generateName"] = "trial-"
	body, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	b, err := a.client.sendWithRetries(ctx, request{
		verb: http.MethodPost, path: listPath(it.Group, it.Version, it.mapping.resource, it.Namespace), body: body,
		query: url.Values{"fieldManager": {Manager}, "fieldValidation": {"Strict"}, "dryRun": {"All"}},
	})
	if err != nil {
		return nil, err
	}
	fresh, err := decodeObject(b)
	if err == nil {
		meta = metadataOf(fresh)
		delete(meta, "generateName")
		meta["name"] = it.Name
	}
	return fresh, err
}

// onlyIn reports whether two errors have no cause in common.
func onlyIn(err, other error) bool {
	mine, theirs := statusCausesOf(err), statusCausesOf(other)
	return len(mine) > 0 && !slices.ContainsFunc(mine, func(c metav1.StatusCause) bool { return slices.Contains(theirs, c) })
}

func statusCausesOf(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return status.Status().Details.Causes
}

// deleteForReplace deletes an object that the apply will create again, and waits until it is gone. If the object belongs to another app by
// now, it stays.
func (a *Applier) deleteForReplace(ctx context.Context, p *Plan, it *Item) error {
	path := it.mapping.objectPath(&it.Object)
	obj, err := a.client.fetchObject(ctx, path)
	if err != nil || obj == nil {
		return err
	}
	l, err := observeObject(obj, nil, nil)
	if err != nil {
		return err
	}
	if l.owner != it.live.owner {
		return fmt.Errorf("%w %s since a moment ago", ErrOtherApp, l.owner)
	}
	if why := it.keptReason(l); why != "" {
		return fmt.Errorf("it is not deleted and created again, because %s", why)
	}
	if err := a.client.deleteObject(ctx, path, l.uid, "", false); err != nil {
		return err
	}
	return a.goneBefore(ctx, p, it, l.uid)
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
		l, err := observeObject(obj, nil, nil)
		return err == nil && uid != "" && l.uid != uid, err
	}))
	if err != nil {
		return it.wrapError(fmt.Errorf("the one that is being deleted is not gone yet, a finalizer may wait for something%s: %w", held, err))
	}
	return nil
}
