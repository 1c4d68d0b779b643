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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"sluice.dev/apply/kapprules"
)

// Manager is the field manager of all that is applied.
const Manager = "sluice"

// Options are those of an [Applier].
type Options struct {
	// Namespace is the namespace of objects that name none, if their kind has namespaces; required.
	Namespace string
	// Now returns the time for inventories; required.
	Now func() time.Time
	// Concurrent bounds the requests under way; 0 stands for 12.
	Concurrent int
	// Observe, if not nil, receives progress events. Calls are sequential.
	Observe func(Event)
	// LockTimeout bounds how long [Applier.Apply] and [Applier.Delete] wait while somebody else changes the app. After it they
	// return a [*LockedError]. 0 does not wait.
	LockTimeout time.Duration
	// Holder names the holder of the lock for others who wait for it; empty stands for user, host and process.
	Holder string
	// Locks is the memory that appliers share if they try to get the same locks; nil for none.
	Locks *Locks
}

// defaultConcurrent keeps a small API server busy and builds no queue in front of it.
const defaultConcurrent = 12

// Applier brings objects into one cluster. Concurrent calls are allowed for different apps, not for one app.
type Applier struct {
	client *client
	mapper *mapper
	opts   Options
	events events
	// reminder is the pause before the applier reports a wait again.
	reminder time.Duration
}

// New returns an applier. It copies the configuration and ignores its rate limits. It does not contact the cluster.
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

// Host is the address of the API server, as the configuration of [New] has it.
func (a *Applier) Host() string { return a.client.reads.Host() }

// Writes returns the number of requests so far that change something. Requests that the server has refused do not count.
func (a *Applier) Writes() int64 { return a.client.writes.Load() }

// Request describes the state that the cluster should have.
type Request struct {
	// Objects are those of the source, in any order.
	Objects []Object
	// App is the name of the app that records the objects; empty records nothing.
	App string
	// AppNamespace is the namespace of the inventory; empty stands for the applier's namespace.
	AppNamespace string
	// Sources are recorded in the inventory.
	Sources []Source
	// Prune deletes objects that are in the inventory and not in Objects. It needs App.
	Prune bool
	// AllowDeleteCRDs lets Prune delete CRDs that have stored objects. These objects are deleted with them.
	AllowDeleteCRDs bool
	// AllowDeleteNamespaces lets Prune delete namespaces that are older than the app, or that have objects of others. These objects
	// are deleted with them.
	AllowDeleteNamespaces bool
	// Force takes fields from other managers, and objects from other apps.
	Force bool
	// IntoNamespace, if not empty, replaces the namespace of all objects whose kind has namespaces. References from Kubernetes' own
	// kinds to objects of the source follow, and a Namespace of the source gets this name.
	IntoNamespace string
	// TakeOver lists apps, as NAMESPACE/NAME, whose objects the apply takes over. Fields in conflict still need Force, unless the
	// apps own them.
	TakeOver []string
	// Replace lets the apply delete and create an object again if immutable fields differ, unless the object holds data.
	Replace bool
	// Wait waits until all objects are ready, in the terms of kstatus. The apply waits for CRDs in any case.
	Wait bool
	// Rules are the rules of kapp's configuration.
	Rules kapprules.Rules
	// NotDone has one sentence for each part of the configuration that Sluice does not carry out; [Plan.Notes] includes them.
	NotDone []string
	// Patience bounds, in total, how long an apply waits for others before it can continue: until CRDs are served, and until
	// objects that are being deleted are gone. After it the error wraps [ErrWaiting]. 0 sets no limit apart from the context.
	// Patience does not bound Wait.
	Patience time.Duration
}

// Action is what an apply does with an object.
type Action string

// The actions.
const (
	// Create: the object does not exist yet.
	Create Action = "create"
	// Update: the object differs, or the client cannot decide whether it does.
	Update Action = "update"
	// Replace: the object must be deleted and created again, because immutable fields differ. A reason names them. Only a dry run
	// shows this.
	Replace Action = "replace"
	// Unchanged: the object is up to date.
	Unchanged Action = "unchanged"
	// Delete: the object is no longer in the source, and the apply deletes it.
	Delete Action = "delete"
	// Keep: the object is no longer in the source, but stays; a reason says why.
	Keep Action = "keep"
	// Forget: the object is no longer in the source, and either does not exist any more or belongs to somebody else now.
	Forget Action = "forget"
)

// Item is an object and what the apply does with it.
type Item struct {
	Object
	Stage  Stage
	Action Action
	// Reason says why an item is replaced, or why it is not written although it may differ.
	Reason string
	// TakesOver lists field managers of other appliers. Their fields become ours, and the apply removes those that the manifest
	// does not have.
	TakesOver []string

	// order is when the item is written, by its own annotations. step counts within the stage.
	order ordering
	step  int

	mapping mapping
	live    *live
	owned   string // digest of our entry once applied
	unread  error  // why its state in the cluster is unknown
	found   bool   // when the plan was made, it was in the cluster, and the app did not own or record it
	made    bool   // this run has created it
}

