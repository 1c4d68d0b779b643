package main

// How many requests does a cluster resolve in a second, and who spends the time? The processor time of each
// part is divided by the number of requests.

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/client/informers"
	"sluice.dev/client/versioned"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/clustertest/nodeless"
)

const (
	// requestCount is the number of requests of one measurement, creators that of the calls at once that create them.
	requestCount, creators = 2000, 32
	// requestNamespace has all requests.
	requestNamespace = "default"
)

// gitSettings let the role resolver-git read the repositories of the bench.
const gitSettings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: git-resolver-config, namespace: " + systemNamespace + "}\ndata: {allowed-addresses: 127.0.0.1}\n"

// resolving is an installation with the role resolver-git, its processes, and a client that creates requests and watches them.
// Its lock is for what the informer writes while a measurement waits.
type resolving struct {
	*system

	client *versioned.Clientset
	// stop ends the watch.
	stop                context.CancelFunc
	lifecycle, resolver *nodeless.Process

	mu sync.Mutex
	// prefix begins the names of the requests of one measurement, of which there were so many waves.
	prefix string
	waves  int
	// failures are the messages of those that have ended, empty for those that succeeded.
	failures map[string]string
}

// installResolving installs the roles, and starts none of their processes: what the API server takes without them is
// measured first.
func installResolving(ctx context.Context, b bench) (r *resolving, err error) {
	s, err := install(ctx, b, []string{"--roles=resolution,resolver-git"}, gitSettings)
	if err != nil {
		return nil, err
	}
	r = &resolving{system: s, prefix: "floor-", stop: func() {}}
	if r.client, err = versioned.NewForConfig(s.config); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return r, nil
}

// run starts the processes and the watch.
// The watch begins before any request exists, so that it sees the end of each.
func (r *resolving) run(ctx context.Context) error {
	processes, err := r.system.run(ctx, "resolution", "resolver-git")
	if err != nil {
		return err
	}
	r.lifecycle, r.resolver = processes[0], processes[1]
	factory := informers.NewSharedInformerFactoryWithOptions(r.client, 0, informers.WithNamespace(requestNamespace))
	_, err = factory.Resolution().V1beta1().ResolutionRequests().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: r.tellEnd, UpdateFunc: func(_, o any) { r.tellEnd(o) },
	})
	ctx, r.stop = context.WithCancel(ctx)
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	return err
}

func (r *resolving) close() error {
	r.stop()
	return r.system.close()
}

// tellEnd notes that a request of this measurement has ended, if its condition says so.
// It is called by the informer, for requests of earlier measurements too, so it looks at the prefix of the name.
func (r *resolving) tellEnd(o any) {
	request, ok := o.(*v1beta1.ResolutionRequest)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !ok || !strings.HasPrefix(request.Name, r.prefix) {
		return
	}
	for _, c := range request.Status.Conditions {
		switch c.Status {
		case metav1.ConditionTrue:
			r.failures[request.Name] = ""
		case metav1.ConditionFalse:
			r.failures[request.Name] = cmp.Or(c.Message, "no message")
		case metav1.ConditionUnknown: // it goes on
		}
	}
}

// gitRequest is a request for a file of a repository, by the resolver git.
// It always asks for the branch main, which the resolver has to look up.
func gitRequest(url, path string) *v1beta1.ResolutionRequest {
	r := &v1beta1.ResolutionRequest{}
	r.Labels = map[string]string{resolution.LabelType: "git"}
	for _, p := range [][2]string{{"url", url}, {"revision", "main"}, {"pathInRepo", path}} {
		r.Spec.Params = append(r.Spec.Params, v1beta1.Param{Name: p[0], Value: v1beta1.StringValue(p[1])})
	}
	return r
}

// createRequests creates requests, many at once, and calls what with each name that exists.
// The error is the first one; calls that have begun are waited for.
func (r *resolving) createRequests(ctx context.Context, n int, of func(i int) *v1beta1.ResolutionRequest, what func(name string) error) error {
	var group errgroup.Group
	group.SetLimit(creators)
	for i := range n {
		group.Go(func() error {
			request := of(i)
			request.Name = fmt.Sprintf("%s%05d", r.prefix, i)
			_, err := r.client.ResolutionV1beta1().ResolutionRequests(requestNamespace).Create(ctx, request, metav1.CreateOptions{FieldManager: "bench"})
			if err == nil && what != nil {
				err = what(request.Name)
			}
			return err
		})
	}
	return group.Wait()
}

