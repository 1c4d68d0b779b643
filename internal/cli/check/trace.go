package check

// Why is this finding what it is? --trace PATH prints each question that a comparison asks about one place of the
// schema: which keyword, how old and new were compared, and which argument or object answered. For example,
// --trace .spec.replicas shows that maximum went from 10 to 5, and the witness 6.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"sluice.dev/compat"
)

// tracer keeps the steps of comparisons that are about one place.
type tracer struct {
	place string // as a Path is written: "" for the object

	mu    sync.Mutex
	steps map[string][]compat.Step // by CRD
	near  string                   // the longest path above the place that anything was asked about
	seen  bool
}

// newTracer returns a tracer for a place as a user writes it: with or without the dot at the beginning, and . for
// the object itself.
func newTracer(place string) *tracer {
	if place = strings.TrimPrefix(place, "."); place != "" && place[0] != '[' {
		place = "." + place
	}
	return &tracer{place: place, steps: map[string][]compat.Step{}}
}

// addStep keeps a step. It may be called concurrently. Steps above the place are kept only if they speak of all
// that is below them; others tell at least how near the comparison came.
func (t *tracer) addStep(s compat.Step) {
	path := s.Path.String()
	above := path == t.place || strings.HasPrefix(t.place, path) && strings.ContainsRune(".[", rune(t.place[len(path)]))
	if !above {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = true
	if len(path) > len(t.near) {
		t.near = path
	}
	if path == t.place || s.Below {
		t.steps[s.CRD] = append(t.steps[s.CRD], s)
	}
}

// printSteps writes the steps, CRD by CRD. If nothing was asked about the place, it names the nearest place above
// it that was, since a path is easily mistyped.
//
//	trace: databases.example.sluice.dev v1 to v1, .spec.engine
//	  type: proven: the old schema has the same keyword with the same meaning
//	  enum: not proven at this place alone. Asked: is there an object ...
func (t *tracer) printSteps(w io.Writer) {
	if len(t.steps) == 0 {
		fmt.Fprintf(w, "trace: nothing was asked about %s", placeName(t.place))
		if t.seen {
			fmt.Fprintf(w, "; the nearest place above it is %s", placeName(t.near))
		}
		fmt.Fprintln(w)
	}
	for _, name := range slices.Sorted(maps.Keys(t.steps)) {
		last := ""
		for _, s := range t.steps[name] {
			// The head stands once above the steps that share it.
			head := fmt.Sprintf("trace: %s %s to %s, %s", name, s.From, s.To, placeName(s.Path.String()))
			if head != last {
				fmt.Fprintln(w, head)
				last = head
			}
			about := s.Keyword
			if s.Detail != "" {
				about += " " + s.Detail
			}
			fmt.Fprintf(w, "  %s: %s\n", about, s.Text)
			if s.Object == nil {
				continue
			}
			if object, err := json.Marshal(s.Object); err == nil {
				fmt.Fprintf(w, "    %s\n", object)
			}
		}
	}
}

// placeName is a place as people write it.
func placeName(place string) string { return cmp.Or(place, "the object") }