// Removal is an object of the inventory that is no longer in the source.
type Removal struct {
	Entry
	Stage  Stage
	Action Action
	// Reason says why the object is kept or forgotten.
	Reason string

	// Takes names the objects that are deleted with a namespace or a CRD and are no removals themselves; empty for none.
	Takes string

	live   *live
	unread error
	// protected: the object stays because its deletion would delete other objects.
	protected bool
	// unserved: the cluster serves no version of its kind.
	unserved bool
	// Retained: the object is an earlier version of an object of the source, and stays for this reason.
	Retained bool
}

// Stays reports whether the object exists and stays although the app forgets it.
func (r *Removal) Stays() bool { return r.Action == Forget && r.live != nil }

// Plan describes what an apply will do. [Applier.Plan] makes it.
type Plan struct {
	// Items are the objects of the source by stage, and within a stage in the source's order.
	Items []Item
	// Removals are in the order of deletion. Without Request.Prune their action is Keep.
	Removals []Removal
	// LeftOut are objects of the source that the apply skips: hooks of Helm that are no part of an install or an upgrade.
	LeftOut []Hook
	// Untried are objects that the server cannot try before the first write. [Applier.Try] fills it, and [Applier.Apply] before it
	// writes.
	Untried []Untried

	request   Request
	crds      map[string]*apiextensionsv1.CustomResourceDefinition
	inventory *Inventory // nil without an app
	before    *Inventory // the inventory when the plan was made
	// deletion: the whole app is deleted, with its inventory.
	deletion bool
	patience patience
	warnings *warnings
	// notDone has one sentence for each rule that Sluice does not carry out.
	notDone []string
	// versioned are objects of the source with a version in their names.
	versioned []*versioned
}

// Started returns when the apply that the inventory records began. If an apply resumes an interrupted one, this is the time of the
// first. The zero time stands for none.
func (p *Plan) Started() time.Time {
	if p.inventory == nil || p.inventory.Started == nil {
		return time.Time{}
	}
	return p.inventory.Started.Time
}

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
	if err := p.dropTwins(objects); err != nil {
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
	for i := range objects {
		o := &objects[i]
		m, err := a.mapper.findMapping(ctx, o.GVK(), defined)
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

// dropTwins fills in the namespaces of the objects, of which two may then be the same, and leaves one of them.
func (p *Plan) dropTwins(objects []Object) error {
	for i := range p.Items {
		objects[i] = p.Items[i].Object
	}
	left, err := Unique(objects)
	if err != nil || len(left) == len(p.Items) {
		return err
	}
	seen := map[ID]bool{}
	p.Items = slices.DeleteFunc(p.Items, func(i Item) bool {
		twice := seen[i.ID]
		seen[i.ID] = true
		return twice
	})
	return nil
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
func (a *Applier) readAndDecide(ctx context.Context, p *Plan) error {
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
			m, known, err := a.locateEntry(ctx, &r.Entry)
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
			return a.compareWithLive(p, it, obj)
		}
		r := gone[at][name]
		l, err := observeObject(obj, nil, nil)
		if err != nil {
			return err
		}
		r.live = l
		r.Action, r.Reason = l.deletionAction(p.inventory.ownerMark())
		return nil
	}
	err := a.client.readObjects(ctx, wanted, take, func(at place, name string, err error) bool {
		if !apierrors.IsForbidden(err) {
			return false
		}
		if it := items[at][name]; it != nil {
			it.unread = it.wrapError(err)
			return true
		}
		r := gone[at][name]
		r.unread = &Error{ID: r.ID, Err: err}
		r.Action, r.Reason = Keep, "it may not be read"
		return true
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

// compareWithLive decides about an item that exists in the cluster.
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
	l, err := observeObject(obj, &it.Object, record)
	if err != nil {
		return err
	}
	it.live, it.owned = l, l.own
	it.TakesOver = p.takesOver(l)
	it.found = l.owner != p.ownerOf() || !p.hasCreatedNamespace(it.ID, obj)
	it.Action = Update
	if l.applied && len(it.TakesOver) == 0 {
		it.Action = Unchanged
	}
	if why := it.marks.reasonToSpare(l); why != "" {
		it.Action, it.Reason = Unchanged, why
	}
	return nil
}

// ownerOf is the value of [AnnotationApp] of the app's objects; empty without an app.
func (p *Plan) ownerOf() string {
	if p.inventory == nil {
		return ""
	}
	return p.inventory.ownerMark()
}

// locateEntry finds the resource of an object of the inventory, whose version may not be served any more. known is false if the kind is
// not served at all.
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

// ErrOtherApp means that an object belongs to another app.
var ErrOtherApp = errors.New("belongs to the app")

// Has reports whether the app has applied an object before: it has the mark of the app, and we own fields of it.
func (p *Plan) Has(id ID) bool {
	i := slices.IndexFunc(p.Items, func(it Item) bool { return it.ID == id })
	return i >= 0 && p.inventory != nil && p.Items[i].live != nil && p.Items[i].live.own != "" && p.Items[i].live.owner == p.inventory.ownerMark()
}
