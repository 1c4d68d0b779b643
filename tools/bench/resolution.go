package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"runtime"
	"slices"
	"time"
)

const (
	// requestCount is the number of requests that are created at once.
	requestCount = 2000
	// loadTimeout bounds one wave of them.
	loadTimeout = 2 * time.Minute
)

// allowLoopback is the setting that each resolver needs to reach the servers of the bench.
const allowLoopback = "127.0.0.1"

// waveNote goes below a table of waves.
const waveNote = "aim: all succeed, at least 150/s, p99 under 15 s; \"by CPU\" is what the processor time of all sides comes to\n" +
	"if all processors are theirs, the most that a machine without other load could reach"

// wave is one measurement: many requests of one kind, created at once.
type wave struct {
	title string
	role  *role
	// before is done ahead of the measurement, to fill caches for example.
	before func(ctx context.Context, w *watcher) error
	what   func(i int) ask
}

// resolveGit measures requests for files of one git repository.
func resolveGit(ctx context.Context, c *config) (err error) {
	s, err := install(ctx, c.sluice, map[string]map[string]string{"git-resolver-config": {"allowed-addresses": allowLoopback}})
	if err != nil {
		return err
	}
	defer func() { err = c.closeSystem(s, err) }()
	repo, origin, err := s.catalog(ctx)
	if err != nil {
		return err
	}
	defer origin.Close() //nolint:errcheck // nobody uses it any more
	id, err := runGit(ctx, repo, nil, "rev-parse", "main")
	if err != nil {
		return err
	}
	url := origin.url("/catalog.git")
	one := ask{"git", [][2]string{{"url", url}, {"revision", "main"}, {"pathInRepo", filePath(1)}}}
	if err := c.floor(ctx, s, "floor", one); err != nil {
		return err
	}
	roles, err := s.start(ctx, "resolution", "resolver-git")
	if err != nil {
		return err
	}
	file := func(revision string, files int, more ...[2]string) func(i int) ask {
		return func(i int) ask {
			return ask{"git", append([][2]string{{"url", url}, {"revision", revision}, {"pathInRepo", filePath(i % files)}}, more...)}
		}
	}
	commit := file(id, resolvedFiles)
	if err := c.waves(ctx, s, roles[0], []wave{
		{title: "branch, 50 files", role: roles[1], what: file("main", resolvedFiles)},
		{title: "branch, one file", role: roles[1], what: file("main", 1)},
		{title: "branch, 50 files, cache: never", role: roles[1], what: file("main", resolvedFiles, [2]string{"cache", "never"})},
		{title: "commit, 50 files, cached", role: roles[1], what: commit, before: func(ctx context.Context, w *watcher) error {
			_, err := w.run(ctx, "warm", resolvedFiles, creators, commit)
			return err
		}},
	}, waveNote); err != nil {
		return err
	}
	return nil
}

// closeSystem ends a system, and tells what its processes have complained of.
func (c *config) closeSystem(s *system, err error) error {
	if closed := s.close(); err == nil {
		err = closed
	}
	if text := s.complaints(); text != "" {
		const most = 2000
		fmt.Fprintf(c.out, "what the processes logged:\n%s\n", text[:min(len(text), most)])
	}
	return err
}

// waves measures one wave after the other and prints a table with a column for each.
func (c *config) waves(ctx context.Context, s *system, lifecycle *role, list []wave, note string) error {
	rows := [][]string{{fmt.Sprintf("%d requests created at once", requestCount)}}
	for i, w := range list {
		s.waves++
		lines, err := c.measure(ctx, s, lifecycle, w, fmt.Sprintf("bench-%d", s.waves))
		if err != nil {
			return fmt.Errorf("%s: %w", w.title, err)
		}
		rows[0] = append(rows[0], w.title)
		for j, line := range lines {
			if i == 0 {
				rows = append(rows, []string{line[0]})
			}
			rows[j+1] = append(rows[j+1], line[1])
		}
	}
	c.table(rows...)
	fmt.Fprintln(c.out, note)
	return nil
}

// usage is the use of resources up to a moment.
type usage struct {
	resolver, git, lifecycle, apiServer, bench time.Duration
	api, resolverWrites, lifecycleWrites       counters
}

func (s *system) usage(ctx context.Context, resolver, lifecycle *role) (u usage, err error) {
	u = usage{
		resolver: readStat(resolver.PID()).own, git: cpuOfChildren(resolver.PID()), lifecycle: readStat(lifecycle.PID()).own,
		apiServer: cpuOfTree(s.cluster.PID()), bench: readStat(os.Getpid()).own + readStat(os.Getpid()).children,
	}
	if u.api, err = metrics(ctx, s.admin, s.cluster.Server+"/metrics", "apiserver_request_total"); err != nil {
		return u, err
	}
	const writes = "sluice_resolution_writes_total"
	if u.resolverWrites, err = metrics(ctx, http.DefaultClient, "http://"+resolver.Listen+"/metrics", writes); err != nil {
		return u, err
	}
	u.lifecycleWrites, err = metrics(ctx, http.DefaultClient, "http://"+lifecycle.Listen+"/metrics", writes)
	return u, err
}

