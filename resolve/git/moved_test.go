package git

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

// What a server was found to be is not true for ever: a redirect is taken back, or a proxy no longer passes version 2 on.
func TestAServerThatHasChangedIsAskedAnew(t *testing.T) {
	old, other := gittest.NewServer(t, false), gittest.NewServer(t, false)
	gittest.NewOrigin(t, old.Root, "r.git", someFiles)
	gittest.NewOrigin(t, other.Root, "moved.git", map[string]string{"task.yaml": "moved\n"})
	var redirects atomic.Bool
	redirects.Store(true)
	old.Set(func(w http.ResponseWriter, r *http.Request) bool {
		if !redirects.Load() {
			return false
		}
		http.Redirect(w, r, other.URL+strings.Replace(r.URL.Path, "/r.git", "/moved.git", 1)+"?"+r.URL.RawQuery, http.StatusFound)
		return true
	})
	g := newResolver(t, nil)
	r := ask(nil, "url", old.URL+"/r.git", "pathInRepo", "task.yaml", ":ref-ttl", "0s")
	wantData(t, g, r, "moved\n")
	redirects.Store(false)
	// The redirect is remembered while it leads somewhere.
	wantData(t, g, r, "moved\n")
	other.Set(func(w http.ResponseWriter, r *http.Request) bool { http.NotFound(w, r); return true })
	wantData(t, g, r, "kind: Task\n")

	old.Set(func(w http.ResponseWriter, r *http.Request) bool { http.NotFound(w, r); return true })
	before := old.Requests.Load()
	wantReason(t, g, r, resolve.ReasonNotFound)
	wantReason(t, g, r, resolve.ReasonNotFound)
	if n := old.Requests.Load() - before; n > 3 {
		t.Errorf("%d questions for two requests", n)
	}
	old.Set(nil)
	wantData(t, g, r, "kind: Task\n")
}
