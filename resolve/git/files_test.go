package git

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

// webRepository is a repository whose files a web server gives, with all that git writes for that.
func webRepository(t *testing.T, root, format string, packed bool) *gittest.Origin {
	t.Helper()
	o := gittest.At(t, filepath.Join(root, fmt.Sprintf("%s-%t", format, packed)))
	gittest.Run(t, root, nil, "init", "-q", "--bare", "--object-format="+format, "-b", "main", o.Dir)
	o.Commit("main", map[string]string{"task.yaml": "kind: Task\n", "dir/a.yaml": "a: 1\n", "dir/b.yaml": "b: 1\n"})
	o.Commit("dev", map[string]string{"task.yaml": "dev\n"})
	gittest.Run(t, o.Dir, nil, "tag", "-am", "m", "v1", "main")
	if packed {
		gittest.Run(t, o.Dir, nil, "repack", "-adq")
	}
	gittest.Run(t, o.Dir, nil, "update-server-info")
	return o
}

// The git program cannot fetch a commit without its history from a web server; the resolver fetches the objects on the way to the path.
func TestAWebServerWithoutGit(t *testing.T) {
	root := t.TempDir()
	files := http.FileServer(http.Dir(root))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to, ok := strings.CutPrefix(r.URL.Path, "/moved"); ok {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		files.ServeHTTP(w, r)
	}))
	defer s.Close()
	for _, format := range []string{"sha1", "sha256"} {
		for _, packed := range []bool{false, true} {
			o := webRepository(t, root, format, packed)
			url := s.URL + "/" + filepath.Base(o.Dir)
			g := newResolver(t, nil)
			id := gittest.Run(t, o.Dir, nil, "rev-parse", "main")
			for _, revision := range []string{"", "main", "HEAD", "v1", "refs/heads/main", id} {
				params := []string{"url", url, "pathInRepo", "task.yaml"}
				if revision != "" {
					params = append(params, "revision", revision)
				}
				got := wantData(t, g, ask(nil, params...), "kind: Task\n")
				if got.Source.Digest[format] != id && got.Source.Digest["sha1"] != id {
					t.Errorf("%s: %+v", revision, got.Source)
				}
			}
			wantData(t, g, ask(nil, "url", url, "revision", "dev", "pathInRepo", "task.yaml"), "dev\n")
			wantData(t, g, ask(nil, "url", url, "pathInRepo", "dir"), "a: 1\n---\nb: 1\n")
			wantData(t, newResolver(t, nil), ask(nil, "url", s.URL+"/moved/"+filepath.Base(o.Dir), "pathInRepo", "dir/a.yaml"), "a: 1\n")
			wantReason(t, g, ask(nil, "url", url, "revision", "none", "pathInRepo", "task.yaml"), resolve.ReasonNotFound)
			wantReason(t, g, ask(nil, "url", url, "revision", strings.Repeat("1", len(id)), "pathInRepo", "task.yaml"), resolve.ReasonNotFound)
			wantReason(t, g, ask(nil, "url", url, "revision", id[:8], "pathInRepo", "task.yaml"), resolve.ReasonInvalid)
			o.Commit("main", map[string]string{"task.yaml": "kind: Pushed\n"})
			gittest.Run(t, o.Dir, nil, "update-server-info")
			wantData(t, g, ask(nil, "url", url, "pathInRepo", "task.yaml", ":ref-ttl", "0s"), "kind: Pushed\n")
			out, err := exec.CommandContext(t.Context(), "git", "clone", "--depth=1", url, t.TempDir()).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "dumb http transport does not support shallow") {
				t.Errorf("git clone --depth=1: %v: %s", err, out)
			}
		}
	}
}

// A web server gets the credential with each file, and nothing is given to who has none.
func TestAWebServerGetsTheCredential(t *testing.T) {
	root := t.TempDir()
	o := webRepository(t, root, "sha1", true)
	s := gittest.NewServer(t, true)
	login := demand("git", "tok")
	s.Set(func(w http.ResponseWriter, r *http.Request) bool {
		if !login(w, r) {
			http.FileServer(http.Dir(root)).ServeHTTP(w, r)
		}
		return true
	})
	g := newResolver(t, nil)
	base := []string{"url", s.URL + "/" + filepath.Base(o.Dir), "pathInRepo", "task.yaml", ":ca-bundle", s.CA}
	wantReason(t, g, ask(nil, base...), resolve.ReasonDenied)
	sec := secrets{"ns/mine": {"token": []byte("tok")}}
	wantData(t, g, ask(sec, append(base, "gitToken", "mine")...), "kind: Task\n")
	wantReason(t, g, ask(nil, base...), resolve.ReasonDenied)
}

// A web server may give anything under the name of an object or a pack.
func TestABadWebServerGivesTrueReasons(t *testing.T) {
	root := t.TempDir()
	loose, packed := webRepository(t, root, "sha1", false), webRepository(t, root, "sha1", true)
	other := gittest.Run(t, loose.Dir, nil, "rev-parse", "dev")
	files := http.FileServer(http.Dir(root))
	for name, c := range map[string]struct {
		dir, path string
		answer    func(w http.ResponseWriter)
		reason    resolve.Reason
	}{
		"another object":  {loose.Dir, "/objects/", func(w http.ResponseWriter) { gives(w, filepath.Join(loose.Dir, "objects", other[:2], other[2:])) }, resolve.ReasonFailed},
		"no object":       {loose.Dir, "/objects/", func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>hello</html>")) }, resolve.ReasonFailed},
		"no pack":         {packed.Dir, "/objects/pack/", func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>hello</html>")) }, resolve.ReasonFailed},
		"no list of refs": {loose.Dir, "/info/refs", func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>hello</html>")) }, resolve.ReasonFailed},
		"packs are gone":  {packed.Dir, "/objects/info/packs", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, resolve.ReasonNotFound},
		"paths elsewhere": {packed.Dir, "/objects/info/packs", func(w http.ResponseWriter) { _, _ = w.Write([]byte("P ../../secret\nP pack-x.pack\n")) }, resolve.ReasonNotFound},
		"too much":        {loose.Dir, "/objects/", func(w http.ResponseWriter) { _, _ = io.CopyN(w, zeros{}, smallPack+1) }, resolve.ReasonTooLarge},
		"refused":         {loose.Dir, "/objects/", func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }, resolve.ReasonDenied},
		"broken":          {loose.Dir, "/objects/", func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, resolve.ReasonUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, c.path) && (c.path != "/objects/" || !strings.Contains(r.URL.Path, "/info/")) {
					c.answer(w)
					return
				}
				files.ServeHTTP(w, r)
			}))
			defer s.Close()
			g := newResolver(t, nil)
			e := failure(t, g, ask(nil, "url", s.URL+"/"+filepath.Base(c.dir), "pathInRepo", "task.yaml"), c.reason)
			if l := leftovers(t, g); len(l) > 0 {
				t.Errorf("left over: %v (%v)", l, e)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// gives answers with a file.
func gives(w http.ResponseWriter, name string) {
	data, err := os.ReadFile(name)
	if err != nil {
		data = []byte(err.Error())
	}
	_, _ = w.Write(data)
}