// measure runs one wave in a namespace of its own; the result is lines of name and value.
func (c *config) measure(ctx context.Context, s *system, lifecycle *role, w wave, namespace string) ([][2]string, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	if err := s.namespace(ctx, namespace); err != nil {
		return nil, err
	}
	watch, err := s.watch(ctx, namespace)
	if err != nil {
		return nil, err
	}
	defer watch.stop()
	if w.before != nil {
		if err := w.before(ctx, watch); err != nil {
			return nil, err
		}
	}
	forgetPeak(w.role.PID())
	forgetPeak(lifecycle.PID())
	peakOfGit := peakOfChildren(ctx, w.role.PID())
	before, err := s.usage(ctx, w.role, lifecycle)
	if err != nil {
		return nil, err
	}
	out, err := watch.run(ctx, "r", requestCount, creators, w.what)
	gitMemory := peakOfGit()
	if err != nil {
		return nil, err
	}
	after, err := s.usage(ctx, w.role, lifecycle)
	if err != nil {
		return nil, err
	}
	for _, text := range slices.Sorted(maps.Keys(out.failures)) {
		fmt.Fprintf(c.out, "%s: %d times: %s\n", w.title, out.failures[text], text)
	}
	lines := out.lines()
	lines = append(lines, usageLines(before, after)...)
	lines = append(lines,
		[2]string{"peak memory of the resolver", mebibytes(memoryOf(w.role.PID(), "VmHWM"))},
		[2]string{"peak memory of its git processes", mebibytes(gitMemory)},
		[2]string{"peak memory of the lifecycle controller", mebibytes(memoryOf(lifecycle.PID(), "VmHWM"))},
		[2]string{"load of the machine", loadAverage()},
	)
	return lines, watch.clear(ctx)
}

func (o outcome) lines() [][2]string {
	return [][2]string{
		{"succeeded", fmt.Sprintf("%d of %d", o.succeeded, o.asked)},
		{"wall", fmt.Sprintf("%.2f s", o.wall.Seconds())},
		{"requests per second", fmt.Sprintf("%.0f", float64(o.asked)/o.wall.Seconds())},
		{"p50, creation to Succeeded as a watch sees it", millis(quantile(o.latencies, 0.5))},
		{"p99", millis(quantile(o.latencies, 0.99))},
	}
}

// usageLines describes the use of resources by a wave of requests, per request.
func usageLines(before, after usage) [][2]string {
	cpu := func(a, b time.Duration) string { return millis((b - a) / requestCount) }
	per := func(n float64) string { return fmt.Sprintf("%.3f", n/requestCount) }
	calls := func(labels ...string) float64 {
		return after.api.since(before.api, "apiserver_request_total", labels...)
	}
	const requests = `resource="resolutionrequests"`
	var other float64
	for _, resource := range []string{"events", "secrets", "serviceaccounts", "tasks", "subjectaccessreviews"} {
		other += calls(`resource="` + resource + `"`)
	}
	all := after.resolver + after.git + after.lifecycle + after.apiServer + after.bench -
		before.resolver - before.git - before.lifecycle - before.apiServer - before.bench
	return [][2]string{
		{"requests per second by CPU", fmt.Sprintf("%.0f", float64(requestCount*runtime.NumCPU())/all.Seconds())},
		{"CPU per request: resolver", cpu(before.resolver, after.resolver)},
		{"CPU per request: its git processes", cpu(before.git, after.git)},
		{"CPU per request: lifecycle controller", cpu(before.lifecycle, after.lifecycle)},
		{"CPU per request: API server, etcd, controllers", cpu(before.apiServer, after.apiServer)},
		{"CPU per request: client and servers of the bench", cpu(before.bench, after.bench)},
		{"status writes per request: resolver", per(after.resolverWrites.since(before.resolverWrites, "sluice_resolution_writes_total"))},
		{"status writes per request: lifecycle controller", per(after.lifecycleWrites.since(before.lifecycleWrites, "sluice_resolution_writes_total"))},
		{"status writes per request, as the API server counts", per(calls(requests, `subresource="status"`))},
		{"reads of requests, each", per(calls(requests, `verb="GET"`))},
		{"calls for events, Secrets, accounts, Tasks, reviews", per(other)},
	}
}

func mebibytes(kib int) string { return fmt.Sprintf("%.0f MiB", float64(kib)/1024) }
