package apply

import (
	"errors"
	"fmt"
	"strings"

	"sluice.dev/apply"
	"sluice.dev/internal/brief"
)

// onlyConflicts tells whether an error that tells of conflicts tells of nothing else.
func onlyConflicts(err error) bool {
	several, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	return !ok || len(several.Unwrap()) == 1
}

// leftBehind says what an apply that has not ended in order leaves behind.
func leftBehind(written []apply.ID) string {
	const most = 5
	var names []string
	for _, id := range written[:min(len(written), most)] {
		names = append(names, id.String())
	}
	what := "what was done so far"
	if n := len(written) - most; n > 0 {
		what += fmt.Sprintf(" (%s and %d more were written)", strings.Join(names, ", "), n)
	} else if len(names) > 0 {
		what += fmt.Sprintf(" (%s written)", strings.Join(names, ", "))
	}
	return what + " stays; when the cause is mended, the same command goes on"
}

// showConflicts tells each field with its owner.
func (d *deliverer) showConflicts(e *apply.ConflictError) {
	if d.flags.output == "json" {
		return
	}
	for _, c := range e.Conflicts {
		at := ""
		if c.File != "" {
			at = fmt.Sprintf("%s:%d: ", c.File, c.Line)
		}
		fmt.Fprintf(d.told.lines, "conflict: %s%s: %s is owned by %s\n", at, c.ID, c.Field, c.Owner)
	}
	fmt.Fprintf(d.Err, "sluice: %s in conflict with other owners; --force-conflicts takes over\n", brief.Count(len(e.Conflicts), "field"))
}

// showOtherApps tells each object that belongs to another app.
func (d *deliverer) showOtherApps(err error) {
	each := []error{err}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		each = several.Unwrap()
	}
	if d.flags.output != "json" {
		for _, e := range each {
			fmt.Fprintf(d.told.lines, "blocked: %s\n", brief.OneLine(e.Error()))
		}
	}
	fmt.Fprintf(d.Err, "sluice: %s of other apps in the source; nothing was changed; --force-conflicts takes them over\n", brief.Count(len(each), "object"))
}
