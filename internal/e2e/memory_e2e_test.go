//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/tools/bundletest"
	"sluice.dev/tools/draws"
	"sluice.dev/tools/gittest"
)

// memoryLimits are those of the Deployments, in bytes, by role.
var memoryLimits = map[string]int64{
	"resolution": 256 << 20, "resolver-git": 512 << 20, "resolver-bundles": 512 << 20, "resolver-http": 256 << 20, "resolver-hub": 256 << 20,
	"resolver-cluster": 256 << 20,
}

// resident is how much memory a process and its children have, in bytes; each is told of.
func resident(pid int, tell func(command string, bytes int64)) int64 {
	var sum int64
	// The command line first: a child has its parent's, and its parent's memory too, until it becomes another program.
	command := commandLine(pid)
	for line := range strings.SplitSeq(readFile(fmt.Sprintf("/proc/%d/status", pid)), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			sum += kb << 10
		}
	}
	tell(command, sum)
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		for child := range strings.FieldsSeq(readFile(t)) {
			if n, err := strconv.Atoi(child); err == nil && commandLine(n) != command {
				sum += resident(n, tell)
			}
		}
	}
	return sum
}

func commandLine(pid int) string {
	return strings.ReplaceAll(readFile(fmt.Sprintf("/proc/%d/cmdline", pid)), "\x00", " ")
}

// readFile reads a file of a process, which may have ended.
func readFile(name string) string {
	data, _ := os.ReadFile(name)
	return string(data)
}

// watchMemory samples the memory of a process until the function is called, which returns the highest sample and who had it.
func watchMemory(p *process) func() (peak int64, parts string) {
	end := make(chan struct{})
	var wg sync.WaitGroup
	var peak int64
	var most string
	wg.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond) // reading /proc takes processor time, and peaks last longer
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				var parts strings.Builder
				if now := resident(p.PID(), func(command string, bytes int64) {
					_, _ = fmt.Fprintf(&parts, "\n%d MiB: %.60s", bytes>>20, command)
				}); now > peak {
					peak, most = now, parts.String()
				}
			}
		}
	})
	return func() (int64, string) {
		close(end)
		wg.Wait()
		return peak, most
	}
}

// under runs requests in one namespace and wants each process to stay under the limit of its role. It returns the reasons of
// those that failed, and their messages.
func (s *system) under(t *testing.T, started map[string]*process, requests []*v1beta1.ResolutionRequest) map[string]string {
	t.Helper()
	ended := func(ctx context.Context, outcome string) (n int) {
		for _, p := range started {
			n += count(ctx, t, p, outcome)
		}
		return n
	}
	before, right := ended(t.Context(), ""), ended(t.Context(), "succeeded")
	most := map[string]func() (int64, string){}
	for role, p := range started {
		most[role] = watchMemory(p)
	}
	ns := s.namespace(t)
	began := time.Now()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	s.create(t, ns, requests...)
	eventually(t, fmt.Sprintf("%d requests to end", len(requests)), func(ctx context.Context) error {
		// To list the requests would move all of their content each time. To read the metrics takes processor time, too.
		<-look.C
		if n := ended(ctx, "") - before; n < len(requests) {
			return fmt.Errorf("%d of %d have ended", n, len(requests))
		}
		return nil
	})
	t.Logf("%d requests in %s", len(requests), time.Since(began).Round(time.Millisecond))
	for role, peak := range most {
		bytes, parts := peak()
		t.Logf("%s: at most %d MiB", role, bytes>>20)
		if bytes > memoryLimits[role] {
			t.Errorf("%s: %d MiB, over the limit of %d:%s", role, bytes>>20, memoryLimits[role]>>20, parts)
		}
	}
	if ended(t.Context(), "succeeded")-right == len(requests) {
		requests = nil // to read their content takes longer than all else
	}
	failed := map[string]string{}
	for _, r := range requests {
		var got *v1beta1.ResolutionRequest
		eventually(t, r.Name+" to be read", func(ctx context.Context) (err error) {
			got, err = s.client.ResolutionV1beta1().ResolutionRequests(ns).Get(ctx, r.Name, metav1.GetOptions{})
			return err
		})
		if c := got.Status.Succeeded(); c == nil || c.Status != metav1.ConditionTrue {
			failed[got.Status.Annotations[resolution.AnnotationReason]] = fmt.Sprintf("%s: %+v", r.Name, c)
		}
	}
	if err := s.kube.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if err := s.client.ResolutionV1beta1().ResolutionRequests(ns).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	return failed
}

// count is how many requests a process has ended, with that outcome if it is not empty.
func count(ctx context.Context, t *testing.T, p *process, outcome string) (n int) {
	t.Helper()
	text, err := p.Get(ctx, "/metrics")
	if err != nil {
		if ctx.Err() == nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		return 0
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "sluice_resolution_requests_total{") && strings.Contains(line, `outcome="`+outcome) {
			f, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
			if err != nil {
				t.Fatal(err)
			}
			n += int(f)
		}
	}
	return n
}

