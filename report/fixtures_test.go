package report

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// realistic is what a release of an operator might look like: one CRD with all sorts of trouble, one with a warning, and
// safe ones.
func realistic() *Report {
	const file = "config/crd/widgets.yaml"
	at := func(line int) *Position { return &Position{File: file, Line: line, Column: 21} }
	r := &Report{
		Old: "git:main:config/crd", New: "config/crd", KubeVersion: "1.37", Mode: "error", FailMode: "closed",
		Skipped: map[string]int{"Deployment": 2, "ConfigMap": 7, "Role": 2},
	}
	widgets := CRD{
		Name: "widgets.example.com", Verdict: Unsafe,
		Objects: &ObjectScan{Version: "v1", Checked: 1204, Refused: 3, Pruned: 1},
		Findings: []Finding{
			{
				Rule: "property-removed", Level: DataLost, Outcome: Violation, Severity: Fail, Version: "v1",
				Path: ".spec.legacyMode", Message: `property "legacyMode" is gone, so its value is pruned`,
				Before: `{"type":"string"}`, Position: at(96),
				Witness: &Witness{
					Object: "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: witness\n  namespace: default\nspec:\n  legacyMode: \"\"\n",
					Effect: ".spec.legacyMode is pruned",
				},
				Objects: &Objects{Checked: 1204, Affected: 1, Examples: []string{"team-a/api"}},
			},
			{
				Rule: "maximum-lowered", Level: ObjectsRatcheted, Outcome: Violation, Severity: Fail, Version: "v1",
				Path: ".spec.replicas", Message: "maximum lowered from 50 to 10", Before: "50", After: "10", Position: at(140),
				Witness: &Witness{
					Object: "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: witness\n  namespace: default\nspec:\n  replicas: 11\n",
					Effect: "spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10",
				},
				Objects: &Objects{Checked: 1204, Affected: 3, Examples: []string{"team-a/api", "team-a/web", "team-b/batch"}},
			},
			{
				Rule: "validation-added", Level: WritersRefused, Outcome: Violation, Severity: Fail, Version: "v1", Path: ".spec.storageClass",
				Message: `a new rule restricts updates: "storageClass is immutable"`, After: "self == oldSelf", Position: at(171),
				Witness: &Witness{
					Old:    "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: witness\n  namespace: default\nspec:\n  storageClass: \"\"\n",
					Object: "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: witness\n  namespace: default\nspec:\n  storageClass: a\n",
					Effect: "spec.storageClass: Invalid value: storageClass is immutable",
				},
			},
			{
				Rule: "change-undecided", Outcome: Undecided, Severity: Fail, Version: "v1", Path: ".spec.schedule",
				Message: "unable to determine if change to existing field is safe", Before: `^[0-9* ,/-]+$`, After: `^(@(daily|hourly)|[0-9* ,/-]{9,})$`,
				Reason: "the new validation rule calls url(), which the prover does not model", Position: at(183),
			},
			{
				Rule: "enum-value-added", Level: ReadersSurprised, Outcome: Violation, Severity: Warn, Version: "v1", Path: ".status.phase",
				Message: `value "Draining" added to the enum`, Before: `["Pending","Ready"]`, After: `["Pending","Ready","Draining"]`, Position: at(260),
			},
			{
				Rule: "old-crd-invalid", Outcome: Note, Severity: Warn,
				Message: "this Kubernetes version refuses the old CRD itself: spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[schedule].pattern: Invalid value: not a regular expression",
			},
			{
				Rule: "column-removed", Level: Cosmetic, Outcome: Violation, Severity: Off, Version: "v1", Message: `printer column "Age" is gone`,
				Suppressed: &Suppression{Reason: "kubectl shows the age anyway", Expires: "2027-03-31"},
			},
		},
	}
	for _, version := range []string{"v1", "v1beta1"} {
		for i := range 15 {
			widgets.Findings = append(widgets.Findings, Finding{
				Rule: "enum-value-removed", Level: ObjectsRatcheted, Outcome: Violation, Severity: Fail, Version: version,
				Path: fmt.Sprintf(".spec.steps[*].step%02d.mode", i+1), Message: `value "legacy" removed from the enum`,
				Before: `["fast","legacy","slow"]`, After: `["fast","slow"]`, Position: at(300 + 12*i),
				Witness: &Witness{
					Object: fmt.Sprintf("apiVersion: example.com/%s\nkind: Widget\nmetadata:\n  name: witness\n  namespace: default\nspec:\n  steps:\n  - step%02d:\n      mode: legacy\n", version, i+1),
					Effect: fmt.Sprintf(`spec.steps[0].step%02d.mode: Unsupported value: "legacy": supported values: "fast", "slow"`, i+1),
				},
				Objects: &Objects{Checked: 1204},
			})
		}
	}
	r.CRDs = append(r.CRDs, widgets, CRD{
		Name: "gadgets.example.com", Verdict: Safe, Findings: []Finding{{
			Rule: "default-added", Level: ReadersSurprised, Outcome: Violation, Severity: Warn, Version: "v1", Path: ".spec.retries",
			Message: "a default was added: objects that leave the field out now have it", After: "3", Position: &Position{File: "config/crd/gadgets.yaml", Line: 44, Column: 5},
			Witness: &Witness{Object: "apiVersion: example.com/v1\nkind: Gadget\nmetadata:\n  name: witness\nspec: {}\n", Effect: "spec.retries: 3 is filled in"},
		}},
	})
	for i := range 9 {
		r.CRDs = append(r.CRDs, CRD{Name: fmt.Sprintf("kind%d.example.com", i+1), Verdict: []Verdict{Safe, IsUnchanged}[min(i/2, 1)]})
	}
	for i := range r.CRDs {
		for j := range r.CRDs[i].Findings {
			r.CRDs[i].Findings[j].CRD = r.CRDs[i].Name
		}
	}
	return r
}

