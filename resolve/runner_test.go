package resolve_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice.dev/resolve"
)

// fake is a resolver whose work is a function.
type fake struct {
	spec resolve.Spec
	do   func(ctx context.Context, r *resolve.Request) (*resolve.Resource, error)
}

func (f *fake) Spec() resolve.Spec { return f.spec }

func (f *fake) Resolve(ctx context.Context, r *resolve.Request) (*resolve.Resource, error) {
	return f.do(ctx, r)
}

func spec() resolve.Spec {
	return resolve.Spec{
		Name: "fake", Aliases: []string{"sham"}, Doc: "Fakes.", ConfigMap: "fake-config",
		Config: []resolve.Key{{Name: "default-kind", Default: "task", Doc: "A kind."}},
		Params: []resolve.Param{
			{Name: "path", Aliases: []string{"pathInRepo"}, Required: true, MaxLength: 20, Doc: "A path."},
			{Name: "kind", DefaultKey: "default-kind", Allowed: []string{"task", "pipeline"}, Doc: "A kind."},
			{Name: "list", Type: resolve.Array, Doc: "A list."},
		},
	}
}

func resource(data string) *resolve.Resource {
	return &resolve.Resource{
		Data:   []byte(data),
		Source: resolve.Source{URI: "fake://x", Digest: map[string]string{"sha256": strings.Repeat("0", 64)}},
	}
}

func str(name, v string) resolve.Given {
	return resolve.Given{Name: name, Value: resolve.Value{Type: resolve.String, String: v}}
}

func ask(path string, more ...resolve.Given) *resolve.Query {
	return &resolve.Query{Resolver: "fake", Namespace: "a", Params: append([]resolve.Given{str("path", path)}, more...)}
}

func runner(t *testing.T, s resolve.Spec, o resolve.Options, do func(context.Context, *resolve.Request) (*resolve.Resource, error)) *resolve.Runner {
	t.Helper()
	var err error
	if o.Resolvers, err = resolve.NewRegistry(&fake{s, do}); err != nil {
		t.Fatal(err)
	}
	o.Random = func() float64 { return 0 }
	r, err := resolve.NewRunner(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func reason(err error) resolve.Reason {
	if e, ok := errors.AsType[*resolve.Error](err); ok {
		return e.Reason
	}
	return ""
}

func TestEqualRequestsShareOneFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		r := runner(t, spec(), resolve.Options{}, func(ctx context.Context, _ *resolve.Request) (*resolve.Resource, error) {
			calls.Add(1)
			select {
			case <-time.After(10 * time.Second):
				return resource("x"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		var wg sync.WaitGroup
		var short, good atomic.Int32
		for i := range 100 {
			wg.Go(func() {
				q := ask("p")
				if i%2 == 0 {
					q = &resolve.Query{Resolver: "sham", Namespace: "a", Params: []resolve.Given{str("kind", "task"), str("pathInRepo", "p")}}
				}
				ctx := t.Context()
				if i%10 == 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, time.Second)
					defer cancel()
				}
				switch _, err := r.Resolve(ctx, q); {
				case err == nil:
					good.Add(1)
				case reason(err) == resolve.ReasonTimedOut:
					short.Add(1)
				}
			})
		}
		wg.Wait()
		if got := [3]int32{calls.Load(), short.Load(), good.Load()}; got != [3]int32{1, 10, 90} {
			t.Errorf("calls, timed out, good: %v", got)
		}
	})
}

func TestLastWaiterEndsTheFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Int32
		r := runner(t, spec(), resolve.Options{}, func(ctx context.Context, _ *resolve.Request) (*resolve.Resource, error) {
			<-ctx.Done()
			ended.Add(1)
			return nil, ctx.Err()
		})
		var cancels []context.CancelFunc
		var wg sync.WaitGroup
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			cancels = append(cancels, cancel)
			wg.Go(func() {
				if _, err := r.Resolve(ctx, ask("p")); reason(err) != resolve.ReasonCanceled {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		cancels[0]()
		cancels[1]()
		synctest.Wait()
		if ended.Load() != 0 {
			t.Error("the fetch ended while somebody waited")
		}
		cancels[2]()
		wg.Wait()
		synctest.Wait()
		if ended.Load() != 1 {
			t.Error("the fetch goes on although nobody waits")
		}
	})
}

func TestScopesAndConfigurationsNeverShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		r := runner(t, spec(), resolve.Options{}, func(_ context.Context, q *resolve.Request) (*resolve.Resource, error) {
			calls.Add(1)
			time.Sleep(time.Second)
			res := resource(q.Namespace)
			res.Immutable = true
			return res, nil
		})
		get := func(namespace string) {
			q := ask("p", str("cache", "always"))
			q.Namespace = namespace
			res, err := r.Resolve(t.Context(), q)
			if err != nil || string(res.Data) != namespace {
				t.Errorf("namespace %s got %v %v", namespace, res, err)
			}
		}
		var wg sync.WaitGroup
		for _, n := range []string{"a", "b", "a", "b"} {
			wg.Go(func() { get(n) })
		}
		wg.Wait()
		get("a")
		get("b")
		if n := calls.Load(); n != 2 {
			t.Errorf("%d fetches, want 2", n)
		}
		if err := r.Configure("fake", map[string]string{"default-kind": "pipeline"}); err != nil {
			t.Fatal(err)
		}
		get("a")
		if n := calls.Load(); n != 3 {
			t.Errorf("%d fetches after another configuration, want 3", n)
		}
	})
}

