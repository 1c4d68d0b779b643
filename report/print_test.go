package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

func TestUnknownFormatNamesThoseThatExist(t *testing.T) {
	var b bytes.Buffer
	err := Print(&b, "xml", &Report{}, Options{})
	if err == nil {
		t.Fatal("no error")
	}
	for _, p := range Printers() {
		if !strings.Contains(err.Error(), p.Name) {
			t.Errorf("%q does not name %s", err, p.Name)
		}
	}
	if b.Len() > 0 {
		t.Errorf("wrote %q", b.String())
	}
}

func TestPrintersAreDescribedAndUnique(t *testing.T) {
	seen := make(map[string]bool)
	for _, p := range Printers() {
		if p.Name == "" || p.Doc == "" || p.Print == nil || seen[p.Name] {
			t.Errorf("incomplete or twice: %+v", p)
		}
		seen[p.Name] = true
	}
}

type brokenWriter struct{}

var errBroken = errors.New("broken")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestErrorsOfTheWriterAreReturned(t *testing.T) {
	for _, p := range Printers() {
		if err := p.Print(brokenWriter{}, realistic(), Options{}); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", p.Name, err)
		}
		if err := p.Print(io.Discard, nil, Options{}); err == nil {
			t.Errorf("%s: no error without a report", p.Name)
		}
	}
}

func TestPrintingDoesNotChangeTheReport(t *testing.T) {
	for _, p := range Printers() {
		r := shuffled(realistic(), 1)
		before := shuffled(realistic(), 1)
		printed(t, p.Name, r, Options{Verbose: true})
		if diff := cmp.Diff(before, r); diff != "" {
			t.Errorf("%s: %s", p.Name, diff)
		}
	}
}

func TestTheOrderOfFindingsDoesNotMatter(t *testing.T) {
	twice := realistic()
	for _, f := range twice.CRDs[0].Findings {
		f.Position, f.Objects = nil, nil
		twice.CRDs[0].Findings = append(twice.CRDs[0].Findings, f)
	}
	large := huge(200)
	large.CRDs[0].Findings = large.CRDs[0].Findings[:700]
	for name, r := range map[string]*Report{"realistic": realistic(), "hostile": hostile(), "large": large, "twice": twice} {
		for _, p := range Printers() {
			for _, o := range []Options{{}, {Verbose: true, Color: true, Width: 80}} {
				want := printed(t, p.Name, r, o)
				for seed := range uint64(2) {
					if got := printed(t, p.Name, shuffled(r, seed), o); got != want {
						t.Fatalf("%s as %s, verbose %v: other bytes in another order", name, p.Name, o.Verbose)
					}
				}
			}
		}
	}
}

// forPeople are the formats that are short unless everything is asked for, with their bounds in bytes.
var forPeople = map[string]int{"text": 32 << 10, "junit": 96 << 10, "markdown": 60_000, "github": 64 << 10, "html": 2 << 20}

// bound returns how long a format may be, 0 for any length. For junit, it is that of one CRD, because each has its suite.
func bound(format string, r *Report) int {
	if format == "junit" {
		return forPeople[format] * len(r.CRDs)
	}
	return forPeople[format]
}

