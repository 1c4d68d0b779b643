package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/report"
)

var someRules = []string{"enum-value-removed", "property-removed", "pattern-changed", "old-crd-invalid"}

const (
	ownHead  = "apiVersion: sluice.dev/v1alpha1\nkind: Config\n"
	kappHead = "apiVersion: kapp.k14s.io/v1alpha1\nkind: Config\n"
)

// settings lists what a configuration says, for comparison.
func settings(c *Config) map[string]string {
	out := map[string]string{"mode": c.mode.text, "failMode": c.failMode.text, "kubeVersion": c.kubeVersion.text}
	for l, v := range c.levels {
		out["level "+string(l)] = v.text
	}
	for r, v := range c.rules {
		out["rule "+r] = v.text
	}
	for _, s := range c.suppressions {
		out["suppression "+s.String()] = s.reason + " " + s.expires
	}
	for k, v := range out {
		if v == "" {
			delete(out, k)
		}
	}
	return out
}

func TestParse(t *testing.T) {
	own := "mode: warn\nfailMode: open\nkubeVersion: 1.30\nlevels:\n  cosmetic: off\n  \"data-lost\": warn\nrules: {pattern-changed: fail, suppression-expired: warn}\n" +
		"suppressions:\n- rule: property-removed\n  crd: '*.example.com'\n  version: v1\n  path: spec.old.**\n  reason: >\n    Nobody\n    used it.\n  expires: 2027-01-31\n- crd: as.x.io\n  reason: x\n"
	want := map[string]string{
		"mode": "warn", "failMode": "open", "kubeVersion": "1.30", "level cosmetic": "off", "level data-lost": "warn",
		"rule pattern-changed": "fail", "rule suppression-expired": "warn",
		"suppression rule property-removed, CRD *.example.com, version v1, path .spec.old.**": "Nobody used it. 2027-01-31",
		"suppression CRD as.x.io": "x ",
	}
	indented := "    " + strings.ReplaceAll(strings.TrimSuffix(own, "\n"), "\n", "\n    ") + "\n"
	for _, tt := range []struct {
		name, text string
		want       map[string]string
		notes      []string
	}{
		{"nothing set", ownHead, map[string]string{}, nil},
		{"sluice's own file", ownHead + "metadata: {name: x}\n" + own, want, []string{"f:20: a suppression without a date (expires: YYYY-MM-DD) stays for ever"}},
		{"sluice's keys alone, as a report prints them", own, want, []string{"f:17: a suppression without a date (expires: YYYY-MM-DD) stays for ever"}},
		{
			"kapp's file", kappHead + "preflightRules:\n- name: CRDUpgradeSafety\n  config:\n" + indented, want,
			[]string{"f:22: a suppression without a date (expires: YYYY-MM-DD) stays for ever"},
		},
		{"kapp's file without a configuration", kappHead + "preflightRules:\n- name: CRDUpgradeSafety\n", map[string]string{}, nil},
		{"kapp's file with an empty configuration", kappHead + "preflightRules:\n- {name: CRDUpgradeSafety, config: }\n", map[string]string{}, nil},
		{
			"kapp's other keys", kappHead + "rebaseRules:\n- {path: [spec], type: remove}\nwaitRules: []\nadditionalLabels:\n  a: b\n",
			map[string]string{},
			[]string{"f:3: rebaseRules is for sluice apply", "f:5: waitRules is for sluice apply", "f:6: additionalLabels is for kapp and means nothing here"},
		},
		{"several documents", "# x\n---\n" + ownHead + "mode: warn\n---\n---\n" + kappHead + "preflightRules:\n- name: CRDUpgradeSafety\n  config: {mode: warn, failMode: open}\n", map[string]string{"mode": "warn", "failMode": "open"}, nil},
		{"JSON", `{"apiVersion": "sluice.dev/v1alpha1", "kind": "Config", "mode": "warn"}`, map[string]string{"mode": "warn"}, nil},
		{"a byte order mark and CRLF", "\xef\xbb\xbf" + strings.ReplaceAll(ownHead, "\n", "\r\n") + "mode: warn\r\n", map[string]string{"mode": "warn"}, nil},
		{"a pattern for rules", ownHead + "suppressions: [{rule: '*-removed', reason: x, expires: 2027-01-31}]\n", map[string]string{"suppression rule *-removed": "x 2027-01-31"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, notes, err := Parse("f", []byte(tt.text), someRules)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, settings(c)); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.notes, notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

// mistake is an error that is expected: its line, and words that its message has.
type mistake struct {
	line int
	says []string
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []mistake
	}{
		{"nothing", "", []mistake{{0, []string{"empty", "apiVersion: sluice.dev/v1alpha1", "kapp.k14s.io/v1alpha1"}}}},
		{"comments", "# x\n---\n", []mistake{{0, []string{"empty"}}}},
		{"a text", "modes: warn\n---\nhello\n", []mistake{{1, []string{"kind is missing"}}, {3, []string{"object", `"hello"`}}}},
		{"a list", "- a\n", []mistake{{1, []string{"object", "a list"}}}},
		{"broken YAML", ownHead + "mode: warn\n failMode: open\n", []mistake{{4, []string{"broken YAML"}}}},
		{"an alias of nothing", ownHead + "mode: *x\n", []mistake{{3, []string{"anchor"}}}},
		{"binary junk", "\x00\x01\x02", []mistake{{0, []string{"broken YAML"}}}},
		{"another kind", "apiVersion: v1\nkind: Pod\n", []mistake{{1, []string{`"Pod"`, "kind: Config"}}}},
		{"another version", "apiVersion: sluice.dev/v1\nkind: Config\n", []mistake{{1, []string{`"sluice.dev/v1"`, "sluice.dev/v1alpha1", "kapp.k14s.io/v1alpha1"}}}},
		{"no version", "kind: Config\n", []mistake{{1, []string{"apiVersion is missing"}}}},
		{"unknown keys", ownHead + "failmode: open\nx: y\n", []mistake{{3, []string{`"failmode"`, `"failMode"?`, "suppressions"}}, {4, []string{`"x"`}}}},
		{"kapp's keys in sluice's file", ownHead + "preflightRules: []\n", []mistake{{3, []string{"preflightRules", "mode, failMode"}}}},
		{"sluice's keys in kapp's file", kappHead + "mode: warn\n", []mistake{{3, []string{`"mode"`, "preflightRules"}}}},
		{"an unknown key of kapp's", kappHead + "rebaseRule: []\n", []mistake{{3, []string{`"rebaseRules"?`, "waitRules"}}}},
		{"the place of a key whose value is below", ownHead + "modes:\n\n\n  warn\n", []mistake{{3, []string{`"mode"?`}}}},
		{"duplicate keys", ownHead + "mode: warn\nmode: error\n", []mistake{{4, []string{`"mode"`, "line 3"}}}},
		{"bad values", ownHead + "mode: warning\nfailMode: 5\nkubeVersion: new\n", []mistake{
			{3, []string{`"warning"`, `"warn"?`, "error, warn"}}, {4, []string{`"5"`, "closed, open"}}, {5, []string{`"new"`, "1.29"}},
		}},
		{"values of another type", ownHead + "mode: [warn]\nfailMode:\nlevels: 1\nrules: []\nsuppressions: {}\n", []mistake{
			{3, []string{"mode must be a text, not a list"}},
			{4, []string{"empty"}},
			{5, []string{"levels must be an object"}},
			{6, []string{"rules must be an object"}},
			{7, []string{"suppressions must be a list"}},
		}},
		{"aliases", ownHead + "metadata: &m {mode: &w warn}\nlevels: *m\nmode: *w\n", []mistake{{4, []string{"alias"}}, {5, []string{"alias"}}}},
		{"merge keys", ownHead + "metadata: &m {mode: warn}\n<<: *m\n", []mistake{{4, []string{`"<<"`}}}},
		{"a list for a key", ownHead + "[a]: b\n", []mistake{{3, []string{"key", "a list"}}}},
		{"levels and rules", ownHead + "levels:\n  data-loss: warn\n  cosmetic: none\nrules:\n  pattern-change: off\n  property-removed: yes\n", []mistake{
			{4, []string{`"data-loss"`, `"data-lost"?`, "objects-stuck"}},
			{5, []string{`"none"`, "fail, warn, off"}},
			{7, []string{`"pattern-change"`, `"pattern-changed"?`, "sluice rules"}},
			{8, []string{`"yes"`, "fail, warn, off"}},
		}},
		{"preflight rules", kappHead + "preflightRules:\n- name: CRDUpgradeSafty\n- name: FeatureGates\n- name: FeatureGates\n- config: {}\n- x\n- name: CRDUpgradeSafety\n  conf: {}\n- name: CRDUpgradeSafety\n- name: []\n", []mistake{
			{4, []string{`"CRDUpgradeSafty"`, `"CRDUpgradeSafety"?`, "FeatureGates, PermissionValidation"}},
			{6, []string{"FeatureGates stands at line 5"}},
			{7, []string{"without a name"}},
			{8, []string{"object"}},
			{10, []string{`"conf"`, `"config"?`}},
			{11, []string{"line 9 of this list"}},
			{12, []string{"text"}},
		}},
		{"preflight rules that are none", kappHead + "preflightRules: CRDUpgradeSafety\n", []mistake{{3, []string{"list"}}}},
		{"a configuration that is none", kappHead + "preflightRules:\n- name: CRDUpgradeSafety\n  config: warn\n", []mistake{{5, []string{"config of CRDUpgradeSafety", "object"}}}},
		{"a key of another rule", kappHead + "preflightRules:\n- name: PermissionValidation\n  config:\n    mode: warn\n", []mistake{{6, []string{`"mode"`, "permissionValidatorResource"}}}},
		{"another review", kappHead + "preflightRules:\n- name: PermissionValidation\n  config:\n    permissionValidatorResource: Pod\n", []mistake{{6, []string{"Pod", "SelfSubjectAccessReview"}}}},
		{"the configuration of features", kappHead + "preflightRules:\n- name: FeatureGates\n  config:\n    mode: loud\n    levels: {}\n", []mistake{{6, []string{`"loud"`, "error, warn"}}, {7, []string{`"levels"`, "config of FeatureGates are mode"}}}},
		{"keys under config", kappHead + "preflightRules:\n- name: CRDUpgradeSafety\n  config:\n    mod: warn\n    kind: x\n", []mistake{{6, []string{`"mode"?`}}, {7, []string{`"kind"`}}}},
		{"suppressions", ownHead + "suppressions:\n- reason: x\n- rule: property-removed\n- rule: property-remove\n  reason: x\n- rule: 'x*'\n  reason: x\n- crd: a\n  reason: x\n  expires: 31.1.2027\n" +
			"- crd: a\n  reason: ' '\n- crd: a\n  reasn: x\n- x\n- crd: [a]\n  reason: x\n- crd: a\n  reason: x\n  expires: 2027-02-30\n", []mistake{
			{4, []string{"rule, a crd or a path"}},
			{5, []string{"reason"}},
			{6, []string{`"property-removed"?`}},
			{8, []string{"no rule matches"}},
			{12, []string{`"31.1.2027"`, "YYYY-MM-DD"}},
			{14, []string{"reason must not be empty"}},
			{16, []string{`"reasn"`, `"reason"?`}},
			{15, []string{"must give its reason"}},
			{17, []string{"object"}},
			{18, []string{"crd must be a text"}},
			{22, []string{"2027-02-30"}},
		}},
		{"a suppression with a date and without a reason", ownHead + "suppressions:\n- crd: a\n  expires: 2027-01-31\n", []mistake{{4, []string{"must give its reason"}}}},
		{"documents that contradict each other", ownHead + "mode: warn\nlevels: {cosmetic: off}\nrules: {pattern-changed: off}\n---\n" + ownHead + "mode: error\nlevels: {cosmetic: fail}\nrules: {pattern-changed: warn}\n", []mistake{
			{9, []string{"mode is error here", "warn at f:3"}}, {10, []string{"cosmetic", "f:4"}}, {11, []string{"pattern-changed", "f:5"}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _, err := Parse("f", []byte(tt.text), someRules)
			if c != nil {
				t.Errorf("got a configuration beside the error")
			}
			expect(t, err, "f", tt.want)
		})
	}
}

// expect checks that err joins the mistakes in file, in their order.
func expect(t *testing.T, err error, file string, want []mistake) {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("got %v, want several errors", err)
	}
	errs := joined.Unwrap()
	for i, e := range errs {
		one, ok := errors.AsType[*Error](e)
		if !ok {
			t.Fatalf("got %T, want *Error", e)
		}
		if strings.Contains(e.Error(), "\n") {
			t.Errorf("%q has several lines", e)
		}
		if i >= len(want) {
			t.Errorf("one error too many: %v", e)
			continue
		}
		if one.Position.File != file || one.Position.Line != want[i].line {
			t.Errorf("got %v, want it at %s:%d", e, file, want[i].line)
		}
		for _, words := range want[i].says {
			if !strings.Contains(e.Error(), words) {
				t.Errorf("%q does not say %q", e, words)
			}
		}
	}
	if len(errs) < len(want) {
		t.Errorf("got %d errors, want %d: %v", len(errs), len(want), err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		full := filepath.Join(dir, name)
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return full
	}
	a := file("a", ownHead+"mode: warn\nsuppressions: [{crd: a, reason: x, expires: 2027-01-31}]\n")
	b := file("b", kappHead+"preflightRules:\n- name: CRDUpgradeSafety\n  config: {failMode: open, mode: warn}\n")
	b2 := file("b2", kappHead+"preflightRules:\n- name: CRDUpgradeSafety\n  config: {levels: {cosmetic: off}}\n")
	c := file("c", ownHead+"mode: error\n")
	big := file("big", "")
	if err := os.Truncate(big, maxFile+1); err != nil {
		t.Fatal(err)
	}

	t.Run("no files", func(t *testing.T) {
		got, notes, err := Load(Options{})
		if err != nil || notes != nil || got.Mode() != ModeError || got.FailMode() != FailClosed || got.KubeVersion() != "" || !got.Enabled("CRDUpgradeSafety") {
			t.Errorf("got %+v, %v, %v", got, notes, err)
		}
	})
	t.Run("files add up", func(t *testing.T) {
		got, _, err := Load(Options{Files: []string{a, b, b2}})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"mode": "warn", "failMode": "open", "level cosmetic": "off", "suppression CRD a": "x 2027-01-31"}
		if diff := cmp.Diff(want, settings(got)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if !got.Enabled("CRDUpgradeSafety") || got.Enabled("PermissionValidation") {
			t.Error("the preflight rules that are named, and no others, are enabled")
		}
	})
	t.Run("flags win over files", func(t *testing.T) {
		got, _, err := Load(Options{Files: []string{a, b}, Mode: "error", FailMode: "closed"})
		if err != nil || got.Mode() != ModeError || got.FailMode() != FailClosed {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("preflights on the command line win over files", func(t *testing.T) {
		for _, c := range []struct {
			names      []string
			crd, right bool
		}{
			{nil, true, false},
			{[]string{}, false, false},
			{[]string{"PermissionValidation"}, false, true},
			{[]string{"PermissionValidation", "CRDUpgradeSafety"}, true, true},
		} {
			got, _, err := Load(Options{Files: []string{b}, Preflights: c.names})
			if err != nil || got.Enabled("CRDUpgradeSafety") != c.crd || got.Enabled("PermissionValidation") != c.right {
				t.Errorf("%v: %v", c.names, err)
			}
		}
		_, _, err := Load(Options{Preflights: []string{"CRDUpgradeSafty", "FeatureGates"}})
		expect(t, err, "", []mistake{{0, []string{"--preflight", `"CRDUpgradeSafety"?`}}})
	})
	t.Run("the standard preflights", func(t *testing.T) {
		got, _, err := Load(Options{})
		if err != nil || !got.Enabled("CRDUpgradeSafety") || got.Enabled("PermissionValidation") || got.Enabled("FeatureGates") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("files that contradict each other", func(t *testing.T) {
		_, _, err := Load(Options{Files: []string{a, c}})
		expect(t, err, c, []mistake{{3, []string{a + ":3"}}})
	})
	t.Run("bad flags", func(t *testing.T) {
		_, _, err := Load(Options{Mode: "wran", FailMode: "ajar"})
		expect(t, err, "", []mistake{{0, []string{"--mode", `"warn"?`}}, {0, []string{"--fail-mode", "closed, open"}}})
	})
	for _, tt := range []struct {
		name, file string
		is         error
		says       string
	}{
		{"a file that is not there", filepath.Join(dir, "none"), os.ErrNotExist, "no such"},
		{"a directory", dir, nil, "directory"},
		{"a file that is too large", big, nil, "4 MiB"},
		{"a file without an end", "/dev/zero", nil, "4 MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := Load(Options{Files: []string{tt.file}})
			expect(t, err, tt.file, []mistake{{0, []string{tt.says}}})
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v is not %v", err, tt.is)
			}
		})
	}
}

func TestEveryLevelCanBeSet(t *testing.T) {
	for _, l := range report.Levels() {
		c, _, err := Parse("f", []byte(ownHead+"levels: {"+string(l.ID)+": off}\n"), nil)
		if err != nil || c.levels[l.ID].text != "off" {
			t.Errorf("%s: %v", l.ID, err)
		}
	}
}
