package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An inventory can be lost: somebody deletes the ConfigMap, or restores the namespace from an older copy. The objects still carry
// the mark of the app: an annotation with its name, and a label that the server can select by. Sluice finds them by the label and
// records them again.

// appID is the value of [LabelApp] for the owner NAMESPACE/NAME.
func appID(owner string) string { return digestOf([]byte(owner)) }

// Orphan is an object that carries the mark of an app whose inventory does not have it.
type Orphan struct {
	ID
	// App is the app of the mark, as NAMESPACE/NAME.
	App string `json:"app"`
	// Version is an API version in which the server serves the object.
	Version string `json:"version"`
	// Lost is true if the app has no inventory.
	Lost bool `json:"lost,omitempty"`
	// Kept says why adopting leaves the object alone: an annotation keeps it from being deleted. Empty if adopting records the
	// object.
	Kept string `json:"kept,omitempty"`

	resource string
	made     bool // the app has created it
}

// Orphans is the result of [Applier.Orphans].
type Orphans struct {
	// Objects are in the order of app and ID.
	Objects []Orphan
	// Unlisted has one sentence for each kind that could not be listed. More orphans may exist of these kinds.
	Unlisted []string
}

// Orphans looks for objects in the whole cluster that carry the mark of an app whose inventory does not have them. An object counts
// if Sluice has applied it: it has the label and the annotation. Copies that others have made do not count. app and namespace
// select one app. An empty app selects all apps of the namespace, and an empty namespace all apps. If the user cannot list a kind
// in the whole cluster, Orphans lists it in the namespace, if one is given.
func (a *Applier) Orphans(ctx context.Context, namespace, app string) (*Orphans, error) {
	kinds, err := a.deletableKinds()
	out := &Orphans{}
	if err != nil {
		if len(kinds) == 0 {
			return nil, err
		}
		out.Unlisted = append(out.Unlisted, err.Error()) // an API service that is down hides only its own kinds
	}
	selector := LabelApp
	if app != "" {
		selector += "=" + appID(namespace+"/"+app)
	}
	client := a.client.hurried()
	var mu sync.Mutex
	unlisted := map[string][]string{} // resources by the reason why they could not be listed
	err = forEachIndex(ctx, len(kinds), cap(a.client.slots), func(ctx context.Context, i int) error {
		k := kinds[i]
		found, why, err := client.marked(ctx, k, namespace, selector)
		mu.Lock()
		defer mu.Unlock()
		out.Objects = append(out.Objects, found...)
		if why != "" {
			unlisted[why] = append(unlisted[why], schema.GroupResource{Group: k.group, Resource: k.resource}.String())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, why := range slices.Sorted(maps.Keys(unlisted)) {
		slices.Sort(unlisted[why])
		out.Unlisted = append(out.Unlisted, why+": "+strings.Join(unlisted[why], ", "))
	}
	return out, a.withoutInventory(ctx, out, namespace)
}

// marked lists the objects of one kind that carry the mark of an app. unlisted says why the kind could not be listed; empty if it
// was.
func (c *client) marked(ctx context.Context, k servedKind, namespace, selector string) (found []Orphan, unlisted string, err error) {
	list := func(in string) error {
		found = nil
		return c.listMetadata(ctx, listPath(k.group, k.version, k.resource, in), selector, func(m *metav1.PartialObjectMetadata) {
			owner := m.Annotations[AnnotationApp]
			if m.Labels[LabelApp] != appID(owner) || m.DeletionTimestamp != nil || !appliedHere(m) {
				return
			}
			o := Orphan{ID: ID{k.group, k.kind, m.Namespace, m.Name}, App: owner, Version: k.version, resource: k.resource, made: m.Annotations[annotationMadeBy] == owner}
			if said := marksIn(m); said.kept {
				o.Kept = said.keptReason()
			}
			found = append(found, o)
		})
	}
	err = list("")
	if k.namespaced && namespace != "" && apierrors.IsForbidden(err) {
		if err = list(namespace); err == nil {
			return found, "could be listed in namespace " + namespace + " only", nil
		}
	}
	switch {
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return nil, "", nil // it was removed a moment ago
	case apierrors.IsForbidden(err):
		return nil, "this user may not list these", nil
	case isOfOneKind(ctx, err):
		return found, fmt.Sprintf("could not be listed (%v)", err), nil
	}
	return found, "", err
}

// appliedHere reports whether Sluice has applied the object.
func appliedHere(m *metav1.PartialObjectMetadata) bool {
	return slices.ContainsFunc(m.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == Manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
	})
}

// withoutInventory returns the orphans that no inventory has.
func (a *Applier) withoutInventory(ctx context.Context, found *Orphans, namespace string) error {
	inventories := map[string]*Inventory{}
	var objects []Orphan
	for _, o := range found.Objects {
		in, app, _ := strings.Cut(o.App, "/")
		if namespace != "" && in != namespace || CheckApp(app) != nil {
			continue
		}
		v, known := inventories[o.App]
		if !known {
			var err error
			if v, err = a.client.loadInventory(ctx, in, app); err != nil {
				if !errors.Is(err, errInventory) && !apierrors.IsForbidden(err) {
					return err
				}
				found.Unlisted = append(found.Unlisted, err.Error())
			}
			inventories[o.App] = v
		}
		if v == nil || v.entryOf(o.ID) != nil {
			continue
		}
		o.Lost = v.resourceVersion == ""
		objects = append(objects, o)
	}
	slices.SortFunc(objects, func(x, y Orphan) int {
		return cmp.Or(strings.Compare(x.App, y.App), x.Compare(y.ID))
	})
	found.Objects = objects
	return nil
}

// Adoption is the plan that [Applier.Adopt] carries out.
type Adoption struct {
	// Objects will be recorded in the inventory. Left are not recorded, because an annotation keeps them: the app has forgotten
	// them on purpose.
	Objects, Left []Orphan
	// Unlisted has one sentence for each kind that could not be listed. More orphans may exist of these kinds.
	Unlisted []string

	inventory *Inventory
}

// PlanAdoption looks for the objects of an app that its inventory does not have. The error wraps [ErrNoApp] if it finds neither an
// inventory nor an object.
func (a *Applier) PlanAdoption(ctx context.Context, namespace, app string) (*Adoption, error) {
	if err := CheckApp(app); err != nil {
		return nil, err
	}
	v, err := a.client.loadInventory(ctx, namespace, app)
	if err != nil {
		return nil, err
	}
	found, err := a.Orphans(ctx, namespace, app)
	if err != nil {
		return nil, err
	}
	out := &Adoption{Unlisted: found.Unlisted, inventory: v}
	for _, o := range found.Objects {
		if o.Kept == "" {
			out.Objects = append(out.Objects, o)
		} else {
			out.Left = append(out.Left, o)
		}
	}
	if v.resourceVersion == "" && len(out.Objects) == 0 {
		return nil, fmt.Errorf("%w: %s in namespace %s has no inventory, and no object that could be listed carries its mark", ErrNoApp, app, namespace)
	}
	return out, nil
}

// Adopt records the objects of an adoption in the inventory of the app, and creates the inventory if there is none. It does not
// change the objects. Namespaces count as older than the app, unless they say that the app has created them. The error wraps
// [ErrChanged] if somebody has changed the app since the adoption was planned.
func (a *Applier) Adopt(ctx context.Context, d *Adoption) error {
	v := *d.inventory
	if len(d.Objects) == 0 && (!v.Incomplete || len(d.Unlisted) > 0) {
		return nil
	}
	a, unlock, err := a.lockPlanned(ctx, &v, a.acquireLock)
	defer unlock()
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %[2]s does not exist, and the inventory of app %[1]s belongs there: create it first", v.App, v.Namespace)
	}
	if err != nil {
		return err
	}
	ctx, stop := a.untilLost(ctx)
	defer stop()
	if v.resourceVersion == "" {
		v.State, v.Started = Applying, timestampOf(a.opts.Now()) // nobody knows whether the last apply was complete
	}
	v.Objects = slices.Clone(v.Objects)
	for _, o := range d.Objects {
		v.Objects = append(v.Objects, Entry{ID: o.ID, Version: o.Version, Resource: o.resource, Found: isNamespace(o.ID) && !o.made})
	}
	v.Objects, v.Incomplete = sortEntries(v.Objects), len(d.Unlisted) > 0
	if err := v.checkStorable(); err != nil {
		return err
	}
	if err := a.client.saveInventory(ctx, &v); err != nil {
		return asErrChanged(err)
	}
	d.inventory = &v
	return nil
}

// hasLostInventory reports whether the app has no inventory although the cluster has objects with its mark. It ignores two kinds of
// objects: a namespace may be left from a first apply that was interrupted, and a deletion leaves objects that an annotation keeps.
func (p *Plan) hasLostInventory() bool {
	return p.inventory != nil && p.inventory.resourceVersion == "" && slices.ContainsFunc(p.Items, func(it Item) bool {
		return it.now.live != nil && it.now.live.own != "" && it.now.live.owner == p.inventory.ownerMark() && !it.now.live.kept && !isNamespace(it.ID)
	})
}

// incompleteNote says that the inventory was lost; empty if it was not.
func (v *Inventory) incompleteNote() string {
	if v == nil || !v.Incomplete {
		return ""
	}
	return fmt.Sprintf("the inventory of app %s was lost, so objects that the source no longer has may be left over in the cluster; "+
		"sluice adopt %s -n %s finds and records them", v.App, v.App, v.Namespace)
}

// Lost reports whether the inventory of the app was lost and this plan is the first one to notice it.
func (p *Plan) Lost() bool {
	return p.inventory != nil && p.inventory.resourceVersion == "" && p.inventory.Incomplete
}
