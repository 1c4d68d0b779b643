package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice.dev/internal/brief"
)

// This file shares fetches. Requests with equal keys ([keyOf]) are waiters of one flight. A flight waits for its place in the queue of
// its resolver, reserves memory, calls the resolver, and tries again after transient errors. It belongs to all its waiters: it uses
// the context of none of them, and ends when the last one leaves.
//
// Two things keep a waiter from a flight that others have begun. A waiter that wants an answer from now on does not join a flight that
// has asked the remote already. And a flight that has read a Secret gives its result only to waiters who can read the same one
// ([secretReads]).

// waiter is a call that wants a resource.
type waiter struct {
	*configured

	request           *Request
	mode              CacheMode
	key, host, tenant string
	// public: all requesters may read the content.
	public bool
	// The lookup at the remote must not be earlier than notBefore, or, with anew, earlier than the begin of the fetch.
	notBefore time.Time
	anew      bool
}

// fromHost names the remote, after the word fetch.
func (w *waiter) fromHost() string {
	if w.host == "" {
		return ""
	}
	return " from " + w.host
}

// wantsFresh reports whether the waiter may refuse results that were found before it came.
func (w *waiter) wantsFresh() bool { return w.anew || !w.notBefore.IsZero() }

// flight is a fetch with all its waiters. Fields below done belong to the runner, under its lock.
type flight struct {
	*waiter

	flightKey string
	ctx       context.Context //nolint:containedctx // it is that of the fetch, not of a caller
	cancel    context.CancelCauseFunc
	done      chan struct{}

	waiters int
	store   bool // a waiter wants it cached even if it can change
	anew    bool // a waiter wants a lookup that is not older than the fetch
	since   time.Time
	ticket  *ticket
	tenants map[string]bool
	last    *Error // why the last try failed

	// res, err, held and reads are set before done is closed.
	res   *Resource
	err   error
	held  *Reservation
	reads *secretReads
}

// Causes by which contexts end.
var (
	errFetchTimeout = errors.New("the fetch took too long")
	errNobodyWaits  = errors.New("nobody waits for the fetch any more")
	errSlow         = errors.New("the remote is slow, and others wait for the place")
)

// maxRejoins bounds how often a waiter starts again after a shared fetch ran out of time.
const maxRejoins = 3

// obtainResource gets a resource from the cache or from a fetch, its own or a shared one.
func (r *Runner) obtainResource(ctx context.Context, w *waiter) (*Resource, *Reservation, error) {
	for rejoins := 0; ; rejoins++ {
		if err := ctx.Err(); err != nil {
			return nil, nil, r.endedError(ctx, w, nil)
		}
		if w.mode != CacheNever {
			if res, reads := r.cache.cachedResource(w.key, w.mode == CacheAlways && !w.wantsFresh()); res != nil && reads.sameFor(ctx, w.request.Secrets) {
				r.opts.Observer.Cache(w.spec.Name, CacheHit)
				return res, nil, nil
			}
			r.opts.Observer.Cache(w.spec.Name, CacheMiss)
		}
		f, joined, err := r.joinFlight(w)
		if err != nil {
			return nil, nil, err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, nil, r.endedError(ctx, w, r.leaveFlight(f))
		}
		var out *Resource
		var held *Reservation
		if f.err == nil {
			out, held = f.res.clone(), f.held.Share()
		}
		_ = r.leaveFlight(f)
		other := joined && f.err == nil && !f.reads.sameFor(ctx, w.request.Secrets)
		if other {
			held.Release()
		}
		switch {
		// Only a waiter that joined starts again: one that began the flight has had all the time and its own Secrets.
		case joined && rejoins < maxRejoins && (other || errors.Is(f.err, errFetchTimeout)):
			continue // the fetch began before this waiter, which has time left, or it read other Secrets
		case other:
			return nil, nil, Transientf("the Secrets that the request needs change all the time")
		}
		return out, held, f.err
	}
}

// endedError is the error for a waiter that left or whose time is over.
func (r *Runner) endedError(ctx context.Context, w *waiter, last *Error) error {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return timedOut("the time was up before the fetch"+w.fromHost()+" ended", last)
	}
	return &Error{Reason: ReasonCanceled, Msg: "the request was cancelled before the fetch" + w.fromHost() + " ended", Err: context.Cause(ctx)}
}

