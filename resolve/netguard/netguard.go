// Package netguard is the access of resolvers to the network. Its dialer and HTTP client keep requesters from reaching forbidden
// addresses through a resolver, and bound what a server can do to the resolver.
//
// The dialer checks the address just before it connects, after DNS. So a name that resolves to a loopback address does not pass,
// nor one that resolves differently the second time. Redirects use the same dialer. The guard refuses loopback, link-local,
// metadata, multicast, unspecified and reserved addresses, in IPv4, IPv6 and in the IPv6 forms that contain an IPv4 address. It
// refuses private addresses unless the options allow them. An operator's list makes exceptions.
//
// The package does not decide which repositories or paths are allowed. It does not control a proxy, which looks up names itself.
// The guard looks them up as well, and refuses forbidden addresses that it finds.
package netguard

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"

	"sluice.dev/internal/brief"
	"sluice.dev/resolve"
)

// Options are the rules of a [Guard]. The zero value allows only public addresses, and uses no proxy and the system's CAs.
type Options struct {
	// AllowPrivate allows private ranges (RFC 1918, RFC 4193, RFC 6598).
	AllowPrivate bool
	// Allow lists exceptions: HOST, HOST:PORT, *.DOMAIN, IP, IP:PORT, CIDR. A name allows the private, loopback and reserved
	// addresses that it resolves to. Link-local, metadata, multicast and unspecified addresses need an entry with an address or a
	// range.
	Allow []string
	// Proxy selects the proxy of each request, as HTTP_PROXY, HTTPS_PROXY and NO_PROXY do; nil for none. The proxy itself is
	// trusted; the guard checks the target.
	Proxy *httpproxy.Config
	// CAs are certificates in PEM that are trusted in addition to the system's.
	CAs []byte
	// Resolver looks up names; nil for the system's.
	Resolver *net.Resolver
	// ConnectTimeout bounds a connection with its TLS handshake, HeaderTimeout the wait for the header of an answer,
	// IdleTimeout the wait for the next bytes of a body. 0 stands for 10 s, 30 s and 30 s.
	ConnectTimeout, HeaderTimeout, IdleTimeout time.Duration
	// Clock is for dates in Retry-After; nil ignores dates.
	Clock resolve.Clock
}

// Guard connects and fetches within its options. It is safe for concurrent use.
type Guard struct {
	opts      Options
	allow     allowList
	proxy     func(*url.URL) (*url.URL, error)
	dialer    *net.Dialer
	transport *http.Transport
}

// New returns a guard. The error names a bad entry in Allow, CAs without a certificate, or a bad proxy address.
func New(o Options) (*Guard, error) {
	allow, err := parseAllow(o.Allow)
	if err != nil {
		return nil, err
	}
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(o.CAs) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(o.CAs) {
			return nil, errors.New("the CA bundle has no certificate in PEM")
		}
		tlsConfig.RootCAs = pool
	}
	o.ConnectTimeout = cmp.Or(max(o.ConnectTimeout, 0), 10*time.Second)
	o.HeaderTimeout = cmp.Or(max(o.HeaderTimeout, 0), 30*time.Second)
	o.IdleTimeout = cmp.Or(max(o.IdleTimeout, 0), 30*time.Second)
	g := &Guard{opts: o, allow: allow}
	if o.Proxy != nil {
		for _, p := range []string{o.Proxy.HTTPProxy, o.Proxy.HTTPSProxy} {
			if _, err := url.Parse(p); err != nil {
				return nil, errors.New("the address of the proxy is no URL")
			}
		}
		g.proxy = o.Proxy.ProxyFunc()
	}
	g.dialer = &net.Dialer{Timeout: o.ConnectTimeout, KeepAlive: 30 * time.Second, Resolver: o.Resolver, ControlContext: g.controlDial}
	g.transport = &http.Transport{
		Proxy:                  g.proxyOf,
		DialContext:            g.DialContext,
		TLSClientConfig:        tlsConfig,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    o.ConnectTimeout,
		ResponseHeaderTimeout:  o.HeaderTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConns:           100,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        90 * time.Second,
	}
	return g, nil
}

// CloseIdleConnections closes idle connections.
func (g *Guard) CloseIdleConnections() { g.transport.CloseIdleConnections() }

// target is the host of a dial; control sees only addresses.
type target struct {
	host string
	port uint16
	// trusted: the proxy that the operator gave.
	trusted bool
}

