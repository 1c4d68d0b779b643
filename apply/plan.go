package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"sluice.dev/internal/cluster"
	"sluice.dev/internal/kapprules"
)

// Manager is the field manager of all that is applied.
const Manager = "sluice"

// Options are those of an [Applier].
type Options struct {
	// Namespace is where objects go whose kind has namespaces and that name none; required.
	Namespace string
	// Now tells the time for inventories; required.
	Now func() time.Time
	// Concurrent is how many requests are under way at once; 0 stands for 12.
	Concurrent int
	// Observe, where not nil, is told what happens. Calls are one after the other.
	Observe func(Event)
	// LockTimeout is how long [Applier.Apply] and [Applier.Delete] wait while somebody else changes the app; then they return a
	// [*LockedError]. 0 does not wait.
	LockTimeout time.Duration
	// Holder says who changes an app, for those who wait; empty stands for user, host and process.
	Holder string
	// Locks are shared by appliers that try for the same locks; nil for none.
	Locks *Locks
}

// defaultConcurrent keeps a small API server busy without a queue in front of it.
const defaultConcurrent = 12

// Applier brings objects into one cluster. It may be used concurrently, but for one app at a time.
type Applier struct {
	client *client
	mapper *mapper
	opts   Options
	events events
	// reminder is the pause before a wait is reported again.
	reminder time.Duration
}

// New makes an applier. The configuration is copied; its rate limits are not used. The cluster is not contacted.
func New(config *rest.Config, o Options) (*Applier, error) {
	if o.Now == nil || o.Namespace == "" {
		return nil, errors.New("an applier needs a namespace and a clock")
	}
	c, err := newClient(config, cmp.Or(o.Concurrent, defaultConcurrent))
	if err != nil {
		return nil, err
	}
	o.Locks = cmp.Or(o.Locks, &Locks{})
	return &Applier{client: c, mapper: newMapper(c), opts: o, events: events{observe: o.Observe}, reminder: firstReminder}, nil
}

// Cluster is the connection that the applier reads by.
func (a *Applier) Cluster() *cluster.Cluster { return a.client.reads }

// Writes is how many requests have been made that change something, without those that the server has refused.
func (a *Applier) Writes() int64 { return a.client.writes.Load() }

// Request is what is to be in the cluster.
type Request struct {
	// Objects are those of the source, in any order.
	Objects []Object
	// App is under which name they are recorded; empty records nothing.
	App string
	// AppNamespace is where the inventory is; empty stands for the applier's namespace.
	AppNamespace string
	// Sources are recorded in the inventory.
	Sources []Source
	// Prune deletes what the inventory has and Objects has not. It needs App.
	Prune bool
	// AllowDeleteCRDs lets Prune delete CRDs that have stored objects, and these with them.
	AllowDeleteCRDs bool
	// AllowDeleteNamespaces lets Prune delete namespaces that were there before the app, or that have objects of others, and these with
	// them.
	AllowDeleteNamespaces bool
	// Force takes fields from other managers, and objects from other apps.
	Force bool
	// IntoNamespace, where not empty, is where all objects go whose kind has namespaces, whatever they name. References of Kubernetes' own
	// kinds to objects of the source follow, and a Namespace of the source gets this name.
	IntoNamespace string
	// TakeOver are apps, as NAMESPACE/NAME, whose objects are taken as well. Their fields in conflict need Force all the same, unless
	// they are the apps' own.
	TakeOver []string
	// Replace lets objects be deleted and made anew where fields differ that cannot change, but none that holds data.
	Replace bool
	// Wait waits until all is ready, as kstatus tells. CRDs are waited for in any case.
	Wait bool
	// Rules are those of kapp's configuration.
	Rules kapprules.Rules
	// NotDone are sentences about what of the configuration is not done; [Plan.Notes] has them.
	NotDone []string
	// Patience is how long an apply waits, all in all, for what others have to do before it can go on: that CRDs are served,
	// that objects which are being deleted are gone. When it is over the error wraps [ErrWaiting]. 0 waits as long as the
	// context allows. It does not bound Wait.
	Patience time.Duration
}

// Action is what becomes of an object.
type Action string

