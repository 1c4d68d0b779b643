package apply

// How does a run tell what it does? On a terminal a bar shows the phase and the counts, and lines above it say
// what was done. In a log there are only lines. With -o json nothing is told on the way: the document has it all
// in the end. Conflicts and objects of other apps are told here, too.

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"sluice.dev/apply"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
)

// teller tells what happens: on a terminal a bar, elsewhere lines.
type teller struct {
	*command.Env

	// lines takes what was done, one line each.
	lines io.Writer
	// quiet: a document tells all in the end.
	quiet bool
	// written is what has been created or updated so far.
	written []apply.ID
	bar     *command.Progress
	phase   string
}

// printLine prints a line about what was done. The bar is wiped before, and the next event draws it again. Nothing
// is printed if a document tells all in the end.
func (t *teller) printLine(format string, args ...any) {
	t.wipeBar()
	if !t.quiet {
		fmt.Fprintf(t.lines, format+"\n", args...)
	}
}

// printWarnings tells what the API server warns of. A document has it, too.
func (t *teller) printWarnings(list []apply.Warning) {
	for _, w := range list {
		fmt.Fprintln(t.Err, "warning:", brief.OneLine(w.String()))
	}
}

// showEvent takes what an applier tells. An event that begins a phase has its name; one about an object has what
// was done (Did), a remark (Note), or both. It is called by one goroutine at a time.
func (t *teller) showEvent(ev apply.Event) {
	if ev.Phase != "" {
		t.wipeBar()
		t.phase = ev.Phase
		if !t.ErrTTY && !t.quiet {
			fmt.Fprintln(t.Err, phaseLine(ev))
		}
		t.bar = t.Progress(ev.Phase, int64(ev.Total))
	}
	if ev.Did == "created" || ev.Did == "updated" || ev.Did == "replaced" {
		t.written = append(t.written, ev.ID)
	}
	switch {
	case ev.Did != "" && ev.Note != "":
		t.printLine("%s %s: %s", ev.Did, ev.ID, ev.Note)
	case ev.Did != "":
		t.printLine("%s %s", ev.Did, ev.ID)
	case ev.Note != "" && !t.ErrTTY && !t.quiet:
		fmt.Fprintln(t.Err, ev.Note)
	}
	// A line above has wiped it, and the phase goes on.
	if t.bar == nil {
		t.bar = t.Progress(t.phase, int64(ev.Total))
	}
	if ev.Did == "" && ev.Note != "" {
		t.bar.Remark(ev.Note)
	}
	t.bar.SetOf(int64(ev.Done), int64(ev.Total))
}

// phaseLine is the line that begins a phase in a log: its name, and how many objects are still to be done.
func phaseLine(ev apply.Event) string {
	if ev.Total > 0 {
		return fmt.Sprintf("%s: %d", ev.Phase, ev.Total-ev.Done)
	}
	return ev.Phase
}

// wipeBar wipes the bar.
func (t *teller) wipeBar() {
	if t.bar != nil {
		t.bar.Done()
		t.bar = nil
	}
}

// onlyConflicts tells whether an error that tells of conflicts tells of nothing else. Then --force-conflicts would
// help.
func onlyConflicts(err error) bool {
	several, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	return !ok || len(several.Unwrap()) == 1
}

// leftBehind says what an apply that has not ended in order leaves behind. It names up to five objects. The list
// is empty if the first write failed.
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

// showConflicts tells each field with its owner. With -o json the document has them. The place in a file is told
// if the object comes from one.
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

// showOtherApps tells each object that belongs to another app. err may be joined of several errors, one for each
// object.
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
