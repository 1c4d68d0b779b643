package git

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

func runnerOf(t *testing.T, g *Resolver) *resolve.Runner {
	t.Helper()
	list, err := resolve.NewRegistry(g)
	if err != nil {
		t.Fatal(err)
	}
	r, err := resolve.NewRunner(resolve.Options{Resolvers: list})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Wait)
	if err := r.Configure("git", map[string]string{"ref-ttl": "1h"}); err != nil {
		t.Fatal(err)
	}
	return r
}

// Whoever asks after a push that the look must not be older gets what was pushed, whatever others have asked before and ask
// at the same time; what is told of the look's age is true.
func TestAPushIsSeenByWhoAsksForIt(t *testing.T) {
	s := gittest.NewServer(t, false)
	o := gittest.NewOrigin(t, s.Root, "r.git", map[string]string{"n.yaml": "n: 0\n"})
	r := runnerOf(t, newResolver(t, nil))
	query := func(mode string, notBefore time.Time) *resolve.Query {
		return &resolve.Query{Resolver: "git", Namespace: "team", NotBefore: notBefore, Params: resolve.Strings(map[string]string{
			"url": s.URL + "/r.git", "revision": "main", "pathInRepo": "n.yaml", "cache": mode,
		})}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 30 {
		pushed := o.Commit("main", map[string]string{"n.yaml": fmt.Sprintf("n: %d\n", n+1)})
		at := time.Now()
		var all sync.WaitGroup
		for range 1 + random.IntN(6) {
			// The others, who take what there is.
			mode := []string{"auto", "always"}[random.IntN(2)]
			all.Go(func() {
				if _, err := r.Resolve(t.Context(), query(mode, time.Time{})); err != nil {
					t.Error(err)
				}
			})
		}
		for range 1 + random.IntN(4) {
			q := query("never", time.Time{})
			if random.IntN(2) == 0 {
				q = query([]string{"auto", "always", "never"}[random.IntN(3)], at)
			}
			all.Go(func() {
				res, err := r.Resolve(t.Context(), q)
				if err != nil {
					t.Error(err)
					return
				}
				if res.Source.Digest["sha1"] != pushed || string(res.Data) != fmt.Sprintf("n: %d\n", n+1) {
					t.Errorf("push %d is not seen with %v: %q", n+1, q, res.Data)
				}
				looked, err := time.Parse(time.RFC3339Nano, res.Annotations[resolve.AnnotationLookedAt])
				if err != nil || looked.Before(at.Round(0)) {
					t.Errorf("looked at %v (%v), pushed at %v", looked, err, at)
				}
			})
		}
		all.Wait()
	}
}

// A look that is under way while somebody pushes may have asked too early.
func TestALookThatIsUnderWayServesNobodyWhoAsksLater(t *testing.T) {
	s := gittest.NewServer(t, false)
	o := gittest.NewOrigin(t, s.Root, "r.git", map[string]string{"n.yaml": "n: 0\n"})
	g := newResolver(t, nil)
	request := func() *resolve.Request {
		r := ask(nil, "url", s.URL+"/r.git", "pathInRepo", "n.yaml", ":ref-ttl", "1h")
		r.NotBefore = time.Now()
		return r
	}
	wantData(t, g, request(), "n: 0\n")

	arrived, let := make(chan struct{}), make(chan struct{})
	var first sync.Once
	s.Set(func(w http.ResponseWriter, q *http.Request) (done bool) {
		first.Do(func() {
			// The refs are read before the push, and sent after it.
			s.Set(nil)
			answer := httptest.NewRecorder()
			s.ServeHTTP(answer, q)
			close(arrived)
			<-let
			maps.Copy(w.Header(), answer.Header())
			if _, err := w.Write(answer.Body.Bytes()); err != nil {
				t.Error(err)
			}
			done = true
		})
		return done
	})
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { wantData(t, g, request(), "n: 0\n") })
	<-arrived
	o.Commit("main", map[string]string{"n.yaml": "n: 1\n"})
	all.Go(func() { wantData(t, g, request(), "n: 1\n") })
	until(t, func() bool {
		g.store.mu.Lock()
		defer g.store.mu.Unlock()
		for _, m := range g.store.mirrors {
			m.refFlight.mu.Lock()
			defer m.refFlight.mu.Unlock()
			if f := m.refFlight.runs["main"]; f != nil && f.waiters == 2 {
				return true
			}
		}
		return false
	})
	close(let)
}

