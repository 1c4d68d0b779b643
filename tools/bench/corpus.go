package main

// Are the verdicts right, and what does a comparison cost? The corpus has real upgrades of CRDs, each with a
// label that says what it is expected to be.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/compat"
	"sluice.dev/internal/input"
	"sluice.dev/report"
)

// measureCorpus compares the real upgrades: their verdicts, by their labels, and the processor time of the comparison alone.
// The comparisons run one after the other in this process, after a garbage collection each, so that the times are
// those of the comparison and not of reading YAML.
func measureCorpus(ctx context.Context, b bench) error {
	f, err := os.Open(filepath.Join(b.corpus, "pairs.tsv"))
	if err != nil {
		return fmt.Errorf("SLUICE_CORPUS names no folder with pairs.tsv: the real upgrades are left out: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	verdicts := map[string]map[report.Verdict]int{}
	var took []time.Duration
	undecided := 0
	lines := bufio.NewScanner(f)
	lines.Scan() // the head
	for lines.Scan() {
		columns := strings.Split(lines.Text(), "\t")
		if len(columns) < 6 {
			return fmt.Errorf("pairs.tsv: a line of %d columns, want 6", len(columns))
		}
		r, d, err := timeOfCheck(ctx, filepath.Join(b.corpus, columns[1]), filepath.Join(b.corpus, columns[2]))
		if err != nil {
			return fmt.Errorf("%s: %w", columns[0], err)
		}
		took = append(took, d)
		label := columns[5]
		if verdicts[label] == nil {
			verdicts[label] = map[report.Verdict]int{}
		}
		verdicts[label][schemaVerdict(r)]++
		for _, f := range r.Findings {
			if f.Outcome == report.Undecided {
				undecided++
			}
		}
	}
	if err := errors.Join(lines.Err(), ctx.Err()); err != nil || len(took) == 0 {
		return errors.Join(err, errors.New("no upgrade was read"))
	}
	rows := [][]string{{"label", "safe", "unsafe", "undecided"}}
	for _, label := range slices.Sorted(maps.Keys(verdicts)) {
		v := verdicts[label]
		rows = append(rows, []string{label, fmt.Sprint(v[report.Safe]), fmt.Sprint(v[report.Unsafe]), fmt.Sprint(v[report.IsUndecided])})
	}
	printTable(rows...)
	fmt.Printf("%d undecided findings in all. A verdict here counts what the labels speak of: schema and storage.\n\n", undecided)
	printTable([]string{fmt.Sprintf("%d comparisons without decoding", len(took)), "p50", "p90", "p99", "max"},
		[]string{"CPU", millis(quantile(took, 0.5)), millis(quantile(took, 0.9)), millis(quantile(took, 0.99)), millis(quantile(took, 1))})
	return nil
}

// timeOfCheck compares two files, and tells the processor time of the comparison.
func timeOfCheck(ctx context.Context, before, after string) (report.CRD, time.Duration, error) {
	old, err1 := readCRD(ctx, before)
	next, err2 := readCRD(ctx, after)
	if err := errors.Join(err1, err2); err != nil {
		return report.CRD{}, 0, err
	}
	// Garbage of reading the files is not to be collected during the comparison.
	runtime.GC()
	start := cpuOf(syscall.RUSAGE_SELF)
	r, err := compat.Check(ctx, old, next, compat.Options{})
	return r, cpuOf(syscall.RUSAGE_SELF) - start, err
}

// readCRD returns the first CRD of a file.
func readCRD(ctx context.Context, file string) (*apiextensionsv1.CustomResourceDefinition, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	set, err := input.Decode(ctx, file, data)
	if err != nil {
		return nil, err
	}
	if len(set.Documents) == 0 {
		return nil, fmt.Errorf("%s: no CRD", file)
	}
	return set.Documents[0].CRD, nil
}

// schemaVerdict is the verdict on schema and storage alone, as the labels of the corpus.
// The labels were given by reading the schemas. They know nothing of printer columns, readers or deprecations, so
// findings about these do not count.
func schemaVerdict(r report.CRD) report.Verdict {
	v := report.Safe
	for _, f := range r.Findings {
		switch {
		case f.Outcome == report.Undecided:
			v = report.IsUndecided
		case f.Outcome == report.Violation && f.Severity == report.Fail && harmsObjects(f.Level):
			return report.Unsafe
		}
	}
	return v
}

// harmsObjects lists every level, so that the linter asks where a new one belongs.
func harmsObjects(l report.Level) bool {
	switch l {
	case report.DataLost, report.ObjectsStuck, report.ObjectsRatcheted, report.WritersRefused, report.RefusedByAPIServer:
		return true
	case report.ClientsBroken, report.MeaningChanged, report.ReadersSurprised, report.Cosmetic:
	}
	return false
}
