package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/internal/brief"
)

// Before the first write, the server is asked to try all writes, by dry runs, so that most refusals come while nothing has changed
// yet. Some objects cannot be tried: their kind, namespace or account comes with the same source. This file tells such refusals from
// those that will also meet the real write. For example, "namespaces x not found" is no refusal if the source has the namespace x.

// rehearse asks the server to try, by dry runs, every write and deletion of the plan. take, if not nil, receives each answer; calls
// are concurrent. If the only obstacle is fields of other owners, the error is a [*ConflictError].
//
// With local, the client compares objects for which the server refuses this user a dry run.
func (a *Applier) rehearse(ctx context.Context, p *Plan, local bool, take func(it *Item, got answer) error) error {
	todo := selectFrom(p.Items, func(it *Item) bool { return it.Action != Unchanged })
	p.Untried = nil
	if len(todo) > 0 {
		a.events.notifyObserver(Event{Phase: "trying", Total: len(todo)})
	}
	conflicts := make([][]Conflict, len(todo))
	failures := make([]error, len(todo))
	answers := make([]answer, len(todo))
	done := 0
	schemas := a.newSchemas(ctx, p)
	var mu sync.Mutex
	err := forEachIndex(ctx, len(todo), cap(a.client.slots), func(ctx context.Context, i int) error {
		it := todo[i]
		got, err := a.dryRunItem(ctx, p, it)
		if err != nil && local {
			if here, ok, failed := a.compareLocally(ctx, it, err); failed != nil || ok {
				got, err = here, failed
			}
		}
		if err == nil {
			err = a.judgeByNewSchema(ctx, schemas, it, got)
		}
		if err == nil && take != nil {
			err = take(it, got)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		answers[i] = answer{note: cmp.Or(got.note, got.local), replace: got.replace, same: err == nil && p.isNoChange(it, got)}
		if entries := managedEntriesOf(got.after); len(entries) > 0 {
			answers[i].unowned = unownedItems(entries, entryOfOwnApplies(entries), got.after)
		}
		if conflicts[i] = conflictsOf(it, err); conflicts[i] == nil && err != nil {
			failures[i] = it.wrapError(err)
		}
		mu.Lock()
		defer mu.Unlock()
		done++
		a.events.notifyObserver(Event{Done: done, Total: len(todo)})
		return nil
	})
	if err != nil {
		return err
	}
	p.takeAnswers(todo, answers, failures)
	return refusalOf(failures, slices.Concat(conflicts...))
}

// takeAnswers marks the items that are unchanged or replaced, and those that the server could not try.
func (p *Plan) takeAnswers(todo []*Item, answers []answer, failures []error) {
	for i, it := range todo {
		got := &answers[i]
		it.now.unowned = got.unowned
		switch {
		case got.replace != "":
			it.Action, it.Reason = Replace, got.replace
		case got.same:
			it.Action = Unchanged
		}
		if got.note != "" && failures[i] == nil {
			p.Untried = append(p.Untried, Untried{it.ID, got.note})
		}
	}
}

// isNoChange reports whether the server's answer shows that an apply changes nothing, not even an owner. The answer does not count if
// the CRD of the object changes, too, because the new one may fill in defaults.
func (p *Plan) isNoChange(it *Item, got answer) bool {
	return it.Action == Update && it.now.live != nil && it.now.live.stored != "" && len(it.TakesOver) == 0 && got.after != nil && got.local == "" &&
		digestOfStored(got.after) == it.now.live.stored && !p.changesCRDOf(it)
}

// refusalOf is the error of dry runs; a [*ConflictError] if there are only conflicts.
func refusalOf(failures []error, conflicts []Conflict) error {
	err := errors.Join(failures...)
	switch {
	case len(conflicts) == 0:
		return err
	case err == nil:
		return &ConflictError{conflicts}
	}
	return errors.Join(err, &ConflictError{conflicts})
}

// dryRunItem sends the dry run of one item.
//
// The note of the answer says why the server was not asked or could not answer. The order of the attempts is from the exact to the
// approximate, and the first refusal that nothing can explain away is the error.
func (a *Applier) dryRunItem(ctx context.Context, p *Plan, it *Item) (answer, error) {
	ctx = p.warnings.attributeTo(ctx, it.ID)
	path := it.mapping.objectPath(&it.Object)
	switch {
	case it.mapping.pending:
		err := a.tryIn(ctx, p, it, it.mapping.before)
		return answer{note: "its CRD is not served yet, so the server was not asked"}, err
	case it.unseen != "":
		return answer{note: it.unseen}, nil
	case it.now.live != nil && it.now.live.terminating:
		return answer{note: "it is being deleted; the server was not asked"}, nil
	}
	if needs, err := p.missingPodNeed(it); needs != "" || err != nil {
		return answer{note: "its " + needs + " does not exist yet, so the server was not asked"}, err
	}
	after, err := a.client.applyPatch(ctx, path, it.json, true, p.request.Force)
	if err == nil && len(it.TakesOver) > 0 {
		after, err = a.takenOver(ctx, it, after)
	}
	if err == nil {
		return answer{after: after}, nil
	}
	if apierrors.IsInvalid(err) && len(it.TakesOver) > 0 {
		got, again := a.tryWithout(ctx, it)
		if again == nil {
			return got, nil
		}
		err = again
	}
	if others := a.otherVersions(ctx, p, it, err); len(others) > 0 {
		for _, v := range others {
			if err := a.tryIn(ctx, p, it, v); err != nil {
				return answer{}, err
			}
		}
		return answer{note: "the owners of its fields are still noted in " + strings.Join(others, ", ") + ", and the server cannot try it before that is changed"}, nil
	}
	if note := p.mayPass(it, err); note != "" {
		return answer{note: note}, nil
	}
	if noNamespace(err) {
		return answer{}, fmt.Errorf("namespace %s does not exist and is not in the source: %w", it.Namespace, err)
	}
	return a.askReplacing(ctx, p, it, a.explainLeftover(ctx, it, err))
}

// mayPass says why the real write may succeed although the dry run failed; empty if it will fail as well.
func (p *Plan) mayPass(it *Item, err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return ""
	}
	d := status.Status().Details
	switch {
	case apierrors.IsNotFound(err) && d != nil && p.createsObject(d.Kind, d.Name):
		if noNamespace(err) {
			return "its namespace does not exist yet, so the server was not asked"
		}
		return fmt.Sprintf("%s %s does not exist yet, so the server cannot try it", d.Kind, d.Name)
	case apierrors.IsNotFound(err) && !noNamespace(err) && p.changesCRDOf(it): // it was deleted a moment ago, and discovery still has it
		return "its CRD is not served, so the server was not asked"
	case apierrors.HasStatusCause(err, metav1.CauseType("NamespaceTerminating")) && p.awaitsNamespace(it.Namespace):
		return "its namespace is being deleted and will be created again, so the server was not asked"
	case aboutSchema(err) && p.changesCRDOf(it):
		return "its CRD changes too, and the one that is served now refuses it: " + err.Error()
	case apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run"):
		return "the server cannot try it: " + err.Error() // k8s.io/apiserver/pkg/admission/plugin/webhook/errors
	case apierrors.IsInternalError(err) && strings.Contains(err.Error(), "webhook") && (p.mayStartWebhook(err) || p.changesCRDOf(it)):
		return "the server failed to try it: " + err.Error()
	}
	return ""
}

