package git

import (
	"context"
	"sync"
)

// For example, with 4 turns each tenant has 3 of them at most. So while the packs of one take minutes, one turn is there for all
// others.

// turns bounds concurrent work, in total and for one tenant. So a tenant whose packs take minutes leaves room for the others.
type turns struct {
	all chan struct{}

	mu      sync.Mutex
	tenants map[string]*tenantTurns
}

type tenantTurns struct {
	own chan struct{}
	// users hold a turn or wait for one.
	users int
}

func newTurns(n int) *turns {
	return &turns{all: make(chan struct{}, n), tenants: map[string]*tenantTurns{}}
}

type tenantKey struct{}

// withTenant records the tenant that work is done for. Work that begins under the context inherits it.
func withTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// takeTurn waits for a turn; done releases it.
func (t *turns) takeTurn(ctx context.Context) (done func(), err error) {
	tenant, _ := ctx.Value(tenantKey{}).(string)
	t.mu.Lock()
	of := t.tenants[tenant]
	if of == nil {
		of = &tenantTurns{own: make(chan struct{}, max(1, cap(t.all)-1))}
		t.tenants[tenant] = of
	}
	of.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if of.users--; of.users == 0 {
			delete(t.tenants, tenant)
		}
	}
	select {
	case of.own <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
	select {
	case t.all <- struct{}{}:
	case <-ctx.Done():
		<-of.own
		leave()
		return nil, ctx.Err()
	}
	return func() {
		<-t.all
		<-of.own
		leave()
	}, nil
}
