package process

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
)

func TestFlagzShowsWhatIsInForceWithoutPasswords(t *testing.T) {
	p := &Process{Roles: []Role{ResolverRole("git")}}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	flags.String("store", "https://user:secret@registry.example.com/x", "")
	p.Flags = flags
	apply := p.rememberTaken("git-resolver-config", func(data map[string]string) error {
		if data["bad"] != "" {
			return errors.New("bad")
		}
		return nil
	})
	if err := apply(map[string]string{"default-url": "https://me:pw@git.example.com/r"}); err != nil {
		t.Fatal(err)
	}
	if err := apply(map[string]string{"bad": "x"}); err == nil {
		t.Fatal("the error is lost")
	}
	mux := http.NewServeMux()
	p.addDebug(mux)
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/flagz", nil))
	var got struct {
		Roles      []string
		Flags      map[string]string
		ConfigMaps map[string]map[string]string
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]map[string]string{"git-resolver-config": {"default-url": "https://***@git.example.com/r"}}, got.ConfigMaps); diff != "" {
		t.Error(diff)
	}
	if got.Flags["store"] != "https://***@registry.example.com/x" {
		t.Errorf("flags: %v", got.Flags)
	}
	profile := httptest.NewRecorder()
	mux.ServeHTTP(profile, httptest.NewRequest(http.MethodGet, "/debug/pprof/goroutine?debug=1", nil))
	if !strings.Contains(profile.Body.String(), "goroutine profile") {
		t.Errorf("profile: %s", profile.Body)
	}
}

func TestTheEndOfACertificateIsAMetric(t *testing.T) {
	reg := prometheus.NewRegistry()
	p := &Process{certificates: NewMetrics(reg, "v1")}
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	p.WatchCertificate("one", func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &server.TLS.Certificates[0], nil })
	p.WatchCertificate("none", func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("no certificate yet") })
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "sluice_certificate_expiration_timestamp_seconds" {
				got[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	want := float64(server.Certificate().NotAfter.Unix())
	if diff := cmp.Diff(map[string]float64{"one": want}, got); diff != "" || want < float64(time.Unix(0, 0).Unix()) {
		t.Error(diff)
	}
}