// The actions.
const (
	// Create: it does not exist yet.
	Create Action = "create"
	// Update: it differs, or it cannot be told from here whether it does.
	Update Action = "update"
	// Replace: it has to be deleted and made anew, because fields differ that cannot change. A reason says which. Only a dry run tells.
	Replace Action = "replace"
	// Unchanged: nothing is to be done.
	Unchanged Action = "unchanged"
	// Delete: it is no longer in the source and will be deleted.
	Delete Action = "delete"
	// Keep: it is no longer in the source, but is not deleted; a reason says why.
	Keep Action = "keep"
	// Forget: it is no longer in the source, and does not exist any more or belongs to somebody else now.
	Forget Action = "forget"
)

// Item is an object and what becomes of it.
type Item struct {
	Object
	Stage  Stage
	Action Action
	// Reason says why an item is replaced, or left as it is although it may differ.
	Reason string
	// TakesOver are field managers of other appliers whose fields become ours: those that the manifest does not have are removed.
	TakesOver []string

	// order is what the item says about when it is written. step counts within the stage.
	order ordering
	step  int

	mapping mapping
	live    *live
	owned   string // digest of our entry once applied
	unread  error  // why nothing is known of it in the cluster
	found   bool   // it is in the cluster, and was not the app's, or not recorded, when the plan was made
	made    bool   // this run has created it
}

// Removal is an object of the inventory that is no longer in the source.
type Removal struct {
	Entry
	Stage  Stage
	Action Action
	// Reason says why it is kept or forgotten.
	Reason string

	// Takes says what goes with a namespace or a CRD that is deleted, beside what is deleted by itself; empty for nothing.
	Takes string

	live   *live
	unread error
	// protected: it stays because its deletion would delete other objects.
	protected bool
	// unserved: the cluster does not serve its kind in any version.
	unserved bool
	// Retained: it is an earlier version of an object of the source, and stays for that.
	Retained bool
}

// Stays tells whether the object is there, and stays although the app forgets it.
func (r *Removal) Stays() bool { return r.Action == Forget && r.live != nil }

// Plan is what an apply will do. It is made by [Applier.Plan].
type Plan struct {
	// Items are the objects of the source by stage, and within a stage in the source's order.
	Items []Item
	// Removals are in the order in which they are deleted. Without Request.Prune their action is Keep.
	Removals []Removal
	// LeftOut are objects of the source that are not applied: hooks of Helm that are no part of an install or an upgrade.
	LeftOut []Hook
	// Untried are objects that the server could not be asked about before the first write. It is known after [Applier.Try], and once
	// [Applier.Apply] writes.
	Untried []Untried

	request   Request
	crds      map[string]*apiextensionsv1.CustomResourceDefinition
	inventory *Inventory // nil without an app
	before    *Inventory // the inventory as it was when the plan was made
	// deletion: all of the app is to go, and its inventory.
	deletion bool
	patience patience
	warnings *warnings
	// notDone are sentences about rules that are not done.
	notDone []string
	// versioned are objects of the source that have a version in their names.
	versioned []*versioned
}

// Started is when the apply that the inventory tells of began. One that goes on where it was interrupted has begun when it was
// begun first. The zero time stands for none.
func (p *Plan) Started() time.Time {
	if p.inventory == nil || p.inventory.Started == nil {
		return time.Time{}
	}
	return p.inventory.Started.Time
}

// Err tells of objects that this user may not read; nothing can be said of them, and the plan cannot be applied. The preflight
// PermissionValidation tells of them too.
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

// Plan compares the request with the cluster. It only reads. Errors in objects are of type [*Error], joined. What this user may not
// read, [Plan.Err] tells.
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
	if err := a.items(ctx, p); err != nil {
		return nil, err
	}
	p.findRemovals()
	if err := a.look(ctx, p); err != nil {
		return nil, err
	}
	if p.lost() {
		p.inventory.Incomplete = true
	}
	return p, a.checkOwners(p)
}

