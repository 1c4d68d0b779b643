package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

// Requests for several files of one repository wait for one fetch. If its remote gives nothing, each of them loses its place to others.
func TestAllWhoWaitForASlowFetchOfFilesLoseTheirPlaces(t *testing.T) {
	const places = 4
	s := gittest.NewServer(t, false)
	files := map[string]string{}
	for i := range places {
		files[fmt.Sprintf("%d.yaml", i)] = fmt.Sprintf("n: %d\n", i)
	}
	gittest.NewOrigin(t, s.Root, "slow.git", files)
	s.Set(func(_ http.ResponseWriter, q *http.Request) bool {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return true
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		if !strings.Contains(q.URL.Path, "slow.git") || bytes.Contains(body, []byte("filter tree:0")) {
			<-q.Context().Done() // the commit comes, and nothing else
			return true
		}
		return false
	})
	list, err := resolve.NewRegistry(newResolver(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	r, err := resolve.NewRunner(resolve.Options{Resolvers: list, Limits: resolve.Limits{Concurrent: places, PerTenant: places, PerHost: 2 * places}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Wait()
	if err := r.Configure("git", map[string]string{"slow-after": "1s", "backoff-steps": "1"}); err != nil {
		t.Fatal(err)
	}
	ctx := deadline(t)
	query := func(namespace, repository, path string) *resolve.Query {
		return &resolve.Query{Resolver: "git", Namespace: namespace, Params: resolve.Strings(map[string]string{"url": s.URL + "/" + repository, "pathInRepo": path})}
	}
	var slow, others sync.WaitGroup
	for i := range places {
		slow.Go(func() {
			_, err := r.Resolve(ctx, query("team", "slow.git", fmt.Sprintf("%d.yaml", i)))
			var e *resolve.Error
			if !errors.As(err, &e) || e.Reason != resolve.ReasonUnavailable {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	wait, enough := context.WithCancel(ctx)
	for i := range 3 * places {
		others.Go(func() { // a place is lost only to one who waits: there is always one
			for wait.Err() == nil {
				_, _ = r.Resolve(wait, query(fmt.Sprint("other", i), fmt.Sprintf("%d.git", i), "task.yaml"))
			}
		})
	}
	slow.Wait()
	enough()
	others.Wait()
}
