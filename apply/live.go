package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/internal/cluster"
)

// This file reads objects from the cluster and extracts what the other steps need of them, so that a plan does not hold thousands of
// whole objects. Reading costs one list per kind and namespace, or single requests where few objects are wanted.

// healthOf reads the status from the object's readiness annotations. If they do not decide, it asks kstatus. kstatus does not know
// an object without a kind, and would report it as ready.
func healthOf(obj map[string]any) health {
	if h, ok := healthByAnnotations(obj); ok {
		return h
	}
	if kind, _ := obj["kind"].(string); kind == "" {
		return health{status.UnknownStatus, "its kind is not known"}
	}
	r, err := status.Compute(&unstructured.Unstructured{Object: obj})
	if err != nil {
		return health{status.UnknownStatus, "its status cannot be read: " + err.Error()}
	}
	if r.Status == status.CurrentStatus || r.Status == status.FailedStatus {
		if stale := staleCondition(obj, isDecidingCondition); stale != "" { // kstatus looks at the generation of the whole status only
			return health{status.InProgressStatus, staleMessage(stale)}
		}
	}
	return health{r.Status, r.Message}
}

// ownerIn returns the value of [AnnotationApp] of an object.
func ownerIn(obj map[string]any) string {
	owner, _ := annotationsOf(obj)[AnnotationApp].(string)
	return owner
}

// observeObject extracts the state of an object.
func observeObject(obj map[string]any) *live {
	l := &live{health: healthOf(obj)}
	meta := metadataOf(obj)
	l.uid, _ = meta["uid"].(string)
	l.version, _ = meta["resourceVersion"].(string)
	l.owner = ownerIn(obj)
	l.marks = marksOf(obj)
	_, l.terminating = meta["deletionTimestamp"]
	entries := managedEntriesOf(obj)
	mine := entryOfOwnApplies(entries)
	l.own = mine.entryDigest()
	l.formers = formersOf(entries, mine)
	for _, e := range entries {
		if !slices.Contains(l.versions, e.apiVersion) {
			l.versions = append(l.versions, e.apiVersion)
		}
	}
	l.unowned = unownedItems(entries, mine, obj)
	return l
}

// compareWithWanted is observeObject, and finds out whether the object is as it is wanted. record is what the inventory has of it, nil
// for nothing.
func compareWithWanted(obj map[string]any, want *Object, record *Entry) (*live, error) {
	l := observeObject(obj)
	if l.terminating {
		return l, nil
	}
	if record != nil && l.own != "" && record.Owned == l.own && record.Version == want.Version && record.Manifest == want.contentDigest() {
		l.applied = true // unchanged since our last apply
		return l, nil
	}
	content, err := want.decodeContent()
	if err != nil {
		return nil, err
	}
	if l.applied = entryOfOwnApplies(managedEntriesOf(obj)).isAlreadyApplied(content, obj); !l.applied {
		l.stored = digestOfStored(obj)
	}
	return l, nil
}

// place is the place where objects of a kind are listed: the resource and the namespace.
type place struct{ group, version, resource, kind, namespace string }

func (p place) listPathOf() string { return listPath(p.group, p.version, p.resource, p.namespace) }

// spot is the place of one object.
type spot struct {
	place

	name string
}

func (e *Entry) spotInCluster() spot {
	return spot{place{e.Group, e.Version, e.Resource, e.Kind, e.Namespace}, e.Name}
}

// spotIn is where an item stands in a version.
func (i *Item) spotIn(version string) spot {
	return spot{place{i.Group, version, i.mapping.resource, i.Kind, i.Namespace}, i.Name}
}

// fewCRDs is the number of CRDs up to which read gets them one by one. A list would be large: a cluster has many CRDs.
const fewCRDs = 10

// errEnough ends a listing early.
var errEnough = errors.New("enough")

// readObjects reads objects and calls take with each that exists. Calls for one place are sequential. A place with several wanted
// objects costs one list. If most objects of a list are not wanted, the rest is read one by one.
//
// If an object cannot be read, skip gets the error. If skip returns false or is nil, the error is returned.
func (c *client) readObjects(ctx context.Context, spots iter.Seq[spot], take func(at spot, obj map[string]any) error, skip func(at spot, err error) bool) error {
	wanted := map[place][]string{}
	for s := range spots {
		wanted[s.place] = append(wanted[s.place], s.name)
	}
	places := slices.SortedFunc(maps.Keys(wanted), func(a, b place) int { return strings.Compare(a.listPathOf(), b.listPathOf()) })
	return forEachIndex(ctx, len(places), cap(c.slots), func(ctx context.Context, i int) error {
		p := places[i]
		missing := map[string]bool{}
		for _, n := range wanted[p] {
			missing[n] = true
		}
		few := 1
		if p.group == "apiextensions.k8s.io" {
			few = fewCRDs
		}
		if len(missing) > few {
			done, err := c.readList(ctx, p, missing, take)
			if err != nil && skip != nil && !slices.ContainsFunc(slices.Sorted(maps.Keys(missing)), func(n string) bool { return !skip(spot{p, n}, err) }) {
				return nil
			}
			if done || err != nil {
				return err
			}
		}
		names := slices.Sorted(maps.Keys(missing))
		var mu sync.Mutex
		return forEachIndex(ctx, len(names), cap(c.slots), func(ctx context.Context, i int) error {
			obj, err := c.fetchObject(ctx, p.listPathOf()+"/"+names[i])
			mu.Lock()
			defer mu.Unlock()
			if err != nil && skip != nil && skip(spot{p, names[i]}, err) {
				return nil
			}
			if err != nil || obj == nil {
				return explainRead(p, err)
			}
			return take(spot{p, names[i]}, obj)
		})
	})
}

// readList lists a place. It removes the objects that it finds from missing. If it returns false, the caller must still read the
// rest.
func (c *client) readList(ctx context.Context, p place, missing map[string]bool, take func(at spot, obj map[string]any) error) (bool, error) {
	o := cluster.EachOptions{PageSize: listSize, Page: func(remaining int64) error {
		if remaining > 0 && int64(len(missing)) <= remaining/listSize {
			return errEnough
		}
		return nil
	}}
	if p.group == "apiextensions.k8s.io" {
		o.PageSize = 0
	}
	err := c.reads.Each(ctx, p.listPathOf(), o, func(raw []byte) error {
		name, err := nameOf(raw)
		if err != nil || !missing[name] {
			return err
		}
		delete(missing, name)
		obj, err := decodeObject(raw)
		if err != nil {
			return err
		}
		// Items of lists of built-in kinds have neither apiVersion nor kind (k8s.io/apimachinery/pkg/apis/meta/v1, TypeMeta). The
		// meaning of the fields depends on both.
		obj["apiVersion"], obj["kind"] = schema.GroupVersion{Group: p.group, Version: p.version}.String(), p.kind
		return take(spot{p, name}, obj)
	})
	switch {
	case errors.Is(err, errEnough):
		return len(missing) == 0, nil
	case apierrors.IsNotFound(err):
		return true, nil // the resource is gone, and its objects with it
	case apierrors.IsForbidden(err):
		return false, nil // without the right to list, the user may still get single objects
	}
	return true, explainRead(p, err)
}

// nameOf reads the name of an object without decoding the rest: most objects of a list are not wanted.
func nameOf(raw []byte) (string, error) {
	var head struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	err := json.Unmarshal(raw, &head)
	return head.Metadata.Name, err
}

func explainRead(p place, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", p.listPathOf(), err)
}