// wideTree is a repository whose root has a million entries, in a pack of a few megabytes.
func wideTree(t *testing.T, root, name string) {
	t.Helper()
	o := gittest.NewOrigin(t, root, name, map[string]string{"task.yaml": taskText})
	blob := gittest.Run(t, o.Dir, nil, "rev-parse", "main:task.yaml")
	id, err := hex.DecodeString(blob)
	if err != nil {
		t.Fatal(err)
	}
	var tree bytes.Buffer
	for i := range 1_000_000 {
		fmt.Fprintf(&tree, "100644 %s\x00%s", base36(i), id)
	}
	tree.WriteString("100644 task.yaml\x00" + string(id))
	object := gittest.Run(t, o.Dir, &tree, "hash-object", "-t", "tree", "-w", "--literally", "--stdin")
	commit := gittest.Run(t, o.Dir, nil, "commit-tree", "-m", "wide", object)
	gittest.Run(t, o.Dir, nil, "update-ref", "refs/heads/main", commit)
}

// base36 is a number in four digits, in the order of the numbers.
func base36(n int) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyz"
	return string([]byte{digits[n/(36*36*36)], digits[n/(36*36)%36], digits[n/36%36], digits[n%36]})
}

// manyRefs is a repository with 190,000 branches and tags of 20,000 commits. It returns some commits.
func manyRefs(t *testing.T, root, name string) (commits []string) {
	t.Helper()
	o := gittest.NewOrigin(t, root, name, map[string]string{"task.yaml": taskText})
	var history, refs strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&history, "commit refs/heads/main\ncommitter c <c@example.com> %d +0000\ndata 1\nm\n", 1_700_000_000+i)
		if i == 0 {
			history.WriteString("from refs/heads/main^0\n")
		}
	}
	history.WriteString("done\n")
	gittest.Run(t, o.Dir, strings.NewReader(history.String()), "fast-import", "--quiet", "--done")
	commits = strings.Fields(gittest.Run(t, o.Dir, nil, "rev-list", "main"))
	refs.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for i := range 190_000 {
		fmt.Fprintf(&refs, "%s refs/tags/a-name-of-some-length-%06d\n", commits[i%len(commits)], i)
	}
	if err := os.WriteFile(filepath.Join(o.Dir, "packed-refs"), []byte(refs.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return commits
}

// What the memory of the Deployments is for: whatever requests come, each process stays under its limit and ends them.
func TestE2EProcessesStayUnderTheirMemoryLimit(t *testing.T) {
	s := standsAlone(t)
	server := gittest.NewServer(t, true)
	large := func(seed, size int) string {
		text := make([]byte, 0, size)
		random := rand.New(rand.NewPCG(uint64(seed), 1))
		for text = append(text, "apiVersion: tekton.dev/v1\nkind: Task\nmetadata: {name: build}\n"...); len(text) < size; {
			text = fmt.Appendf(text, "# %d\n", random.Uint64())
		}
		return string(text)
	}
	files := map[string]string{"task.yaml": large(0, 872<<10)}
	for i := range 40 {
		files[fmt.Sprintf("large/%d.yaml", i)] = large(i, 900<<10)
		files[fmt.Sprintf("small/%d.yaml", i)] = large(i, 900)
	}
	gittest.NewOrigin(t, server.Root, "r.git", files)
	wideTree(t, server.Root, "wide.git")
	commits := manyRefs(t, server.Root, "refs.git")
	pages := map[string]any{"/endless": http.HandlerFunc(endless)}
	for i := range 10 {
		pages[fmt.Sprintf("/file/%d", i)] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(files[fmt.Sprintf("large/%d.yaml", i)]))
		})
		pages[fmt.Sprintf("/api/v1/packages/tekton-task/tekton-catalog-tasks/build/0.%d.0", i)] = map[string]any{"data": map[string]string{"manifestRaw": files[fmt.Sprintf("large/%d.yaml", i)]}}
	}
	web := hub(t, pages)
	registry := images(t)
	for i := range 10 {
		push(t, registry, fmt.Sprintf("b%d", i), bundletest.Task("build", files[fmt.Sprintf("large/%d.yaml", i)]))
	}
	open := func(more ...string) map[string]string {
		m := map[string]string{"allowed-addresses": "127.0.0.1", "fetch-timeout": "10m"}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	s.configure(t, "git-resolver-config", open("ca-bundle", server.CA))
	s.configure(t, "http-resolver-config", open("allow-plain-http", "true"))
	s.configure(t, "hubresolver-config", open("artifact-hub-urls", "["+web.URL+"]", "allow-plain-http", "true"))
	s.configure(t, "bundleresolver-config", open("plain-http-registries", registry))
	s.configure(t, "config-defaults", map[string]string{"default-maximum-resolution-timeout": "10m"})
	started := map[string]*process{}
	for role, limit := range memoryLimits {
		started[role] = s.start(t, role, flagged(fmt.Sprintf("--memory=%d", limit)))
	}
	n := 0
	request := func(resolver string, params ...string) *v1beta1.ResolutionRequest {
		n++
		return newRequest(fmt.Sprintf("r%d", n), resolver, params...)
	}
	ask := func(repository, path string, more ...string) *v1beta1.ResolutionRequest {
		return request("git", append([]string{"url", server.URL + "/" + repository, "pathInRepo", path}, more...)...)
	}
	times := func(n int, f func(int) *v1beta1.ResolutionRequest) (out []*v1beta1.ResolutionRequest) {
		for i := range n {
			out = append(out, f(i))
		}
		return out
	}
	all := func(t *testing.T, requests []*v1beta1.ResolutionRequest, reasons ...string) {
		t.Helper()
		for reason, message := range s.under(t, started, requests) {
			if !slices.Contains(reasons, reason) {
				t.Errorf("%s: %.600s", reason, message)
			}
		}
	}
	t.Run("a root tree of a million entries", func(t *testing.T) {
		all(t, append(times(4, func(i int) *v1beta1.ResolutionRequest { return ask("wide.git", base36(i*1000)) }), ask("wide.git", "task.yaml")))
	})
	t.Run("short commits among 190,000 refs", func(t *testing.T) {
		all(t, times(16, func(i int) *v1beta1.ResolutionRequest {
			return ask("refs.git", "task.yaml", "revision", commits[i*1000][:12])
		}))
	})
	t.Run("many requests for one large file", func(t *testing.T) {
		all(t, times(draws.Count(400), func(int) *v1beta1.ResolutionRequest { return ask("r.git", "task.yaml") }))
	})
	t.Run("large parameters for nobody", func(t *testing.T) {
		all(t, times(draws.Count(2000), func(int) *v1beta1.ResolutionRequest { return request("nobody", "text", strings.Repeat("x", 60<<10)) }), "UnknownResolver")
	})
	for round := range draws.Seeds(10) {
		random := rand.New(rand.NewPCG(round, 2))
		many := 40 + random.IntN(80)
		if !draws.All() {
			many /= 2
		}
		t.Run(fmt.Sprintf("random mix %d", round), func(t *testing.T) {
			all(t, times(many, func(int) *v1beta1.ResolutionRequest {
				mode := []string{"auto", "always", "never"}[random.IntN(3)]
				i := random.IntN(10)
				switch random.IntN(14) {
				case 0:
					return ask("wide.git", base36(random.IntN(1_000_000)), "cache", mode)
				case 1:
					return ask("wide.git", "/", "cache", mode) // too many files
				case 2:
					return ask("r.git", "large", "cache", mode) // too large together
				case 3, 4:
					return ask("r.git", fmt.Sprintf("large/%d.yaml", random.IntN(40)), "cache", mode)
				case 5:
					return ask("wide.git", "none.yaml", "cache", mode)
				case 6:
					return ask("refs.git", "task.yaml", "cache", mode, "revision", commits[random.IntN(len(commits))][:12])
				case 7:
					return request("http", "url", web.URL+"/endless", "cache", mode)
				case 8:
					return request("http", "url", fmt.Sprintf("%s/file/%d", web.URL, i), "cache", mode)
				case 9:
					return request("hub", "name", "build", "version", fmt.Sprintf("0.%d.0", i), "cache", mode)
				case 10:
					return request("bundles", "bundle", fmt.Sprintf("%s/b%d:v1", registry, i), "name", "build", "kind", "task", "cache", mode)
				case 11:
					return request("cluster", "kind", "task", "name", "none", "namespace", "default", "text", strings.Repeat("x", random.IntN(60<<10)))
				}
				return ask("r.git", fmt.Sprintf("small/%d.yaml", random.IntN(40)), "cache", mode)
			}), "ContentTooLarge", "NotFound", "InvalidParams", "RemoteUnavailable") // a busy machine sends slowly
		})
	}
	t.Run("a start with all that has finished", func(t *testing.T) {
		ns := s.namespace(t)
		requests := times(draws.Count(200), func(i int) *v1beta1.ResolutionRequest { return ask("r.git", fmt.Sprintf("large/%d.yaml", i%40)) })
		s.create(t, ns, requests...)
		for _, r := range requests {
			r.Namespace = ns
			s.end(t, r)
		}
		for role, limit := range memoryLimits {
			started[role].stop(t)
			started[role] = s.start(t, role, flagged(fmt.Sprintf("--memory=%d", limit)))
		}
		all(t, times(5, func(i int) *v1beta1.ResolutionRequest { return ask("r.git", fmt.Sprintf("small/%d.yaml", i)) }))
	})
}
