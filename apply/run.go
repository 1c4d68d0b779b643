package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/internal/cluster"
)

// This file carries out a plan: the dry runs, the record of what the writes can create, the writes stage by stage, the waits between
// them, the deletions, and the record of the end. If a run dies, the same command resumes it, because the record is
// written before the objects.

// Apply carries out the plan. The caller has run the preflights. Before the first write, the server tries as much as possible by
// dry runs; see [Plan.Untried]. A refusal is an error. A [*ConflictError] lists fields that others own. If ctx ends, or the process
// dies, finished writes stay. The inventory records them, and the next Plan and Apply of the same request resume. Errors of objects
// are of type [*Error], joined.
func (a *Applier) Apply(ctx context.Context, p *Plan) error {
	if err := p.Err(); err != nil {
		return err
	}
	if err := a.rehearse(ctx, p, false, nil); err != nil {
		return err
	}
	if err := a.rehearseRemovals(ctx, p); err != nil {
		return err
	}
	if note := p.UntriedNote(); note != "" {
		a.events.notifyObserver(Event{Note: note})
	}
	if p.inventory != nil && p.hasPendingWrites(p.resultingInventory(Applied)) {
		// Before the first write: can the inventory be stored?
		if err := p.startInventory().checkStorable(); err != nil {
			return err
		}
		locked, unlock, err := a.lockPlanned(ctx, p.inventory, func(ctx context.Context, _ *Inventory) (*Applier, func(), error) {
			return a.lockFor(ctx, p)
		})
		defer unlock()
		if err != nil {
			return err
		}
		ctx, stop := locked.untilLost(ctx)
		defer stop()
		if err := locked.recordStart(ctx, p); err != nil {
			return err
		}
		return locked.writePlan(ctx, p)
	}
	return a.writePlan(ctx, p)
}

// writePlan carries out the plan, from its first stage to the end of the record.
//
// With Request.Wait, all objects before the admission configuration must be ready before it is written, and all objects before
// anything is deleted.
func (a *Applier) writePlan(ctx context.Context, p *Plan) error {
	for s := range stages {
		if err := a.writeStage(ctx, p, s); err != nil {
			return err
		}
		// Admission configuration comes last: the objects that it needs must exist before it judges requests.
		if p.request.Wait && s == StageObjects && p.hasWritesIn(StageAdmission) {
			if err := a.waitUntilReady(ctx, p); err != nil {
				return err
			}
		}
	}
	if p.request.Wait {
		if err := a.waitUntilReady(ctx, p); err != nil {
			return err
		}
	}
	if err := a.deleteInTurns(ctx, p, false); err != nil {
		return err
	}
	return a.recordCompletion(ctx, p)
}

// recordCompletion records that the apply is complete.
func (a *Applier) recordCompletion(ctx context.Context, p *Plan) error {
	if p.inventory == nil {
		return nil
	}
	next := p.resultingInventory(Applied)
	if !p.hasPendingWrites(next) {
		return nil
	}
	next.resourceVersion, next.parts, next.Started, next.Finished = p.inventory.resourceVersion, p.inventory.parts, p.inventory.Started, timestampOf(a.opts.Now())
	next.History = p.before.historyWith(next)
	if err := a.client.saveInventory(ctx, next); err != nil {
		return err
	}
	p.inventory = next
	return nil
}

// writeStage writes the objects of a stage, group after group, after what they wait for.
func (a *Applier) writeStage(ctx context.Context, p *Plan, s Stage) error {
	if err := a.awaitOthers(ctx, p, s); err != nil {
		return err
	}
	for _, step := range p.stepsOf(s) {
		if err := a.waitForPredecessors(ctx, p, s, step); err != nil {
			return err
		}
		if err := a.applyStep(ctx, p, s, step); err != nil {
			return err
		}
	}
	if s == StageDefinitions {
		return a.waitUntilServed(ctx, p)
	}
	return nil
}

// hasWritesIn reports whether a stage has writes.
func (p *Plan) hasWritesIn(s Stage) bool {
	return slices.ContainsFunc(p.Items, func(i Item) bool { return i.Stage == s && i.Action != Unchanged })
}

