package report

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
)

func TestHTMLNeedsNothingFromOutsideAndSaysSo(t *testing.T) {
	got := printed(t, "html", hostile(), Options{Rules: ruleDoc})
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(got)
	if style == nil {
		t.Fatal("no style")
	}
	hash := sha256.Sum256([]byte(style[1]))
	policy := regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(got)
	if policy == nil {
		t.Fatal("no policy")
	}
	script := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindStringSubmatch(got)
	if script == nil || script[1] != htmlScript {
		t.Fatal("the script is not the one that is embedded")
	}
	ofScript := sha256.Sum256([]byte(script[1]))
	want := "default-src &#39;none&#39;; style-src &#39;sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
		"&#39;; script-src &#39;sha256-" + base64.StdEncoding.EncodeToString(ofScript[:]) + "&#39;; base-uri &#39;none&#39;; form-action &#39;none&#39;"
	unified := strings.NewReplacer("'", "&#39;", "&#43;", "+", "&#x2b;", "+").Replace(policy[1])
	if unified != want {
		t.Errorf("policy\n%s\nwant\n%s", unified, want)
	}
	for _, m := range regexp.MustCompile(`(?:src|href|action|data|poster)="([^"]*)"`).FindAllStringSubmatch(got, -1) {
		if !regexp.MustCompile(`^#(crd|f|schema)-[0-9a-f-]+$`).MatchString(m[1]) {
			t.Errorf("a reference to %q", m[1])
		}
	}
	if regexp.MustCompile(`<[^>]* (on[a-z]+|style)=`).MatchString(got) {
		t.Error("an event handler or a style attribute")
	}
	if regexp.MustCompile(`url\(|@import`).MatchString(style[1]) {
		t.Error("the style loads something")
	}
}

func TestHTMLLinksLeadSomewhereOnce(t *testing.T) {
	got := printed(t, "html", realistic(), Options{})
	ids := make(map[string]int)
	for _, m := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(got, -1) {
		ids[m[1]]++
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("id %s %d times", id, n)
		}
	}
	for _, m := range regexp.MustCompile(`(?:href="#|aria-labelledby=")([^"]+)"`).FindAllStringSubmatch(got, -1) {
		if ids[m[1]] != 1 {
			t.Errorf("nothing has the id %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`#show-([a-z]+):not`).FindAllStringSubmatch(htmlStyle, -1) {
		if c := m[1]; !strings.Contains(htmlStyle, "#show-"+c+":not(:checked)) .finding."+c) {
			t.Errorf("the filter %s hides something else", c)
		}
	}
}

func TestHTMLShowsTheHarmOfEachCRD(t *testing.T) {
	got := printed(t, "html", realistic(), Options{})
	for _, want := range []string{
		`aria-label="1 data-lost, 31 objects-ratcheted, 1 writers-refused, 1 readers-surprised, 1 undecided"`,
		`aria-label="1 readers-surprised"`,
		"9 CRDs without anything to tell",
		"3 of 1,204 stored objects hold what is now refused",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if n := strings.Count(got, `<rect `); n != 2*(len(Levels())+1) {
		t.Errorf("%d cells", n)
	}
}

func TestHTMLColoursHaveContrast(t *testing.T) {
	schemes := strings.SplitN(htmlStyle, "prefers-color-scheme: dark", 2)
	colors := make(map[string]string)
	declared := regexp.MustCompile(`--([a-z0-9-]+): (#[0-9a-f]{3,6});`)
	for i, scheme := range schemes {
		block, _, _ := strings.Cut(scheme[strings.Index(scheme, ":root {"):], "}")
		for _, m := range declared.FindAllStringSubmatch(block, -1) {
			colors[m[1]] = m[2]
		}
		pairs := [][2]string{{"text", "bg"}, {"text", "card"}, {"text", "code"}, {"text", "fail-bg"}, {"minor", "bg"}, {"minor", "card"}, {"link", "bg"}, {"link", "card"}}
		for _, c := range []string{"fail", "warn", "ok", "note", "suppressed"} {
			pairs = append(pairs, [2]string{c, c + "-bg"}, [2]string{c, "card"})
		}
		colors["white"], colors["ink"] = "#fff", "#1b1400"
		for l := range len(Levels()) + 1 {
			on := "white"
			if l >= 4 && l <= 8 {
				on = "ink"
			}
			pairs = append(pairs, [2]string{on, fmt.Sprintf("l%d", l)})
		}
		for _, p := range pairs {
			// WCAG 2.2, success criterion 1.4.3: 4.5 to 1 for text.
			if c := contrast(t, colors[p[0]], colors[p[1]]); c < 4.5 {
				t.Errorf("scheme %d: %s on %s has a contrast of %.2f", i, p[0], p[1], c)
			}
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(t *testing.T, color string) float64 {
	t.Helper()
	if len(color) == 4 {
		color = "#" + strings.Repeat(color[1:2], 2) + strings.Repeat(color[2:3], 2) + strings.Repeat(color[3:4], 2)
	}
	var r, g, b uint8
	if _, err := fmt.Sscanf(color, "#%02x%02x%02x", &r, &g, &b); err != nil {
		t.Fatalf("colour %q: %v", color, err)
	}
	linear := func(c uint8) float64 {
		v := float64(c) / 255
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(r) + 0.7152*linear(g) + 0.0722*linear(b)
}
