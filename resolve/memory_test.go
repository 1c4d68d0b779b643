package resolve_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice.dev/resolve"
)

// Whatever becomes of fetches, what they and their results hold at once stays in the memory, and all of it comes back.
func TestFetchesStayInTheirMemoryAndGiveItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each, fits = 4 << 10, 5
		memory := resolve.NewMemory(fits * each)
		var now, most atomic.Int64
		s := spec()
		s.Memory = func(int64) int64 { return each }
		r := runner(t, s, resolve.Options{Memory: memory}, func(ctx context.Context, q *resolve.Request) (*resolve.Resource, error) {
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			i, _ := strconv.Atoi(q.Get("path"))
			select {
			case <-time.After(time.Duration(1+i%7) * time.Second):
			case <-ctx.Done():
				if i%2 == 0 {
					return nil, ctx.Err()
				}
				time.Sleep(time.Second) // a resolver that is slow to notice, and comes with a result
			}
			switch i % 5 {
			case 0:
				return nil, resolve.Transientf("busy")
			case 1:
				panic("broken")
			case 2:
				return nil, nil //nolint:nilnil // a defect that is looked for
			}
			return resource(string(make([]byte, 1<<10))), nil
		})
		var all sync.WaitGroup
		random := rand.New(rand.NewPCG(3, 4))
		for i := range 300 {
			name, patience := strconv.Itoa(i%40), time.Duration(random.IntN(20))*time.Second
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				_, held, err := r.Hold(ctx, ask(name))
				if err == nil {
					time.Sleep(time.Duration(i%3) * time.Second)
				}
				held.Release()
			})
		}
		all.Wait()
		r.Wait()
		if most.Load() > fits || most.Load() < 2 {
			t.Errorf("%d fetches ran at once, want at most %d", most.Load(), fits)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		whole, err := memory.Reserve(ctx, fits*each)
		if err != nil {
			t.Fatal("not all of the memory came back")
		}
		whole.Release()
	})
}
