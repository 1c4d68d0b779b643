package resolve

// What makes the resolvers of a process? sluice serve runs those of its roles, sluice resolve one or a few, and
// remote sources of other commands all of them. Each gets a network with rules, a folder for mirrors, and maybe a
// store for large content. This file has what these callers share.

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	"golang.org/x/net/http/httpproxy"

	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/controller/resolution"
	"sluice.dev/internal/resolvers"
	"sluice.dev/requester/contentstore"
	"sluice.dev/resolve"
	"sluice.dev/resolve/netguard"
	"sluice.dev/resolve/verify"
)

// MakeOf returns the function that makes the resolvers of the entries. free releases what was made, the last
// first; it is returned with an error as well, for what was made before.
func MakeOf(entries []resolvers.Entry, lent resolvers.Env) resolution.Make {
	return func(ctx context.Context, policies func() *verify.Policies) (list []resolve.Resolver, free func() error, err error) {
		lent.Policies = policies
		free = func() error { return resolve.CloseAll(list) }
		for _, entry := range entries {
			resolver, err := entry.New(ctx, lent)
			if err != nil {
				return list, free, fmt.Errorf("resolver %s: %w", entry.Name, err)
			}
			list = append(list, resolver)
		}
		return list, free, nil
	}
}

// FlagsOf has the keys that switch the resolvers of the entries off, by the name of the resolver.
func FlagsOf(entries []resolvers.Entry) map[string]string {
	out := map[string]string{}
	for _, e := range entries {
		if e.Flag != "" {
			out[e.Name] = e.Flag
		}
	}
	return out
}

// Network returns the network rules that a process adds to those in the configuration of its resolvers. Variables
// in lower case count too, as for curl.
func Network(e *command.Env, clock resolve.Clock) netguard.Options {
	lookup := func(name string) string {
		if v := e.Getenv(name); v != "" {
			return v
		}
		return e.Getenv(strings.ToLower(name))
	}
	o := netguard.Options{Clock: clock}
	proxy := httpproxy.Config{HTTPProxy: lookup("HTTP_PROXY"), HTTPSProxy: lookup("HTTPS_PROXY"), NoProxy: lookup("NO_PROXY")}
	if proxy.HTTPProxy != "" || proxy.HTTPSProxy != "" {
		o.Proxy = &proxy
	}
	return o
}

// CacheFolder returns the folder of the cache, and a function that removes it if it is a temporary one.
func CacheFolder(named string) (string, func() error, error) {
	if named != "" {
		return named, func() error { return nil }, nil
	}
	dir, err := os.MkdirTemp("", "sluice-")
	return dir, sync.OnceValue(func() error { return os.RemoveAll(dir) }), err
}

// Roots reads NAME=PATH, or PATH for the directory that is meant where a request names none. The directories have
// to exist. A name that is given twice is an error.
func Roots(dirs []string) (map[string]string, error) {
	out := map[string]string{}
	for _, d := range dirs {
		name, path, named := strings.Cut(d, "=")
		if !named {
			name, path = "default", d
		}
		if name == "" || path == "" {
			return nil, fmt.Errorf("--dir %q: want PATH or NAME=PATH", d)
		}
		if out[name] != "" {
			return nil, fmt.Errorf("--dir: the directory %q is given twice", name)
		}
		if info, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("--dir: %w", err)
		} else if !info.IsDir() {
			return nil, fmt.Errorf("--dir: %s is no directory", path)
		}
		out[name] = path
	}
	return out, nil
}

// StoreFlags name the store for content that is too large for a request.
type StoreFlags struct {
	Store, storeCredentials string
	StorePlainHTTP          bool
}

// AddStore adds the flags. The doc is that of --store.
func (f *StoreFlags) AddStore(fs *pflag.FlagSet, doc string) {
	fs.StringVar(&f.Store, "store", "", doc)
	fs.StringVar(&f.storeCredentials, "store-credentials", "", "file with credentials for --store: config.json of Docker, or the Secret key .dockerconfigjson as a file")
	fs.BoolVar(&f.StorePlainHTTP, "store-plain-http", false, "use the registry of --store without TLS if it has none")
}

// Open returns the store; it does not contact it. Call it only if Store is not empty.
func (f *StoreFlags) Open() (*contentstore.Store, error) {
	o := contentstore.Options{PlainHTTP: f.StorePlainHTTP}
	if f.storeCredentials != "" {
		text, err := command.ReadFileBounded(f.storeCredentials)
		if err != nil {
			return nil, fmt.Errorf("--store-credentials: %w", err)
		}
		if o.Credentials, err = contentstore.ParseCredentials(text); err != nil {
			return nil, fmt.Errorf("--store-credentials %s: %w", f.storeCredentials, err)
		}
	}
	s, err := contentstore.New(f.Store, o)
	if err != nil {
		return nil, fmt.Errorf("--store: %w", err)
	}
	return s, nil
}
