package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/clustertest/binary"
)

// applySizes are the numbers of ConfigMaps of an app, with the number of runs of each case; the table shows the median. Requests of
// kubectl are counted only up to counted objects, because it is slow. Without cases there is only the first apply.
var applySizes = []applySize{
	{objects: 500, runs: 3, cases: applyCases, kubectl: true},
	{objects: 5000, runs: 1, cases: applyCases, kubectl: true},
	{objects: 20000, runs: 1, cases: applyCases, kubectl: true},
	{objects: 50000, runs: 1, cases: applyCases[:1]},
}

type applySize struct {
	objects, runs int
	cases         []string
	kubectl       bool
}

var applyCases = []string{"first", "unchanged", "5 changed"}

const (
	// changedObjects is the number of ConfigMaps that change.
	changedObjects = 5
	// countedObjects is up to which size the requests of kubectl are counted, in a run of their own.
	countedObjects = 500
)

// measureApplying measures `sluice apply --app` and `kubectl apply --server-side` as processes. Requests are counted in runs of their own, through
// a proxy, because the proxy takes time.
func measureApplying(ctx context.Context, c *config) error {
	bin, err := filepath.Abs(c.sluice)
	if err != nil {
		return err
	}
	kubectl, err := binary.Kubectl(ctx, ".", os.Stderr)
	if err != nil {
		return err
	}
	head := []string{"case", "program", "wall", "CPU", "CPU API server and etcd", "reads", "writes", "peak memory", "load"}
	for _, size := range applySizes { // a table each: the large ones take minutes
		rows, err := measureApply(ctx, size, bin, kubectl)
		if err != nil {
			return err
		}
		c.table(append([][]string{head}, rows...)...)
	}
	return nil
}

// measureApply measures one size, in a cluster of its own.
func measureApply(ctx context.Context, size applySize, bin, kubectl string) ([][]string, error) {
	cluster, err := clustertest.Launch(ctx, clustertest.WithoutControllers())
	if err != nil {
		return nil, err
	}
	defer func() { _ = cluster.Stop() }()
	dir, err := os.MkdirTemp("", "bench-apply-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	handler, counted, err := countingProxy(cluster.Config())
	if err != nil {
		return nil, err
	}
	proxy := httptest.NewServer(handler)
	defer proxy.Close()
	through := filepath.Join(dir, "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],
"clusters":[{"name":"x","cluster":{"server":%q}}],"users":[{"name":"x","user":{}}]}`, proxy.URL)
	if err := os.WriteFile(through, []byte(text), 0o600); err != nil {
		return nil, err
	}
	b := &applyBench{ctx: ctx, kubectl: kubectl, cluster: cluster, dir: dir, size: size}
	programs := []program{{"sluice", []string{bin, "apply", "--app", "bench", "--timeout", "30m"}, true}}
	if size.kubectl {
		programs = append(programs, program{"kubectl", []string{kubectl, "apply", "--server-side", "--field-manager", "bench"}, size.objects <= countedObjects})
	}
	var rows [][]string
	for _, p := range programs {
		for _, name := range size.cases {
			var runs []objectRun
			for range size.runs {
				m, err := b.run(name, p, cluster.Kubeconfig)
				if err != nil {
					return nil, err
				}
				runs = append(runs, m)
			}
			reads, writes := "-", "-"
			if p.counted {
				if err := b.prepare(name); err != nil {
					return nil, err
				}
				counted.reads.Store(0)
				counted.writes.Store(0)
				if _, err := b.apply(p, through); err != nil {
					return nil, err
				}
				reads, writes = fmt.Sprint(counted.reads.Load()), fmt.Sprint(counted.writes.Load())
			}
			rows = append(rows, applyRow(fmt.Sprintf("%d ConfigMaps, %s", size.objects, name), p.name, runs, reads, writes))
		}
	}
	return rows, nil
}

func applyRow(name, program string, runs []objectRun, reads, writes string) []string {
	var wall, cpu, server []time.Duration
	var memory int64
	for _, r := range runs {
		wall, cpu, server = append(wall, r.wall), append(cpu, r.cpu), append(server, r.serverCPU)
		memory = max(memory, r.memory)
	}
	return []string{
		name, program, millis(median(wall)), millis(median(cpu)), millis(median(server)), reads, writes, fmt.Sprintf("%.1f MiB", float64(memory)/1024), loadAverage(),
	}
}

// program applies a source: with args, and the flags -f, -n and --kubeconfig.
type program struct {
	name    string
	args    []string
	counted bool
}

type applyBench struct {
	ctx     context.Context //nolint:containedctx // of one run of the part
	kubectl string
	cluster *clustertest.Cluster
	dir     string
	size    applySize
	version int
	// namespace is the namespace of the objects: another one for each first apply, which saves deletions.
	namespace int
}

// run prepares a case and measures it.
func (b *applyBench) run(name string, p program, kubeconfig string) (objectRun, error) {
	if err := b.prepare(name); err != nil {
		return objectRun{}, err
	}
	return b.apply(p, kubeconfig)
}

// prepare brings the cluster and the source into the state before a case.
func (b *applyBench) prepare(name string) error {
	switch name {
	case "first":
		b.namespace++
		out, err := exec.CommandContext(b.ctx, b.kubectl, "create", "namespace", b.in(), "--kubeconfig", b.cluster.Kubeconfig).CombinedOutput()
		if err != nil {
			return fmt.Errorf("namespace: %w: %s", err, out)
		}
	case "5 changed":
		b.version++
	}
	var text bytes.Buffer
	for i := range b.size.objects {
		version := 0
		if i%(b.size.objects/changedObjects) == 0 {
			version = b.version
		}
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: bench-%05d\n  labels: {app: bench}\ndata:\n  key: value %d\n  version: \"%d\"\n  text: |\n    some lines\n    of text\n", i, i, version)
	}
	return os.WriteFile(b.source(), text.Bytes(), 0o600)
}

func (b *applyBench) in() string     { return fmt.Sprintf("bench-%d", b.namespace) }
func (b *applyBench) source() string { return filepath.Join(b.dir, "source.yaml") }

// apply runs a program once.
func (b *applyBench) apply(p program, kubeconfig string) (objectRun, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(b.ctx, p.args[0], append(p.args[1:], "-f", b.source(), "-n", b.in(), "--kubeconfig", kubeconfig)...)
	cmd.Env = append(os.Environ(), "HOME="+b.dir, "KUBERC=off")
	cmd.Stdout, cmd.Stderr = &out, &out
	before := cpuOfTree(b.cluster.PID())
	start := time.Now()
	err := cmd.Run()
	wall := time.Since(start)
	if err != nil {
		text := out.String()
		return objectRun{}, fmt.Errorf("%s apply: %w: %s", p.name, err, strings.TrimSpace(text[max(0, len(text)-2000):]))
	}
	return objectRun{
		wall: wall, cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(),
		serverCPU: cpuOfTree(b.cluster.PID()) - before, memory: maxRSS(cmd.ProcessState),
	}, nil
}
