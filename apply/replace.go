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

// AnnotationOnImmutable on an object says what happens when fields differ that cannot change. Its one value is "replace": the object
// is deleted and made anew.
const AnnotationOnImmutable = "sluice.dev/on-immutable"

// onImmutable reads the annotation.
func onImmutable(id ID, annotations map[string]any) (bool, error) {
	value, there := annotations[AnnotationOnImmutable]
	switch {
	case !there:
		return false, nil
	case value != "replace":
		return false, fmt.Errorf("annotation %s is %q: its one value is replace", AnnotationOnImmutable, value)
	case isNamespace(id) || id.isCRD():
		return false, fmt.Errorf("annotation %s: a %s is not replaced, for all that is in it would be deleted", AnnotationOnImmutable, id.Kind)
	}
	return true, nil
}

// mayReplace tells whether the item may be deleted and made anew. The request does not speak for what holds data.
func (p *Plan) mayReplace(it *Item) bool {
	if it.replace {
		return true
	}
	data := isNamespace(it.ID) || it.isCRD() || it.Group == "" && (it.Kind == "PersistentVolumeClaim" || it.Kind == "PersistentVolume")
	return p.request.Replace && !data
}

// keptReason says why the item is never deleted; empty where it may be. l is the object in the cluster.
func (it *Item) keptReason(l *live) string {
	switch {
	case l.kept:
		return l.keptReason()
	case it.marks.kept:
		return it.marks.keptReason()
	}
	return ""
}

// askReplacing looks at what a dry run refused. Where only the update is invalid, and a new object of the same manifest is not, the item
// can be replaced. Otherwise the error is the one that was refused with.
func (a *Applier) askReplacing(ctx context.Context, p *Plan, it *Item, refusal error) (answer, error) {
	if it.live == nil || !apierrors.IsInvalid(refusal) {
		return answer{}, refusal
	}
	fresh, err := a.tryFresh(ctx, it)
	if err != nil && (!apierrors.IsInvalid(err) || !onlyIn(refusal, err)) {
		return answer{}, refusal
	}
	if why := it.keptReason(it.live); why != "" {
		return answer{}, fmt.Errorf("%w; it is not deleted and made anew, because %s", refusal, why)
	}
	if !p.mayReplace(it) {
		hint := "--replace, or the annotation " + AnnotationOnImmutable + ": replace, deletes the object and makes it anew"
		switch {
		case isNamespace(it.ID) || it.isCRD():
			return answer{}, refusal
		case p.request.Replace:
			hint = "it holds data, so only the annotation " + AnnotationOnImmutable + ": replace deletes it and makes it anew"
		}
		return answer{}, fmt.Errorf("%w; %s", refusal, hint)
	}
	if err := a.client.remove(ctx, it.mapping.path(&it.Object), it.live.uid, "", true); err != nil && !apierrors.IsConflict(err) {
		return answer{}, fmt.Errorf("%w; it cannot be deleted and made anew: %w", refusal, err)
	}
	return answer{after: fresh, replace: refusal.Error()}, nil
}

// tryFresh has the server try to make a new object of the manifest, under another name.
func (a *Applier) tryFresh(ctx context.Context, it *Item) (map[string]any, error) {
	ctx = context.WithValue(ctx, warningKey{}, nil) // the same ones came with the update
	content, err := it.content()
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
	b, err := a.client.do(ctx, request{
		verb: http.MethodPost, path: listPath(it.Group, it.Version, it.mapping.resource, it.Namespace), body: body,
		query: url.Values{"fieldManager": {Manager}, "fieldValidation": {"Strict"}, "dryRun": {"All"}},
	})
	if err != nil {
		return nil, err
	}
	fresh, err := decode(b)
	if err == nil {
		meta = metadataOf(fresh)
		delete(meta, "generateName")
		meta["name"] = it.Name
	}
	return fresh, err
}

// onlyIn tells whether nothing of what an error objects to is objected to by another one.
func onlyIn(err, other error) bool {
	mine, theirs := causes(err), causes(other)
	return len(mine) > 0 && !slices.ContainsFunc(mine, func(c metav1.StatusCause) bool { return slices.Contains(theirs, c) })
}

func causes(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return status.Status().Details.Causes
}

// clear deletes an object that is to be made anew, and waits until it is gone. One that belongs to another app by then stays.
func (a *Applier) clear(ctx context.Context, p *Plan, it *Item) error {
	path := it.mapping.path(&it.Object)
	obj, err := a.client.get(ctx, path)
	if err != nil || obj == nil {
		return err
	}
	l, err := observe(obj, nil, nil)
	if err != nil {
		return err
	}
	if l.owner != it.live.owner {
		return fmt.Errorf("%w %s since a moment ago", ErrOtherApp, l.owner)
	}
	if why := it.keptReason(l); why != "" {
		return fmt.Errorf("it is not deleted and made anew, because %s", why)
	}
	if err := a.client.remove(ctx, path, l.uid, "", false); err != nil {
		return err
	}
	return a.goneBefore(ctx, p, it, l.uid)
}