// resultingInventory returns the inventory after the apply.
func (p *Plan) resultingInventory(s State) *Inventory {
	if p.inventory == nil {
		return nil
	}
	v := &Inventory{
		APIVersion: inventoryVersion, Kind: inventoryKind, App: p.inventory.App, Namespace: p.inventory.Namespace, State: s,
		Sources: p.request.Sources, Incomplete: p.inventory.Incomplete, History: p.inventory.History,
	}
	for it := range eachOf(p.Items) {
		if it.marks.alone {
			continue // it does not belong to the app
		}
		e := Entry{ID: it.ID, Version: it.Version, Resource: it.mapping.resource}
		if it.now.owned != "" && !it.isSecret() {
			e.Manifest, e.Owned = it.contentDigest(), it.now.owned
		}
		e.Found = p.wasNamespaceFound(it)
		v.Objects = append(v.Objects, e)
	}
	for r := range eachOf(p.Removals) {
		if r.Action == Keep {
			v.Objects = append(v.Objects, r.Entry)
		}
	}
	v.Objects = sortEntries(v.Objects)
	return v
}

// wasNamespaceFound reports whether an item is a namespace that is older than the app: the inventory says so, or the namespace existed
// when the plan was made and did not belong to the app.
func (p *Plan) wasNamespaceFound(it *Item) bool {
	record := p.inventory.entryOf(it.ID)
	return isNamespace(it.ID) && !it.now.made && (it.now.found || record != nil && record.Found)
}

// hasPendingWrites reports whether there is anything to write, in the cluster or in the inventory.
//
// An apply that changes nothing writes nothing, not even the time in the inventory. So a delivery that is in order causes no write,
// and a user with the right to read alone can run the same apply.
func (p *Plan) hasPendingWrites(next *Inventory) bool {
	have := p.inventory
	if have.State != Applied || have.resourceVersion == "" || p.Count(Unchanged) < len(p.Items) || p.Count(Delete) > 0 {
		return true
	}
	return !slices.Equal(have.Objects, next.Objects) || !sameSources(have.Sources, next.Sources)
}

// lockFor gets the lock of the plan's app. If the app's namespace comes with the source, lockFor creates this one object first.
//
// The Lease is in the app's namespace, which the source may bring. Then the namespace is the one write without the lock. Two runs
// that both create it meet at the lock.
func (a *Applier) lockFor(ctx context.Context, p *Plan) (locked *Applier, unlock func(), err error) {
	locked, unlock, err = a.acquireLock(ctx, p.inventory)
	v := p.inventory
	i := slices.IndexFunc(p.Items, func(i Item) bool { return isNamespace(i.ID) && i.Name == v.Namespace })
	if comesAnew := i >= 0 && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause); !apierrors.IsNotFound(err) && !comesAnew {
		return locked, unlock, err
	}
	if i < 0 {
		return a, unlock, fmt.Errorf("namespace %[2]s does not exist and is not in the source; the inventory of app %[1]s belongs there", v.App, v.Namespace)
	}
	if err := a.writeItem(ctx, p, &p.Items[i]); err != nil {
		return a, unlock, p.Items[i].wrapError(err)
	}
	return a.acquireLock(ctx, v)
}

// startInventory returns the inventory for the start of the apply: all objects that may exist from then on.
func (p *Plan) startInventory() *Inventory {
	v := *p.inventory
	v.State, v.Next, v.Finished = Applying, p.request.Sources, nil
	var first []Entry // they replace others
	for it := range eachOf(p.Items) {
		if it.marks.alone {
			continue
		}
		e := p.inventory.entryOf(it.ID)
		if isNamespace(it.ID) && it.Action == Create {
			e = nil // the recorded digests are those of an object that is gone
		}
		if e == nil {
			first = append(first, Entry{ID: it.ID, Version: it.Version, Resource: it.mapping.resource, Found: p.wasNamespaceFound(it)})
		} else if p.wasNamespaceFound(it) {
			again := *e // another app had taken it over
			again.Found = true
			first = append(first, again)
		}
	}
	v.Objects = sortEntries(append(first, v.Objects...))
	return &v
}

