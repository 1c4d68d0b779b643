package bundle

import (
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"sluice.dev/resolve"
	"sluice.dev/resolve/netguard"
	"sluice.dev/tools/bundletest"
)

// The resolver's own way to the network, as a process has it.
func TestLocalRegistriesNeedTheOperatorsConsent(t *testing.T) {
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	reg, err := bundletest.NewRegistry(host, "team/bundle", s.Client().Transport)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reg.Push(t.Context(), "v1", bundletest.Task("a", "kind: Task\n")); err != nil {
		t.Fatal(err)
	}
	ask := func(config resolve.Config) error {
		r := request(ParamBundle, host+"/team/bundle:v1")
		maps.Copy(r.Config, config)
		b := New(Options{Network: netguard.Options{}})
		defer b.Close() //nolint:errcheck // it never fails
		_, err := b.Resolve(t.Context(), r)
		return err
	}
	for name, c := range map[string]resolve.Config{
		"nothing":        {},
		"plain http":     {KeyPlain: "other.example.com, " + host},
		"only addresses": {netguard.KeyAllowed: "127.0.0.1"},
	} {
		if e := failure(t, ask(c)); e.Reason != resolve.ReasonForbidden || e.Transient {
			t.Errorf("%s: %+v", name, e)
		}
	}
	for _, c := range []resolve.Config{{KeyPlain: host}, {KeyPlainPrivate: "true"}} {
		c[netguard.KeyAllowed] = "127.0.0.1"
		if err := ask(c); err != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
	if e := failure(t, ask(resolve.Config{KeyPlainPrivate: "true"})); e.Reason != resolve.ReasonForbidden {
		t.Errorf("a loopback address is reached: %+v", e)
	}
}
