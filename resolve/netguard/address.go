package netguard

import (
	"net/netip"
	"strings"
)

// The table has what the registries of IANA call not globally reachable, and the addresses of metadata services, which give
// credentials to whoever asks from the right machine. The first row that matches decides, so that these come first.

// class is the class of an address, for messages; empty for a public address.
type class string

const (
	public      class = ""
	private     class = "a private address"
	loopback    class = "a loopback address"
	linkLocal   class = "a link-local address"
	metadata    class = "the address of a cloud's metadata service"
	multicast   class = "a multicast address"
	unspecified class = "an unspecified address"
	reserved    class = "a reserved address"
)

// row is a range and its class. The first match decides.
type row struct {
	prefix netip.Prefix
	class  class
}

// rows follow the IANA special-purpose registries (RFC 6890) and the documentation of the clouds.
var rows = func() []row {
	var out []row
	for _, r := range []struct {
		class    class
		prefixes string
	}{
		// AWS, Azure, GCP and most others; ECS tasks; Alibaba; Azure's wire server; Oracle; the IPv6 forms of AWS and GCP.
		{metadata, "169.254.169.254/32 169.254.170.2/32 169.254.170.23/32 100.100.100.200/32 168.63.129.16/32 192.0.0.192/32 " +
			"fd00:ec2::254/128 fd00:ec2::23/128 fd20:ce::254/128"},
		{loopback, "127.0.0.0/8 ::1/128"},
		{unspecified, "0.0.0.0/8 ::/128"},
		{linkLocal, "169.254.0.0/16 fe80::/10"},
		{multicast, "224.0.0.0/4 ff00::/8"},
		{private, "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 198.18.0.0/15 fc00::/7 fec0::/10 64:ff9b:1::/48"},
		{reserved, "192.0.0.0/24 192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 192.88.99.0/24 240.0.0.0/4 100::/64 2001:db8::/32 3fff::/20 5f00::/16"},
	} {
		for s := range strings.FieldsSeq(r.prefixes) {
			out = append(out, row{netip.MustParsePrefix(s), r.class})
		}
	}
	return out
}()

// Prefixes of IPv6 addresses that carry an IPv4 address.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	teredo     = netip.MustParsePrefix("2001::/32")
	compatible = netip.MustParsePrefix("::/96")
)

// classifyAddr returns the class of an address. If an IPv6 address contains an IPv4 address, the worse class counts, because a gateway
// may deliver to the latter.
func classifyAddr(ip netip.Addr) class {
	ip = ip.WithZone("").Unmap()
	for _, r := range rows {
		if r.prefix.Contains(ip) {
			return r.class
		}
	}
	if ip.Is4() {
		return public
	}
	for _, inner := range embeddedIPv4(ip) {
		if c := classifyAddr(inner); c != public {
			return c
		}
	}
	return public
}

// embeddedIPv4 lists the IPv4 addresses inside an IPv6 address.
func embeddedIPv4(ip netip.Addr) []netip.Addr {
	b := ip.As16()
	last := netip.AddrFrom4([4]byte(b[12:16]))
	switch {
	case nat64.Contains(ip), compatible.Contains(ip):
		return []netip.Addr{last}
	case sixToFour.Contains(ip):
		return []netip.Addr{netip.AddrFrom4([4]byte(b[2:6]))}
	case teredo.Contains(ip):
		// RFC 4380: the server, and the client with its bits turned over.
		return []netip.Addr{
			netip.AddrFrom4([4]byte(b[4:8])),
			netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}),
		}
	case b[8]&^0x03 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe:
		return []netip.Addr{last} // ISATAP, RFC 5214
	}
	return nil
}

// localName reports names of the machine itself and of metadata services, whatever DNS returns for them.
func localName(host string) class {
	switch host = strings.TrimSuffix(strings.ToLower(host), "."); {
	case host == "localhost", strings.HasSuffix(host, ".localhost"), host == "ip6-localhost", host == "ip6-loopback":
		return loopback
	case host == "metadata.google.internal", host == "metadata.goog", host == "instance-data", host == "instance-data.ec2.internal":
		return metadata
	}
	return public
}
