package git

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice.dev/resolve"
	"sluice.dev/resolve/netguard"
	"sluice.dev/tools/dnstest"
)

// systemClock is the real time.
type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// local allows 127.0.0.1 only, which every name stands for.
func local(t testing.TB) netguard.Options {
	return netguard.Options{Allow: []string{"127.0.0.1"}, Resolver: dnstest.Resolver(t, "127.0.0.1")}
}

// secrets are Secrets by namespace/name.
type secrets map[string]map[string][]byte

func (s secrets) Secret(_ context.Context, namespace, name string) (map[string][]byte, error) {
	if d, ok := s[namespace+"/"+name]; ok {
		return d, nil
	}
	return nil, resolve.Errorf(resolve.ReasonDenied, "no Secret %s/%s", namespace, name)
}

// newResolver makes a resolver that may dial loopback.
func newResolver(t testing.TB, change func(*Options)) *Resolver {
	t.Helper()
	o := Options{Dir: t.TempDir(), Network: local(t), Clock: systemClock{}}
	if change != nil {
		change(&o)
	}
	g, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// ask makes a request in namespace ns with the configuration's defaults; pairs are parameters, and configuration keys if
// they begin with a colon.
func ask(sec resolve.Secrets, pairs ...string) *resolve.Request {
	r := &resolve.Request{Namespace: "ns", Name: "r", Params: map[string]resolve.Value{}, Config: resolve.Config{}, Secrets: sec}
	for _, k := range configKeys() {
		r.Config[k.Name] = k.Default
	}
	for i := 0; i < len(pairs); i += 2 {
		if key, ok := strings.CutPrefix(pairs[i], ":"); ok {
			r.Config[key] = pairs[i+1]
		} else {
			r.Params[pairs[i]] = resolve.Value{Type: resolve.String, String: pairs[i+1]}
		}
	}
	return r
}

// deadline is a context that ends a test that hangs.
func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// wantData resolves and compares the content.
func wantData(t testing.TB, g *Resolver, r *resolve.Request, want string) *resolve.Resource {
	t.Helper()
	got, err := g.Resolve(deadline(t), r)
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	if string(got.Data) != want {
		t.Errorf("content is %q, want %q", got.Data, want)
	}
	return got
}

// wantReason resolves and compares the reason of the error.
func wantReason(t testing.TB, g *Resolver, r *resolve.Request, want resolve.Reason) {
	t.Helper()
	_ = failure(t, g, r, want)
}

// failure resolves, compares the reason of the error, and returns the error.
func failure(t testing.TB, g *Resolver, r *resolve.Request, want resolve.Reason) *resolve.Error {
	t.Helper()
	got, err := g.Resolve(deadline(t), r)
	if err == nil {
		t.Fatalf("no error but %q, want reason %s", got.Data, want)
	}
	e, ok := errors.AsType[*resolve.Error](err)
	if !ok {
		t.Fatalf("error %T %v, want *resolve.Error with reason %s", err, err, want)
	}
	if e.Reason != want {
		t.Fatalf("reason is %s (%s), want %s", e.Reason, e.Msg, want)
	}
	if strings.Contains(e.Msg, g.options.Dir) || strings.Contains(e.Msg, "%!") {
		t.Errorf("the text tells of folders, or is badly formed: %q", e.Msg)
	}
	return e
}

// leftovers lists what a failed fetch should not leave in the folder.
func leftovers(t testing.TB, g *Resolver) []string {
	t.Helper()
	var out []string
	for _, p := range []string{"trash-*", "mirrors/*/incoming-*", "mirrors/*/objects/tmp_*", "mirrors/*/objects/*/tmp_*"} {
		found, err := filepath.Glob(filepath.Join(g.options.Dir, p))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	return out
}
