package apply

import (
	"context"
	"slices"
	"strings"
	"sync"

	"sluice.dev/internal/brief"
)

// The API server sends warnings as headers of its answers, and client-go hands them to a handler that does not know the object. The
// context of a request carries the object's ID to the handler here, so that a plan can list each warning once, with the objects that
// it is about.

// Warning is a warning of the API server (RFC 9110, header Warning), for instance about a deprecated version, or from an admission
// policy.
type Warning struct {
	Message string `json:"message"`
	// Objects are those that the warning is about, in the order of their IDs; at least one.
	Objects []ID `json:"objects"`
}

// String returns the message with the first few objects.
func (w Warning) String() string {
	return w.Message + " (" + brief.First(w.Objects, 3, ", ", ID.String) + ")"
}

// warnings collects the server's warnings, once for each object. The zero value is empty.
type warnings struct {
	mu sync.Mutex
	of map[string]map[ID]bool
}

// addWarning records that a message is about an object. The same warning comes with the dry run and with the write, and counts once.
func (w *warnings) addWarning(message string, id ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[string]map[ID]bool{}
	}
	if w.of[message] == nil {
		w.of[message] = map[ID]bool{}
	}
	w.of[message][id] = true
}

// sortedWarnings returns the warnings in the order of their messages.
func (w *warnings) sortedWarnings() []Warning {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Warning
	for message, ids := range w.of {
		one := Warning{Message: message}
		for id := range ids {
			one.Objects = append(one.Objects, id)
		}
		slices.SortFunc(one.Objects, ID.Compare)
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Warning) int { return strings.Compare(a.Message, b.Message) })
	return out
}

type warningKey struct{}

// attributeTo attributes the warnings in answers to requests with the returned context to an object.
func (w *warnings) attributeTo(ctx context.Context, id ID) context.Context {
	return context.WithValue(ctx, warningKey{}, func(message string) { w.addWarning(message, id) })
}

// warningHandler attributes a warning to the object of its request. It drops the warnings of other requests.
type warningHandler struct{}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (warningHandler) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	const miscellaneous = 299
	if add, ok := ctx.Value(warningKey{}).(func(string)); ok && code == miscellaneous && text != "" {
		add(text)
	}
}
