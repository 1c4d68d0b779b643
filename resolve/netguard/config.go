package netguard

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/net/http/httpproxy"
	"k8s.io/utils/ptr"

	"sluice.dev/resolve"
)

// Operators configure a guard by keys of each resolver's ConfigMap. Equal configurations share a guard, and so its connections; a
// change makes a new one, and the old one goes when eight others were used after it.

// Keys of a resolver's ConfigMap that [Keys] declares.
const (
	KeyAllowed    = "allowed-addresses"
	KeyPrivate    = "allow-private-addresses"
	KeyChosen     = "allow-private-requested-addresses"
	KeyCAs        = "ca-bundle"
	KeyHTTPProxy  = "http-proxy"
	KeyHTTPSProxy = "https-proxy"
	KeyNoProxy    = "no-proxy"
)

// Keys declares the keys by which an operator configures a guard; private is the default of [KeyPrivate]. If chosen is true,
// [KeyChosen] is one of them. It is for resolvers whose requesters can replace the operator's address.
func Keys(private, chosen bool) []resolve.Key {
	keys := []resolve.Key{
		{
			Name:  KeyAllowed,
			Check: func(v string) error { _, err := parseAllow(resolve.SplitList(v)); return err },
			Doc:   "Hosts, host:port, *.domain, addresses and ranges, separated by commas, that requests may go to although they are local or private.",
		},
		{
			Name: KeyPrivate, Default: strconv.FormatBool(private), Check: resolve.CheckBool, Wrong: resolve.Closes,
			Doc: "Whether requests may go to private addresses.",
		},
		{Name: KeyCAs, Check: checkCAs, Doc: "CA certificates in PEM that are trusted in addition to the system's."},
		{Name: KeyHTTPProxy, Check: checkProxy, Doc: "Proxy for http, in place of the environment's HTTP_PROXY."},
		{Name: KeyHTTPSProxy, Check: checkProxy, Doc: "Proxy for https, in place of the environment's HTTPS_PROXY."},
		{Name: KeyNoProxy, Doc: "Hosts and ranges that no proxy is used for, in place of the environment's NO_PROXY."},
	}
	if chosen {
		keys = append(keys, resolve.Key{
			Name: KeyChosen, Default: "false", Check: resolve.CheckBool, Doc: "Whether addresses that a request gives may be private.",
		})
	}
	return keys
}

// checkCAs accepts what a guard accepts, so that a wrong bundle is refused when it is configured.
func checkCAs(v string) error {
	if v == "" {
		return nil
	}
	_, err := New(Options{CAs: []byte(v)})
	return err
}

// checkProxy accepts the address of a proxy of a kind that net/http knows; empty stands for none.
func checkProxy(v string) error {
	if v == "" {
		return nil
	}
	u, err := url.Parse(v)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme) {
		return errors.New("want a URL such as http://proxy.example.com:3128")
	}
	return nil
}

// Pool makes guards from configurations and keeps the last ones, so that connections are reused. It is safe for concurrent use.
type Pool struct {
	base Options

	mu     sync.Mutex
	guards []pooled // the last used one last
}

type pooled struct {
	key   []string
	guard *Guard
}

// maxPooled bounds the configurations whose connections are kept.
const maxPooled = 8

// NewPool returns a pool. A configuration adds to Allow and CAs of base, and takes precedence over its Proxy; [KeyPrivate] adds to
// its AllowPrivate.
func NewPool(base Options) *Pool { return &Pool{base: base} }

// Identity identifies the rules of a configuration: two with the same identity have the same rules. A connection or a result from
// under one identity must not serve a request under another.
func Identity(c resolve.Config, chosen bool) []string {
	out := []string{strconv.FormatBool(chosen)}
	for _, k := range Keys(false, true) {
		out = append(out, c[k.Name])
	}
	return out
}

// Get returns the guard for a configuration that has [Keys]. chosen is true if a requester has replaced the operator's address.
// Then only [KeyChosen] decides about private ranges.
func (p *Pool) Get(c resolve.Config, chosen bool) (*Guard, error) {
	key := Identity(c, chosen)
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(p.guards, func(g pooled) bool { return slices.Equal(g.key, key) }); i >= 0 {
		g := p.guards[i]
		p.guards = append(slices.Delete(p.guards, i, i+1), g)
		return g.guard, nil
	}
	o := p.base
	o.Allow = append(slices.Clone(o.Allow), resolve.SplitList(c[KeyAllowed])...)
	o.AllowPrivate = o.AllowPrivate || c[KeyPrivate] == "true"
	if chosen {
		o.AllowPrivate = c[KeyChosen] == "true"
	}
	// A block of PEM begins on a line of its own.
	o.CAs = slices.Concat(o.CAs, []byte("\n"), []byte(c[KeyCAs]))
	if len(o.CAs) == 1 {
		o.CAs = nil
	}
	if c[KeyHTTPProxy]+c[KeyHTTPSProxy]+c[KeyNoProxy] != "" {
		proxy := ptr.Deref(o.Proxy, httpproxy.Config{})
		for _, s := range []struct {
			to   *string
			from string
		}{{&proxy.HTTPProxy, c[KeyHTTPProxy]}, {&proxy.HTTPSProxy, c[KeyHTTPSProxy]}, {&proxy.NoProxy, c[KeyNoProxy]}} {
			if s.from != "" {
				*s.to = s.from
			}
		}
		o.Proxy = &proxy
	}
	g, err := New(o)
	if err != nil {
		return nil, err
	}
	if len(p.guards) == maxPooled {
		p.guards[0].guard.CloseIdleConnections()
		p.guards = slices.Delete(p.guards, 0, 1)
	}
	p.guards = append(p.guards, pooled{key, g})
	return g, nil
}

// Close closes idle connections.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.guards {
		g.guard.CloseIdleConnections()
	}
}
