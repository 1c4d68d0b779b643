package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// runner tries faults in a module.
type runner struct {
	code *module
	// limit bounds the time for the tests of one package.
	limit time.Duration
	out   *bufio.Writer
	// catchers has the test that caught each fault the last time.
	catchers catchers
}

// errTests is for tests that fail without a test that failed.
var errTests = errors.New("the go command failed")

// errSurvived is the error for faults that no test catches.
var errSurvived = errors.New("faults that no test catches")

// runAll tries the faults, one at a time, and prints a line for each. The error wraps errSurvived if one was not caught, and errTable
// if one does not fit the code. In both cases it still tries the others.
// A line is printed as soon as its fault was tried, because the whole table takes long.
func (r *runner) runAll(ctx context.Context, chosen []fault) error {
	if len(chosen) == 0 {
		return errors.New("no fault matches")
	}
	g, err := loadGraph(ctx, r.code.dir)
	if err != nil {
		return err
	}
	if err := r.checkBaseline(ctx, g, chosen); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // nothing to be done about it
	var errs []error
	caught, start := 0, time.Now() //nolint:forbidigo // a command that tells how long it takes
	for i := range chosen {
		f := &chosen[i]
		began := time.Now() //nolint:forbidigo // as above
		o, err := r.runFault(ctx, g, f, tmp)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case err != nil:
			errs = append(errs, err)
			o = outcome{by: "ERROR: does not fit the code"}
		case o.caught:
			caught++
		default:
			o.by = "SURVIVED"
		}
		r.printRow(f, o, time.Since(began))
	}
	fmt.Fprintf(r.out, "\n%d of %d caught, in %s\n", caught, len(chosen), time.Since(start).Round(time.Second))
	if n := len(chosen) - caught - len(errs); n > 0 {
		errs = append(errs, fmt.Errorf("%d %w", n, errSurvived))
	}
	return errors.Join(errs...)
}

// checkBaseline checks that the tests pass without any fault; otherwise the run would show nothing.
// Rows with the same tests against an API server share one run of the go command.
func (r *runner) checkBaseline(ctx context.Context, g graph, chosen []fault) error {
	whole, single := map[string][]string{}, map[string][]string{} // packages by the pattern of their tests with a cluster; tests by package
	for i := range chosen {
		f := &chosen[i]
		if c, ok := r.catchers[f.key()]; ok {
			single[c.pkg] = append(single[c.pkg], c.test)
			continue
		}
		for _, pkg := range g.testsFor(f) {
			if !slices.Contains(whole[f.e2e], pkg) {
				whole[f.e2e] = append(whole[f.e2e], pkg)
			}
		}
	}
	for pattern, packages := range whole {
		if err := r.runWithoutFault(ctx, (&fault{e2e: pattern}).selectTests(), packages...); err != nil {
			return err
		}
	}
	for pkg, tests := range single {
		if err := r.runWithoutFault(ctx, []string{"-run", "^(" + strings.Join(slices.Compact(slices.Sorted(slices.Values(tests))), "|") + ")$"}, pkg); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) runWithoutFault(ctx context.Context, which []string, packages ...string) error {
	args := append([]string{"test", "-vet=off", "-timeout", "2h"}, which...)
	for _, pkg := range packages {
		args = append(args, "./"+pkg)
	}
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // the packages and patterns of the table
	cmd.Dir = r.code.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the tests do not pass without any fault: %w\n%s", err, out)
	}
	return nil
}

// printRow prints a row: number, seconds, what caught the fault, its function, and what it breaks.
func (r *runner) printRow(f *fault, o outcome, took time.Duration) {
	fmt.Fprintf(r.out, "%3d  %5.1f s  %-34s  %s\n", f.number, took.Seconds(), f.in, f.broken)
	fmt.Fprintf(r.out, "              %s\n", o.by)
	r.out.Flush() //nolint:errcheck // the last Flush tells
}

// outcome is the result for a fault.
type outcome struct {
	caught bool
	by     string // the package and the first failing test
	test   string // the latter without the name of a subtest; empty if the tests hang
}