func TestCacheModes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		immutable := false
		r := runner(t, spec(), resolve.Options{}, func(context.Context, *resolve.Request) (*resolve.Resource, error) {
			calls.Add(1)
			res := resource("x")
			res.Immutable = immutable
			return res, nil
		})
		get := func(mode string, want int32, operation string) {
			t.Helper()
			res, err := r.Resolve(t.Context(), ask("p", str("cache", mode)))
			if err != nil {
				t.Fatal(err)
			}
			if n := calls.Load(); n != want {
				t.Errorf("mode %s: %d fetches, want %d", mode, n, want)
			}
			if got := res.Annotations[resolve.AnnotationCacheOperation]; got != operation {
				t.Errorf("mode %s: operation %q, want %q", mode, got, operation)
			}
		}
		get("auto", 1, "")
		get("never", 2, "")
		get("always", 3, "store")
		get("always", 3, "retrieve")
		get("auto", 4, "") // what can change is not for auto, even if it is in the cache
		immutable = true
		get("auto", 5, "store")
		get("auto", 5, "retrieve")
		get("never", 6, "")
		time.Sleep(5 * time.Minute)
		get("auto", 7, "store")
		_, err := r.Resolve(t.Context(), ask("p", str("cache", "sometimes")))
		if reason(err) != resolve.ReasonInvalid {
			t.Errorf("an unknown mode gave %v", err)
		}
	})
}

func TestRetries(t *testing.T) {
	tests := []struct {
		name   string
		steps  string
		err    func(try int32) error
		want   resolve.Reason
		tries  int32
		passed time.Duration
	}{
		{"a permanent error is told at once", "5", func(int32) error { return resolve.Errorf(resolve.ReasonNotFound, "no") }, resolve.ReasonNotFound, 1, 0},
		{"another error is permanent", "5", func(int32) error { return errors.New("no") }, resolve.ReasonFailed, 1, 0},
		{"a transient error is retried", "5", func(n int32) error {
			if n < 3 {
				return resolve.Transientf("busy")
			}
			return nil
		}, "", 3, 6 * time.Second},
		{"not more often than said", "3", func(int32) error { return resolve.Transientf("busy") }, resolve.ReasonUnavailable, 3, 6 * time.Second},
		{"Retry-After is kept", "3", func(n int32) error {
			if n == 1 {
				e := resolve.Transientf("busy")
				e.RetryAfter = 30 * time.Second
				return e
			}
			return nil
		}, "", 2, 30 * time.Second},
		{"Retry-After beyond the time-out is not waited for", "3", func(int32) error {
			e := resolve.Transientf("busy")
			e.RetryAfter = time.Hour
			return e
		}, resolve.ReasonUnavailable, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int32
				r := runner(t, spec(), resolve.Options{}, func(context.Context, *resolve.Request) (*resolve.Resource, error) {
					if err := tt.err(calls.Add(1)); err != nil {
						return nil, err
					}
					return resource("x"), nil
				})
				if err := r.Configure("fake", map[string]string{"backoff-steps": tt.steps}); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				_, err := r.Resolve(t.Context(), ask("p"))
				if reason(err) != tt.want || calls.Load() != tt.tries || time.Since(began) != tt.passed {
					t.Errorf("%v after %d tries and %s", err, calls.Load(), time.Since(began))
				}
			})
		})
	}
}

