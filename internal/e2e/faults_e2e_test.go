//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/tools/gittest"
)

// loopback lets a resolver reach the servers of the tests.
var loopback = map[string]string{"allowed-addresses": "127.0.0.1"}

// gate holds up requests for packs of some repositories until it is opened. What is held up when the client goes is let go.
type gate struct {
	arrived, open chan struct{}
	once          sync.Once
}

func newGate() *gate {
	return &gate{arrived: make(chan struct{}), open: make(chan struct{})}
}

func (g *gate) intercept(prefix string) gittest.Intercept {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, prefix) || r.Method != http.MethodPost {
			return false
		}
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if err != nil || !strings.Contains(string(body), "want ") {
			return err != nil
		}
		select {
		case <-g.open:
			return false
		default:
		}
		// A part of the answer, so that something is half done.
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		_, _ = w.Write([]byte("000dpackfile\n0009\x01PACK"))
		_ = http.NewResponseController(w).Flush()
		g.once.Do(func() { close(g.arrived) })
		select {
		case <-g.open:
			// The connection breaks; whoever asks again gets all of it.
			panic(http.ErrAbortHandler)
		case <-r.Context().Done():
		}
		return true
	}
}

// catalog serves a repository /good.git and a repository /held.git with 50 files each, the second behind a gate.
func catalog(t *testing.T) (*gittest.Server, *gate) {
	t.Helper()
	s := gittest.NewServer(t, false)
	files := map[string]string{}
	for i := range 50 {
		files[fmt.Sprintf("task-%d.yaml", i)] = content(i)
	}
	gittest.NewOrigin(t, s.Root, "good.git", files)
	gittest.NewOrigin(t, s.Root, "held.git", files)
	g := newGate()
	s.Set(g.intercept("/held.git"))
	return s, g
}

func content(i int) string {
	return fmt.Sprintf("apiVersion: tekton.dev/v1\nkind: Task\nmetadata: {name: task-%d}\n", i)
}

// wave is n requests for files of a repository of the catalog.
func wave(url string, n int) []*v1beta1.ResolutionRequest {
	var out []*v1beta1.ResolutionRequest
	for i := range n {
		out = append(out, newRequest(fmt.Sprintf("r%d", i), "git", "url", url, "revision", "main", "pathInRepo", fmt.Sprintf("task-%d.yaml", i%50)))
	}
	return out
}

// wantWave waits for the end of a wave, of which all succeed.
func (s *system) wantWave(t *testing.T, ns string, n int) {
	t.Helper()
	for name, r := range s.ended(t, ns, n) {
		var i int
		if _, err := fmt.Sscanf(name, "r%d", &i); err != nil {
			t.Fatal(err)
		}
		wantContent(t, r, content(i%50))
	}
}

// some waits until so many requests of the namespace have ended.
func (s *system) some(t *testing.T, ns string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d requests to end", n), func(ctx context.Context) error {
		_, ended, err := s.list(ctx, ns)
		if err == nil && ended < n {
			err = fmt.Errorf("%d have ended", ended)
		}
		return err
	})
}

// inProgress tells how many requests of the namespace have not ended.
func (s *system) inProgress(t *testing.T, ns string) int {
	t.Helper()
	all, ended, err := s.list(t.Context(), ns)
	if err != nil {
		t.Fatal(err)
	}
	return len(all) - ended
}

// noneWorksIn waits until no process is left that has the folder in its command line or as its working directory.
func noneWorksIn(t *testing.T, folder string) {
	t.Helper()
	if _, err := os.Stat("/proc/self/cwd"); err != nil {
		t.Log("there is no /proc: processes are not looked for")
		return
	}
	eventually(t, "processes to go", func(context.Context) error {
		dirs, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
			line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			if strings.HasPrefix(cwd, folder) || bytes.Contains(line, []byte(folder)) {
				return fmt.Errorf("%s: %s in %s", dir, bytes.ReplaceAll(line, []byte{0}, []byte(" ")), cwd)
			}
		}
		return nil
	})
}

// nothingHalfDone looks for what fetches that were broken off have left in the folder of a resolver, which has mirrors.
func nothingHalfDone(t *testing.T, cache string) {
	t.Helper()
	if mirrors, err := filepath.Glob(filepath.Join(cache, "mirrors", "*", "HEAD")); err != nil || len(mirrors) == 0 {
		t.Errorf("there are no mirrors in %s (%v)", cache, err)
	}
	for _, pattern := range []string{"mirrors/*/incoming-*", "mirrors/*/objects/*/tmp_*", "trash-*"} {
		if left, err := filepath.Glob(filepath.Join(cache, pattern)); err != nil || len(left) > 0 {
			t.Errorf("left are %v (%v)", left, err)
		}
	}
}

func TestE2EAKilledResolverLosesNoneOf500Requests(t *testing.T) {
	s := standsAlone(t)
	s.start(t, "resolution")
	killInTheMiddle(t, s, 500)
}

