package git

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

func TestPolicy(t *testing.T) {
	s := gittest.NewServer(t, false)
	o := gittest.NewOrigin(t, s.Root, "team/r.git", map[string]string{"task.yaml": "kind: Task\n", "secret/x.yaml": "x\n", "link.yaml": "->secret/x.yaml"})
	gittest.NewOrigin(t, s.Root, "other.git", someFiles)
	id := o.Commit("main", map[string]string{"y": "y"})
	o.Commit("dev", map[string]string{"task.yaml": "dev\n"})
	host := strings.TrimPrefix(s.URL, "http://")
	const allowed = ""
	for _, c := range []struct {
		name, policy, url, revision, path string
		reason                            resolve.Reason
	}{
		{"empty", "", "team/r.git", "main", "task.yaml", allowed},
		{"allowed repository", "allow: [{repository: 'HOST/team/*'}]", "team/r.git", "main", "task.yaml", allowed},
		{"without .git and in capitals", "allow: [{repository: 'HOST/TEAM/r'}]", "team/r", "main", "task.yaml", allowed},
		{"pattern is anchored", "allow: [{repository: 'HOST/team'}]", "team/r.git", "main", "task.yaml", resolve.ReasonForbidden},
		{"pattern is no regular expression", "allow: [{repository: '.*'}]", "team/r.git", "main", "task.yaml", resolve.ReasonForbidden},
		{"star is no slash", "allow: [{repository: 'HOST/*'}]", "team/r.git", "main", "task.yaml", resolve.ReasonForbidden},
		{"two stars are", "allow: [{repository: 'HOST/**'}]", "team/r.git", "main", "task.yaml", allowed},
		{"denied repository", "deny: [{repository: 'HOST/team/**'}]", "team/r.git", "main", "task.yaml", resolve.ReasonForbidden},
		{"another is not denied", "deny: [{repository: 'HOST/team/**'}]", "other.git", "main", "task.yaml", allowed},
		{"denied before allowed", "{allow: [{}], deny: [{path: task.yaml}]}", "team/r.git", "main", "task.yaml", resolve.ReasonForbidden},
		{"allowed revision", "allow: [{revision: main}]", "team/r.git", "main", "task.yaml", allowed},
		{"allowed revision by its full name", "allow: [{revision: main}]", "team/r.git", "refs/heads/main", "task.yaml", allowed},
		{"another revision", "allow: [{revision: main}]", "team/r.git", "dev", "task.yaml", resolve.ReasonForbidden},
		{"denied revision by another name", "deny: [{revision: dev}]", "team/r.git", "heads/dev", "task.yaml", resolve.ReasonForbidden},
		{"denied branch by HEAD", "deny: [{revision: main}]", "team/r.git", "HEAD", "task.yaml", resolve.ReasonForbidden},
		{"allowed commits only", "allow: [{revision: '" + id[:4] + "*'}]", "team/r.git", "main", "task.yaml", allowed},
		{"allowed path", "allow: [{path: /task.yaml}]", "team/r.git", "main", "./task.yaml", allowed},
		{"another path", "allow: [{path: '*.yaml'}]", "team/r.git", "main", "secret/x.yaml", resolve.ReasonForbidden},
		{"a link to a denied path", "deny: [{path: 'secret/**'}]", "team/r.git", "main", "link.yaml", resolve.ReasonForbidden},
		{"a denied path in a directory", "deny: [{path: 'secret/**'}]", "team/r.git", "main", "secret", resolve.ReasonForbidden},
		{"a denied directory", "deny: [{path: secret}]", "team/r.git", "main", "secret", resolve.ReasonForbidden},
		{"a file in a denied directory", "deny: [{path: secret}]", "team/r.git", "main", "secret/x.yaml", resolve.ReasonForbidden},
		{"an allowed directory by its name only", "allow: [{path: secret}]", "team/r.git", "main", "secret", resolve.ReasonForbidden},
		{"a file in the root by two stars", "deny: [{path: '**/task.yaml'}]", "team/r.git", "main", "task.yaml", resolve.ReasonForbidden},
		{"braces", "deny: [{path: 'one.{yaml,yml}'}]", "team/r.git", "main", "task.yaml", resolve.ReasonForbidden},
		{"a namespace's own", "namespaces: {ns: {deny: [{}]}}", "team/r.git", "main", "task.yaml", resolve.ReasonForbidden},
		{"another namespace's", "namespaces: {other: {deny: [{}]}}", "team/r.git", "main", "task.yaml", allowed},
		{"namespace does not widen", "{deny: [{}], namespaces: {ns: {allow: [{}]}}}", "team/r.git", "main", "task.yaml", resolve.ReasonForbidden},
		{"denied with a scheme", "deny: [{repository: 'http://HOST/**'}]", "team/r.git", "main", "task.yaml", resolve.ReasonForbidden},
		{"denied with .git", "deny: [{repository: 'HOST/team/r.git'}]", "team/r.git", "main", "task.yaml", resolve.ReasonForbidden},
		{"a denied path with a dot", "deny: [{path: './secret/**'}]", "team/r.git", "main", "secret/x.yaml", resolve.ReasonForbidden},
		{"nothing is allowed", "allow: []", "team/r.git", "main", "task.yaml", resolve.ReasonForbidden},
		{"nothing is allowed to the namespace", "namespaces: {ns: {allow: []}}", "team/r.git", "main", "task.yaml", resolve.ReasonForbidden},
		{"a comment", "# nothing yet", "team/r.git", "main", "task.yaml", resolve.ReasonForbidden},
		{"denied revision by half its name", "deny: [{revision: heads/dev}]", "team/r.git", "dev", "task.yaml", resolve.ReasonForbidden},
		{"one that cannot be read", "allows: []", "team/r.git", "main", "task.yaml", resolve.ReasonForbidden},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newResolver(t, nil)
			r := ask(nil, "url", s.URL+"/"+c.url, "revision", c.revision, "pathInRepo", c.path, ":policy", strings.ReplaceAll(c.policy, "HOST", host))
			if c.reason != allowed {
				wantReason(t, g, r, c.reason)
				return
			}
			if _, err := g.Resolve(deadline(t), r); err != nil {
				t.Error(err)
			}
		})
	}
}

