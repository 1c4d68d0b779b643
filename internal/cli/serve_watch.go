package cli

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/pprof"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/controller/delivery"
	"sluice.dev/internal/controller/features"
	"sluice.dev/internal/controller/guard"
	"sluice.dev/internal/controller/resolution"
)

// watchFlags say what those who watch a process see of it.
type watchFlags struct {
	logLevel, logFormat string
	verbose, debug      bool
	// all are the flags of the process, for /flagz; nil: none.
	all *pflag.FlagSet
}

func (f *watchFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.logLevel, "log-level", "info", "lowest level of the lines in the log: debug (with a line for each request), info, warn or error")
	flags.StringVar(&f.logFormat, "log-format", "json", "format of the log: json or text")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "the same as --log-level=debug")
	flags.BoolVar(&f.debug, "debug", false, "serve profiles at /debug/pprof/, and the flags and settings in force at /flagz; anyone who reaches --listen can read them")
	f.all = flags
}

var logLevels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// newLogger returns the log of the process. The libraries of Kubernetes write into the same log; their warnings have the level info.
func (f *watchFlags) newLogger(w io.Writer) (*slog.Logger, error) {
	level, ok := logLevels[cmp.Or(f.logLevel, "info")]
	if !ok {
		return nil, fmt.Errorf("--log-level=%s: want debug, info, warn or error", f.logLevel)
	}
	if f.verbose {
		level = slog.LevelDebug
	}
	var handler slog.Handler
	switch options := (&slog.HandlerOptions{Level: level}); cmp.Or(f.logFormat, "json") {
	case "json":
		handler = slog.NewJSONHandler(w, options)
	case "text":
		handler = slog.NewTextHandler(w, options)
	default:
		return nil, fmt.Errorf("--log-format=%s: want json or text", f.logFormat)
	}
	log := slog.New(handler)
	klog.SetSlogLogger(log)
	return log, nil
}

// roleText is what the log says of a role when it starts.
type roleText struct{ does, actsFor string }

const actsForItself = "itself"

// textOf describes a role.
func textOf(role string) roleText {
	switch role {
	case resolution.LifecycleRole:
		return roleText{"ends ResolutionRequests that time out, deletes old ones, converts versions", actsForItself}
	case guard.Role:
		return roleText{"judges changes of CRDs at admission", actsForItself}
	case delivery.Role:
		return roleText{"fetches the sources of Deliveries and applies them", "ServiceAccounts of namespaces that bind sluice-delivery-impersonate"}
	case features.Role:
		return roleText{"writes the admission policies of Components, and their status", actsForItself}
	case features.WebhookRole:
		return roleText{"judges at admission what policies of Components cannot express", actsForItself}
	}
	return roleText{
		"answers ResolutionRequests for the resolver " + strings.TrimPrefix(role, resolution.Role("")),
		"requesters, with the Secrets of namespaces that bind sluice-resolver-credentials",
	}
}

// tellRoles writes a line for each role.
func (p *process) tellRoles() {
	for _, role := range p.roles {
		listens := []string{p.flags.listen}
		switch role {
		case resolution.LifecycleRole:
			listens = append(listens, p.flags.webhookListen)
		case guard.Role:
			listens = append(listens, p.flags.guard.listen)
		case features.WebhookRole:
			listens = append(listens, p.flags.features.listen)
		}
		text := textOf(role)
		p.log.Info("a role starts", "role", role, "does", text.does, "listens", listens, "namespace", p.flags.namespace, "id", p.members.ID, "acts_for", text.actsFor)
	}
}

// addDebug serves profiles, and what is in force.
func (p *process) addDebug(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /flagz", func(w http.ResponseWriter, _ *http.Request) {
		flags := map[string]string{}
		if p.flags.all != nil {
			p.flags.all.VisitAll(func(f *pflag.Flag) { flags[f.Name] = withoutUsers(f.Value.String()) })
		}
		w.Header().Set("Content-Type", "application/json")
		_ = command.Encode(w, map[string]any{"version": thisVersion(), "roles": p.roles, "flags": flags, "configMaps": p.inForce.settingsTaken()}) // the client may be gone
	})
}

// urlUser is the part of a URL that can hold a password.
var urlUser = regexp.MustCompile(`://[^/?#\s"'@]*@`)

func withoutUsers(s string) string { return urlUser.ReplaceAllString(s, "://***@") }

// inForce has the settings of ConfigMaps that the process has taken.
type inForce struct {
	mu sync.Mutex
	of map[string]map[string]string
}

// rememberTaken returns apply, and remembers what it took.
func (f *inForce) rememberTaken(name string, apply func(map[string]string) error) func(map[string]string) error {
	return func(data map[string]string) error {
		err := apply(data)
		if err == nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.of == nil {
				f.of = map[string]map[string]string{}
			}
			f.of[name] = data
		}
		return err
	}
}

func (f *inForce) settingsTaken() map[string]map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]map[string]string{}
	for name, data := range f.of {
		out[name] = maps.Clone(data)
		for k, v := range data {
			out[name][k] = withoutUsers(v)
		}
	}
	return out
}

// processMetrics registers the metrics of every process of sluice serve.
func processMetrics(reg prometheus.Registerer) *certificates {
	c := &certificates{
		expiry: prometheus.NewDesc("sluice_certificate_expiration_timestamp_seconds", "When the certificate of a webhook ends, in seconds since 1970.", []string{"webhook"}, nil),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sluice_build_info", Help: "1, with the version of the program, its commit, and the version of Go.",
	}, []string{"version", "revision", "goversion"})
	build.WithLabelValues(versionOfBuild(), buildRevision(), runtime.Version()).Set(1)
	reg.MustRegister(build, c)
	return c
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

// certificates tell when the certificates of webhooks end.
type certificates struct {
	expiry *prometheus.Desc
	mu     sync.Mutex
	of     map[string]getCertificate
}

// getCertificate is for tls.Config.GetCertificate.
type getCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// watchCertificate has the metric tell about a webhook.
func (c *certificates) watchCertificate(webhook string, get getCertificate) getCertificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]getCertificate{}
	}
	c.of[webhook] = get
	return get
}

// Describe implements prometheus.Collector.
func (c *certificates) Describe(to chan<- *prometheus.Desc) { to <- c.expiry }

// Collect implements prometheus.Collector. A webhook without a certificate has no value.
func (c *certificates) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	of := maps.Clone(c.of)
	c.mu.Unlock()
	for webhook, get := range of {
		if end := expiryOf(get); !end.IsZero() {
			to <- prometheus.MustNewConstMetric(c.expiry, prometheus.GaugeValue, float64(end.Unix()), webhook)
		}
	}
}

func expiryOf(get getCertificate) time.Time {
	pair, err := get(nil)
	if err != nil {
		return time.Time{}
	}
	cert := pair.Leaf
	if cert == nil {
		if cert, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return time.Time{}
		}
	}
	return cert.NotAfter
}
