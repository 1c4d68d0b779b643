package cluster

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Reading waits for the network, and judging takes processor time. This file does both at once: readers fill batches of objects, a
// worker for each processor judges them, and one caller takes the results. The order of the results does not matter, since each
// carries its place in the listing. For example, of two errors the one of the earlier object is returned, whichever worker was
// faster.

const (
	// batchObjects and batchBytes bound what is handed to a worker at once; a batch has one object at least.
	batchObjects = 128
	batchBytes   = 256 << 10
)

// place is the position of a batch, an object or an error in the listing of all objects: the list, the batch in the list, and the
// object in the batch.
type place struct{ list, batch, object int }

func (p place) comparePlace(q place) int {
	return cmp.Or(cmp.Compare(p.list, q.list), cmp.Compare(p.batch, q.batch), cmp.Compare(p.object, q.object))
}

// batch is a run of objects, in the order of the listing.
type batch struct {
	at    place // of its first object
	raw   []byte
	ends  []int // of the objects in raw
	total int64 // number of all objects of its list; -1 if it is not known
	fates []Fate
	err   error // of the first object that could not be judged, or of the rest of the list that could not be read
}

// judgeObjects judges the objects of a batch, up to the first that cannot be judged. A batch that only brings an error has none.
func (b *batch) judgeObjects(ctx context.Context, j *judge) {
	defer recoverAsError(&b.err)
	start := 0
	for _, end := range b.ends {
		f, err := j.fateOf(ctx, b.raw[start:end])
		if err != nil {
			b.err = err
			return
		}
		b.fates = append(b.fates, f)
		start = end
	}
}

// recoverAsError turns a panic into an error. The goroutines of a flow have no caller that could.
func recoverAsError(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("a mistake in sluice: %v\n%s", r, debug.Stack())
	}
}

// judgeLists reads lists, as many at once as readers says. It judges their objects on all processors while it reads more, and calls
// take with each batch, one at a time. Batches come in any order. Work in progress is bounded, even if take is slow. If a list has
// several errors, the one at its first place counts. When judgeLists returns, nothing of it still runs.
func judgeLists(parent context.Context, lists []*pager, readers int, j *judge, take func(*batch)) error {
	reading, stop := context.WithCancel(parent)
	defer stop()
	workers := runtime.GOMAXPROCS(0)
	work, judged := make(chan *batch, workers), make(chan *batch, workers)
	var next atomic.Int64
	var read, done sync.WaitGroup
	for range min(readers, len(lists)) {
		read.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(lists) && reading.Err() == nil; i = int(next.Add(1)) - 1 {
				f := &filler{p: lists[i], work: work, total: -1}
				if err := f.fillBatches(reading); err != nil && (reading.Err() == nil || parent.Err() != nil) {
					work <- &batch{at: lists[i].at, err: err}
					stop()
				}
			}
		})
	}
	for range workers {
		done.Go(func() {
			for b := range work {
				b.judgeObjects(parent, j)
				judged <- b
			}
		})
	}
	go func() {
		read.Wait()
		close(work)
		done.Wait()
		close(judged)
	}()
	failed := &batch{}
	for b := range judged {
		switch {
		case b.err != nil && (failed.err == nil || b.at.comparePlace(failed.at) < 0):
			failed = b
			stop()
		case b.err == nil && failed.err == nil:
			take(b)
		}
	}
	return orCause(parent, failed.err)
}

// orCause returns why ctx has ended, if it has and something went wrong.
func orCause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// filler makes batches of the objects of one list.
type filler struct {
	p     *pager
	work  chan<- *batch
	b     *batch
	total int64
}

// fillBatches reads the list. It judges objects before an error as well.
func (f *filler) fillBatches(ctx context.Context) (err error) {
	defer recoverAsError(&err)
	f.p.item, f.p.page = f.addItem, f.notePage
	err = f.p.listAll(ctx)
	if f.b != nil {
		f.sendBatch()
	}
	return err
}

// addItem adds an object to the batch, and sends the batch when it is full. raw is overwritten after the call, so the batch has a
// copy.
func (f *filler) addItem(raw []byte) error {
	if f.b != nil && len(f.b.raw)+len(raw) > batchBytes {
		f.sendBatch()
	}
	if f.b == nil {
		f.b = &batch{}
	}
	f.b.raw = append(f.b.raw, raw...)
	f.b.ends = append(f.b.ends, len(f.b.raw))
	if len(f.b.ends) == batchObjects {
		f.sendBatch()
	}
	return nil
}

// notePage computes at the end of a page how many objects the list has, and sends what is there: the next page may take long, and the
// workers need not wait for it.
func (f *filler) notePage(remaining int64) error {
	count := f.p.sent
	if f.b != nil {
		count += int64(len(f.b.ends))
	}
	if f.total = -1; remaining >= 0 {
		f.total = count + remaining
	}
	if f.b != nil {
		f.sendBatch()
	}
	return nil
}

func (f *filler) sendBatch() {
	b := f.b
	f.b = nil
	b.at, b.total = f.p.at, f.total
	f.p.at.batch++
	f.p.sent += int64(len(b.ends))
	f.work <- b // the workers go on until nobody reads any more
}
