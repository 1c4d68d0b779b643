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

// Every place and every spare one is taken by fetches that get a byte a second, of more tenants than there are places. What is fast
// gets its turn all the same, and so does what is slow by no fault of its remote.
func TestSlowRemotesLoseTheirPlacesToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places, tenants = 8, 40
		o := resolve.Options{Limits: resolve.Limits{Concurrent: places, Spare: 2, PerTenant: 4, PerHost: 4}}
		var busy atomic.Int64
		r := runner(t, spec(), o, func(ctx context.Context, q *resolve.Request) (*resolve.Resource, error) {
			switch path := q.Get("path"); {
			case strings.HasPrefix(path, "drip"):
				for ctx.Err() == nil {
					came := resolve.AwaitRemote(ctx)
					select {
					case <-time.After(time.Second):
					case <-ctx.Done():
					}
					came(1)
				}
				return nil, context.Cause(ctx)
			case strings.HasPrefix(path, "busy"):
				// It works for as long, with what came at once.
				busy.Add(1)
				resolve.AwaitRemote(ctx)(1)
				select {
				case <-time.After(50 * time.Second):
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			case strings.HasPrefix(path, "large"):
				for range 50 {
					came := resolve.AwaitRemote(ctx)
					select {
					case <-time.After(time.Second):
					case <-ctx.Done():
						return nil, context.Cause(ctx)
					}
					came(1024)
				}
			}
			return resource("kind: Task\n"), nil
		})
		var wg sync.WaitGroup
		run := func(tenant, path string) (took time.Duration, err error) {
			began := time.Now()
			q := ask(path)
			q.Namespace = tenant
			_, err = r.Resolve(t.Context(), q)
			return time.Since(began), err
		}
		for _, path := range []string{"busy", "large"} {
			wg.Go(func() {
				if _, err := run("works", path); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			})
		}
		synctest.Wait()
		for i := range tenants {
			wg.Go(func() {
				_, err := run(fmt.Sprint("slow", i), fmt.Sprint("drip", i))
				var e *resolve.Error
				if !errors.As(err, &e) || e.Reason != resolve.ReasonUnavailable && e.Reason != resolve.ReasonTimedOut {
					t.Errorf("drip %d: %v", i, err)
				}
				if e != nil && e.Reason == resolve.ReasonUnavailable && !strings.Contains(e.Msg, "slow-after") {
					t.Errorf("drip %d: %v", i, err)
				}
			})
		}
		synctest.Wait()
		for i := range 5 {
			took, err := run("fast", fmt.Sprint("fast", i))
			// Those before it have had their turn, of 15 s each, and not their fetch-timeout of a minute.
			if most := 15 * time.Second * (tenants/places + 2); err != nil || took > most {
				t.Errorf("after %s: %v", took, err)
			}
		}
		wg.Wait()
		r.Wait()
	})
}

// If nobody waits, a slow remote has all the time of the fetch; with slow-after 0s also where others wait.
func TestSlowRemotesKeepTheirPlacesWhereNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, _ *resolve.Request) (*resolve.Resource, error) {
			defer resolve.AwaitRemote(ctx)(0)
			select {
			case <-time.After(55 * time.Second):
				return resource("kind: Task\n"), nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		r := runner(t, spec(), resolve.Options{Limits: resolve.Limits{Concurrent: 2}}, slow)
		if _, err := r.Resolve(t.Context(), ask("a")); err != nil {
			t.Error(err)
		}
		if err := r.Configure("fake", map[string]string{resolve.KeySlowAfter: "0s"}); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				if _, err := r.Resolve(t.Context(), ask(fmt.Sprint("b", i))); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		r.Wait()
	})
}

// Of work that several fetches wait for, each has the pace: as many of them lose their places, and are tried again, as others wait.
func TestSharedWorkCountsForAllThatWaitForIt(t *testing.T) {
	for _, tt := range []struct{ bytes, others, calls int }{
		{bytes: 2048, others: 2, calls: 2}, // enough bytes arrive
		{bytes: 1, others: 0, calls: 2},
		{bytes: 1, others: 1, calls: 3},
		{bytes: 1, others: 2, calls: 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			if calls := callsForSharedWork(t, tt.bytes, tt.others); calls != tt.calls {
				t.Errorf("%d bytes a second, %d others wait: %d calls, want %d", tt.bytes, tt.others, calls, tt.calls)
			}
		})
	}
}

