package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"sluice.dev/internal/controller/guard"
	"sluice.dev/report"
	"sluice.dev/tools/schemagen"
)

// hostileRuns are the runs of each kind of change, with the aims. The guard has a smaller budget, and gets no CRDs that are larger than
// etcd takes.
var hostileRuns = []hostileRun{
	{size: 100_000, time: 10 * time.Second},
	{size: 1_000_000, time: 10 * time.Second},
	{size: 2_900_000, time: 10 * time.Second},
	{size: 1_000_000, budget: guard.Budget, time: 5 * time.Second},
}

// hostileRun is a size of CRDs in bytes, the budget of the check, 0 for its default, and how much CPU it may take.
type hostileRun struct {
	size   int
	budget int64
	time   time.Duration
}

const hostileMiB = 1024

// hostile runs sluice check on large changes that are made to cost a lot.
func hostile(ctx context.Context, c *config) error {
	dir, err := os.MkdirTemp("", "hostile-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder for temporary files
	for _, run := range hostileRuns {
		title := "the default budget"
		if run.budget > 0 {
			title = "the budget of the guard"
		}
		fmt.Fprintf(c.out, "\n%.1f MB, %s; aims: %s CPU, %d MiB\n", float64(run.size)/1e6, title, run.time, hostileMiB)
		rows := [][]string{{"what", "elapsed", "CPU", "peak memory", "verdict", "findings", "within the aims"}}
		for _, pair := range schemagen.Hostile(run.size) {
			row, err := run.row(ctx, c.sluice, dir, pair)
			if err != nil {
				return fmt.Errorf("%s: %w", pair.Name, err)
			}
			rows = append(rows, row)
		}
		c.table(rows...)
	}
	return nil
}

// row measures one check as a process.
func (r hostileRun) row(ctx context.Context, sluice, dir string, pair schemagen.HostilePair) ([]string, error) {
	before, after := filepath.Join(dir, "old.yaml"), filepath.Join(dir, "new.yaml")
	for file, text := range map[string]string{before: pair.Old, after: pair.New} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	args := []string{"check", before, after, "-o", "json"}
	if r.budget > 0 {
		args = append(args, fmt.Sprintf("--budget=%d", r.budget))
	}
	cmd := exec.CommandContext(ctx, sluice, args...)
	start := time.Now()
	var exit *exec.ExitError
	out, err := cmd.Output()
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	elapsed := time.Since(start)
	var got report.Report
	if err := json.Unmarshal(out, &got); err != nil || len(got.CRDs) != 1 {
		return nil, fmt.Errorf("exit code %d, and no report of one CRD: %w", cmd.ProcessState.ExitCode(), err)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return nil, errors.New("this system does not tell what a process has used")
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	mib := usage.Maxrss / 1024
	within := "yes"
	if cpu > r.time || mib > hostileMiB {
		within = "no"
	}
	return []string{
		pair.Name, fmt.Sprintf("%.1f s", elapsed.Seconds()), fmt.Sprintf("%.1f s", cpu.Seconds()), fmt.Sprintf("%d MiB", mib),
		string(got.CRDs[0].Verdict), fmt.Sprint(len(got.CRDs[0].Findings)), within,
	}, nil
}
