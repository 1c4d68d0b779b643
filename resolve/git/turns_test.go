package git

import (
	"context"
	"errors"
	"testing"
)

// Packs that take minutes to look at must not keep others from theirs.
func TestOneTenantDoesNotTakeAllTurns(t *testing.T) {
	turns := newTurns(3)
	a, b := withTenant(deadline(t), "a"), withTenant(deadline(t), "b")
	var ends []func()
	for range 2 {
		done, err := turns.takeTurn(a)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, done)
	}
	waiting, cancel := context.WithCancel(a)
	ended := make(chan error)
	go func() {
		done, err := turns.takeTurn(waiting)
		if err == nil {
			done()
		}
		ended <- err
	}()
	// There is room for another one, whoever else waits.
	done, err := turns.takeTurn(b)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a third turn of the first: %v", err)
	}
	// With all turns taken even a new tenant waits.
	full, cancel := context.WithCancel(withTenant(deadline(t), "c"))
	cancel()
	if _, err := turns.takeTurn(full); !errors.Is(err, context.Canceled) {
		t.Errorf("a fourth turn: %v", err)
	}
	done()
	for _, end := range ends {
		end()
	}
	if len(turns.tenants) != 0 || len(turns.all) != 0 {
		t.Errorf("%d tenants and %d turns are left", len(turns.tenants), len(turns.all))
	}
}
