package apply

import (
	"fmt"
	"io"

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

// showEvent takes what an applier tells.
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
	if t.bar == nil {
		t.bar = t.Progress(t.phase, int64(ev.Total))
	}
	if ev.Did == "" && ev.Note != "" {
		t.bar.Remark(ev.Note)
	}
	t.bar.SetOf(int64(ev.Done), int64(ev.Total))
}

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
