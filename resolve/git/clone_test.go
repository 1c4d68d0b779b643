package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

var someFiles = map[string]string{
	"task.yaml":      "kind: Task\n",
	"dir/b.yaml":     "b: 1",
	"dir/a.yml":      "---\na: 1\n",
	"dir/c.json":     "{}\n",
	"dir/README.md":  "no\n",
	"dir/sub/d.yaml": "d: 1\n",
	"empty/x.txt":    "x",
}

func TestRevisionsAreFoundInEveryProtocol(t *testing.T) {
	for _, version0 := range []bool{false, true} {
		for _, filter := range []string{"true", "false"} {
			t.Run(fmt.Sprintf("version0=%v,filter=%s", version0, filter), func(t *testing.T) {
				s := gittest.NewServer(t, false)
				s.Version0 = version0
				o := gittest.NewOrigin(t, s.Root, "r.git", someFiles)
				gittest.Run(t, o.Dir, nil, "config", "uploadpack.allowFilter", filter)
				gittest.Run(t, o.Dir, nil, "config", "uploadpack.allowAnySHA1InWant", filter)
				first := gittest.Run(t, o.Dir, nil, "rev-parse", "main")
				gittest.Run(t, o.Dir, nil, "tag", "light", "main")
				gittest.Run(t, o.Dir, nil, "tag", "-a", "-m", "x", "v1.0", "main")
				second := o.Commit("main", map[string]string{"task.yaml": "kind: Task2\n"})
				third := o.Commit("feature/x", map[string]string{"task.yaml": "kind: Task3\n"})
				gittest.Run(t, o.Dir, nil, "update-ref", "refs/pull/7/head", third)
				for _, c := range []struct{ revision, data, commit string }{
					{"", "kind: Task2\n", second},
					{"main", "kind: Task2\n", second},
					{"heads/main", "kind: Task2\n", second},
					{"refs/heads/main", "kind: Task2\n", second},
					{"HEAD", "kind: Task2\n", second},
					{"light", "kind: Task\n", first},
					{"v1.0", "kind: Task\n", first},
					{"refs/tags/v1.0", "kind: Task\n", first},
					{"feature/x", "kind: Task3\n", third},
					{"refs/pull/7/head", "kind: Task3\n", third},
					{first, "kind: Task\n", first},
					{first[:9], "kind: Task\n", first},
					{second[:12], "kind: Task2\n", second},
				} {
					t.Run("revision="+c.revision, func(t *testing.T) {
						g := newResolver(t, nil)
						got := wantData(t, g, ask(nil, "url", s.URL+"/r.git", "revision", c.revision, "pathInRepo", "task.yaml"), c.data)
						if id := got.Source.Digest["sha1"]; id != c.commit {
							t.Errorf("commit is %s, want %s", id, c.commit)
						}
						want := map[string]string{"light": "light refs/tags/light", "refs/tags/v1.0": "refs/tags/v1.0 v1.0", "feature/x": "feature/x refs/heads/feature/x"}[c.revision]
						if c.commit == second && c.revision != second[:12] {
							want = "HEAD main refs/heads/main"
						}
						if names := got.Annotations[resolve.AnnotationRevisions]; want != "" && names != want {
							t.Errorf("the names are %q, want %q", names, want)
						}
						if got.Immutable != isObjectID(c.revision) {
							t.Errorf("Immutable is %v", got.Immutable)
						}
						if l := leftovers(t, g); len(l) > 0 {
							t.Errorf("left over: %v", l)
						}
					})
				}
				g := newResolver(t, nil)
				for _, missing := range []string{"nothing", "refs/heads/nothing", strings.Repeat("0", 40), "abcdef12"} {
					wantReason(t, g, ask(nil, "url", s.URL+"/r.git", "revision", missing, "pathInRepo", "task.yaml"), resolve.ReasonNotFound)
				}
			})
		}
	}
}

