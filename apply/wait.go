package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/cluster"
)

// This file waits: for CRDs to be served, for objects to be ready, and for deleted ones to be gone. A wait polls with growing pauses,
// and reports after some seconds what it waits for. Only some waits have an end of their own; see [Request.Patience].

// pollUntil calls done until it returns true or ctx ends, with growing pauses. It tolerates lost connections, because they may come
// back.
func pollUntil(ctx context.Context, done func() (bool, error)) error {
	for pause := firstPause; ; pause = min(pause*3/2, lastPause) {
		ok, err := done()
		if err != nil && !isTransientError(err) || err == nil && ok {
			return err
		}
		if err := cluster.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// pollAloud is pollUntil with reminders: they name the objects that are not ready yet.
func (a *Applier) pollAloud(ctx context.Context, still func() Event, done func() (bool, error)) error {
	pause, from := a.reminder, leaseClock()
	return pollUntil(ctx, func() (bool, error) {
		ok, err := done()
		if ok && err == nil || err != nil && !isTransientError(err) || time.Since(from) < pause {
			return ok, err
		}
		ev := still()
		if err != nil {
			ev.Note = "the API server does not answer: " + err.Error()
		}
		ev.Note = "still waiting: " + ev.Note
		a.events.notifyObserver(ev)
		pause, from = min(2*pause, lastReminder), leaseClock()
		return ok, err
	})
}

// heldBy says in parentheses why an object that is being deleted still exists, as far as the object shows it.
func heldBy(obj map[string]any) string {
	meta := metadataOf(obj)
	var why []string
	list, _ := meta["finalizers"].([]any)
	for _, f := range list {
		if s, ok := f.(string); ok {
			why = append(why, s)
		}
	}
	// The conditions of a namespace say so (k8s.io/kubernetes/pkg/controller/namespace/deletion/status_condition_utils.go).
	if obj["kind"] == "Namespace" {
		for _, c := range conditionsOf(obj) {
			if message, _ := c["message"].(string); message != "" && c["status"] == "True" {
				why = append(why, message)
			}
		}
	}
	if len(why) == 0 {
		return ""
	}
	return " (" + strings.Join(why, "; ") + ")"
}

// ErrWaiting means that an apply has waited for others for as long as [Request.Patience] allows. Finished writes stay, and the same
// request resumes the apply.
var ErrWaiting = errors.New("not waited for any longer")

// withPatience bounds a wait by the patience of the plan.
func (a *Applier) withPatience(ctx context.Context, p *Plan) (context.Context, context.CancelFunc) {
	if p.request.Patience <= 0 {
		return ctx, func() {}
	}
	p.patience.mu.Lock()
	defer p.patience.mu.Unlock()
	now := a.opts.Now()
	if p.patience.end.IsZero() {
		p.patience.end = now.Add(p.request.Patience)
	}
	return context.WithTimeoutCause(ctx, p.patience.end.Sub(now), ErrWaiting)
}

// asErrWaiting returns [ErrWaiting] in place of an error if the patience is over.
func asErrWaiting(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), ErrWaiting) && !errors.Is(err, ErrWaiting) {
		return ErrWaiting
	}
	return err
}

// unservedCRDs returns the CRDs of the plan that may not be served yet: first, those that this apply has written. An interrupted apply
// may have written others a moment ago; of these it returns the CRDs that were not established, or did not serve the plan's
// versions, when the plan was made.
func (p *Plan) unservedCRDs() []*Item {
	needed := map[schema.GroupKind]bool{}
	for it := range eachOf(p.Items) {
		if it.mapping.pending {
			needed[it.GVK().GroupKind()] = true
		}
	}
	var out []*Item
	for it := range eachOf(p.Items) {
		if !it.isCRD() || it.now.live == nil && it.Action == Unchanged { // somebody else creates it
			continue
		}
		spec := &p.crds[it.Name].Spec
		if it.Action != Unchanged || !it.now.live.health.isReady() || needed[schema.GroupKind{Group: spec.Group, Kind: spec.Names.Kind}] {
			out = append(out, it)
		}
	}
	return out
}

