package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/internal/brief"
)

// This file makes a plan: it turns the objects of the source into items, finds the objects of the inventory that the source no longer
// has, reads the state of both from the cluster, and decides about each. It writes nothing. For example, an item whose object exists
// and is up to date is Unchanged, and an object of the inventory that carries the mark of another app by now is forgotten and not
// deleted.

// Err lists objects that this user cannot read. Nothing is known about them, so the plan cannot be applied. The preflight
// PermissionValidation reports them too.
func (p *Plan) Err() error {
	var errs []error
	for i := range p.Items {
		errs = append(errs, p.Items[i].unread)
	}
	for i := range p.Removals {
		errs = append(errs, p.Removals[i].unread)
	}
	return errors.Join(errs...)
}

// Plan compares the request with the cluster. It only reads. Errors in objects are of type [*Error], joined. Objects that this user
// cannot read are in [Plan.Err].
func (a *Applier) Plan(ctx context.Context, r Request) (*Plan, error) {
	if r.Prune && r.App == "" {
		return nil, errors.New("pruning needs the name of an app, whose inventory says what was applied before")
	}
	if r.App != "" {
		if err := CheckApp(r.App); err != nil {
			return nil, err
		}
	}
	r.AppNamespace = cmp.Or(r.AppNamespace, a.opts.Namespace)
	p := &Plan{request: r, warnings: &warnings{}, notDone: slices.Clone(r.NotDone)}
	if r.App != "" {
		var err error
		if p.inventory, err = a.client.loadInventory(ctx, r.AppNamespace, r.App); err != nil {
			return nil, err
		}
	}
	p.before = p.inventory
	if err := a.makeItems(ctx, p); err != nil {
		return nil, err
	}
	p.findRemovals()
	if err := a.readAndDecide(ctx, p); err != nil {
		return nil, err
	}
	if p.hasLostInventory() {
		p.inventory.Incomplete = true
	}
	return p, a.checkOwners(p)
}

// makeItems makes the items of a plan. It does not read the cluster.
//
// The order of the steps matters: hooks go before duplicates are looked for, namespaces are filled in before names get versions, and
// the order of the writes is last, since it needs the items.
func (a *Applier) makeItems(ctx context.Context, p *Plan) error {
	// Helm allows several hooks with one name, because they do not exist at the same time.
	objects, left := leaveOut(p.request.Objects)
	p.LeftOut = left
	objects, err := Unique(objects)
	if err != nil {
		return err
	}
	if len(objects) == 0 && len(p.LeftOut) > 0 {
		return fmt.Errorf("the source has no object to apply: %s", strings.Join(p.Notes(), "; "))
	}
	if into := p.request.IntoNamespace; into != "" {
		if objects, err = relocate(objects, into); err != nil {
			return err
		}
	}
	defined, crds, err := definedBy(objects)
	if err != nil {
		return err
	}
	p.crds = crds
	if err := a.mapper.loadVersions(ctx, versionsOf(objects)); err != nil {
		return err
	}
	if err := a.placeObjects(ctx, p, objects, defined); err != nil {
		return err
	}
	// With the namespaces filled in, two objects may be the same.
	if p.Items, err = uniqueBy(p.Items, func(it *Item) *Object { return &it.Object }); err != nil {
		return err
	}
	if err := a.versionObjects(ctx, p); err != nil {
		return err
	}
	if err := p.arrangeSteps(); err != nil {
		return err
	}
	slices.SortStableFunc(p.Items, func(a, b Item) int { return cmp.Compare(a.Stage, b.Stage) })
	return nil
}

// placeObjects makes the item of each object: the resource that serves its kind, and its namespace. Errors of objects are joined.
func (a *Applier) placeObjects(ctx context.Context, p *Plan, objects []Object, defined map[schema.GroupVersionKind]mapping) error {
	var errs []error
	groups := map[string][]string{}
	into, moved := p.request.IntoNamespace, map[ID]ID{}
	for o := range eachOf(objects) {
		m, err := a.mapper.findMapping(ctx, o.GVK(), defined)
		if err == nil && m.pending {
			m.before, err = a.mapper.servedBefore(ctx, o.GVK(), m, groups)
		}
		if served, isHere := p.servedBySource(o.GVK()); isHere && !slices.Contains(served, o.Version) {
			errs = append(errs, &Error{File: o.File, Line: o.Line, ID: o.ID, Err: fmt.Errorf("the CRD of the source does not serve the version %s, but %s", o.Version, strings.Join(served, ", "))})
			continue
		}
		if errors.Is(err, ErrNoKind) {
			errs = append(errs, &Error{File: o.File, Line: o.Line, ID: o.ID, Err: fmt.Errorf("%w, and the source has no CRD for it", err)})
			continue
		}
		if err != nil {
			return err
		}
		namespace := ""
		if m.namespaced {
			namespace = cmp.Or(into, o.Namespace, a.opts.Namespace)
		}
		was := o.ID
		item, err := p.makeItem(o, namespace)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		item.mapping = m
		if other, ok := moved[item.ID]; into != "" && ok && other != was && !isNamespace(item.ID) {
			errs = append(errs, &Error{File: o.File, Line: o.Line, ID: was, Err: fmt.Errorf("would be the same object as %s in namespace %s", other, into)})
		}
		moved[item.ID] = was
		if why := item.marks.reasonToSpare(nil); why != "" {
			item.Action, item.Reason = Unchanged, why
		}
		p.Items = append(p.Items, item)
	}
	return errors.Join(errs...)
}

