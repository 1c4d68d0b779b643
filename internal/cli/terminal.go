package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// terminal tells whether w is a terminal, and how many columns it has.
func terminal(w io.Writer) (bool, int) {
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
