package guard

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
)

// A refusal is a text in somebody's terminal, in the condition of an operator, or in an event, each with its own limit. So the
// verdict and the worst finding come first, and then the way out.

// The API server cuts warnings at 256 characters if all of them have more than 4096 (pkg/endpoints/filters/warning.go). It does not
// cut a refusal. But clients put it into conditions (32 kB) and events (1 kB), so the most important part must come first.
const (
	maxMessage  = 4000 // bytes of a refusal, findings and the rest
	maxFindings = 2800 // bytes of the findings in it
	maxText     = 300
	maxWitness  = 700
	maxWarning  = 250 // characters
	maxWarnings = 12
	maxCauses   = 10
	maxEvent    = 1000
)

func operationName(c *change) string {
	if c.removed {
		return "deletion"
	}
	return "update"
}

func countedFindings(failing []report.Finding) string {
	if len(failing) == 1 {
		return "1 finding fails"
	}
	return fmt.Sprintf("%d findings fail", len(failing))
}

// refusalMessage is the message of a refusal: the worst findings, how many more there are, how to see them all, and the way around.
//
// The findings get [maxFindings] bytes at most, so that the digest and the way around fit behind them.
func refusalMessage(c *change, b bypass, failing []report.Finding) string {
	var out strings.Builder
	unsafe := false
	for i := range failing {
		unsafe = unsafe || failing[i].Outcome == report.Violation
	}
	verdict := "cannot be shown to be safe"
	if unsafe {
		verdict = "is unsafe"
	}
	fmt.Fprintf(&out, "this %s of %s %s: %s", operationName(c), c.crd.Name, verdict, countedFindings(failing))
	if c.objects != nil && c.objects.count > 0 {
		out.WriteString(", " + c.objects.String())
	}
	told := 0
	for i := range failing {
		text := "\n" + describeFinding(&failing[i])
		if told > 0 && out.Len()+len(text) > maxFindings {
			break
		}
		out.WriteString(brief.Clip(text, maxFindings))
		told++
	}
	if n := len(failing) - told; n > 0 {
		fmt.Fprintf(&out, "\nand %d more", n)
	}
	if !c.removed {
		out.WriteString("\nsee all, and the stored objects that are affected, with: sluice check NEW.yaml")
	}
	if b.problem != "" {
		out.WriteString("\n" + brief.Clip(brief.OneLine(b.problem), maxText))
	}
	if b.digest != "" {
		fmt.Fprintf(&out, "\nto allow this one change, a user with the right to %s %s.%s sets the annotation %s: \"%s: REASON\"", bypassVerb, bypassResource, bypassGroup, annotation, b.digest)
		if c.removed {
			out.WriteString(" on the CRD")
		}
	}
	return brief.Clip(out.String(), maxMessage)
}

// describeFinding writes one finding in a few lines.
func describeFinding(f *report.Finding) string {
	var out strings.Builder
	level := string(f.Level)
	if f.Outcome == report.Undecided {
		level = "undecided"
	}
	fmt.Fprintf(&out, "- %s, %s", level, f.Rule)
	if where := strings.TrimSpace(f.Version + " " + f.Path); where != "" {
		out.WriteString(", " + brief.Clip(brief.OneLine(where), maxText))
	}
	out.WriteString(": " + brief.Clip(brief.OneLine(f.Message), maxText))
	if f.Reason != "" {
		out.WriteString("\n  why: " + brief.Clip(brief.OneLine(f.Reason), 2*maxText))
	}
	if f.Witness != nil {
		if old := compactJSON(f.Witness.Old); old != "" {
			out.WriteString("\n  stored: " + brief.Clip(old, maxWitness))
		}
		object := "accepted until now"
		if f.Witness.Old != "" {
			object = "its update"
		}
		if f.Witness.Reversed {
			object = "accepted from now on"
		}
		fmt.Fprintf(&out, "\n  %s: %s", object, brief.Clip(compactJSON(f.Witness.Object), maxWitness))
		if f.Witness.Effect != "" {
			out.WriteString("\n  effect: " + brief.Clip(brief.OneLine(f.Witness.Effect), maxText))
		}
	}
	if f.Objects != nil && len(f.Objects.Examples) > 0 {
		out.WriteString("\n  for example " + brief.Clip(brief.OneLine(f.Objects.Examples[0]), maxText))
	}
	return out.String()
}

// compactJSON converts an object from YAML to JSON in one line.
func compactJSON(text string) string {
	if text == "" {
		return ""
	}
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err == nil {
		var out strings.Builder
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		if e.Encode(v) == nil {
			text = out.String()
		}
	}
	return brief.OneLine(text)
}

// admissionWarnings are the findings as admission warnings, the worst first; no more than the API server passes on.
func admissionWarnings(findings []report.Finding) []string {
	var out []string
	for i := range findings {
		if len(out) == maxWarnings {
			return append(out, fmt.Sprintf("and %d more; see all with: sluice check NEW.yaml", len(findings)-i))
		}
		f := &findings[i]
		text := f.Message
		if f.Reason != "" {
			text += ": " + f.Reason
		}
		if where := strings.TrimSpace(f.Version + " " + f.Path); where != "" {
			text = where + ": " + text
		}
		if f.Rule != "" {
			text = f.Rule + ": " + text
		}
		out = append(out, brief.Clip("sluice: "+brief.OneLine(text), maxWarning))
	}
	return out
}

// statusCauses are the findings for programs. That of a deletion is about the field objects if objects are stored, which an apply that
// deletes them first has to know.
func statusCauses(failing []report.Finding) []metav1.StatusCause {
	var out []metav1.StatusCause
	for i := range failing[:min(len(failing), maxCauses)] {
		f := &failing[i]
		about := strings.TrimSpace(f.Version + " " + f.Path)
		if f.Rule == ruleRemoved && f.Outcome == report.Violation {
			about = "objects"
		}
		out = append(out, metav1.StatusCause{
			Type: metav1.CauseType(f.Rule), Field: brief.Clip(brief.OneLine(about), maxText), Message: brief.Clip(brief.OneLine(f.Message), maxText),
		})
	}
	return out
}
