package main

// How fast is delivery, compared with kubectl? Both apply the same file to the same cluster: for the first
// time, unchanged, and with a few changes.

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/clustertest/binary"
)

// applySizes are the numbers of ConfigMaps of an app, with the number of runs of each case. For the largest there is only the first apply,
// by Sluice.
var applySizes = []struct{ objects, runs int }{{500, 3}, {5000, 1}, {20000, 1}, {50000, 1}}

const (
	changedObjects = 5
	// largestSize is the one that differs, as said above.
	largestSize = 50000
)

// measureApplying measures `sluice apply --app` and `kubectl apply --server-side` as processes. Each size has a
// cluster of its own.
// kubectl is the one of the tests, of the version of the cluster.
func measureApplying(ctx context.Context, b bench) error {
	kubectl, err := binary.Kubectl(ctx, ".", os.Stderr)
	if err != nil {
		return err
	}
	for _, size := range applySizes { // a table each: the large ones take minutes
		if err := measureSize(ctx, b, size.objects, size.runs, kubectl); err != nil {
			return err
		}
	}
	return nil
}

// measureSize measures both programs with one number of objects, and prints a table. Each case runs several times on
// one cluster, in the order of cases, because each needs what the one before has left.
func measureSize(ctx context.Context, b bench, objects, runs int, kubectl string) error {
	cluster, err := clustertest.Launch(ctx, clustertest.WithoutControllers())
	if err != nil {
		return err
	}
	defer cluster.Stop() //nolint:errcheck // its files are removed anyway
	programs := [][]string{{b.sluice, "apply", "--app", "bench", "--timeout", "30m"}, {kubectl, "apply", "--server-side", "--field-manager", "bench"}}
	cases := []string{"first", "unchanged", "5 changed"}
	if objects == largestSize {
		programs, cases = programs[:1], cases[:1]
	}
	a := appSource{dir: b.dir, objects: objects, kubectl: kubectl, kubeconfig: cluster.Kubeconfig}
	rows := [][]string{{fmt.Sprintf("%d ConfigMaps", objects), "program", "wall", "CPU", "peak memory", "CPU API server and etcd"}}
	for _, program := range programs {
		for _, name := range cases {
			var fastest usage // the run that was least disturbed by other programs
			for n := range runs {
				if err := a.prepare(ctx, name); err != nil {
					return err
				}
				command := append(slices.Clip(program), "-f", a.path(), "-n", a.namespace(), "--kubeconfig", cluster.Kubeconfig)
				u, err := measureRuns(ctx, 1, cluster.PID(), command, func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), "HOME="+b.dir, "KUBERC=off") })
				if err != nil {
					return err
				}
				if n == 0 || u.wall < fastest.wall {
					fastest = u
				}
			}
			rows = append(rows, append(append([]string{name, filepath.Base(program[0])}, fastest.cells()...), millis(fastest.server)))
		}
	}
	printTable(rows...)
	return nil
}

// appSource is the source of an app, in the state of a case.
// It writes one file, which both programs read.
type appSource struct {
	dir, kubectl, kubeconfig string
	objects, version         int
	// namespaces counts those of the objects: another one for each first apply, which saves deletions.
	namespaces int
}

func (a *appSource) path() string      { return filepath.Join(a.dir, "source.yaml") }
func (a *appSource) namespace() string { return fmt.Sprintf("bench-%d", a.namespaces) }

// prepare brings the cluster and the source into the state before a case.
// first makes a namespace. unchanged applies the same file again. 5 changed gives a few objects, spread over the
// file, another content.
func (a *appSource) prepare(ctx context.Context, name string) error {
	switch name {
	case "first":
		a.namespaces++
		out, err := exec.CommandContext(ctx, a.kubectl, "create", "namespace", a.namespace(), "--kubeconfig", a.kubeconfig).CombinedOutput()
		if err != nil {
			return fmt.Errorf("namespace: %w: %s", err, out)
		}
	case "5 changed":
		a.version++
	}
	var text bytes.Buffer
	for i := range a.objects {
		version := 0
		if i%(a.objects/changedObjects) == 0 {
			version = a.version
		}
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: bench-%05d\n  labels: {app: bench}\ndata:\n  key: value %d\n  version: \"%d\"\n  text: |\n    some lines\n    of text\n", i, i, version)
	}
	return os.WriteFile(a.path(), text.Bytes(), 0o600)
}
