package command

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"sluice.dev/internal/brief"
)

// Progress draws a progress bar on a terminal; elsewhere it draws nothing.
type Progress struct {
	mu    sync.Mutex
	w     io.Writer
	now   func() time.Time
	label string
	total int64
	// note stands behind the bar, as far as width allows.
	note  string
	width int
	last  time.Time
	drawn bool
}

// Progress starts a bar for long work; total is 0 where it is not known yet.
func (e *Env) Progress(label string, total int64) *Progress {
	p := &Progress{w: io.Discard, now: e.Now, label: label, total: total, last: e.Now()}
	if e.ErrTTY {
		p.w = e.Err
		_, p.width = Terminal(e.Err)
	}
	return p
}

// Remark draws a note behind the bar.
func (p *Progress) Remark(note string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note, p.last = brief.OneLine(note), time.Time{}
}

const barWidth = 30

// Set draws the number of finished items, at most ten times a second.
func (p *Progress) Set(done int64) { p.SetOf(done, p.total) }

// SetOf is Set with a new total.
func (p *Progress) SetOf(done, total int64) {
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

// Done wipes the bar.
func (p *Progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
