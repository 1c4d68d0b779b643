package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// progress draws a bar on a terminal, and nothing elsewhere.
type progress struct {
	mu    sync.Mutex
	w     io.Writer // nil where nothing is drawn
	now   func() time.Time
	label string
	total int64
	last  time.Time
	drawn bool
}

// progress starts a bar for long work; total is 0 where it is not known yet.
func (e *env) progress(label string, total int64) *progress {
	p := &progress{now: e.now, label: label, total: total, last: e.now()}
	if e.errTTY {
		p.w = e.err
	}
	return p
}

const barWidth = 30

// set draws how far the work is, at most ten times a second.
func (p *progress) set(done int64) { p.setOf(done, p.total) }

func (p *progress) setOf(done, total int64) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if now.Sub(p.last) < 100*time.Millisecond {
		return
	}
	p.last = now
	p.drawn = true
	if total <= 0 {
		fmt.Fprintf(p.w, "\r%s: %d\x1b[K", p.label, done)
		return
	}
	full := int(min(done, total) * barWidth / total)
	fmt.Fprintf(p.w, "\r%s [%s%s] %d of %d\x1b[K", p.label, strings.Repeat("#", full), strings.Repeat(".", barWidth-full), done, total)
}

// done wipes the bar.
func (p *progress) done() {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
