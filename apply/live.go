package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/internal/cluster"
)

// live is what is known of an object in the cluster; nil stands for one that does not exist.
type live struct {
	uid string
	// version is the resourceVersion.
	version string
	// owner is the value of [AnnotationApp], empty where there is none.
	owner string
	// marks is what annotations of other tools say.
	marks
	// terminating: its deletion has begun.
	terminating bool
	// formers are the managers of other appliers that own fields of it.
	formers []former
	// own is the digest of our entry in managedFields; empty where there is none.
	own string
	// versions are the API versions that fields are noted in, as GROUP/VERSION.
	versions []string
	// applied: it is as the item wants it.
	applied bool
	health  health
}

// health is how an object is, as kstatus tells.
type health struct {
	status  status.Status
	message string
}

// ready tells whether the object is as it is to be in the end.
func (h health) ready() bool { return h.status == status.CurrentStatus }

// healthOf goes by the object's annotations, and asks kstatus where they say nothing. Of an object without a kind it knows nothing, and would take it for ready.
func healthOf(obj map[string]any) health {
	if h, ok := told(obj); ok {
		return h
	}
	if kind, _ := obj["kind"].(string); kind == "" {
		return health{status.UnknownStatus, "its kind is not known"}
	}
	r, err := status.Compute(&unstructured.Unstructured{Object: obj})
	if err != nil {
		return health{status.UnknownStatus, "its status cannot be read: " + err.Error()}
	}
	return health{r.Status, r.Message}
}

// ownerIn is the value of [AnnotationApp] of an object.
func ownerIn(obj map[string]any) string {
	meta, _ := obj["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	owner, _ := annotations[AnnotationApp].(string)
	return owner
}

// observe reads what is to be known of an object. want may be nil.
func observe(obj map[string]any, want *Object, record *Entry) (*live, error) {
	l := &live{health: healthOf(obj)}
	meta, _ := obj["metadata"].(map[string]any)
	l.uid, _ = meta["uid"].(string)
	l.version, _ = meta["resourceVersion"].(string)
	l.owner = ownerIn(obj)
	l.marks = marksOf(obj)
	_, l.terminating = meta["deletionTimestamp"]
	entries := managers(obj)
	mine := own(entries)
	l.own = mine.digest()
	l.formers = formersOf(entries, mine)
	for _, e := range entries {
		if !slices.Contains(l.versions, e.apiVersion) {
			l.versions = append(l.versions, e.apiVersion)
		}
	}
	if want == nil || l.terminating {
		return l, nil
	}
	if record != nil && l.own != "" && record.Owned == l.own && record.Version == want.Version && record.Manifest == want.digest() {
		l.applied = true // as we left it
		return l, nil
	}
	content, err := want.content()
	if err != nil {
		return nil, err
	}
	l.applied = mine.applied(content, obj)
	return l, nil
}

// place is where objects of a kind are listed.
type place struct{ group, version, resource, kind, namespace string }

func (p place) path() string { return listPath(p.group, p.version, p.resource, p.namespace) }

const (
	// listSize is how many objects are asked for at once.
	listSize = 500
	// fewCRDs is up to how many CRDs are read one by one: those of a cluster are many and large.
	fewCRDs = 10
)

// errEnough ends a listing of which nothing more is needed.
var errEnough = errors.New("enough")

// read reads the objects of each place by their names and calls take with each that exists, not concurrently for one place.
// It costs a list for a place with several names. Where most of what is there is nobody's concern, the rest is read one by one.
//
// What may not be read goes to forbidden, with the error; where forbidden is nil it is an error of read.
func (c *client) read(ctx context.Context, wanted map[place][]string, take func(p place, name string, obj map[string]any) error, forbidden func(p place, name string, err error)) error {
	places := make([]place, 0, len(wanted))
	for p := range wanted {
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b place) int { return strings.Compare(a.path(), b.path()) })
	return each(ctx, len(places), cap(c.slots), func(ctx context.Context, i int) error {
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
			if done, err := c.readList(ctx, p, missing, take); done || err != nil {
				return err
			}
		}
		names := make([]string, 0, len(missing))
		for n := range missing {
			names = append(names, n)
		}
		slices.Sort(names)
		var mu sync.Mutex
		return each(ctx, len(names), cap(c.slots), func(ctx context.Context, i int) error {
			obj, err := c.get(ctx, p.path()+"/"+names[i])
			mu.Lock()
			defer mu.Unlock()
			if apierrors.IsForbidden(err) && forbidden != nil {
				forbidden(p, names[i], err)
				return nil
			}
			if err != nil || obj == nil {
				return explainRead(p, err)
			}
			return take(p, names[i], obj)
		})
	})
}

// readList lists a place. It takes what it finds out of missing; where it returns false, the rest is still to be read.
func (c *client) readList(ctx context.Context, p place, missing map[string]bool, take func(p place, name string, obj map[string]any) error) (bool, error) {
	o := cluster.EachOptions{PageSize: listSize, Page: func(remaining int64) error {
		if remaining > 0 && int64(len(missing)) <= remaining/listSize {
			return errEnough
		}
		return nil
	}}
	if p.group == "apiextensions.k8s.io" {
		o.PageSize = 0
	}
	err := c.reads.Each(ctx, p.path(), o, func(raw []byte) error {
		var head struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(raw, &head); err != nil {
			return err
		}
		name := head.Metadata.Name
		if !missing[name] {
			return nil
		}
		delete(missing, name)
		obj, err := decode(raw)
		if err != nil {
			return err
		}
		// Items of lists of built-in kinds carry neither (k8s.io/apimachinery/pkg/apis/meta/v1, TypeMeta); what a kind means by its
		// fields is told by both.
		obj["apiVersion"], obj["kind"] = schema.GroupVersion{Group: p.group, Version: p.version}.String(), p.kind
		return take(p, name, obj)
	})
	switch {
	case errors.Is(err, errEnough):
		return len(missing) == 0, nil
	case apierrors.IsNotFound(err):
		return true, nil // the resource is gone, and its objects with it
	case apierrors.IsForbidden(err):
		return false, nil // who may not list may still get
	}
	return true, explainRead(p, err)
}

func explainRead(p place, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", p.path(), err)
}
