package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindingsOfOneCauseAreOneGroup(t *testing.T) {
	finding := func(path, message, before, after string) Finding {
		return Finding{
			Rule: "r", Level: DataLost, Outcome: Violation, Severity: Fail, Version: "v1", Path: path,
			Message: message, Before: before, After: after,
		}
	}
	for _, x := range []struct {
		name     string
		findings []Finding
		want     [][]string // the places of each group
	}{
		{
			"the same message in other places",
			[]Finding{finding(".a", "gone", "", ""), finding(".b", "gone", "", "")},
			[][]string{{"v1 .a", "v1 .b"}},
		},
		{
			"messages that name the field",
			[]Finding{finding(".spec.a", `property "a" is gone`, "", ""), finding(".spec.bc", `property "bc" is gone`, "", "")},
			[][]string{{"v1 .spec.a", "v1 .spec.bc"}},
		},
		{
			"messages that name the values",
			[]Finding{finding(".a", "maximum lowered from 50 to 5", "50", "5"), finding(".b", "maximum lowered from 7 to 6", "7", "6")},
			[][]string{{"v1 .a", "v1 .b"}},
		},
		{
			"messages that name elements of the values",
			[]Finding{
				finding(".x", `no longer only "a", "bc"`, `["a","bc"]`, ""),
				finding(".y", `no longer only 1, 2, 3 and 2 more`, `[1,2,3,4,5]`, ""),
				finding(".z", `no longer only "d"`, `["e"]`, ""),
			},
			[][]string{{"v1 .x", "v1 .y"}, {"v1 .z"}},
		},
		{
			"messages that name values of their own",
			[]Finding{finding(".x", `value "a" removed`, "", ""), finding(".y", `value "b" removed`, "", "")},
			[][]string{{"v1 .x"}, {"v1 .y"}},
		},
		{
			"a value is no part of another word",
			[]Finding{finding(".x", "at most 15 of 5", "5", ""), finding(".y", "at most 17 of 7", "7", "")},
			[][]string{{"v1 .x"}, {"v1 .y"}},
		},
		{
			"another level is another cause",
			[]Finding{finding(".a", "gone", "", ""), {Rule: "r", Level: Cosmetic, Outcome: Violation, Severity: Fail, Message: "gone"}},
			[][]string{{"v1 .a"}, {"the CRD as a whole"}},
		},
		{
			"one place in several versions",
			[]Finding{
				finding(".a", "gone", "", ""),
				{Rule: "r", Level: DataLost, Outcome: Violation, Severity: Fail, Version: "v2", Path: ".a", Message: "gone"},
			},
			[][]string{{"v1, v2 .a"}},
		},
		{
			"what is suppressed stands apart",
			[]Finding{finding(".a", "gone", "", ""), {
				Rule: "r", Level: DataLost, Outcome: Violation, Severity: Off, Version: "v1", Path: ".b", Message: "gone",
				Suppressed: &Suppression{Reason: "known"},
			}},
			[][]string{{"v1 .a"}, {"v1 .b"}},
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := newPage(&Report{CRDs: []CRD{{Name: "c", Findings: x.findings}}}, Options{})
			var got [][]string
			for _, g := range p.crds[0].allGroups() {
				var places []string
				for i := range g.places {
					places = append(places, g.places[i].String())
				}
				got = append(got, places)
			}
			if diff := cmp.Diff(x.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAnObjectIsNoCRD: the report of several preflights has findings about objects of other kinds.
func TestAnObjectIsNoCRD(t *testing.T) {
	r := &Report{Noun: "resource", CRDs: []CRD{{Name: "roles.rbac.authorization.k8s.io", Verdict: Unsafe, Findings: []Finding{{
		Rule: "permission-missing", Outcome: Violation, Severity: Fail, Message: "this user may not apply Role shop/r", Position: &Position{File: "r.yaml", Line: 3},
	}}}}}
	for _, format := range []string{"text", "markdown", "html"} {
		var b strings.Builder
		if err := Print(&b, format, r, Options{}); err != nil {
			t.Fatal(err)
		}
		if text := b.String(); strings.Contains(text, "the CRD as a whole") || !strings.Contains(text, "the object") {
			t.Errorf("%s:\n%s", format, text)
		}
	}
}

// TestALevelOfAFeatureSaysNothingOfCRDs: a gate that is overdue hurts nobody who reads what kubectl prints.
func TestALevelOfAFeatureSaysNothingOfCRDs(t *testing.T) {
	r := &Report{Noun: "feature", CRDs: []CRD{{Name: "pages.banner", Verdict: Safe, Findings: []Finding{{
		Rule: "gate-overdue", Level: Cosmetic, Outcome: Violation, Severity: Warn, Message: "Banner has been Alpha for 6 minor releases",
	}}}}}
	for format := range forPeople {
		var b strings.Builder
		if err := Print(&b, format, r, Options{}); err != nil {
			t.Fatal(err)
		}
		if text := b.String(); strings.Contains(text, "kubectl prints") || !strings.Contains(text, "gate-overdue") {
			t.Errorf("%s:\n%s", format, text)
		}
	}
}

func TestCommonPathEndsAtASegment(t *testing.T) {
	for _, x := range []struct {
		paths []string
		want  string
	}{
		{[]string{".spec.a"}, ""},
		{[]string{".spec.a", ".spec.b"}, ".spec"},
		{[]string{".spec.abc", ".spec.abd"}, ".spec"},
		{[]string{".spec.ab", ".spec.a"}, ".spec"},
		{[]string{".spec", ".spec.a", ".spec[*]"}, ".spec"},
		{[]string{".spec.tasks[*].a", ".spec.tasks[*].b"}, ".spec.tasks[*]"},
		{[]string{".spec.a", ".status.a"}, ""},
		{[]string{"", ".status.a"}, ""},
	} {
		var places []place
		for _, p := range x.paths {
			places = append(places, place{path: p})
		}
		if got := commonPath(places); got != x.want {
			t.Errorf("commonPath(%q) = %q, want %q", x.paths, got, x.want)
		}
	}
}

func TestChosenGroupsStandForAllRules(t *testing.T) {
	var groups []group
	for i := range 30 {
		rule := "many"
		if i >= 26 {
			rule = fmt.Sprintf("rare-%d", i)
		}
		groups = append(groups, group{entries: []entry{{Finding: Finding{Rule: rule, Message: fmt.Sprint(i)}}}})
	}
	messages := func(groups []group) []string {
		var all []string
		for i := range groups {
			all = append(all, groups[i].leadEntry().Message)
		}
		return all
	}
	chosen, rest := chooseGroups(groups, 7)
	if diff := cmp.Diff([]string{"0", "1", "2", "26", "27", "28", "29"}, messages(chosen)); diff != "" {
		t.Error(diff)
	}
	if len(rest) != 23 || rest[0].leadEntry().Message != "3" {
		t.Errorf("the rest are %q", messages(rest))
	}
	if chosen, rest = chooseGroups(groups[:7], 7); len(chosen) != 7 || rest != nil {
		t.Errorf("%d of 7 chosen, the rest %q", len(chosen), messages(rest))
	}
}

func TestSummaryCountsEveryFindingOnce(t *testing.T) {
	r := &Report{CRDs: []CRD{
		{Name: "a", Findings: []Finding{
			{Outcome: Violation, Severity: Fail},
			{Outcome: Undecided, Severity: Fail},
			{Outcome: Undecided, Severity: Warn},
			{Outcome: Note, Severity: Warn},
			{Outcome: Note, Severity: Off},
			{Outcome: Violation, Severity: Off},
			{Outcome: Undecided, Severity: Off, Suppressed: &Suppression{}},
			// A severity that fails the check is told, whatever else is set.
			{Outcome: Note, Severity: Fail, Suppressed: &Suppression{}},
			// One that does not exist is not lost.
			{Outcome: Violation, Severity: "grave"},
		}},
		{Name: "b", Findings: []Finding{{Outcome: Violation, Severity: Warn}}},
		{Name: "c", Findings: []Finding{{Outcome: Note, Severity: Warn}}},
		{Name: "d"},
	}}
	want := Summary{CRDs: 4, FailingCRDs: 1, WarningCRDs: 1, Fail: 3, Warn: 3, Undecided: 2, Notes: 2, Suppressed: 1, Off: 2}
	if diff := cmp.Diff(want, r.Summary()); diff != "" {
		t.Error(diff)
	}
	if r.Failing() != r.Summary().Fail {
		t.Errorf("Failing is %d, the summary says %d", r.Failing(), r.Summary().Fail)
	}
}

func TestGroupsSayThatTheirMessagesDiffer(t *testing.T) {
	same := Finding{Rule: "r", Outcome: Violation, Severity: Fail, Path: ".a", Message: "from 2 to 1", Before: "2", After: "1"}
	other := Finding{Rule: "r", Outcome: Violation, Severity: Fail, Path: ".b", Message: "from 4 to 3", Before: "4", After: "3"}
	p := newPage(&Report{CRDs: []CRD{{Findings: []Finding{same, other}}, {Findings: []Finding{same}}}}, Options{})
	for i, want := range []string{"from 2 to 1 (and others like it)", "from 2 to 1"} {
		if got := p.crds[i].groups[0].message; got != want {
			t.Errorf("message %q, want %q", got, want)
		}
	}
}

func TestEveryFormatSaysWhichSideAcceptsAWitness(t *testing.T) {
	for _, reversed := range []bool{false, true} {
		r := &Report{CRDs: []CRD{{Name: "c", Verdict: Unsafe, Findings: []Finding{{
			Rule: "r", Outcome: Violation, Severity: Fail, Message: "m",
			Witness: &Witness{Object: "kind: K\n", Effect: "what it says", Reversed: reversed},
		}}}}}
		accepts, judges := "old CRD accepts", "new CRD"
		if reversed {
			accepts, judges = "new CRD accepts", "old CRD"
		}
		for _, format := range []string{"text", "junit", "markdown", "html"} {
			out := printed(t, format, r, Options{})
			first, second := strings.Index(out, accepts), strings.LastIndex(out, judges)
			if first < 0 || second < first || !strings.Contains(out[second:], "what it says") {
				t.Errorf("%s, reversed %v:\n%s", format, reversed, out)
			}
		}
		for _, format := range []string{"sarif", "github"} {
			if out := printed(t, format, r, Options{}); !strings.Contains(out, "the "+judges+": what it says") {
				t.Errorf("%s, reversed %v:\n%s", format, reversed, out)
			}
		}
	}
}

func TestShortWitnessesAreNotCutForALineOrTwo(t *testing.T) {
	lines := func(n int) string { return strings.Repeat("  a: b\n", n) }
	for _, x := range []struct {
		lines int
		cut   bool
	}{{textWitness, false}, {textWitness + textSlack, false}, {textWitness + textSlack + 1, true}} {
		r := &Report{CRDs: []CRD{{Findings: []Finding{{Severity: Fail, Witness: &Witness{Object: lines(x.lines)}}}}}}
		out := printed(t, "text", r, Options{})
		if cut := strings.Contains(out, "more lines (-v)"); cut != x.cut || (!cut && strings.Count(out, "a: b") != x.lines) {
			t.Errorf("%d lines: cut %v", x.lines, cut)
		}
	}
}
