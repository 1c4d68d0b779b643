package netguard_test

import (
	"compress/gzip"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http/httpproxy"

	"sluice.dev/resolve"
	"sluice.dev/resolve/netguard"
	"sluice.dev/tools/dnstest"
)

func guard(t *testing.T, o netguard.Options) *netguard.Guard {
	t.Helper()
	g, err := netguard.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.CloseIdleConnections)
	return g
}

func serve(t *testing.T, h http.HandlerFunc) (*httptest.Server, string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s, s.Listener.Addr().String()
}

func TestRefusedAddresses(t *testing.T) {
	refused := []string{
		"127.0.0.1", "127.8.8.8", "::1", "0.0.0.0", "0.1.2.3", "::", "169.254.169.254", "169.254.1.1", "fe80::1", "fd00:ec2::254", "100.100.100.200",
		"168.63.129.16", "224.0.0.1", "ff02::1", "255.255.255.255", "10.0.0.1", "172.31.0.1", "192.168.1.1", "100.64.0.1", "fc00::1",
		"::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1",
		"2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:c0a8:101::", "2001:0:808:808::80ff:fffe", "2001:db8::5efe:7f00:1", "fe80::5efe:808:808",
		"240.0.0.1", "fec0::1",
	}
	g := guard(t, netguard.Options{})
	for _, a := range refused {
		netip.MustParseAddr(a)
		conn, err := g.DialContext(t.Context(), "tcp", net.JoinHostPort(a, "80"))
		if err == nil {
			_ = conn.Close()
		}
		if e := netguard.Error(t.Context(), err, a); e.Reason != resolve.ReasonForbidden || e.Transient {
			t.Errorf("dialling %s: %v", a, err)
		}
		u := &url.URL{Scheme: "https", Host: net.JoinHostPort(a, "80")}
		if err := g.CheckURL(u, false); err == nil {
			t.Errorf("the URL %s passes", u)
		}
	}
	for _, a := range []string{"8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "2002:808:808::1", "1.1.1.1"} {
		if err := g.CheckURL(&url.URL{Scheme: "https", Host: net.JoinHostPort(a, "443")}, false); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
	private := guard(t, netguard.Options{AllowPrivate: true})
	for _, a := range refused {
		ip := netip.MustParseAddr(a).Unmap()
		err := private.CheckURL(&url.URL{Scheme: "https", Host: net.JoinHostPort(a, "443")}, false)
		if want := ip.IsPrivate() && a != "fd00:ec2::254"; want && err != nil {
			t.Errorf("%s is private and refused: %v", a, err)
		} else if ip.IsLoopback() && err == nil {
			t.Errorf("%s passes because private addresses do", a)
		}
	}
}

func TestNotationsOfLoopback(t *testing.T) {
	_, addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "inside") })
	_, port, _ := net.SplitHostPort(addr)
	g := guard(t, netguard.Options{})
	for _, host := range []string{"127.0.0.1", "localhost", "LOCALHOST.", "a.localhost", "[::1]", "[::ffff:127.0.0.1]", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "[::1%25lo]"} {
		if a, err := g.Get(t.Context(), netguard.Fetch{URL: "http://" + host + ":" + port + "/", Plain: true}); err == nil {
			t.Errorf("%s gives %q", host, a.Body)
		}
	}
}

func TestAllowList(t *testing.T) {
	_, addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	_, port, _ := net.SplitHostPort(addr)
	tests := []struct {
		allow string
		host  string
		want  bool
	}{
		{addr, "127.0.0.1", true},
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.0/8", "127.0.0.1", true},
		{addr, "localhost", true},
		{"localhost", "localhost", true},
		{"localhost:" + port, "localhost", true},
		{"localhost:1", "localhost", false},
		{"127.0.0.1:1", "127.0.0.1", false},
		{"10.0.0.0/8", "127.0.0.1", false},
		{"*.localhost", "localhost", false},
		{"example.com", "localhost", false},
	}
	for _, tt := range tests {
		g := guard(t, netguard.Options{Allow: []string{tt.allow}})
		_, err := g.Get(t.Context(), netguard.Fetch{URL: "http://" + tt.host + ":" + port, Plain: true})
		if (err == nil) != tt.want {
			t.Errorf("%s with %s allowed: %v", tt.host, tt.allow, err)
		}
	}
	for _, bad := range []string{"", "*", "http://x", "10.0.0.1/8", "x:0", "x:99999", "a b", "*.*.com"} {
		if _, err := netguard.New(netguard.Options{Allow: []string{bad}}); err == nil {
			t.Errorf("entry %q is taken", bad)
		}
	}
}