func TestResultIsDescribedAsTektonDoes(t *testing.T) {
	s := gittest.NewServer(t, false)
	o := gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	id := gittest.Run(t, o.Dir, nil, "rev-parse", "main")
	url := s.URL + "/r.git"
	got := wantData(t, newResolver(t, nil), ask(nil, "url", url, "pathInRepo", "/task.yaml"), "kind: Task\n")
	if got.LookedAt.IsZero() {
		t.Error("nothing is told of when the branch was looked at")
	}
	got.LookedAt = time.Time{}
	want := &resolve.Resource{
		Data: []byte("kind: Task\n"),
		Annotations: map[string]string{
			"resolution.tekton.dev/revision":     id,
			"resolution.tekton.dev/path":         "task.yaml",
			"resolution.tekton.dev/url":          url,
			"resolution.tekton.dev/content-type": "application/x-yaml",
			"commit":                             id,
			"content-type":                       "application/x-yaml",
			"sluice.dev/revisions":               "HEAD main refs/heads/main",
		},
		Source:    resolve.Source{URI: "git+" + url, Digest: map[string]string{"sha1": id}, EntryPoint: "task.yaml"},
		Anonymous: true,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestPaths(t *testing.T) {
	s := gittest.NewServer(t, false)
	files := map[string]string{
		"link.yaml": "->dir/b.yaml", "dir/up.yaml": "->../task.yaml", "linkdir": "->dir", "out.yaml": "->../../etc/passwd",
		"abs.yaml": "->/etc/passwd", "loop1": "->loop2", "loop2": "->loop1", "sub": "@" + strings.Repeat("1", 40),
		"odd/--upload-pack=x.yaml": "odd: 1\n", "deep/a/b/c/d.yaml": "deep: 1\n", "in/x.yaml": "->../in/../dir/c.json",
		"escape/ok.yaml": "ok: 1\n", "escape/bad.yaml": "->../../x", "dirout": "->..", "long": "->" + strings.Repeat("a/", 3000),
	}
	maps.Copy(files, someFiles)
	gittest.NewOrigin(t, s.Root, "r.git", files)
	g := newResolver(t, nil)
	for _, c := range []struct {
		path, data string
		reason     resolve.Reason
	}{
		{path: "task.yaml", data: "kind: Task\n"},
		{path: "/task.yaml", data: "kind: Task\n"},
		{path: "./dir//b.yaml", data: "b: 1"},
		{path: "dir/../task.yaml", data: "kind: Task\n"},
		{path: "dir", data: "---\na: 1\n---\nb: 1\n---\n{}\n---\nkind: Task\n"},
		{path: "link.yaml", data: "b: 1"},
		{path: "linkdir/b.yaml", data: "b: 1"},
		{path: "linkdir/../task.yaml", data: "kind: Task\n"},
		{path: "in/x.yaml", data: "{}\n"},
		{path: "odd/--upload-pack=x.yaml", data: "odd: 1\n"},
		{path: "deep/a/b/c/d.yaml", data: "deep: 1\n"},
		{path: "../task.yaml", reason: resolve.ReasonInvalid},
		{path: "dir/../../../etc/passwd", reason: resolve.ReasonInvalid},
		{path: "", reason: resolve.ReasonInvalid},
		{path: "task.yaml\x00x", reason: resolve.ReasonInvalid},
		{path: "a\nb", reason: resolve.ReasonInvalid},
		{path: strings.Repeat("a", 5000), reason: resolve.ReasonInvalid},
		{path: "/etc/passwd", reason: resolve.ReasonNotFound},
		{path: "task.yaml/x", reason: resolve.ReasonNotFound},
		{path: "dir/b.yml", reason: resolve.ReasonNotFound},
		{path: "empty", reason: resolve.ReasonNotFound},
		{path: "out.yaml", reason: resolve.ReasonForbidden},
		{path: "abs.yaml", reason: resolve.ReasonForbidden},
		{path: "loop1", reason: resolve.ReasonForbidden},
		{path: "dirout/x", reason: resolve.ReasonForbidden},
		{path: "escape", reason: resolve.ReasonForbidden},
		{path: "long", reason: resolve.ReasonForbidden},
		{path: "sub", reason: resolve.ReasonForbidden},
		{path: "sub/x.yaml", reason: resolve.ReasonForbidden},
	} {
		t.Run(c.path[:min(len(c.path), 40)], func(t *testing.T) {
			r := ask(nil, "url", s.URL+"/r.git", "pathInRepo", c.path)
			if c.reason != "" {
				wantReason(t, g, r, c.reason)
				return
			}
			wantData(t, g, r, c.data)
		})
	}
}

func TestHostileParametersAreRefusedBeforeAnythingIsAsked(t *testing.T) {
	s := gittest.NewServer(t, false)
	var asked atomic.Int64
	g := newResolver(t, func(o *Options) {
		o.Network.Resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
			asked.Add(1)
			return nil, errors.New("nobody is to be asked")
		}}
	})
	for _, c := range [][]string{
		{"revision", "--upload-pack=touch /tmp/x"},
		{"revision", "-x"},
		{"revision", "main..x"},
		{"revision", "main~1"},
		{"revision", "main:x"},
		{"revision", "a\nb"},
		{"revision", "a\x00b"},
		{"revision", "@{1}"},
		{"revision", "a.lock"},
		{"revision", "^main"},
		{"revision", "a b"},
		{"revision", strings.Repeat("a", 300)},
		{"revision", "*"},
		{"url", "ext::sh -c id"},
		{"url", "file:///etc"},
		{"url", "/etc"},
		{"url", "./x"},
		{"url", "--upload-pack=x"},
		{"url", "git://u@127.0.0.1/x"},
		{"url", "fd::17"},
		{"url", "ssh://-oProxyCommand=id/x"},
		{"url", "-oProxyCommand=id@h:x"},
		{"url", "h:x\nHost: y"},
		{"url", "https://u:p@127.0.0.1/x"},
		{"url", "https:///x"},
		{"url", "https://127.0.0.1/"},
		{"url", "https://127.0.0.1/x?y=z"},
		{"url", "https://127.0.0.1/a/../b"},
		{"url", "https://127.0.0.1/a/%2e%2e/b"},
		{"url", "ssh://h/a'b"},
		{"url", "-h:x"},
		{"url", "u@h:-x"},
		{"url", "c:\\x"},
		{"url", "https://127.0.0.1/x\x00"},
		{"url", "https://127.0.0.1\\@x/y"},
		{"gitToken", "../x"},
		{"configKey", "a/b"},
		{"org", "../.."},
		{"repo", ".."},
		{"repo", "a/b"},
		{"scmType", "svn"},
		{"serverURL", "file:///x"},
	} {
		t.Run(c[0]+"="+c[1][:min(len(c[1]), 30)], func(t *testing.T) {
			pairs := append([]string{"url", s.URL + "/r.git", "pathInRepo", "x"}, c...)
			if c[0] == "org" || c[0] == "repo" || c[0] == "scmType" || c[0] == "serverURL" {
				pairs = append([]string{"org", "o", "repo", "r", "pathInRepo", "x"}, c...)
			}
			wantReason(t, g, ask(nil, pairs...), resolve.ReasonInvalid)
		})
	}
	if n := s.Requests.Load() + asked.Load(); n != 0 {
		t.Errorf("%d questions were asked", n)
	}
}