// killInTheMiddle kills a resolver that has so many requests; the lifecycle controller runs already.
func killInTheMiddle(t *testing.T, s *system, requests int) {
	t.Helper()
	s.configure(t, "git-resolver-config", loopback)
	repos, held := catalog(t)
	one, other, half := s.namespace(t), s.namespace(t), requests/2
	cache := t.TempDir()
	first := s.start(t, "resolver-git", named("git-0", cache))
	s.create(t, other, wave(repos.URL+"/held.git", half)...)
	<-held.arrived
	s.create(t, one, wave(repos.URL+"/good.git", half)...)
	s.some(t, one, half*2/5)
	first.Kill()
	t.Logf("when it was killed %d and %d of %d were in progress", s.inProgress(t, one), s.inProgress(t, other), half)
	if n := s.inProgress(t, other); n != half {
		t.Errorf("%d of those that were held up are in progress", n)
	}
	noneWorksIn(t, cache)
	close(held.open)
	// The container is started again: the same Pod, the same folder.
	s.start(t, "resolver-git", named("git-0", cache))
	s.wantWave(t, one, half)
	s.wantWave(t, other, half)
	nothingHalfDone(t, cache)
}

func TestE2ETwoReplicasOneOfThemKilled(t *testing.T) {
	t.Parallel()
	s := standsAlone(t)
	s.configure(t, "git-resolver-config", loopback)
	repos, held := catalog(t)
	one, other := s.namespace(t), s.namespace(t)
	s.start(t, "resolution")
	first, second := s.start(t, "resolver-git"), s.start(t, "resolver-git")
	s.create(t, other, wave(repos.URL+"/held.git", 100)...)
	<-held.arrived
	s.create(t, one, wave(repos.URL+"/good.git", 100)...)
	s.some(t, one, 50)
	first.Kill()
	close(held.open)
	s.wantWave(t, one, 100)
	s.wantWave(t, other, 100)
	if _, err := second.Get(t.Context(), "/healthz"); err != nil {
		t.Errorf("the other replica: %v", err)
	}
}

func TestE2EARestartedAPIServerLosesNothing(t *testing.T) {
	s := standsAlone(t)
	lifecycle := s.start(t, "resolution")
	restartTheAPIServer(t, s, 200)
	if _, err := lifecycle.Get(t.Context(), "/readyz"); err != nil {
		t.Errorf("%s: %v", lifecycle.Name, err)
	}
}

// restartTheAPIServer kills the API server while so many requests are pending; the lifecycle controller runs already.
func restartTheAPIServer(t *testing.T, s *system, pending int) {
	t.Helper()
	s.configure(t, "git-resolver-config", loopback)
	repos, held := catalog(t)
	one, other := s.namespace(t), s.namespace(t)
	resolver := s.start(t, "resolver-git")
	s.create(t, other, wave(repos.URL+"/held.git", pending/2)...)
	<-held.arrived
	s.create(t, one, wave(repos.URL+"/good.git", pending/2)...)
	s.some(t, one, 10)
	// Results come while nobody can take them.
	server, err := url.Parse(s.admin.Host)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	back := make(chan struct{})
	wg.Go(func() {
		defer close(held.open)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			conn, err := net.Dial("tcp", server.Host)
			if err != nil {
				return
			}
			_ = conn.Close()
			select {
			case <-back:
				return
			case <-tick.C:
			}
		}
	})
	s.cluster.Crash(t)
	close(back)
	wg.Wait()
	s.wantWave(t, one, pending/2)
	s.wantWave(t, other, pending/2)
	if _, err := resolver.Get(t.Context(), "/readyz"); err != nil {
		t.Errorf("%s: %v", resolver.Name, err)
	}
	// The conversion webhook is found again too, and so is the way to new requests.
	old, err := s.client.ResolutionV1alpha1().ResolutionRequests(one).Get(t.Context(), "r0", metav1.GetOptions{})
	if err != nil || old.Spec.Params["pathInRepo"] != "task-0.yaml" || old.Status.Data == "" {
		t.Errorf("by v1alpha1: %+v, %v", old, err)
	}
	wantContent(t, s.resolve(t, one, newRequest("after", "git", "url", repos.URL+"/good.git", "pathInRepo", "task-1.yaml")), content(1))
}

