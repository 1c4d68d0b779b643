//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

func TestE2EAPushIsSeenByWhoAsksForIt(t *testing.T) {
	s := standsAlone(t)
	server := gittest.NewServer(t, true)
	origin := gittest.NewOrigin(t, server.Root, "r.git", map[string]string{"task.yaml": "n: 0\n"})
	s.configure(t, "git-resolver-config", map[string]string{"allowed-addresses": "127.0.0.1", "ca-bundle": server.CA, "ref-ttl": "1h"})
	s.startAll(t, "resolution", "resolver-git")
	ns := s.namespace(t)
	n := 0
	ask := func(lookAfter string, params ...string) map[string]string {
		t.Helper()
		n++
		r := newRequest(fmt.Sprintf("r%d", n), "git", append([]string{"url", server.URL + "/r.git", "revision", "main", "pathInRepo", "task.yaml"}, params...)...)
		if lookAfter != "" {
			r.Annotations = map[string]string{resolution.AnnotationLookAfter: lookAfter}
		}
		got := s.resolve(t, ns, r)
		wantFresh := lookAfter != "" || len(params) > 0
		if commit := got.Status.Annotations["commit"]; (commit == gittest.Run(t, origin.Dir, nil, "rev-parse", "main")) != wantFresh {
			t.Errorf("request %s with %q and %v has the commit %s", r.Name, lookAfter, params, commit)
		}
		return got.Status.Annotations
	}
	push := func() { origin.Commit("main", map[string]string{"task.yaml": fmt.Sprintf("n: %d\n", n+1)}) }
	first := ask("now")
	push()
	if again := ask(""); again[resolve.AnnotationLookedAt] != first[resolve.AnnotationLookedAt] {
		t.Errorf("what was known is told to have been looked at %s, %s before", again[resolve.AnnotationLookedAt], first[resolve.AnnotationLookedAt])
	}
	ask("", "cache", "never")
	push()
	ask(time.Now().Format(time.RFC3339Nano))
	push()
	ask("now")
	wantFailure(t, s.resolve(t, ns, func() *v1beta1.ResolutionRequest {
		r := newRequest("bad", "git", "url", server.URL+"/r.git", "pathInRepo", "task.yaml")
		r.Annotations = map[string]string{resolution.AnnotationLookAfter: "yesterday"}
		return r
	}()), "InvalidParams", resolution.AnnotationLookAfter)
}
