package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/compat"
	"sluice.dev/internal/input"
	"sluice.dev/report"
)

var errNoCorpus = errors.New("SLUICE_CORPUS names no folder with pairs.tsv: the real upgrades are left out")

// pair is one real upgrade.
type pair struct {
	id, label string
	old, new  *apiextensionsv1.CustomResourceDefinition
}

// pairs reads the corpus one pair at a time.
func pairs(ctx context.Context, dir string, each func(pair) error) error {
	if dir == "" {
		return errNoCorpus
	}
	f, err := os.Open(filepath.Join(dir, "pairs.tsv"))
	if err != nil {
		return fmt.Errorf("%w: %w", errNoCorpus, err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	lines := bufio.NewScanner(f)
	lines.Scan() // the head
	for lines.Scan() {
		col := strings.Split(lines.Text(), "\t")
		if len(col) < 6 {
			return fmt.Errorf("pairs.tsv: a line of %d columns, want 6", len(col))
		}
		p := pair{id: col[0], label: col[5]}
		if p.old, err = readCRD(ctx, filepath.Join(dir, col[1])); err != nil {
			return err
		}
		if p.new, err = readCRD(ctx, filepath.Join(dir, col[2])); err != nil {
			return err
		}
		if err := each(p); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return lines.Err()
}

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

// corpusTruth holds the verdicts against the labels.
func corpusTruth(ctx context.Context, c *config) error {
	verdicts := map[string]map[report.Verdict]int{}
	levels := map[string]map[report.Level]int{}
	reasons := map[string]int{}
	var odd []string
	total := 0
	start := time.Now()
	err := pairs(ctx, c.corpus, func(p pair) error {
		total++
		r, err := compat.Check(ctx, p.old, p.new, compat.Options{})
		if err != nil {
			return fmt.Errorf("%s: %w", p.id, err)
		}
		v := schemaVerdict(r)
		count(verdicts, p.label, v)
		for _, f := range r.Findings {
			if f.Outcome == report.Violation {
				count(levels, p.label, f.Level)
				if f.Witness == nil && witnessed(f) {
					odd = append(odd, p.id+": "+f.Rule+" without a witness")
				}
			}
			if f.Outcome == report.Undecided {
				reasons[f.Rule+": "+f.Reason]++
			}
		}
		if p.label == "safe" && v == report.Unsafe || p.label == "unsafe" && v != report.Unsafe || v == report.IsUndecided {
			odd = append(odd, fmt.Sprintf("%s: label %s, verdict %s%s", p.id, p.label, v, first(r)))
		}
		return nil
	})
	if err != nil {
		return err
	}
	rows := [][]string{{"label", "pairs", "safe", "unsafe", "undecided"}}
	undecided := 0
	for _, label := range slices.Sorted(maps.Keys(verdicts)) {
		m := verdicts[label]
		n := m[report.Safe] + m[report.Unsafe] + m[report.IsUndecided]
		undecided += m[report.IsUndecided]
		rows = append(rows, []string{label, fmt.Sprint(n), fmt.Sprint(m[report.Safe]), fmt.Sprint(m[report.Unsafe]), fmt.Sprint(m[report.IsUndecided])})
	}
	c.table(rows...)
	findings := 0
	for _, n := range reasons {
		findings += n
	}
	fmt.Fprintf(c.out, "undecided: %d of %d pairs (%s; aim 0.10%%), %d findings in all (aim 20)\n", undecided, total, percent(undecided, total), findings)
	fmt.Fprintf(c.out, "The verdict here counts what the labels speak of: schema and storage.\n\n")
	rows = [][]string{{"findings by level", "safe", "undecided", "unsafe"}}
	for _, l := range report.Levels() {
		rows = append(rows, []string{string(l.ID), fmt.Sprint(levels["safe"][l.ID]), fmt.Sprint(levels["undecided"][l.ID]), fmt.Sprint(levels["unsafe"][l.ID])})
	}
	c.table(rows...)
	for _, s := range odd {
		fmt.Fprintln(c.out, "  ", s)
	}
	for _, k := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(c.out, "   undecided %d x %s\n", reasons[k], k)
	}
	fmt.Fprintln(c.out)
	fmt.Fprintf(c.out, "%.0f s in all, decoding included\n", time.Since(start).Seconds())
	return nil
}

func count[A, B comparable](m map[A]map[B]int, a A, b B) {
	if m[a] == nil {
		m[a] = map[B]int{}
	}
	m[a][b]++
}

func first(r report.CRD) string {
	for _, f := range r.Findings {
		if f.Outcome == report.Violation || f.Outcome == report.Undecided {
			return fmt.Sprintf(" (%s %s %s)", f.Rule, f.Path, f.Reason)
		}
	}
	return ""
}

// schemaVerdict is the verdict on schema and storage alone, as the labels of the corpus.
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

func harmsObjects(l report.Level) bool {
	switch l {
	case report.DataLost, report.ObjectsStuck, report.ObjectsRatcheted, report.WritersRefused, report.RefusedByAPIServer:
		return true
	case report.ClientsBroken, report.MeaningChanged, report.ReadersSurprised, report.Cosmetic:
	}
	return false
}

// witnessed reports whether an object can show the finding.
func witnessed(f report.Finding) bool {
	return f.Path != "" && harmsObjects(f.Level) && f.Level != report.RefusedByAPIServer
}