// callsForSharedWork counts the calls for two fetches that take all places and wait for the same work, of 50 seconds. Others come
// when both of them wait.
func callsForSharedWork(t *testing.T, bytes, others int) int {
	t.Helper()
	var calls int
	var mu sync.Mutex
	var join func(context.Context) func()
	done := make(chan struct{})
	r := runner(t, spec(), resolve.Options{Limits: resolve.Limits{Concurrent: 2, PerTenant: 2}}, func(ctx context.Context, q *resolve.Request) (*resolve.Resource, error) {
		if strings.HasPrefix(q.Get("path"), "other") {
			time.Sleep(time.Second)
			return resource("kind: Task\n"), nil
		}
		mu.Lock()
		calls++
		if join == nil {
			var own context.Context
			own, join = resolve.ShareProgress(context.WithoutCancel(ctx))
			go func() {
				defer close(done)
				drip(own, 50, bytes)
			}()
		}
		mu.Unlock()
		defer join(ctx)()
		select {
		case <-done:
			return resource("kind: Task\n"), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	var wg sync.WaitGroup
	begin := func(path string) {
		wg.Go(func() {
			if _, err := r.Resolve(t.Context(), ask(path)); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		})
	}
	begin("one")
	begin("two")
	synctest.Wait()
	for i := range others {
		begin(fmt.Sprint("other", i))
	}
	wg.Wait()
	r.Wait()
	return calls
}

// A fetch that joins work has the time of its own: what the work has missed before does not count for it.
func TestWorkCountsForAFetchFromTheTimeItJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var join func(context.Context) func()
		calls := map[string]*atomic.Int64{"first": {}, "late": {}, "other": {}}
		done := make(chan struct{})
		r := runner(t, spec(), resolve.Options{Limits: resolve.Limits{Concurrent: 2, PerTenant: 2}}, func(ctx context.Context, q *resolve.Request) (*resolve.Resource, error) {
			calls[q.Get("path")].Add(1)
			switch q.Get("path") {
			case "other":
				return resource("kind: Task\n"), nil
			case "first":
				if join == nil {
					var own context.Context
					own, join = resolve.ShareProgress(context.WithoutCancel(ctx))
					go func() {
						defer close(done)
						drip(own, 50, 1)
					}()
				}
			case "late":
				drip(ctx, 14, 1024)
			}
			defer join(ctx)()
			select {
			case <-done:
				return resource("kind: Task\n"), nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
		var wg sync.WaitGroup
		began := time.Now()
		for _, asked := range []struct {
			at   time.Duration
			path string
		}{{0, "first"}, {20500 * time.Millisecond, "late"}, {35200 * time.Millisecond, "other"}} {
			time.Sleep(time.Until(began.Add(asked.at)))
			wg.Go(func() {
				if _, err := r.Resolve(t.Context(), ask(asked.path)); err != nil {
					t.Errorf("%s: %v", asked.path, err)
				}
			})
		}
		wg.Wait()
		r.Wait()
		// The look at the late one comes first, one second after it has joined.
		for path, want := range map[string]int64{"first": 2, "late": 1, "other": 1} {
			if got := calls[path].Load(); got != want {
				t.Errorf("%s: %d calls, want %d", path, got, want)
			}
		}
	})
}

// drip waits for a remote that sends some bytes each second.
func drip(ctx context.Context, seconds, bytes int) {
	for range seconds {
		came := resolve.AwaitRemote(ctx)
		time.Sleep(time.Second)
		came(bytes)
	}
}

// What a credential has read is given out for access-ttl only, also where it cannot change; what is for everybody for longer.
func TestAccessIsProvenAnew(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*resolve.Spec)
		made   func(*resolve.Resource)
		config map[string]string
		// calls after 0, 59 and 61 seconds.
		calls [3]int32
	}{
		"of a namespace":             {calls: [3]int32{1, 1, 2}},
		"of a namespace, longer":     {config: map[string]string{resolve.KeyAccessTTL: "2m"}, calls: [3]int32{1, 1, 1}},
		"of a namespace, each time":  {config: map[string]string{resolve.KeyAccessTTL: "0s"}, calls: [3]int32{1, 2, 3}},
		"public":                     {change: func(s *resolve.Spec) { s.Scope = func(*resolve.Request) string { return resolve.PublicScope } }, calls: [3]int32{1, 1, 1}},
		"anonymous":                  {made: func(r *resolve.Resource) { r.Anonymous = true }, calls: [3]int32{1, 1, 1}},
		"as the resolver says":       {made: func(r *resolve.Resource) { r.Expires = time.Now().Add(30 * time.Second) }, calls: [3]int32{1, 2, 2}},
		"longer than access-ttl not": {made: func(r *resolve.Resource) { r.Expires = time.Now().Add(time.Hour) }, calls: [3]int32{1, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int32
				s := spec()
				if tt.change != nil {
					tt.change(&s)
				}
				r := runner(t, s, resolve.Options{}, func(context.Context, *resolve.Request) (*resolve.Resource, error) {
					calls.Add(1)
					out := resource("kind: Task\n")
					out.Immutable = true
					if tt.made != nil {
						tt.made(out)
					}
					return out, nil
				})
				if err := r.Configure("fake", tt.config); err != nil {
					t.Fatal(err)
				}
				for i, pause := range []time.Duration{0, 59 * time.Second, 2 * time.Second} {
					time.Sleep(pause)
					if _, err := r.Resolve(t.Context(), ask("a")); err != nil {
						t.Fatal(err)
					}
					if n := calls.Load(); n != tt.calls[i] {
						t.Errorf("look %d: %d fetches, want %d", i, n, tt.calls[i])
					}
				}
				if _, err := r.Resolve(t.Context(), ask("a", str("cache", "never"))); err != nil || calls.Load() != tt.calls[2]+1 {
					t.Errorf("never: %d fetches, %v", calls.Load(), err)
				}
			})
		})
	}
}
