package apply

import (
	"fmt"
	"strings"
	"testing"

	"sluice.dev/internal/cli/command"
)

// A user with few rights may list few of the sixty kinds of a cluster.
func TestManyKindsStandOnSeveralLines(t *testing.T) {
	var kinds []string
	for i := range 60 {
		kinds = append(kinds, fmt.Sprintf("kind%ds.example.com", i))
	}
	var b strings.Builder
	tellUnlisted(&command.Env{Err: &b}, []string{"this user may not list these: " + strings.Join(kinds, ", "), "short"})
	for line := range strings.Lines(b.String()) {
		if len(line) > 125 {
			t.Errorf("%d bytes: %s", len(line), line)
		}
	}
	for _, want := range append(kinds, "\nnote: short; there may be more objects\n") {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in %s", want, b.String())
		}
	}
}