func TestOneFetchServesFiftyRequests(t *testing.T) {
	s := gittest.NewServer(t, false)
	gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	g := newResolver(t, nil)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			wantData(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "task.yaml", ":ref-ttl", "1h"), "kind: Task\n")
		})
	}
	wg.Wait()
	// One for the commit with its root tree, one for the blob.
	if l, f := s.Lookups.Load(), s.Fetches.Load(); l != 1 || f != 2 {
		t.Errorf("%d look-ups and %d fetches, want 1 and 2", l, f)
	}
	before := s.Requests.Load()
	id := gittest.Run(t, filepath.Join(s.Root, "r.git"), nil, "rev-parse", "main")
	wantData(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "task.yaml", "revision", id), "kind: Task\n")
	if n := s.Requests.Load() - before; n != 0 {
		t.Errorf("a commit that is there took %d requests", n)
	}
}

func TestFiftyFilesTakeFewFetches(t *testing.T) {
	s := gittest.NewServer(t, false)
	files := map[string]string{}
	for i := range 50 {
		files[fmt.Sprintf("f%d.yaml", i)] = fmt.Sprintf("n: %d\n", i)
	}
	gittest.NewOrigin(t, s.Root, "r.git", files)
	g := newResolver(t, nil)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			wantData(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", fmt.Sprintf("f%d.yaml", i), ":ref-ttl", "1h"), fmt.Sprintf("n: %d\n", i))
		})
	}
	wg.Wait()
	if f := s.Fetches.Load(); f > 25 {
		t.Errorf("%d fetches", f)
	}
}

