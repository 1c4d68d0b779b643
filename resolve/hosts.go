package resolve

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Hosts are compared as texts, so each has one spelling: names in lower case, addresses without brackets, IPv4 in IPv6 form as IPv4. A
// list with an entry that no host can have is an error, because a restriction that never matches restricts nothing.

// Hosts is a list of hosts, as keys of a configuration and annotations of Secrets name them.
type Hosts []string

// ParseHosts reads a list of HOST, HOST:PORT and *.DOMAIN, separated by commas or white space. *.DOMAIN stands for all hosts below
// the domain. Capitals and a dot at the end of a name do not matter. The error names the first entry that can match no host, such
// as one with a scheme, a path or a user.
func ParseHosts(list string) (Hosts, error) {
	var out Hosts
	for _, entry := range SplitList(list) {
		host, port := entry, ""
		if h, p, err := net.SplitHostPort(entry); err == nil && !strings.Contains(entry, "/") { // otherwise HostName says what is wrong
			n, err := strconv.ParseUint(p, 10, 16)
			if err != nil || n == 0 {
				return nil, fmt.Errorf("%s: %s is no port", quoteShort(entry), quoteShort(p))
			}
			host, port = h, ":"+strconv.FormatUint(n, 10)
		}
		name, below := strings.CutPrefix(host, "*.")
		name, err := HostName(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", quoteShort(entry), err)
		}
		if below {
			name = "*." + name
		}
		out = append(out, name+port)
	}
	if len(out) == 0 {
		return nil, errors.New("it names no host")
	}
	return out, nil
}

// Has reports whether the list has a host by one of its names: HOST, and HOST:PORT, in lower case.
func (h Hosts) Has(names ...string) bool {
	return slices.ContainsFunc(h, func(entry string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			domain, below := strings.CutPrefix(entry, "*")
			return name == entry || below && strings.HasSuffix(name, domain) && len(name) > len(domain)
		})
	})
}

var hostName = regexp.MustCompile(`\A[a-z0-9_]([-a-z0-9_.]*[a-z0-9_])?\z`)

// numeric matches what old clients read as an IPv4 address. No name ends like this.
var numeric = regexp.MustCompile(`(\A|\.)[0-9]+\z`)

// HostName returns the name of a host, or an IP address, as requests have it: in lower case, without a dot at the end, without the
// brackets of an IPv6 address, and an IPv4 address in IPv6 form as IPv4. The error says why no host has that name.
func HostName(s string) (string, error) {
	name := strings.TrimSuffix(strings.ToLower(s), ".")
	if ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")); err == nil {
		return ip.Unmap().String(), nil
	}
	if strings.ContainsFunc(name, func(c rune) bool { return c >= 0x80 }) {
		return "", errors.New("it has other letters than ASCII; write its xn-- form")
	}
	if !hostName.MatchString(name) || numeric.MatchString(name) {
		return "", errors.New("it is no host; write only its name, without scheme, user and path")
	}
	return name, nil
}

// SplitList splits a list whose entries are separated by commas or white space.
func SplitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' })
}