// webhookService finds the namespace of the Service of a webhook in the error of the API server that cannot call it
// (k8s.io/apiserver/pkg/util/webhook).
var webhookService = regexp.MustCompile(`https://[a-z0-9-]+\.([a-z0-9-]+)\.svc[:/]`)

// mayStartWebhook reports whether the source may start a webhook that does not answer: it has an object in the namespace of its
// Service, or a webhook configuration. If the error does not name a Service, anything may.
func (p *Plan) mayStartWebhook(err error) bool {
	found := webhookService.FindStringSubmatch(err.Error())
	return found == nil || slices.ContainsFunc(p.Items, func(it Item) bool {
		return it.Namespace == found[1] || strings.HasSuffix(it.Kind, "WebhookConfiguration")
	})
}

// createsObject reports whether the source creates an object. Kind is the resource or the kind, as in the server's errors.
func (p *Plan) createsObject(kind, name string) bool {
	return slices.ContainsFunc(p.Items, func(i Item) bool {
		return i.Action == Create && i.Name == name && (i.Kind == kind || i.mapping.resource == kind)
	})
}

// awaitsNamespace reports whether a namespace of the source is being deleted.
func (p *Plan) awaitsNamespace(name string) bool {
	return slices.ContainsFunc(p.Items, func(i Item) bool {
		return isNamespace(i.ID) && i.Name == name && i.now.live != nil && i.now.live.terminating
	})
}

// podNeeds lists the objects that the API server requires when it admits a Pod (plugin/pkg/admission: serviceaccount, priority,
// runtimeclass), by the field of spec that names them.
var podNeeds = map[string]schema.GroupKind{
	"serviceAccountName": {Kind: "ServiceAccount"},
	"priorityClassName":  {Group: "scheduling.k8s.io", Kind: "PriorityClass"},
	"runtimeClassName":   {Group: "node.k8s.io", Kind: "RuntimeClass"},
}

// missingPodNeed names an object that a Pod requires, if the source creates it and it does not exist yet; empty for other kinds.
func (p *Plan) missingPodNeed(it *Item) (string, error) {
	if it.Group != "" || it.Kind != "Pod" {
		return "", nil
	}
	content, err := it.decodeContent()
	if err != nil {
		return "", err
	}
	spec, _ := content["spec"].(map[string]any)
	for field, kind := range podNeeds {
		if name, _ := spec[field].(string); name != "" && slices.ContainsFunc(p.Items, func(i Item) bool {
			return i.Action == Create && i.Name == name && i.Group == kind.Group && i.Kind == kind.Kind && (i.Namespace == "" || i.Namespace == it.Namespace)
		}) {
			return kind.Kind + " " + name, nil
		}
	}
	return "", nil
}

// UntriedNote lists in one sentence the objects that the server cannot try before the first write; empty for none.
func (p *Plan) UntriedNote() string {
	if len(p.Untried) == 0 {
		return ""
	}
	parts := brief.First(p.Untried, 3, "; ", func(u Untried) string { return fmt.Sprintf("%s (%s)", u.ID, u.Reason) })
	return fmt.Sprintf("%s could not be tried before the first write: %s", brief.Count(len(p.Untried), "object"), parts)
}