func TestDNSRebinding(t *testing.T) {
	var inside atomic.Int32
	_, addr := serve(t, func(http.ResponseWriter, *http.Request) { inside.Add(1) })
	_, port, _ := net.SplitHostPort(addr)
	for _, answers := range [][]string{{"127.0.0.1"}, {"192.0.2.1", "127.0.0.1"}, {"169.254.169.254"}} {
		g := guard(t, netguard.Options{Resolver: dnstest.Resolver(t, answers...)})
		for range 2 {
			if _, err := g.Get(t.Context(), netguard.Fetch{URL: "http://rebind.example.com:" + port, Plain: true}); err == nil || err.Reason != resolve.ReasonForbidden {
				t.Errorf("%v: %v", answers, err)
			} else if strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("the error tells the address: %v", err)
			}
		}
	}
	g := guard(t, netguard.Options{Resolver: dnstest.Resolver(t, "127.0.0.1"), Allow: []string{"rebind.example.com"}})
	if _, err := g.Get(t.Context(), netguard.Fetch{URL: "http://rebind.example.com:" + port, Plain: true}); err != nil || inside.Load() != 1 {
		t.Errorf("an allowed name: %v, %d requests", err, inside.Load())
	}
	// An allowed name never stands for the metadata service.
	g = guard(t, netguard.Options{Resolver: dnstest.Resolver(t, "169.254.169.254"), Allow: []string{"rebind.example.com"}})
	if _, err := g.Get(t.Context(), netguard.Fetch{URL: "http://rebind.example.com:" + port, Plain: true}); err == nil || err.Reason != resolve.ReasonForbidden {
		t.Errorf("an allowed name with the metadata address: %v", err)
	}
}