func TestFetchTimeoutEndsEvenAResolverThatDoesNotListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runner(t, spec(), resolve.Options{}, func(context.Context, *resolve.Request) (*resolve.Resource, error) {
			time.Sleep(time.Hour)
			return nil, errors.New("late")
		})
		began := time.Now()
		_, err := r.Resolve(t.Context(), ask("p"))
		if reason(err) != resolve.ReasonTimedOut || time.Since(began) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		time.Sleep(time.Hour) // the bubble ends with its goroutines
	})
}

func TestLateWaiterOutlivesTheFetchThatItJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		r := runner(t, spec(), resolve.Options{}, func(ctx context.Context, _ *resolve.Request) (*resolve.Resource, error) {
			if calls.Add(1) == 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return resource("x"), nil
		})
		go func() { _, _ = r.Resolve(t.Context(), ask("p")) }()
		time.Sleep(59 * time.Second)
		if _, err := r.Resolve(t.Context(), ask("p")); err != nil || calls.Load() != 2 {
			t.Errorf("%v after %d fetches", err, calls.Load())
		}
	})
}

func TestHangingServersOfOneTenantHoldUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spec()
		s.Host = func(r *resolve.Request) string { return r.Get("path") }
		s.Scope = func(*resolve.Request) string { return resolve.PublicScope }
		ctx, cancel := context.WithCancel(t.Context())
		r := runner(t, s, resolve.Options{Limits: resolve.Limits{Concurrent: 20, PerTenant: 10, PerHost: 4}},
			func(ctx context.Context, q *resolve.Request) (*resolve.Resource, error) {
				if strings.HasPrefix(q.Get("path"), "hang") {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				time.Sleep(time.Millisecond)
				return resource("x"), nil
			})
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() { _, _ = r.Resolve(ctx, ask(fmt.Sprint("hang", i))) })
		}
		// A request that the other tenant makes as well, and that stands in the first one's line.
		wg.Go(func() { _, _ = r.Resolve(ctx, ask("shared")) })
		synctest.Wait()
		began := time.Now()
		for i := range 100 {
			path := fmt.Sprint("good", i)
			if i == 0 {
				path = "shared"
			}
			q := ask(path)
			q.Namespace = "b"
			if _, err := r.Resolve(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(began); d != 100*time.Millisecond {
			t.Errorf("the other tenant's 100 requests took %s", d)
		}
		cancel()
		wg.Wait()
	})
}

