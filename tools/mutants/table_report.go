package main

// reportFaults are faults in the consequences of a finding: severities, the configuration, the exit code.
var reportFaults = []fault{
	{
		file: "report/report.go", old: `if f.Severity == Fail {`, new: `if f.Severity == Fail && f.Outcome == Violation {`,
		broken: "an undecided change does not make the check fail",
	},
	{
		file: "report/report.go", old: `		cmp.Compare(a.Version, b.Version),
		cmp.Compare(a.Path`, new: `		cmp.Compare(a.Path`,
		broken: "findings that differ in the version alone are merged",
	},
	{
		file: "report/level.go", old: `"clients that write such objects", Fail}`, new: `"clients that write such objects", Warn}`,
		broken: "refused writers only warn",
	},
	{
		file: "report/level.go", old: `if i := slices.IndexFunc(Levels(), func(x LevelInfo) bool { return x.ID == l }); i >= 0 {`,
		new:    `if i := slices.IndexFunc(Levels(), func(x LevelInfo) bool { return x.ID == l }); i > 0 {`,
		broken: "the most severe level ranks last",
	},
	{
		file: "report/cause.go", old: `[]string{f.Rule, crd, f.Version, f.Path, f.Before, f.After}`, new: `[]string{f.Rule, crd, f.Path, f.Before, f.After}`,
		broken: "findings in two versions have one fingerprint",
	},
	{
		file: "internal/config/apply.go", old: `s.expires != "" && s.expires < today`, new: `s.expires != "" && s.expires <= today`,
		broken: "a suppression expires a day early",
	},
	{
		file: "internal/config/apply.go", old: `if f.Severity != report.Off && !s.expired(today) {`, new: `if f.Severity != report.Off {`,
		broken: "an expired suppression still accepts findings",
	},
	{
		file: "internal/config/apply.go", old: `if c.FailMode() == FailOpen {`, new: `if c.FailMode() == FailClosed {`,
		broken: "failMode open fails, and closed does not",
	},
	{
		file: "internal/config/apply.go", old: `if s == report.Fail && c.Mode() == ModeWarn {`, new: `if s == report.Fail && f.Outcome == report.Violation && c.Mode() == ModeWarn {`,
		broken: "mode warn fails on an undecided change",
	},
	{
		file: "internal/config/apply.go", old: `if rule == report.Off || rule == report.Warn {`, new: `if rule != "" {`,
		broken: "a rule's severity makes an undecided change fail though the fail mode is open",
	},
	{
		file: "internal/config/apply.go", old: `s.crd.matches(f.CRD) && s.version.matches(f.Version) && `, new: `s.crd.matches(f.CRD) && `,
		broken: "a suppression for one version accepts findings of all",
	},
	{
		file: "internal/config/apply.go", old: `if f.Outcome == report.Note || !s.matches(f) {`, new: `if !s.matches(f) {`,
		broken: "a suppression is used up by a note",
	},
	{
		file: "internal/config/glob.go", old: `(t.star == 2 || strings.IndexByte(separators, text[i]) < 0)`, new: `true`,
		broken: "a star goes on across segments of a path",
	},
	{
		file: "internal/config/own.go", old: `if s.reason == "" {`, new: `if s.reason == "" && s.expires == "" {`,
		broken: "a suppression with a date needs no reason",
	},
	{
		file: "internal/config/parse.go", old: `if line, twice := here[id]; twice {`, new: `if line, twice := here[id]; twice && config != nil {`,
		broken: "a preflight rule may stand in a list twice",
	},
	{
		file: "internal/config/config.go", old: `if o.FailMode != "" && p.oneOf(`, new: `if o.FailMode != "" && p.config.failMode.text == "" && p.oneOf(`,
		broken: "the fail mode of a file wins over that of the command line",
	},
	{
		file: "internal/cli/check.go", old: `cfg.Apply(r, c.now())
	r.Sort()`, new: `r.Sort()
	cfg.Apply(&report.Report{}, c.now())`,
		broken: "the configuration is read and not applied",
	},
	{
		file: "internal/cluster/tally.go", old: `if i == t.keep {`, new: `if len(kept) == t.keep {`,
		broken: "the examples of a scan depend on what came first",
	},
	{
		file: "internal/cluster/tally.go", old: `return a.at == b.at`, new: `return a.at.list == b.at.list`,
		broken: "an object is no example because another one is",
	},
}