// waitUntilServed waits until every such CRD is established and the server lists its versions.
func (a *Applier) waitUntilServed(ctx context.Context, p *Plan) error {
	todo := p.unservedCRDs()
	if len(todo) == 0 {
		return nil
	}
	a.events.notifyObserver(Event{Phase: "waiting until definitions are served", Total: len(todo)})
	ctx, cancel := a.withPatience(ctx, p)
	defer cancel()
	err := forEachIndex(ctx, len(todo), cap(a.client.slots), func(ctx context.Context, i int) error {
		it := todo[i]
		why := ""
		still := func() Event { return Event{Note: fmt.Sprintf("%s: %s", it.ID, why), Total: len(todo)} }
		from := leaseClock()
		err := a.pollAloud(ctx, still, func() (bool, error) {
			var err error
			why, err = a.whatCRDLacks(ctx, it.Name)
			if errors.Is(err, errNamesRefused) && time.Since(from) < a.settled {
				why, err = err.Error(), nil // the condition may be about the names before the write
			}
			return why == "" && err == nil, err
		})
		err = asErrWaiting(ctx, err)
		if err != nil && why != "" {
			err = fmt.Errorf("%w: %s", err, why)
		}
		if err != nil {
			return it.wrapError(err)
		}
		return nil
	})
	for _, it := range todo {
		a.mapper.forgetGroup(p.crds[it.Name].Spec.Group)
	}
	return err
}

var errNamesRefused = errors.New("the cluster does not accept its names")

// whatCRDLacks says what a CRD still lacks; empty if it is served.
func (a *Applier) whatCRDLacks(ctx context.Context, name string) (string, error) {
	crd, err := a.client.reads.CRD(ctx, name)
	if err != nil {
		return "", err
	}
	if crd == nil {
		return "", errors.New("was deleted while it was waited for")
	}
	if c := apihelpers.FindCRDCondition(crd, apiextensionsv1.NamesAccepted); c != nil && c.Status == apiextensionsv1.ConditionFalse {
		return "", fmt.Errorf("%w: %s", errNamesRefused, c.Message)
	}
	if !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
		return "the CRD is not established", nil
	}
	for _, v := range crd.Spec.Versions {
		if !v.Served {
			continue
		}
		_, err := a.client.sendOnce(ctx, request{
			verb: http.MethodGet, path: listPath(crd.Spec.Group, v.Name, crd.Spec.Names.Plural, ""), query: url.Values{"limit": {"1"}},
		})
		if status := apierrors.APIStatus(nil); errors.As(err, &status) && !apierrors.IsNotFound(err) {
			// A user who can write the CRD may have no right to list its objects: the server then refuses the list, served or not.
			// Stored objects may not be convertible yet, because the webhook comes with a later stage: the server then fails, or asks
			// to come back later, until the webhook answers. Neither is a reason to wait.
			a.mapper.forgetGroup(crd.Spec.Group)
			_, err = a.mapper.findMapping(ctx, schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}, nil)
		}
		if err != nil {
			return "its version " + v.Name + " is not served: " + err.Error(), nil //nolint:nilerr // not served yet: ask again
		}
	}
	return "", nil
}

// NotReadyError lists applied objects that are not ready in time, or have failed.
type NotReadyError struct {
	// Objects are those that are not ready, with the message of kstatus.
	Objects []NotReady
	// Err is why the wait ended: the context's error, or nil if an object has failed.
	Err error
}

// NotReady is an object that is not ready.
type NotReady struct {
	ID     ID     `json:"object"`
	Status string `json:"status"`
	// Message is one sentence for people.
	Message string `json:"message,omitempty"`
}

