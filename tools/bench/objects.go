package main

// How fast are stored objects checked? The command lists them page by page, and a client that only lists is the
// measure of what is possible.

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/kube"
)

const (
	// storedObjects are spread over objectNamespaces evenly.
	storedObjects, objectNamespaces = 20_000, 20
	// objectRuns is the number of runs of each check.
	objectRuns = 3
	// listPage is the size of a page of listObjects: about that of a check.
	listPage = "3000"
)

// measureObjects measures `sluice check NEW` against a cluster with many stored objects, as a process. On a busy machine the wall time says
// little. "objects/s by CPU" is the rate if both sides had all processors: the most that a machine without other load could reach.
// The last row lists the same objects with a client that looks at none, which is the least that any check by lists
// can take.
func measureObjects(ctx context.Context, b bench) error {
	cluster, err := clustertest.Launch(ctx, clustertest.WithoutControllers())
	if err != nil {
		return err
	}
	defer cluster.Stop() //nolint:errcheck // its files are removed anyway
	config := cluster.Config()
	config.QPS = -1
	k, err := kube.New(config)
	if err != nil {
		return err
	}
	if err := k.Apply(ctx, "examples/upgrade/v1.yaml", false); err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	api := clients.CoreV1().RESTClient()
	if err := storeObjects(ctx, api); err != nil {
		return err
	}
	rows := [][]string{{"pages at once", "wall", "CPU", "peak memory", "CPU API server and etcd", "objects/s by CPU"}}
	addRow := func(title string, u usage) {
		rate := fmt.Sprintf("%.0f", float64(storedObjects*runtime.NumCPU())/(u.cpu+u.server).Seconds())
		rows = append(rows, append(append([]string{title}, u.cells()...), millis(u.server), rate))
	}
	for _, pages := range []string{"1", "2", "4", "8"} {
		u, err := measureRuns(ctx, objectRuns, cluster.PID(), []string{b.sluice, "check", "--kubeconfig", cluster.Kubeconfig, "--object-pages=" + pages, "examples/upgrade/v3-safe.yaml"}, nil)
		if err != nil {
			return err
		}
		addRow(pages, u)
	}
	server, own, start := cpuOfTree(cluster.PID()), cpuOf(syscall.RUSAGE_SELF), time.Now()
	if err := listObjects(ctx, api); err != nil {
		return err
	}
	addRow("1, a client that drops them", usage{wall: time.Since(start), cpu: cpuOf(syscall.RUSAGE_SELF) - own, server: cpuOfTree(cluster.PID()) - server})
	fmt.Printf("%d objects of %d bytes in %d namespaces\n", storedObjects, len(storedObject(0)), objectNamespaces)
	printTable(rows...)
	return nil
}

var continueToken = regexp.MustCompile(`"continue":"([^"]+)"`)

// listObjects pages through all objects and drops them unread. Nobody who lists them in order can be faster.
func listObjects(ctx context.Context, api rest.Interface) error {
	for token := ""; ; {
		page, err := api.Get().AbsPath("/apis/example.sluice.dev/v1/databases").Param("limit", listPage).Param("continue", token).SetHeader("Accept", "application/json").DoRaw(ctx)
		if err != nil {
			return err
		}
		m := continueToken.FindSubmatch(page[max(0, len(page)-4096):]) // the metadata stand at the end
		if m == nil {
			return nil
		}
		token = string(m[1])
	}
}

// storeObjects creates the namespaces and the objects through the API, as anybody would.
// Objects are created by as many calls at once as keep the API server busy; their order does not matter.
func storeObjects(ctx context.Context, api rest.Interface) error {
	post := func(path string, body []byte) error {
		return api.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
	}
	var errs []error
	for i := range objectNamespaces {
		errs = append(errs, post("/api/v1/namespaces", fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-%d"}}`, i)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var group errgroup.Group
	// More calls at once only wait in the API server.
	group.SetLimit(4 * runtime.NumCPU())
	for i := range storedObjects {
		group.Go(func() error {
			return post(fmt.Sprintf("/apis/example.sluice.dev/v1/namespaces/team-%d/databases", i%objectNamespaces), storedObject(i))
		})
	}
	return group.Wait()
}

// storedObject is the i-th object.
func storedObject(i int) []byte {
	return fmt.Appendf(nil, `{"apiVersion": "example.sluice.dev/v1", "kind": "Database", "metadata": {"name": "db-%06[1]d",
"labels": {"app.kubernetes.io/name": "database", "app.kubernetes.io/instance": "db-%06[1]d", "team": "team-%[2]d"},
"annotations": {"example.sluice.dev/owner": "team-%[2]d@example.com", "example.sluice.dev/purpose": "Stored for a measurement of how fast objects are read."},
"finalizers": ["example.sluice.dev/volumes"]},
"spec": {"engine": %[3]q, "version": "16", "replicas": 3, "storage": {"size": "100Gi", "className": "ssd", "tier": "gold"},
"backup": {"schedule": "0 3 * * *", "retentionDays": 14},
"users": [{"name": "user-%[1]d-0", "superuser": true}, {"name": "user-%[1]d-1", "superuser": false}, {"name": "user-%[1]d-2", "superuser": false}, {"name": "user-%[1]d-3", "superuser": false}],
"parameters": {"parameter_0": "value 0", "parameter_1": "value %[1]d", "parameter_2": "value 2", "parameter_3": "value 3"}}}`,
		i, i%objectNamespaces, []string{"postgres", "mysql", "mariadb"}[i%3])
}
