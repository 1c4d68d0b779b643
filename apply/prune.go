package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/internal/brief"
)

// This file deletes objects: those that the source no longer has, and those of an app that is deleted as a whole. Deletions run in
// turns, which wait for each other; see [Removal.deletionTurn]. Each is checked once more just before it happens, because another app
// may have taken the object over since the plan was made.

// deleteInTurns deletes the removals whose action is Delete, turn by turn, and waits until they are gone. Removals of one turn are
// deleted concurrently. It checks CRDs and namespaces again just before. If one of them would now delete objects that are not the
// app's, and this is not allowed, it stays, and its action becomes Keep. An object that another app has taken over stays as well, and
// its action becomes Forget.
func (a *Applier) deleteInTurns(ctx context.Context, p *Plan, dryRun bool) error {
	list := p.Removals
	total := countOf(list, func(r *Removal) bool { return r.Action == Delete })
	if total == 0 {
		return nil
	}
	owner := p.inventory.ownerMark()
	phase := "deleting what is no longer in the source"
	if dryRun {
		phase = "trying to delete what is no longer in the source"
	}
	a.events.notifyObserver(Event{Phase: phase, Total: total})
	var done atomic.Int64
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && list[to].deletionTurn() == list[from].deletionTurn() {
			to++
		}
		group := list[from:to]
		from = to
		for _, r := range p.shelterRemovals() { // removals that stay now
			a.events.notifyObserver(r.sparedEvent())
		}
		// Where one fails, the others that have begun go on to their end, so that it is known what was deleted.
		err := forEachIndex(ctx, len(group), cap(a.client.slots), func(_ context.Context, i int) error {
			r := &group[i]
			if r.Action != Delete {
				return nil
			}
			if err := a.protectOne(ctx, p, r); err != nil {
				return &Error{ID: r.ID, Err: err}
			}
			if r.Action != Delete {
				a.events.notifyObserver(r.sparedEvent())
				return nil
			}
			if err := a.removeOwned(p.warnings.attributeTo(ctx, r.ID), owner, r, dryRun); err != nil && (!dryRun || !p.mayBeDeleted(r, err)) {
				return &Error{ID: r.ID, Err: err}
			}
			if r.Action != Delete {
				a.events.notifyObserver(r.sparedEvent())
				return nil
			}
			did := "deleted"
			if dryRun {
				did = "would delete"
			}
			a.events.notifyObserver(Event{ID: r.ID, Did: did, Done: int(done.Add(1)), Total: total})
			return nil
		})
		if err != nil {
			return err
		}
		if dryRun {
			continue
		}
		if err := a.awaitGone(ctx, p, group); err != nil {
			return err
		}
	}
	return nil
}

