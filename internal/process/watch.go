package process

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/pprof"
	"regexp"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
)

// What a process tells about itself to operators: profiles and settings in force on request, and metrics about its build and its
// certificates.

// addDebug serves profiles, and what is in force.
func (p *Process) addDebug(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /flagz", func(w http.ResponseWriter, _ *http.Request) {
		flags := map[string]string{}
		if p.Flags != nil {
			p.Flags.VisitAll(func(f *pflag.Flag) { flags[f.Name] = withoutUsers(f.Value.String()) })
		}
		w.Header().Set("Content-Type", "application/json")
		text := json.NewEncoder(w)
		text.SetIndent("", "  ")
		_ = text.Encode(map[string]any{"version": p.Version, "roles": p.roleNames(), "flags": flags, "configMaps": p.settingsTaken()}) // the client may be gone
	})
}

// urlUser is the part of a URL that can hold a password.
var urlUser = regexp.MustCompile(`://[^/?#\s"'@]*@`)

func withoutUsers(s string) string { return urlUser.ReplaceAllString(s, "://***@") }

// rememberTaken returns apply, and remembers what it took.
func (p *Process) rememberTaken(name string, apply func(map[string]string) error) func(map[string]string) error {
	return func(data map[string]string) error {
		err := apply(data)
		if err == nil {
			p.taken.Store(name, data)
		}
		return err
	}
}

// settingsTaken returns the settings in force by the name of their ConfigMap, in copies without the passwords that URLs in them may
// have.
func (p *Process) settingsTaken() map[string]map[string]string {
	out := map[string]map[string]string{}
	for key, value := range p.taken.Range {
		name, _ := key.(string)
		data, _ := value.(map[string]string)
		out[name] = maps.Clone(data)
		for k, v := range data {
			out[name][k] = withoutUsers(v)
		}
	}
	return out
}

// NewMetrics registers the metrics of every process.
func NewMetrics(reg prometheus.Registerer, version string) *Certificates {
	c := &Certificates{
		expiry: prometheus.NewDesc("sluice_certificate_expiration_timestamp_seconds", "When the certificate of a webhook ends, in seconds since 1970.", []string{"webhook"}, nil),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sluice_build_info", Help: "1, with the version of the program, its commit, and the version of Go.",
	}, []string{"version", "revision", "goversion"})
	build.WithLabelValues(version, buildRevision(), runtime.Version()).Set(1)
	reg.MustRegister(build, c)
	return c
}

// BuildVersion returns the version of the module that go install built, or the commit.
func BuildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		return cmp.Or(info.Main.Version, "unknown")
	}
	return cmp.Or(buildRevision(), "unknown")
}

// buildRevision is the commit of the build; empty if it is not known.
func buildRevision() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return ""
}

// Certificates tell when the certificates of webhooks end.
type Certificates struct {
	expiry *prometheus.Desc
	of     sync.Map // the function for tls.Config.GetCertificate, by the name of the webhook
}

// WatchCertificate returns get, and has a metric tell when the certificate of a webhook ends.
func (p *Process) WatchCertificate(webhook string, get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.certificates.of.Store(webhook, get)
	return get
}

// Describe implements prometheus.Collector.
func (c *Certificates) Describe(to chan<- *prometheus.Desc) { to <- c.expiry }

// Collect implements prometheus.Collector. A webhook without a certificate has no value.
func (c *Certificates) Collect(to chan<- prometheus.Metric) {
	for key, value := range c.of.Range {
		webhook, _ := key.(string)
		get, _ := value.(func(*tls.ClientHelloInfo) (*tls.Certificate, error))
		if pair, err := get(nil); err == nil {
			to <- prometheus.MustNewConstMetric(c.expiry, prometheus.GaugeValue, float64(pair.Leaf.NotAfter.Unix()), webhook)
		}
	}
}
