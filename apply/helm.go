package apply

import (
	"fmt"
	"slices"

	"sluice.dev/internal/brief"
)

// helm template prints hooks among the other objects, and an apply has no moment before or after an upgrade to run them. Hooks that
// belong to an install or an upgrade are applied like other objects, with a note. The others are left out: a Job for pre-delete would
// remove what the source has just installed.

// leaveOut removes the objects that are not to be applied from a source. It names each of them once.
func leaveOut(source []Object) (objects []Object, left []Hook) {
	said := map[string]bool{}
	for _, o := range source {
		if !isApart(o.hook) {
			objects = append(objects, o)
			continue
		}
		h := Hook{o.ID, o.hook}
		if text := h.String(); !said[text] {
			said[text] = true
			left = append(left, h)
		}
	}
	return objects, left
}

// apart lists the events that are no part of an install or an upgrade. A hook for these events alone must not run because somebody
// applies a source: a Job for pre-delete removes the installation. test-success and test-failure are older names of test.
var apart = []string{"test", "test-success", "test-failure", "pre-delete", "post-delete", "pre-rollback", "post-rollback"}

// isApart reports whether the apply leaves an object out.
func isApart(events []string) bool {
	return len(events) > 0 && !slices.ContainsFunc(events, func(e string) bool { return !slices.Contains(apart, e) })
}

// Notes has sentences for people about objects of the source that Sluice treats differently than their author may expect; nil for
// none. The same source gives the same notes.
func (p *Plan) Notes() []string {
	var out []string
	if n := len(p.LeftOut); n > 0 {
		out = append(out, fmt.Sprintf("left out, because Helm runs it neither at an install nor at an upgrade: %s", hookNames(p.LeftOut)))
	}
	var hooks []Hook
	for _, it := range selectFrom(p.Items, func(it *Item) bool { return len(it.hook) > 0 }) {
		hooks = append(hooks, Hook{it.ID, it.hook})
	}
	if len(hooks) > 0 {
		out = append(out, fmt.Sprintf("applied like all the rest, not before or after it and not again at each upgrade, although it is a hook of Helm: %s; "+
			"helm template --no-hooks leaves it out", hookNames(hooks)))
	}
	for _, note := range []string{p.inventory.incompleteNote(), p.sparedNote(), p.foreignNote(), p.UnownedNote()} {
		if note != "" {
			out = append(out, note)
		}
	}
	return append(append(out, p.notDone...), p.sharedNotes()...)
}

// hookNames names the first few.
func hookNames(list []Hook) string { return brief.First(list, 5, ", ", Hook.String) }
