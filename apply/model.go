package apply

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/rest"

	"sluice.dev/apply/kapprules"
	"sluice.dev/internal/brief"
)

// This file has the types that all steps of an apply share: the applier, what it is asked for, and the plan that the steps fill in.
// With them you can read every other file alone.

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
	events *events
	// reminder is the pause before the applier reports a wait again.
	reminder time.Duration
	// settled is the time after which the API server's refusal of a CRD's names is about the names of now.
	settled time.Duration
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
	return &Applier{client: c, mapper: newMapper(c), opts: o, events: &events{observe: o.Observe}, reminder: firstReminder, settled: namesSettle}, nil
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

// patience is the rest of [Request.Patience]. It starts with the first wait.
type patience struct {
	mu  sync.Mutex
	end time.Time
}

// A wait is reported after firstReminder, and then again after pauses that double.
const (
	firstReminder = 5 * time.Second
	lastReminder  = time.Minute
)

// namesSettle is longer than a busy API server takes to judge the names of a CRD anew, and shorter than the patience of a Delivery.
const namesSettle = 3 * time.Second

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

// ownerOf is the value of [AnnotationApp] of the app's objects; empty without an app.
func (p *Plan) ownerOf() string {
	if p.inventory == nil {
		return ""
	}
	return p.inventory.ownerMark()
}

// Has reports whether the app has applied an object before: it has the mark of the app, and we own fields of it.
func (p *Plan) Has(id ID) bool {
	i := slices.IndexFunc(p.Items, func(it Item) bool { return it.ID == id })
	return i >= 0 && p.inventory != nil && p.Items[i].now.live != nil && p.Items[i].now.live.own != "" && p.Items[i].now.live.owner == p.inventory.ownerMark()
}

// Warnings returns the API server's warnings so far, from dry runs and writes.
func (p *Plan) Warnings() []Warning { return p.warnings.sortedWarnings() }

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
	unread  error  // why its state in the cluster is unknown
	unseen  string // why it cannot be read before the CRD of the source is written
	now     standing
}

// standing is what is known about an item's object in the cluster: first what the plan has read, then what each write has left there.
// Writes change nothing else of an item.
type standing struct {
	live    *live
	owned   string   // digest of our entry once applied
	unowned []string // paths of list items that an apply leaves
	found   bool     // when the plan was made, it was in the cluster, and the app did not own or record it
	made    bool     // this run has created it
	// deleted is the object as it was, if this run has deleted it for its replacement.
	deleted map[string]any
}

// wrapError adds the item to an error, unless the error has one already.
func (i *Item) wrapError(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.ID == i.ID {
		return err
	}
	return &Error{File: i.File, Line: i.Line, ID: i.ID, Err: err}
}

// crdOf returns the resource of an item as RESOURCE.GROUP, which is the name of its CRD if it has one; RESOURCE in the core group.
func crdOf(it *Item) string {
	return schema.GroupResource{Group: it.Group, Resource: it.mapping.resource}.String()
}

// ordering says when an item is written.
type ordering struct {
	groups, after, before []string
}

// live is the state of an object in the cluster; nil stands for an object that does not exist.
type live struct {
	uid string
	// version is the resourceVersion.
	version string
	// owner is the value of [AnnotationApp], empty if there is none.
	owner string
	// marks is the meaning of the annotations of other tools.
	marks
	// terminating: the object is being deleted.
	terminating bool
	// formers are the managers of other appliers that own fields of the object.
	formers []former
	// own is the digest of our entry in managedFields; empty if there is none.
	own string
	// versions are the API versions that field owners are recorded in, as GROUP/VERSION.
	versions []string
	// applied: the object already is as the item wants it.
	applied bool
	// unowned lists paths of list items that nobody owns.
	unowned []string
	// stored is the digest of the object, if the client cannot decide whether it is as the item wants it.
	stored string
	health health
}

// health is the status of an object, in the terms of kstatus.
type health struct {
	status  status.Status
	message string
}

// isReady reports whether the object has reached its final state.
func (h health) isReady() bool { return h.status == status.CurrentStatus }

