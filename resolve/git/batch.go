package git

import (
	"context"
	"errors"
	"slices"

	"sluice.dev/resolve"
)

// batch is a set of blobs that is fetched at once.
type batch struct {
	ids     map[string]bool
	limit   int64
	waiters int
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{}
	err     error
	broken  *accident
}

const maxBatch = 512

// blobs brings blobs that are not there. While one fetch is under way, what is asked for meanwhile gathers for the next.
func (m *mirror) blobs(ctx context.Context, c commit, ids []string, each int64, limits Limits) error {
	ids, err := m.missing(ctx, ids)
	if err != nil || len(ids) == 0 {
		return err
	}
	caps, err := m.capabilities(ctx)
	if err != nil {
		return err
	}
	if !m.partial(caps) {
		// The commit came from a partial fetch of former days.
		_, err := m.fetchFlight.do(ctx, "whole "+c.id, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, m.fetch(ctx, caps, want{objects: []string{c.id}, shallow: true}, "", limits.PackBytes)
		})
		return err
	}
	for chunk := range slices.Chunk(ids, maxBatch) {
		b, err := m.gather(ctx, chunk, each)
		var known *resolve.Error
		if err != nil && len(b.ids) > len(chunk) && ctx.Err() == nil && (errors.Is(err, errFromPeer) || errors.Is(err, errTooMuch) || errors.As(err, &known)) {
			// It may be another's blob that is at fault.
			err = m.fetch(ctx, caps, want{objects: chunk}, "", each*int64(len(chunk))+64<<10)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *mirror) missing(ctx context.Context, ids []string) (out []string, err error) {
	err = m.store.files.with(ctx, m.dir, func(p *catfile) error {
		for _, id := range ids {
			switch _, _, _, err := p.info(id); {
			case errors.Is(err, errMissing):
				out = append(out, id)
			case err != nil:
				return err
			}
		}
		return nil
	})
	return out, err
}

func (m *mirror) gather(ctx context.Context, ids []string, each int64) (*batch, error) {
	m.mu.Lock()
	b := m.next
	if b == nil {
		run, cancel := context.WithCancel(context.WithoutCancel(ctx))
		b = &batch{ids: map[string]bool{}, ctx: run, cancel: cancel, done: make(chan struct{})}
		m.next = b
	}
	for _, id := range ids {
		if !b.ids[id] {
			b.ids[id] = true
			b.limit += each
		}
	}
	b.waiters++
	if !m.running {
		m.running = true
		go m.runBatches()
	}
	m.mu.Unlock()

	select {
	case <-b.done:
		if b.broken != nil {
			panic(b.broken) //nolint:forbidigo // the runner makes an error of it, for each request that waits
		}
		return b, b.err
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b.waiters--
	if b.waiters == 0 {
		b.cancel()
		if m.next == b {
			m.next = nil
		}
	}
	return b, ctx.Err()
}

func (m *mirror) runBatches() {
	for {
		m.mu.Lock()
		b := m.next
		m.next = nil
		if b == nil {
			m.running = false
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
		b.broken = guarded(func() { b.err = m.runBatch(b) })
		b.cancel()
		close(b.done)
	}
}

func (m *mirror) runBatch(b *batch) error {
	ids := make([]string, 0, len(b.ids))
	for id := range b.ids {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	ids, err := m.missing(b.ctx, ids)
	if err != nil || len(ids) == 0 {
		return err
	}
	caps, err := m.capabilities(b.ctx)
	if err != nil {
		return err
	}
	return m.fetch(b.ctx, caps, want{objects: ids}, "", b.limit+64<<10)
}