func TestRedirects(t *testing.T) {
	var leaked atomic.Value
	leaked.Store("")
	_, other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if back := r.URL.Query().Get("back"); back != "" {
			http.Redirect(w, r, back, http.StatusFound)
			return
		}
		leaked.Store(fmt.Sprint(r.Header["Authorization"], r.Header["Cookie"], r.Header["Private-Token"], r.Header["Referer"]))
		_, _ = io.WriteString(w, "other")
	})
	_, forbidden := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the forbidden server was asked") })
	_, start := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/same":
			http.Redirect(w, r, "/target", http.StatusFound)
		case "/target":
			_, _ = io.WriteString(w, r.Header.Get("Authorization"))
		case "/there-and-back":
			http.Redirect(w, r, "http://"+other+"/?back=http://"+r.Host+"/token", http.StatusFound)
		case "/token":
			_, _ = io.WriteString(w, "got "+r.Header.Get("Private-Token")+r.Header.Get("Authorization"))
		case "/other":
			http.Redirect(w, r, "http://"+other+"/?x=1", http.StatusTemporaryRedirect)
		case "/forbidden":
			http.Redirect(w, r, "http://"+forbidden, http.StatusFound)
		case "/metadata":
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		case "/file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		case "/no-port":
			http.Redirect(w, r, "https://example.com:99999/", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		}
	})
	g := guard(t, netguard.Options{Allow: []string{start, other}})
	header := http.Header{"Authorization": {"Bearer hunter2"}, "Cookie": {"hunter2"}, "Private-Token": {"hunter2"}}
	get := func(path string) (*netguard.Answer, *resolve.Error) {
		return g.Get(t.Context(), netguard.Fetch{URL: "http://" + start + path, Plain: true, Header: header})
	}
	if a, err := get("/same"); err != nil || string(a.Body) != "Bearer hunter2" {
		t.Errorf("a redirect to the same server: %v", err)
	}
	if a, err := get("/other"); err != nil || string(a.Body) != "other" || leaked.Load() != "[] [] [] []" {
		t.Errorf("a redirect to another port: %v, it got %v", err, leaked.Load())
	}
	for path, text := range map[string]string{"/file": "scheme", "/no-port": "port"} {
		// The address that was given is right: it is not a mistake of whoever has given it.
		if _, err := get(path); err == nil || err.Reason != resolve.ReasonForbidden || !strings.Contains(err.Msg, "redirect") || !strings.Contains(err.Msg, text) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if a, err := get("/there-and-back"); err != nil || string(a.Body) != "got " {
		t.Errorf("a redirect by way of another server: %v, %v", a, err)
	}
	for path, want := range map[string]resolve.Reason{
		"/forbidden": resolve.ReasonForbidden, "/metadata": resolve.ReasonForbidden, "/loop": resolve.ReasonFailed,
	} {
		if _, err := get(path); err == nil || err.Reason != want || err.Transient {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestNoDowngradeToPlainHTTP(t *testing.T) {
	_, plain := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the plain server was asked") })
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "http://"+plain, http.StatusFound) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	g := guard(t, netguard.Options{Allow: []string{"127.0.0.1"}, CAs: ca})
	if _, err := g.Get(t.Context(), netguard.Fetch{URL: s.URL}); err == nil || err.Reason != resolve.ReasonForbidden {
		t.Errorf("got %v", err)
	}
	strange := guard(t, netguard.Options{Allow: []string{"127.0.0.1"}})
	if _, err := strange.Get(t.Context(), netguard.Fetch{URL: s.URL}); err == nil || err.Transient || !strings.Contains(err.Msg, netguard.KeyCAs) {
		t.Errorf("an unknown CA: %v", err)
	}
	if _, err := g.Get(t.Context(), netguard.Fetch{URL: "https://" + plain}); err == nil || err.Transient {
		t.Errorf("TLS to a plain server: %v", err)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	_, addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/endless":
			for block := make([]byte, 1<<16); r.Context().Err() == nil; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		case "/announced":
			w.Header().Set("Content-Length", "9223372036854775807")
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for block := make([]byte, 1<<20); r.Context().Err() == nil; {
				if _, err := z.Write(block); err != nil {
					return
				}
			}
		case "/header":
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		}
	})
	g := guard(t, netguard.Options{Allow: []string{addr}})
	for path, want := range map[string]resolve.Reason{
		"/endless": resolve.ReasonTooLarge, "/announced": resolve.ReasonTooLarge, "/bomb": resolve.ReasonTooLarge, "/header": resolve.ReasonFailed,
	} {
		if _, err := g.Get(t.Context(), netguard.Fetch{URL: "http://" + addr + path, Plain: true, MaxBytes: 1000}); err == nil || err.Reason != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestHangingServers(t *testing.T) {
	_, addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			_, _ = io.WriteString(w, "some")
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	})
	g := guard(t, netguard.Options{Allow: []string{addr}, HeaderTimeout: 50 * time.Millisecond, IdleTimeout: 50 * time.Millisecond})
	for _, path := range []string{"/header", "/body"} {
		if _, err := g.Get(t.Context(), netguard.Fetch{URL: "http://" + addr + path, Plain: true}); err == nil || !err.Transient {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// clock stands still.
type clock struct{ resolve.Clock }

func (clock) Now() time.Time { return time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC) }

func TestStatuses(t *testing.T) {
	tests := []struct {
		status    int
		header    [2]string
		want      resolve.Reason
		transient bool
		after     time.Duration
	}{
		{404, [2]string{}, resolve.ReasonNotFound, false, 0},
		{410, [2]string{}, resolve.ReasonNotFound, false, 0},
		{401, [2]string{}, resolve.ReasonDenied, false, 0},
		{403, [2]string{}, resolve.ReasonDenied, false, 0},
		{403, [2]string{"Retry-After", "7"}, resolve.ReasonUnavailable, true, 7 * time.Second},
		{403, [2]string{"X-Ratelimit-Remaining", "0"}, resolve.ReasonUnavailable, true, 0},
		{429, [2]string{"Retry-After", "3"}, resolve.ReasonUnavailable, true, 3 * time.Second},
		{503, [2]string{"Retry-After", "Sat, 01 Aug 2026 12:01:00 GMT"}, resolve.ReasonUnavailable, true, time.Minute},
		{503, [2]string{"Retry-After", "Sat, 01 Aug 2020 12:01:00 GMT"}, resolve.ReasonUnavailable, true, 0},
		{503, [2]string{"Retry-After", "18446744073709551615"}, resolve.ReasonUnavailable, true, time.Hour},
		{503, [2]string{"Retry-After", "-5"}, resolve.ReasonUnavailable, true, 0},
		{500, [2]string{}, resolve.ReasonUnavailable, true, 0},
		{501, [2]string{}, resolve.ReasonFailed, false, 0},
		{418, [2]string{}, resolve.ReasonFailed, false, 0},
		{204, [2]string{}, resolve.ReasonFailed, false, 0},
		{304, [2]string{}, resolve.ReasonFailed, false, 0},
	}
	for _, tt := range tests {
		_, addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if tt.header[0] != "" {
				w.Header().Set(tt.header[0], tt.header[1])
			}
			w.WriteHeader(tt.status)
		})
		g := guard(t, netguard.Options{Allow: []string{addr}, Clock: clock{}})
		_, err := g.Get(t.Context(), netguard.Fetch{URL: "http://" + addr + "/a?token=hunter2", Plain: true})
		if err == nil || err.Reason != tt.want || err.Transient != tt.transient || err.RetryAfter != tt.after || strings.Contains(err.Msg, "hunter2") {
			t.Errorf("%d %v: %+v", tt.status, tt.header, err)
		}
	}
}

