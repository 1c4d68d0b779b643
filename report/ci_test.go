package report

import (
	"encoding/xml"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type junitRead struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
	Skipped  int `xml:"skipped,attr"`
	Suites   []struct {
		Name     string `xml:"name,attr"`
		Tests    int    `xml:"tests,attr"`
		Failures int    `xml:"failures,attr"`
		Skipped  int    `xml:"skipped,attr"`
		Cases    []struct {
			Name    string `xml:"name,attr"`
			Class   string `xml:"classname,attr"`
			Failure *struct {
				Type    string `xml:"type,attr"`
				Message string `xml:"message,attr"`
				Text    string `xml:",chardata"`
			} `xml:"failure"`
			Skipped *struct{} `xml:"skipped"`
			Out     string    `xml:"system-out"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func readJUnit(t *testing.T, r *Report) junitRead {
	t.Helper()
	var got junitRead
	if err := xml.Unmarshal([]byte(printed(t, "junit", r, Options{})), &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestJUnitCountsAgreeWithItsCases(t *testing.T) {
	for name, r := range map[string]*Report{"realistic": realistic(), "hostile": hostile(), "safe": allSafe(), "empty": {}} {
		got := readJUnit(t, r)
		var all [3]int
		for _, s := range got.Suites {
			var n [3]int
			seen := make(map[string]bool)
			for _, c := range s.Cases {
				n[0]++
				if c.Failure != nil {
					n[1]++
				}
				if c.Skipped != nil {
					n[2]++
				}
				if seen[c.Name] {
					t.Errorf("%s: case %s twice", name, c.Name)
				}
				seen[c.Name] = true
			}
			if n != [3]int{s.Tests, s.Failures, s.Skipped} || n[0] == 0 {
				t.Errorf("%s: suite %s has %v", name, s.Name, n)
			}
			for i := range n {
				all[i] += n[i]
			}
		}
		if all != [3]int{got.Tests, got.Failures, got.Skipped} {
			t.Errorf("%s: %v in all", name, all)
		}
		if (got.Failures > 0) != (r.Failing() > 0) {
			t.Errorf("%s: %d failures of %d", name, got.Failures, r.Failing())
		}
	}
}

func TestJUnitTellsEachKindOfFinding(t *testing.T) {
	cases := make(map[string]string)
	for _, s := range readJUnit(t, realistic()).Suites {
		for _, c := range s.Cases {
			result := "passed"
			switch {
			case c.Failure != nil:
				result = "failed: " + c.Failure.Type
				if !strings.Contains(c.Failure.Text, "config/crd/widgets.yaml") {
					t.Errorf("%s does not say where: %s", c.Name, c.Failure.Text)
				}
			case c.Skipped != nil:
				result = "skipped"
			case c.Out != "":
				result = "passed, told"
			}
			cases[s.Name+" "+c.Name] = result
		}
	}
	want := map[string]string{
		"widgets.example.com property-removed":             "failed: data-lost",
		"widgets.example.com enum-value-removed":           "failed: objects-ratcheted",
		"widgets.example.com maximum-lowered":              "failed: objects-ratcheted",
		"widgets.example.com validation-added":             "failed: writers-refused",
		"widgets.example.com change-undecided (undecided)": "failed: undecided",
		"widgets.example.com enum-value-added (warning)":   "passed, told",
		"widgets.example.com column-removed (suppressed)":  "skipped",
		"gadgets.example.com default-added (warning)":      "passed, told",
	}
	for _, kind := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} {
		want["kind"+kind+".example.com upgrade is safe"] = "passed"
	}
	if diff := cmp.Diff(want, cases); diff != "" {
		t.Error(diff)
	}
}

// commands reads workflow commands as the runner does: properties up to the next "::", split at commas, then unescaped.
func commands(t *testing.T, out string) (all []map[string]string) {
	t.Helper()
	unescape := strings.NewReplacer("%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",", "%25", "%")
	form := regexp.MustCompile(`^::([a-z]+) (.*?)::(.*)$`)
	for line := range strings.Lines(out) {
		m := form.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			continue
		}
		c := map[string]string{"command": m[1], "message": unescape.Replace(m[3])}
		for pair := range strings.SplitSeq(m[2], ",") {
			key, value, ok := strings.Cut(pair, "=")
			if !ok {
				t.Errorf("property %q of %s", pair, line)
			}
			c[key] = unescape.Replace(value)
		}
		all = append(all, c)
	}
	return all
}

func TestGitHubReadsBackWhatWasMeant(t *testing.T) {
	r := &Report{CRDs: []CRD{{Name: "widgets.example.com", Findings: []Finding{{
		Rule: "a,b:c%2C", Level: DataLost, Outcome: Violation, Severity: Fail, Version: "v1", Path: ".spec.a",
		Message: "100%: a, b::c%0A", Position: &Position{File: "dir,1/a:b%25.yaml", Line: 7, Column: 3},
	}}}}}
	want := []map[string]string{{
		"command": "error", "file": "dir,1/a:b%25.yaml", "line": "7", "col": "3", "title": "a,b:c%2C",
		"message": "widgets.example.com v1 .spec.a: 100%: a, b::c%0A\n" + "data-lost hurts those who have stored objects: " + Levels()[slices.IndexFunc(Levels(), func(l LevelInfo) bool { return l.ID == DataLost })].Meaning + "\nsluice explain a,b:c%2C: what to do",
	}}
	if diff := cmp.Diff(want, commands(t, printed(t, "github", r, Options{}))); diff != "" {
		t.Error(diff)
	}
}

func TestGitHubShowsTheWorstAndSaysHowManyAreMissing(t *testing.T) {
	got := commands(t, printed(t, "github", huge(200), Options{}))
	n := make(map[string]int)
	var last map[string]string
	for _, c := range got {
		n[c["command"]]++
		if c["command"] == "error" {
			last = c
		}
	}
	if diff := cmp.Diff(map[string]int{"error": 10, "warning": 10}, n); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(last["message"], "more findings that GitHub has no room for") {
		t.Errorf("the last error is %v", last)
	}
	if !strings.Contains(got[0]["message"], string(RefusedByAPIServer)) {
		t.Errorf("the first one is %v", got[0])
	}
}

func TestMarkdownKeepsTextFromMeaningAnything(t *testing.T) {
	for _, x := range []struct{ in, want string }{
		{`value "legacy" removed, so (it) is gone: 3 + 4 = 7`, `value "legacy" removed, so (it) is gone: 3 + 4 = 7`},
		{"see .spec.a now", "see <code>.spec.a</code> now"},
		{"@everyone #12 a", "<code>&#64;everyone #12</code> a"},
		{"http://x www.x.org WWW.x.org", "<code>http&#58;//x www&#46;x.org WWW&#46;x.org</code>"},
		{"[a](b) ![c](d) `e` *f* __g__ ~~h~~", "<code>&#91;a&#93;(b) !&#91;c&#93;(d) &#96;e&#96; &#42;f&#42; &#95;&#95;g&#95;&#95; &#126;&#126;h&#126;&#126;</code>"},
		{"<b> & &amp;", "<code>&lt;b&gt; &amp; &amp;amp;</code>"},
		{"a | b", "a <code>&#124;</code> b"},
		{"Kubernetes 1.37.", "Kubernetes 1.37."},
		{":tada: /lgtm", "<code>:tada: /lgtm</code>"},
	} {
		if diff := cmp.Diff(x.want, mdText(x.in)); diff != "" {
			t.Errorf("%q: %s", x.in, diff)
		}
	}
}

func TestMarkdownCountsWhatIsLeftOut(t *testing.T) {
	got := printed(t, "markdown", huge(2000), Options{})
	m := regexp.MustCompile(`… and ([0-9,]+) more findings: `).FindStringSubmatch(got)
	if m == nil {
		t.Fatalf("nothing is said to be left out: %.2000s", got)
	}
	if !strings.Contains(got, "Details of ") {
		t.Error("missing details are not mentioned")
	}
	rows := strings.Count(got, "\n| ❌") + strings.Count(got, "\n| ⚠️")
	if rows == 0 || rows > markdownRows {
		t.Errorf("%d rows", rows)
	}
}
