package sourceurl

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	git := func(url, path, rev string) map[string]string {
		return map[string]string{"url": url, "pathInRepo": path, "revision": rev, "recursive": "true"}
	}
	for source, want := range map[string]struct {
		resolver string
		params   map[string]string
	}{
		"git+https://h.test/r.git//a/b?ref=v1": {"git", git("https://h.test/r.git", "a/b", "v1")},
		"git+http://h.test:80/r":               {"git", git("http://h.test:80/r", ".", "HEAD")},
		"git+ssh://git@h.test/r//x/":           {"git", git("ssh://git@h.test/r", "x", "HEAD")},
		"https://h.test/a.yaml?x=y":            {"http", map[string]string{"url": "https://h.test/a.yaml?x=y"}},
		"git+https://h.test/r?branch=x":        {},
		"git+https://h.test/r?ref=%":           {},
		"git+file:///r":                        {},
		"oci://h.test/r:v1":                    {"bundles", map[string]string{"bundle": "h.test/r:v1", "all": "true"}},
		"oci://":                               {},
		"https://":                             {},
		"file":                                 {},
		"":                                     {},
	} {
		resolver, params, err := Parse(source)
		if (err != nil) != (want.params == nil) {
			t.Errorf("%q: error %v", source, err)
			continue
		}
		if err != nil {
			continue
		}
		if diff := cmp.Diff(want.params, params); diff != "" || resolver != want.resolver {
			t.Errorf("%q: %s %s", source, resolver, diff)
		}
	}
}