// Each of several tenants has many remotes that hang. As long as they are not many more than half of the spare places, whoever runs
// little has a place and memory left, by default and as it is configured.
func TestHangingServersOfManyTenantsHoldUpNobodyElse(t *testing.T) {
	for _, c := range []struct {
		tenants int
		config  map[string]string
	}{
		{4, nil},
		{6, nil},
		{2, map[string]string{"max-fetches": "8", "spare-fetches": "4", "max-fetches-per-namespace": "8", "max-fetches-per-host": "1"}},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := spec()
				s.Host = func(r *resolve.Request) string { return r.Get("path") }
				s.Memory = func(int64) int64 { return 4 << 20 }
				var hanging atomic.Int64
				r := runner(t, s, resolve.Options{Memory: resolve.NewMemory(128 << 20)}, func(ctx context.Context, q *resolve.Request) (*resolve.Resource, error) {
					if strings.HasPrefix(q.Get("path"), "hang") {
						hanging.Add(1)
						defer hanging.Add(-1)
						<-ctx.Done()
						return nil, ctx.Err()
					}
					time.Sleep(time.Millisecond)
					return resource("x"), nil
				})
				if err := r.Configure(s.Name, c.config); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				for tenant := range c.tenants {
					for i := range 40 {
						wg.Go(func() {
							q := ask(fmt.Sprintf("hang-%d-%d", tenant, i))
							q.Namespace = fmt.Sprint("bad", tenant)
							_, _ = r.Resolve(ctx, q)
						})
					}
				}
				synctest.Wait()
				if n := hanging.Load(); n < 4 {
					t.Errorf("only %d fetches hang", n)
				}
				began := time.Now()
				for i := range 20 {
					q := ask(fmt.Sprint("good", i))
					q.Namespace = "good"
					if _, err := r.Resolve(t.Context(), q); err != nil {
						t.Fatal(err)
					}
				}
				if d := time.Since(began); d != 20*time.Millisecond {
					t.Errorf("20 requests of another tenant took %s", d)
				}
				// Who hangs is told which remote it is.
				late := ask("hang-late")
				late.Namespace = "late"
				short, stop := context.WithTimeout(t.Context(), time.Second)
				defer stop()
				_, err := r.Resolve(short, late)
				if e, ok := errors.AsType[*resolve.Error](err); !ok || e.Reason != resolve.ReasonTimedOut || !strings.Contains(e.Msg, "from hang-late") {
					t.Errorf("%v", err)
				}
				cancel()
				wg.Wait()
			})
		})
	}
}

func TestLimitsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spec()
		s.Host = func(r *resolve.Request) string { return r.Get("path")[:1] }
		var mu sync.Mutex
		now, most := map[string]int{}, map[string]int{}
		count := func(by int, keys ...string) {
			mu.Lock()
			defer mu.Unlock()
			for _, k := range keys {
				now[k] += by
				most[k] = max(most[k], now[k])
			}
		}
		r := runner(t, s, resolve.Options{Limits: resolve.Limits{Concurrent: 6, PerTenant: 4, PerHost: 3}},
			func(_ context.Context, q *resolve.Request) (*resolve.Resource, error) {
				keys := []string{"all", "tenant " + q.Namespace, "host " + q.Get("path")[:1]}
				count(1, keys...)
				time.Sleep(time.Second)
				count(-1, keys...)
				return resource("x"), nil
			})
		var wg sync.WaitGroup
		for i := range 90 {
			wg.Go(func() {
				q := ask(fmt.Sprint([]string{"x", "y", "z"}[i%3], i))
				q.Namespace = []string{"a", "b"}[i/3%2]
				if _, err := r.Resolve(t.Context(), q); err != nil {
					t.Error(err)
				}
			})
		}
		began := time.Now()
		wg.Wait()
		want := map[string]int{"all": 6, "tenant a": 4, "tenant b": 4, "host x": 3, "host y": 3, "host z": 3}
		for k, limit := range want {
			if most[k] > limit || most[k] == 0 {
				t.Errorf("%s: %d at once, limit %d", k, most[k], limit)
			}
		}
		if d := time.Since(began); d != 15*time.Second {
			t.Errorf("90 fetches of a second, 6 at once, took %s", d)
		}
	})
}

