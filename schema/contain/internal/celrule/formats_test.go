package celrule

import (
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/strfmt"

	"sluice.dev/tools/draws"
)

// TestReadableFormats holds the patterns of what CEL can read of a format against the code that reads it, on texts that
// validation takes.
func TestReadableFormats(t *testing.T) {
	parts := map[string][]string{
		"date-time": {
			"2020-01-01", "0000-12-31", "2020-02-29", "T", "t", "00:00:00", "23:59:59", ".5", ",5", "x5", ".1234567890123", "55", "Z", "z",
			"+01:00", "-00:00", "+24:00", "+25:00", "+23:60", "+23:61", "+99:99", "t1", "\u212a",
		},
		"byte":     {"YWJj", "QQ==", "QR==", "+/+/", "-_-_", "A", "=", "\n", "QUI="},
		"date":     {"2020", "-", "01", "02", "31", "2020-02-29", "2021-02-29", "1", " ", "T"},
		"duration": {"1", "h", "m", " ", "day", "s", "-", "1.5", "ms", "w", "99999999999", "µs"},
	}
	read := map[string]func(string) error{
		"date-time": func(s string) error { _, err := strfmt.ParseDateTime(s); return err },
		"byte":      func(s string) error { var b strfmt.Base64; return b.UnmarshalText([]byte(s)) },
		"date":      func(s string) error { var d strfmt.Date; return d.UnmarshalText([]byte(s)) },
		"duration":  func(s string) error { _, err := strfmt.ParseDuration(s); return err },
	}
	g := &gen{Rand: rand.New(rand.NewPCG(1, 4))}
	for _, format := range slices.Sorted(maps.Keys(read)) {
		f := read[format]
		re := regexp.MustCompile(readable[format]) // none matches all
		valid, unread := 0, 0
		for range draws.Count(400_000) {
			var b strings.Builder
			for i := range 1 + g.IntN(6) {
				if format == "date-time" && i < 3 && g.chance(80) { // mostly in order
					b.WriteString(parts[format][[]int{0, 3, 5}[i]+g.IntN(2)])
					continue
				}
				b.WriteString(pick(g, parts[format]...))
			}
			s := b.String()
			if !strfmt.Default.Validates(format, s) {
				continue
			}
			valid++
			err := f(s)
			if err != nil {
				unread++
			}
			if re.MatchString(s) != (err == nil) {
				t.Errorf("%s %q: whether the pattern matches is %v, and reading it says %v", format, s, re.MatchString(s), err)
			}
		}
		t.Logf("%s: %d valid, %d of these cannot be read", format, valid, unread)
		if valid < 100 || readable[format] != "" && unread < 10 {
			t.Errorf("%s: only %d valid texts and %d that cannot be read: the test says little", format, valid, unread)
		}
	}
}
