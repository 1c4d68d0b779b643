package resolution

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// drain takes what can be taken now.
func drain(q *queue) (out []string) {
	for {
		q.mu.Lock()
		k, ok := q.take()
		q.mu.Unlock()
		if !ok {
			return out
		}
		out = append(out, k.namespace+"/"+k.name)
	}
}

func named(namespace string, i int) key { return key{namespace: namespace, name: fmt.Sprint(i)} }

func TestNamespacesTakeTurns(t *testing.T) {
	q := newQueue(16)
	for i := range 3 {
		q.add(named("a", i))
	}
	q.add(named("b", 0))
	q.add(named("a", 0))
	if diff := cmp.Diff([]string{"a/0", "b/0", "a/1", "a/2"}, drain(q)); diff != "" {
		t.Error(diff)
	}
}

func TestANamespaceWhoseServersHangLeavesRoomForOthers(t *testing.T) {
	q := newQueue(16)
	for i := range 200 {
		q.add(named("hanging", i))
	}
	if got := len(drain(q)); got != 8 {
		t.Errorf("alone it holds %d slots, want half of 16", got)
	}
	for i := range 3 {
		q.add(named("other", i))
	}
	if diff := cmp.Diff([]string{"other/0", "other/1", "other/2"}, drain(q)); diff != "" {
		t.Error(diff)
	}
	for i := range 3 {
		q.add(named("third", i))
	}
	if diff := cmp.Diff([]string{"third/0", "third/1", "third/2"}, drain(q)); diff != "" {
		t.Error(diff)
	}
}

func TestAKeyRunsOnceAtATime(t *testing.T) {
	q := newQueue(4)
	k := named("a", 1)
	q.add(k)
	if got, ok := q.get(t.Context()); !ok || got != k {
		t.Fatalf("got %v %v", got, ok)
	}
	q.add(k)
	if got := drain(q); got != nil {
		t.Errorf("handed out %v while it runs", got)
	}
	q.done(k)
	q.add(k)
	q.forget(k)
	if got := drain(q); got != nil {
		t.Errorf("handed out %v although it was forgotten", got)
	}
	if w, r := q.depth(); w != 0 || r != 0 {
		t.Errorf("%d wait, %d run", w, r)
	}
}

func TestGetWakesUpForAFreeSlotAndEndsWithItsContext(t *testing.T) {
	q := newQueue(2)
	q.add(named("a", 1))
	q.add(named("a", 2))
	first, _ := q.get(t.Context())
	got := make(chan key)
	go func() {
		k, _ := q.get(t.Context())
		got <- k
	}()
	q.done(first)
	if k := <-got; k.name != "2" {
		t.Errorf("got %v", k)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := q.get(ctx); ok {
		t.Error("got a key of an empty queue")
	}
}
