package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sluice.dev/internal/cli/command"
)

// full takes some bytes, as a disk does that is nearly full, or a pipe whose reader goes.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if len(p) > f.left {
		return f.left, errors.New("no space left")
	}
	f.left -= len(p)
	return len(p), nil
}

func TestAnInterruptEndsWhatDoesNotLookAtIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	forever := make(chan struct{})
	t.Cleanup(func() { close(forever) })
	var errs bytes.Buffer
	code := endsSoonAfter(ctx, 0, &errs, func() int {
		cancel()
		<-forever
		return ExitOK
	})
	if code != ExitFailed || errs.String() != "sluice: interrupted\n" {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
	if code := endsSoonAfter(t.Context(), 0, &errs, func() int { return ExitFindings }); code != ExitFindings {
		t.Errorf("exit code %d of a command that ends", code)
	}
}

func TestResultThatCannotBeWrittenIsNoSuccess(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		left int
	}{
		"safe":             {[]string{"check", upgrade + "v1.yaml", upgrade + "v1.yaml"}, 0},
		"unsafe":           {[]string{"check", upgrade + "v1.yaml", upgrade + "v2-unsafe.yaml"}, 0},
		"cut short":        {[]string{"check", "-o", "json", upgrade + "v1.yaml", upgrade + "v2-unsafe.yaml"}, 100},
		"rules":            {[]string{"rules"}, 0},
		"explain":          {[]string{"explain", "enum-value-removed"}, 0},
		"version":          {[]string{"version"}, 0},
		"completion":       {[]string{"completion", "bash"}, 0},
		"help":             {[]string{"--help"}, 0},
		"help of commands": {[]string{"check", "--help"}, 10},
	} {
		var errs bytes.Buffer
		e := &command.Env{In: strings.NewReader(""), Out: &full{test.left}, Err: &errs, Now: time.Now, Getenv: func(string) string { return "" }}
		if code := runCommand(t.Context(), test.args, e); code != ExitFailed || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%s: exit code %d, %q", name, code, errs.String())
		}
	}
}