// timedOut is the error for a time-out. The last failure says more about the cause than the time does.
func timedOut(text string, last *Error) *Error {
	if last != nil {
		text += "; the last try failed: " + last.Msg
	}
	return &Error{Reason: ReasonTimedOut, Msg: text, Err: errFetchTimeout}
}

// joinFlight finds the fetch for a waiter or begins one. A waiter that wants a fresh result joins only a fetch that has not begun.
func (r *Runner) joinFlight(w *waiter) (f *flight, joined bool, err error) {
	key := w.key
	if w.wantsFresh() {
		key += "/fresh"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	full := func() error {
		return Transientf("too many requests of %s wait already", quoteShort(w.tenant))
	}
	if f = r.flights[key]; f != nil {
		if !f.tenants[w.tenant] {
			if !r.queues[w.spec.Name].enterLine(f.ticket, w.tenant) {
				return nil, false, full()
			}
			f.tenants[w.tenant] = true
		}
		f.waiters++
		f.store = f.store || w.mode == CacheAlways
		f.anew = f.anew || w.anew
		if w.notBefore.After(f.since) {
			f.since = w.notBefore
		}
		r.opts.Observer.Shared(w.spec.Name)
		return f, true, nil
	}
	f = &flight{
		waiter: w, flightKey: key, done: make(chan struct{}), waiters: 1, store: w.mode == CacheAlways, anew: w.anew, since: w.notBefore,
		ticket: newTicket(w.host), tenants: map[string]bool{w.tenant: true},
	}
	if !r.queues[w.spec.Name].enterLine(f.ticket, w.tenant) {
		return nil, false, full()
	}
	// The fetch belongs to all its waiters, so it does not use the context of any.
	f.ctx, f.cancel = context.WithCancelCause(context.Background())
	r.flights[key] = f
	go r.runFlight(f)
	return f, false, nil
}

// leaveFlight removes a waiter, and returns why the last attempt failed. When the last waiter leaves, the fetch ends.
func (r *Runner) leaveFlight(f *flight) *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.waiters--; f.waiters == 0 {
		f.cancel(errNobodyWaits)
		r.closeFlight(f)
		f.held.Release()
		f.held = nil
	}
	return f.last
}

// closeFlight prevents others from joining a flight. The caller holds the lock.
func (r *Runner) closeFlight(f *flight) {
	if r.flights[f.flightKey] == f {
		delete(r.flights, f.flightKey)
	}
}

// runFlight fetches, and passes the result to all waiters.
func (r *Runner) runFlight(f *flight) {
	res, held, err := r.fetchWithRetries(f)
	if err != nil {
		err = cleanError(err)
	}
	r.mu.Lock()
	r.closeFlight(f)
	store := f.store
	r.mu.Unlock()
	if err == nil && f.mode != CacheNever && (store || res.Immutable) {
		var stored bool
		var evicted []string
		res, stored, evicted = r.cache.storeResource(f.key, f.spec.Name, res, f.reads)
		if stored {
			r.opts.Observer.Cache(f.spec.Name, CacheStored)
		}
		for _, name := range evicted {
			r.opts.Observer.Cache(name, CacheEvicted)
		}
	}
	r.mu.Lock()
	f.res, f.err = res, err
	if f.waiters == 0 || err != nil {
		held.Release()
	} else {
		f.held = held
	}
	r.mu.Unlock()
	close(f.done)
	f.cancel(nil)
}

// fetchWithRetries fetches until it succeeds, fails permanently, or has no time for another attempt. The memory of the result is reserved.
func (r *Runner) fetchWithRetries(f *flight) (*Resource, *Reservation, error) {
	ctx, clock := f.ctx, r.opts.Clock
	var began time.Time
	for try := 1; ; try++ {
		r.mu.Lock()
		t, queue := f.ticket, r.queues[f.spec.Name]
		r.mu.Unlock()
		queued := clock.Now()
		release, err := queue.awaitTurn(ctx, t)
		if err != nil {
			return nil, nil, r.fetchEnded(f, err)
		}
		held, err := r.opts.Memory.Reserve(ctx, f.spec.memoryFor(r.opts.Limits.Content))
		if err != nil {
			release()
			return nil, nil, r.fetchEnded(f, err)
		}
		r.opts.Observer.Phase(f.spec.Name, PhaseQueue, clock.Now().Sub(queued))
		if try == 1 {
			// Time in the queue is not time of the fetch.
			var stop context.CancelFunc
			ctx, stop = withTimeout(ctx, clock, f.common.timeout, errFetchTimeout)
			defer stop()
			began = clock.Now()
			if f.wantsFresh() {
				r.beginFlight(f, began)
			}
		}
		res, err := r.callResolver(ctx, f, t, release, held)
		if err == nil {
			return res, held, nil
		}
		if ctx.Err() != nil {
			return nil, nil, r.fetchEnded(f, context.Cause(ctx))
		}
		failure := cleanError(err)
		// A remote that asks for a longer pause gets it. If the pause takes the rest of the time, the error of the remote says more
		// than a time-out.
		pause := max(f.common.backoff.delayAfter(try, r.opts.Random()), failure.RetryAfter)
		if !failure.Transient || try >= f.common.backoff.steps || pause >= f.common.timeout-clock.Now().Sub(began) {
			return nil, nil, failure
		}
		r.opts.Observer.Retried(f.spec.Name, failure, pause)
		r.mu.Lock()
		f.last = failure
		r.mu.Unlock()
		if err := waitFor(ctx, clock, pause); err != nil {
			return nil, nil, r.fetchEnded(f, err)
		}
		if !r.enqueueAgain(f) {
			return nil, nil, failure
		}
	}
}

