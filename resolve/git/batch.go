package git

import (
	"context"
	"errors"
	"slices"

	"sluice.dev/resolve"
)

// Requests for several files of one commit are common: a pipeline and its tasks. Each fetch costs the server a request, so that those
// who come while one runs gather for the next.

// batch is a set of objects for one fetch.
type batch struct {
	*shared

	ids   map[string]bool
	limit int64
	most  int64
	err   error
}

const maxBatch = 512

// fetchMissing fetches trees or blobs of a commit that are missing. While one fetch runs, further requests gather for the next.
func (m *mirror) fetchMissing(ctx context.Context, c commit, kind string, ids []string, each int64, packBytes int64) error {
	ids, err := m.missingObjects(ctx, ids)
	if err != nil || len(ids) == 0 {
		return err
	}
	caps, err := m.serverCapabilities(ctx)
	if err != nil {
		return err
	}
	for {
		way := m.currentWay(caps)
		if way == whole || way == byTrees && kind == "tree" {
			// The commit was fetched in another way before.
			_, err := m.fetchFlight.runShared(ctx, filters[way]+c.id, func(ctx context.Context) (struct{}, error) {
				return struct{}{}, m.fetchCommit(ctx, target{object: c.id, commit: c.id}, true, packBytes)
			})
			return err
		}
		err := m.fetchByID(ctx, caps, ids, each, packBytes)
		m.mu.Lock()
		m.proven = m.proven || err == nil
		proven := m.proven
		m.mu.Unlock()
		if proven || !errors.Is(err, errFromPeer) || !m.switchWay(max(way, byObject)) {
			return err
		}
	}
}

// fetchByID fetches objects by their IDs.
func (m *mirror) fetchByID(ctx context.Context, caps capabilities, ids []string, each int64, packBytes int64) error {
	for chunk := range slices.Chunk(ids, maxBatch) {
		b, err := m.joinBatch(ctx, chunk, each, packBytes)
		var known *resolve.Error
		if err != nil && len(b.ids) > len(chunk) && ctx.Err() == nil && (errors.Is(err, errFromPeer) || errors.Is(err, errTooMuch) || errors.As(err, &known)) {
			// The object of another waiter may be the cause.
			err = m.fetchObjects(ctx, caps, m.wantObjects(caps, chunk, packBytes), min(each*int64(len(chunk))+64<<10, packBytes))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wantObjects asks for these objects and nothing below them.
func (m *mirror) wantObjects(caps capabilities, ids []string, most int64) want {
	w := want{objects: ids, most: most}
	if m.currentWay(caps) <= byObject {
		w.filter = filterTrees
	}
	return w
}

// joinBatch adds objects to the next fetch, and waits for it. It starts the goroutine that fetches, unless that runs. each bounds the
// bytes of one object, most those of the whole fetch. The batch is not nil, also with an error.
func (m *mirror) joinBatch(ctx context.Context, ids []string, each, most int64) (*batch, error) {
	m.mu.Lock()
	b := m.next
	if b == nil {
		b = &batch{shared: startShared(ctx), ids: map[string]bool{}}
		m.next = b
	}
	for _, id := range ids {
		if !b.ids[id] {
			b.ids[id] = true
			b.limit = min(b.limit+each, most)
		}
	}
	b.most = max(b.most, most)
	b.waiters++
	if !m.running {
		m.running = true
		go m.runBatches()
	}
	m.mu.Unlock()
	if err := b.waitDone(ctx, &m.mu, func() {
		if m.next == b {
			m.next = nil
		}
	}); err != nil {
		return b, err
	}
	return b, b.err
}

// runBatches fetches one batch after the other, until nobody has joined a next one. So a mirror has at most one such fetch at a time,
// and whoever comes during it shares the next.
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
		b.broken = catchPanic(func() { b.err = m.runBatch(b) })
		b.cancel()
		close(b.done)
	}
}

// runBatch fetches the objects of a batch that the fetch before has not brought. They are sorted, so that equal batches are equal
// requests.
func (m *mirror) runBatch(b *batch) error {
	ids := make([]string, 0, len(b.ids))
	for id := range b.ids {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	ids, err := m.missingObjects(b.ctx, ids)
	if err != nil || len(ids) == 0 {
		return err
	}
	caps, err := m.serverCapabilities(b.ctx)
	if err != nil {
		return err
	}
	return m.fetchObjects(b.ctx, caps, m.wantObjects(caps, ids, b.most), b.limit+64<<10)
}