// servedBySource returns the versions of a kind that the CRD in the source serves, and whether there is such a CRD.
func (p *Plan) servedBySource(gvk schema.GroupVersionKind) (versions []string, isHere bool) {
	for _, crd := range p.crds {
		if crd.Spec.Group != gvk.Group || crd.Spec.Names.Kind != gvk.Kind {
			continue
		}
		for v := range eachOf(crd.Spec.Versions) {
			if v.Served {
				versions = append(versions, v.Name)
			}
		}
		return versions, true
	}
	return nil, false
}

// versionsOf returns the API versions of objects, each once.
func versionsOf(objects []Object) (out []schema.GroupVersion) {
	seen := map[schema.GroupVersion]bool{}
	for i := range objects {
		if gv := objects[i].GVK().GroupVersion(); !seen[gv] {
			seen[gv] = true
			out = append(out, gv)
		}
	}
	return out
}

// makeItem makes an item of an object. It sets the namespace, the mark of the app and the annotations of the rules.
func (p *Plan) makeItem(o *Object, namespace string) (Item, error) {
	content, err := o.decodeContent()
	if err != nil {
		return Item{}, err
	}
	o.moveToNamespace(content, namespace)
	if p.isRecord(o.ID, content) {
		return Item{}, &Error{File: o.File, Line: o.Line, ID: o.ID, Err: errors.New("is where Sluice records an app, or locks it; leave it out of the source")}
	}
	wait := waitAnnotations(p.request.Rules.Wait, content)
	order, notDone, err := orderOf(content, &p.request.Rules)
	if err != nil {
		return Item{}, &Error{File: o.File, Line: o.Line, ID: o.ID, Err: err}
	}
	for _, why := range notDone {
		p.notDone = append(p.notDone, fmt.Sprintf("%s: %s", o.ID, why))
	}
	addMetadataTexts(content, "annotations", wait)
	if owner := p.ownerOf(); owner != "" {
		addMetadataTexts(content, "annotations", map[string]string{AnnotationApp: owner})
		addMetadataTexts(content, "labels", map[string]string{LabelApp: appID(owner)})
	}
	if err := o.setContent(content); err != nil {
		return Item{}, err
	}
	return Item{Object: *o, Stage: stageOf(o.ID), Action: Create, order: order}, nil
}

// findRemovals makes the removals of a plan, in the order of deletion.
func (p *Plan) findRemovals() {
	if p.inventory == nil {
		return
	}
	wanted := map[ID]bool{}
	for i := range p.Items {
		wanted[p.Items[i].ID] = true
	}
	for _, e := range p.inventory.Objects {
		if wanted[e.ID] {
			continue
		}
		r := Removal{Entry: e, Stage: stageOf(e.ID), Action: Keep, Reason: "nobody asked to prune"}
		if p.isRetainedVersion(e.ID) {
			r.Retained, r.Reason = true, "an earlier version, of which some stay"
		}
		p.Removals = append(p.Removals, r)
	}
	sortRemovals(p.Removals)
}

// sortRemovals orders by [Removal.deletionTurn].
func sortRemovals(list []Removal) {
	slices.SortStableFunc(list, func(x, y Removal) int {
		return cmp.Or(cmp.Compare(x.deletionTurn(), y.deletionTurn()), x.Compare(y.ID))
	})
}