// A tag object has a name of its own, and is no way around a rule for the commit that it names.
func TestAPolicyForACommitHoldsForTheTagObjectsThatNameIt(t *testing.T) {
	s := gittest.NewServer(t, false)
	o := gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	id := o.Commit("main", map[string]string{"task.yaml": "bad\n"})
	gittest.Run(t, o.Dir, nil, "tag", "-a", "-m", "m", "v1", id)
	tag := gittest.Run(t, o.Dir, nil, "rev-parse", "v1")
	for _, revision := range []string{id, "v1", tag, "main"} {
		g := newResolver(t, nil)
		r := ask(nil, "url", s.URL+"/r.git", "revision", revision, "pathInRepo", "task.yaml", ":policy", "deny: [{revision: '"+id+"'}]")
		wantReason(t, g, r, resolve.ReasonForbidden)
		r = ask(nil, "url", s.URL+"/r.git", "revision", revision, "pathInRepo", "task.yaml", ":policy", "allow: [{revision: '"+id+"'}, {revision: '"+tag+"'}]")
		wantData(t, g, r, "bad\n")
	}
}

func TestFolderBelongsToOneProcess(t *testing.T) {
	g := newResolver(t, nil)
	if _, err := New(t.Context(), g.options); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("error %v", err)
	}
}