func TestOutputForPeopleIsBoundedWhateverTheInput(t *testing.T) {
	many, findings := &Report{Old: "a", New: "b"}, huge(1000).CRDs[0].Findings
	for i := range 1200 {
		c := CRD{Name: strings.Repeat("n", i%200) + string(rune('a'+i%26)), Verdict: Unsafe}
		if i%3 > 0 {
			c.Findings = findings[i : i+i%30]
		}
		many.CRDs = append(many.CRDs, c)
	}
	wide := realistic()
	for i := range wide.CRDs[0].Findings {
		f := &wide.CRDs[0].Findings[i]
		f.Message += strings.Repeat(" m", 100_000)
		f.Path += strings.Repeat(".p", 100_000)
		f.Rule += strings.Repeat("r", 100_000)
		f.Reason = strings.Repeat("because ", 100_000)
		f.Objects = &Objects{Checked: 1e9, Affected: 1e8, Examples: strings.Split(strings.Repeat("ns/name ", 100_000), " ")}
	}
	for name, r := range map[string]*Report{
		"5,000 findings with witnesses of 1 MB": huge(1 << 20), "1,200 CRDs": many, "long strings": wide, "hostile": hostile(),
	} {
		for _, p := range Printers() {
			bound := bound(p.Name, r)
			if bound == 0 {
				continue
			}
			for _, o := range []Options{{}, {Color: true, Width: 72}} {
				if got := printed(t, p.Name, r, o); len(got) > bound {
					t.Errorf("%s as %s: %d bytes", name, p.Name, len(got))
				}
			}
		}
	}
	if got := printed(t, "markdown", huge(1<<10), Options{Verbose: true}); len(got) > forPeople["markdown"] {
		t.Errorf("verbose markdown: %d bytes", len(got))
	}
}

func TestVerboseTextTellsEverything(t *testing.T) {
	r := realistic()
	got := printed(t, "text", r, Options{Verbose: true})
	for _, c := range r.CRDs {
		if !strings.Contains(got, c.Name) {
			t.Errorf("%s is missing", c.Name)
		}
		for _, f := range c.Findings {
			want := []string{f.Rule, f.Path, f.Message}
			if f.Suppressed != nil {
				want = append(want, f.Suppressed.Reason, f.Suppressed.Expires)
			}
			if f.Witness != nil {
				want = append(want, f.Witness.Effect)
				for line := range strings.Lines(f.Witness.Object) {
					want = append(want, strings.TrimSpace(line))
				}
			}
			for _, s := range want {
				if !strings.Contains(got, s) {
					t.Errorf("%q is missing", s)
				}
			}
		}
	}
	if strings.Contains(got, "…") {
		t.Error("something was shortened")
	}
}

func TestTextIsWrappedAtWordsAndIndented(t *testing.T) {
	got := printed(t, "text", realistic(), Options{Width: 72})
	for line := range strings.Lines(got) {
		line = strings.TrimSuffix(line, "\n")
		words := strings.Fields(line)
		if n := utf8.RuneCountInString(line); n > 72 && len(words) > 1 && utf8.RuneCountInString(words[len(words)-1]) < 60 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(printed(t, "text", realistic(), Options{})), " ") {
		t.Error("wrapping changed the words")
	}
}

func TestColorAddsNothingButEscapes(t *testing.T) {
	plain := printed(t, "text", hostile(), Options{Verbose: true})
	colored := printed(t, "text", hostile(), Options{Verbose: true, Color: true})
	if stripped := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(colored, ""); stripped != plain {
		t.Error("the text differs apart from colour")
	}
	if colored == plain {
		t.Error("no colour")
	}
}

func TestHostileTextIsNeutralisedInEveryFormat(t *testing.T) {
	for _, p := range Printers() {
		for _, o := range []Options{{}, {Verbose: true}, {Width: 50}} {
			checkOutput(t, p.Name, printed(t, p.Name, hostile(), o))
		}
	}
}

var (
	ourCommand     = regexp.MustCompile(`^::(error|warning|notice) [a-z]+=`)
	foreignCommand = regexp.MustCompile(`##[a-z]*\[`)
	ourTags        = map[string]*regexp.Regexp{
		"markdown": regexp.MustCompile(`^<(/?(details|summary|code|pre)|br|pre lang="yaml"|!-- sluice check --)>`),
		"html": regexp.MustCompile(`^<(/?(script|output|mark|del|ins|html|head|body|title|style|header|main|section|footer|h1|h2|h3|p|code|pre|b|ul|li|dl|dt|dd|div|span|` +
			`table|thead|tbody|tr|th|td|details|summary|fieldset|legend|label|svg|g|rect|text|a)|!DOCTYPE|meta|input|br)[ />]`),
	}
)