// readAndDecide reads the plan's objects from the cluster and decides about them.
//
// Objects of a pending kind are not read: the server does not serve them. Removals are read only if the request prunes, and decided
// in this order: who owns the object, whether its kind is served, what needs it, and what it would take along.
func (a *Applier) readAndDecide(ctx context.Context, p *Plan) error {
	items, gone := map[spot]*Item{}, map[spot]*Removal{}
	for it := range eachOf(p.Items) {
		if it.mapping.pending && it.mapping.before == "" {
			continue
		}
		items[it.spotIn(cmp.Or(it.mapping.before, it.Version))] = it
	}
	if p.request.Prune {
		for r := range eachOf(p.Removals) {
			if r.Retained {
				continue
			}
			m, known, err := a.locateEntry(ctx, &r.Entry)
			if err != nil {
				return err
			}
			if r.Action = Forget; !known {
				r.Reason, r.unserved = "the cluster does not serve its kind any more", true
				continue
			}
			r.Reason = "it does not exist any more"
			gone[m.spotInCluster()] = r
		}
	}
	take := func(at spot, obj map[string]any) error {
		if it := items[at]; it != nil {
			return a.compareWithLive(p, it, obj)
		}
		r := gone[at]
		r.live = observeObject(obj)
		r.Action, r.Reason = r.live.deletionAction(p.inventory.ownerMark())
		return nil
	}
	wanted := slices.Concat(slices.Collect(maps.Keys(items)), slices.Collect(maps.Keys(gone)))
	err := a.client.readObjects(ctx, slices.Values(wanted), take, func(at spot, err error) bool {
		return p.goOnUnread(ctx, items[at], gone[at], err)
	})
	if err != nil {
		return err
	}
	if err := a.keepUnservedEntries(ctx, p); err != nil {
		return err
	}
	p.shelterRemovals()
	return a.protectRemovals(ctx, p)
}

// deletionAction decides about an object of an app that is no longer in the source.
func (l *live) deletionAction(owner string) (Action, string) {
	switch {
	case l.owner != owner:
		return Forget, "it is marked as " + ownerWords(l.owner)
	case l.kept:
		return Forget, l.keptReason()
	}
	return Delete, ""
}

func ownerWords(owner string) string {
	if owner == "" {
		return "nobody's"
	}
	return "that of app " + owner
}

// goOnUnread records why an item or a removal cannot be read, and reports whether the plan can be made without it. An item may be one
// whose conversion webhook is down: if the source has its CRD, that may mend it.
func (p *Plan) goOnUnread(ctx context.Context, it *Item, r *Removal, err error) bool {
	switch {
	case apierrors.IsForbidden(err) && it != nil:
		it.unread = it.wrapError(err)
	case apierrors.IsForbidden(err):
		r.unread = &Error{ID: r.ID, Err: err}
		r.Action, r.Reason = Keep, "it may not be read"
	case !isOfOneKind(ctx, err):
		return false
	case it == nil:
		r.Action, r.Reason = Keep, "it cannot be read now: "+brief.OneLine(err.Error())
	default:
		if _, isHere := p.servedBySource(it.GVK()); !isHere {
			return false
		}
		it.Action, it.unseen = Update, "it cannot be read before its CRD is written, so the server was not asked: "+brief.OneLine(err.Error())
	}
	return true
}

// compareWithLive decides about an item that exists in the cluster.
//
// The digests of the inventory save the comparison, but they count only for an object that still carries our mark. found is for
// namespaces: one that the app has not created is never deleted with it.
func (a *Applier) compareWithLive(p *Plan, it *Item, obj map[string]any) error {
	if err := p.rebaseItem(it, obj); err != nil {
		return it.wrapError(err)
	}
	record := p.inventory.entryOf(it.ID)
	if ownerIn(obj) != p.ownerOf() {
		// Another app uses the same field manager, and the times of its entries have a resolution of one second. So its apply may
		// leave an entry equal to ours.
		record = nil
	}
	l, err := compareWithWanted(obj, &it.Object, record)
	if err != nil {
		return err
	}
	it.now.live, it.now.owned = l, l.own
	it.TakesOver = p.takesOver(l)
	it.now.found = l.owner != p.ownerOf() || !p.hasCreatedNamespace(it.ID, obj)
	it.Action = Update
	if l.applied && len(it.TakesOver) == 0 {
		it.Action, it.now.unowned = Unchanged, l.unowned
	}
	if why := it.marks.reasonToSpare(l); why != "" {
		it.Action, it.Reason = Unchanged, why
	}
	return nil
}

// locateEntry finds the resource of an object of the inventory, whose version may not be served any more. known is false if the kind
// is not served at all.
//
// The entry gets the version that was found, so that later runs find the object at once.
func (a *Applier) locateEntry(ctx context.Context, e *Entry) (now Entry, known bool, err error) {
	now = *e
	gvk := schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind}
	m, err := a.mapper.findMapping(ctx, gvk, nil)
	if err == nil {
		now.Resource = m.resource
		return now, true, nil
	}
	if !errors.Is(err, ErrNoKind) {
		return now, false, err
	}
	versions, err := a.mapper.versionsServed(ctx, e.Group)
	if err != nil {
		return now, false, err
	}
	for _, v := range versions {
		gvk.Version = v
		if m, err = a.mapper.findMapping(ctx, gvk, nil); err == nil {
			now.Version, now.Resource = v, m.resource
			e.Version, e.Resource = v, m.resource
			return now, true, nil
		}
	}
	return now, false, nil
}
