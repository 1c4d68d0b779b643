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
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"sluice.dev/internal/clustertest"
)

const (
	// appliedObjects is how many ConfigMaps an app has, changedObjects how many of them change.
	appliedObjects = 500
	changedObjects = 5
	// applyRuns is how often each case runs; the median is shown.
	applyRuns = 5
)

// kapp's figures on the same kind of machine, with client-side apply and its inventory in a ConfigMap.
var kappWall = map[string]time.Duration{"first": 1400 * time.Millisecond, "unchanged": 500 * time.Millisecond}

// applied measures `sluice apply --app` as a process. What it asks of the API server is counted in runs of their own, through a
// proxy, because the proxy takes time.
func applied(ctx context.Context, c *config) error {
	bin, err := filepath.Abs(c.sluice)
	if err != nil {
		return err
	}
	cluster, err := clustertest.Launch(ctx, clustertest.WithoutControllers())
	if err != nil {
		return err
	}
	defer func() { _ = cluster.Stop() }()
	dir, err := os.MkdirTemp("", "bench-apply-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	proxy, counted, err := counting(cluster, dir)
	if err != nil {
		return err
	}
	defer proxy.Close()

	rows := [][]string{{"case", "wall", "kapp's", "CPU sluice", "CPU API server and etcd", "reads", "writes", "peak memory of sluice", "load"}}
	b := &applyBench{ctx: ctx, bin: bin, cluster: cluster, dir: dir}
	for _, name := range []string{"first", "unchanged", "5 changed"} {
		var runs []objectRun
		for range applyRuns {
			m, err := b.run(name, cluster.Kubeconfig)
			if err != nil {
				return err
			}
			runs = append(runs, m)
		}
		if err := b.prepare(name); err != nil {
			return err
		}
		counted.reads.Store(0)
		counted.writes.Store(0)
		if _, err := b.apply(filepath.Join(dir, "kubeconfig")); err != nil {
			return err
		}
		rows = append(rows, applyRow(name, runs, counted))
	}
	c.table(rows...)
	return nil
}

func applyRow(name string, runs []objectRun, counted *tally) []string {
	var wall, cpu, server []time.Duration
	var memory int64
	for _, r := range runs {
		wall, cpu, server = append(wall, r.wall), append(cpu, r.cpu), append(server, r.serverCPU)
		memory = max(memory, r.memory)
	}
	ratio := "-"
	if k := kappWall[name]; k > 0 {
		ratio = fmt.Sprintf("%.0f ms, %.2f times as long", float64(k)/float64(time.Millisecond), float64(median(wall))/float64(k))
	}
	return []string{
		fmt.Sprintf("%d ConfigMaps, %s", appliedObjects, name), millis(median(wall)), ratio, millis(median(cpu)), millis(median(server)),
		fmt.Sprint(counted.reads.Load()), fmt.Sprint(counted.writes.Load()), fmt.Sprintf("%.1f MiB", float64(memory)/1024), loadAverage(),
	}
}

type tally struct{ reads, writes atomic.Int64 }

// counting makes a proxy to the API server that counts, and a kubeconfig for it.
func counting(cluster *clustertest.Cluster, dir string) (*httptest.Server, *tally, error) {
	transport, err := rest.TransportFor(cluster.Config())
	if err != nil {
		return nil, nil, err
	}
	target, err := url.Parse(cluster.Server)
	if err != nil {
		return nil, nil, err
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.Transport = transport
	counted := &tally{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			counted.reads.Add(1)
		} else {
			counted.writes.Add(1)
		}
		forward.ServeHTTP(w, r)
	}))
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],
"clusters":[{"name":"x","cluster":{"server":%q}}],"users":[{"name":"x","user":{}}]}`, server.URL)
	return server, counted, os.WriteFile(filepath.Join(dir, "kubeconfig"), []byte(text), 0o600)
}

type applyBench struct {
	ctx     context.Context //nolint:containedctx // of one run of the part
	bin     string
	cluster *clustertest.Cluster
	dir     string
	version int
}

// run prepares a case and measures it.
func (b *applyBench) run(name, kubeconfig string) (objectRun, error) {
	if err := b.prepare(name); err != nil {
		return objectRun{}, err
	}
	return b.apply(kubeconfig)
}

// prepare brings the cluster and the source into the state before a case.
func (b *applyBench) prepare(name string) error {
	switch name {
	case "first":
		out, err := exec.CommandContext(b.ctx, b.bin, "delete", "bench", "--kubeconfig", b.cluster.Kubeconfig).CombinedOutput()
		if err != nil && !strings.Contains(string(out), "there is no such app") {
			return fmt.Errorf("delete: %w: %s", err, out)
		}
	case "5 changed":
		b.version++
	}
	var text bytes.Buffer
	for i := range appliedObjects {
		version := 0
		if i%(appliedObjects/changedObjects) == 0 {
			version = b.version
		}
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: bench-%04d\n  namespace: default\n  labels: {app: bench}\ndata:\n  key: value %d\n  version: \"%d\"\n  text: |\n    some lines\n    of text\n", i, i, version)
	}
	return os.WriteFile(b.source(), text.Bytes(), 0o600)
}

func (b *applyBench) source() string { return filepath.Join(b.dir, "source.yaml") }

// apply runs the command once.
func (b *applyBench) apply(kubeconfig string) (objectRun, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(b.ctx, b.bin, "apply", "--app", "bench", "-f", b.source(), "--kubeconfig", kubeconfig)
	cmd.Stdout, cmd.Stderr = &out, &out
	before := cpuOfTree(b.cluster.PID())
	start := time.Now()
	err := cmd.Run()
	wall := time.Since(start)
	if err != nil {
		return objectRun{}, fmt.Errorf("apply: %w: %s", err, strings.TrimSpace(out.String()))
	}
	return objectRun{
		wall: wall, cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(),
		serverCPU: cpuOfTree(b.cluster.PID()) - before, memory: maxRSS(cmd.ProcessState),
	}, nil
}
