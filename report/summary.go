package report

// How many findings of which kind are there? Everything that counts findings, from the last line of the text to
// the fields of the JSON document, goes through this file.

// Summary counts the findings of a report. Every finding counts in exactly one of Fail, Warn, Notes, Suppressed and Off.
type Summary struct {
	// CRDs counts all CRDs. FailingCRDs and WarningCRDs count those whose worst finding fails or warns.
	CRDs        int `json:"crds"`
	FailingCRDs int `json:"failingCRDs"`
	WarningCRDs int `json:"warningCRDs"`
	// NewCRDs counts the CRDs with the verdict new: they were compared with nothing.
	NewCRDs int `json:"newCRDs"`
	// Fail and Warn count findings by severity, undecided ones included.
	Fail int `json:"fail"`
	Warn int `json:"warn"`
	// Undecided counts the undecided findings among Fail and Warn.
	Undecided int `json:"undecided"`
	// Notes counts the notes that are shown, Suppressed the findings that the user accepted, Off the findings that are not shown.
	Notes      int `json:"notes"`
	Suppressed int `json:"suppressed"`
	Off        int `json:"turnedOff"`
}

// Summary counts the findings of r.
// A CRD counts by its worst finding: as failing, as warning, or as neither.
func (r *Report) Summary() Summary {
	s := Summary{CRDs: len(r.CRDs)}
	for i := range r.CRDs {
		if r.CRDs[i].Verdict == IsNew {
			s.NewCRDs++
		}
		worst := silent
		for j := range r.CRDs[i].Findings {
			f := &r.CRDs[i].Findings[j]
			c := classOf(f)
			worst = min(worst, c)
			switch c {
			case failing:
				s.Fail++
			case warning:
				s.Warn++
			case noting:
				s.Notes++
			case suppressed:
				s.Suppressed++
			case silent:
				s.Off++
			}
			if f.Outcome == Undecided && c <= warning {
				s.Undecided++
			}
		}
		switch worst {
		case failing:
			s.FailingCRDs++
		case warning:
			s.WarningCRDs++
		case noting, suppressed, silent:
		}
	}
	return s
}

// class is the part of a report that shows a finding. The zero value is the most severe.
// Unlike [Severity] it also tells suppressed findings from those that are off by default, and notes from warnings.
type class int

const (
	failing class = iota
	warning
	noting
	suppressed
	silent
	classes int = iota
)

// String returns the word for tables and file formats.
func (c class) String() string {
	return [classes]string{"fail", "warn", "note", "suppressed", "off"}[c]
}

// classOf decides which part of a report shows a finding. A finding that fails is always among the failing ones, so that no report
// looks better than the exit code. A finding with an unknown severity becomes a warning.
func classOf(f *Finding) class {
	switch {
	case f.Severity == Fail:
		return failing
	case f.Suppressed != nil:
		return suppressed
	case f.Severity == Off:
		return silent
	case f.Outcome == Note:
		return noting
	}
	return warning
}
