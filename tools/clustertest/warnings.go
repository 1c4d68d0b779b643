package clustertest

import (
	"strings"
	"sync"
)

// Warnings collects what an API server warns of, as the WarningHandler of a rest.Config. Its zero value is ready for use, by
// several goroutines at a time.
type Warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader takes one warning; see rest.WarningHandler.
func (w *Warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// Take returns the warnings since the last call, a line each; empty for none.
// The order is that in which they came.
func (w *Warnings) Take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := strings.Join(w.texts, "\n")
	w.texts = nil
	return out
}
