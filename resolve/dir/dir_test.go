package dir_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sluice.dev/resolve"
	"sluice.dev/resolve/dir"
	"sluice.dev/resolve/resolvetest"
)

func TestConformance(t *testing.T) {
	top := t.TempDir()
	root := filepath.Join(top, "root")
	write := func(name, text string) {
		t.Helper()
		p := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	write("outside.yaml", "hunter2")
	write("root/a/task.yaml", "kind: Task\n")
	write("root/large.yaml", strings.Repeat("x", resolve.DefaultMaxBytes+1))
	write("root/empty.yaml", "")
	write("second/x.yaml", "second")
	link("a/task.yaml", "inside.yaml")
	link("../outside.yaml", "relative.yaml")
	link(filepath.Join(top, "outside.yaml"), "absolute.yaml")
	link("..", "up")
	link("loop", "loop")
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	params := func(p string) map[string]string { return map[string]string{"path": p} }
	c := resolvetest.Case{
		Resolver: dir.New(map[string]string{"default": root, "second": filepath.Join(top, "second"), "gone": filepath.Join(top, "gone"), "no directory": filepath.Join(top, "outside.yaml")}),
		Hidden:   []string{top, "hunter2"},
		Works: []resolvetest.Request{
			{Name: "a file", Params: params("a/task.yaml"), Data: []byte("kind: Task\n")},
			{Name: "a leading slash", Params: params("/a/task.yaml"), Data: []byte("kind: Task\n")},
			{Name: "dots inside", Params: params("a/../a/./task.yaml"), Data: []byte("kind: Task\n")},
			{Name: "a link inside", Params: params("inside.yaml"), Data: []byte("kind: Task\n")},
			{Name: "another directory", Params: map[string]string{"pathInRepo": "x.yaml", "directory": "second"}, Data: []byte("second")},
		},
	}
	for p, why := range map[string]resolve.Reason{
		"no.yaml": resolve.ReasonNotFound, "a": resolve.ReasonNotFound, "a/task.yaml/x": resolve.ReasonNotFound, "pipe": resolve.ReasonNotFound,
		"large.yaml": resolve.ReasonTooLarge, "empty.yaml": resolve.ReasonFailed, "../outside.yaml": resolve.ReasonInvalid, "..": resolve.ReasonInvalid,
		"/": resolve.ReasonInvalid, "/../outside.yaml": resolve.ReasonInvalid, "a/../../outside.yaml": resolve.ReasonInvalid,
		"relative.yaml": resolve.ReasonForbidden, "absolute.yaml": resolve.ReasonForbidden, "up/outside.yaml": resolve.ReasonForbidden, "loop": resolve.ReasonForbidden,
		"a\x00b": resolve.ReasonInvalid, "a\xffb": resolve.ReasonInvalid, strings.Repeat("a", 300): resolve.ReasonForbidden,
	} {
		c.Fails = append(c.Fails, resolvetest.Failure{Request: resolvetest.Request{Name: p, Params: params(p)}, Reason: why})
	}
	for _, name := range []string{"gone", "no directory"} {
		c.Fails = append(c.Fails, resolvetest.Failure{
			Request: resolvetest.Request{Name: "a directory that is " + name, Params: map[string]string{"path": "x", "directory": name}}, Reason: resolve.ReasonFailed,
		})
	}
	c.Fails = append(c.Fails, resolvetest.Failure{
		Request: resolvetest.Request{Name: "no such directory", Params: map[string]string{"path": "x", "directory": "third"}}, Reason: resolve.ReasonInvalid,
	})
	resolvetest.Run(t, c)
}
