package main

// How fast is sluice check? The command is measured as users run it, as a process, on a small pair, on large
// ones, and on pairs that are made to cost a lot.

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sluice.dev/internal/controller/guard"
	"sluice.dev/tools/schemagen"
)

// processRuns is the number of runs of a short process.
// A process takes tens of milliseconds, so the median needs several.
const processRuns = 11

// measureChecks measures the start of the command and whole runs of it.
// The pairs that it writes differ in one number, so that the comparison has something to find and the rest to prove
// equal.
func measureChecks(ctx context.Context, b bench) error {
	// A missing program is told before anything is measured.
	program, err := os.Stat(b.sluice)
	if err != nil {
		return fmt.Errorf("%w (make build)", err)
	}
	rows := [][]string{{"whole process", "median wall", "median CPU", "peak memory"}}
	measure := func(title string, args ...string) error {
		u, err := measureRuns(ctx, processRuns, 0, append([]string{b.sluice}, args...), nil)
		rows = append(rows, append([]string{title}, u.cells()...))
		return err
	}
	if err := measure("start: sluice version", "version"); err != nil {
		return err
	}
	if err := measure("sluice check, the pair of the README", "check", "examples/upgrade/v1.yaml", "examples/upgrade/v2-unsafe.yaml"); err != nil {
		return err
	}
	for _, size := range []int{100 << 10, 1 << 20} {
		before, after, err := writePair(b.dir, bigCRD(size, 253), bigCRD(size, 63))
		if err != nil {
			return err
		}
		if err := measure(fmt.Sprintf("sluice check, a pair of %d KiB, an unsafe change", size>>10), "check", before, after); err != nil {
			return err
		}
	}
	printTable(rows...)
	fmt.Printf("\nThe executable has %.1f MB.\n", float64(program.Size())/1e6)
	return nil
}

// writePair writes an old and a new CRD, and returns their paths.
func writePair(dir string, before, after []byte) (old, next string, err error) {
	old, next = filepath.Join(dir, "old.yaml"), filepath.Join(dir, "new.yaml")
	if err := os.WriteFile(old, before, 0o600); err != nil {
		return "", "", err
	}
	return old, next, os.WriteFile(next, after, 0o600)
}

// bigCRD writes a CRD of about the size, like those that controller-gen writes: nested objects with descriptions. The name of one part
// has a limit of its own.
// The fields have what costs work in real CRDs: patterns, lists with keys, int-or-string, maps and descriptions. The
// result is YAML, a little larger than the size.
func bigCRD(size, limit int) []byte {
	var b bytes.Buffer
	b.WriteString(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: engines.bench.example.com}
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
          spec:
            type: object
            properties:
`)
	for i := 0; b.Len() < size; i++ {
		most := 253
		if i == 7 {
			most = limit
		}
		fmt.Fprintf(&b, `              part%04d:
                description: |-
                  Part %d of the engine tells which container runs it, with what limits, and where it may be scheduled.
                  More info: the chapter on parts, section %d.
                type: object
                required: [name]
                properties:
                  name:
                    description: Name of the part. It must be unique among the parts of one engine.
                    type: string
                    maxLength: %d
                    pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'
                  replicas: {description: Replicas is the number of copies that are wanted at the same time., type: integer, format: int32, minimum: 0}
                  env:
                    description: Env is the environment of the container.
                    type: array
                    items: {type: object, required: [name], properties: {name: {type: string}, value: {type: string}}}
                    x-kubernetes-list-type: map
                    x-kubernetes-list-map-keys: [name]
                  labels: {description: Labels are put on everything that belongs to the part., type: object, additionalProperties: {type: string}}
                  port: {anyOf: [{type: integer}, {type: string}], x-kubernetes-int-or-string: true}
`, i, i, i, most)
	}
	return b.Bytes()
}

// hostileRuns are the sizes of CRDs in bytes with the budget of the check, 0 for its default. The guard has a smaller budget, and gets no
// CRDs that are larger than etcd takes.
var hostileRuns = []struct {
	size   int
	budget int64
}{{size: 100_000}, {size: 1_000_000}, {size: 2_900_000}, {size: 1_000_000, budget: guard.Budget}}

// measureHostile runs sluice check on large changes that are made to cost a lot.
// Each kind is a change of schemagen.Hostile. The check must end within its budget, whatever the verdict; the figures
// say what that budget is worth in time.
func measureHostile(ctx context.Context, b bench) error {
	for _, run := range hostileRuns {
		command := []string{b.sluice, "check", filepath.Join(b.dir, "old.yaml"), filepath.Join(b.dir, "new.yaml")}
		title := "the default budget"
		if run.budget > 0 {
			title, command = "the budget of the guard", append(command, fmt.Sprintf("--budget=%d", run.budget))
		}
		rows := [][]string{strings.Split(fmt.Sprintf("%.1f MB and %s, wall,CPU,peak memory", float64(run.size)/1e6, title), ",")}
		for _, pair := range schemagen.Hostile(run.size) {
			if _, _, err := writePair(b.dir, []byte(pair.Old), []byte(pair.New)); err != nil {
				return err
			}
			u, err := measureRuns(ctx, 1, 0, command, nil)
			if err != nil {
				return fmt.Errorf("%s: %w", pair.Name, err)
			}
			rows = append(rows, append([]string{pair.Name}, u.cells()...))
		}
		printTable(rows...)
	}
	return nil
}
