package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Terminal reports whether w is a terminal, and its number of columns.
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

// Interactive reports whether the command can ask the user.
func Interactive(e *Env) bool {
	in, ok := e.In.(*os.File)
	return ok && term.IsTerminal(int(in.Fd()))
}

// Confirm asks a question on the terminal. If nobody can answer, the error names the flag that answers it.
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
