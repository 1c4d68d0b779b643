package fairqueue

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// key is some work of a namespace.
type key struct{ namespace, name string }

func newTestQueue(slots int) *Queue[key] {
	return New(slots, func(k key) string { return k.namespace })
}

// drain takes what can be taken now.
func drain(q *Queue[key]) (out []string) {
	for {
		q.mu.Lock()
		k, ok := q.takeKey()
		q.mu.Unlock()
		if !ok {
			return out
		}
		out = append(out, k.namespace+"/"+k.name)
	}
}

func named(namespace string, i int) key { return key{namespace: namespace, name: fmt.Sprint(i)} }

func TestNamespacesTakeTurns(t *testing.T) {
	q := newTestQueue(16)
	for i := range 3 {
		q.Add(named("a", i))
	}
	q.Add(named("b", 0))
	q.Add(named("a", 0))
	if diff := cmp.Diff([]string{"a/0", "b/0", "a/1", "a/2"}, drain(q)); diff != "" {
		t.Error(diff)
	}
}

func TestANamespaceWhoseServersHangLeavesRoomForOthers(t *testing.T) {
	q := newTestQueue(16)
	for i := range 200 {
		q.Add(named("hanging", i))
	}
	if got := len(drain(q)); got != 8 {
		t.Errorf("alone it holds %d slots, want half of 16", got)
	}
	for i := range 3 {
		q.Add(named("other", i))
	}
	if diff := cmp.Diff([]string{"other/0", "other/1", "other/2"}, drain(q)); diff != "" {
		t.Error(diff)
	}
	for i := range 3 {
		q.Add(named("third", i))
	}
	if diff := cmp.Diff([]string{"third/0", "third/1", "third/2"}, drain(q)); diff != "" {
		t.Error(diff)
	}
}

func TestAKeyRunsOnceAtATime(t *testing.T) {
	q := newTestQueue(4)
	k := named("a", 1)
	q.Add(k)
	if got, ok := q.Get(t.Context()); !ok || got != k {
		t.Fatalf("got %v %v", got, ok)
	}
	q.Add(k)
	if got := drain(q); got != nil {
		t.Errorf("handed out %v while it runs", got)
	}
	q.Done(k)
	q.Add(k)
	q.Forget(k)
	if got := drain(q); got != nil {
		t.Errorf("handed out %v although it was forgotten", got)
	}
	if w, r := depth(q); w != 0 || r != 0 {
		t.Errorf("%d wait, %d run", w, r)
	}
}

func TestGetWakesUpForAFreeSlotAndEndsWithItsContext(t *testing.T) {
	q := newTestQueue(2)
	q.Add(named("a", 1))
	q.Add(named("a", 2))
	first, _ := q.Get(t.Context())
	got := make(chan key)
	go func() {
		k, _ := q.Get(t.Context())
		got <- k
	}()
	q.Done(first)
	if k := <-got; k.name != "2" {
		t.Errorf("got %v", k)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := q.Get(ctx); ok {
		t.Error("got a key of an empty queue")
	}
}

func TestEachKeyGoesToOneWorkerThatWaits(t *testing.T) {
	q := newTestQueue(64)
	ctx, cancel := context.WithCancel(t.Context())
	const keys = 1000
	got := make(chan key, 2*keys)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for {
				k, ok := q.Get(ctx)
				if !ok {
					return
				}
				got <- k
				q.Done(k)
			}
		})
	}
	want := map[key]int{}
	for i := range keys {
		k := named(fmt.Sprint("n", i%3), i)
		want[k] = 1
		q.Add(k)
	}
	seen := map[key]int{}
	for range keys {
		seen[<-got]++
	}
	cancel()
	wg.Wait()
	close(got)
	for k := range got {
		seen[k]++
	}
	if diff := cmp.Diff(want, seen, cmp.AllowUnexported(key{})); diff != "" {
		t.Error(diff)
	}
	if waiting, running := depth(q); waiting != 0 || running != 0 || len(q.idle) != 0 {
		t.Errorf("left: %d waiting, %d running, %d workers", waiting, running, len(q.idle))
	}
}

func TestAWorkerThatLeavesTakesNoKeyAlong(t *testing.T) {
	q := newTestQueue(4)
	gone, leave := context.WithCancel(t.Context())
	left := make(chan bool)
	go func() {
		_, ok := q.Get(gone)
		left <- ok
	}()
	for idle := 0; idle == 0; runtime.Gosched() {
		q.mu.Lock()
		idle = len(q.idle)
		q.mu.Unlock()
	}
	leave()
	if <-left {
		t.Fatal("it has got a key where there is none")
	}
	q.Add(named("a", 1))
	if k, ok := q.Get(t.Context()); !ok || k != named("a", 1) {
		t.Errorf("got %v, %v", k, ok)
	}
}

func TestSharesGrowWhenANamespaceGivesUp(t *testing.T) {
	q := newTestQueue(4)
	// Two namespaces have work, so each has a share of one.
	q.Add(named("a", 0))
	q.Add(named("a", 1))
	q.Add(named("b", 0))
	for _, want := range []key{named("a", 0), named("b", 0)} {
		if k, ok := q.Get(t.Context()); !ok || k != want {
			t.Fatalf("got %v, %v, want %v", k, ok, want)
		}
	}
	got := make(chan key)
	go func() {
		k, _ := q.Get(t.Context())
		got <- k
	}()
	q.Done(named("b", 0))
	if k := <-got; k != named("a", 1) {
		t.Errorf("got %v", k)
	}
}

// depth is how many keys wait, and how many run.
func depth[K comparable](q *Queue[K]) (waiting, running int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queued), len(q.running)
}