// checkOutput checks what holds for the output of every format, whatever is in the report.
func checkOutput(t *testing.T, format, out string) {
	t.Helper()
	if !utf8.ValidString(out) {
		t.Errorf("%s: no valid UTF-8", format)
	}
	for _, r := range out {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%s: holds %q", format, r)
			break
		}
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(strings.TrimLeft(line, " "), "::") && (format != "github" || !ourCommand.MatchString(line)) {
			t.Errorf("%s: a line begins like a command: %.100s", format, line)
		}
		if foreignCommand.MatchString(line) {
			t.Errorf("%s: a line holds a logging command: %.100s", format, line)
		}
	}
	switch format {
	case "json", "sarif":
		if !json.Valid([]byte(out)) {
			t.Errorf("%s: no valid JSON", format)
		}
	case "yaml":
		var v any
		if err := yaml.Unmarshal([]byte(out), &v); err != nil {
			t.Errorf("%s: %v", format, err)
		}
	case "junit":
		d := xml.NewDecoder(strings.NewReader(out))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Errorf("%s: %v", format, err)
				break
			}
		}
	case "html", "markdown":
		checkMarkup(t, format, out)
	}
}

// checkMarkup checks that every tag is one of ours.
func checkMarkup(t *testing.T, format, out string) {
	t.Helper()
	for i := strings.IndexByte(out, '<'); i >= 0; {
		if !ourTags[format].MatchString(out[i:]) {
			t.Errorf("%s: foreign markup: %.60q", format, out[i:])
			return
		}
		next := strings.IndexByte(out[i+1:], '<')
		if next < 0 {
			break
		}
		i += 1 + next
	}
	if format == "markdown" {
		for line := range strings.Lines(out) {
			if strings.HasPrefix(strings.TrimSpace(line), "/") {
				t.Errorf("a line begins with a slash: %.60s", line)
			}
		}
	}
}

func FuzzPrinters(f *testing.F) {
	for i, s := range evil {
		f.Add(s, evil[(i+1)%len(evil)], evil[(i+5)%len(evil)], uint(i*7), i%80)
	}
	f.Add("apiVersion: v1\nkind: A\n  - b: \"c\"\n", " leading\n\n trailing \n", "true", uint(3), 60)
	f.Fuzz(func(t *testing.T, a, b, c string, bits uint, width int) {
		r := fuzzed(a, b, c, bits)
		o := Options{Verbose: bits&1 > 0, Width: width, Root: b, Version: c, Rules: ruleDoc}
		for _, p := range Printers() {
			out := printed(t, p.Name, r, o)
			checkOutput(t, p.Name, out)
			if bound := bound(p.Name, r); bound > 0 && !o.Verbose && len(out) > bound {
				t.Errorf("%s: %d bytes", p.Name, len(out))
			}
		}
		checkRoundTrip(t, r)
	})
}

