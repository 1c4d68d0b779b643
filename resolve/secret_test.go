package resolve_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice.dev/resolve"
)

type oneSecret map[string][]byte

func (s oneSecret) Secret(context.Context, string, string) (map[string][]byte, error) { return s, nil }

func TestASecretSaysToWhichHostsItGoes(t *testing.T) {
	for _, test := range []struct {
		annotation string // "-": there is none
		demanded   bool
		host       string
		ok         bool
	}{
		{"-", false, "example.com", true},
		{"-", true, "example.com", false},
		{"example.com", true, "example.com", true},
		{"example.com", false, "example.com", true},
		{"example.com", false, "evil.test", false},
		{"example.com", false, "example.com:8443", false},
		{"example.com", false, "sub.example.com", false},
		{"example.com:8443", false, "example.com:8443", true},
		{"a.test, Example.com b.test", false, "example.com", true},
		{"*.example.com", false, "git.example.com", true},
		{"*.example.com", false, "a.b.example.com", true},
		{"*.example.com", false, "example.com", false},
		{"*.example.com", false, "evilexample.com", false},
		{"*.example.com", false, "git.example.com:8443", false},
		{"*example.com", false, "evilexample.com", false},
		{"*", false, "example.com", false},
		{"*.", false, "example.", false},
		{"", false, "example.com", false},
		{"", true, "", false},
	} {
		data := oneSecret{"token": []byte("hunter2")}
		if test.annotation != "-" {
			data[resolve.SecretHosts] = []byte(test.annotation)
		}
		r := &resolve.Request{Secrets: data, Config: resolve.Config{}}
		if test.demanded {
			r.Config[resolve.KeySecretHosts] = "true"
		}
		got, err := r.SecretFor(t.Context(), "ns", "s", test.host)
		var e *resolve.Error
		switch {
		case test.ok && (err != nil || string(got["token"]) != "hunter2" || len(got) != 1):
			t.Errorf("%+v: %v, %v", test, got, err)
		case !test.ok && (!errors.As(err, &e) || e.Reason != resolve.ReasonDenied || strings.Contains(e.Msg, "hunter2")):
			t.Errorf("%+v: %v, %v", test, got, err)
		}
		if test.annotation != "-" && data[resolve.SecretHosts] == nil {
			t.Errorf("%+v: the data of others was changed", test)
		}
	}
}

// locker is a Secret that changes while requests run.
type locker struct {
	mu    sync.Mutex
	value string // empty: it may not be read
}

func (l *locker) set(value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.value = value
}

func (l *locker) Secret(_ context.Context, namespace, name string) (map[string][]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.value == "" {
		return nil, resolve.Errorf(resolve.ReasonDenied, "the Secret %s/%s may not be read", namespace, name)
	}
	return map[string][]byte{"token": []byte(l.value)}, nil
}

// What was read with a Secret is for those who can have the same read: not after the Secret was changed or taken away, be it from the
// cache or from a fetch that was under way. Another tenant may have made a namespace and a Secret of the same name.
func TestWhatASecretHasReadGoesWithTheSecret(t *testing.T) {
	for _, under := range []string{"the cache", "a fetch under way"} {
		t.Run(under, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int32
				r := runner(t, spec(), resolve.Options{}, func(ctx context.Context, q *resolve.Request) (*resolve.Resource, error) {
					calls.Add(1)
					data, err := q.Secrets.Secret(ctx, q.Namespace, "mine")
					if err != nil {
						return nil, err
					}
					time.Sleep(time.Second)
					out := resource("read with " + string(data["token"]))
					out.Immutable = true
					return out, nil
				})
				secret := &locker{value: "old"}
				var all sync.WaitGroup
				defer all.Wait()
				want := func(text string, denied bool) {
					t.Helper()
					q := ask("p")
					q.Secrets = secret
					res, err := r.Resolve(t.Context(), q)
					switch {
					case denied && reason(err) != resolve.ReasonDenied:
						t.Errorf("got %v, %v, want it denied", res, err)
					case !denied && (err != nil || string(res.Data) != text):
						t.Errorf("got %v, %v, want %q", res, err, text)
					}
				}
				if under == "the cache" {
					want("read with old", false)
					want("read with old", false)
					if n := calls.Load(); n != 1 {
						t.Errorf("%d fetches, want 1", n)
					}
				} else {
					all.Go(func() { want("read with old", false) })
					synctest.Wait()
				}
				secret.set("new")
				want("read with new", false)
				secret.set("")
				want("", true)
				secret.set("new")
				want("read with new", false)
			})
		})
	}
}

// An address in place of a host has one explanation, with a port and without.
func TestAnAddressIsNoHost(t *testing.T) {
	for _, entry := range []string{"https://git.example.com", "https://git.example.com:8443", "git.example.com/", "git.example.com:8443/", "git.example.com:8443/x"} {
		if _, err := resolve.ParseHosts(entry); err == nil || !strings.Contains(err.Error(), "without scheme, user and path") {
			t.Errorf("%s: %v", entry, err)
		}
	}
}
