package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"sluice.dev/internal/clustertest"
	"sluice.dev/internal/kube"
)

// objectCounts are how many objects are stored when the checks are measured.
var objectCounts = []int{10_000, 100_000}

// objectRuns is how often each check runs; the median is shown.
const objectRuns = 3

const upgrade = "examples/upgrade/"

// objects measures `sluice check NEW` against a cluster with many stored objects, as a process. One that checks an empty
// cluster shows what of it is the start and the comparison of the schemas. On a machine that does other things too the wall
// time tells little: "objects/s by CPU" is what the processor time of both sides comes to if all processors are theirs, which
// is the most that a machine without other load could reach.
func objects(ctx context.Context, c *config) error {
	bin, err := filepath.Abs(c.sluice)
	if err != nil {
		return err
	}
	cluster, err := clustertest.Launch(ctx, clustertest.WithoutControllers())
	if err != nil {
		return err
	}
	defer func() { _ = cluster.Stop() }()
	k, err := kube.New(cluster.Config())
	if err != nil {
		return err
	}
	if err := k.Apply(ctx, upgrade+"v1.yaml", false); err != nil {
		return err
	}
	rows := [][]string{{"stored", "new CRD", "wall", "objects/s", "CPU sluice", "CPU API server and etcd", "objects/s by CPU", "peak memory of sluice", "load"}}
	stored := 0
	for _, n := range append([]int{0}, objectCounts...) {
		start := time.Now()
		if err := storeObjects(ctx, cluster.Config(), stored, n); err != nil {
			return err
		}
		if n > stored {
			fmt.Fprintf(c.out, "stored %d objects of %d bytes in %.0f s\n", n-stored, len(storedObject(0)), time.Since(start).Seconds())
		}
		stored = n
		for _, file := range []string{"v2-unsafe.yaml", "v3-safe.yaml"} {
			m, err := checkObjects(ctx, bin, cluster, upgrade+file)
			if err != nil {
				return err
			}
			rows = append(rows, []string{
				fmt.Sprint(n), strings.TrimSuffix(file, ".yaml"), millis(m.wall), fmt.Sprintf("%.0f", float64(n)/m.wall.Seconds()),
				millis(m.cpu), millis(m.serverCPU), fmt.Sprintf("%.0f", float64(n*runtime.NumCPU())/(m.cpu+m.serverCPU).Seconds()),
				fmt.Sprintf("%.1f MiB", float64(m.memory)/1024), loadAverage(),
			})
		}
	}
	c.table(rows...)
	return nil
}

type objectRun struct {
	wall, cpu, serverCPU time.Duration
	memory               int64 // KiB
}

// checkObjects runs the check several times and returns the median times and the highest memory.
func checkObjects(ctx context.Context, bin string, cluster *clustertest.Cluster, file string) (objectRun, error) {
	var wall, cpu, server []time.Duration
	var peak int64
	for range objectRuns {
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, bin, "check", "--kubeconfig", cluster.Kubeconfig, file)
		cmd.Stdout, cmd.Stderr = &out, &out
		before := cpuOfTree(cluster.PID())
		start := time.Now()
		err := cmd.Run()
		wall = append(wall, time.Since(start))
		server = append(server, cpuOfTree(cluster.PID())-before)
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
			return objectRun{}, fmt.Errorf("check of %s: %w: %s", file, err, strings.TrimSpace(out.String()))
		}
		cpu = append(cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		peak = max(peak, maxRSS(cmd.ProcessState))
	}
	return objectRun{wall: median(wall), cpu: median(cpu), serverCPU: median(server), memory: peak}, nil
}

// storeObjects creates the objects from..to through the API, as anybody would.
func storeObjects(ctx context.Context, config *rest.Config, from, to int) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := atomic.Int64{}
	next.Store(int64(from))
	var wg sync.WaitGroup
	for range 4 * runtime.NumCPU() {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= to {
					return
				}
				if err := createObject(ctx, client, config.Host, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func createObject(ctx context.Context, client *http.Client, host string, i int) error {
	url := host + "/apis/example.sluice.dev/v1/namespaces/default/databases?fieldManager=bench"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(storedObject(i)))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusCreated {
		return fmt.Errorf("create object %d: %s: %s", i, response.Status, body.String())
	}
	return nil
}

// storedObject is the i-th object. The new CRD refuses one in three and prunes one in two.
func storedObject(i int) []byte {
	engine := []string{"postgres", "mysql", "mariadb"}[i%3]
	tier := ""
	if i%2 == 0 {
		tier = `, "tier": "gold"`
	}
	var users, parameters []string
	for j := range 4 {
		users = append(users, fmt.Sprintf(`{"name": "user-%d-%d", "superuser": %t}`, i, j, j == 0))
		parameters = append(parameters, fmt.Sprintf(`"parameter_%d": "value %d"`, j, i*j))
	}
	return fmt.Appendf(nil, `{"apiVersion": "example.sluice.dev/v1", "kind": "Database", "metadata": {"name": "db-%06d",
"labels": {"app.kubernetes.io/name": "database", "app.kubernetes.io/instance": "db-%06d", "team": "team-%d"},
"annotations": {"example.sluice.dev/owner": "team-%d@example.com", "example.sluice.dev/purpose": "Stored for a measurement of how fast objects are read."},
"finalizers": ["example.sluice.dev/volumes"]},
"spec": {"engine": %q, "version": "16", "replicas": 3, "storage": {"size": "100Gi", "className": "ssd"%s},
"backup": {"schedule": "0 3 * * *", "retentionDays": 14}, "users": [%s], "parameters": {%s}}}`,
		i, i, i%20, i%20, engine, tier, strings.Join(users, ", "), strings.Join(parameters, ", "))
}

// loadAverage returns how many processes wanted to run in the last minute; "-" where the system does not tell.
func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "-"
	}
	load, _, _ := strings.Cut(string(b), " ")
	return load
}