func TestMirrorsSurviveRestartsAndCrashes(t *testing.T) {
	s := gittest.NewServer(t, false)
	o := gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	id := gittest.Run(t, o.Dir, nil, "rev-parse", "main")
	dir := t.TempDir()
	options := Options{Dir: dir, Network: local(t), Clock: systemClock{}}
	open := func() *Resolver {
		g, err := New(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	r := ask(nil, "url", s.URL+"/r.git", "pathInRepo", "task.yaml", "revision", id)
	g := open()
	wantData(t, g, r, "kind: Task\n")
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	mirror := one(t, filepath.Join(dir, "mirrors", "*"))
	for _, p := range []string{"incoming-1/pack-x.pack", "objects/pack/tmp_pack_1", "objects/ab/tmp_obj_1"} {
		write(t, filepath.Join(mirror, p), "half")
	}
	write(t, filepath.Join(dir, "trash-new-1", "HEAD"), "x")
	write(t, filepath.Join(dir, "mirrors", "half", "HEAD"), "x")
	write(t, filepath.Join(dir, "mirrors", "foreign", "format"), "sha1")
	before := s.Requests.Load()
	g = open()
	wantData(t, g, r, "kind: Task\n")
	if n := s.Requests.Load() - before; n != 0 {
		t.Errorf("%d requests for what is in the mirror", n)
	}
	if l := leftovers(t, g); len(l) > 0 {
		t.Errorf("left over: %v", l)
	}
	if _, err := os.Stat(filepath.Join(dir, "mirrors", "half")); err == nil {
		t.Error("half a mirror is still there")
	}
	if _, err := os.Stat(filepath.Join(dir, "mirrors", "foreign")); err == nil {
		t.Error("a folder that no mirror is called is still there")
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}

	// A mirror that is damaged is replaced, whatever is damaged.
	for _, damage := range []string{"", "x", strings.Repeat("\x00", 100)} {
		files, _ := filepath.Glob(filepath.Join(mirror, "objects", "*", "*"))
		if len(files) == 0 {
			t.Fatal("no objects")
		}
		for _, f := range files {
			if err := os.Chmod(f, 0o600); err != nil {
				t.Fatal(err)
			}
			write(t, f, damage)
		}
		g = open()
		wantData(t, g, r, "kind: Task\n")
		if l := leftovers(t, g); len(l) > 0 {
			t.Errorf("left over: %v", l)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(mirror, "HEAD"), "")
	g = open()
	defer func() { _ = g.Close() }()
	wantData(t, g, r, "kind: Task\n")
}

func TestMirrorThatCannotBeReadIsReplaced(t *testing.T) {
	s := gittest.NewServer(t, false)
	gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	dir := t.TempDir()
	options := Options{Dir: dir, Network: local(t), Clock: systemClock{}}
	g, err := New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	r := ask(nil, "url", s.URL+"/r.git", "pathInRepo", "task.yaml")
	wantData(t, g, r, "kind: Task\n")
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	// Folders so deep that their names are too long for the system, which stops even root.
	folder, err := os.OpenRoot(one(t, filepath.Join(dir, "mirrors", "*")))
	if err != nil {
		t.Fatal(err)
	}
	if err := folder.MkdirAll(strings.Repeat(strings.Repeat("d", 200)+"/", 25)+"end", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}

	g = newResolver(t, func(o *Options) { o.Dir = dir })
	if n := len(g.store.mirrors); n != 0 {
		t.Errorf("%d mirrors are taken for good", n)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
	wantData(t, g, r, "kind: Task\n")
}

func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%d files like %s", len(found), pattern)
	}
	return found[0]
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestKilledProcess runs itself as another process that fetches and hangs, kills it, and goes on in its folder.
func TestKilledProcess(t *testing.T) {
	if dir := os.Getenv("SLUICE_TEST_FETCH_DIR"); dir != "" {
		g := newResolver(t, func(o *Options) { o.Dir = dir })
		fmt.Println("started")
		_, _ = g.Resolve(deadline(t), ask(nil, "url", os.Getenv("SLUICE_TEST_FETCH_URL"), "pathInRepo", "task.yaml"))
		return
	}
	s := gittest.NewServer(t, false)
	gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	arrived := make(chan struct{}, 1)
	var mu sync.Mutex
	requests := 0
	s.Set(func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		requests++
		n := requests
		mu.Unlock()
		if n != 3 {
			return false
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		_, _ = w.Write([]byte("000dpackfile\n0009\x01PACK"))
		_ = http.NewResponseController(w).Flush()
		arrived <- struct{}{}
		<-r.Context().Done()
		return true
	})
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledProcess$")
	cmd.Env = append(os.Environ(), "SLUICE_TEST_FETCH_DIR="+dir, "SLUICE_TEST_FETCH_URL="+s.URL+"/r.git")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	<-arrived
	incoming := filepath.Join(dir, "mirrors", "*", "incoming-*")
	until(t, func() bool { f, _ := filepath.Glob(incoming); return len(f) == 1 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	g := newResolver(t, func(o *Options) { o.Dir = dir })
	if l := leftovers(t, g); len(l) > 0 {
		t.Errorf("left over: %v", l)
	}
	wantData(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "task.yaml"), "kind: Task\n")
}

func TestMirrorsAreEvictedByUse(t *testing.T) {
	s := gittest.NewServer(t, false)
	var ids []string
	for i := range 4 {
		o := gittest.NewOrigin(t, s.Root, fmt.Sprintf("r%d.git", i), map[string]string{"task.yaml": fmt.Sprintf("n: %d\n", i)})
		ids = append(ids, gittest.Run(t, o.Dir, nil, "rev-parse", "main"))
	}
	g := newResolver(t, nil)
	cacheBytes := int64(1 << 30)
	get := func(i int) int64 {
		t.Helper()
		before := s.Requests.Load()
		wantData(t, g, ask(nil, "url", fmt.Sprintf("%s/r%d.git", s.URL, i), "pathInRepo", "task.yaml", "revision", ids[i], ":max-cache-bytes", fmt.Sprint(cacheBytes)), fmt.Sprintf("n: %d\n", i))
		return s.Requests.Load() - before
	}
	get(0)
	var each int64
	for _, m := range g.store.mirrors {
		each = m.sizeOnDisk()
	}
	cacheBytes = 3*each + each/2
	get(1)
	get(2)
	get(0)
	get(3)
	if d := cmp.Diff([]bool{false, true, true, true}, []bool{get(0) > 0, get(1) > 0, get(2) > 0, get(3) > 0}); d != "" {
		t.Errorf("which had to be fetched again: %s", d)
	}
	dirs, _ := filepath.Glob(filepath.Join(g.options.Dir, "mirrors", "*"))
	if len(dirs) != 3 {
		t.Errorf("%d mirrors on disk, want 3", len(dirs))
	}
	if l := leftovers(t, g); len(l) > 0 {
		t.Errorf("left over: %v", l)
	}
}

func TestManyRepositoriesAtOnceWithFewProcesses(t *testing.T) {
	s := gittest.NewServer(t, false)
	for i := range 6 {
		gittest.NewOrigin(t, s.Root, fmt.Sprintf("r%d.git", i), map[string]string{"task.yaml": fmt.Sprintf("n: %d\n", i)})
	}
	g := newResolver(t, nil)
	g.files = newCatfiles(g.files.binary, 2, g.files.memory)
	g.store.files = g.files
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			wantData(t, g, ask(nil, "url", fmt.Sprintf("%s/r%d.git", s.URL, i%6), "pathInRepo", "task.yaml", ":max-cache-bytes", "1"), fmt.Sprintf("n: %d\n", i%6))
		})
	}
	wg.Wait()
	if n := len(g.files.idle) + g.files.busy; n > 2 || g.files.busy != 0 {
		t.Errorf("%d processes, %d of them busy", n, g.files.busy)
	}
	if dirs, _ := filepath.Glob(filepath.Join(g.options.Dir, "*", "*")); len(dirs) > 0 {
		t.Errorf("left over: %v", dirs)
	}
}

func TestSHA256Repository(t *testing.T) {
	s := gittest.NewServer(t, false)
	o := gittest.At(t, filepath.Join(s.Root, "r.git"))
	gittest.Run(t, s.Root, nil, "init", "-q", "--bare", "--object-format=sha256", "-b", "main", o.Dir)
	gittest.Run(t, o.Dir, nil, "config", "uploadpack.allowFilter", "true")
	id := o.Commit("main", someFiles)
	got := wantData(t, newResolver(t, nil), ask(nil, "url", s.URL+"/r.git", "pathInRepo", "dir/b.yaml"), "b: 1")
	if d := cmp.Diff(map[string]string{"sha256": id}, got.Source.Digest); d != "" {
		t.Error(d)
	}
	got = wantData(t, newResolver(t, nil), ask(nil, "url", s.URL+"/r.git", "pathInRepo", "dir/b.yaml", "revision", id), "b: 1")
	if !got.Immutable {
		t.Error("not immutable")
	}
}

// The lock of a mirror is taken inside that of the store, so it must not be held while the disk works: else all requests wait.
func TestTheStoreDoesNotWaitForAMirrorThatIsMade(t *testing.T) {
	g := newResolver(t, nil)
	connect := func() (remote, error) { return said{}, nil }
	m, err := g.store.acquireMirror("m", "h", connect)
	if err != nil {
		t.Fatal(err)
	}
	m.making.Lock() // as while the disk is slow
	made, asked := make(chan error), make(chan error)
	go func() { made <- m.createOnDisk("sha1") }()
	go func() {
		for range 1000 { // so that the other goroutine has begun
			g.store.forgetServerFacts("m")
			g.store.evictUnused()
			runtime.Gosched()
		}
		_, err := g.store.acquireMirror("other", "h", connect)
		asked <- err
	}()
	select {
	case err := <-asked:
		if err != nil {
			t.Error(err)
		}
	case <-deadline(t).Done():
		t.Error("the store waits for the disk")
	}
	m.making.Unlock()
	if err := <-made; err != nil {
		t.Error(err)
	}
}