// items makes the items of a plan, without what is in the cluster.
func (a *Applier) items(ctx context.Context, p *Plan) error {
	// Helm takes several hooks of one name, for they are not there at once.
	objects, left := leaveOut(p.request.Objects)
	p.LeftOut = left
	objects, err := Unique(objects)
	if err != nil {
		return err
	}
	if len(objects) == 0 && len(p.LeftOut) > 0 {
		return fmt.Errorf("nothing in the source is to be applied: %s", strings.Join(p.Notes(), "; "))
	}
	into := p.request.IntoNamespace
	if into != "" {
		if objects, err = relocate(objects, into); err != nil {
			return err
		}
	}
	defined, crds, err := definedBy(objects)
	if err != nil {
		return err
	}
	p.crds = crds
	versions := map[schema.GroupVersion]bool{}
	var list []schema.GroupVersion
	for i := range objects {
		if gv := objects[i].GVK().GroupVersion(); !versions[gv] {
			versions[gv] = true
			list = append(list, gv)
		}
	}
	if err := a.mapper.load(ctx, list); err != nil {
		return err
	}
	var errs []error
	groups := map[string][]string{}
	moved := map[ID]ID{}
	for i := range objects {
		o := &objects[i]
		m, err := a.mapper.find(ctx, o.GVK(), defined)
		if err == nil && m.pending {
			m.before, err = a.mapper.servedBefore(ctx, o.GVK(), m, groups)
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
		item, err := p.item(o, namespace)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		item.mapping = m
		if other, ok := moved[item.ID]; into != "" && ok && other != was && !isNamespace(item.ID) {
			errs = append(errs, &Error{File: o.File, Line: o.Line, ID: was, Err: fmt.Errorf("would be the same object as %s in namespace %s", other, into)})
		}
		moved[item.ID] = was
		if why := item.marks.spares(nil); why != "" {
			item.Action, item.Reason = Unchanged, why
		}
		p.Items = append(p.Items, item)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	// With their namespaces filled in, two may have become one.
	for i := range p.Items {
		objects[i] = p.Items[i].Object
	}
	if left, err := Unique(objects); err != nil {
		return err
	} else if len(left) < len(p.Items) {
		seen := map[ID]bool{}
		p.Items = slices.DeleteFunc(p.Items, func(i Item) bool {
			twice := seen[i.ID]
			seen[i.ID] = true
			return twice
		})
	}
	if err := a.version(ctx, p); err != nil {
		return err
	}
	if err := p.arrange(); err != nil {
		return err
	}
	slices.SortStableFunc(p.Items, func(a, b Item) int { return cmp.Compare(a.Stage, b.Stage) })
	return nil
}

// item makes an item of an object, in a namespace, with the mark of the app and the annotations of the rules.
func (p *Plan) item(o *Object, namespace string) (Item, error) {
	content, err := o.content()
	if err != nil {
		return Item{}, err
	}
	o.move(content, namespace)
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
	add(content, "annotations", wait)
	if owner := p.ownerOf(); owner != "" {
		add(content, "annotations", map[string]string{AnnotationApp: owner})
		add(content, "labels", map[string]string{LabelApp: appID(owner)})
	}
	if err := o.set(content); err != nil {
		return Item{}, err
	}
	return Item{Object: *o, Stage: stageOf(o.ID), Action: Create, order: order}, nil
}

// findRemovals makes the removals of a plan, in the order in which they are deleted.
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
		if p.retained(e.ID) {
			r.Retained, r.Reason = true, "an earlier version, of which some stay"
		}
		p.Removals = append(p.Removals, r)
	}
	sortRemovals(p.Removals)
}

// sortRemovals orders by [Removal.turn].
func sortRemovals(list []Removal) {
	slices.SortStableFunc(list, func(x, y Removal) int { return cmp.Or(cmp.Compare(x.turn(), y.turn()), x.Compare(y.ID)) })
}

