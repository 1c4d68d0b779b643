package apply

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"sluice.dev/apply"
	"sluice.dev/internal/cli/command"
)

func TestAnApplyDrawsABarOnATerminalAndLinesElsewhere(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		var out, errs bytes.Buffer
		clock := time.Unix(0, 0)
		e := &command.Env{Out: &out, Err: &errs, ErrTTY: terminal, Now: func() time.Time {
			clock = clock.Add(time.Second)
			return clock
		}}
		told := &teller{Env: e, lines: &out}
		told.showEvent(apply.Event{Phase: "applying objects", Total: 2})
		told.showEvent(apply.Event{ID: apply.ID{Kind: "ConfigMap", Namespace: "n", Name: "a"}, Did: "created", Done: 1, Total: 2})
		told.showEvent(apply.Event{Note: "waiting for something", Done: 1, Total: 2})
		told.wipeBar()
		if got := out.String(); got != "created ConfigMap n/a\n" {
			t.Errorf("terminal %v: %q", terminal, got)
		}
		bar, lines := "applying objects [###############...............] 1 of 2", "applying objects: 2\nwaiting for something\n"
		if got := errs.String(); terminal && (!strings.Contains(got, bar) || !strings.HasSuffix(got, "\x1b[K")) || !terminal && got != lines {
			t.Errorf("terminal %v: %q", terminal, got)
		}
		if note := "1 of 2: waiting for something"; terminal && !strings.Contains(errs.String(), note) {
			t.Errorf("no %q in %q", note, errs.String())
		}
		if len(told.written) != 1 {
			t.Errorf("written %v", told.written)
		}
	}
}