// someNew has many CRDs that were compared with nothing beside others.
func someNew() *Report {
	r := allSafe()
	for i := range 7 {
		r.CRDs = append(r.CRDs, CRD{Name: fmt.Sprintf("new%d.example.com", i), Verdict: IsNew})
	}
	r.CRDs = append(r.CRDs, CRD{Name: "gone.example.com", Verdict: IsRemoved, Findings: []Finding{{
		Rule: "crd-removed", Level: ClientsBroken, Outcome: Violation, Severity: Off, CRD: "gone.example.com", Message: "the CRD is gone",
		Suppressed: &Suppression{Reason: "nobody uses it"},
	}}})
	return r
}

func allSafe() *Report {
	r := &Report{Old: "old.yaml", New: "new.yaml", KubeVersion: "1.37", Mode: "error", FailMode: "closed"}
	for i := range 3 {
		r.CRDs = append(r.CRDs, CRD{Name: fmt.Sprintf("kind%d.example.com", i), Verdict: []Verdict{IsUnchanged, Safe, Safe}[i]})
	}
	r.CRDs[2].Objects = &ObjectScan{Version: "v1", Checked: 312}
	return r
}

// huge has 5,000 findings of many causes in one CRD, each with a large witness.
func huge(witness int) *Report {
	r := &Report{Old: "old.yaml", New: "new.yaml", KubeVersion: "1.37", Mode: "error", FailMode: "closed"}
	big := "apiVersion: example.com/v1\nkind: Widget\nspec:\n" + strings.Repeat("  field: "+strings.Repeat("x", 90)+"\n", witness/100)
	c := CRD{Name: "widgets.example.com", Verdict: Unsafe}
	levels := Levels()
	for i := range 5000 {
		l := levels[i%len(levels)]
		c.Findings = append(c.Findings, Finding{
			Rule: fmt.Sprintf("rule-%d", i%40), Level: l.ID, Outcome: Violation, Severity: l.Default, CRD: c.Name, Version: "v1",
			Path: fmt.Sprintf(".spec.group%d.field%d", i%70, i), Message: fmt.Sprintf("cause number %d", i%700),
			Before: fmt.Sprint(i), After: strings.Repeat("y", i%400), Position: &Position{File: "new.yaml", Line: i + 1},
			Witness: &Witness{Object: big, Effect: strings.Repeat("refused ", i%200)},
			Objects: &Objects{Checked: 100_000, Affected: int64(i), Examples: []string{"a/b", "c/d"}},
		})
	}
	r.CRDs = []CRD{c}
	return r
}