type targetKey struct{}

// proxyKey marks a request that goes through a proxy, with that proxy's host:port as value.
type proxyKey struct{}

// DialContext connects as [net.Dialer.DialContext] does, to allowed addresses only. The error of a refusal contains a
// [*resolve.Error]. It suits SSH and other protocols as well.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, resolve.Errorf(resolve.ReasonInvalid, "%.20q is no port", portText)
	}
	t := target{host: host, port: uint16(port)}
	if via, ok := ctx.Value(proxyKey{}).(string); ok && via == address {
		t.trusted = true
	} else if err := g.checkName(host, t.port); err != nil {
		return nil, err
	}
	came := resolve.AwaitRemote(ctx)
	defer came(0)
	return g.dialer.DialContext(context.WithValue(ctx, targetKey{}, t), network, address)
}

// controlDial runs after DNS and before connect, for each address.
func (g *Guard) controlDial(ctx context.Context, network, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return resolve.Errorf(resolve.ReasonForbidden, "connections by %.20s are not allowed", network)
	}
	t, _ := ctx.Value(targetKey{}).(target)
	// The proxy may be at any address: the operator has named it.
	if t.trusted {
		return nil
	}
	return g.checkAddr(t.host, ap.Addr(), ap.Port())
}

// checkAddr checks an address of a host.
func (g *Guard) checkAddr(host string, ip netip.Addr, port uint16) error {
	c := classifyAddr(ip)
	if c == public || g.allow.allowsAddress(ip, port) {
		return nil
	}
	switch c {
	case private:
		if g.opts.AllowPrivate || g.allow.allowsName(host, port) {
			return nil
		}
	case loopback, reserved:
		if g.allow.allowsName(host, port) {
			return nil
		}
	case public, linkLocal, metadata, multicast, unspecified:
	}
	return refusalOf(host, c)
}

// checkName refuses names for local addresses, whatever DNS returns for them.
func (g *Guard) checkName(host string, port uint16) error {
	if c := localName(host); c != public && !g.allow.allowsName(host, port) {
		if c == loopback && g.allow.allowsAddress(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port) {
			return nil
		}
		return refusalOf(host, c)
	}
	return nil
}

// refusalOf does not reveal the address that a name resolves to: that would let requesters map the internal network.
func refusalOf(host string, c class) error {
	return resolve.Errorf(resolve.ReasonForbidden, "%.200s is %s, to which requests may not go; an operator can allow it by listing it in %s", host, c, KeyAllowed)
}

// CheckURL checks a URL before anything is sent: its scheme (http only if plain is true) and its host. It refuses a user name or
// password in it. It does not look up names: the dialer does.
func (g *Guard) CheckURL(u *url.URL, plain bool) error {
	if u.Scheme != "https" && (u.Scheme != "http" || !plain) {
		if u.Scheme == "http" {
			return resolve.Errorf(resolve.ReasonForbidden, "%s is plain http, which anybody on the way can change; use https", Redact(u))
		}
		return resolve.Errorf(resolve.ReasonInvalid, "the URL %.200s has the scheme %.20q, want https", Redact(u), u.Scheme)
	}
	if u.Hostname() == "" || u.Opaque != "" {
		return resolve.Errorf(resolve.ReasonInvalid, "the URL %.200s has no host", Redact(u))
	}
	port, err := portOf(u)
	if err != nil {
		return err
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		return g.checkAddr(u.Hostname(), ip, port)
	}
	return g.checkName(u.Hostname(), port)
}

// portOf returns the port of a URL, or that of its scheme.
func portOf(u *url.URL) (uint16, error) {
	switch p := u.Port(); {
	case p != "":
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return 0, resolve.Errorf(resolve.ReasonInvalid, "%.20q is no port", p)
		}
		return uint16(n), nil
	case u.Scheme == "http":
		return 80, nil
	default:
		return 443, nil
	}
}

// Redact returns a URL for messages: without user, password, query and fragment, and not longer than 200 bytes.
func Redact(u *url.URL) string {
	c := *u
	c.User, c.RawFragment, c.Fragment = nil, "", ""
	query := c.RawQuery != ""
	c.RawQuery, c.ForceQuery = "", false
	s := brief.Clip(c.String(), 200)
	if query {
		s += "?..."
	}
	return s
}