func TestMovedBranchIsFetchedAgainAndAnUnmovedOneIsNot(t *testing.T) {
	s := gittest.NewServer(t, false)
	o := gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	clock := &handClock{now: time.Unix(1, 0)}
	g := newResolver(t, func(o *Options) { o.Clock = clock })
	r := ask(nil, "url", s.URL+"/r.git", "pathInRepo", "task.yaml", ":ref-ttl", "5s")
	wantData(t, g, r, "kind: Task\n")
	wantData(t, g, r, "kind: Task\n")
	if l := s.Lookups.Load(); l != 1 {
		t.Errorf("%d look-ups within the time, want 1", l)
	}
	clock.add(6 * time.Second)
	fetches := s.Fetches.Load()
	wantData(t, g, r, "kind: Task\n")
	if l, f := s.Lookups.Load(), s.Fetches.Load(); l != 2 || f != fetches {
		t.Errorf("%d look-ups and %d new fetches, want 2 and 0", l, f-fetches)
	}
	o.Commit("main", map[string]string{"task.yaml": "moved: 1\n"})
	wantData(t, g, r, "kind: Task\n")
	clock.add(6 * time.Second)
	wantData(t, g, r, "moved: 1\n")
}

// What a server refuses is not asked of it again, and what it does send is enough, with limits as they are configured.
func TestServersThatRefuseAWayOfFetchingGetTheNext(t *testing.T) {
	files := map[string]string{"a/b/task.yaml": "kind: Task\n", "a/b/other.yaml": "x: 1\n", "c/big.txt": noise(1, 5<<20)}
	named := regexp.MustCompile(`want ([0-9a-f]{40})`)
	for name, c := range map[string]struct {
		config [][2]string
		// commits: the server sends commits only.
		commits bool
		way     way
	}{
		"takes all":            {nil, false, byRoot},
		"no tree:1":            {[][2]string{{"uploadpackfilter.tree.maxDepth", "0"}}, false, byObject},
		"no tree:0":            {[][2]string{{"uploadpackfilter.tree.allow", "false"}}, false, byTrees},
		"no filters, but says": {[][2]string{{"uploadpackfilter.allow", "false"}}, false, whole},
		"no filters":           {[][2]string{{"uploadpack.allowFilter", "false"}}, false, byRoot},
		"commits only":         {nil, true, whole},
	} {
		t.Run(name, func(t *testing.T) {
			s := gittest.NewServer(t, false)
			o := gittest.NewOrigin(t, s.Root, "r.git", files)
			for _, kv := range c.config {
				gittest.Run(t, o.Dir, nil, "config", kv[0], kv[1])
			}
			if c.commits {
				s.Set(func(w http.ResponseWriter, r *http.Request) bool {
					body, err := io.ReadAll(r.Body)
					if err != nil {
						t.Error(err)
					}
					r.Body = io.NopCloser(bytes.NewReader(body))
					for _, m := range named.FindAllSubmatch(body, -1) {
						if kind := gittest.Run(t, o.Dir, nil, "cat-file", "-t", string(m[1])); kind != "commit" {
							w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
							text := "ERR upload-pack: not our ref " + string(m[1]) + "\n"
							_, _ = fmt.Fprintf(w, "%04x%s", len(text)+4, text)
							return true
						}
					}
					return false
				})
			}
			g := newResolver(t, nil)
			wantData(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "a/b/task.yaml", ":ref-ttl", "0s"), "kind: Task\n")
			for _, m := range g.store.mirrors {
				if m.way != c.way {
					t.Errorf("the way is %d, want %d", m.way, c.way)
				}
			}
			o.Commit("main", map[string]string{"a/b/task.yaml": "kind: Moved\n"})
			wantData(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "a/b", ":ref-ttl", "0s"), "x: 1\n---\nkind: Moved\n")
			small := newResolver(t, nil)
			r := ask(nil, "url", s.URL+"/r.git", "pathInRepo", "a/b/task.yaml", ":max-pack-bytes", "1048576")
			if c.way == whole || name == "no filters" {
				if e := failure(t, small, r, resolve.ReasonTooLarge); !strings.Contains(e.Msg, "1048576 bytes") || !strings.Contains(e.Msg, "max-pack-bytes") {
					t.Error(e)
				}
			} else {
				wantData(t, small, r, "kind: Moved\n")
			}
			if l := leftovers(t, g); len(l) > 0 {
				t.Errorf("left over: %v", l)
			}
		})
	}
}

