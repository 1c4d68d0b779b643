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
)

// Conflict is a field that another manager owns and that would change.
type Conflict struct {
	ID ID `json:"object"`
	// File and Line are where the object stands in the source.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Field is its path, such as .spec.replicas. Owner is the manager, as the server names it.
	Field string `json:"field"`
	Owner string `json:"owner"`
	// Update is true where the owner has set the field by an update, as editors and most controllers do, and false where it
	// applies, and so has the field in a manifest of its own.
	Update bool `json:"update,omitempty"`
}

// ConflictError tells of all conflicts of an apply. Where it is returned nothing was changed, unless somebody took a field
// while the apply ran, or the object is of a version that only comes with the source and could not be tried in another one; then
// definitions and settings may have been applied. They stay, and the same request goes on.
type ConflictError struct{ Conflicts []Conflict }

// Error implements error: the first few conflicts.
func (e *ConflictError) Error() string {
	const most = 3
	var parts []string
	for _, c := range e.Conflicts[:min(len(e.Conflicts), most)] {
		parts = append(parts, fmt.Sprintf("%s: %s is owned by %s", c.ID, c.Field, c.Owner))
	}
	more := ""
	if n := len(e.Conflicts) - most; n > 0 {
		more = fmt.Sprintf("; and %d more", n)
	}
	return fmt.Sprintf("%d fields are owned by others: %s%s; --force-conflicts takes them over", len(e.Conflicts), strings.Join(parts, "; "), more)
}

// ownerPattern finds the manager in the server's words: conflict with "kubectl" using apps/v1
// (apimachinery/pkg/util/managedfields/internal/conflict.go).
var ownerPattern = regexp.MustCompile(`\Aconflict with ("(?:[^"\\]|\\.)*")`)

// conflictsOf gives the conflicts that the server's answer tells of; nil where it is about something else.
func conflictsOf(it *Item, err error) []Conflict {
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var out []Conflict
	for _, c := range status.Status().Details.Causes {
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

// tryIn tries an item by a dry run in another version: that in which its kind is served until its CRD is written, or one in which
// owners are noted. The manifest is cut down to what the live object has: only that somebody can own, and the rest that version may
// not know. Conflicts are told as they are for the item; what else is wrong in that version says nothing about the other.
func (a *Applier) tryIn(ctx context.Context, p *Plan, it *Item, version string) error {
	if version == "" || p.request.Force {
		return nil
	}
	if converts, err := a.converts(ctx, p, it); converts || err != nil {
		return err // a webhook may give the fields other names
	}
	path := listPath(it.Group, version, it.mapping.resource, it.Namespace) + "/" + it.Name
	live, err := a.client.get(ctx, path)
	if err != nil || live == nil {
		return err
	}
	want, err := it.content()
	if err != nil {
		return err
	}
	want = common(want, live)
	want["apiVersion"] = it.Group + "/" + version
	body, err := json.Marshal(want)
	if err != nil {
		return err
	}
	if _, err = a.client.patch(ctx, path, body, true, false); conflictsOf(it, err) == nil && !refused(err) {
		return nil
	}
	return err
}

// common cuts an object down to the fields that another one has; lists stay whole.
func common(want, live map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range want {
		l, there := live[k]
		if !there {
			continue
		}
		if w, ok := v.(map[string]any); ok {
			if m, ok := l.(map[string]any); ok {
				v = common(w, m)
			}
		}
		out[k] = v
	}
	return out
}

// checkOwners refuses to take objects from other apps.
func (a *Applier) checkOwners(p *Plan) error {
	if p.request.Force {
		return nil
	}
	var errs []error
	for i := range p.Items {
		it := &p.Items[i]
		if it.live == nil || it.live.owner == "" || p.inventory != nil && it.live.owner == p.inventory.owner() {
			continue
		}
		if (p.inventory == nil || it.Reason != "") && it.Action == Unchanged {
			continue
		}
		if slices.Contains(p.request.TakeOver, it.live.owner) {
			continue
		}
		errs = append(errs, &Error{
			File: it.File, Line: it.Line, ID: it.ID,
			Err: fmt.Errorf("%w %s; --take-over %s takes what is that app's, --force-conflicts takes it from whomever", ErrOtherApp, it.live.owner, it.live.owner),
		})
	}
	return errors.Join(errs...)
}
