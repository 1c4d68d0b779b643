//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/tools/draws"
	"sluice.dev/tools/gittest"
)

// Four namespaces have forty remotes each that give a byte at a time. Another one is served all the while.
func TestE2ESlowRemotesOfSomeDoNotStarveOthers(t *testing.T) {
	slowRemotes(t, 4, 40, "0s")
}

// There are more namespaces than places, each with remotes that give a byte at a time. These lose their places.
func TestE2ESlowRemotesOfManyDoNotStarveOthers(t *testing.T) {
	slowRemotes(t, 70, 3, "1s")
}

// slowRemotes has remotes of other namespaces give a byte at a time, which by themselves would go on for ten minutes.
func slowRemotes(t *testing.T, namespaces, each int, slowAfter string) {
	t.Helper()
	s := standsAlone(t)
	good := gittest.NewServer(t, false)
	gittest.NewOrigin(t, good.Root, "r.git", map[string]string{"task.yaml": taskText})
	s.configure(t, "git-resolver-config", map[string]string{"allowed-addresses": "127.0.0.1", "fetch-timeout": "10m", "slow-after": slowAfter})
	s.configure(t, "config-defaults", map[string]string{"default-maximum-resolution-timeout": "10m"})
	s.startAll(t, "resolution", "resolver-git")
	slow := make([]string, each)
	for i := range slow {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// The beginning of a line of 65 KB.
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			_, _ = w.Write([]byte("001e# service=git-upload-pack\n0000ff00"))
			drip(w, r)
		}))
		// Its connections stay open for as long as the resolver waits.
		t.Cleanup(server.CloseClientConnections)
		slow[i] = server.URL
	}
	held := make([]string, namespaces)
	for i := range held {
		ns := s.namespace(t)
		held[i] = ns
		var requests []*v1beta1.ResolutionRequest
		for i, url := range slow {
			requests = append(requests, newRequest(fmt.Sprintf("slow%d", i), "git", "url", fmt.Sprintf("%s/%s.git", url, ns), "pathInRepo", "task.yaml"))
		}
		s.create(t, ns, requests...)
	}
	ns := s.namespace(t)
	for i := range 20 {
		r := s.resolve(t, ns, newRequest(fmt.Sprintf("good%d", i), "git", "url", good.URL+"/r.git", "pathInRepo", "task.yaml", "cache", "never"))
		wantContent(t, r, taskText)
	}
	if slowAfter != "0s" {
		return
	}
	for _, ns := range held {
		if n := s.inProgress(t, ns); n != each {
			t.Errorf("%d of %d slow requests of a namespace have ended: they were not at work all the while", each-n, each)
		}
	}
}

// TestE2EManyRequestsOfOneDoNotStarveAnother: thousands of requests of one namespace wait for their remote when another one sends five.
func TestE2EManyRequestsOfOneDoNotStarveAnother(t *testing.T) {
	s := standsAlone(t)
	s.configure(t, "git-resolver-config", loopback)
	s.configure(t, "config-defaults", map[string]string{"default-maximum-resolution-timeout": "10m"})
	repos, held := catalog(t)
	n := draws.Count(2000)
	many, few := s.namespace(t), s.namespace(t)
	s.create(t, many, wave(repos.URL+"/held.git", n)...)
	s.startAll(t, "resolution", "resolver-git")
	<-held.arrived
	s.create(t, few, wave(repos.URL+"/good.git", 5)...)
	s.wantWave(t, few, 5)
	if left := s.inProgress(t, many); left != n {
		t.Errorf("%d of %d have ended before the five", n-left, n)
	}
	close(held.open)
	s.wantWave(t, many, n)
}