// evil is text that tries to do something wherever it is shown.
var evil = []string{
	"\x1b[31mred\x1b]0;title\x07",
	"::error file=x::owned\n::add-mask::s\n  ::stop-commands::t",
	"##[add-mask]s ##vso[task.complete]x ##teamcity[y]",
	"<script>alert(1)</script><img src=x onerror=alert(1)>",
	"</pre></details><script >alert(2)</script>]]><!--",
	"```\n</code>\n# head\n| a | b |\n@everyone #1 GH-1 :rocket: [x](http://y) ![z](http://y) www.example.com $x$ \\",
	"/lgtm\n/close\n  /approve",
	"a\u202eb\u2066c\u200bd\ufeffe\u2028f\u00a0g\u0085h\U000e0041i",
	"bad\xff\xfe\xc3utf8\x00nul\x7fdel\r\ncrlf\ttab",
	"%0A::warning::x%25, :",
	"&lt;&#60;{{.}}{{`${x}",
	strings.Repeat("long ", 300),
}

// hostile has that text everywhere.
func hostile() *Report {
	all := strings.Join(evil, " ")
	r := &Report{Old: all, New: all, KubeVersion: all, Mode: all, FailMode: all, Skipped: map[string]int{all: 1, evil[0]: 2}}
	for i, s := range evil {
		c := CRD{Name: s, Verdict: Unsafe, Objects: &ObjectScan{Version: s, Checked: 3, Refused: 1}}
		for j, t := range evil {
			f := Finding{
				Rule: s, Level: Levels()[j%9].ID, Outcome: Violation, Severity: []Severity{Fail, Warn, Off}[j%3], CRD: s, Version: s,
				Path: t, Message: t, Before: t, After: t, Reason: t, Position: &Position{File: t, Line: 7, Column: 3},
				Witness: &Witness{Object: all, Old: t, Effect: t}, Objects: &Objects{Checked: 9, Affected: 8, Examples: evil},
			}
			switch {
			case j%3 == 2 && j%2 == 0:
				f.Suppressed = &Suppression{Reason: t, Expires: t}
			case j%5 == 0:
				f.Outcome, f.Level = Undecided, ""
			case j == 1:
				f.Outcome, f.Level = Note, Level(t)
			}
			c.Findings = append(c.Findings, f)
		}
		if i%2 == 0 {
			c.Verdict = Verdict(s)
		}
		r.CRDs = append(r.CRDs, c)
	}
	return r
}

func shuffled(r *Report, seed uint64) *Report {
	random := rand.New(rand.NewPCG(seed, 7))
	c := *r
	c.CRDs = slices.Clone(r.CRDs)
	random.Shuffle(len(c.CRDs), func(i, j int) { c.CRDs[i], c.CRDs[j] = c.CRDs[j], c.CRDs[i] })
	for i := range c.CRDs {
		fs := slices.Clone(c.CRDs[i].Findings)
		random.Shuffle(len(fs), func(i, j int) { fs[i], fs[j] = fs[j], fs[i] })
		c.CRDs[i].Findings = fs
	}
	return &c
}

func ruleDoc(id string) (RuleDoc, bool) {
	if id != "enum-value-removed" && id != "property-removed" {
		return RuleDoc{}, false
	}
	return RuleDoc{
		ID: id, Title: "Part of the schema is gone",
		Why:  "Objects that hold it are stored, and clients go on sending it.\n\nNobody tells them.",
		Help: "Keep it for a release, mark it deprecated, and move stored objects first.",
	}, true
}
