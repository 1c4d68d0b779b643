package netguard

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"sluice.dev/resolve"
)

// An HTTP client meets an address at four places: in the URL of the request, in each redirect, in what DNS returns, and behind a
// proxy. The first two are checked here before anything is sent, the third by the dialer (netguard.go), and of the fourth what can be
// known.

// maxRedirects bounds the redirects that a client follows.
const maxRedirects = 10

// Client returns an HTTP client that uses the guard's connections. It follows at most 10 redirects, and checks each like the first
// address. From the first redirect to another scheme, host or port on, it drops credentials, cookies and all other headers of the
// request except Accept and User-Agent. A body that makes no progress for the idle time-out fails. plain allows http in addition to https,
// for given addresses and for redirects.
func (g *Guard) Client(plain bool) *http.Client {
	return &http.Client{Transport: g.RoundTripper(plain), CheckRedirect: g.checkRedirect}
}

// RoundTripper is the part of [Guard.Client] without redirects, for callers with their own rules for these. It checks the URL and
// address of every request, and bounds the time that a body makes no progress.
func (g *Guard) RoundTripper(plain bool) http.RoundTripper {
	return &roundTripper{g: g, plain: plain}
}

// checkRedirect bounds redirects, and drops what was for the first server as soon as one leads elsewhere. Headers stay away even if a
// later redirect leads back, since net/http copies them from the first request.
func (g *Guard) checkRedirect(next *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return resolve.Errorf(resolve.ReasonFailed, "%s redirects more than %d times", Redact(via[0].URL), maxRedirects)
	}
	next.URL.User = nil
	away := !sameOrigin(via[0].URL, next.URL)
	for _, r := range via[1:] {
		away = away || !sameOrigin(via[0].URL, r.URL)
	}
	if away {
		for name := range next.Header {
			if name != "Accept" && name != "User-Agent" {
				next.Header.Del(name)
			}
		}
	}
	return nil
}

// sameOrigin reports whether two URLs have the same scheme, host and port. A port that cannot be read is not the same as any.
func sameOrigin(a, b *url.URL) bool {
	pa, errA := portOf(a)
	pb, errB := portOf(b)
	return errA == nil && errB == nil && a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && pa == pb
}

// headerBytes returns the approximate size of the header of an answer.
const headerBytes = 512

// roundTripper checks each request and bounds its answer.
type roundTripper struct {
	g     *Guard
	plain bool
}

// RoundTrip implements [http.RoundTripper].
func (t *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	via, err := t.checkURL(ctx, req.URL)
	if err != nil {
		cancel(nil)
		if req.Body != nil {
			_ = req.Body.Close()
		}
		if e, ok := errors.AsType[*resolve.Error](err); ok && req.Response != nil && e.Reason == resolve.ReasonInvalid {
			// The first address was correct.
			err = resolve.Errorf(resolve.ReasonForbidden, "the server redirects to an address that is not allowed: %w", e)
		}
		return nil, err
	}
	if via != "" {
		ctx = context.WithValue(ctx, proxyKey{}, via)
	}
	came := resolve.AwaitRemote(ctx)
	resp, err := t.g.transport.RoundTrip(req.WithContext(ctx))
	came(headerBytes)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	resp.Request = req
	resp.Body = newBody(ctx, resp.Body, t.g.opts.IdleTimeout, cancel, Redact(req.URL))
	return resp, nil
}

// checkURL checks a URL, and returns the host:port of its proxy, if any. With a proxy the dialer does not see the target, so check
// looks up its addresses. A name that only the proxy knows passes.
func (t *roundTripper) checkURL(ctx context.Context, u *url.URL) (string, error) {
	if err := t.g.CheckURL(u, t.plain); err != nil {
		return "", err
	}
	if t.g.proxy == nil {
		return "", nil
	}
	p, err := t.g.proxy(u)
	if err != nil {
		return "", resolve.Errorf(resolve.ReasonFailed, "the address of the proxy is no URL")
	}
	if p == nil {
		return "", nil
	}
	// CheckURL has judged an address. A name may stand for another one at the proxy than here, which nobody can know.
	if _, err := netip.ParseAddr(u.Hostname()); err != nil {
		port, err := portOf(u)
		if err != nil {
			return "", err
		}
		lookup, cancel := context.WithTimeout(ctx, t.g.opts.ConnectTimeout)
		ips, err := t.g.lookupHost(lookup, u.Hostname())
		cancel()
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if err == nil {
			for _, ip := range ips {
				if err := t.g.checkAddr(u.Hostname(), ip, port); err != nil {
					return "", err
				}
			}
		}
	}
	return proxyAddress(p), nil
}

func (g *Guard) lookupHost(ctx context.Context, host string) ([]netip.Addr, error) {
	r := cmp.Or(g.opts.Resolver, net.DefaultResolver)
	return r.LookupNetIP(ctx, "ip", host)
}

// proxyOf chooses the proxy of a request for the transport; nil for none.
func (g *Guard) proxyOf(req *http.Request) (*url.URL, error) {
	if g.proxy == nil {
		return nil, nil //nolint:nilnil // http.Transport.Proxy is specified so
	}
	return g.proxy(req.URL)
}

// proxyAddress is the address that the transport connects to for a proxy.
func proxyAddress(p *url.URL) string {
	port := p.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[p.Scheme]
	}
	return net.JoinHostPort(p.Hostname(), port)
}

// errIdle is the cause of the end of a request whose body makes no progress.
var errIdle = errors.New("the body stands still")

// body ends its request when nothing arrives for a while, and when it is closed.
type body struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // it is that of the request
	idle   time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
	place  string
}

// newBody wraps a body whose request ends with cancel. ctx is that of the request, so that its cause tells whether the time without
// bytes was up.
func newBody(ctx context.Context, rc io.ReadCloser, idle time.Duration, cancel context.CancelCauseFunc, place string) *body {
	b := &body{ReadCloser: rc, ctx: ctx, idle: idle, cancel: cancel, place: place}
	b.timer = time.AfterFunc(idle, func() { cancel(errIdle) })
	// The reader, not the server, spends the time between reads.
	b.timer.Stop()
	return b
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	b.timer.Reset(b.idle)
	came := resolve.AwaitRemote(b.ctx)
	n, err := b.ReadCloser.Read(p)
	came(n)
	b.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(b.ctx), errIdle) {
		return n, resolve.Transientf("%s sent nothing for %s in the middle of its answer", b.place, b.idle)
	}
	return n, err
}

// Close implements [io.Closer].
func (b *body) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
