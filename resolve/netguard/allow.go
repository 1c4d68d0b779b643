package netguard

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"sluice.dev/resolve"
)

// Names and addresses are two lists in one: a name in it opens what the name resolves to, but for the most dangerous classes
// ([Options.Allow]); an address or a range opens exactly that.

// allowed is one entry of the operator's allow list.
type allowed struct {
	host   string       // a name, lower case; "*.suffix" for all below
	prefix netip.Prefix // valid for addresses and ranges
	port   uint16       // 0 for all
}

// allowList is the operator's allow list.
type allowList []allowed

// parseAllow reads entries: HOST, HOST:PORT, *.DOMAIN, *.DOMAIN:PORT, IP, IP:PORT, [IPv6]:PORT, CIDR.
func parseAllow(entries []string) (allowList, error) {
	var out allowList
	for _, e := range entries {
		a, err := parseEntry(strings.ToLower(strings.TrimSpace(e)))
		if err != nil {
			return nil, fmt.Errorf("allowed address %.80q: %w", e, err)
		}
		out = append(out, a)
	}
	return out, nil
}

// parseEntry reads one entry in lower case. An address is a range of one. The error names what is allowed: an entry that never matches
// would leave its author in the dark.
func parseEntry(e string) (allowed, error) {
	if p, err := netip.ParsePrefix(e); err == nil {
		if p != p.Masked() {
			return allowed{}, fmt.Errorf("the range begins at %s", p.Masked())
		}
		return allowed{prefix: p}, nil
	}
	var port uint16
	host := e
	if ip, err := netip.ParseAddr(strings.Trim(e, "[]")); err == nil {
		return addressEntry(ip, 0), nil
	}
	if h, p, err := net.SplitHostPort(e); err == nil && !strings.Contains(e, "/") { // otherwise HostName says what is wrong
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return allowed{}, fmt.Errorf("%q is no port", p)
		}
		host, port = h, uint16(n)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return addressEntry(ip, port), nil
	}
	if _, err := resolve.HostName(strings.TrimPrefix(host, "*.")); err != nil {
		return allowed{}, fmt.Errorf("%w; want a host, a host:port, *.domain, an address or a range such as 10.0.0.0/8", err)
	}
	return allowed{host: strings.TrimSuffix(host, "."), port: port}, nil
}

func addressEntry(ip netip.Addr, port uint16) allowed {
	ip = ip.WithZone("").Unmap()
	return allowed{prefix: netip.PrefixFrom(ip, ip.BitLen()), port: port}
}

// allowsAddress reports whether the list allows an address.
func (l allowList) allowsAddress(ip netip.Addr, port uint16) bool {
	ip = ip.WithZone("").Unmap()
	for _, a := range l {
		if a.prefix.IsValid() && a.prefix.Contains(ip) && (a.port == 0 || a.port == port) {
			return true
		}
	}
	return false
}

// allowsName reports whether the list allows a host by its name.
func (l allowList) allowsName(host string, port uint16) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	for _, a := range l {
		if a.host == "" || a.port != 0 && a.port != port {
			continue
		}
		if suffix, ok := strings.CutPrefix(a.host, "*"); ok && strings.HasSuffix(host, suffix) && len(host) > len(suffix) || a.host == host {
			return true
		}
	}
	return false
}
