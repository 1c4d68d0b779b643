package command

// What can be done with the terminal and the desktop of a user? Ask a question, draw a bar for long work, and open
// a page in the browser. All of it is left out where nobody looks: in a pipe or a CI job, a bar draws nothing, and
// a question is an error that names the flag which answers it.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"sluice.dev/internal/brief"
)

// Terminal reports whether w is a terminal, and its number of columns. The number is 0 if it is not known, and for
// what is no terminal.
func Terminal(w io.Writer) (bool, int) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return false, 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return true, 0
	}
	return true, width
}

// errNotConfirmed is the answer "no" to a question.
var errNotConfirmed = errors.New("not confirmed: nothing was changed")

// Interactive reports whether the command can ask the user. It looks at standard input only.
func Interactive(e *Env) bool {
	in, ok := e.In.(*os.File)
	return ok && term.IsTerminal(int(in.Fd()))
}

// Confirm asks a question on the terminal. If nobody can answer, the error names the flag that answers it.
// Everything but y and yes, in any case of letters, is a no, and the end of the input as well.
func Confirm(e *Env, question string) error {
	if !Interactive(e) {
		return errors.New("nobody can be asked, as standard input is no terminal: add --yes to do it without a question, or --dry-run to look first")
	}
	fmt.Fprintf(e.Err, "%s [y/N] ", question)
	line, err := bufio.NewReader(e.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return errNotConfirmed
	}
	return nil
}

// OpenSecretInBrowser opens an address that other users may not see, as they see the arguments of a program: the browser opens a file of this user
// that leads there. The caller calls remove when the address is of no more use.
func OpenSecretInBrowser(ctx context.Context, address string) (remove func(), err error) {
	dir, err := os.MkdirTemp("", "sluice-open-") // for this user only
	if err != nil {
		return func() {}, fmt.Errorf("no browser can be opened: %w", err)
	}
	remove = func() { _ = os.RemoveAll(dir) }
	file := filepath.Join(dir, "open.html")
	text := fmt.Sprintf("<!DOCTYPE html>\n<meta http-equiv=\"refresh\" content=\"0;url=%s\">\n<title>sluice</title>\n", html.EscapeString(address))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return remove, fmt.Errorf("no browser can be opened: %w", err)
	}
	return remove, OpenInBrowser(ctx, file)
}

// OpenInBrowser opens an address or a file with the program that the system has for it, and does not wait for
// that. The browser outlives the command.
func OpenInBrowser(ctx context.Context, what string) error {
	name, args := "xdg-open", []string{what}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", what}
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), name, args...) //nolint:gosec // an address or a file of our own
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("no browser can be opened: %w", err)
	}
	go func() { _ = cmd.Wait() }() // so that no zombie stays
	return nil
}

// Progress draws a progress bar on a terminal; elsewhere it draws nothing. It is safe for concurrent use.
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

// Progress starts a bar for long work; total is 0 where it is not known yet. The bar appears with the first call
// of Set that comes 100 ms later or more, so short work shows none. End it with Done.
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

// SetOf is Set with a new total. A total of 0 or less is not known: then only the count is drawn.
func (p *Progress) SetOf(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	// A terminal, and a CI log that looks like one, is slower than the work.
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
