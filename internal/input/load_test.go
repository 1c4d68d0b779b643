package input

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writeTree writes files, and links for contents that begin with "-> ".
func writeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, full)
		} else {
			err = os.WriteFile(full, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestParseSource(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Source
	}{
		{"-", Source{Kind: Stdin}},
		{"cluster", Source{Kind: Cluster}},
		{"./cluster", Source{Kind: Path, Paths: []string{"./cluster"}}},
		{"a/b.yaml", Source{Kind: Path, Paths: []string{"a/b.yaml"}}},
		{"git:HEAD", Source{Kind: Git, Rev: "HEAD"}},
		{"git:HEAD:", Source{Kind: Git, Rev: "HEAD"}},
		{"git:v1.2^{}:./a b/c", Source{Kind: Git, Rev: "v1.2^{}", Paths: []string{"./a b/c"}}},
		{"./git:HEAD", Source{Kind: Path, Paths: []string{"./git:HEAD"}}},
	} {
		got, err := ParseSource(tt.in)
		if err != nil {
			t.Errorf("%s: %v", tt.in, err)
			continue
		}
		if got.String() != tt.in {
			t.Errorf("%s is called %s", tt.in, got)
		}
		got.name = ""
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(Source{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.in, diff)
		}
	}
	for _, in := range []string{"", "git:", "git::a", "git:-x", "git:--upload-pack=x:y", "git:a..b", "git:a\nb", "git:a\x00b"} {
		if got, err := ParseSource(in); err == nil {
			t.Errorf("%q is taken for %+v", in, got)
		}
	}
}

func TestLoadFiles(t *testing.T) {
	a, b, c := crd("as.x.io"), crd("bs.x.io"), crd("cs.x.io")
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"one.txt":            a,
		"dir/z.yaml":         a,
		"dir/a.YML":          "kind: Pod\n",
		"dir/b.json":         "{}",
		"dir/readme.md":      "{{ not read }}",
		"dir/.hidden.yaml":   "{{ not read }}",
		"dir/.git/x.yaml":    "{{ not read }}",
		"dir/sub/deep/b.yml": b,
		"dir/sub.yaml":       c,
		"links/a.yaml":       "-> ../one.txt",
		"links/d":            "-> ../dir/sub",
		"links/gone":         "-> nowhere",
		"same/a.yaml":        a,
		"same/b.yaml":        a,
		"empty/x.txt":        "",
	})
	for _, tt := range []struct {
		name  string
		src   Source
		want  []string
		files int
	}{
		{"a file of any name", Source{Paths: []string{"one.txt"}}, []string{"as.x.io one.txt:1"}, 1},
		{"a directory", Source{Paths: []string{"dir"}}, []string{"cs.x.io dir/sub.yaml:1", "bs.x.io dir/sub/deep/b.yml:1", "as.x.io dir/z.yaml:1"}, 5},
		{"a directory with a slash", Source{Paths: []string{"dir/sub/"}}, []string{"bs.x.io dir/sub/deep/b.yml:1"}, 1},
		{"links", Source{Paths: []string{"links"}}, []string{"as.x.io links/a.yaml:1", "bs.x.io links/d/deep/b.yml:1"}, 2},
		{"several", Source{Paths: []string{"one.txt", "dir/sub"}}, []string{"as.x.io one.txt:1", "bs.x.io dir/sub/deep/b.yml:1"}, 2},
		{"several of which some are missing", Source{Paths: []string{"none", "one.txt"}, Some: true}, []string{"as.x.io one.txt:1"}, 1},
		{"the same definition twice", Source{Paths: []string{"same"}}, []string{"as.x.io same/a.yaml:1"}, 2},
		{"an absolute path", Source{Paths: []string{filepath.Join(dir, "one.txt")}}, []string{"as.x.io " + dir + "/one.txt:1"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set, err := Load(t.Context(), tt.src, Options{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, places(set)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if set.Files != tt.files || set.Name != tt.src.String() {
				t.Errorf("%d files in %q", set.Files, set.Name)
			}
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"a.yaml":            crd("as.x.io"),
		"big.yaml":          strings.Repeat("# comment\n", 200),
		"total/a.yaml":      strings.Repeat("#", 700),
		"total/b.yaml":      strings.Repeat("#", 700),
		"loop/a/b":          "-> ../../loop",
		"self/x.yaml":       "-> x.yaml",
		"gone/x.yaml":       "-> nowhere",
		"none/x.txt":        "x",
		"pods/x.yaml":       "kind: Pod",
		"two/a.yaml":        crd("as.x.io"),
		"two/b.yaml":        "\n" + crd("as.x.io") + "  scope: Cluster\n",
		"bad/a.yaml":        "a: b\n",
		"bad/sub/b.yaml":    "a: b\n c: d\n",
		"template/a.yaml":   "{{ if x }}\n",
		"denied/a.yaml":     "a: b",
		"denieddir/x/a.yml": "a: b",
	})
	if err := os.Truncate(filepath.Join(dir, "a.yaml"), 1<<30); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		src  Source
		is   error
		says []string
	}{
		{"what does not exist", Source{Paths: []string{"nothing"}}, ErrNotFound, []string{"nothing: ", "git:REV", "cluster"}},
		{"several that do not exist", Source{Paths: []string{"x", "y"}, Some: true}, ErrNotFound, []string{"y: "}},
		{"a file of 1 GiB, unread", Source{Paths: []string{"a.yaml"}}, ErrTooLarge, []string{"a.yaml: ", "1 KiB", "one file"}},
		{"a file over the limit", Source{Paths: []string{"big.yaml"}}, ErrTooLarge, []string{"big.yaml: "}},
		{"files over the limit together", Source{Paths: []string{"total"}}, ErrTooLarge, []string{"total/b.yaml: ", "1200 bytes", "all files"}},
		{"a directory in itself", Source{Paths: []string{"loop"}}, nil, []string{"loop/a/b: ", "loop"}},
		{"a link to itself", Source{Paths: []string{"self"}}, nil, []string{"self/x.yaml: "}},
		{"a link to nothing", Source{Paths: []string{"gone"}}, os.ErrNotExist, []string{"gone/x.yaml: "}},
		{"a directory without YAML", Source{Paths: []string{"none"}}, ErrNoCRD, []string{"none: ", ".yaml, .yml, .json"}},
		{"a directory without definitions", Source{Paths: []string{"pods"}}, ErrNoCRD, []string{"pods: ", "1 Pod"}},
		{"two definitions of one name", Source{Paths: []string{"two"}}, nil, []string{"two/b.yaml:2: ", "two/a.yaml:1"}},
		{"a broken file in a directory", Source{Paths: []string{"bad"}}, nil, []string{"bad/sub/b.yaml:2: "}},
		{"a template in a directory", Source{Paths: []string{"template"}}, nil, []string{"template/a.yaml:1: "}},
		{"the cluster", Source{Kind: Cluster}, ErrCluster, nil},
		{"no standard input", Source{Kind: Stdin}, nil, []string{"-: "}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			refused(t, tt.src, Options{Dir: dir, MaxFileBytes: 1 << 10, MaxTotalBytes: 1200}, tt.is, tt.says)
		})
	}
	t.Run("without permission", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("root may read everything")
		}
		for _, name := range []string{"denied/a.yaml", "denieddir/x"} {
			full := filepath.Join(dir, name)
			if err := os.Chmod(full, 0); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(full, 0o755) })
			refused(t, Source{Paths: []string{filepath.Dir(name)}}, Options{Dir: dir}, os.ErrPermission, []string{name + ": "})
		}
	})
}