// look reads from the cluster what the plan is about, and decides.
func (a *Applier) look(ctx context.Context, p *Plan) error {
	wanted := map[place][]string{}
	items := map[place]map[string]*Item{}
	for i := range p.Items {
		it := &p.Items[i]
		if it.mapping.pending && it.mapping.before == "" {
			continue
		}
		at := place{it.Group, cmp.Or(it.mapping.before, it.Version), it.mapping.resource, it.Kind, it.Namespace}
		if items[at] == nil {
			items[at] = map[string]*Item{}
		}
		items[at][it.Name] = it
		wanted[at] = append(wanted[at], it.Name)
	}
	gone := map[place]map[string]*Removal{}
	if p.request.Prune {
		for i := range p.Removals {
			r := &p.Removals[i]
			if r.Retained {
				continue
			}
			m, known, err := a.locate(ctx, &r.Entry)
			if err != nil {
				return err
			}
			if r.Action = Forget; !known {
				r.Reason, r.unserved = "the cluster does not serve its kind any more", true
				continue
			}
			r.Reason = "it does not exist any more"
			at := place{m.Group, m.Version, m.Resource, m.Kind, m.Namespace}
			if gone[at] == nil {
				gone[at] = map[string]*Removal{}
			}
			gone[at][r.Name] = r
			wanted[at] = append(wanted[at], r.Name)
		}
	}
	take := func(at place, name string, obj map[string]any) error {
		if it := items[at][name]; it != nil {
			return a.compare(p, it, obj)
		}
		r := gone[at][name]
		l, err := observe(obj, nil, nil)
		if err != nil {
			return err
		}
		r.live = l
		r.Action, r.Reason = l.deletable(p.inventory.owner())
		return nil
	}
	err := a.client.read(ctx, wanted, take, func(at place, name string, err error) {
		if it := items[at][name]; it != nil {
			it.unread = it.fail(err)
			return
		}
		r := gone[at][name]
		r.unread = &Error{ID: r.ID, Err: err}
		r.Action, r.Reason = Keep, "it may not be read"
	})
	if err != nil {
		return err
	}
	if err := a.remember(ctx, p); err != nil {
		return err
	}
	p.shelter()
	return a.protect(ctx, p)
}

// deletable decides about an object of an app that is no longer in the source.
func (l *live) deletable(owner string) (Action, string) {
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

// compare decides about an item that exists.
func (a *Applier) compare(p *Plan, it *Item, obj map[string]any) error {
	if err := p.rebase(it, obj); err != nil {
		return it.fail(err)
	}
	record := p.inventory.entry(it.ID)
	if ownerIn(obj) != p.ownerOf() {
		// Another app applies as the same manager, and the times of its entries have seconds: its apply may leave an entry like ours.
		record = nil
	}
	l, err := observe(obj, &it.Object, record)
	if err != nil {
		return err
	}
	it.live, it.owned = l, l.own
	it.TakesOver = p.takesOver(l)
	it.found = l.owner != p.ownerOf() || !p.made(it.ID, obj)
	it.Action = Update
	if l.applied && len(it.TakesOver) == 0 {
		it.Action = Unchanged
	}
	if why := it.marks.spares(l); why != "" {
		it.Action, it.Reason = Unchanged, why
	}
	return nil
}

// ownerOf is the value of [AnnotationApp] of the app's objects; empty without an app.
func (p *Plan) ownerOf() string {
	if p.inventory == nil {
		return ""
	}
	return p.inventory.owner()
}

// locate finds out how an object of the inventory is reached now: its version may not be served any more. known is false where
// the kind is not.
func (a *Applier) locate(ctx context.Context, e *Entry) (now Entry, known bool, err error) {
	now = *e
	gvk := schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind}
	m, err := a.mapper.find(ctx, gvk, nil)
	if err == nil {
		now.Resource = m.resource
		return now, true, nil
	}
	if !errors.Is(err, ErrNoKind) {
		return now, false, err
	}
	versions, err := a.mapper.versions(ctx, e.Group)
	if err != nil {
		return now, false, err
	}
	for _, v := range versions {
		gvk.Version = v
		if m, err = a.mapper.find(ctx, gvk, nil); err == nil {
			now.Version, now.Resource = v, m.resource
			e.Version, e.Resource = v, m.resource
			return now, true, nil
		}
	}
	return now, false, nil
}

// ErrOtherApp says that an object belongs to another app.
var ErrOtherApp = errors.New("belongs to the app")

// Has tells whether the app has applied an object before: the object is marked as the app's, and has fields that we own.
func (p *Plan) Has(id ID) bool {
	i := slices.IndexFunc(p.Items, func(it Item) bool { return it.ID == id })
	return i >= 0 && p.inventory != nil && p.Items[i].live != nil && p.Items[i].live.own != "" && p.Items[i].live.owner == p.inventory.owner()
}
