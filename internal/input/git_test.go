package input

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// git runs git in dir, with nothing of the user's configuration.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// repository makes a repository with two commits, the first with the tag v1, and a third on the branch side.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "init", "-q", "-b", "main")
	writeTree(t, dir, map[string]string{
		"crds/a.yaml":           crd("as.x.io"),
		"crds/sub/b.yaml":       "kind: Pod\n---\n" + crd("bs.x.io"),
		"crds/.hidden/x.yaml":   "{{ not read }}",
		"crds/.hidden.yaml":     "{{ not read }}",
		"crds/readme.md":        "{{ not read }}",
		"crds/space * é.yaml":   crd("cs.x.io"),
		"crdsx/x.yaml":          "{{ not read }}",
		"links/a.yaml":          "-> ../crds/a.yaml",
		"links/again.yaml":      "-> a.yaml",
		"links/dir":             "-> ../crds/sub",
		"links/gone":            "-> nowhere",
		"links/text":            "-> ../crds/readme.md",
		"badlinks/x.yaml":       "-> nowhere.yaml",
		"outside/x.yaml":        "-> ../../etc/passwd",
		"absolute/x.yaml":       "-> /etc/passwd",
		"loop/in/back":          "-> ../../loop",
		"circle/a.yaml":         "-> b.yaml",
		"circle/b.yaml":         "-> a.yaml",
		"pods/pod.yaml":         "kind: Pod",
		"broken/x.yaml":         "a: b\n c: d\n",
		"name.yaml":             crd("ns.x.io"),
		"work/" + "tree/f.yaml": crd("fs.x.io"),
	})
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "one")
	git(t, dir, "tag", "-a", "-m", "v1", "v1")
	git(t, dir, "checkout", "-q", "-b", "side")
	writeTree(t, dir, map[string]string{"side.yaml": crd("ss.x.io")})
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "side")
	git(t, dir, "checkout", "-q", "main")
	writeTree(t, dir, map[string]string{"crds/a.yaml": crd("as.x.io") + "  scope: Cluster\n", "new/n.yaml": crd("new.x.io")})
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "two")
	return dir
}