// recordStart records all objects that may exist from now on. It runs before all other writes.
func (a *Applier) recordStart(ctx context.Context, p *Plan) error {
	v, was := p.startInventory(), p.inventory
	if was.State != Applying || v.Started == nil || !sameSources(was.Next, p.request.Sources) {
		v.Started = timestampOf(a.opts.Now())
	}
	if err := a.client.saveInventory(ctx, v); err != nil {
		return asErrChanged(err)
	}
	p.inventory = v
	return nil
}

// applyStep applies the objects of one step of a stage. If one fails, the others of its step continue, and later steps do not run.
func (a *Applier) applyStep(ctx context.Context, p *Plan, s Stage, step int) error {
	todo := selectFrom(p.Items, func(it *Item) bool { return it.Stage == s && it.step == step && it.Action != Unchanged })
	if len(todo) == 0 {
		return nil
	}
	phase := "applying " + s.String()
	a.events.notifyObserver(Event{Phase: phase, Total: len(todo)})
	var done atomic.Int64
	var mu sync.Mutex
	var conflicts []Conflict
	var errs []error
	err := forEachIndex(ctx, len(todo), cap(a.client.slots), func(ctx context.Context, i int) error {
		it := todo[i]
		if err := a.writeItem(ctx, p, it); err != nil {
			if ctx.Err() != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if c := conflictsOf(it, err); c != nil {
				conflicts = append(conflicts, c...)
			} else {
				errs = append(errs, it.wrapError(err))
			}
			return nil
		}
		did := "updated"
		switch it.Action { //nolint:exhaustive // the others are updates
		case Create:
			did = "created"
		case Replace:
			did = "replaced"
		}
		a.events.notifyObserver(Event{ID: it.ID, Did: did, Note: takenFrom(it.TakesOver), Done: int(done.Add(1)), Total: len(todo)})
		return nil
	})
	if err != nil {
		return err
	}
	if len(conflicts) > 0 {
		if len(errs) == 0 {
			return &ConflictError{conflicts}
		}
		errs = append(errs, &ConflictError{conflicts})
	}
	if len(errs) > 0 {
		slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		return errors.Join(errs...)
	}
	return nil
}

// awaitOthers waits for the objects of a stage that somebody else must create.
func (a *Applier) awaitOthers(ctx context.Context, p *Plan, s Stage) error {
	for it := range eachOf(p.Items) {
		if it.Stage != s || !it.marks.exists || it.now.live != nil {
			continue
		}
		a.events.notifyObserver(Event{ID: it.ID, Note: fmt.Sprintf("waiting until somebody creates %s, as its annotation %s says", it.ID, it.marks.aloneBy)})
		if err := a.awaitExisting(ctx, p, it); err != nil {
			return it.wrapError(fmt.Errorf("nobody has created it, and its annotation %s says that others do: %w", it.marks.aloneBy, err))
		}
	}
	return nil
}

// awaitExisting waits until an item that somebody else creates exists, for as long as the patience of the plan allows.
func (a *Applier) awaitExisting(ctx context.Context, p *Plan, it *Item) error {
	ctx, cancel := a.withPatience(ctx, p)
	defer cancel()
	still := func() Event { return Event{Note: fmt.Sprintf("nobody has created %s yet", it.ID)} }
	return asErrWaiting(ctx, a.pollAloud(ctx, still, func() (bool, error) {
		obj, err := a.client.fetchObject(ctx, it.mapping.objectPath(&it.Object))
		return obj != nil, err
	}))
}

// settle is the time that the server gets to load a changed CRD. Until then it may refuse objects that the new CRD accepts.
const settle = 10 * time.Second

