package git

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

// What fails on this machine is not told as the remote's fault, and a later try may succeed.
func TestWhatFailsHereIsNotTheRemotesFault(t *testing.T) {
	s := gittest.NewServer(t, false)
	files := map[string]string{"task.yaml": "kind: Task\n"}
	for i := range 100 {
		files[fmt.Sprintf("%d.yaml", i)] = fmt.Sprintf("n: %d\n", i)
	}
	o := gittest.NewOrigin(t, s.Root, "r.git", files)
	// More objects come at once than are unpacked without git.
	gittest.Run(t, o.Dir, nil, "config", "uploadpack.allowFilter", "false")
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(t.TempDir(), "git")
	script := "#!/bin/sh\ncase \"$*\" in *index-pack*|*unpack-objects*) kill -9 $$;; esac\nexec " + git + " \"$@\"\n"
	if err := os.WriteFile(killed, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	for what, make := range map[string]func() *Resolver{
		"a file that cannot be written": func() *Resolver {
			g := newResolver(t, nil)
			g.store.create = func(name string) (*os.File, error) {
				return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EIO}
			}
			return g
		},
		"a git command that is killed": func() *Resolver {
			g := newResolver(t, nil)
			g.index.binary = killed
			return g
		},
		"a git command that is gone": func() *Resolver {
			g := newResolver(t, nil)
			g.index.binary = filepath.Join(t.TempDir(), "git")
			return g
		},
	} {
		_, err := make().Resolve(t.Context(), ask(nil, "url", s.URL+"/r.git", "pathInRepo", "task.yaml"))
		var e *resolve.Error
		if !errors.As(err, &e) || e.Reason != resolve.ReasonLocal || !e.Transient || strings.Contains(e.Msg, " /") {
			t.Errorf("%s: %v (%+v)", what, err, e)
		}
	}
}

// A server that takes the question and does not answer is named, and a later try may succeed.
func TestAServerThatDoesNotBeginToAnswerIsNamed(t *testing.T) {
	s := gittest.NewServer(t, false)
	s.Set(func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	})
	g := newResolver(t, func(o *Options) { o.Network.HeaderTimeout = 50 * time.Millisecond })
	_, err := g.Resolve(t.Context(), ask(nil, "url", s.URL+"/r.git", "pathInRepo", "task.yaml"))
	var e *resolve.Error
	if !errors.As(err, &e) || e.Reason != resolve.ReasonUnavailable || !e.Transient || !strings.Contains(e.Msg, strings.TrimPrefix(s.URL, "http://")) {
		t.Errorf("%v (%+v)", err, e)
	}
}