func TestE2EBrokenGitServersGiveTrueReasons(t *testing.T) {
	s := standsAlone(t)
	s.configure(t, "git-resolver-config", map[string]string{
		"allowed-addresses": "127.0.0.1", "backoff-duration": "50ms", "backoff-steps": "3", "fetch-timeout": "20s",
	})
	repos := gittest.NewServer(t, false)
	reset := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
	var hanging atomic.Int64
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		hanging.Add(1)
		<-r.Context().Done()
		hanging.Add(-1)
	}
	status := func(code int, after string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if after != "" {
				w.Header().Set("Retry-After", after)
			}
			http.Error(w, "secret-of-the-server", code)
		}
	}
	garbage := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		_, _ = io.WriteString(w, "\x00\x1b[31m%s%n garbage")
	}
	const each = 10
	type fault struct {
		do http.HandlerFunc
		// times is how often it happens; 0 stands for always.
		times        int64
		reason, text string
		asked        atomic.Int64
		ns           string
	}
	faults := map[string]*fault{
		"hang":    {do: hang, reason: "ResolutionTimedOut", text: "not resolved within 3s"},
		"reset":   {do: reset, reason: "RemoteUnavailable"},
		"500":     {do: status(500, ""), reason: "RemoteUnavailable", text: "500"},
		"429":     {do: status(429, "3600"), reason: "RemoteUnavailable", text: "429"},
		"garbage": {do: garbage, reason: "ResolutionFailed"},
		"404":     {do: status(404, ""), reason: "NotFound"},
		// What passes is tried again.
		"reset-once": {do: reset, times: 1},
		"500-once":   {do: status(500, ""), times: 1},
		"429-once":   {do: status(429, "1"), times: 1},
	}
	for name := range faults {
		gittest.NewOrigin(t, repos.Root, name+".git", map[string]string{"task.yaml": content(0)})
	}
	repos.Set(func(w http.ResponseWriter, r *http.Request) bool {
		f := faults[strings.TrimSuffix(strings.Split(r.URL.Path, "/")[1], ".git")]
		if n := f.asked.Add(1); f.times > 0 && n > f.times {
			return false
		}
		f.do(w, r)
		return true
	})
	s.start(t, "resolution")
	resolver := s.start(t, "resolver-git")
	for name, f := range faults {
		f.ns = s.namespace(t)
		var requests []*v1beta1.ResolutionRequest
		for i := range each {
			r := newRequest(fmt.Sprintf("r%d", i), "git", "url", repos.URL+"/"+name+".git", "pathInRepo", "task.yaml")
			if name == "hang" {
				r.Annotations = map[string]string{resolution.AnnotationTimeout: "3s"}
			}
			requests = append(requests, r)
		}
		s.create(t, f.ns, requests...)
	}
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			for _, r := range s.ended(t, f.ns, each) {
				if f.times > 0 {
					wantContent(t, r, content(0))
					continue
				}
				if m := wantFailure(t, r, f.reason, f.text); strings.Contains(m, "secret-of") || strings.ContainsAny(m, "\x1b\x00\n") {
					t.Errorf("the message %q", m)
				}
			}
		})
	}
	// Permanent errors are told at once: one look at what is there serves all that wait for it.
	for _, name := range []string{"404", "garbage", "429"} {
		if n := faults[name].asked.Load(); n > each {
			t.Errorf("%s: asked %d times for %d requests", name, n, each)
		}
	}
	// Nothing is left of those that hung.
	eventually(t, "connections to hanging servers to end", func(context.Context) error {
		if n := hanging.Load(); n > 0 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	})
	eventually(t, "nothing to be in flight", func(ctx context.Context) error {
		text, err := resolver.Get(ctx, "/metrics")
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "sluice_resolution_fetches_in_flight{") && !strings.HasSuffix(line, " 0\n") {
				return errors.New(line)
			}
		}
		return err
	})
	nothingHalfDone(t, resolver.cache)
}

// A file system of 1 MiB is what the cache has.
func TestE2EAFullDiskCostsTheCacheOnly(t *testing.T) {
	disk := t.TempDir()
	small := []string{
		"unshare", "--user", "--map-root-user", "--mount",
		"sh", "-c", `mount -t tmpfs -o size=1m tmpfs "$0" && exec "$@"`, disk,
	}
	if out, err := exec.Command(small[0], append(small[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no file system can be mounted here: %v: %s", err, out)
	}
	s := standsAlone(t)
	s.configure(t, "git-resolver-config", map[string]string{"allowed-addresses": "127.0.0.1", "backoff-duration": "50ms"})
	repos := gittest.NewServer(t, false)
	var noise strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&noise, "%x", uint64(i)*0x9E3779B97F4A7C15)
	}
	large := gittest.NewOrigin(t, repos.Root, "large.git", map[string]string{"task.yaml": content(1), "noise": noise.String()})
	// All or nothing: the server does not filter.
	gittest.Run(t, large.Dir, nil, "config", "uploadpack.allowFilter", "false")
	gittest.NewOrigin(t, repos.Root, "good.git", map[string]string{"task-0.yaml": content(0), "task-1.yaml": content(1)})
	s.start(t, "resolution")
	s.start(t, "resolver-git", named("git-0", disk), wrapped(small...))
	ns := s.namespace(t)
	wantContent(t, s.resolve(t, ns, newRequest("before", "git", "url", repos.URL+"/good.git", "pathInRepo", "task-0.yaml")), content(0))
	for i := range 3 {
		r := s.resolve(t, ns, newRequest(fmt.Sprintf("large-%d", i), "git", "url", repos.URL+"/large.git", "pathInRepo", "task.yaml"))
		// It is fetched without the cache.
		wantContent(t, r, content(1))
	}
	wantContent(t, s.resolve(t, ns, newRequest("after", "git", "url", repos.URL+"/good.git", "pathInRepo", "task-1.yaml", "cache", "never")), content(1))
}
