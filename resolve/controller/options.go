package controller

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"sluice.dev/internal/controller/resolution"
)

// defaultNamespace is where Sluice runs by default.
const defaultNamespace = "sluice-system"

// Options are those of a process that runs resolvers. The zero value has the defaults of [Options.AddFlags].
type Options struct {
	// Kubeconfig is a kubeconfig file; empty stands for the cluster in which the process runs, or $KUBECONFIG.
	Kubeconfig string
	// Namespace is that of the process, for Leases and the schemas of parameters; empty stands for sluice-system. ConfigNamespace
	// has the ConfigMaps of resolvers; empty stands for sluice-system. DefaultsNamespace has the ConfigMap config-defaults, with
	// the time-out of all requests; empty stands for ConfigNamespace.
	Namespace, ConfigNamespace, DefaultsNamespace string
	// Account is the name of the process's ServiceAccount, for messages; empty stands for sluice-resolver-NAME. [Main] has its own
	// default for both: the namespace and the account NAME-resolver.
	Account string
	// ID names the process among its replicas, as a part of the name of an object; empty stands for $POD_NAME, or a random one.
	ID string
	// Listen is the address for health and metrics; empty stands for :8080.
	Listen string
	// Slots is the number of requests that are processed at once; 0 stands for 512. A namespace gets half of them, and fewer if
	// others have work.
	Slots int
	// MaxData is the limit of the content in a request, in bytes; 0 stands for 1 MiB less what the rest of a request needs.
	// Content over it is compressed or stored, if Compress or Store are set, up to MaxContent bytes; 0 stands for 4 MiB. Clients
	// have to support both.
	MaxData, MaxContent int
	Compress            bool
	Store               Store
	// Defaults are values for keys that the ConfigMap of a resolver does not set, by the name of the resolver and then by key.
	// ContentKinds is the default of the key content-kinds, for all resolvers.
	Defaults     map[string]map[string]string
	ContentKinds string
	// QPS bounds the calls to the API server, per second; 0 stands for 500.
	QPS float32
	// TraceEndpoint is host:port of a collector for OpenTelemetry traces over gRPC; empty for none. TraceRatio is the share of the
	// requests to trace, from 0 to 1; AddFlags sets 1.
	TraceEndpoint string
	TraceRatio    float64
	// Memory is the limit of the process, as 512Mi; empty stands for that of its container, or 512Mi.
	Memory string
	// LogLevel is debug, info, warn or error; empty stands for info. LogFormat is json or text; empty stands for json. Log is where
	// the log goes; nil stands for standard error.
	LogLevel, LogFormat string
	Log                 io.Writer
	// Debug serves profiles and the settings in force at Listen.
	Debug bool

	verbose bool
	// flags are those of the command line, for /flagz; nil: none.
	flags *pflag.FlagSet
}

// Store keeps content that does not fit into a request and returns a reference to it, for the field dataRef of its status. It may
// be called concurrently. Package requester/contentstore has one.
type Store interface {
	Put(ctx context.Context, data []byte) (ref string, err error)
}

