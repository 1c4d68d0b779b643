package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/kube"
)

// objectNamespaces is the number of namespaces that the objects are spread over, evenly.
const objectNamespaces = 20

func objectNamespace(i int) string { return fmt.Sprintf("team-%d", i%objectNamespaces) }

// objectRuns is the number of runs of each check; the table shows the median.
const objectRuns = 3

const upgrade = "examples/upgrade/"

// objects measures `sluice check NEW` against a cluster with many stored objects, as a process. A check of an empty cluster shows
// the cost of the start and of the comparison of the schemas. On a busy machine the wall time says little. "objects/s by CPU" is
// the rate if both sides had all processors: the most that a machine without other load could reach.
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
	rows := [][]string{{"stored", "new CRD", "pages at once", "wall", "objects/s", "CPU sluice", "CPU API server and etcd", "objects/s by CPU", "peak memory of sluice", "load"}}
	for i := range objectNamespaces {
		if err := k.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": objectNamespace(i)},
		}}); err != nil {
			return err
		}
	}
	stored := 0
	for _, n := range append([]int{0}, c.objects...) {
		start := time.Now()
		if err := storeObjects(ctx, cluster.Config(), stored, n); err != nil {
			return err
		}
		if n > stored {
			fmt.Fprintf(c.out, "stored %d objects of %d bytes in %.0f s\n", n-stored, len(storedObject(0)), time.Since(start).Seconds())
		}
		stored = n
		if n > 0 {
			m, err := listObjects(ctx, cluster)
			if err != nil {
				return err
			}
			rows = append(rows, m.row(n, "- (listed only)", "1"))
		}
		for _, file := range []string{"v2-unsafe.yaml", "v3-safe.yaml"} {
			for _, pages := range []string{"1", "2", "4", "8"} {
				m, err := checkObjects(ctx, bin, cluster, "--object-pages="+pages, upgrade+file)
				if err != nil {
					return err
				}
				rows = append(rows, m.row(n, strings.TrimSuffix(file, ".yaml"), pages))
			}
		}
	}
	c.table(rows...)
	return nil
}

type objectRun struct {
	wall, cpu, serverCPU time.Duration
	memory               int64 // KiB; 0 where there was no process
}

func (m objectRun) row(n int, what, pages string) []string {
	memory := "-"
	if m.memory > 0 {
		memory = fmt.Sprintf("%.1f MiB", float64(m.memory)/1024)
	}
	return []string{
		fmt.Sprint(n), what, pages, millis(m.wall), fmt.Sprintf("%.0f", float64(n)/m.wall.Seconds()), millis(m.cpu), millis(m.serverCPU),
		fmt.Sprintf("%.0f", float64(n*runtime.NumCPU())/(m.cpu+m.serverCPU).Seconds()), memory, loadAverage(),
	}
}

// listPage is the size of a page of listObjects: about that of a check.
const listPage = 3000

// listObjects pages through all objects and drops them unread. Nobody who lists them in order can be faster.
func listObjects(ctx context.Context, cluster *clustertest.Cluster) (objectRun, error) {
	config := rest.CopyConfig(cluster.Config())
	config.DisableCompression = true
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return objectRun{}, err
	}
	var wall, cpu, server []time.Duration
	for range objectRuns {
		before, own := cpuOfTree(cluster.PID()), readStat(os.Getpid()).own
		start := time.Now()
		for token := ""; ; {
			if token, err = listOnce(ctx, client, config.Host, token); err != nil {
				return objectRun{}, err
			}
			if token == "" {
				break
			}
		}
		wall = append(wall, time.Since(start))
		server = append(server, cpuOfTree(cluster.PID())-before)
		cpu = append(cpu, readStat(os.Getpid()).own-own)
	}
	return objectRun{wall: median(wall), cpu: median(cpu), serverCPU: median(server)}, nil
}

var continueToken = regexp.MustCompile(`"continue":"([^"]+)"`)

// listOnce reads a page and returns the token of the next one, which stands at the end of a list.
func listOnce(ctx context.Context, client *http.Client, host, token string) (string, error) {
	query := url.Values{"limit": {strconv.Itoa(listPage)}, "continue": {token}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, host+"/apis/example.sluice.dev/v1/databases?"+query.Encode(), nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	var tail, part []byte
	part = make([]byte, 64<<10)
	for {
		n, err := response.Body.Read(part)
		tail = append(tail, part[:n]...)
		tail = append(tail[:0], tail[max(0, len(tail)-4096):]...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("list: %s: %s", response.Status, tail)
	}
	if m := continueToken.FindSubmatch(tail); m != nil {
		return string(m[1]), nil
	}
	return "", nil
}

// checkObjects runs the check several times and returns the median times and the highest memory.
func checkObjects(ctx context.Context, bin string, cluster *clustertest.Cluster, args ...string) (objectRun, error) {
	var wall, cpu, server []time.Duration
	var peak int64
	for range objectRuns {
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, bin, append([]string{"check", "--kubeconfig", cluster.Kubeconfig}, args...)...)
		cmd.Stdout, cmd.Stderr = &out, &out
		before := cpuOfTree(cluster.PID())
		start := time.Now()
		err := cmd.Run()
		wall = append(wall, time.Since(start))
		server = append(server, cpuOfTree(cluster.PID())-before)
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
			return objectRun{}, fmt.Errorf("check %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(out.String()))
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
	address := host + "/apis/example.sluice.dev/v1/namespaces/" + objectNamespace(i) + "/databases?fieldManager=bench"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(storedObject(i)))
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

// loadAverage returns the average number of processes that wanted to run in the last minute; "-" if the system does not report it.
func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "-"
	}
	load, _, _ := strings.Cut(string(b), " ")
	return load
}