func TestBrokenConnectionsAreTransient(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing := l.Addr().String()
	_ = l.Close()
	_, addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conn, out, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		switch r.URL.Path {
		case "/short":
			_, _ = out.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
		case "/reset":
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
		case "/garbage":
			_, _ = out.WriteString("garbage\r\n\r\n")
		}
		_ = out.Flush()
		_ = conn.Close()
	})
	g := guard(t, netguard.Options{Allow: []string{"127.0.0.1"}})
	for at, transient := range map[string]bool{refusing: true, addr + "/close": true, addr + "/short": true, addr + "/reset": true, addr + "/garbage": false} {
		if _, err := g.Get(t.Context(), netguard.Fetch{URL: "http://" + at, Plain: true}); err == nil || err.Transient != transient {
			t.Errorf("%s: %+v", at, err)
		}
	}
}

func TestProxy(t *testing.T) {
	var asked atomic.Int32
	_, proxy := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, "by proxy "+r.URL.Host)
	})
	g := guard(t, netguard.Options{Proxy: &httpproxy.Config{HTTPProxy: "http://" + proxy}, Resolver: dnstest.Resolver(t, "8.8.8.8")})
	if a, err := g.Get(t.Context(), netguard.Fetch{URL: "http://example.com/", Plain: true}); err != nil || string(a.Body) != "by proxy example.com" {
		t.Errorf("got %v", err)
	}
	for _, target := range []string{"http://169.254.169.254/", "http://10.0.0.1/", "http://[::1]/", "http://localhost/", "http://" + proxy, "http://metadata.google.internal/"} {
		if _, err := g.Get(t.Context(), netguard.Fetch{URL: target, Plain: true}); err == nil || err.Reason != resolve.ReasonForbidden {
			t.Errorf("%s by proxy: %v", target, err)
		}
	}
	inside := guard(t, netguard.Options{Proxy: &httpproxy.Config{HTTPProxy: "http://" + proxy}, Resolver: dnstest.Resolver(t, "10.0.0.1")})
	if _, err := inside.Get(t.Context(), netguard.Fetch{URL: "http://example.com/", Plain: true}); err == nil || err.Reason != resolve.ReasonForbidden {
		t.Errorf("a name for a private address by proxy: %v", err)
	}
	if asked.Load() != 1 {
		t.Errorf("the proxy was asked %d times", asked.Load())
	}
}

func TestPoolKeepsGuards(t *testing.T) {
	p := netguard.NewPool(netguard.Options{AllowPrivate: true})
	u := &url.URL{Scheme: "https", Host: "10.0.0.1"}
	c := resolve.Config{}
	own, err := p.Get(c, false)
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := p.Get(c, true)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := p.Get(c, false)
	if own != again || own == chosen {
		t.Error("guards are not kept by configuration")
	}
	if own.CheckURL(u, false) != nil || chosen.CheckURL(u, false) == nil {
		t.Error("an address that a requester chose reaches private ranges")
	}
	loose, err := p.Get(resolve.Config{netguard.KeyChosen: "true"}, true)
	if err != nil || loose.CheckURL(u, false) != nil {
		t.Errorf("the operator cannot allow private addresses to requesters: %v", err)
	}
	listed, err := p.Get(resolve.Config{netguard.KeyAllowed: "10.0.0.0/8, example.com"}, true)
	if err != nil || listed.CheckURL(u, false) != nil {
		t.Errorf("a listed range is refused: %v", err)
	}
}

// A server that closes the connection just when a request begins is asked again; net/http does not export this error.
func TestAConnectionThatClosesAsARequestBegins(t *testing.T) {
	err := &url.Error{Op: "Get", URL: "https://example.com", Err: errors.New("http: server closed idle connection")}
	if e := netguard.Broken(err, "example.com"); e.Reason != resolve.ReasonUnavailable || !e.Transient {
		t.Errorf("%+v", e)
	}
}