// writeItem applies one object.
//
// A refusal may only mean that the server has not loaded a CRD of a moment ago, so such an apply is repeated until [settle] is over.
// If the owners of fields are recorded in another version that cannot be converted, they are recorded in this one first, once.
func (a *Applier) writeItem(ctx context.Context, p *Plan, it *Item) error {
	ctx = p.warnings.attributeTo(ctx, it.ID)
	path := it.mapping.objectPath(&it.Object)
	if it.unseen != "" {
		if err := a.readAfterCRD(ctx, p, it); err != nil || it.Action == Unchanged {
			return err
		}
	}
	if err := a.makeWay(ctx, p, it); err != nil {
		return err
	}
	deadline := a.opts.Now().Add(settle)
	renoted := false
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		obj, created, err := a.client.patchOr(ctx, path, it.json, false, p.request.Force)
		if err == nil {
			it.now.made = it.now.made || created                               // a namespace for the lock is written twice
			it.now.found = it.now.found || it.Action == Create && !it.now.made // somebody else has created it since the plan was made
			l := observeObject(obj)
			it.now.live, it.now.owned, it.now.unowned, it.now.deleted = l, l.own, l.unowned, nil
			return nil
		}
		if !renoted && len(a.otherVersions(ctx, p, it, err)) > 0 {
			if again := a.reownInVersion(ctx, it); again != nil {
				return fmt.Errorf("%w; and what owns its fields cannot be noted in %s: %w", err, it.Version, again)
			}
			renoted = true
			continue
		}
		if !p.mayStillSettle(it, err) || a.opts.Now().After(deadline) {
			return a.restoreDeleted(ctx, it, err)
		}
		if err := cluster.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// readAfterCRD ends the planning of an item that could not be read before its CRD was written: it reads the item and decides what the
// apply does with it.
func (a *Applier) readAfterCRD(ctx context.Context, p *Plan, it *Item) error {
	deadline := a.opts.Now().Add(settle)
	for pause := firstPause; ; pause = min(2*pause, time.Second) {
		obj, err := a.client.hurried().fetchObject(ctx, it.mapping.objectPath(&it.Object))
		switch {
		case err == nil && obj == nil:
			it.Action, it.unseen = Create, ""
			return nil
		case err == nil:
			it.unseen = ""
			return errors.Join(a.compareWithLive(p, it, obj), a.checkOwner(p, it))
		case !isOfOneKind(ctx, err) || a.opts.Now().After(deadline):
			return err
		}
		if err := cluster.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// makeWay deals with what is in the way of a write: an object that is being deleted or replaced, fields of other owners that become
// ours, and a namespace that is not there.
func (a *Applier) makeWay(ctx context.Context, p *Plan, it *Item) error {
	if it.now.live != nil && it.now.live.terminating {
		a.events.notifyObserver(Event{ID: it.ID, Note: fmt.Sprintf("waiting until %s, which is being deleted, is gone", it.ID)})
		if err := a.goneBefore(ctx, p, it, it.now.live.uid); err != nil {
			return err
		}
	}
	if it.Action == Replace {
		if err := a.deleteForReplace(ctx, p, it); err != nil {
			return err
		}
	} else if len(it.TakesOver) > 0 {
		if err := a.takeOver(ctx, p, it); err != nil {
			return err
		}
	}
	if isNamespace(it.ID) && !it.now.made && (it.now.live == nil || it.now.live.terminating) {
		return a.makeNamespace(ctx, p, it)
	}
	return nil
}

// mayStillSettle reports whether an error may disappear because the kind's CRD, or the object's namespace, was written a moment ago.
func (p *Plan) mayStillSettle(it *Item, err error) bool {
	if apierrors.HasStatusCause(err, metav1.CauseType("NamespaceTerminating")) {
		return false
	}
	if !apierrors.IsNotFound(err) && !aboutSchema(err) {
		return false
	}
	return slices.ContainsFunc(p.Items, func(d Item) bool {
		if d.isCRD() {
			return d.Name == crdOf(it) && (d.Action != Unchanged || it.mapping.pending)
		}
		if d.Action == Unchanged || d.Stage != StageDefinitions {
			return false
		}
		return apierrors.IsNotFound(err) && d.Name == it.Namespace
	})
}
