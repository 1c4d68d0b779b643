package contain

// Which formats does the API server check? For example, ipv4 is checked, and a format of a name that no library knows is not.

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/kube-openapi/pkg/validation/strfmt"

	"sluice.dev/schema"
	"sluice.dev/schema/upstream"
)

// formats lists the string formats that the API server checks, without hyphens. Each has the minor version of Kubernetes 1 whose
// library introduced it, and a few examples (k8s.io/apiextensions-apiserver/pkg/apiserver/validation/formats.go). An API server checks
// it from the next version on: see [upstream.LibraryVersion]. All other formats accept everything. Where these do not do, strings of
// the pattern long are tried: long ones, and one that is an address of both kinds.
var formats = map[string]struct {
	since   uint
	samples []string
	long    string
}{
	"bsonobjectid": {0, []string{"507f1f77bcf86cd799439011"}, ""},
	"uri":          {0, []string{"https://example.com/a", "http://a", "/a", "ftp://example.com/a?b=c#d"}, `^/a*$`},
	"email":        {0, []string{"a@example.com", "someone.else@example.org"}, `^[a-z]+@example[.]com$`},
	"hostname":     {0, []string{"example.com", "a", "localhost", "A-1.example.org"}, `^([a-z]{1,9}[.])*[a-z]{2,9}$`},
	"ipv4":         {0, []string{"10.0.0.1", "192.168.0.1", "0.0.0.0", "255.255.255.255"}, ""},
	"ipv6":         {0, []string{"::1", "2001:db8::1", "fe80::1"}, `^::ffff:10[.]0[.]0[.]1$`},
	"cidr":         {0, []string{"10.0.0.0/8", "2001:db8::/32", "10.0.0.1/32"}, ""},
	"mac":          {0, []string{"00:00:5e:00:53:01", "02:00:5e:10:00:00:00:01"}, ""},
	"uuid":         {0, []string{"f47ac10b-58cc-0372-8567-0e02b2c3d479", "F47AC10B58CC037285670E02B2C3D479"}, ""},
	"uuid3":        {0, []string{"6fa459ea-ee8a-3ca4-894e-db77e160355e"}, ""},
	"uuid4":        {0, []string{"f47ac10b-58cc-4372-a567-0e02b2c3d479"}, ""},
	"uuid5":        {0, []string{"886313e1-3b8a-5372-9b90-0c9aee199e5d"}, ""},
	"isbn":         {0, []string{"0321751043", "978-0321751041"}, ""},
	"isbn10":       {0, []string{"0321751043"}, ""},
	"isbn13":       {0, []string{"978-0321751041", "9780321751041"}, ""},
	"creditcard":   {0, []string{"4111111111111111"}, ""},
	"ssn":          {0, []string{"111-11-1111"}, ""},
	"hexcolor":     {0, []string{"#FFFFFF", "#fff", "abc"}, ""},
	"rgbcolor":     {0, []string{"rgb(1,2,3)", "rgb(255,255,255)"}, ""},
	"byte":         {0, []string{"YQ==", "", "YWJj", "aGVsbG8gd29ybGQ=", "+/+/"}, `^(YWJj)*$`},
	"password":     {0, nil, ""},
	"date":         {0, []string{"2006-01-02", "1999-12-31"}, ""},
	"duration":     {0, []string{"1h", "22ns", "3 days", "1s", "1m30s"}, `^0*1s$`},
	"datetime":     {0, []string{"2014-12-15T19:30:20.000Z", "2006-01-02T15:04:05Z", "2006-01-02T15:04:05+01:00", "2006-01-02t15:04:05z"}, `^2006-01-02T15:04:05[.]0+Z$`},
	"k8sshortname": {34, []string{"a", "example", "a-1"}, ""},
	"k8slongname":  {34, []string{"a", "example.com", "a-1.b"}, ""},
}

// shapes are patterns that every string of a format matches, and others as well: a proof that no string fits the patterns is one for the format
// (strfmt of k8s.io/kube-openapi, which uses net.ParseIP, net.ParseCIDR, net.ParseMAC and time.Parse).
var shapes = map[string]string{
	"ipv4":     `^[0-9a-fA-F:.]*[.][0-9a-fA-F:.]*$`,
	"ipv6":     `^[0-9a-fA-F:.]*:[0-9a-fA-F:.]*$`,
	"cidr":     `^[0-9a-fA-F:.]+/[0-9]+$`,
	"mac":      `^[0-9a-fA-F:.-]{12,59}$`,
	"uuid":     strfmt.UUIDPattern,
	"uuid3":    strfmt.UUID3Pattern,
	"uuid4":    strfmt.UUID4Pattern,
	"uuid5":    strfmt.UUID5Pattern,
	"date":     `^[0-9]{4}-[0-9]{2}-[0-9]{2}$`,
	"datetime": `^[0-9]{4}-[0-9]{2}-[0-9]{2}[tT][0-9]{2}:[0-9]{2}:`,
	"byte":     `^[A-Za-z0-9+/=]*$`,
}

// effectiveFormat returns the format of strings that is checked, without hyphens, or "".
func (t *translator) effectiveFormat(n *schema.Node) string {
	if n.Format == "" || !isStringFormat(n) {
		return ""
	}
	name := strings.ReplaceAll(n.Format, "-", "")
	f, ok := formats[name]
	if !ok || !upstream.LibraryVersion(t.opts.KubeVersion).AtLeast(version.MajorMinor(1, f.since)) {
		return ""
	}
	return name
}

// isStringFormat reports whether a format of n can be one of strings; elsewhere string formats are ignored.
func isStringFormat(n *schema.Node) bool {
	return n.IntOrString || n.Type == "" || n.Type == "string"
}

// matchFormat asks the same library as the API server.
func matchFormat(name, s string) bool {
	return strfmt.Default.Validates(name, s)
}

// letsListsThrough reports whether a list is accepted in place of a string here: if a format is checked, kube-openapi's typeValidator
// does not check the type of a list.
func (t *translator) letsListsThrough(p place) bool {
	return p.kind == declared && p.node.Type == "string" && t.effectiveFormat(p.node) != ""
}

// MatchFormat implements [logic.Checker].
func (l *library) MatchFormat(name, s string) bool { return matchFormat(name, s) }

// Samples implements [logic.Strings].
func (l *library) Samples(format string) []string { return formats[format].samples }

// Shape implements [logic.Strings].
func (l *library) Shape(format string) string { return shapes[format] }

// Long implements [logic.Strings].
func (l *library) Long(format string) string { return formats[format].long }