func fuzzed(a, b, c string, bits uint) *Report {
	pick := func(i uint) string { return []string{a, b, c, a + b, b + "\n" + c, ""}[(bits/7+i)%6] }
	r := &Report{
		Old: pick(0), New: pick(1), KubeVersion: pick(2), Mode: pick(3), FailMode: pick(4),
		CRDs: []CRD{}, Skipped: map[string]int{a: 1, b: int(bits % 1000)},
	}
	for i := range 1 + bits%4 {
		x := CRD{Name: pick(i), Verdict: []Verdict{Safe, Unsafe, IsUndecided, IsNew, IsRemoved, IsUnchanged, Verdict(c)}[(bits+i)%7]}
		for j := range bits % 9 {
			f := Finding{
				Rule: pick(j), Level: []Level{DataLost, Cosmetic, Level(a), ""}[(i+j)%4], CRD: x.Name,
				Outcome:  []Outcome{Violation, Undecided, Note, Outcome(b)}[(bits+j)%4],
				Severity: []Severity{Fail, Warn, Off, Severity(c)}[(bits/3+j)%4],
				Version:  pick(j + 1), Path: pick(j + 2), Message: pick(j + 3), Before: pick(j + 4), After: pick(j + 5), Reason: pick(j),
			}
			if j%2 == 0 {
				f.Witness = &Witness{Object: pick(j + 1), Old: pick(j + 2), Effect: pick(j + 3), Reversed: j%4 == 0}
				f.Position = &Position{File: pick(j + 4), Line: int(bits) - 5, Column: int(i)}
			}
			if j%3 == 0 {
				f.Objects = &Objects{Checked: int64(bits), Affected: int64(j), Examples: []string{a, b}}
				f.Suppressed = &Suppression{Reason: c, Expires: pick(j)}
			}
			x.Findings = append(x.Findings, f)
		}
		if i%2 == 1 {
			x.Objects = &ObjectScan{Version: a, Checked: int64(bits)}
		}
		r.CRDs = append(r.CRDs, x)
	}
	return r
}

// What people read says what changed, whom it hurts, the witness, and what to do, in this order.
func TestAFindingSaysThingsInOneOrder(t *testing.T) {
	r := &Report{CRDs: []CRD{{Name: "widgets.example.com", Verdict: Unsafe, Findings: []Finding{{
		Rule: "property-removed", Level: DataLost, Outcome: Violation, Severity: Fail, Version: "v1", Path: ".spec.mode", Message: "property mode is gone",
		Before: `{"type":"string"}`, Witness: &Witness{Object: "kind: Widget\n", Effect: "spec.mode is dropped"},
	}}}}}
	doc := func(id string) (RuleDoc, bool) {
		return RuleDoc{ID: id, Title: "A property is gone", Why: "It was used.", Help: "Leave it."}, true
	}
	for format, last := range map[string]string{"text": "sluice explain", "markdown": "sluice explain", "github": "sluice explain", "html": "Leave it."} {
		out := printed(t, format, r, Options{Rules: doc})
		if i := strings.Index(out, "<details"); i >= 0 { // the table before them is an overview
			out = out[i:]
		}
		at := 0
		order := []string{"property mode is gone", "string", "hurts those who have stored objects", "spec.mode is dropped", last}
		if format == "text" || format == "github" { // the heading of the level says who is hurt, once for all findings
			order = []string{"hurts those who have stored objects", "property mode is gone", "string", "spec.mode is dropped", "way out: Leave it", "path: .spec.mode", last}
		}
		for _, want := range order {
			i := strings.Index(out[at:], want)
			if i < 0 {
				t.Errorf("%s: no %q after what comes before it:\n%s", format, want, out)
				break
			}
			at += i + len(want)
		}
	}
}