// resolve creates requests and waits until all have succeeded.
// The time begins before the first creation and ends when the informer has seen the last condition. A failed request
// fails the measurement.
func (r *resolving) resolve(ctx context.Context, n int, of func(i int) *v1beta1.ResolutionRequest) (wall time.Duration, err error) {
	r.mu.Lock()
	r.waves++
	r.prefix, r.failures = fmt.Sprintf("w%d-", r.waves), map[string]string{}
	r.mu.Unlock()
	start := time.Now()
	if err := r.createRequests(ctx, n, of, nil); err != nil {
		return 0, err
	}
	err = clustertest.Until(ctx, patience, "the requests to end", func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.failures) < n {
			return fmt.Errorf("%d of %d have", len(r.failures), n)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	wall = time.Since(start)
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, message := range r.failures {
		if message != "" {
			return 0, fmt.Errorf("%s failed: %s", name, message)
		}
	}
	return wall, nil
}

func (r *resolving) deleteRequests(ctx context.Context) error {
	return r.client.ResolutionV1beta1().ResolutionRequests(requestNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}

// measureResolving measures requests for files of one git repository.
func measureResolving(ctx context.Context, b bench) (err error) {
	r, err := installResolving(ctx, b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := importRepository(ctx, filepath.Join(b.dir, "catalog.git"), writeCatalog); err != nil {
		return err
	}
	origin := serveGit(b.dir)
	defer origin.Close()
	url := origin.URL + "/1/catalog.git"
	file := func(files int) func(i int) *v1beta1.ResolutionRequest {
		return func(i int) *v1beta1.ResolutionRequest { return gitRequest(url, filePath(i%files)) }
	}
	// It comes before the roles run, because they would answer the requests.
	server, err := r.measureFloor(ctx, b.dir, file(1))
	if err != nil {
		return err
	}
	if err := r.run(ctx); err != nil {
		return err
	}
	rows := [][]string{
		{fmt.Sprintf("%d requests created at once", requestCount), "a second", "a second by CPU", "CPU of a request", "API server, etcd", "resolver", "lifecycle", "client, origin", "writes of the status"},
		{"one write of the status, no process of Sluice", "", bySeconds(server), "", millis(server / requestCount), "", "", "", "1"},
	}
	row, err := r.measureRequests(ctx, file(50))
	if err != nil {
		return err
	}
	printTable(append(rows, append([]string{"branch, 50 files"}, row...))...)
	fmt.Printf("peak memory of the resolver: %s\n", mebibytes(memoryOf(r.resolver.PID(), "VmHWM")))
	fmt.Println(`"by CPU" is the most that a machine without other load could reach: all its processors are theirs.`)
	return nil
}

// bySeconds is the rate of requests that take so much processor time in all.
func bySeconds(cpu time.Duration) string {
	return fmt.Sprintf("%.0f", float64(requestCount*runtime.NumCPU())/cpu.Seconds())
}

// measureRequests returns the columns of the table behind the title.
// It reads processor times before and after, of the API server, the two roles, and this process with git's server,
// and divides by the number of requests.
func (r *resolving) measureRequests(ctx context.Context, of func(i int) *v1beta1.ResolutionRequest) ([]string, error) {
	labels := []string{`resource="resolutionrequests"`, `subresource="status"`}
	// Git's server runs in children of this process, so their times are those of the origin.
	used := func() [4]time.Duration {
		own := cpuOf(syscall.RUSAGE_SELF) + cpuOf(syscall.RUSAGE_CHILDREN)
		return [4]time.Duration{cpuOfTree(r.cluster.PID()), cpuOfTree(r.resolver.PID()), cpuOfTree(r.lifecycle.PID()), own}
	}
	writes, err := r.requestsServed(ctx, labels...)
	if err != nil {
		return nil, err
	}
	before := used()
	wall, err := r.resolve(ctx, requestCount, of)
	if err != nil {
		return nil, err
	}
	after := used()
	all, err := r.requestsServed(ctx, labels...)
	if err != nil {
		return nil, err
	}
	var cells []string
	var total time.Duration
	for i := range after {
		cells = append(cells, millis((after[i]-before[i])/requestCount))
		total += after[i] - before[i]
	}
	out := append([]string{fmt.Sprintf("%.0f", requestCount/wall.Seconds()), bySeconds(total), millis(total / requestCount)}, cells...)
	return append(out, fmt.Sprintf("%.3f", (all-writes)/requestCount)), r.deleteRequests(ctx)
}

// measureFloor returns the least processor time of the API server for the requests: the same creations, and one write of each status as the
// resolver writes it, while no process of Sluice runs. Policies and the CRD exist, and nobody watches.
// It acts as the ServiceAccount of the resolver, so that the policies about its writes are evaluated as well.
func (r *resolving) measureFloor(ctx context.Context, dir string, of func(i int) *v1beta1.ResolutionRequest) (time.Duration, error) {
	file := filepath.Join(dir, "kubeconfig")
	if err := nodeless.Kubeconfig(ctx, r.kube, r.config, systemNamespace, "sluice-resolver-git", file); err != nil {
		return 0, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return 0, err
	}
	config.QPS = -1
	writer, err := metadata.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	// The status has the fields and about the size that the resolver writes, so that etcd stores as
	// much.
	source := &v1beta1.RefSource{URI: "git+http://127.0.0.1/catalog.git", Digest: map[string]string{"sha1": "0123456789012345678901234567890123456789"}, EntryPoint: filePath(1)}
	status, err := json.Marshal(map[string]any{"status": v1beta1.ResolutionRequestStatus{
		Data: base64.StdEncoding.EncodeToString(fileText(1)), ObservedGeneration: 1, Source: source, RefSource: source,
		Annotations: map[string]string{"commit": "0123456789012345678901234567890123456789", "content-type": "application/x-yaml"},
		Conditions:  []v1beta1.Condition{{Type: "Succeeded", Status: metav1.ConditionTrue, Reason: "Succeeded", LastTransitionTime: metav1.Now()}},
	}})
	if err != nil {
		return 0, err
	}
	requests := writer.Resource(v1beta1.SchemeGroupVersion.WithResource("resolutionrequests")).Namespace(requestNamespace)
	before := cpuOfTree(r.cluster.PID())
	err = r.createRequests(ctx, requestCount, of, func(name string) error {
		_, err := requests.Patch(ctx, name, types.MergePatchType, status, metav1.PatchOptions{FieldManager: "sluice"}, "status")
		return err
	})
	return cpuOfTree(r.cluster.PID()) - before, errors.Join(err, r.deleteRequests(ctx))
}

// largeRuns is the number of times that one file is resolved, each time from an address that the resolver has not seen.
const largeRuns = 3

// measureLarge measures one file of a folder with a million entries that the resolver has never seen.
// The folder has a million names, so that the tree alone has tens of megabytes. The resolver is to fetch no more than
// it needs for one of them.
func measureLarge(ctx context.Context, b bench) (err error) {
	r, err := installResolving(ctx, b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.run(ctx); err != nil {
		return err
	}
	if err := makeWideRepository(ctx, filepath.Join(b.dir, "wide.git")); err != nil {
		return err
	}
	origin := serveGit(b.dir)
	defer origin.Close()
	var resolver, git []time.Duration
	for i := range largeRuns {
		url := fmt.Sprintf("%s/%d/wide.git", origin.URL, i)
		before, children := cpuOfTree(r.resolver.PID()), cpuOf(syscall.RUSAGE_CHILDREN)
		if _, err := r.resolve(ctx, 1, func(int) *v1beta1.ResolutionRequest { return gitRequest(url, widePath(7)) }); err != nil {
			return err
		}
		resolver, git = append(resolver, cpuOfTree(r.resolver.PID())-before), append(git, cpuOf(syscall.RUSAGE_CHILDREN)-children)
	}
	printTable([]string{"one file, cold", "CPU of the resolver", "CPU of git's server"},
		[]string{"a million entries in one folder", millis(quantile(resolver, 0.5)), millis(quantile(git, 0.5))})
	return nil
}
