package resolve

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/net/http/httpproxy"

	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/controller/resolution"
	"sluice.dev/internal/resolvers"
	"sluice.dev/resolve"
	"sluice.dev/resolve/netguard"
	"sluice.dev/resolve/verify"
)

// Resolvers are the resolvers of a process.
type Resolvers = resolution.Resolvers

// NewResolvers makes the resolvers of the entries.
func NewResolvers(ctx context.Context, entries []resolvers.Entry, lent resolvers.Env, o resolve.Options) (*Resolvers, error) {
	return resolution.NewResolvers(ctx, MakeOf(entries, lent), FlagsOf(entries), o)
}

// MakeOf returns the function that makes the resolvers of the entries.
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

// Network returns the network rules that a process adds to those in the configuration of its resolvers.
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

// Roots reads NAME=PATH, or PATH for the directory that is meant where a request names none. The directories have to exist.
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
