package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"

	"k8s.io/client-go/rest"

	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/clustertest/binary"
)

// applySizes are the numbers of ConfigMaps of an app, with the number of runs of each case. For the largest there is only the first apply,
// by Sluice. Requests of kubectl are counted for the smallest, because it is slow.
var applySizes = []struct{ objects, runs int }{{500, 3}, {5000, 1}, {20000, 1}, {50000, 1}}

const (
	changedObjects = 5
	// largestSize and smallestSize are those that differ, as said above.
	largestSize, smallestSize = 50000, 500
)

// measureApplying measures `sluice apply --app` and `kubectl apply --server-side` as processes. Requests are counted in runs of their own,
// through a proxy, because the proxy takes time. Each size has a cluster of its own.
func measureApplying(ctx context.Context, b bench) error {
	kubectl, err := binary.Kubectl(ctx, ".", os.Stderr)
	if err != nil {
		return err
	}
	for _, size := range applySizes { // a table each: the large ones take minutes
		if err := measureSize(ctx, size.objects, size.runs, b.sluice, kubectl); err != nil {
			return err
		}
	}
	return nil
}

func measureSize(ctx context.Context, objects, runs int, sluice, kubectl string) error {
	cluster, err := clustertest.Launch(ctx, clustertest.WithoutControllers())
	if err != nil {
		return err
	}
	defer cluster.Stop() //nolint:errcheck // its files are removed anyway
	dir, err := os.MkdirTemp("", "bench-apply-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	proxy, err := newCountingProxy(cluster.Config(), dir)
	if err != nil {
		return err
	}
	defer proxy.Close()
	programs := [][]string{{sluice, "apply", "--app", "bench", "--timeout", "30m"}, {kubectl, "apply", "--server-side", "--field-manager", "bench"}}
	cases := []string{"first", "unchanged", "5 changed"}
	if objects == largestSize {
		programs, cases = programs[:1], cases[:1]
	}
	a := appSource{dir: dir, objects: objects, kubectl: kubectl, kubeconfig: cluster.Kubeconfig}
	rows := [][]string{{fmt.Sprintf("%d ConfigMaps", objects), "program", "wall", "CPU", "peak memory", "CPU API server and etcd", "reads", "writes and dry runs"}}
	for i, program := range programs {
		for _, name := range cases {
			apply := func(kubeconfig string) (usage, error) {
				if err := a.prepare(ctx, name); err != nil {
					return usage{}, err
				}
				command := append(slices.Clip(program), "-f", a.path(), "-n", a.namespace(), "--kubeconfig", kubeconfig)
				return measureRuns(ctx, 1, cluster.PID(), command, func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), "HOME="+dir, "KUBERC=off") })
			}
			u, err := apply(cluster.Kubeconfig)
			for n := 1; n < runs && err == nil; n++ {
				var again usage
				again, err = apply(cluster.Kubeconfig)
				u = fasterOf(u, again)
			}
			if err != nil {
				return err
			}
			row := append([]string{name, filepath.Base(program[0])}, u.cells()...)
			reads, writes := "-", "-"
			if i == 0 || objects == smallestSize {
				proxy.reads.Store(0)
				proxy.writes.Store(0)
				if _, err := apply(proxy.kubeconfig); err != nil {
					return err
				}
				reads, writes = fmt.Sprint(proxy.reads.Load()), fmt.Sprint(proxy.writes.Load())
			}
			rows = append(rows, append(row, millis(u.server), reads, writes))
		}
	}
	printTable(rows...)
	return nil
}

// fasterOf is the run that was less disturbed by other programs.
func fasterOf(a, b usage) usage {
	if b.wall < a.wall {
		return b
	}
	return a
}

// appSource is the source of an app, in the state of a case.
type appSource struct {
	dir, kubectl, kubeconfig string
	objects, version         int
	// namespaces counts those of the objects: another one for each first apply, which saves deletions.
	namespaces int
}

func (a *appSource) path() string      { return filepath.Join(a.dir, "source.yaml") }
func (a *appSource) namespace() string { return fmt.Sprintf("bench-%d", a.namespaces) }

// prepare brings the cluster and the source into the state before a case.
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

// countingProxy is a proxy to an API server that counts the requests.
type countingProxy struct {
	*httptest.Server

	kubeconfig    string
	reads, writes atomic.Int64
}

func newCountingProxy(config *rest.Config, dir string) (*countingProxy, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.Transport, forward.FlushInterval = transport, -1
	p := &countingProxy{kubeconfig: filepath.Join(dir, "kubeconfig")}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counter := &p.writes
		if r.Method == http.MethodGet {
			counter = &p.reads
		}
		counter.Add(1)
		forward.ServeHTTP(w, r)
	}))
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],
"clusters":[{"name":"x","cluster":{"server":%q}}],"users":[{"name":"x","user":{}}]}`, p.URL)
	return p, os.WriteFile(p.kubeconfig, []byte(text), 0o600)
}
