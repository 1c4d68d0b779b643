// Command mutants shows that the tests can fail. It seeds the faults of a table into the code, one at a time, and runs the tests
// that must catch each. It does not touch the working tree: the go command sees a changed copy of one file through its overlay.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"time"
)

// testLimit bounds the time for the tests of one package; a fault that makes them hang is caught.
const testLimit = 3 * time.Minute

// main exits with 1 if a fault survives, if a row of the table does not fit the code, or if the tests
// fail without any fault.
func main() {
	run := flag.String("run", "", "try only the faults whose function, file or text matches this `regexp`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	out := bufio.NewWriter(os.Stdout)
	caught, err := readCatchers(catchersFile)
	if err == nil {
		err = tryFaults(ctx, &runner{code: newModule("."), limit: testLimit, out: out, catchers: caught}, *run)
		err = errors.Join(err, caught.writeTo(catchersFile, allFaults()), out.Flush())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1) //nolint:forbidigo // a command of its own, outside cmd
	}
}

// tryFaults tries the faults that a regular expression chooses; an empty one chooses all.
func tryFaults(ctx context.Context, r *runner, pattern string) error {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	return r.runAll(ctx, chooseFaults(allFaults(), re, r.code))
}

// allFaults is the table, in the order of the numbers.
// Numbers are given here, so that rows can be moved and added anywhere.
func allFaults() []fault {
	var out []fault
	for _, part := range [][]fault{schemaFaults, translateFaults, proofFaults, logicFaults, regularFaults, ruleFaults, upstreamFaults, compatFaults, reportFaults, applyFaults, resolveFaults, policyFaults} {
		out = append(out, part...)
	}
	for i := range out {
		out[i].number = i + 1
	}
	return out
}

// chooseFaults returns the faults that a pattern fits: by the function, its file or what is broken. A row
// whose function is gone is matched by the rest, and fails later.
func chooseFaults(all []fault, re *regexp.Regexp, code *module) []fault {
	var out []fault
	for _, f := range all {
		file := ""
		if d, err := code.findDeclaration(f.in); err == nil {
			file = d.file
		}
		if re.MatchString(f.in) || re.MatchString(file) || re.MatchString(f.broken) {
			out = append(out, f)
		}
	}
	return out
}