// beginFlight begins a flight. Later waiters cannot join it: they may ask for something newer than it finds.
func (r *Runner) beginFlight(f *flight, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeFlight(f)
	since := f.since
	if f.anew {
		since = now
	}
	// The waiter that began the flight still reads its own.
	w, request := *f.waiter, *f.request
	request.NotBefore = since
	w.request = &request
	f.waiter = &w
}

// enqueueAgain puts a flight in the queue again, for all tenants that wait for it.
func (r *Runner) enqueueAgain(f *flight) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.ticket = newTicket(f.host)
	entered := false
	for name := range f.tenants {
		entered = r.queues[f.spec.Name].enterLine(f.ticket, name) || entered
	}
	return entered
}

// fetchEnded is the error for a fetch whose context has ended, by the cause: its time was up, or nobody waits for it.
func (r *Runner) fetchEnded(f *flight, cause error) error {
	if !errors.Is(cause, errFetchTimeout) {
		return &Error{Reason: ReasonCanceled, Msg: "the fetch" + f.fromHost() + " was cancelled", Err: cause}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return timedOut(fmt.Sprintf("the fetch%s did not end within %s (%s)", f.fromHost(), f.common.timeout, KeyFetchTimeout), f.last)
}

// callResolver runs the resolver once, in the memory that is reserved for it; after an error it releases that memory. It returns when ctx
// is done, even if the resolver does not. Then it keeps its place until the resolver returns, so that hanging resolvers cannot pile
// up.
func (r *Runner) callResolver(ctx context.Context, f *flight, t *ticket, release func(), held *Reservation) (*Resource, error) {
	type result struct {
		res *Resource
		err error
	}
	// gone is closed when nobody takes the result any more, so that a resolver that returns late releases the memory itself.
	ch, gone := make(chan result), make(chan struct{})
	defer close(gone)
	name := f.spec.Name
	began := r.opts.Clock.Now()
	p := &pace{clock: r.opts.Clock, rate: f.common.slowRate}
	own, stop := context.WithCancelCause(withPace(ctx, p))
	defer stop(nil)
	request, reads := *f.request, &secretReads{Secrets: f.request.Secrets}
	if request.Secrets != nil {
		request.Secrets = reads
	}
	r.opts.Observer.InFlight(name, 1)
	r.calls.Go(func() {
		out, returned := result{}, false
		defer func() {
			if !returned {
				out = result{err: r.panicError(f.configured, recover())}
			}
			r.opts.Observer.InFlight(name, -1)
			release()
			if out.err == nil && out.res != nil {
				held.Shrink(sizeOf("", out.res))
			}
			select {
			case ch <- out:
			case <-gone:
				held.Release()
			}
		}()
		out.res, out.err = f.Resolve(own, &request)
		// The methods of the resolver's own error may panic too.
		out.err = r.judgeResult(f, out.res, out.err)
		returned = true
	})
	var out result
	for waits := true; waits; {
		look, behind := r.slowAgain(f, p)
		select {
		case out = <-ch:
			waits = false
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		// Only a fetch that others wait behind loses its place: without them, a slow remote harms nobody.
		case <-look:
			if lag, bytes := p.remoteLag(); behind && lag >= f.common.slowAfter && r.queueOf(f).evictTicket(t) {
				stop(errSlow)
				return nil, Transientf("%s sends too little and others wait for the place: %d bytes came in %s (%s)", cmp.Or(f.host, "the remote"),
					bytes, r.opts.Clock.Now().Sub(began).Round(time.Second), KeySlowAfter).Because(errSlow)
			}
		}
	}
	r.opts.Observer.Phase(name, PhaseFetch, r.opts.Clock.Now().Sub(began))
	if out.err != nil {
		held.Release()
		return nil, out.err
	}
	r.opts.Observer.Bytes(name, len(out.res.Data))
	f.reads = reads
	return f.withExpiry(out.res.withLookupTime(began), began), nil
}

// judgeResult is the error of a call in the form that users see, or what is wrong with its result.
func (r *Runner) judgeResult(f *flight, res *Resource, err error) error {
	if err == nil {
		err = checkResource(f.spec.Name, res, r.opts.Limits.Content)
	}
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Error](err); !ok && errors.Is(err, context.DeadlineExceeded) {
		return Transientf("%s did not answer in time", cmp.Or(f.host, "the remote"))
	}
	return cleanError(err)
}

