package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/internal/brief"
)

// Which fields and objects of the source belong to somebody else? The API server answers for fields: a dry run of an apply lists
// those that another field manager owns. Sluice itself answers for objects, by their mark of an app. For example, .spec.replicas of a
// Deployment that an autoscaler has changed is a conflict, and a ConfigMap with the mark of app b is refused to app a.

// Conflict is a field that the apply would change and another manager owns.
type Conflict struct {
	ID ID `json:"object"`
	// File and Line are the position of the object in the source.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Field is the path of the field, such as .spec.replicas. Owner is the manager, as the server names it.
	Field string `json:"field"`
	Owner string `json:"owner"`
	// Update is true if the owner has set the field by an update, as editors and most controllers do. It is false if the owner
	// applies: then the field is in a manifest of its own.
	Update bool `json:"update,omitempty"`
}

// ConflictError lists all conflicts of an apply. Usually the apply has changed nothing. There are two exceptions: somebody took a
// field while the apply ran; or a version of the object comes with the source, and no other version could be tried. Then CRDs and
// settings may have been applied already. They stay, and the same request resumes the apply.
type ConflictError struct{ Conflicts []Conflict }

// Error implements error: the first few conflicts.
func (e *ConflictError) Error() string {
	parts := brief.First(e.Conflicts, 3, "; ", func(c Conflict) string { return fmt.Sprintf("%s: %s is owned by %s", c.ID, c.Field, c.Owner) })
	return fmt.Sprintf("%s in conflict with other owners: %s; --force-conflicts takes over", brief.Count(len(e.Conflicts), "field"), parts)
}

// ownerPattern finds the manager in the server's message: conflict with "kubectl" using apps/v1
// (apimachinery/pkg/util/managedfields/internal/conflict.go).
var ownerPattern = regexp.MustCompile(`\Aconflict with ("(?:[^"\\]|\\.)*")`)

// conflictsOf returns the conflicts that the server's answer lists; nil if the answer is about something else.
//
// The message of a cause has the manager in quotes, and " using VERSION" if the manager updates. A message of another form is taken
// as a whole for the name of the owner.
func conflictsOf(it *Item, err error) []Conflict {
	if !apierrors.IsConflict(err) {
		return nil
	}
	var out []Conflict
	for _, c := range statusCausesOf(err) {
		if c.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		owner, update := c.Message, false
		if m := ownerPattern.FindStringSubmatch(c.Message); m != nil {
			if name, err := strconv.Unquote(m[1]); err == nil {
				rest := strings.TrimPrefix(c.Message, m[0])
				owner, update = name+rest, strings.Contains(rest, " using ")
			}
		}
		out = append(out, Conflict{ID: it.ID, File: it.File, Line: it.Line, Field: c.Field, Owner: owner, Update: update})
	}
	return out
}

// tryIn sends a dry run of an item in another version: the version in which the server serves the kind until its CRD is written, or
// a version that field owners are recorded in. tryIn first reduces the manifest to the fields of the live object. Only these have
// owners, and that version may not know the others. Conflicts count for the item. Other errors of that version do not.
func (a *Applier) tryIn(ctx context.Context, p *Plan, it *Item, version string) error {
	if version == "" || p.request.Force {
		return nil
	}
	if converts, err := a.convertsByWebhook(ctx, p, it); converts || err != nil {
		return err // a conversion webhook may rename the fields
	}
	path := listPath(it.Group, version, it.mapping.resource, it.Namespace) + "/" + it.Name
	live, err := a.client.fetchObject(ctx, path)
	if err != nil || live == nil {
		return err
	}
	want, err := it.decodeContent()
	if err != nil {
		return err
	}
	want = fieldsPresentIn(want, live)
	want["apiVersion"] = it.Group + "/" + version
	body, err := json.Marshal(want)
	if err != nil {
		return err
	}
	if _, err = a.client.applyPatch(ctx, path, body, true, false); conflictsOf(it, err) == nil && !isAlwaysRefused(err) {
		return nil
	}
	return err
}

// fieldsPresentIn reduces an object to the fields that another object has. Lists stay whole.
func fieldsPresentIn(want, live map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range want {
		l, there := live[k]
		if !there {
			continue
		}
		if w, ok := v.(map[string]any); ok {
			if m, ok := l.(map[string]any); ok {
				v = fieldsPresentIn(w, m)
			}
		}
		out[k] = v
	}
	return out
}

// checkOwners refuses to take objects from other apps.
func (a *Applier) checkOwners(p *Plan) error {
	var errs []error
	for i := range p.Items {
		errs = append(errs, a.checkOwner(p, &p.Items[i]))
	}
	return errors.Join(errs...)
}

// checkOwner refuses to take an object from another app.
func (a *Applier) checkOwner(p *Plan, it *Item) error {
	switch {
	case p.request.Force, it.now.live == nil, it.now.live.owner == "", p.inventory != nil && it.now.live.owner == p.inventory.ownerMark(),
		(p.inventory == nil || it.Reason != "") && it.Action == Unchanged, slices.Contains(p.request.TakeOver, it.now.live.owner):
		return nil
	}
	own := ""
	if p.inventory == nil {
		namespace, name, _ := strings.Cut(it.now.live.owner, "/")
		own = fmt.Sprintf("--app %s -n %s if this is the source of that app, ", name, namespace)
	}
	return &Error{
		File: it.File, Line: it.Line, ID: it.ID,
		Err: fmt.Errorf("%w %s; %s--take-over %s takes what is that app's, --force-conflicts takes it from whomever", ErrOtherApp, it.now.live.owner, own, it.now.live.owner),
	}
}

// ErrOtherApp means that an object belongs to another app.
var ErrOtherApp = errors.New("belongs to the app")