func TestResultsAreJudged(t *testing.T) {
	change := func(f func(r *resolve.Resource)) *resolve.Resource {
		r := resource("x")
		f(r)
		return r
	}
	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprint(i)] = ""
	}
	tests := []struct {
		name string
		res  *resolve.Resource
		want resolve.Reason
	}{
		{"good", resource("x"), ""},
		{"none", nil, resolve.ReasonFailed},
		{"empty", resource(""), resolve.ReasonFailed},
		{"too large", resource(strings.Repeat("x", resolve.DefaultMaxBytes+1)), resolve.ReasonTooLarge},
		{"no URI", change(func(r *resolve.Resource) { r.Source.URI = "" }), resolve.ReasonFailed},
		{"a password in the URI", change(func(r *resolve.Resource) { r.Source.URI = "https://u:p@h/" }), resolve.ReasonFailed},
		{"a password in the URI of SSH", change(func(r *resolve.Resource) { r.Source.URI = "git+ssh://u:p@h/x" }), resolve.ReasonFailed},
		{"two users in the URI of SSH", change(func(r *resolve.Resource) { r.Source.URI = "git+ssh://git@h/x://u:p@y" }), resolve.ReasonFailed},
		{"a user in the URI of SSH", change(func(r *resolve.Resource) { r.Source.URI = "git+ssh://git@h:22/x" }), ""},
		{"no digest", change(func(r *resolve.Resource) { r.Source.Digest = nil }), resolve.ReasonFailed},
		{"a digest that is none", change(func(r *resolve.Resource) { r.Source.Digest["sha256"] = strings.Repeat("X", 64) }), resolve.ReasonFailed},
		{"many annotations", change(func(r *resolve.Resource) { r.Annotations = many }), resolve.ReasonFailed},
		{"large annotations", change(func(r *resolve.Resource) { r.Annotations = map[string]string{"a": strings.Repeat("x", 1<<20)} }), resolve.ReasonFailed},
	}
	for _, tt := range tests {
		r := runner(t, spec(), resolve.Options{}, func(context.Context, *resolve.Request) (*resolve.Resource, error) { return tt.res, nil })
		if _, err := r.Resolve(t.Context(), ask("p")); reason(err) != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// brokenError has no text if it is nil.
type brokenError struct{ text string }

func (e *brokenError) Error() string { return e.text }

func TestBrokenResolversGiveErrors(t *testing.T) {
	boom := func(*resolve.Request) string { var list []string; return list[len(list)] }
	breaks := map[string]func(s *resolve.Spec) func(context.Context, *resolve.Request) (*resolve.Resource, error){
		"Resolve panics": func(*resolve.Spec) func(context.Context, *resolve.Request) (*resolve.Resource, error) {
			return func(_ context.Context, r *resolve.Request) (*resolve.Resource, error) { boom(r); return nil, nil }
		},
		"the error panics": func(*resolve.Spec) func(context.Context, *resolve.Request) (*resolve.Resource, error) {
			return func(context.Context, *resolve.Request) (*resolve.Resource, error) {
				var failed *brokenError
				return nil, failed
			}
		},
		"Scope panics": func(s *resolve.Spec) func(context.Context, *resolve.Request) (*resolve.Resource, error) {
			s.Scope = boom
			return nil
		},
		"Host panics": func(s *resolve.Spec) func(context.Context, *resolve.Request) (*resolve.Resource, error) {
			s.Host = boom
			return nil
		},
		"Validate panics": func(s *resolve.Spec) func(context.Context, *resolve.Request) (*resolve.Resource, error) {
			s.Validate = func(r *resolve.Request) []error { boom(r); return nil }
			return nil
		},
	}
	for name, f := range breaks {
		s := spec()
		do := f(&s)
		panics := 0
		r := runner(t, s, resolve.Options{Observer: resolve.Observer{Panicked: func(string, any, []byte) { panics++ }}}, do)
		_, err := r.Resolve(t.Context(), ask("p"))
		if reason(err) != resolve.ReasonFailed || panics != 1 || strings.Contains(err.Error(), "runtime error") {
			t.Errorf("%s: %v, %d panics told", name, err, panics)
		}
	}
}

func TestMessagesAreOneLineWithoutSecrets(t *testing.T) {
	r := runner(t, spec(), resolve.Options{}, func(context.Context, *resolve.Request) (*resolve.Resource, error) {
		return nil, errors.New("fetch https://user:hunter2@example.com/x: 100%\x00\nfailed \x1b[31m" + strings.Repeat("x", 1<<20))
	})
	_, err := r.Resolve(t.Context(), ask("p"))
	msg := err.Error()
	if strings.Contains(msg, "hunter2") || strings.ContainsAny(msg, "\n\x00\x1b") || len(msg) > 4096 || !strings.Contains(msg, "100%; failed") {
		t.Errorf("got %.200q", msg)
	}
}

func TestBadConfigurationKeepsTheLastGoodValues(t *testing.T) {
	r := runner(t, spec(), resolve.Options{}, nil)
	if err := r.Configure("fake", map[string]string{"default-kind": "pipeline", "fetch-timeout": "5s"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Configure("fake", map[string]string{"default-kind": "task", "fetch-timeout": "-1s"}); err == nil {
			t.Error("nobody is told")
		}
		if got := r.Config("fake"); got["default-kind"] != "task" || got["fetch-timeout"] != "5s" {
			t.Errorf("got %v", got)
		}
	}
}

func TestUnknownResolver(t *testing.T) {
	r := runner(t, spec(), resolve.Options{}, nil)
	for _, name := range []string{"fak", "", strings.Repeat("x", 1<<20), "a\nb%s"} {
		_, err := r.Resolve(t.Context(), &resolve.Query{Resolver: name})
		if reason(err) != resolve.ReasonUnknownResolver || len(err.Error()) > 300 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.20q: %v", name, err)
		}
	}
}

func TestCacheStaysWithinItsBounds(t *testing.T) {
	var stored, evicted int
	r := runner(t, spec(), resolve.Options{
		Cache: &resolve.CacheLimits{Entries: 10, Bytes: 8000, TTL: time.Hour},
		Observer: resolve.Observer{Cache: func(_ string, e resolve.CacheEvent) {
			switch e {
			case resolve.CacheStored:
				stored++
			case resolve.CacheEvicted:
				evicted++
			case resolve.CacheHit, resolve.CacheMiss:
			}
		}},
	}, func(_ context.Context, q *resolve.Request) (*resolve.Resource, error) {
		return resource(strings.Repeat("x", 1000*len(q.Get("path")))), nil
	})
	for i := range 40 {
		if _, err := r.Resolve(t.Context(), ask(string(rune('a'+i%26)), str("cache", "always"), str("kind", []string{"task", "pipeline"}[i/26]))); err != nil {
			t.Fatal(err)
		}
	}
	// An entry has 1,000 bytes and about 700 for the rest.
	if left := stored - evicted; stored != 40 || left < 3 || left > 5 {
		t.Errorf("%d stored, %d evicted", stored, evicted)
	}
	if _, err := r.Resolve(t.Context(), ask(strings.Repeat("l", 9), str("cache", "always"))); err != nil || stored != 40 {
		t.Errorf("what is larger than the cache: %v, %d stored", err, stored)
	}
	r.LimitCache(resolve.CacheLimits{})
	if stored != evicted {
		t.Errorf("%d stored, %d evicted after the cache was closed", stored, evicted)
	}
}

// A default of the process may open what the resolver's own default closes. So a mistake in the ConfigMap does not bring it back.
func TestAMistakeDoesNotBringBackAWideDefault(t *testing.T) {
	s := spec()
	s.Config = append(s.Config, resolve.Key{Name: "allow-plain", Default: "false", Check: resolve.CheckBool, Doc: "d"})
	r := runner(t, s, resolve.Options{Defaults: map[string]map[string]string{"fake": {"allow-plain": "true"}}},
		func(context.Context, *resolve.Request) (*resolve.Resource, error) { return resource("x"), nil })
	for _, data := range []map[string]string{{"allow-plain": "flase"}, {"allow-plian": "false"}, {"Allow-Plain": "false"}} {
		if r.Configure("fake", data) == nil {
			t.Errorf("%v is taken", data)
		}
		if _, err := r.Resolve(t.Context(), ask("a")); reason(err) != resolve.ReasonForbidden {
			t.Errorf("%v: %v", data, err)
		}
	}
}

func TestDefaultsOfTheProcessHoldWhereTheConfigMapHasNone(t *testing.T) {
	r := runner(t, spec(), resolve.Options{Defaults: map[string]map[string]string{"fake": {"default-kind": "pipeline"}}}, nil)
	for _, tt := range []struct {
		data map[string]string
		want string
	}{{nil, "pipeline"}, {map[string]string{"default-kind": " "}, "pipeline"}, {map[string]string{"default-kind": "task"}, "task"}} {
		if err := r.Configure("fake", tt.data); err != nil {
			t.Fatal(err)
		}
		if got := r.Config("fake")["default-kind"]; got != tt.want {
			t.Errorf("%v gives %q, want %q", tt.data, got, tt.want)
		}
	}
}
