package apply

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/crdcheck"
	"sluice.dev/report"
)

// Which permissions does the plan need, and which of them does the user lack? Without this check an apply would stop in the middle,
// at the first object that the server refuses. Questions are asked for whole resources first: an app with 500 ConfigMaps in a
// namespace costs one question for each verb and not 500.

// access is one permission that an apply needs: for one object if name is set, else for all objects of a resource in a namespace.
type access struct{ verb, group, resource, namespace, name string }

func (a access) compareTo(b access) int {
	return cmp.Or(
		cmp.Compare(a.group, b.group), cmp.Compare(a.resource, b.resource), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.verb, b.verb),
		cmp.Compare(a.name, b.name),
	)
}

// resourceName names the resource in the form of a CRD name.
func (a access) resourceName() string {
	return schema.GroupResource{Group: a.group, Resource: a.resource}.String()
}

func (a access) scopePhrase() string {
	if a.namespace == "" {
		return "in the cluster"
	}
	return "in namespace " + a.namespace
}

// permissionValidation asks the API server whether this user has all permissions that the plan needs. It asks once for all objects
// of a resource in a namespace, and asks for single objects only if the answer is no. It also sends RBAC objects as dry runs,
// because granting a right needs more than the right to write the grant.
func permissionValidation(ctx context.Context, p *PreflightInput) ([]report.CRD, error) {
	wanted := p.Plan.accessesNeeded()
	whole := map[access][]access{}
	var questions []access
	for _, w := range wanted {
		q := w
		q.name = ""
		if whole[q] == nil {
			questions = append(questions, q)
		}
		whole[q] = append(whole[q], w)
	}
	p.Progress(Event{Phase: "asking for permissions", Total: len(questions)})
	refused := make([][]denied, len(questions))
	c := p.Applier.client
	err := forEachIndex(ctx, len(questions), cap(c.slots), func(ctx context.Context, i int) error {
		q := questions[i]
		no, err := c.reviewAccess(ctx, q)
		if err != nil || no == nil {
			return err
		}
		if q.verb == "list" || q.verb == "create" { // RBAC cannot grant these rights for single names
			refused[i] = []denied{*no}
			return nil
		}
		for _, one := range whole[q] {
			no, err := c.reviewAccess(ctx, one)
			if err != nil {
				return err
			}
			if no != nil {
				refused[i] = append(refused[i], *no)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	by := map[string][]report.Finding{}
	for _, list := range refused {
		if len(list) > 0 {
			f := missingPermissionFinding(list)
			by[f.CRD] = append(by[f.CRD], f)
		}
	}
	escalations, err := p.Applier.findEscalations(ctx, p.Plan)
	if err != nil {
		return nil, err
	}
	for _, f := range escalations {
		by[f.CRD] = append(by[f.CRD], f)
	}
	var out []report.CRD
	for name, findings := range by {
		out = append(out, report.CRD{Name: name, Verdict: report.Unsafe, Findings: findings})
	}
	slices.SortFunc(out, func(a, b report.CRD) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// accessesNeeded lists the permissions that an apply of the plan needs, for the inventory as well.
//
// An apply of a new object needs create as well as patch (k8s.io/apiserver/pkg/endpoints/handlers/patch.go). The result is sorted,
// and each permission is in it once.
func (p *Plan) accessesNeeded() []access {
	var out []access
	for it := range eachOf(p.Items) {
		a := access{group: it.Group, resource: it.mapping.resource, namespace: it.Namespace, name: it.Name}
		verbs := []string{"get"}
		switch it.Action {
		case Create:
			verbs = append(verbs, "create", "patch")
		case Update:
			verbs = append(verbs, "patch")
		case Replace:
			verbs = append(verbs, "create", "patch", "delete")
		case Unchanged, Delete, Keep, Forget:
		}
		for _, v := range verbs {
			a.verb = v
			out = append(out, a)
		}
	}
	for r := range eachOf(p.Removals) {
		if r.Action != Delete && r.unread == nil {
			continue
		}
		out = append(out, access{"get", r.Group, r.Resource, r.Namespace, r.Name}, access{"delete", r.Group, r.Resource, r.Namespace, r.Name})
		if r.isCRD() && !p.request.AllowDeleteCRDs {
			// Before a CRD is deleted, the apply checks whether it has stored objects.
			plural, group, _ := strings.Cut(r.Name, ".")
			out = append(out, access{verb: "list", group: group, resource: plural})
		}
	}
	if v := p.inventory; v != nil && p.hasPendingWrites(p.resultingInventory(Applied)) {
		verb := "update"
		if v.resourceVersion == "" {
			verb = "create"
		}
		out = append(out, access{verb, "", "configmaps", v.Namespace, inventoryPrefix + v.App})
		for _, verb := range []string{"get", "create", "update", "delete"} {
			out = append(out, access{verb, "coordination.k8s.io", "leases", v.Namespace, InventoryName(v.App)})
		}
	}
	slices.SortFunc(out, access.compareTo)
	return slices.Compact(out)
}

// denied is a permission that the user does not have.
type denied struct {
	access
	reason string
}

// reviewAccess asks about one permission; nil means that the user has it.
func (c *client) reviewAccess(ctx context.Context, a access) (*denied, error) {
	ask := authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: a.verb, Group: a.group, Resource: a.resource, Namespace: a.namespace, Name: a.name,
		},
	}}
	ask.APIVersion, ask.Kind = "authorization.k8s.io/v1", "SelfSubjectAccessReview"
	// A POST of this kind stores nothing.
	r := request{verb: http.MethodPost, path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", apart: true}
	var answer authorizationv1.SelfSubjectAccessReview
	if err := sendJSON(ctx, c.sendWithRetries, r, ask, &answer); err != nil {
		return nil, fmt.Errorf("asking whether %s of %s is allowed: %w", a.verb, a.resourceName(), err)
	}
	if answer.Status.Allowed {
		return nil, nil
	}
	return &denied{a, answer.Status.Reason}, nil
}

// missingPermissionFinding reports missing permissions for one resource in one namespace.
func missingPermissionFinding(list []denied) report.Finding {
	first := list[0]
	var names []string
	for _, d := range list {
		if d.name != "" {
			names = append(names, d.name)
		}
	}
	what := strings.TrimSpace(first.resourceName() + " " + brief.FirstNames(names, 5))
	return report.Finding{
		Rule: crdcheck.RulePermission, Outcome: report.Violation, Severity: report.Fail, CRD: first.resourceName(),
		Message: fmt.Sprintf("this user may not %s %s %s", first.verb, what, first.scopePhrase()),
		After:   first.reason,
	}
}

// findEscalations sends RBAC objects as dry runs.
func (a *Applier) findEscalations(ctx context.Context, p *Plan) ([]report.Finding, error) {
	items := selectFrom(p.Items, func(it *Item) bool { return it.Group == "rbac.authorization.k8s.io" && it.Action != Unchanged })
	found := make([]*report.Finding, len(items))
	err := forEachIndex(ctx, len(items), cap(a.client.slots), func(ctx context.Context, i int) error {
		it := items[i]
		_, err := a.client.applyPatch(ctx, it.mapping.objectPath(&it.Object), it.json, true, p.request.Force)
		if !apierrors.IsForbidden(err) || apierrors.HasStatusCause(err, "NamespaceTerminating") {
			return ctx.Err() // The apply itself reports other errors. For instance, the namespace may not exist yet.
		}
		s := access{group: it.Group, resource: it.mapping.resource}
		f := report.Finding{
			Rule: crdcheck.RulePermission, Outcome: report.Violation, Severity: report.Fail, CRD: s.resourceName(),
			Message: "this user may not apply " + it.String(), After: err.Error(),
		}
		if it.File != "" {
			f.Position = &report.Position{File: it.File, Line: it.Line}
		}
		found[i] = &f
		return nil
	})
	var out []report.Finding
	for _, f := range found {
		if f != nil {
			out = append(out, *f)
		}
	}
	return out, err
}