// rehearseRemovals asks the server to try the plan's deletions. A plan without Request.Prune has none.
func (a *Applier) rehearseRemovals(ctx context.Context, p *Plan) error {
	errs := make([]error, len(p.Removals))
	err := forEachIndex(ctx, len(p.Removals), cap(a.client.slots), func(ctx context.Context, i int) error {
		r := &p.Removals[i]
		if r.Action != Delete {
			return nil
		}
		err := a.client.deleteObject(p.warnings.attributeTo(ctx, r.ID), r.objectPath(), r.live.uid, "", true)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && !p.mayBeDeleted(r, err) {
			errs[i] = &Error{ID: r.ID, Err: fmt.Errorf("cannot be deleted: %w", err)}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return errors.Join(errs...)
}

// mayBeDeleted reports whether a deletion may succeed in its turn although the server refused to try it: the object has changed, the
// server failed, an admission policy or webhook refuses it that the plan deletes in an earlier turn, or the guard refuses to delete a
// CRD whose objects the plan deletes before it.
func (p *Plan) mayBeDeleted(r *Removal, err error) bool {
	removes := func(is func(o *Removal) bool) bool {
		return slices.ContainsFunc(p.Removals, func(o Removal) bool { return o.Action == Delete && is(&o) })
	}
	freed := func() bool {
		return removes(func(o *Removal) bool {
			return o.deletionTurn() < r.deletionTurn() && (strings.HasSuffix(o.Kind, "WebhookConfiguration") || strings.Contains(o.Kind, "AdmissionPolicy"))
		})
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsBadRequest(err):
		return true
	case apierrors.IsInternalError(err):
		return !strings.Contains(err.Error(), "failed calling webhook") || freed()
	case (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)) && strings.Contains(err.Error(), "denied") && freed(): // by admission, not for want of rights
		return true
	case apierrors.IsForbidden(err):
		// The guard's causes have the rule and what it is about (internal/controller/guard).
		return slices.ContainsFunc(statusCausesOf(err), func(c metav1.StatusCause) bool { return c.Type == "crd-removed" && c.Field == "objects" }) &&
			removes(func(o *Removal) bool { return o.Resource+"."+o.Group == r.Name })
	}
	return false
}

// keepUnservedEntries keeps removals in the inventory if they were not found only because no CRD serves them. They are still stored,
// and appear again when a CRD serves them.
//
// If the user cannot read the CRD, discovery decides for a deletion of the whole app, because users without that right could never
// finish it otherwise. Discovery has answered for the group and all its versions, or the plan would have failed, and it serves the
// kind in no version. The same happens if a CRD exists and serves nothing, which is rare. For this reason a prune, which keeps the
// inventory, waits for a user who can read the CRD.
func (a *Applier) keepUnservedEntries(ctx context.Context, p *Plan) error {
	doubtful := selectFrom(p.Removals, func(r *Removal) bool {
		return r.Action == Forget && r.live == nil && r.unread == nil && strings.Contains(r.Group, ".")
	})
	crds := map[string]func() (*apiextensionsv1.CustomResourceDefinition, error){}
	for _, r := range doubtful {
		name := r.Resource + "." + r.Group
		if crds[name] == nil {
			crds[name] = sync.OnceValues(func() (*apiextensionsv1.CustomResourceDefinition, error) { return a.client.reads.CRD(ctx, name) })
		}
	}
	return forEachIndex(ctx, len(doubtful), cap(a.client.slots), func(_ context.Context, i int) error {
		r := doubtful[i]
		crd, err := crds[r.Resource+"."+r.Group]()
		switch {
		case apierrors.IsForbidden(err) && r.unserved && p.deletion:
			r.Reason = "the cluster no longer serves its kind, so it was deleted with its CRD; you have no right to read that CRD: if it exists and serves no version, the object is left behind"
			return nil
		case apierrors.IsForbidden(err):
			if r.unserved {
				r.Action, r.Reason = Keep, "the cluster does not serve its kind, and you have no right to read its CRD; a user with the right to get it can prune"
			}
			return nil
		case err != nil || crd == nil:
			return err
		}
		serves := slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served && v.Name == r.Version })
		if r.unserved || !serves {
			r.Action, r.Reason = Keep, "the cluster does not serve its kind now, but its CRD exists"
		}
		return nil
	})
}

// sparedEvent is the event for a removal that is not deleted.
func (r *Removal) sparedEvent() Event {
	did := "left alone"
	if r.Action == Keep {
		did = "kept"
	}
	return Event{ID: r.ID, Did: did, Note: r.Reason}
}

// removeOwned deletes an object if it has not changed since the check of its owner. If it has, removeOwned checks again, because
// another app may have taken it over.
func (a *Applier) removeOwned(ctx context.Context, owner string, r *Removal, dryRun bool) error {
	for try := 1; ; try++ {
		version := r.live.version
		if try == maxTries {
			version = "" // status writes change it all the time; its owner was checked a moment ago
		}
		err := a.client.deleteObject(ctx, r.objectPath(), r.live.uid, version, dryRun)
		if isKindDown(err) {
			r.Action, r.Reason = Keep, "it cannot be deleted now: "+brief.OneLine(err.Error())
			return nil
		}
		if !apierrors.IsConflict(err) {
			return err
		}
		obj, again := a.client.fetchObject(ctx, r.objectPath())
		if again != nil || obj == nil {
			return again
		}
		l := observeObject(obj)
		action, reason := l.deletionAction(owner)
		switch {
		case l.uid != r.live.uid || l.terminating:
			return nil // gone, or being deleted
		case action == Forget:
			r.Action, r.Reason = action, reason
			return nil
		case try == maxTries:
			return err
		}
		r.live = l
	}
}