// former is a field manager of a tool that applies whole manifests. When Sluice applies an object, it takes over the fields of that
// tool and removes those that the source does not have. kubectl does the same with its own client-side applies (KEP-555, package
// client-go/util/csaupgrade). Sluice uses that package.
type former struct {
	manager   string
	operation metav1.ManagedFieldsOperationType
	// forced: takes fields only if the request forces it. Such a manager may share an object on purpose.
	forced bool
}

// versioned is an object of the source whose name gets a version.
type versioned struct {
	original ID
	current  int
	keep     int
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

// Hook is an object that Helm applies only at certain events. helm template prints it among the other objects.
type Hook struct {
	ID ID `json:"object"`
	// Events are those of the annotation helm.sh/hook, such as pre-install. There is at least one.
	Events []string `json:"events"`
}

// String returns the object and the first few of its events.
func (h Hook) String() string {
	const most = 5
	events := make([]string, 0, most+1)
	for _, e := range h.Events[:min(len(h.Events), most)] {
		events = append(events, brief.Clip(e, 30))
	}
	if len(h.Events) > most {
		events = append(events, "…")
	}
	return h.ID.String() + " (" + strings.Join(events, ",") + ")"
}

// Untried is an object that the server cannot try before the first write.
type Untried struct {
	ID ID `json:"object"`
	// Reason says why.
	Reason string `json:"reason"`
}

// answer is the server's answer to the dry run of an item.
type answer struct {
	// after is the object after the apply; nil if the server was not asked or did not answer.
	after map[string]any
	// note says why after is nil.
	note string
	// replace names the immutable fields that differ, if the object must be replaced.
	replace string
	// same: an apply changes nothing.
	same bool
	// unowned lists paths of list items that nobody owns after the apply.
	unowned []string
	// local says why the client has computed after, and not the server.
	local string
}

// PreflightInput is the input of a preflight.
type PreflightInput struct {
	Applier *Applier
	Plan    *Plan
	// KubeVersion is the Kubernetes version whose rules apply; the cluster's.
	KubeVersion *version.Version
	// Progress receives progress as Event.Phase, Done and Total.
	Progress func(Event)
	// Unread receives why stored objects could not be read. They are undecided now, and another run may read them.
	Unread func(error)
}

// DeletionRequest names the app to delete.
type DeletionRequest struct {
	// App and Namespace name the app.
	App, Namespace string
	// AllowDeleteCRDs and AllowDeleteNamespaces are those of [Request].
	AllowDeleteCRDs, AllowDeleteNamespaces bool
	// KeepProtected deletes the other objects if CRDs and namespaces stay because their deletion would delete objects of others.
	KeepProtected bool
	// Patience is that of [Request].
	Patience time.Duration
}

// Deletion describes what the deletion of an app will do. [Applier.PlanDeletion] makes it.
type Deletion struct {
	// Removals are in the order of deletion.
	Removals []Removal

	request DeletionRequest
	plan    *Plan
	// refusal has what the server refused to delete when it was asked to try.
	refusal error
}

// Warnings returns the API server's warnings so far.
func (d *Deletion) Warnings() []Warning { return d.plan.warnings.sortedWarnings() }

// lockDuration is the time that a lock is valid without a renewal.
const lockDuration = 15 * time.Second

// Locks remembers the locks of others that a process has seen. Share one between appliers that repeatedly try to get the same lock:
// only a lock that was watched for its duration is known to be stale. The zero value is ready for use.
type Locks struct {
	mu   sync.Mutex
	seen map[string]sighting
	// duration replaces lockDuration, and process the identity of this process; for tests.
	duration time.Duration
	process  string
}

// sighting is a Lease and the time when it was first seen in this state.
type sighting struct {
	version string
	at      time.Time
}

func (l *Locks) lockLength() time.Duration { return cmp.Or(l.duration, lockDuration) }

// ErrChanged means that somebody has, or may have, changed the app since the plan was made. The latter happens if another run had
// not ended then. A plan that is made after [Applier.Resume] can be applied.
var ErrChanged = errors.New("somebody has changed the app since the plan was made")

// leaseClock is the clock of leases. The time since the last renewal is real time, so it is not injected.
func leaseClock() time.Time { return time.Now() } //nolint:forbidigo // see above
