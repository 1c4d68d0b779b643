package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"sluice.dev/internal/brief"
)

// progress draws a bar on a terminal, and nothing elsewhere.
type progress struct {
	mu    sync.Mutex
	w     io.Writer // nil where nothing is drawn
	now   func() time.Time
	label string
	total int64
	// note stands behind the bar, as far as width allows.
	note  string
	width int
	last  time.Time
	drawn bool
}

// progress starts a bar for long work; total is 0 where it is not known yet.
func (e *env) progress(label string, total int64) *progress {
	p := &progress{now: e.now, label: label, total: total, last: e.now()}
	if e.errTTY {
		p.w = e.err
		_, p.width = terminal(e.err)
	}
	return p
}

// remark has a note drawn behind the bar, at once.
func (p *progress) remark(note string) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note, p.last = brief.OneLine(note), time.Time{}
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
	var parts []string
	switch {
	case total > 0:
		full := int(min(done, total) * barWidth / total)
		parts = append(parts, fmt.Sprintf("%s [%s%s] %d of %d", p.label, strings.Repeat("#", full), strings.Repeat(".", barWidth-full), done, total))
	case p.note == "":
		parts = append(parts, fmt.Sprintf("%s: %d", p.label, done))
	case p.label != "":
		parts = append(parts, p.label)
	}
	if p.note != "" {
		parts = append(parts, p.note)
	}
	text := strings.Join(parts, ": ")
	if letters := []rune(text); p.width > 1 && len(letters) >= p.width {
		text = string(letters[:p.width-2]) + "…" // a longer one would fill lines that nobody wipes
	}
	fmt.Fprintf(p.w, "\r%s\x1b[K", text)
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
