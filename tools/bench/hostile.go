package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"sluice.dev/tools/schemagen"
)

// hostileSizes are how large the CRDs are that are made to cost a lot, in bytes; hostileTime and hostileMiB are the aims.
var hostileSizes = []int{100_000, 1_000_000, 2_900_000}

const (
	hostileTime = 10 * time.Second
	hostileMiB  = 1024
)

// hostile runs sluice check on large changes that are made to cost a lot.
func hostile(ctx context.Context, c *config) error {
	dir, err := os.MkdirTemp("", "hostile-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder for temporary files
	rows := [][]string{{"what", "size", "elapsed", "CPU", "peak memory", "exit code", "within the aim"}}
	for _, size := range hostileSizes {
		for _, pair := range schemagen.Hostile(size) {
			before, after := filepath.Join(dir, "old.yaml"), filepath.Join(dir, "new.yaml")
			for file, properties := range map[string]string{before: pair.Old, after: pair.New} {
				if err := os.WriteFile(file, hostileCRD(properties), 0o600); err != nil {
					return err
				}
			}
			cmd := exec.CommandContext(ctx, c.sluice, "check", before, after, "-o", "json")
			start := time.Now()
			var exit *exec.ExitError
			if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
				return err
			}
			elapsed := time.Since(start)
			usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
			if !ok {
				return errors.New("this system does not tell what a process has used")
			}
			mib := usage.Maxrss / 1024
			within := "yes"
			if elapsed > hostileTime || mib > hostileMiB {
				within = "no"
			}
			cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			rows = append(rows, []string{
				pair.Name, fmt.Sprintf("%.1f MB", float64(len(pair.New))/1e6), fmt.Sprintf("%.1f s", elapsed.Seconds()),
				fmt.Sprintf("%.1f s", cpu.Seconds()), fmt.Sprintf("%d MiB", mib), fmt.Sprint(cmd.ProcessState.ExitCode()), within,
			})
		}
	}
	c.table(rows...)
	return nil
}

func hostileCRD(properties string) []byte {
	return []byte(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.example.com}, spec: {group: example.com,
names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}, scope: Namespaced, versions: [{name: v1, served: true, storage: true,
schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {` + properties + `}}}}}}]}}
`)
}