func TestLoadGit(t *testing.T) {
	dir := repository(t)
	// Nothing of the work tree may be seen.
	if err := os.RemoveAll(filepath.Join(dir, "crds", "a.yaml")); err != nil {
		t.Fatal(err)
	}
	writeTree(t, dir, map[string]string{"crds/z.yaml": "{{ not committed }}"})
	before := git(t, dir, "status", "--porcelain")
	first := git(t, dir, "rev-parse", "v1^{commit}")
	all := []string{"as.x.io crds/a.yaml:1", "cs.x.io crds/space * é.yaml:1", "bs.x.io crds/sub/b.yaml:3"}
	for _, tt := range []struct {
		name, dir string
		src       Source
		want      []string
	}{
		{"a directory", "", Source{Rev: "HEAD", Paths: []string{"crds"}}, all},
		{"an annotated tag", "", Source{Rev: "v1", Paths: []string{"crds/"}}, all},
		{"a commit", "", Source{Rev: first, Paths: []string{"/crds"}}, all},
		{"a tree", "", Source{Rev: git(t, dir, "rev-parse", "HEAD:crds")}, []string{"as.x.io a.yaml:1", "cs.x.io space * é.yaml:1", "bs.x.io sub/b.yaml:3"}},
		{"an expression", "", Source{Rev: "HEAD~1^{tree}", Paths: []string{"crds"}}, all},
		{"a file", "", Source{Rev: "HEAD", Paths: []string{"crds/space * é.yaml"}}, []string{"cs.x.io crds/space * é.yaml:1"}},
		{"from the root wherever we are", "crds/sub", Source{Rev: "HEAD", Paths: []string{"name.yaml"}}, []string{"ns.x.io name.yaml:1"}},
		{"from here with a dot", "crds/sub", Source{Rev: "HEAD", Paths: []string{"./b.yaml"}}, []string{"bs.x.io crds/sub/b.yaml:3"}},
		{"from above with two dots", "crds/sub", Source{Rev: "HEAD", Paths: []string{"../../name.yaml"}}, []string{"ns.x.io name.yaml:1"}},
		{"here", "crds/sub", Source{Rev: "HEAD", Paths: []string{"."}}, []string{"bs.x.io crds/sub/b.yaml:3"}},
		{"links", "", Source{Rev: "HEAD", Paths: []string{"links"}}, []string{"as.x.io links/a.yaml:1", "bs.x.io links/dir/b.yaml:3"}},
		{"a link", "", Source{Rev: "HEAD", Paths: []string{"links/again.yaml"}}, []string{"as.x.io links/again.yaml:1"}},
		{"a link to a directory", "", Source{Rev: "HEAD", Paths: []string{"links/dir"}}, []string{"bs.x.io links/dir/b.yaml:3"}},
		{"several of which some are missing", "", Source{Rev: "v1", Paths: []string{"new", "name.yaml", "none"}, Some: true}, []string{"ns.x.io name.yaml:1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.src.Kind = Git
			set, err := Load(t.Context(), tt.src, Options{Dir: filepath.Join(dir, tt.dir)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, places(set)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if after := git(t, dir, "status", "--porcelain"); after != before {
		t.Errorf("the work tree changed from\n%s\nto\n%s", before, after)
	}
}

func TestLoadGitRefuses(t *testing.T) {
	dir := repository(t)
	blob := git(t, dir, "rev-parse", "HEAD:name.yaml")
	for _, tt := range []struct {
		name string
		src  Source
		is   error
		says []string
	}{
		{"an unknown revision", Source{Rev: "nowhere"}, ErrUnknownRevision, []string{`"nowhere"`}},
		{"a revision that is an option", Source{Rev: "--help"}, ErrUnknownRevision, []string{`"--help"`, "dash"}},
		{"a range", Source{Rev: "v1..HEAD"}, ErrUnknownRevision, []string{"range"}},
		{"a file for a revision", Source{Rev: blob}, ErrUnknownRevision, []string{"no commit"}},
		{"a path that is not there", Source{Rev: "v1", Paths: []string{"new/n.yaml"}}, ErrNotFound, []string{`"new/n.yaml"`, `"v1"`}},
		{"the beginning of a name", Source{Rev: "v1", Paths: []string{"crd"}}, ErrNotFound, []string{`"crd"`}},
		{"a pattern", Source{Rev: "v1", Paths: []string{"crds/*.yaml"}}, ErrNotFound, []string{"crds/*.yaml"}},
		{"a path that is an option", Source{Rev: "v1", Paths: []string{"--name-only"}}, ErrNotFound, []string{"--name-only"}},
		{"paths that are not there", Source{Rev: "v1", Paths: []string{"x", "y"}, Some: true}, ErrNotFound, []string{`"y"`}},
		{"a path outside", Source{Rev: "v1", Paths: []string{"../x"}}, ErrNotFound, []string{"outside"}},
		{"a path outside over detours", Source{Rev: "v1", Paths: []string{"a/../../x"}}, ErrNotFound, []string{"outside"}},
		{"a link to nothing", Source{Rev: "v1", Paths: []string{"badlinks"}}, ErrNotFound, []string{"badlinks/x.yaml: ", "nowhere.yaml"}},
		{"a link out of the repository", Source{Rev: "v1", Paths: []string{"outside"}}, ErrNotFound, []string{"outside/x.yaml: "}},
		{"a link to an absolute path", Source{Rev: "v1", Paths: []string{"absolute"}}, ErrNotFound, []string{"absolute/x.yaml: "}},
		{"a directory in itself", Source{Rev: "v1", Paths: []string{"loop"}}, nil, []string{"loop/in/back: ", "loop"}},
		{"links in a circle", Source{Rev: "v1", Paths: []string{"circle"}}, nil, []string{"circle/a.yaml: "}},
		{"no definition", Source{Rev: "v1", Paths: []string{"pods"}}, ErrNoCRD, []string{"git:v1:pods: ", "1 Pod"}},
		{"broken YAML", Source{Rev: "v1", Paths: []string{"broken"}}, nil, []string{"broken/x.yaml:2: "}},
		{"a file over the limit", Source{Rev: "v1", Paths: []string{"name.yaml"}}, ErrTooLarge, []string{"name.yaml: "}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.src.Kind = Git
			opts := Options{Dir: dir}
			if errors.Is(tt.is, ErrTooLarge) {
				opts.MaxFileBytes = 10
			}
			refused(t, tt.src, opts, tt.is, tt.says)
		})
	}
	t.Run("no repository", func(t *testing.T) {
		empty := t.TempDir()
		t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(empty))
		refused(t, Source{Kind: Git, Rev: "HEAD"}, Options{Dir: empty}, ErrNotRepository, []string{"git:HEAD: "})
	})
	t.Run("no commit yet", func(t *testing.T) {
		empty := t.TempDir()
		git(t, empty, "init", "-q")
		refused(t, Source{Kind: Git, Rev: "HEAD"}, Options{Dir: empty}, ErrUnknownRevision, []string{`"HEAD"`})
	})
	t.Run("no git", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		refused(t, Source{Kind: Git, Rev: "HEAD"}, Options{Dir: dir}, ErrGitMissing, []string{"git is not installed"})
	})
	t.Run("a context that has ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Load(ctx, Source{Kind: Git, Rev: "HEAD"}, Options{Dir: dir}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the context's error", err)
		}
	})
}

