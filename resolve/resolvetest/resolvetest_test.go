package resolvetest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice.dev/resolve"
)

// broken is a resolver that breaks one rule.
type broken struct {
	rule  string
	calls atomic.Int64
	stop  chan struct{}
}

func (b *broken) Spec() resolve.Spec {
	s := resolve.Spec{Name: "broken", Doc: "Breaks a rule.", Params: []resolve.Param{{Name: "path", Required: true, Doc: "A path."}}}
	switch b.rule {
	case "sound":
		s.Doc = ""
	case "changes":
		b.calls.Add(1)
		s.Doc = strings.Repeat("x", int(b.calls.Load()))
	}
	return s
}

func (b *broken) Resolve(ctx context.Context, r *resolve.Request) (*resolve.Resource, error) {
	b.calls.Add(1)
	digest := "cd42404d52ad55ccfa9aca4adc828aa5800ad9d385a0671fbcbf724118320619" // of "value"
	data := "value"
	switch r.Get("path") {
	case "missing":
		switch b.rule {
		case "reason":
			return nil, errors.New("it is missing")
		case "secret":
			return nil, resolve.Errorf(resolve.ReasonNotFound, "no file for hunter2")
		case "lines":
			return nil, resolve.Errorf(resolve.ReasonNotFound, "no\nfile")
		}
		return nil, resolve.Errorf(resolve.ReasonNotFound, "no file")
	case "hang":
		switch b.rule {
		case "deaf":
			<-b.stop
		case "leak":
			go func() { <-b.stop }()
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	switch b.rule {
	case "digest":
		digest = strings.Repeat("0", 64)
	case "immutable":
		data += strings.Repeat("x", int(b.calls.Load()))
		digest = ""
	case "request":
		r.Params["path"] = resolve.Value{}
	}
	source := resolve.Source{URI: "x://y", Digest: map[string]string{"sha256": digest}}
	if digest == "" {
		source.Digest = map[string]string{"sha1": strings.Repeat("0", 40)}
	}
	return &resolve.Resource{Data: []byte(data), Source: source, Immutable: b.rule == "immutable"}, nil
}

func TestSuiteFindsWhatIsBroken(t *testing.T) {
	for rule, check := range map[string]string{
		"": "", "sound": "the specification is sound", "changes": "the specification is sound", "reason": "requests that fail", "secret": "requests that fail",
		"lines": "requests that fail", "digest": "requests that work", "immutable": "requests that work", "request": "concurrent use",
		"deaf": "cancellation", "leak": "cancellation",
	} {
		b := &broken{rule: rule, stop: make(chan struct{})}
		c := &Case{
			Resolver: b, Hidden: []string{"hunter2"},
			Works: []Request{{Name: "a value", Params: map[string]string{"path": "x"}}},
			Fails: []Failure{{Request: Request{Name: "missing", Params: map[string]string{"path": "missing"}}, Reason: resolve.ReasonNotFound}},
			Hangs: &Request{Params: map[string]string{"path": "hang"}},
		}
		if check == "cancellation" {
			c.Patience = 100 * time.Millisecond // for what will not happen
		}
		if rule == "request" {
			c.Works = append(c.Works, c.Works[0])
		}
		found := map[string][]string{}
		for _, k := range checks {
			checking := &tester{Case: c}
			if k.run(checking, t.Context()); len(checking.problems) > 0 {
				found[k.name] = checking.problems
			}
		}
		close(b.stop)
		if check == "" && len(found) > 0 || check != "" && len(found[check]) == 0 {
			t.Errorf("rule %q: found %v", rule, found)
		}
	}
}