// What a server refuses for one repository it is not asked for another, by this process.
func TestAHostThatRefusesTheRootTreeIsAskedOnce(t *testing.T) {
	s := gittest.NewServer(t, false)
	g := newResolver(t, nil)
	var fetches []int64
	for _, name := range []string{"a.git", "b.git"} {
		o := gittest.NewOrigin(t, s.Root, name, map[string]string{"task.yaml": "kind: Task\n"})
		gittest.Run(t, o.Dir, nil, "config", "uploadpackfilter.tree.maxDepth", "0")
		before := s.Fetches.Load()
		wantData(t, g, ask(nil, "url", s.URL+"/"+name, "pathInRepo", "task.yaml"), "kind: Task\n")
		fetches = append(fetches, s.Fetches.Load()-before)
	}
	if want := []int64{4, 3}; !slices.Equal(fetches, want) {
		t.Errorf("%d fetches, want %d", fetches, want)
	}
}

// handClock is moved by hand.
type handClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) After(time.Duration) <-chan time.Time { return nil }

func (c *handClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestMovedBranchBringsOnlyWhatIsNew(t *testing.T) {
	for _, changed := range []int{1, 300} {
		for _, filter := range []string{"true", "false"} {
			t.Run(fmt.Sprintf("%d files, filter %s", changed, filter), func(t *testing.T) {
				s := gittest.NewServer(t, false)
				files := map[string]string{}
				for i := range 3000 {
					files[fmt.Sprintf("d%d/f%d.yaml", i%300, i)] = fmt.Sprintf("n: %d\n", i)
				}
				o := gittest.NewOrigin(t, s.Root, "r.git", files)
				gittest.Run(t, o.Dir, nil, "config", "uploadpack.allowFilter", filter)
				g := newResolver(t, nil)
				r := ask(nil, "url", s.URL+"/r.git", "pathInRepo", "d7/f7.yaml", ":ref-ttl", "0s")
				wantData(t, g, r, "n: 7\n")
				whole := s.Bytes.Load()
				more := map[string]string{}
				for i := range changed {
					more[fmt.Sprintf("d%d/f%d.yaml", (i+7)%300, i+7)] = "moved\n"
				}
				o.Commit("main", more)
				wantData(t, g, r, "moved\n")
				part := s.Bytes.Load() - whole
				switch {
				case filter == "true" && (whole > 16<<10 || part > whole):
					// Its trees have more than 100,000 bytes; two of them are on the way to the file.
					t.Errorf("%d bytes, the first had %d", part, whole)
				case filter == "false" && (part > whole*3/4 || changed == 1 && part > 8<<10):
					t.Errorf("%d bytes, the whole had %d", part, whole)
				}
				wantData(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "d299/f299.yaml", ":ref-ttl", "0s"), more["d299/f299.yaml"]+map[bool]string{true: "n: 299\n"}[changed == 1])
			})
		}
	}
}

func TestAMissSaysWhatThereIs(t *testing.T) {
	for _, version0 := range []bool{false, true} {
		s := gittest.NewServer(t, false)
		s.Version0 = version0
		files := map[string]string{"tasks/build.yaml": "x"}
		for i := range 3000 {
			files[fmt.Sprintf("tasks/a%d.yml", i)] = ""
		}
		o := gittest.NewOrigin(t, s.Root, "r.git", files)
		o.Commit("release-1", map[string]string{"x": ""})
		gittest.Run(t, s.Root, nil, "init", "-q", "--bare", "-b", "main", "empty.git")
		g := newResolver(t, nil)
		for _, c := range []struct{ repository, revision, path, want string }{
			{"r.git", "maim", "x", `"maim" (did you mean "main"?); the default branch is "main"`},
			{"r.git", "MAIN", "x", `did you mean "main"?`},
			{"r.git", "origin/main", "x", `did you mean "main"?`},
			{"r.git", "relase-1", "x", `did you mean "release-1"?`},
			{"r.git", "main", "tasks/build.yml", `tasks has no "build.yml" but build.yaml,`},
			{"empty.git", "main", "x", "the repository has no branch and no tag"},
			{"empty.git", "", "x", "the request names no revision"},
		} {
			params := []string{"url", s.URL + "/" + c.repository, "pathInRepo", c.path}
			if c.revision != "" {
				params = append(params, "revision", c.revision)
			}
			if e := failure(t, g, ask(nil, params...), resolve.ReasonNotFound); !strings.Contains(e.Msg, c.want) {
				t.Errorf("version 0: %v: %q does not say %q", version0, e.Msg, c.want)
			}
		}
	}
}