// AddFlags adds the flags of sluice serve that every resolver has.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file; default: the cluster in which the process runs, or $KUBECONFIG")
	o.addNamespaces(flags)
	flags.StringVar(&o.Account, "service-account", o.Account, "name of this process's ServiceAccount, for messages; default: sluice-ROLE")
	flags.StringVar(&o.ID, "id", "", "name of this process among its replicas; default: $POD_NAME, or a random one")
	flags.StringVar(&o.Listen, "listen", ":8080", "address for health and metrics")
	flags.IntVar(&o.Slots, "slots", 0, "number of requests that are processed at once; default 512")
	flags.IntVar(&o.MaxData, "max-data", resolution.DefaultMaxData, "limit of the content in a request, in bytes")
	flags.BoolVar(&o.Compress, "compress", false, "compress content over --max-data; clients have to support it")
	flags.IntVar(&o.MaxContent, "max-content", resolution.DefaultMaxContent, "limit of content that is compressed or stored, in bytes")
	flags.StringVar(&o.ContentKinds, "content-kinds", "", "kinds that content can have, unless the resolver's ConfigMap sets them, for example *.tekton.dev; default: all")
	flags.Float32Var(&o.QPS, "qps", 500, "calls per second to the API server")
	flags.StringVar(&o.TraceEndpoint, "trace-endpoint", "", "host:port of a collector for OpenTelemetry traces over gRPC; default: no traces")
	flags.Float64Var(&o.TraceRatio, "trace-ratio", 1, "share of the requests to trace, from 0 to 1")
	flags.StringVar(&o.Memory, "memory", "", "memory limit of the process, for example 512Mi; default: the limit of its container, or 512Mi")
	flags.StringVar(&o.LogLevel, "log-level", "info", "lowest level of the lines in the log: debug (with a line for each request), info, warn or error")
	flags.StringVar(&o.LogFormat, "log-format", "json", "format of the log: json or text")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "the same as --log-level=debug")
	flags.BoolVar(&o.Debug, "debug", false, "serve profiles at /debug/pprof/, and the flags and settings in force at /flagz; anyone who reaches --listen can read them")
	o.flags = flags
}

// addNamespaces adds the flags that say where the process and its ConfigMaps are.
func (o *Options) addNamespaces(flags *pflag.FlagSet) {
	flags.StringVar(&o.Namespace, "namespace", cmp.Or(o.Namespace, defaultNamespace), "namespace of this process, for Leases")
	flags.StringVar(&o.ConfigNamespace, "config-namespace", defaultNamespace, "namespace of the ConfigMaps (tekton-pipelines-resolvers beside Tekton)")
	flags.StringVar(&o.DefaultsNamespace, "defaults-namespace", "", "namespace of the ConfigMap config-defaults (tekton-pipelines beside Tekton); default: --config-namespace")
}

// withDefaults returns the options with their defaults, but for Account and ID.
func (o Options) withDefaults() Options {
	o.Namespace, o.ConfigNamespace = cmp.Or(o.Namespace, defaultNamespace), cmp.Or(o.ConfigNamespace, defaultNamespace)
	o.DefaultsNamespace = cmp.Or(o.DefaultsNamespace, o.ConfigNamespace)
	o.Listen, o.QPS = cmp.Or(o.Listen, ":8080"), cmp.Or(o.QPS, 500)
	o.MaxData, o.MaxContent = cmp.Or(o.MaxData, resolution.DefaultMaxData), cmp.Or(o.MaxContent, resolution.DefaultMaxContent)
	if o.Log == nil {
		o.Log = os.Stderr
	}
	return o
}

// contentLimit is how many bytes content may have, wherever it is kept.
func (o *Options) contentLimit() int {
	if o.Compress || o.Store != nil {
		return max(o.MaxData, o.MaxContent)
	}
	return o.MaxData
}

var (
	logLevels  = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	logFormats = []string{"json", "text"}
)

// newLogger returns the log of the process. The libraries of Kubernetes write into the same log; their warnings have the level info.
func (o *Options) newLogger() (*slog.Logger, error) {
	level, ok := logLevels[cmp.Or(o.LogLevel, "info")]
	if !ok {
		return nil, fmt.Errorf("--log-level=%s: want debug, info, warn or error", o.LogLevel)
	}
	if o.verbose {
		level = slog.LevelDebug
	}
	format := cmp.Or(o.LogFormat, "json")
	if !slices.Contains(logFormats, format) {
		return nil, fmt.Errorf("--log-format=%s: want json or text", o.LogFormat)
	}
	var handler slog.Handler = slog.NewJSONHandler(o.Log, &slog.HandlerOptions{Level: level})
	if format == "text" {
		handler = slog.NewTextHandler(o.Log, &slog.HandlerOptions{Level: level})
	}
	log := slog.New(handler)
	klog.SetSlogLogger(log)
	return log, nil
}