// refused checks that src is refused in one line that has the given words.
func refused(t *testing.T, src Source, opts Options, is error, says []string) {
	t.Helper()
	_, err := Load(t.Context(), src, opts)
	if _, ok := errors.AsType[*Error](err); !ok {
		t.Fatalf("got %v, want an *Error", err)
	}
	if is != nil && !errors.Is(err, is) {
		t.Errorf("%v is not %v", err, is)
	}
	for _, words := range says {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%q does not say %q", err, words)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q has several lines", err)
	}
}

func TestLoadStdin(t *testing.T) {
	src, err := ParseSource("-")
	if err != nil {
		t.Fatal(err)
	}
	set, err := Load(t.Context(), src, Options{Stdin: strings.NewReader("# x\n" + crd("as.x.io"))})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"as.x.io -:2"}, places(set)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	refused(t, src, Options{Stdin: strings.NewReader("")}, ErrNoCRD, []string{"standard input is empty"})
	refused(t, src, Options{Stdin: strings.NewReader(" \n\n")}, ErrNoCRD, []string{"standard input is empty"})
	refused(t, src, Options{Stdin: endless{}, MaxFileBytes: 1 << 20}, ErrTooLarge, []string{"1 MiB"})
}

// endless never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '#'
	}
	return len(p), nil
}

func TestLoadStopsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"a/a.yaml": crd("as.x.io")})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	keep, err := os.OpenFile(filepath.Join(dir, "pipe"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keep.Close() })
	blocked, _ := io.Pipe()
	for _, tt := range []struct {
		name string
		src  Source
	}{
		{"standard input that says nothing", Source{Kind: Stdin}},
		{"a pipe that says nothing", Source{Paths: []string{"pipe"}}},
		{"a directory", Source{Paths: []string{"a"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := Load(ctx, tt.src, Options{Dir: dir, Stdin: blocked}); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the context's error", err)
			}
		})
	}
}

func TestLoadPipe(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(name, 0o644); err != nil {
		t.Fatal(err)
	}
	go func() { _ = os.WriteFile(name, []byte(crd("as.x.io")), 0o644) }()
	set, err := Load(t.Context(), Source{Paths: []string{name}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Documents) != 1 {
		t.Errorf("got %v", places(set))
	}
	// In a directory pipes are passed over, since nobody may be writing.
	writeTree(t, dir, map[string]string{"a.yaml": crd("as.x.io")})
	if err := syscall.Mkfifo(filepath.Join(dir, "b.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	if set, err = Load(t.Context(), Source{Paths: []string{dir}}, Options{}); err != nil || set.Files != 1 {
		t.Errorf("got %+v, %v", set, err)
	}
}

func TestAFileInUTF16MayHaveADefinition(t *testing.T) {
	dir := t.TempDir()
	encoded := func(text string) string {
		var out strings.Builder
		out.WriteString("\xff\xfe")
		for _, c := range []byte(text) {
			out.Write([]byte{c, 0})
		}
		return out.String()
	}
	writeTree(t, dir, map[string]string{"crd.yaml": encoded("kind: CustomResourceDefinition\n"), "other.yaml": encoded("kind: Service\n")})
	set, err := Load(t.Context(), Source{Kind: Path, Paths: []string{dir}}, Options{PassTemplates: true, KeepAll: true})
	if !errors.Is(err, ErrNoCRD) {
		t.Fatal(err)
	}
	if len(set.Unread) != 1 || !strings.Contains(set.Unread[0].Err.Error(), "crd.yaml: is UTF-16") || set.Skipped[Unreadable] != 1 {
		t.Errorf("unread: %v, skipped: %v", set.Unread, set.Skipped)
	}
}