// awaitGone waits until the deleted objects are gone. Later steps may depend on it, and the inventory must not forget an object
// that still exists.
//
// The objects are told by their UIDs, since others may have taken their names. If the wait ends too early, the error names an object
// and the finalizers that hold it.
func (a *Applier) awaitGone(ctx context.Context, p *Plan, group []Removal) error {
	left := map[spot]string{} // UIDs
	for r := range eachOf(group) {
		if r.Action == Delete {
			left[r.spotInCluster()] = r.live.uid
		}
	}
	if len(left) == 0 {
		return nil
	}
	ctx, cancel := a.withPatience(ctx, p)
	defer cancel()
	example, held, more := ID{}, "", 0
	still := func() Event {
		note := fmt.Sprintf("%s is deleted but not gone yet%s", example, held)
		if more > 0 {
			note += fmt.Sprintf("; and %d more", more)
		}
		return Event{Note: note}
	}
	err := a.pollAloud(ctx, still, func() (bool, error) {
		var mu sync.Mutex
		still := map[spot]string{}
		example, more = ID{}, -1
		err := a.client.readObjects(ctx, maps.Keys(left), func(at spot, obj map[string]any) error {
			uid := observeObject(obj).uid
			if uid != left[at] {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			still[at] = uid
			example, held = ID{at.group, at.kind, at.namespace, at.name}, heldBy(obj)
			more++
			return nil
		}, nil)
		if err == nil {
			left = still
		}
		return len(still) == 0, err
	})
	err = asErrWaiting(ctx, err)
	if err != nil && ctx.Err() != nil && example != (ID{}) {
		return fmt.Errorf("%s is deleted but not gone yet, a finalizer may wait for something%s: %w", example, held, err)
	}
	return err
}

// ErrNoApp means that there is no inventory of that name.
var ErrNoApp = errors.New("there is no such app")

// PlanDeletion reads the objects of an app from the cluster, and asks the server to try their deletion. The error wraps [ErrNoApp] if
// there is no inventory.
func (a *Applier) PlanDeletion(ctx context.Context, r DeletionRequest) (*Deletion, error) {
	v, err := a.App(ctx, r.Namespace, r.App)
	if err != nil {
		return nil, err
	}
	p := &Plan{inventory: v, deletion: true, warnings: &warnings{}, request: Request{
		App: r.App, AppNamespace: r.Namespace, Prune: true, AllowDeleteCRDs: r.AllowDeleteCRDs, AllowDeleteNamespaces: r.AllowDeleteNamespaces,
		Patience: r.Patience,
	}}
	p.findRemovals()
	if err := a.readAndDecide(ctx, p); err != nil {
		return nil, err
	}
	d := &Deletion{Removals: p.Removals, request: r, plan: p}
	if d.Err() == nil {
		d.refusal = a.rehearseRemovals(ctx, p)
	}
	return d, ctx.Err()
}

// Err says why the deletion would be incomplete; nil if it would be complete. It wraps [ErrProtected] if CRDs or namespaces would
// delete objects that are not the app's.
func (d *Deletion) Err() error {
	var errs []error
	for r := range eachOf(d.Removals) {
		if errs = append(errs, r.unread); r.protected && !d.request.KeepProtected {
			errs = append(errs, &Error{ID: r.ID, Err: errors.New(r.Reason)})
		}
	}
	err := errors.Join(append(errs, d.refusal)...)
	if err != nil && slices.ContainsFunc(d.Removals, func(r Removal) bool { return r.protected }) && !d.request.KeepProtected {
		return fmt.Errorf("%w: %w", ErrProtected, err)
	}
	return err
}

// Notes has one sentence for each kind of object that the deletion may not find.
func (d *Deletion) Notes() []string {
	if note := d.plan.inventory.incompleteNote(); note != "" {
		return []string{note}
	}
	return nil
}

// Delete carries out the deletion, unless [Deletion.Err] returns an error. Objects that are kept stay in the inventory. An
// interrupted deletion can be repeated.
func (a *Applier) Delete(ctx context.Context, d *Deletion) error {
	if err := d.Err(); err != nil {
		return err
	}
	a, unlock, err := a.lockPlanned(ctx, d.plan.inventory, a.lockExisting)
	defer unlock()
	if err != nil {
		return err
	}
	ctx, stop := a.untilLost(ctx)
	defer stop()
	v := *d.plan.inventory
	v.State, v.Started, v.Finished = Deleting, timestampOf(a.opts.Now()), nil
	if err := a.client.saveInventory(ctx, &v); err != nil {
		return asErrChanged(err)
	}
	p := d.plan
	p.inventory = &v
	if err := a.deleteInTurns(ctx, p, false); err != nil {
		return err
	}
	v.Objects = nil
	for i := range d.Removals {
		if d.Removals[i].Action == Keep {
			v.Objects = append(v.Objects, d.Removals[i].Entry)
		}
	}
	if len(v.Objects) == 0 {
		// If its namespace was among the objects, the inventory is gone already.
		err := a.client.deleteObject(ctx, inventoryPath(v.Namespace, v.App), "", v.resourceVersion, false)
		if apierrors.IsConflict(err) {
			return fmt.Errorf("app %s: %w", v.App, ErrConcurrent) // another apply has begun and has recorded its objects
		}
		if err == nil && len(v.parts) > 0 {
			err = a.client.dropParts(ctx, v.Namespace, v.App, nil)
		}
		return err
	}
	v.Objects, v.Finished = sortEntries(v.Objects), timestampOf(a.opts.Now())
	return a.client.saveInventory(ctx, &v)
}

// Unserved is the message of [Applier.Status] for an object if the cluster serves no version of its kind.
const Unserved = "the cluster does not serve its kind"

// Status returns the status of each object of an inventory, in the same order. An object that does not exist is NotFound. If the
// cluster serves no version of its kind, or the object cannot be read, the status is Unknown, and the message says why.
func (a *Applier) Status(ctx context.Context, v *Inventory) ([]NotReady, error) {
	out := make([]NotReady, len(v.Objects))
	by := map[spot]*NotReady{}
	for i := range v.Objects {
		e := v.Objects[i]
		out[i] = NotReady{ID: e.ID, Status: "NotFound"}
		now, known, err := a.locateEntry(ctx, &e)
		if isOfOneKind(ctx, err) {
			out[i].Status, out[i].Message = string(status.UnknownStatus), err.Error()
			continue
		}
		if err != nil {
			return nil, err
		}
		if !known {
			out[i].Status, out[i].Message = string(status.UnknownStatus), Unserved
			continue
		}
		by[now.spotInCluster()] = &out[i]
	}
	err := a.client.hurried().readObjects(ctx, maps.Keys(by), func(at spot, obj map[string]any) error {
		h := healthOf(obj)
		by[at].Status, by[at].Message = string(h.status), h.message
		return nil
	}, func(at spot, err error) bool {
		by[at].Status, by[at].Message = string(status.UnknownStatus), err.Error()
		return isOfOneKind(ctx, err)
	})
	return out, err
}

// MarshalJSON omits fields that only the program needs.
func (r Removal) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		ID
		Action Action `json:"action"`
		Reason string `json:"reason,omitempty"`
	}{r.ID, r.Action, r.Reason})
}

// App reads the inventory of an app. The error wraps [ErrNoApp] if there is none.
func (a *Applier) App(ctx context.Context, namespace, app string) (*Inventory, error) {
	if err := CheckApp(app); err != nil {
		return nil, err
	}
	v, err := a.client.loadInventory(ctx, namespace, app)
	if err != nil {
		return nil, err
	}
	if v.resourceVersion == "" {
		return nil, fmt.Errorf("%w: %s in namespace %s; sluice ls lists them, and sluice ls --orphans what apps have whose inventory is lost", ErrNoApp, app, namespace)
	}
	return v, nil
}
