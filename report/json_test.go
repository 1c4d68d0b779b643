package report

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"
)

func TestMachineFormatsHoldEverythingAndDecodeStrictly(t *testing.T) {
	for name, r := range map[string]*Report{
		"realistic": realistic(), "safe": allSafe(), "empty": {}, "hostile": hostile(),
	} {
		t.Run(name, func(t *testing.T) { checkRoundTrip(t, r) })
	}
}

// checkRoundTrip decodes the output of json and yaml and compares it with the report.
func checkRoundTrip(t *testing.T, r *Report) {
	t.Helper()
	sorted := shuffled(r, 1)
	sorted.Sort()
	want := validUTF8(t, documentOf(sorted))
	var fromJSON, fromYAML Document
	d := json.NewDecoder(strings.NewReader(printed(t, "json", r, Options{})))
	d.DisallowUnknownFields()
	if err := d.Decode(&fromJSON); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(printed(t, "yaml", r, Options{})), &fromYAML); err != nil {
		t.Fatal(err)
	}
	// An empty list and none are the same in both formats.
	if diff := cmp.Diff(want, fromJSON, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("json (-want +got): %s", diff)
	}
	if diff := cmp.Diff(want, fromYAML, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("yaml (-want +got): %s", diff)
	}
}

// validUTF8 replaces in all strings what JSON cannot hold.
func validUTF8(t *testing.T, d Document) Document {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	if err := e.Encode(d); err != nil {
		t.Fatal(err)
	}
	if !utf8.ValidString(b.String()) {
		t.Fatal("the encoder wrote no UTF-8")
	}
	var valid Document
	if err := json.Unmarshal([]byte(b.String()), &valid); err != nil {
		t.Fatal(err)
	}
	return valid
}

func TestMachineFormatsBeginWithVersionAndKind(t *testing.T) {
	for format, want := range map[string]string{
		"json": "{\n  \"apiVersion\": \"sluice.dev/v1alpha1\",\n  \"kind\": \"CheckReport\",\n",
		"yaml": "apiVersion: sluice.dev/v1alpha1\nkind: CheckReport\n",
	} {
		if got := printed(t, format, realistic(), Options{}); !strings.HasPrefix(got, want) {
			t.Errorf("%s begins with %.80q", format, got)
		}
	}
}

func TestStringsKeepTheirValue(t *testing.T) {
	for _, s := range []string{
		"", " ", "~", "null", "true", "1", "1e3", "0x1f", "2026-01-01", "0777", "0o7", "1_000", "0b1", "12:30:45", ".inf", "-.Inf", ".nan", "1.", "+1", "y", "N", "Yes", "NO", "on", "off", "=", "<<", "- a", "a: b", "a #b", "'", `"`, "\\", "%x", "@x", "`",
		"\n", "a\n", "a\n\n", "\na", " a\nb", "a \nb", "a\n b\n  c\n", "a\r\nb", "\ta", "a\tb", "\x00", "\u202e", "\U000e0041x", "\ufeff", "\u2028",
		"::error::", "a\n  ::error::x", "##[x]", "## x", "日本\n語", "...", "---\na", "? a", "| a", "> a", "!x", "&x", "*x", strings.Repeat("w ", 200),
	} {
		r := &Report{CRDs: []CRD{{Name: s, Findings: []Finding{{Message: s, Witness: &Witness{Object: s}}}}}, Skipped: map[string]int{s: 1}}
		checkRoundTrip(t, r)
		out := printed(t, "yaml", r, Options{})
		checkOutput(t, "yaml", out)
		if strings.Contains(out, "|2") || strings.Contains(out, "|+") || strings.Contains(out, "|4") {
			t.Errorf("%q is a block with marks:\n%s", s, out)
		}
		checkOutput(t, "json", printed(t, "json", r, Options{}))
	}
}

func TestWitnessesAreBlocksInYAML(t *testing.T) {
	got := printed(t, "yaml", realistic(), Options{})
	if want := "          object: |\n            apiVersion: example.com/v1\n            kind: Widget\n"; !strings.Contains(got, want) {
		t.Errorf("no block like\n%s", want)
	}
}