// withExpiry makes the result of a fetch that had an identity expire when that may have lost its access.
func (f *flight) withExpiry(res *Resource, began time.Time) *Resource {
	if until := began.Add(f.common.access); !f.public && !res.Anonymous && (res.Expires.IsZero() || res.Expires.After(until)) {
		res = res.clone()
		res.Expires = until
	}
	return res
}

// slowAgain is the time of the next check whether a fetch is slow; never, if no fetch can lose its place for that.
func (r *Runner) slowAgain(f *flight, p *pace) (look <-chan time.Time, ever bool) {
	if f.common.slowAfter <= 0 {
		return nil, false
	}
	lag, _ := p.remoteLag()
	return r.opts.Clock.After(max(f.common.slowAfter-lag, time.Second)), true
}

// queueOf returns the queue of a flight's resolver. Configure changes the limits of a queue and never replaces it.
func (r *Runner) queueOf(f *flight) *queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queues[f.spec.Name]
}

// withLookupTime adds an annotation with the time when the remote was asked, if the result can change.
func (r *Resource) withLookupTime(fetch time.Time) *Resource {
	if r.Immutable {
		return r
	}
	out := r.clone()
	if out.LookedAt.IsZero() {
		out.LookedAt = fetch
	}
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[AnnotationLookedAt] = out.LookedAt.UTC().Format(time.RFC3339Nano)
	return out
}

// Bounds of the annotations and the source of a resource.
const (
	maxAnnotations     = 64
	maxAnnotationBytes = 64 << 10
	maxURI             = 4096
)

// checkResource checks the result of a resolver.
func checkResource(name string, res *Resource, limit int64) error {
	bad := func(format string, args ...any) error {
		return Errorf(ReasonFailed, "the resolver "+name+" gave a result that cannot be used: "+format, args...)
	}
	if res == nil {
		return bad("there is none")
	}
	if n := int64(len(res.Data)); n > limit {
		return TooLarge("the content", n, limit)
	}
	if len(res.Data) == 0 {
		return Errorf(ReasonFailed, "what was found at %s is empty", cmp.Or(brief.Clip(redactUserInfo(res.Source.URI), 200), "an unknown place"))
	}
	if res.Source.URI == "" || len(res.Source.URI) > maxURI || len(res.Source.EntryPoint) > maxURI {
		return bad("its source has no URI, or one that is too long")
	}
	if userInfo.MatchString(res.Source.URI) && !sshUser.MatchString(res.Source.URI) {
		return bad("its source has a user name or password in it")
	}
	if len(res.Source.Digest) == 0 {
		return bad("its source has no digest")
	}
	for alg, digits := range res.Source.Digest {
		if alg == "" || len(digits) < 32 || len(digits) > 128 || strings.Trim(digits, "0123456789abcdef") != "" {
			return bad("the digest %s is not in hexadecimal digits", quoteShort(alg))
		}
	}
	size := 0
	for k, v := range res.Annotations {
		if k == "" || len(k) > 316 {
			return bad("an annotation has a key of %d bytes", len(k))
		}
		size += len(k) + len(v)
	}
	if len(res.Annotations) > maxAnnotations || size > maxAnnotationBytes {
		return bad("its %d annotations have %d bytes; at most %d with %d bytes are allowed",
			len(res.Annotations), size, maxAnnotations, maxAnnotationBytes)
	}
	return nil
}
