package feature

// How are mistakes in definitions and settings reported? All at once, sorted, each with the place and the remedy.
// Hostile input can cause any number of them, so beyond some number they are only counted.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says whether a finding is an obstacle.
type Severity string

// The severities.
const (
	// Error: a feature with such a finding is left out of the model; a setting with one reads as not set.
	Error Severity = "error"
	// Warning: worth a look.
	Warning Severity = "warning"
)

// Code names what is wrong, in kebab-case. Codes are API: they are never reused.
type Code string

// Finding is something wrong with a definition or with settings.
type Finding struct {
	Code     Code
	Severity Severity
	// Gate is the feature that it is about; empty if it is about the component, or about settings of no known gate.
	Gate string
	// Entry is the name in the list of gates that it is about, if the name is no feature's.
	Entry string
	// Where is a place in the manifest of the Feature, or of the Component if Gate is empty, for example spec.parts[0].field; or a
	// key of the settings.
	Where string
	// Message describes the problem and the remedy, without gate and place.
	Message string
}

// Waits reports whether a finding is about something that a part gates and that [Options] Resources lack: a resource, a version, a field
// or a value.
func (f Finding) Waits() bool {
	return slices.Contains([]Code{CodeUnknownResource, CodeUnknownVersion, CodeUnknownField, CodeUnknownValue}, f.Code)
}

// String is the finding in one line.
func (f Finding) String() string {
	var b strings.Builder
	for _, s := range []string{f.Gate, f.Where} {
		if s != "" {
			b.WriteString(s + ": ")
		}
	}
	return b.String() + f.Message
}

// maxFindings bounds the reported findings. Hostile settings could cause a hundred thousand.
const maxFindings = 200

// Findings are all that is wrong, sorted by gate, place, code and message, without duplicates. Beyond 200 the rest is
// counted in the last one, whose Code is more-findings.
type Findings []Finding

// CodeMore is the code of the finding that counts those that are not listed.
const CodeMore Code = "more-findings"

// Err returns the findings of severity Error as an [*InvalidError], or nil if there is none.
func (fs Findings) Err() error {
	bad := slices.DeleteFunc(slices.Clone(fs), func(f Finding) bool { return f.Severity != Error })
	if len(bad) == 0 {
		return nil
	}
	return &InvalidError{Findings: bad}
}

// Of returns the findings about one gate.
func (fs Findings) Of(gate string) Findings {
	return slices.DeleteFunc(slices.Clone(fs), func(f Finding) bool { return f.Gate != gate })
}

// InvalidError says that a definition or settings are wrong.
type InvalidError struct {
	// Findings are all of severity Error; there is at least one.
	Findings Findings
}

// Error has a line for each finding.
func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Findings))
	for i, f := range e.Findings {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// findings collects.
type findings struct {
	list  Findings
	more  int
	worst Severity // of the findings that are only counted
}

// addFinding adds a finding, or counts it if there are [maxFindings] already. It does not format the text of one that
// is only counted.
func (c *findings) addFinding(s Severity, code Code, gate, where, format string, args ...any) {
	if c.isFull() {
		c.more++
		if c.worst != Error {
			c.worst = s
		}
		return
	}
	c.list = append(c.list, Finding{Code: code, Severity: s, Gate: gate, Where: where, Message: fmt.Sprintf(format, args...)})
}

func (c *findings) addError(code Code, gate, where, format string, args ...any) {
	c.addFinding(Error, code, gate, where, format, args...)
}

func (c *findings) addWarning(code Code, gate, where, format string, args ...any) {
	c.addFinding(Warning, code, gate, where, format, args...)
}

// isFull reports whether another finding would only be counted.
func (c *findings) isFull() bool { return len(c.list) >= maxFindings }

// hasError reports whether there is an error about the gate.
func (c *findings) hasError(gate string) bool {
	return slices.ContainsFunc(c.list, func(f Finding) bool { return f.Severity == Error && f.Gate == gate })
}

// sortedList returns the findings in order, each once, with one behind them that counts the rest. It sorts the list of
// c itself.
func (c *findings) sortedList() Findings {
	slices.SortStableFunc(c.list, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Gate, b.Gate), strings.Compare(a.Where, b.Where),
			strings.Compare(string(a.Code), string(b.Code)), strings.Compare(a.Message, b.Message))
	})
	out := slices.Compact(c.list)
	if c.more > 0 {
		out = append(out, Finding{Code: CodeMore, Severity: c.worst, Message: fmt.Sprintf("and %d more", c.more)})
	}
	return out
}
