package cli

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"sluice.dev/internal/controller/resolution"
	"sluice.dev/internal/resolvers"
)

func TestTheLogHasTheLevelAndTheFormatOfTheFlags(t *testing.T) {
	defer klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	for name, test := range map[string]struct {
		flags watchFlags
		want  []string
	}{
		"default": {watchFlags{}, []string{`"msg":"i"`, `"msg":"w"`, `"msg":"library i"`, `"msg":"library e"`}},
		"debug":   {watchFlags{logLevel: "debug"}, []string{`"msg":"d"`, `"msg":"i"`, `"msg":"w"`, `"msg":"library i"`, `"msg":"library e"`}},
		"verbose": {watchFlags{verbose: true, logLevel: "error", logFormat: "text"}, []string{"msg=d", "msg=i", "msg=w", `msg="library i"`, `msg="library e"`}},
		"warn":    {watchFlags{logLevel: "warn", logFormat: "text"}, []string{"msg=w", `msg="library e"`}},
		"error":   {watchFlags{logLevel: "error"}, []string{`"msg":"library e"`}},
	} {
		var out bytes.Buffer
		log, err := test.flags.newLogger(&out)
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("d")
		log.Info("i")
		log.Warn("w")
		klog.Info("library i")
		klog.Error("library e")
		klog.Flush()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != len(test.want) {
			t.Errorf("%s: %d lines, want %d\n%s", name, len(lines), len(test.want), out.String())
			continue
		}
		for i, want := range test.want {
			if !strings.Contains(lines[i], want) {
				t.Errorf("%s: %s, want %s", name, lines[i], want)
			}
		}
	}
	for _, wrong := range []watchFlags{{logLevel: "loud"}, {logFormat: "xml"}} {
		if _, err := wrong.newLogger(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

func TestEachRoleSaysOneLine(t *testing.T) {
	var out bytes.Buffer
	p := &process{
		roles: roleNames(resolvers.Table()), log: slog.New(slog.NewJSONHandler(&out, nil)), members: &resolution.Members{ID: "pod-1"},
		flags: serveFlags{listen: ":8080", webhookListen: ":8443", guard: guardFlags{listen: ":9443"}, features: featureWebhookFlags{listen: ":9444"}},
	}
	p.tellRoles()
	listens := map[string]string{}
	for line := range strings.Lines(out.String()) {
		var got struct {
			Role, Does string
			Listens    []string
			ActsFor    string `json:"acts_for"`
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil || got.Does == "" || got.ActsFor == "" || listens[got.Role] != "" {
			t.Errorf("%v: %s", err, line)
		}
		listens[got.Role] = strings.Join(got.Listens, " ")
	}
	if len(listens) != len(p.roles) {
		t.Errorf("%d lines for %d roles", len(listens), len(p.roles))
	}
	for role, want := range map[string]string{"resolution": ":8080 :8443", "crd-guard": ":8080 :9443", "feature-webhook": ":8080 :9444", "delivery": ":8080"} {
		if listens[role] != want {
			t.Errorf("%s listens at %q, want %q", role, listens[role], want)
		}
	}
}

func TestFlagzShowsWhatIsInForceWithoutPasswords(t *testing.T) {
	p := &process{roles: []string{"resolver-git"}}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	flags.String("store", "https://user:secret@registry.example.com/x", "")
	p.flags.all = flags
	apply := p.inForce.rememberTaken("git-resolver-config", func(data map[string]string) error {
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
	c := processMetrics(reg)
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	c.watchCertificate("one", func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &server.TLS.Certificates[0], nil })
	c.watchCertificate("none", func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("no certificate yet") })
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