func TestGitRange(t *testing.T) {
	dir := repository(t)
	base := git(t, dir, "merge-base", "side", "main")
	paths := func(p ...string) []string { return p }
	for _, tt := range []struct {
		arg       string
		paths     []string
		old, next Source
		names     []string
	}{
		{"v1..main", paths("crds"), Source{Kind: Git, Rev: "v1", Paths: paths("./crds")}, Source{Kind: Git, Rev: "main", Paths: paths("./crds")}, paths("git:v1:crds", "git:main:crds")},
		{"v1..", nil, Source{Kind: Git, Rev: "v1", Paths: paths("./.")}, Source{Kind: Git, Rev: "HEAD", Paths: paths("./.")}, paths("git:v1:.", "git:HEAD:.")},
		{"..main", nil, Source{Kind: Git, Rev: "HEAD", Paths: paths("./."), Note: "main has no commit that HEAD lacks", Same: true}, Source{Kind: Git, Rev: "main", Paths: paths("./.")}, paths("git:HEAD:.", "git:main:.")},
		{"side...main", nil, Source{Kind: Git, Rev: base, Paths: paths("./.")}, Source{Kind: Git, Rev: "main", Paths: paths("./.")}, paths("git:side (merge base "+base[:12]+"):.", "git:main:.")},
		{"v1...main", nil, Source{Kind: Git, Rev: base, Paths: paths("./.")}, Source{Kind: Git, Rev: "main", Paths: paths("./.")}, paths("git:v1:.", "git:main:.")},
		{"v1", paths("a", "../b/"), Source{Kind: Git, Rev: "v1", Paths: paths("./a", "./../b"), Some: true}, Source{Kind: Path, Paths: paths("a", "../b/"), Some: true}, paths("git:v1:a ../b/", "a ../b/")},
	} {
		t.Run(tt.arg, func(t *testing.T) {
			old, next, err := GitRange(t.Context(), tt.arg, tt.paths, Options{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.names, []string{old.String(), next.String()}); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			old.name, next.name, next.inGit = "", "", false
			if diff := cmp.Diff([]Source{tt.old, tt.next}, []Source{old, next}, cmp.AllowUnexported(Source{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for _, arg := range []string{"", "..", "...", "...HEAD", "-x..y", "x..-y", "x....y", "nowhere...main", "main...nowhere", "a\nb..c"} {
		if old, next, err := GitRange(t.Context(), arg, nil, Options{Dir: dir}); err == nil {
			t.Errorf("%q is taken for %v and %v", arg, old, next)
		}
	}
	if _, _, err := GitRange(t.Context(), "v1..main", paths("/etc"), Options{Dir: dir}); err == nil {
		t.Error("an absolute path is taken")
	}
}

func TestGitRangeLoads(t *testing.T) {
	dir := repository(t)
	old, next, err := GitRange(t.Context(), "v1..main", []string{"../crds", "../new"}, Options{Dir: filepath.Join(dir, "crds")})
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Dir: filepath.Join(dir, "crds")}
	was, err := Load(t.Context(), old, opts)
	if err != nil {
		t.Fatal(err)
	}
	is, err := Load(t.Context(), next, opts)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"as.x.io crds/a.yaml:1", "cs.x.io crds/space * é.yaml:1", "bs.x.io crds/sub/b.yaml:3"}, places(was)); diff != "" {
		t.Errorf("old (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("new.x.io new/n.yaml:1", places(is)[3]); diff != "" {
		t.Errorf("new (-want +got):\n%s", diff)
	}
	if scope := is.Documents[0].CRD.Spec.Scope; scope != "Cluster" {
		t.Errorf("the new definition has scope %q", scope)
	}
}