// TestTextTellsACauseOnce has one change in three CRDs, one of which has worse besides. The worst comes first, the others refer to it.
func TestTextTellsACauseOnce(t *testing.T) {
	added := func(crd, path string) Finding {
		return Finding{
			Rule: "required-added", Level: ObjectsRatcheted, Outcome: Violation, Severity: Fail, CRD: crd, Version: "v1", Path: path,
			Message: `property "ip" became required`, Witness: &Witness{Object: "spec: {}\n", Effect: path + ": Required value"},
		}
	}
	stuck := Finding{Rule: "max-length-lowered", Level: ObjectsStuck, Outcome: Violation, Severity: Fail, CRD: "z", Version: "v1", Path: ".spec.a", Message: "lowered"}
	counted := added("c", ".spec.ip")
	counted.Objects = &Objects{Checked: 5, Affected: 2}
	r := &Report{Old: "a", New: "b", CRDs: []CRD{
		{Name: "a", Verdict: Unsafe, Findings: []Finding{added("a", ".spec.ip")}},
		{Name: "b", Verdict: Unsafe, Findings: []Finding{added("b", ".spec.ip"), {Rule: "x", Level: ObjectsRatcheted, Outcome: Violation, Severity: Fail, CRD: "b", Version: "v1", Path: ".spec.b", Message: "new"}}},
		{Name: "c", Verdict: Unsafe, Findings: []Finding{counted}},
		{Name: "z", Verdict: Unsafe, Findings: []Finding{added("z", ".spec.host.ip"), stuck}},
	}}
	r.Sort()
	text := func(o Options) string {
		var b bytes.Buffer
		if err := Print(&b, "text", r, o); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	short := text(Options{})
	at := -1
	for _, want := range []string{
		"FAIL  z  unsafe", "FAIL max-length-lowered", "FAIL required-added: property \"ip\" became required\n",
		"FAIL  a  unsafe: 1 fail; the same as in z\n\n",
		"FAIL  b  unsafe", "FAIL required-added: property \"ip\" became required, v1 .spec.ip (as in z)\n\n    FAIL x: new",
		"FAIL  c  unsafe", "FAIL required-added: property \"ip\" became required\n", "2 of 5",
		"next: sluice explain max-length-lowered",
	} {
		i := strings.Index(short[at+1:], want)
		if i < 0 {
			t.Fatalf("no %q behind byte %d in:\n%s", want, at, short)
		}
		at += 1 + i
	}
	if long := text(Options{Verbose: true}); strings.Contains(long, "as in z") || strings.Count(long, "Required value") != 4 {
		t.Errorf("-v leaves something out:\n%s", long)
	}
}

// TestTextSaysWhereACauseHasAnotherLevel has one change that leaves objects stuck in one CRD and ratcheted in another.
func TestTextSaysWhereACauseHasAnotherLevel(t *testing.T) {
	r := &Report{}
	for crd, level := range map[string]Level{"a": ObjectsRatcheted, "z": ObjectsStuck} {
		r.CRDs = append(r.CRDs, CRD{Name: crd, Verdict: Unsafe, Findings: []Finding{
			{Rule: "required-added", Level: level, Outcome: Violation, Severity: Fail, CRD: crd, Version: "v1", Path: ".spec.ip", Message: "ip became required"},
		}})
	}
	out := printed(t, "text", r, Options{})
	if want := "FAIL required-added: ip became required, v1 .spec.ip (as in z, where it is objects-stuck)\n"; !strings.Contains(out, want) {
		t.Errorf("no %q in:\n%s", want, out)
	}
}

// TestOneSuppressionCoversOneGroup has three groups of one rule: the pattern of one of them would cover the second, and not the third.
func TestOneSuppressionCoversOneGroup(t *testing.T) {
	finding := func(path, message string) Finding {
		return Finding{Rule: "maximum-lowered", Level: ObjectsRatcheted, Outcome: Violation, Severity: Fail, CRD: "a", Version: "v1", Path: path, Message: message}
	}
	r := &Report{CRDs: []CRD{{Name: "a", Verdict: Unsafe, Findings: []Finding{
		finding(".spec.x.a", "one"), finding(".spec.x.b", "one"), finding(".spec.x.c", "two"), finding(".spec.y.a", "three"), finding(".spec.y.b", "three"),
	}}}}
	short, long := printed(t, "text", r, Options{}), printed(t, "text", r, Options{Verbose: true})
	for path, inShort := range map[string]bool{".spec.x.c": true, ".spec.y**": true, ".spec.x.a": false, ".spec.x.b": false} {
		entry := "- {rule: maximum-lowered, crd: a, path: " + path + ", reason: WHY}\n"
		if strings.Contains(short, entry) != inShort || !strings.Contains(long, entry) {
			t.Errorf("%s in:\n%s\n-v:\n%s", path, short, long)
		}
	}
	if strings.Contains(short, ".spec.x**") {
		t.Errorf("a suppression covers two groups:\n%s", short)
	}
}
