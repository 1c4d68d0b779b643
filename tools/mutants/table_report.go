package main

// reportFaults are faults in the consequences of a finding: severities, the configuration, the exit code.
// Each of them would let a pipeline pass that has to fail, or hide a finding from those who read the
// report.
var reportFaults = []fault{
	{
		in: "report.(*Report).Failing", find: "if f.Severity == Fail {", put: "if f.Severity == Fail && f.Outcome == Violation {",
		broken: "an undecided change does not make the check fail",
	},
	{
		in: "report.compareFindings", find: "cmp.Compare(a.Version, b.Version), cmp.Compare(a.Path", put: "cmp.Compare(a.Path",
		broken: "findings that differ in the version alone are merged",
	},
	{
		in: "report.Levels", find: `"clients that write such objects", Fail}`, put: `"clients that write such objects", Warn}`,
		broken: "refused writers only warn",
	},
	{in: "report.Level.severityRank", find: "i >= 0", put: "i > 0", broken: "the most severe level ranks last"},
	{
		in: "report.fingerprint", find: "[]string{f.Rule, crd, f.Version, f.Path, f.Before, f.After}",
		put:    "[]string{f.Rule, crd, f.Path, f.Before, f.After}",
		broken: "findings in two versions have one fingerprint",
	},
	{in: "internal/config.suppression.isExpired", find: "s.expires < today", put: "s.expires <= today", broken: "a suppression expires a day early"},
	{in: "internal/config.(*Config).Apply", without: "isExpired", broken: "an expired suppression still accepts findings"},
	{
		in: "internal/config.(*Config).severityOf", find: "c.FailMode() == FailOpen", put: "c.FailMode() == FailClosed",
		broken: "failMode open fails, and closed does not",
	},
	{
		in: "internal/config.(*Config).severityOf", find: "s == report.Fail && c.Mode() == ModeWarn",
		put:    "s == report.Fail && f.Outcome == report.Violation && c.Mode() == ModeWarn",
		broken: "mode warn fails on an undecided change",
	},
	{
		in: "internal/config.(*Config).severityOf", find: "rule == report.Off || rule == report.Warn", put: `rule != ""`,
		broken: "a rule's severity makes an undecided change fail though the fail mode is open",
	},
	{in: "internal/config.suppression.matchesFinding", without: "version.matchesText", broken: "a suppression for one version accepts findings of all"},
	{in: "internal/config.(*Config).Apply", without: "f.Outcome == report.Note", broken: "a suppression is used up by a note"},
	{
		in: "internal/config.newMatcher", find: `separators != ""`, put: "false",
		broken: "a star goes on across segments of a path",
	},
	{
		in: "internal/config.(*parser).readSuppression", find: `if s.reason == "" {`, put: `if s.reason == "" && s.expires == "" {`,
		broken: "a suppression with a date needs no reason",
	},
	{
		in: "internal/config.(*parser).preflightRules", find: "if line, twice := here[id]; twice {",
		put:    "if line, twice := here[id]; twice && config != nil {",
		broken: "a preflight rule may stand in a list twice",
	},
	{
		in: "internal/config.Load", find: `if o.FailMode != "" && p.oneOf(`,
		put:    `if o.FailMode != "" && p.config.failMode.text == "" && p.oneOf(`,
		broken: "the fail mode of a file wins over that of the command line",
	},
	{
		in: "internal/cli/check.(*checker).compareSides", find: "cfg.Apply(r, c.Now()); r.Sort()", put: "r.Sort(); cfg.Apply(&report.Report{}, c.Now())",
		broken: "the configuration is read and not applied",
	},
	{
		in: "internal/cluster.(*tally).keepExample", find: "i == t.keep", put: "len(kept) == t.keep",
		broken: "the examples of a scan depend on what came first",
	},
	{
		in: "internal/cluster.(*tally).scanResult", find: "a.at == b.at", put: "a.at.list == b.at.list",
		broken: "an object is no example because another one is",
	},
	{
		in: "internal/cluster.valueOf", find: "named = depth == 1 &&", put: "named =",
		broken: "a field of an object that is called managedFields is not judged",
	},
}
