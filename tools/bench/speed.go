package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"sluice.dev/compat"
)

// speed measures the comparison of the real upgrades without decoding.
func speed(ctx context.Context, c *config) error {
	var took, cpu []time.Duration
	worst := ""
	start := time.Now()
	err := pairs(ctx, c.corpus, func(p pair) error {
		runtime.GC()
		t, before := time.Now(), ownCPU()
		if _, err := compat.Check(ctx, p.old, p.new, compat.Options{}); err != nil {
			return err
		}
		took = append(took, time.Since(t))
		d := ownCPU() - before
		if len(cpu) == 0 || d > slices.Max(cpu) {
			worst = p.id
		}
		cpu = append(cpu, d)
		return nil
	})
	if err != nil {
		return err
	}
	all := time.Since(start)
	var sum time.Duration
	for _, d := range took {
		sum += d
	}
	if len(took) == 0 {
		return errNoCorpus
	}
	slices.Sort(took)
	slices.Sort(cpu)
	rows := [][]string{{"comparison without decoding", "CPU", "wall", "aim for CPU"}}
	for _, q := range []struct {
		name, aim string
		at        float64
	}{{"p50", "0.3 ms", 0.5}, {"p90", "", 0.9}, {"p99", "60 ms", 0.99}, {"max", "400 ms", 1}} {
		rows = append(rows, []string{q.name, millis(quantile(cpu, q.at)), millis(quantile(took, q.at)), q.aim})
	}
	c.table(rows...)
	fmt.Fprintf(c.out, "%d pairs, %.0f in a second of wall time in one thread; most CPU: %s\n", len(took), float64(len(took))/sum.Seconds(), worst)
	fmt.Fprintf(c.out, "%.1f s in all, decoding included; peak memory %d MiB\n", all.Seconds(), peakMemory())
	return nil
}

// process measures the start of the command and whole runs of it.
func process(ctx context.Context, c *config) error {
	program, err := os.Stat(c.sluice)
	if err != nil {
		return fmt.Errorf("%w (make build)", err)
	}
	dir, err := os.MkdirTemp("", "sluice-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	rows := [][]string{{"whole process", "median wall", "median CPU", "peak memory", "aim"}}
	for _, start := range []struct {
		name, aim string
		args      []string
	}{
		{"start: sluice version", "10 ms CPU, 30 MiB", []string{"version"}},
		{"sluice check, the pair of the README", "28 ms CPU (crdify)", []string{"check", "examples/upgrade/v1.yaml", "examples/upgrade/v2-unsafe.yaml"}},
	} {
		row, err := runs(ctx, c.sluice, start.args...)
		if err != nil {
			return err
		}
		rows = append(rows, append([]string{start.name}, append(row, start.aim)...))
	}
	for _, size := range []struct {
		bytes int
		aim   string
	}{{100 << 10, "50 ms"}, {1 << 20, "250 ms"}} {
		for _, change := range []string{"safe change", "unsafe change"} {
			old, next := filepath.Join(dir, "old.yaml"), filepath.Join(dir, "new.yaml")
			if err := os.WriteFile(old, bigCRD(size.bytes, ""), 0o600); err != nil {
				return err
			}
			if err := os.WriteFile(next, bigCRD(size.bytes, change), 0o600); err != nil {
				return err
			}
			row, err := runs(ctx, c.sluice, "check", old, next)
			if err != nil {
				return err
			}
			rows = append(rows, append([]string{fmt.Sprintf("sluice check, a pair of %d KiB, %s", size.bytes>>10, change)}, append(row, size.aim)...))
		}
	}
	c.table(rows...)
	fmt.Fprintf(c.out, "\nThe executable has %.1f MB.\n", float64(program.Size())/1e6)
	return nil
}

// runs is the median wall time, the median CPU time and the peak memory of several runs of the command.
func runs(ctx context.Context, bin string, args ...string) ([]string, error) {
	var wall, cpu []time.Duration
	var memory int64
	for range 11 {
		cmd := exec.CommandContext(ctx, bin, args...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		t := time.Now()
		err := cmd.Run()
		d := time.Since(t)
		if code := cmd.ProcessState.ExitCode(); code != 0 && code != 1 {
			return nil, fmt.Errorf("%s %s: %w: %s", bin, args[0], err, strings.TrimSpace(out.String()))
		}
		wall = append(wall, d)
		cpu = append(cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		memory = max(memory, maxRSS(cmd.ProcessState))
	}
	slices.Sort(wall)
	slices.Sort(cpu)
	return []string{millis(quantile(wall, 0.5)), millis(quantile(cpu, 0.5)), fmt.Sprintf("%d MiB", memory>>10)}, nil
}

// bigCRD writes a CRD of about the size, like those that controller-gen writes: nested objects with descriptions.
func bigCRD(size int, change string) []byte {
	var b bytes.Buffer
	b.WriteString(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: engines.bench.example.com
spec:
  group: bench.example.com
  names: {kind: Engine, listKind: EngineList, plural: engines, singular: engine}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          apiVersion:
            type: string
          kind:
            type: string
          metadata:
            type: object
          spec:
            type: object
            properties:
`)
	for i := 0; b.Len() < size; i++ {
		limit := 253
		if change == "unsafe change" && i == 7 {
			limit = 63
		}
		fmt.Fprintf(&b, `              part%04d:
                description: |-
                  Part %d of the engine tells which container runs it, with what limits, and where it may be scheduled.
                  More info: the chapter on parts, section %d.
                type: object
                required:
                - name
                properties:
                  name:
                    description: Name of the part. It must be unique among the parts of one engine.
                    type: string
                    maxLength: %d
                    pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'
                  replicas:
                    description: Replicas is the number of copies that are wanted at the same time.
                    type: integer
                    format: int32
                    minimum: 0
                  env:
                    description: Env is the environment of the container.
                    type: array
                    items:
                      type: object
                      required: [name]
                      properties:
                        name:
                          type: string
                        value:
                          type: string
                    x-kubernetes-list-type: map
                    x-kubernetes-list-map-keys: [name]
                  labels:
                    description: Labels are put on everything that belongs to the part.
                    type: object
                    additionalProperties:
                      type: string
                  port:
                    anyOf:
                    - type: integer
                    - type: string
                    x-kubernetes-int-or-string: true
`, i, i, i, limit)
	}
	if change != "" {
		b.WriteString("              added:\n                type: string\n")
	}
	return b.Bytes()
}
