package refs

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/internal/sourceurl"
	"sluice.dev/requester"
)

// Pins are the commits and the digests that one run has seen: by repository and revision, and by image and tag. The first that the run
// sees counts. The zero value has none. [Collect] fills them, and [Rewrite] with the same Pins names what Collect has fetched. They
// are not safe for use by several goroutines.
type Pins struct{ seen map[pin]string }

// pin is a revision of a repository or a tag of an image.
type pin struct{ place, name string }

// addRevisions adds the commit or the digest of a resource. It reports whether the run has seen another one under one of its names.
func (p *Pins) addRevisions(o Origin) (moved bool) {
	if o.Source == nil {
		return false
	}
	if p.seen == nil {
		p.seen = map[pin]string{}
	}
	own := params(parametersOf(o.Ref))
	var value string
	var pins []pin
	switch resolution.Canonical(o.Ref.Resolver) {
	case "git":
		value = cmp.Or(o.Source.Digest["sha1"], o.Source.Digest["sha256"])
		names := append(strings.Fields(o.Annotations[resolution.AnnotationRevisions]), own.firstValue(gitRevision...))
		for _, place := range repositoriesOf(own, o.Source) {
			for _, name := range names {
				pins = append(pins, pin{place, fullRevision(name)})
			}
		}
	case "bundles":
		if digest := o.Source.Digest["sha256"]; digest != "" && o.Source.URI != "" {
			value = o.Source.URI + "@sha256:" + digest
		}
		pins = append(pins, imageOf(own))
	}
	pins = slices.DeleteFunc(pins, func(at pin) bool { return at.place == "" || at.name == value })
	if value == "" {
		return false
	}
	// All of these names mean the same.
	first := value
	if i := slices.IndexFunc(pins, func(at pin) bool { return p.seen[at] != "" }); i >= 0 {
		first = p.seen[pins[i]]
	}
	for _, at := range pins {
		p.seen[at] = cmp.Or(p.seen[at], first)
	}
	return first != value
}

// pinnedRef returns the reference with the commit or the digest that the run has seen for it.
func (p *Pins) pinnedRef(ref requester.Ref) (requester.Ref, bool) {
	own := params(parametersOf(ref))
	at, names := imageOf(own), image
	switch resolution.Canonical(ref.Resolver) {
	case "git":
		at, names = pin{repositoryOf(own), fullRevision(own.firstValue(gitRevision...))}, gitRevision
	case "bundles":
	default:
		return ref, false
	}
	value, ok := p.seen[at]
	if !ok {
		return ref, false
	}
	return requester.Ref{Resolver: ref.Resolver, URL: ref.URL, Params: own.withValue(value, names...)}, true
}

// fullRevision returns the full name of a ref where its short one can mean nothing else.
func fullRevision(name string) string {
	if strings.HasPrefix(name, "heads/") || strings.HasPrefix(name, "tags/") {
		return "refs/" + name
	}
	return name
}

// repositoriesOf returns the names of the repository of a resource: by its parameters, and by its source.
func repositoriesOf(own params, source *v1beta1.RefSource) []string {
	address, ok := strings.CutPrefix(source.URI, "git+")
	if !ok {
		return nil
	}
	return []string{repositoryOf(own), addressKey(address)}
}

// repositoryOf returns the same text for parameters with the same repository.
func repositoryOf(p params) string {
	if place := p.firstValue("url", "repository_url"); place != "" {
		return addressKey(place)
	}
	return fmt.Sprintf("%q", []string{p.firstValue("repo"), p.firstValue("org"), p.firstValue("serverURL"), p.firstValue("scmType"), p.firstValue("configKey")})
}

// addressKey returns host and path of a repository. It ignores the scheme with its port, the user, .git and the case of the host. It ignores
// the case of the path only at hosts that are known to do so: at others, two paths can be two repositories.
func addressKey(s string) string {
	host, file, scp := strings.Cut(s, ":")
	if u, err := url.Parse(s); err == nil && u.Host != "" {
		host, file = u.Host, u.Path
		if u.Port() == map[string]string{"https": "443", "http": "80", "ssh": "22", "git": "9418"}[u.Scheme] {
			host = strings.TrimSuffix(host, ":"+u.Port())
		}
	} else if !scp || strings.Contains(host, "/") {
		host, file = "", s
	}
	host, file = hostKey(host[strings.LastIndex(host, "@")+1:]), strings.TrimSuffix(strings.Trim(file, "/"), ".git")
	name, _, _ := strings.Cut(host, ":")
	if server := sourceurl.ServerOf(name); server != name {
		host = server
	}
	if sourceurl.IgnoresCase(host) {
		file = strings.TrimSuffix(strings.ToLower(file), ".git")
	}
	return host + "/" + file
}

// hostKey returns one spelling of a host and its port: names in lower case without a dot at their end, and IPv4 addresses in IPv6 form as IPv4.
func hostKey(s string) string {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = strings.Trim(s, "[]"), ""
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	return strings.TrimSuffix(host+":"+port, ":")
}

// imageOf returns the image and the tag of parameters, in one spelling for all; a zero value if they name no tag.
func imageOf(p params) pin {
	text := strings.TrimPrefix(p.firstValue(image...), "docker://")
	if host, file, ok := strings.Cut(text, "/"); ok && strings.ContainsAny(host, ".:") {
		text = strings.ToLower(host) + "/" + file
	}
	// The library knows which names are those of Docker Hub, but for this one.
	if file, ok := strings.CutPrefix(text, "registry-1.docker.io/"); ok {
		text = "index.docker.io/" + file
	}
	tag, err := name.NewTag(text)
	if err != nil {
		return pin{}
	}
	return pin{tag.Context().Name(), tag.TagStr()}
}