// Error implements error: the first few objects.
func (e *NotReadyError) Error() string {
	const most = 3
	var parts []string
	for _, o := range e.Objects[:min(len(e.Objects), most)] {
		parts = append(parts, fmt.Sprintf("%s is %s%s", o.ID, o.Status, brief.InParentheses(o.Message)))
	}
	why := ""
	if errors.Is(e.Err, errLost) {
		why = "; " + e.Err.Error()
	}
	return fmt.Sprintf("%s not ready: %s%s", brief.Count(len(e.Objects), "object"), strings.Join(parts, "; "), why)
}

// Unwrap returns e.Err.
func (e *NotReadyError) Unwrap() error { return e.Err }

// waitUntilReady waits until all applied objects are ready. Each poll reads the objects that are not, with one list per kind and
// namespace.
func (a *Applier) waitUntilReady(ctx context.Context, p *Plan) error {
	return a.waitFor(ctx, selectFrom(p.Items, func(it *Item) bool { return it.now.live != nil })) // objects of later stages do not exist yet
}

// waitFor waits until items that exist are ready.
func (a *Applier) waitFor(ctx context.Context, list []*Item) error {
	isReady := func(it *Item) bool { return it.now.live.health.isReady() }
	waiting, total := slices.DeleteFunc(slices.Clone(list), isReady), len(list)
	if len(waiting) == 0 {
		return nil
	}
	a.events.notifyObserver(Event{Phase: "waiting until all is ready", Done: total - len(waiting), Total: total})
	notReady := func(err error) error {
		e := &NotReadyError{Err: err}
		for _, it := range waiting {
			h := it.now.live.health
			if err == nil && h.status != status.FailedStatus {
				continue
			}
			e.Objects = append(e.Objects, NotReady{it.ID, string(h.status), h.message})
		}
		return e
	}
	still := func() Event {
		note := fmt.Sprintf("%s is %s%s", waiting[0].ID, waiting[0].now.live.health.status, brief.InParentheses(waiting[0].now.live.health.message))
		if n := len(waiting) - 1; n > 0 {
			note += fmt.Sprintf("; and %d more are not ready", n)
		}
		return Event{Done: total - len(waiting), Total: total, Note: note}
	}
	err := a.pollAloud(ctx, still, func() (bool, error) {
		if err := a.refreshItems(ctx, waiting); err != nil {
			return false, err
		}
		failed := slices.ContainsFunc(waiting, func(it *Item) bool { return it.now.live.health.status == status.FailedStatus })
		if failed {
			return false, notReady(nil)
		}
		before := len(waiting)
		waiting = slices.DeleteFunc(waiting, isReady)
		if len(waiting) < before {
			ev := Event{Done: total - len(waiting), Total: total}
			if len(waiting) > 0 {
				ev.Note = fmt.Sprintf("waiting for %s: %s", waiting[0].ID, waiting[0].now.live.health.message)
			}
			a.events.notifyObserver(ev)
		}
		return len(waiting) == 0, nil
	})
	if err != nil && ctx.Err() != nil {
		return notReady(context.Cause(ctx))
	}
	return err
}

// refreshItems reads the state of items again.
func (a *Applier) refreshItems(ctx context.Context, items []*Item) error {
	by := map[spot]*Item{}
	for _, it := range items {
		by[it.spotIn(it.Version)] = it
	}
	var mu sync.Mutex
	seen := map[*Item]health{}
	err := a.client.readObjects(ctx, maps.Keys(by), func(at spot, obj map[string]any) error {
		mu.Lock()
		defer mu.Unlock()
		seen[by[at]] = healthOf(obj)
		return nil
	}, nil)
	if err != nil {
		return err // what was known stays: it does not show that an object was deleted
	}
	for _, it := range items {
		h, there := seen[it]
		if !there {
			h = health{status.NotFoundStatus, "it was deleted"}
		}
		it.now.live.health = h
	}
	return nil
}
