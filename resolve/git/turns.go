package git

import (
	"context"
	"sync"
)

// turns bounds how many run at once, over all and of one tenant: a tenant whose packs take minutes of work leaves room for
// the others.
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

// withTenant says for whom work is done, to what is begun under the context.
func withTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// take waits for a turn; done gives it back.
func (t *turns) take(ctx context.Context) (done func(), err error) {
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