// What cannot change is taken from the cache, however old a look may be.
func TestACommitNeedsNoFreshLook(t *testing.T) {
	s := gittest.NewServer(t, false)
	o := gittest.NewOrigin(t, s.Root, "r.git", map[string]string{"n.yaml": "n: 0\n"})
	r := runnerOf(t, newResolver(t, nil))
	for range 3 {
		res, err := r.Resolve(t.Context(), &resolve.Query{Resolver: "git", Namespace: "team", NotBefore: time.Now(), Params: resolve.Strings(map[string]string{
			"url": s.URL + "/r.git", "revision": gittest.Run(t, o.Dir, nil, "rev-parse", "main"), "pathInRepo": "n.yaml",
		})})
		if err != nil {
			t.Fatal(err)
		}
		if looked, ok := res.Annotations[resolve.AnnotationLookedAt]; ok {
			t.Errorf("a commit was looked at %s", looked)
		}
		s.Set(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
	}
}

// Who has a token that was revoked reads nothing more, be it in the mirror or in the cache: at once where the request asks for
// what is there now, and after access-ttl in any case.
func TestARevokedTokenReadsNothingMore(t *testing.T) {
	for _, ttl := range []string{"0s", "1m"} {
		t.Run("access-ttl="+ttl, func(t *testing.T) {
			s := gittest.NewServer(t, true)
			o := gittest.NewOrigin(t, s.Root, "r.git", map[string]string{"n.yaml": "n: 0\n"})
			var revoked atomic.Bool
			s.Set(func(w http.ResponseWriter, _ *http.Request) bool {
				if revoked.Load() {
					w.WriteHeader(http.StatusUnauthorized)
				}
				return revoked.Load()
			})
			clock := &handClock{now: time.Unix(1_000_000, 0)}
			g := newResolver(t, func(o *Options) { o.Clock = clock })
			list, err := resolve.NewRegistry(g)
			if err != nil {
				t.Fatal(err)
			}
			r, err := resolve.NewRunner(resolve.Options{Resolvers: list, Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(r.Wait)
			if err := r.Configure("git", map[string]string{"access-ttl": ttl, "ref-ttl": "24h", "ca-bundle": s.CA, "allowed-addresses": "127.0.0.1"}); err != nil {
				t.Fatal(err)
			}
			commit := gittest.Run(t, o.Dir, nil, "rev-parse", "main")
			read := func(revision, mode, secret string) error {
				params := map[string]string{"url": s.URL + "/r.git", "revision": revision, "pathInRepo": "n.yaml", "cache": mode}
				if secret != "" {
					params["gitToken"] = secret
				}
				_, err := r.Resolve(t.Context(), &resolve.Query{
					Resolver: "git", Namespace: "team", Params: resolve.Strings(params), Secrets: secrets{"team/token": {"token": []byte("secret")}},
				})
				return err
			}
			revisions, modes := []string{"main", commit, commit[:10]}, []string{"auto", "always", "never"}
			for _, revision := range revisions {
				for _, mode := range modes {
					for _, secret := range []string{"token", ""} {
						if err := read(revision, mode, secret); err != nil {
							t.Fatalf("%s, %s: %v", revision, mode, err)
						}
					}
				}
			}
			revoked.Store(true)
			clock.add(time.Millisecond)
			refused := func(when string, modes ...string) {
				t.Helper()
				for _, revision := range revisions {
					for _, mode := range modes {
						err := read(revision, mode, "token")
						if e, ok := errors.AsType[*resolve.Error](err); !ok || e.Reason != resolve.ReasonDenied {
							t.Errorf("%s, %s, %s: %v", when, revision, mode, err)
						}
					}
				}
			}
			refused("at once", "never")
			if ttl == "0s" {
				refused("without a time", modes...)
			}
			clock.add(61 * time.Second)
			refused("after a minute", modes...)
			// What was read without a credential was for everybody.
			if err := read(commit, "auto", ""); err != nil {
				t.Error(err)
			}
			revoked.Store(false)
			for _, revision := range revisions {
				if err := read(revision, "auto", "token"); err != nil {
					t.Errorf("let in again, %s: %v", revision, err)
				}
			}
		})
	}
}

// A commit may be gone from the server when it is asked for, because somebody has rewritten the branch. Whoever has named the branch
// gets what it names now.
func TestABranchThatIsRewrittenBeforeTheFetchIsLookedAtAgain(t *testing.T) {
	for _, version0 := range []bool{false, true} {
		for _, when := range []string{"after the look", "after another request"} {
			t.Run(fmt.Sprintf("version 0: %t, %s", version0, when), func(t *testing.T) {
				s := gittest.NewServer(t, false)
				s.Version0 = version0
				o := gittest.NewOrigin(t, s.Root, "r.git", map[string]string{"n.yaml": "n: 0\n", "a/m.yaml": "m: 0\n"})
				gittest.Run(t, o.Dir, nil, "config", "uploadpack.allowAnySHA1InWant", "false")
				g := newResolver(t, nil)
				if when == "after another request" {
					wantData(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "n.yaml", ":ref-ttl", "1h"), "n: 0\n")
				}
				var first sync.Once
				s.Set(func(_ http.ResponseWriter, q *http.Request) bool {
					body, err := io.ReadAll(q.Body)
					if err != nil {
						t.Error(err)
					}
					q.Body = io.NopCloser(bytes.NewReader(body))
					if bytes.Contains(body, []byte("want ")) {
						first.Do(func() {
							o.Commit("other", map[string]string{"n.yaml": "n: 1\n", "a/m.yaml": "m: 1\n"})
							gittest.Run(t, o.Dir, nil, "update-ref", "refs/heads/main", "refs/heads/other")
							gittest.Run(t, o.Dir, nil, "gc", "-q", "--prune=now")
						})
					}
					return false
				})
				wantOne(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "a/m.yaml", ":ref-ttl", "1h"), "m: 0\n", "m: 1\n")
				s.Set(nil)
				wantData(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "n.yaml", ":ref-ttl", "0s"), "n: 1\n")
			})
		}
	}
}

// wantOne resolves and wants one of several contents.
func wantOne(t *testing.T, g *Resolver, r *resolve.Request, want ...string) {
	t.Helper()
	got, err := g.Resolve(deadline(t), r)
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	if !slices.Contains(want, string(got.Data)) {
		t.Errorf("content is %q, want one of %q", got.Data, want)
	}
}
