package cluster

import (
	"context"
	"runtime"
	"sync"
)

const (
	// batchObjects and batchBytes bound what is handed to a worker at once; a batch has one object at least.
	batchObjects = 128
	batchBytes   = 256 << 10
)

// batch is a run of objects, in the order of the listing.
type batch struct {
	raw   []byte
	ends  []int // of the objects in raw
	total int64 // number of all objects as far as it is known; -1 where it is not
	fates []Fate
	err   error // of the first object that could not be judged
	done  chan struct{}
}

func (b *batch) judge(ctx context.Context, j *judge, keys *names) {
	defer close(b.done)
	start := 0
	for _, end := range b.ends {
		f, err := j.fate(ctx, b.raw[start:end], keys)
		if err != nil {
			b.err = err
			return
		}
		b.fates = append(b.fates, f)
		start = end
	}
}

// flow reads all objects, judges them on all processors while more are being read, and calls take with each batch, in order
// and one at a time. What is under way is bounded, whatever take does. The error is the one that belongs to the first
// place in the listing. When flow returns, nothing of it runs any more.
func flow(parent context.Context, p *pager, j *judge, take func(*batch)) error {
	ctx, cancel := context.WithCancel(parent)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	workers := runtime.GOMAXPROCS(0)
	queue := make(chan *batch, workers)     // in order
	work := make(chan *batch, cap(queue)+1) // no fuller than the queue and the batch that is taken from it
	free := make(chan *batch, cap(queue)+2)
	for range workers {
		running.Go(func() {
			var keys names
			for b := range work {
				b.judge(ctx, j, &keys)
			}
		})
	}
	var readErr error
	running.Go(func() {
		defer close(work)
		defer close(queue)
		f := &filler{ctx: ctx, queue: queue, work: work, free: free, total: -1}
		p.item, p.page = f.item, f.page
		readErr = p.run(ctx)
		if readErr != nil && f.b != nil {
			_ = f.send() // what came before the error is judged first; where that fails, nobody waits for it
		}
	})
	for b := range queue {
		<-b.done
		if b.err != nil {
			return orCause(parent, b.err)
		}
		take(b)
		select {
		case free <- b:
		default:
		}
	}
	return orCause(parent, readErr)
}

// orCause returns why ctx has ended, if it has and something went wrong.
func orCause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// filler makes batches of objects.
type filler struct {
	ctx         context.Context //nolint:containedctx // of one call of flow
	queue, work chan<- *batch
	free        <-chan *batch
	b           *batch
	sent, total int64
}

func (f *filler) item(raw []byte) error {
	if f.b != nil && len(f.b.raw)+len(raw) > batchBytes {
		if err := f.send(); err != nil {
			return err
		}
	}
	if f.b == nil {
		f.b = f.fresh()
	}
	f.b.raw = append(f.b.raw, raw...)
	f.b.ends = append(f.b.ends, len(f.b.raw))
	if len(f.b.ends) == batchObjects {
		return f.send()
	}
	return nil
}

func (f *filler) page(remaining int64) error {
	count := f.sent
	if f.b != nil {
		count += int64(len(f.b.ends))
	}
	if f.total = -1; remaining >= 0 {
		f.total = count + remaining
	}
	if f.b == nil {
		return nil
	}
	return f.send()
}

// fresh returns an empty batch, with the memory of one that is done with unless that is unusually much.
func (f *filler) fresh() *batch {
	b := &batch{}
	select {
	case old := <-f.free:
		if cap(old.raw) <= 2*batchBytes {
			b.raw, b.ends, b.fates = old.raw[:0], old.ends[:0], old.fates[:0]
		}
	default:
	}
	b.done = make(chan struct{})
	return b
}

func (f *filler) send() error {
	b := f.b
	f.b = nil
	f.sent += int64(len(b.ends))
	b.total = f.total
	select {
	case f.queue <- b:
	case <-f.ctx.Done():
		return f.ctx.Err()
	}
	f.work <- b
	return nil
}
