// Package dnstest is a name server for tests.
package dnstest

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Resolver asks a server that has one A record for every name: the n-th question gets the n-th address, the last one again.
// Questions for other types get an answer without records, as for a host with IPv4 alone. The server ends
// with the test. For example, a name that is public for the first question and loopback for the second
// shows whether an address is checked when it is used.
func Resolver(t testing.TB, answers ...string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		asked := 0
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) == 0 {
				continue
			}
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				a := answers[min(asked, len(answers)-1)]
				asked++
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
				}}
			}
			if out, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(out, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}
