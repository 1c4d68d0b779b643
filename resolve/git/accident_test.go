package git

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

// broken is a way to a repository whose n-th question finds a defect.
type broken struct {
	remote

	mu sync.Mutex
	n  int
}

func (b *broken) step() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n--; b.n == 0 {
		panic("a defect")
	}
}

func (b *broken) exchange(ctx context.Context, body []byte, version2 bool) (io.ReadCloser, error) {
	b.step()
	return b.remote.exchange(ctx, body, version2)
}

// A defect that shows while several wait, at any step of a fetch, becomes an error for each of them, and the process lives.
func TestAPanicOfWhatSeveralWaitForIsAnErrorForEach(t *testing.T) {
	s := gittest.NewServer(t, false)
	gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	for step := 1; ; step++ {
		var told sync.Map
		g := newResolver(t, nil)
		g.way = func(r remote) remote { return &broken{remote: r, n: step} }
		list, err := resolve.NewRegistry(g)
		if err != nil {
			t.Fatal(err)
		}
		r, err := resolve.NewRunner(resolve.Options{Resolvers: list, Observer: resolve.Observer{
			Panicked: func(_ string, value any, _ []byte) { told.Store(value.(error).Error(), true) }, //nolint:errcheck,forcetypeassert // a test
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Configure("git", map[string]string{"backoff-steps": "1"}); err != nil {
			t.Fatal(err)
		}
		ask := func(path string) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := r.Resolve(ctx, &resolve.Query{Resolver: "git", Namespace: "ns", Params: resolve.Strings(map[string]string{"url": s.URL + "/r.git", "pathInRepo": path})})
			return err
		}
		var all sync.WaitGroup
		for _, path := range []string{"task.yaml", "dir/b.yaml", "dir"} {
			all.Go(func() {
				if err := ask(path); err != nil && !strings.Contains(err.Error(), "this is a defect in it") {
					t.Errorf("step %d: %v", step, err)
				}
			})
		}
		all.Wait()
		// What is under way ends, and who comes next is served.
		for _, path := range []string{"task.yaml", "dir/sub/d.yaml"} {
			if err := ask(path); err != nil && !strings.Contains(err.Error(), "this is a defect in it") {
				t.Errorf("step %d, after it: %v", step, err)
			}
		}
		r.Wait()
		found := false
		told.Range(func(text, _ any) bool {
			found = true
			if s, ok := text.(string); !ok || !strings.Contains(s, "a defect\n") || !strings.Contains(s, "accident_test.go") {
				t.Errorf("the log has %s", text)
			}
			return true
		})
		if !found {
			if step < 4 {
				t.Errorf("only %d steps were broken", step-1)
			}
			return
		}
	}
}