// runFault tries a fault. The error wraps errTable where the fault does not fit the code.
// A fault that does not compile is an error of the table, because the compiler would catch it without any
// test. The tests of further packages are run only if the first ones pass.
func (r *runner) runFault(ctx context.Context, g graph, f *fault, tmp string) (outcome, error) {
	file, text, err := f.applyTo(r.code)
	if err != nil {
		return outcome{}, err
	}
	overlay, err := r.writeOverlay(file, text, tmp)
	if err != nil {
		return outcome{}, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "./"+f.packageFolder()) //nolint:gosec // of the table
	build.Dir = r.code.dir
	if msg, err := build.CombinedOutput(); err != nil {
		return outcome{}, fmt.Errorf("%w: fault %d (%s) does not compile: %w\n%s", errTable, f.number, f.broken, err, indentLines(strings.TrimSpace(string(msg))))
	}
	if c, ok := r.catchers[f.key()]; ok {
		// A test that is gone, or does not catch the fault any more, is no answer: all tests are asked.
		if o, err := r.runTests(ctx, []string{"-run", "^" + c.test + "$"}, c.pkg, overlay); err == nil && o.caught || ctx.Err() != nil {
			return o, ctx.Err()
		}
		delete(r.catchers, f.key())
	}
	for _, pkg := range g.testsFor(f) {
		o, err := r.runTests(ctx, f.selectTests(), pkg, overlay)
		if err != nil {
			return outcome{}, fmt.Errorf("%w: fault %d (%s): %w", errTable, f.number, f.broken, err)
		}
		if o.caught {
			if o.test != "" && f.e2e == "" {
				r.catchers[f.key()] = catcher{pkg, o.test}
			}
			return o, nil
		}
		if ctx.Err() != nil {
			return o, ctx.Err()
		}
	}
	return outcome{}, nil
}

// writeOverlay writes the changed file and the overlay that names it, and returns the path of the latter.
func (r *runner) writeOverlay(file string, text []byte, tmp string) (string, error) {
	root, err := filepath.Abs(r.code.dir)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(tmp, path.Base(file))
	if err := os.WriteFile(changed, text, 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, filepath.FromSlash(file)): changed}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(tmp, "overlay.json")
	return name, os.WriteFile(name, list, 0o600)
}

// event is one line of go test -json (go doc test2json).
type event struct {
	Action, Test, Output, FailedBuild string
}

// runTests runs the tests of one package up to the first failure. An error means that they do not compile.
// -failfast ends a package at its first failure, which is enough to know. Tests that hang are caught: a
// fault in a loop often shows in that way.
func (r *runner) runTests(ctx context.Context, which []string, pkg, overlay string) (outcome, error) {
	// go test itself ends what goes on for a minute longer than its timeout.
	ctx, cancel := context.WithTimeout(ctx, r.limit+5*time.Minute)
	defer cancel()
	args := append([]string{"test", "-json", "-vet=off", "-failfast", "-overlay", overlay, "-timeout", r.limit.String()}, which...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...) //nolint:gosec // of the table
	cmd.Dir = r.code.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return outcome{}, err
	}
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	o, failed := readEvents(stdout, pkg)
	err = cmd.Wait()
	switch {
	case failed != "" || err != nil && !o.caught && ctx.Err() == nil:
		return outcome{}, fmt.Errorf("the tests of %s cannot be run: %w\n%s", pkg, cmp.Or(err, errTests), indentLines(failed+stderr.String()))
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return outcome{caught: true, by: pkg + ": hangs"}, nil
	}
	return o, nil
}

// readEvents reads the output of go test -json: the first failed test, and the compiler's message if the tests do not compile.
// The process is not waited for here, so all of its output has to be read.
func readEvents(stdout io.Reader, pkg string) (o outcome, failed string) {
	hangs := false
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil {
			switch e.Action {
			case "output":
				hangs = hangs || strings.HasPrefix(e.Output, "panic: test timed out after")
			case "build-output":
				failed += e.Output
			case "fail":
				switch {
				case e.FailedBuild != "":
					return o, failed + "does not compile\n" + drainRest(lines)
				case hangs:
					o = outcome{caught: true, by: pkg + ": hangs"}
				case !o.caught:
					test, _, _ := strings.Cut(e.Test, "/")
					o = outcome{caught: true, by: strings.TrimSpace(pkg + " " + e.Test), test: test}
				}
			}
		}
		if err != nil {
			return o, ""
		}
	}
}

// drainRest reads the rest, so that the writer is not held up.
func drainRest(r io.Reader) string {
	_, err := io.Copy(io.Discard, r)
	if err != nil {
		return err.Error()
	}
	return ""
}
